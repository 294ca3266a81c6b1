"""What problems and solutions look like in a console: one line each, whatever their size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.paths import ROOT
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.kinds.files import read_instance

INSTANCES = sorted(
    path for path in (ROOT / "instances").rglob("*.yaml") if "studies" not in path.parts and "kind:" in path.read_text()
)


def parts(value: object, depth: int = 0) -> Iterator[object]:
    """A value, and all that it holds, a few of each list."""
    yield value
    if is_dataclass(value) and depth < 6:
        for field in fields(value):
            yield from parts(getattr(value, field.name), depth + 1)
    elif isinstance(value, tuple) and depth < 6:
        for item in value[:3]:
            yield from parts(item, depth + 1)


@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.stem)
def test_problems_and_what_they_hold_are_one_short_line(path: Path) -> None:
    """Of every shipped instance, at every depth."""
    for part in parts(read_instance(path)):
        if is_dataclass(part):
            text = repr(part)
            assert len(text) < 1000, text
            assert "\n" not in text


def test_a_solution_says_what_was_found(ring_solution: Result[Any, Any]) -> None:
    """Status, objective, bound and verdict; what it holds is short as well."""
    text = repr(ring_solution)
    objective = ring_solution.objective
    assert text.startswith(f"<Result {ring_solution.name!r}: {ring_solution.status}, {objective.name}")
    assert f"bound {ring_solution.bound.value:.6g}" in text
    assert all(len(repr(part)) < 1000 for part in parts(ring_solution) if is_dataclass(part))


def test_arrays_are_told_by_type_and_shape() -> None:
    """A topology of a thousand servers is no longer than one of four."""
    start = np.arange(1000)
    text = repr(Topology.from_edges(np.column_stack((start, (start + 1) % 1000))))
    assert "arcs=int32[2000, 2]" in text
    assert "servers=1000, degree=2, links=bidirectional" in text
