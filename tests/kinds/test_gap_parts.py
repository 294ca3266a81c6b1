"""What of a gap a better bound may close: parts by hand, the order of traffic on a switch, explain and report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from topoopt.core.cluster import LinkSharing
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.proofs import Argument, Bound
from topoopt.core.verdict import Status
from topoopt.kinds.instance_file import read_instance
from topoopt.kinds.job.gap import GapParts, KnownTime, gap_parts, reached
from topoopt.kinds.job.order_free import order_free
from topoopt.kinds.job.report import provenance, verdict_cards
from topoopt.kinds.solution_file import read_solution
from topoopt.verify.laws.findings import CheckDepth

SWITCH = "an ideal switch"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the solution."""
    return tmp_path_factory.mktemp("gap")


@pytest.fixture(scope="module")
def plan(folder: Path) -> tuple[CoOptimisation, JobSolution]:
    """DLRM on 16 servers after few proposals."""
    result = run("solve", INSTANCES / "dlrm-16.yaml", "--out", folder, "--budget", 300, "--json")
    assert result.code == 0, result.stderr
    instance, solution = read_instance(INSTANCES / "dlrm-16.yaml"), read_solution(folder / "solution.json")
    assert isinstance(instance, CoOptimisation)
    assert isinstance(solution, JobSolution)
    return instance, solution


def _with(solution: JobSolution, value: float, bound: float, status: Status = Status.FEASIBLE) -> JobSolution:
    objective = replace(solution.objective, value=value)
    return replace(solution, objective=objective, bound=Bound(bound, Argument.COMPUTE_WORK), status=status)


def test_parts_by_hand(plan: tuple[CoOptimisation, JobSolution]) -> None:
    """A plan of 100 ms, 80 proven: what the switch reaches says who may close the 20 %."""
    _, solution = plan
    case = _with(solution, 100.0, 80.0)
    assert gap_parts(case, KnownTime(95.0)) == GapParts(95.0, SWITCH, pytest.approx(0.15), pytest.approx(0.05))
    assert gap_parts(case, KnownTime(85.0)) == GapParts(85.0, SWITCH, pytest.approx(0.05), pytest.approx(0.15))
    for limit, words in ((95.0, "a better bound"), (85.0, "a better plan")):
        known = gap_parts(case, KnownTime(limit))
        assert known is not None
        assert known.likelier == words
    # A bound may know the links, and a search may fail on the switch.
    assert gap_parts(case, KnownTime(70.0)) == GapParts(80.0, SWITCH, 0.0, pytest.approx(0.2))
    assert gap_parts(case, KnownTime(130.0)) == GapParts(100.0, SWITCH, pytest.approx(0.2), 0.0)
    assert gap_parts(case, KnownTime()) is None
    assert gap_parts(_with(solution, 80.0, 80.0, Status.OPTIMAL), KnownTime(70.0)) is None


def test_a_switch_of_other_interfaces_does_not_count(plan: tuple[CoOptimisation, JobSolution]) -> None:
    _, solution = plan
    own = next(line for line in solution.baselines if line.fabric == "ideal-switch")
    assert reached(solution) == KnownTime(own.iteration_time_ms)
    faster = replace(own, description="one non-blocking switch, 1e+06 Gbit/s per server")
    assert reached(replace(solution, baselines=(faster,))) == KnownTime()


def test_a_random_graph_of_the_same_links_is_a_plan(plan: tuple[CoOptimisation, JobSolution]) -> None:
    """What it reaches no bound is above; one of other links says nothing."""
    _, solution = plan
    graph = next(line for line in solution.baselines if line.fabric == "random-regular")
    fast = replace(graph, iteration_time_ms=solution.bound.value)
    known = reached(replace(solution, baselines=(*solution.baselines, fast)))
    assert known == KnownTime(solution.bound.value, "a random graph of the same links")
    parts = gap_parts(solution, known)
    assert parts is not None
    assert (parts.likelier, known.where in parts.words) == ("a better plan", True)
    other = replace(fast, description=fast.description.replace("100 Gbit/s", "200 Gbit/s"))
    assert other != fast
    assert reached(replace(solution, baselines=(other,))) == KnownTime()


def test_the_strategies_of_all_fabrics_are_tried(plan: tuple[CoOptimisation, JobSolution]) -> None:
    """One that was found for a fat-tree may be the fastest on the switch."""
    instance, solution = plan
    own = next(line for line in solution.baselines if line.fabric == "ideal-switch")
    tree = next(line for line in solution.baselines if line.fabric == "fat-tree")
    known = order_free(instance, replace(solution, baselines=(replace(tree, strategy=own.strategy),)))
    assert known.ms <= own.iteration_time_ms


def test_transfers_first_on_the_switch(plan: tuple[CoOptimisation, JobSolution]) -> None:
    """No more than in the order of the instance, never below the bound; a plan alone has a limit too."""
    instance, solution = plan
    known = order_free(instance, solution)
    assert solution.bound.value <= known.ms <= reached(solution).ms
    alone = order_free(instance, replace(solution, baselines=()))
    assert known <= alone < KnownTime()
    sharing = LinkSharing.TRANSFERS_FIRST
    first = replace(instance, cluster=replace(instance.cluster, link_sharing=sharing))
    assert order_free(first, replace(solution, baselines=())) >= alone


def test_what_the_checker_does_not_get_is_not_said(
    plan: tuple[CoOptimisation, JobSolution], monkeypatch: pytest.MonkeyPatch
) -> None:
    instance, solution = plan
    monkeypatch.setattr("topoopt.kinds.job.order_free.CHECKED", CheckDepth(events=1))
    assert order_free(instance, replace(solution, baselines=())) == KnownTime()


def test_in_words_and_figures(plan: tuple[CoOptimisation, JobSolution], folder: Path) -> None:
    """With the instance the order of traffic counts too; without it what the solution states."""
    _, solution = plan
    file = folder / "solution.json"
    with_it = run("explain", file, "--instance", INSTANCES / "dlrm-16.yaml", "--json").json
    without = run("explain", file, "--json").json
    for told in (with_it, without):
        parts = told["gap_parts"]
        assert parts["bound_at_most"] + parts["plan_at_least"] == pytest.approx(solution.gap)
        assert sum("is likelier." in line for line in told["words"]) == 1
    assert with_it["gap_parts"]["limit_ms"] <= without["gap_parts"]["limit_ms"] == reached(solution).ms


def test_in_the_report(plan: tuple[CoOptimisation, JobSolution]) -> None:
    _, solution = plan
    parts = gap_parts(solution, reached(solution))
    assert parts is not None
    assert verdict_cards(solution)[1].detail.endswith(f"likelier closed by {parts.likelier}")
    assert ("gap", parts.words) in provenance(solution)
    unknown = replace(solution, baselines=())
    assert "likelier" not in verdict_cards(unknown)[1].detail
    assert "gap" not in dict(provenance(unknown))
