"""Every public function takes every kind, or names those that it takes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import topoopt
from tests.support.paths import INSTANCES
from tests.support.smallest import SMALLEST, problem_of, solution_of
from topoopt.kinds import KINDS, kind_named

EXPLAINED = {name for name in KINDS if kind_named(name).explain is not None}
EVALUATED = {name for name in KINDS if kind_named(name).evaluate is not None}
"""Kinds that these two take; all others take every kind."""


@cache
def document_of(case: str) -> dict[str, Any]:
    """The solution of the smallest instance as plain data."""
    return solution_of(case).to_dict()


def test_most_kinds_are_explained_and_evaluated() -> None:
    """What cannot be is known, so that a kind does not lose it unseen."""
    assert {"co-optimisation", "routing", "topology", "allocation"} <= EXPLAINED
    assert {"co-optimisation", "routing", "topology"} <= EVALUATED


@pytest.mark.parametrize("case", SMALLEST)
def test_solve_and_check(case: str) -> None:
    """Keywords of `solve` reach the search, and the checker accepts what comes out."""
    kind = problem_of(case).kind
    problem = problem_of(case)
    limits = {"budget": 10} if kind_named(kind).takes_budget else {}
    solution = topoopt.solve(problem, seed=3, objective_only=True, **limits)
    assert solution.seed == 3
    assert topoopt.check(problem, solution).ok
    assert solution.check.ok


@pytest.mark.parametrize("case", SMALLEST)
def test_methods_are_told_with_what_they_do(case: str) -> None:
    """`auto` first, a line for each; an unknown name is refused with the others."""
    known = topoopt.methods(problem_of(case))
    assert next(iter(known)) == "auto"
    assert all(known.values())
    with pytest.raises(topoopt.InputError, match=r"unknown method.*auto"):
        topoopt.solve(problem_of(case), method="luck")


@pytest.mark.parametrize("case", SMALLEST)
def test_solutions_are_written_and_read(case: str, tmp_path: Path) -> None:
    """The file, `to_dict`, and what is read back hold the same."""
    path = tmp_path / "solution.json"
    topoopt.write_solution(solution_of(case), path)
    assert json.loads(path.read_text()) == json.loads(json.dumps(document_of(case)))
    assert topoopt.read_solution(path).to_dict() == document_of(case)


@pytest.mark.parametrize("case", [case for case, file in SMALLEST.items() if file])
def test_instances_come_from_mappings(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document of the file makes the problem of the file; files it names are found from the working directory."""
    from topoopt.files.documents import parse_document

    file = INSTANCES / SMALLEST[case]
    monkeypatch.chdir(file.parent)
    data = parse_document(file).data
    assert topoopt.instance_from_dict(data).sha256 == topoopt.read_instance(file).sha256
    with pytest.raises(topoopt.InputError, match="unknown key colour"):
        topoopt.instance_from_dict({**data, "colour": "red"})


@pytest.mark.parametrize("case", SMALLEST)
def test_reports_are_pages(case: str) -> None:
    """Complete, and about this solution."""
    page = topoopt.report(solution_of(case))
    assert page.startswith("<!doctype html>")
    assert solution_of(case).name in page


@pytest.mark.parametrize("case", SMALLEST)
def test_explain_says_it_in_words_or_names_who_can(case: str) -> None:
    """What limits a solution; a kind that is not explained is refused with those that are."""
    kind = problem_of(case).kind
    if case == "topology of several demands":
        with pytest.raises(topoopt.InputError, match="one demand"):
            topoopt.explain(solution_of(case), problem_of(case))
    elif kind in EXPLAINED:
        found = topoopt.explain(solution_of(case), problem_of(case), checks=1)
        assert found.words
        assert str(found) == "\n".join(found.words)
    else:
        with pytest.raises(topoopt.InputError, match=f"no explain .value: {kind}.; allowed: .*routing"):
            topoopt.explain(solution_of(case))


@pytest.mark.parametrize("case", SMALLEST)
def test_evaluate_takes_up_a_solution_or_names_who_can(case: str) -> None:
    """A solution's own topology and strategy: a checked solution again, no better than its bound."""
    kind = problem_of(case).kind
    if kind in EVALUATED:
        found = topoopt.evaluate(problem_of(case), solution_of(case))
        assert found.check.ok, found.check.violations
        assert found.objective.value >= solution_of(case).bound.value * (1 - 1e-9)
        assert found.method == "given" or kind == "routing"
    else:
        with pytest.raises(topoopt.InputError, match=f"no evaluate .value: {kind}.; allowed: .*routing"):
            topoopt.evaluate(problem_of(case), solution_of(case))


@pytest.mark.parametrize("case", SMALLEST)
def test_compare_gives_the_rows_of_the_command(case: str) -> None:
    """One method of each kind, a row for each seed."""
    kind = problem_of(case).kind
    from topoopt.core.outcomes import COLUMNS

    found = topoopt.compare(problem_of(case), methods=["auto"], seeds=[4], time_limit_s=20)
    (row,) = found.records()
    assert tuple(row) == COLUMNS
    assert (row["kind"], row["method"], row["seed"]) == (kind, "auto", 4)
    assert row["checked"]
    assert found.table().num_rows == len(found) == 1


@pytest.mark.parametrize("case", SMALLEST)
def test_solutions_are_tables(case: str) -> None:
    """Arrow tables; the figures are those of the solution, the links those of its topology."""
    solution, tables = solution_of(case), solution_of(case).tables()
    assert all(isinstance(table, pa.Table) for table in tables.values())
    (figures,) = tables["figures"].to_pylist()
    assert figures["objective_value"] == solution.objective.value
    assert figures["status"] == solution.status.value
    assert len(tables) > 1
    topology = getattr(solution, "topology", None) or getattr(getattr(solution, "plan", None), "topology", None)
    if topology is not None:
        assert sum(tables["links"]["links"].to_pylist()) == int(topology.multiplicity.sum())


@pytest.mark.parametrize("case", SMALLEST)
def test_notebooks_show_a_short_block(case: str) -> None:
    """Problem and solution: the name, self-contained, small; a picture where there is a topology."""
    kind = problem_of(case).kind
    for shown in (problem_of(case), solution_of(case)):
        html = shown._repr_html_()
        assert shown.name in html
        assert len(html) < 200_000
        assert not [word for word in ("<script", "http:", "https:", "src=", "href=") if word in html]
    assert f"{solution_of(case).kind}, {solution_of(case).status}" in solution_of(case)._repr_html_()
    assert len(repr(solution_of(case))) < 300
    if kind in ("co-optimisation", "routing", "topology", "allocation"):
        assert "<svg" in solution_of(case)._repr_html_()


def test_a_solution_of_another_kind_is_refused() -> None:
    """Not a traceback of the checker."""
    with pytest.raises(topoopt.InputError, match=r"not a solution of this problem.*allocation"):
        topoopt.check(problem_of("allocation"), solution_of("placement"))
    with pytest.raises(topoopt.InputError, match="neither an instance nor a solution"):
        topoopt.solve("instances/tiny-4.yaml")
