"""Every kind does everything its record says: read, solve, check, write, read back, report, show, explain."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import topoopt.kinds
from tests.support.paths import INSTANCES, ROOT
from topoopt.core.errors import InputError
from topoopt.core.verdict import Status
from topoopt.kinds import KINDS, kind_named, kind_of
from topoopt.kinds.instance_file import located, read_instance
from topoopt.kinds.kind import Question, SolveOptions
from topoopt.kinds.pipeline import search_problems, solve
from topoopt.kinds.solution_file import read_solution, write_solution

SMALLEST = {
    "co-optimisation": "tiny-4.yaml",
    "hierarchical-bandwidth": "hierarchical/resnet50-3d.yaml",
    "routing": "networks/k4-4.yaml",
    "topology": "networks/uniform-5-2.yaml",
    "allocation": "networks/parking-lot-5.yaml",
    "placement": "placement/towers-3.yaml",
    "shared-cluster": "shared/trace-16.yaml",
    "robust-network": "robust/hot-experts-8.yaml",
}


@cache
def problem_of(kind: str) -> Any:
    """The smallest shipped instance of a kind, made smaller still where that is not small."""
    found = read_instance(INSTANCES / SMALLEST[kind])
    if kind == "shared-load":
        return replace(found, loads=(1,), repetitions=1)
    return found


@cache
def solution_of(kind: str) -> Any:
    """Solved by the method that is chosen by default, with a small budget where there is one."""
    budget = 20 if kind_named(kind).takes_budget else None
    return solve(problem_of(kind), SolveOptions(budget=budget, seed=1))


def test_every_module_of_a_kind_has_a_line() -> None:
    """A module that defines RECORDS and stands in no line would be dead; every record is named as in its line."""
    root = Path(topoopt.kinds.__file__).parent
    modules = set()
    for file in root.rglob("*.py"):
        names = [
            target.id
            for node in ast.parse(file.read_text()).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        if "RECORDS" in names:
            modules.add(".".join(("topoopt.kinds", *file.relative_to(root).with_suffix("").parts)))
    assert modules == set(KINDS.values())
    assert set(SMALLEST) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_reads_and_solves_what_is_its_own(kind: str) -> None:
    """The classes of the record are those of what it reads and finds; both lead back to the record."""
    record, problem, solution = kind_named(kind), problem_of(kind), solution_of(kind)
    assert record.name == problem.kind == solution.kind == kind
    assert record is kind_of(problem) is kind_of(solution)
    assert isinstance(problem, record.problem)
    assert isinstance(solution, record.solution)
    assert record.summary
    methods = record.methods(problem)
    assert "auto" in methods
    assert all(method.name == name and method.summary for name, method in methods.items())


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_solved_is_checked_and_settled(kind: str) -> None:
    """The solution carries the verdict of the checker, which gives it again, and a bound on the right side."""
    record, problem, solution = kind_named(kind), problem_of(kind), solution_of(kind)
    assert solution.check.ok, solution.check.violations
    assert tuple(record.check(problem, solution)) == ()
    assert solution.status in (Status.OPTIMAL, Status.FEASIBLE)
    value, bound = solution.objective.value, solution.bound.value
    assert value <= bound if record.maximise(problem) else bound <= value
    assert (solution.status is Status.OPTIMAL) <= (solution.gap <= 1e-6)
    assert solution.seed == 1
    assert solution.instance_sha256 == problem.sha256


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_of_another_instance_is_rejected(kind: str) -> None:
    """Every checker holds the solution against the instance it is said to solve."""
    record, solution = kind_named(kind), solution_of(kind)
    other = replace(problem_of(kind), sha256="0" * 64)
    assert tuple(record.check(other, solution))


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_comes_back_from_its_file(kind: str, tmp_path: Path) -> None:
    """Written twice it has the same bytes, and what is read is accepted by the checker."""
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    write_solution(solution_of(kind), first)
    back = read_solution(first)
    write_solution(back, second)
    assert first.read_bytes() == second.read_bytes()
    assert tuple(kind_named(kind).check(problem_of(kind), back)) == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_is_shown(kind: str) -> None:
    """A page, figures that are plain data beside those all kinds have, and text with the name and a figure."""
    pages, problem, solution = kind_named(kind).pages(), problem_of(kind), solution_of(kind)
    page = pages.report(solution)
    assert page.startswith("<!doctype html>")
    assert solution.name in page
    figures = pages.figures(problem, solution)
    assert figures
    assert not set(figures) & {"objective", "bound", "status", "check", "notes"}
    text = io.StringIO()
    pages.show(Console(file=text, width=200, color_system=None), solution, 1.0)
    assert solution.name in text.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_can_be_explained_is(kind: str) -> None:
    """In words and in figures."""
    record = kind_named(kind)
    if record.explain is None:
        pytest.skip("not explained")
    found = record.explain(problem_of(kind), solution_of(kind), Question(checks=1, time_limit_s=30.0))
    assert found.words
    assert found.figures


@pytest.mark.parametrize("kind", KINDS)
def test_laws_of_search_settings_are_the_same_for_all(kind: str) -> None:
    """An unknown method, ranges, and a budget where there is none, all at once and before anything is solved."""
    record, problem = kind_named(kind), problem_of(kind)
    assert search_problems(record, problem) == []
    wrong = SolveOptions(seed=-1, time_limit_s=float("nan"), budget=-2, method="luck")
    with pytest.raises(InputError) as caught:
        solve(problem, wrong)
    paths = [found.path for found in caught.value.problems]
    expected = ["search.method", "search.seed", "search.budget", "search.time_limit_s"]
    assert paths == (expected if record.takes_budget else [*expected, "--budget"])
    assert "auto" in (caught.value.problems[0].allowed or "")


def test_problems_of_settings_have_their_line(tmp_path: Path) -> None:
    """Whatever the kind."""
    file = tmp_path / "net.yaml"
    lines = (INSTANCES / SMALLEST["routing"]).read_text().rstrip().splitlines()
    file.write_text("\n".join([*lines, "search:", "  method: luck"]) + "\n")
    problem = read_instance(file)
    (found,) = located(search_problems(kind_of(problem), problem), file)
    assert (found.file, found.line, found.path) == (str(file), len(lines) + 2, "search.method")


def test_what_is_no_kind_is_refused() -> None:
    """A name that is in no line, and a thing without one."""
    with pytest.raises(InputError, match="no such kind"):
        kind_named("luck")
    with pytest.raises(InputError, match="neither an instance nor a solution"):
        kind_of(3)


@pytest.mark.parametrize("kind", KINDS)
def test_checking_loads_no_solver_and_no_other_kind(kind: str) -> None:
    """The record of a kind with its checker, in a process of its own."""
    script = (
        "import sys\n"
        "from topoopt.kinds import kind_named, KINDS\n"
        f"record = kind_named({kind!r})\n"
        "own = KINDS[record.name]\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('solvers', 'formulations', 'numba', 'highspy', 'ortools')"
        " or m in set(KINDS.values()) - {own}])\n"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
