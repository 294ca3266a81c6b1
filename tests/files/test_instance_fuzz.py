"""Random damage to valid files: they load or are refused, nothing else."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topoopt.core.errors import InputError
from topoopt.core.result import Result
from topoopt.files.documents import parse_document
from topoopt.kinds.files import read_instance
from topoopt.kinds.job import SOLUTION_FILE

ODD = st.sampled_from(
    [
        math.nan, math.inf, -math.inf, -1, 0, 1, 3, 10**9, 10**30, 10**400, -0.0, 1e-320, 1e308, 0.5, True, False, None,
        "", "x", "NaN", "\x00", "\ud800", "a" * 300, "../x", "first", "second", [], {}, [[]], [None], [1, 2, 3],
        {"a": 1}, {"": {"": []}}, {"model": "dlrm"}, {"operators": []}, ["first"] * 50,
    ]
)  # fmt: skip


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths of everything in a document but its root."""
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [place for key, item in inside for place in ((*path, key), *places(item, (*path, key)))]


def damage(document: Any, data: st.DataObject) -> None:
    """Replace, remove or add one thing."""
    spots = places(document)
    path = data.draw(st.sampled_from(spots))
    target = document
    for part in path[:-1]:
        target = target[part]
    action = data.draw(st.sampled_from(["replace", "replace", "replace", "remove", "add", "copy"]))
    if action == "replace":
        target[path[-1]] = copy.deepcopy(data.draw(ODD))
    elif action == "remove":
        del target[path[-1]]
    elif action == "add" and isinstance(target, dict):
        target[data.draw(st.text(max_size=5))] = copy.deepcopy(data.draw(ODD))
    elif action == "add":
        target.append(copy.deepcopy(data.draw(ODD)))
    elif isinstance(target, list):
        target.append(copy.deepcopy(target[int(path[-1])]))


def refusal(read: Callable[[Path], object], path: Path) -> InputError | None:
    """The error of a file that is refused, None if it loads; any other exception is let through."""
    try:
        read(path)
    except InputError as error:
        return error
    return None


def outcome(read: Callable[[Path], object], path: Path) -> bool:
    """Whether the file loads; a refusal must list problems, each with the file and on one line."""
    error = refusal(read, path)
    if error is None:
        return True
    assert error.problems
    for problem in error.problems:
        assert problem.file is not None
        assert "\n" not in str(problem)
    return False


@pytest.mark.parametrize("shape", ["graph", "model"])
@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_instances_load_or_are_refused(
    scratch: Path, graph_instance: dict[str, Any], model_yaml: str, shape: str, data: st.DataObject
) -> None:
    """One to three wounds anywhere in a document give an instance or an InputError, never another exception."""
    path = scratch / "damaged.json"
    if shape == "graph":
        document = copy.deepcopy(graph_instance)
    else:
        (scratch / "model.yaml").write_text(model_yaml)
        document = copy.deepcopy(parse_document(scratch / "model.yaml").data)
    for _ in range(data.draw(st.integers(1, 3))):
        if not places(document):
            break
        damage(document, data)
    path.write_text(json.dumps(document), encoding="utf-8")
    outcome(read_instance, path)


@given(data=st.data())
@settings(max_examples=150)
def test_damaged_solutions_load_or_are_refused(
    scratch: Path, ring_solution: Result[Any, Any], data: st.DataObject
) -> None:
    """What loads in spite of its wounds can be used: it is written again, and its tables can be indexed."""
    path = scratch / "damaged-solution.json"
    document = json.loads(SOLUTION_FILE.text(ring_solution))
    for _ in range(data.draw(st.integers(1, 3))):
        damage(document, data)
    path.write_text(json.dumps(document), encoding="utf-8")
    if outcome(SOLUTION_FILE.read, path):
        solution = SOLUTION_FILE.read(path)
        assert SOLUTION_FILE.text(solution)
        topology = solution.plan.topology
        assert topology.arc_ids().shape == (topology.servers, topology.servers)
        assert max(solution.plan.routes.node, default=0) < topology.servers


@given(data=st.data())
@settings(max_examples=100)
def test_damaged_text_loads_or_is_refused(scratch: Path, model_yaml: str, data: st.DataObject) -> None:
    """Cutting a YAML file and gluing odd text into it never breaks the reader."""
    at = data.draw(st.integers(0, len(model_yaml)))
    glue = data.draw(st.text(" \n\t:-{}[]&*!'\"#,?|>%@abc019.", max_size=12))
    skip = data.draw(st.integers(0, 20))
    path = scratch / "damaged.yaml"
    path.write_text(model_yaml[:at] + glue + model_yaml[at + skip :], encoding="utf-8")
    outcome(read_instance, path)
