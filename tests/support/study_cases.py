"""Instances and studies for the tests of studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topoopt.studies.figures import Drawing, draw
from topoopt.studies.schema import Figure, StudyFile

LIMITS = {"wall_s": 60, "memory_mib": 1500}


def routing(name: str = "ring", **changes: Any) -> dict[str, Any]:
    """A small instance: uniform demand on a ring of four."""
    return {
        "schema_version": 1,
        "kind": "routing",
        "name": name,
        "topology": {"family": "ring", "servers": 4},
        "demand": {"family": "uniform"},
        **changes,
    }


def study(*groups: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A study of these groups."""
    return {
        "schema_version": 1,
        "kind": "study",
        "name": "tested",
        "instances": list(groups),
        "limits": LIMITS,
        **changes,
    }


def plain_study(**changes: Any) -> StudyFile:
    """A study for figures of rows made by hand."""
    return StudyFile(schema_version=1, kind="study", name="tested", instances=[], **changes)


def drawn(figure: Figure, rows: Sequence[dict[str, Any]], factors: Sequence[str] = ("d",), **changes: Any) -> Drawing:
    """A figure of such a study."""
    return draw(figure, rows, factors, plain_study(**changes))
