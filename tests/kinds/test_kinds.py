"""Every kind does everything its record says: read, solve, check, write, read back, report, show, explain."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import topoopt.kinds
from solvers.stop import Stop
from tests.support.paths import INSTANCES, ROOT
from tests.support.smallest import SMALLEST, problem_of, solution_of
from topoopt.core.errors import InputError
from topoopt.core.proofs import Status
from topoopt.kinds import KINDS, kind_named, kind_of
from topoopt.kinds.files import located, read_instance, read_solution, write_solution
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import Question, search_problems, solve
from topoopt.verify.checker import FULL

UNEXPLAINED = {"hierarchical-bandwidth", "placement", "shared-cluster", "parallel-circuits"}


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
            modules.add(
                ".".join(("topoopt.kinds", *file.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
            )
    assert modules == set(KINDS.values())
    assert {problem_of(case).kind for case in SMALLEST} == set(KINDS)


@pytest.mark.parametrize("case", SMALLEST)
def test_a_kind_reads_and_solves_what_is_its_own(case: str) -> None:
    """What a record reads and what it finds both lead back to it."""
    record, problem, solution = kind_of(problem_of(case)), problem_of(case), solution_of(case)
    assert record.name == problem.kind == solution.kind
    assert record is kind_named(record.name)
    assert record is kind_of(problem) is kind_of(solution)
    methods = record.methods(problem)
    assert "auto" in methods
    assert all(method.name == name and method.summary for name, method in methods.items())


@pytest.mark.parametrize("case", SMALLEST)
def test_what_is_solved_is_checked_and_settled(case: str) -> None:
    """The solution carries the verdict of the checker, which gives it again, and a bound on the right side."""
    record, problem, solution = kind_of(problem_of(case)), problem_of(case), solution_of(case)
    assert solution.check.ok, solution.check.violations
    assert record.check(problem, solution, FULL).ok
    assert solution.status in (Status.OPTIMAL, Status.FEASIBLE)
    value, bound = solution.objective.value, solution.bound.value
    assert value <= bound if record.maximise(problem) else bound <= value
    assert (solution.status is Status.OPTIMAL) <= (solution.gap <= 1e-6)
    assert solution.seed == 1
    assert solution.instance_sha256 == problem.sha256


@pytest.mark.parametrize("case", SMALLEST)
def test_a_solution_of_another_instance_is_rejected(case: str) -> None:
    """Every checker holds the solution against the instance it is said to solve."""
    record, solution = kind_of(problem_of(case)), solution_of(case)
    other = replace(problem_of(case), sha256="0" * 64)
    assert not record.check(other, solution, FULL).ok


@pytest.mark.parametrize("case", SMALLEST)
def test_a_solution_comes_back_from_its_file(case: str, tmp_path: Path) -> None:
    """Written twice it has the same bytes, and what is read is accepted by the checker."""
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    write_solution(solution_of(case), first)
    back = read_solution(first)
    write_solution(back, second)
    assert first.read_bytes() == second.read_bytes()
    assert kind_of(problem_of(case)).check(problem_of(case), back, FULL).ok


@pytest.mark.parametrize("case", SMALLEST)
def test_a_solution_is_shown(case: str) -> None:
    """A page, figures that are plain data beside those all kinds have, and text with the name and a figure."""
    pages, problem, solution = kind_of(problem_of(case)).pages(), problem_of(case), solution_of(case)
    page = pages.report(solution)
    assert page.startswith("<!doctype html>")
    assert solution.name in page
    figures = pages.figures(problem, solution)
    assert figures
    assert not set(figures) & {"objective", "bound", "status", "check", "notes"}
    text = io.StringIO()
    pages.show(Console(file=text, width=200, color_system=None), solution, 1.0)
    assert solution.name in text.getvalue()


@pytest.mark.parametrize("case", SMALLEST)
def test_a_kind_that_can_be_explained_is(case: str) -> None:
    """In words and in figures; a network for several demands says that it is for one."""
    record = kind_of(problem_of(case))
    if record.explain is None:
        assert record.name in UNEXPLAINED
        return
    if case == "topology of several demands":
        with pytest.raises(InputError, match="one demand"):
            record.explain()(solution_of(case), Question())
        return
    found = record.explain()(solution_of(case), Question(checks=1, stop=Stop().within(30.0)))
    assert found.words
    assert found.figures


@pytest.mark.parametrize("case", SMALLEST)
def test_laws_of_search_settings_are_the_same_for_all(case: str) -> None:
    """An unknown method, ranges, and a budget where there is none, all at once and before anything is solved."""
    record, problem = kind_of(problem_of(case)), problem_of(case)
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
    lines = (INSTANCES / "networks/k4-4.yaml").read_text().rstrip().splitlines()
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
    """The record of a kind with its checker, in a process of its own; classes of a shared cluster are jobs."""
    whose = {"shared-cluster": ["topoopt.kinds.job"]}.get(kind, [])
    script = (
        "import sys\n"
        "from topoopt.kinds import kind_named, KINDS\n"
        f"record = kind_named({kind!r})\n"
        "own = KINDS[record.name]\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('solvers', 'formulations', 'highspy', 'ortools')"
        " or m in set(KINDS.values()) - {own, *WHOSE}])\n"
    ).replace("WHOSE", repr(whose))
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_solvers_load_no_library_that_takes_a_second() -> None:
    """A time limit of a second has none to spare for Pyomo, SciPy's statistics or OR-Tools before the search."""
    script = (
        "import sys\n"
        "from topoopt.kinds import kind_named, KINDS\n"
        "for kind in KINDS:\n"
        "    kind_named(kind).solver(), kind_named(kind).pages()\n"
        "print([m for m in ('pyomo', 'scipy.stats', 'ortools', 'networkx', 'pandas') if m in sys.modules])\n"
    )
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["co-optimisation", "routing"])
def test_a_part_of_a_solution_stands_for_the_whole(name: str) -> None:
    """What is written to measure how long the file takes is no more than all of it, and says at least as much of it."""
    solution = solution_of(name)
    kind = kind_named(solution.kind)
    excerpt = kind.solver().excerpt
    assert excerpt is not None
    part, longer = excerpt(solution)
    whole, some = (len(kind.files.solutions.text(each)) for each in (solution, part))
    assert some <= whole <= longer * some
