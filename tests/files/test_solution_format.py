"""Solution files of every kind: what is drawn comes back bit for bit, and everything wrong is said at once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.support.drawn_solutions import allocations, hierarchies, placements
from tests.support.same_value import assert_same
from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, TopooptError
from topoopt.core.placement_solution import PlacementSolution
from topoopt.core.solution import SolutionHead
from topoopt.files.file_part import ArrayOf
from topoopt.files.solution_format import SolutionFormat
from topoopt.kinds.allocation.solution_file import SOLUTION_FILE as ALLOCATION
from topoopt.kinds.hierarchy.solution_file import SOLUTION_FILE as HIERARCHY
from topoopt.kinds.placement.solution_file import SOLUTION_FILE as PLACEMENT

DRAWN: dict[str, tuple[SolutionFormat[Any], st.SearchStrategy[Any]]] = {
    "allocation": (ALLOCATION, allocations()),
    "hierarchy": (HIERARCHY, hierarchies()),
    "placement": (PLACEMENT, placements()),
}


@pytest.mark.parametrize("kind", DRAWN)
@settings(max_examples=60)
@given(data=st.data())
def test_what_is_written_comes_back(kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every field, every array and its dtype survive the file; written again, the same bytes."""
    form, solutions = DRAWN[kind]
    solution: SolutionHead = data.draw(solutions)
    path = tmp_path_factory.mktemp("drawn") / "solution.json"
    form.write(solution, path)
    back = form.read(path)
    assert_same(back, solution)
    assert form.text(back) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", DRAWN)
@settings(max_examples=20)
@given(data=st.data())
def test_the_document_is_that_of_the_file(kind: str, data: st.DataObject) -> None:
    """Plain data only: what a JSON reader makes of the text."""
    form, solutions = DRAWN[kind]
    solution = data.draw(solutions)
    assert form.document(solution) == json.loads(form.text(solution))


@pytest.mark.parametrize("kind", DRAWN)
@settings(max_examples=5)
@given(data=st.data())
def test_all_faults_are_told_at_once(kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A key too many, a key too few, a wrong type, a figure out of range and a word that is none: five problems."""
    form, solutions = DRAWN[kind]
    document = form.document(data.draw(solutions))
    del document["method"]
    spoilt = {**document, "extra": 1, "name": 7, "seed": -1, "status": "optimum"}
    path = tmp_path_factory.mktemp("drawn") / "solution.json"
    path.write_text(json.dumps(spoilt, indent=1))
    with pytest.raises(InputError) as caught:
        form.read(path)
    problems = {problem.path: problem for problem in caught.value.problems}
    assert {key: problem.message for key, problem in problems.items()} == {
        "extra": "unknown key extra",
        "method": "missing",
        "name": "wrong type",
        "seed": "out of range",
        "status": "not one of the allowed values",
    }
    assert problems["status"].allowed == "did you mean optimal? One of: optimal, feasible, infeasible, unknown"
    assert problems["seed"].value == "-1"
    assert all(problem.line for problem in problems.values())


@pytest.mark.parametrize("kind", DRAWN)
@settings(max_examples=5)
@given(data=st.data(), value=st.sampled_from([float("nan"), float("inf"), 1e31]))
def test_figures_that_no_file_can_hold_are_never_written(
    kind: str, data: st.DataObject, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A bug upstream ends in an error, and leaves no file behind."""
    form, solutions = DRAWN[kind]
    solution = data.draw(solutions)
    folder = tmp_path_factory.mktemp("drawn")
    with pytest.raises(TopooptError, match="cannot be written"):
        form.write(replace(solution, objective=replace(solution.objective, value=value)), folder / "solution.json")
    assert list(folder.iterdir()) == []


def test_rows_of_different_lengths_are_no_table() -> None:
    """A ragged matrix is refused before an array is made of it; an even one becomes one."""
    tables: TypeAdapter[Floats] = TypeAdapter(Annotated[Floats, ArrayOf(list[float], np.float64)])
    assert tables.validate_python([[1.0, 2.0], [3.0, 4.0]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(ValidationError, match="rows of different lengths"):
        tables.validate_python([[1.0, 2.0], [1.0]])


@settings(max_examples=5)
@given(solution=placements())
def test_numbers_of_numpy_are_written_as_plain_ones(solution: PlacementSolution) -> None:
    """A solver's int64 or float64 in a plain field gives the bytes of the Python number."""
    other = replace(
        solution,
        seed=np.int64(solution.seed),  # type: ignore[arg-type]
        loads=tuple(replace(load, forward_ms=np.float64(load.forward_ms)) for load in solution.loads),
    )
    assert PLACEMENT.text(other) == PLACEMENT.text(solution)
