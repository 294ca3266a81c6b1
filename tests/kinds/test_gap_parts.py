"""What of a gap a better bound may close: parts by hand, the order of traffic on a switch, explain and report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from topoopt.core.cluster import LinkSharing
from topoopt.core.job import Baseline, CoOptimisation
from topoopt.core.proofs import Argument, Bound, Status
from topoopt.core.result import Result
from topoopt.kinds.files import read_instance, read_solution
from topoopt.kinds.job.figures import UNREACHED, GapParts, JobFigures, gap_parts, order_free, reached
from topoopt.kinds.job.page import facts, provenance

SWITCH = "an ideal switch"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the solution."""
    return tmp_path_factory.mktemp("gap")


@pytest.fixture(scope="module")
def plan(folder: Path) -> tuple[CoOptimisation, Result[Any, Any]]:
    """DLRM on 16 servers after few proposals."""
    result = run("solve", INSTANCES / "dlrm-16.yaml", "--output", folder, "--budget", 300, "--json")
    assert result.code == 0, result.stderr
    instance, solution = read_instance(INSTANCES / "dlrm-16.yaml"), read_solution(folder / "solution.json")
    assert isinstance(instance, CoOptimisation)
    assert isinstance(solution, Result)
    return instance, solution


def _on(solution: Result[Any, Any], *baselines: Baseline) -> JobFigures:
    """Figures with the job on other fabrics."""
    figures = JobFigures(solution.problem, solution.plan)
    vars(figures)["baselines"] = baselines
    return figures


def _with(solution: Result[Any, Any], value: float, bound: float, status: Status = Status.FEASIBLE) -> Result[Any, Any]:
    objective = replace(solution.objective, value=value)
    return replace(solution, objective=objective, bound=Bound(bound, Argument.COMPUTE_WORK), status=status)


def test_parts_by_hand(plan: tuple[CoOptimisation, Result[Any, Any]]) -> None:
    """A plan of 100 ms, 80 proven: what the switch reaches says who may close the 20 %."""
    _, solution = plan
    case = _with(solution, 100.0, 80.0)
    assert gap_parts(case, (95.0, SWITCH)) == GapParts(95.0, SWITCH, pytest.approx(0.15), pytest.approx(0.05))
    assert gap_parts(case, (85.0, SWITCH)) == GapParts(85.0, SWITCH, pytest.approx(0.05), pytest.approx(0.15))
    for limit, words in ((95.0, "a better bound"), (85.0, "a better plan")):
        known = gap_parts(case, (limit, SWITCH))
        assert known is not None
        assert known.likelier == words
    # A bound may know the links, and a search may fail on the switch.
    assert gap_parts(case, (70.0, SWITCH)) == GapParts(80.0, SWITCH, 0.0, pytest.approx(0.2))
    assert gap_parts(case, (130.0, SWITCH)) == GapParts(100.0, SWITCH, pytest.approx(0.2), 0.0)
    assert gap_parts(case, UNREACHED) is None
    assert gap_parts(_with(solution, 80.0, 80.0, Status.OPTIMAL), (70.0, SWITCH)) is None


def test_a_switch_of_other_interfaces_does_not_count(plan: tuple[CoOptimisation, Result[Any, Any]]) -> None:
    _, solution = plan
    own = next(line for line in solution.figures.baselines if line.fabric == "ideal-switch")
    assert reached(solution.figures) == (own.iteration_time_ms, SWITCH)
    faster = replace(own, description="one non-blocking switch, 1e+06 Gbit/s per server")
    assert reached(_on(solution, faster)) == UNREACHED


def test_a_random_graph_of_the_same_links_is_a_plan(plan: tuple[CoOptimisation, Result[Any, Any]]) -> None:
    """What it reaches no bound is above; one of other links says nothing."""
    _, solution = plan
    graph = next(line for line in solution.figures.baselines if line.fabric == "random-regular")
    fast = replace(graph, iteration_time_ms=solution.bound.value)
    known = reached(_on(solution, *solution.figures.baselines, fast))
    assert known == (solution.bound.value, "a random graph of the same links")
    parts = gap_parts(solution, known)
    assert parts is not None
    assert (parts.likelier, known[1] in parts.words) == ("a better plan", True)
    other = replace(fast, description=fast.description.replace("100 Gbit/s", "200 Gbit/s"))
    assert other != fast
    assert reached(_on(solution, other)) == UNREACHED


def test_the_strategies_of_all_fabrics_are_tried(plan: tuple[CoOptimisation, Result[Any, Any]]) -> None:
    """One that was found for a fat-tree may be the fastest on the switch."""
    _, solution = plan
    own = next(line for line in solution.figures.baselines if line.fabric == "ideal-switch")
    tree = next(line for line in solution.figures.baselines if line.fabric == "fat-tree")
    known = order_free(_on(solution, replace(tree, strategy=own.strategy)))
    assert known[0] <= own.iteration_time_ms


def test_transfers_first_on_the_switch(plan: tuple[CoOptimisation, Result[Any, Any]]) -> None:
    """No more than in the order of the instance, never below the bound; a plan alone has a limit too."""
    _, solution = plan
    known = order_free(solution.figures)
    assert solution.bound.value <= known[0] <= reached(solution.figures)[0]
    alone = order_free(_on(solution))
    assert known <= alone < UNREACHED
    first = replace(solution, plan=replace(solution.plan, link_sharing=LinkSharing.TRANSFERS_FIRST))
    assert order_free(_on(first)) >= alone


def test_in_words_and_figures(plan: tuple[CoOptimisation, Result[Any, Any]], folder: Path) -> None:
    """The solution carries its instance; a file of it beside says the same."""
    _, solution = plan
    file = folder / "solution.json"
    with_it = run("explain", file, "--json").json
    without = run("explain", file, "--json").json
    for told in (with_it, without):
        parts = told["gap_parts"]
        assert parts["bound_at_most"] + parts["plan_at_least"] == pytest.approx(solution.gap)
        assert sum("is likelier." in line for line in told["words"]) == 1
    assert with_it["gap_parts"] == without["gap_parts"]
    assert with_it["gap_parts"]["limit_ms"] <= reached(solution.figures)[0]


def test_in_the_report(plan: tuple[CoOptimisation, Result[Any, Any]]) -> None:
    _, solution = plan
    parts = gap_parts(solution, reached(solution.figures))
    assert parts is not None
    names = {fact.name: fact.value for fact in facts(solution, solution.figures)}
    assert names["gap likelier closed by"] == parts.likelier
    assert ("gap", parts.words) in provenance(solution, solution.figures)
    assert not any("likelier" in fact.name for fact in facts(solution, _on(solution)))
    assert "gap" not in dict(provenance(solution, _on(solution)))
