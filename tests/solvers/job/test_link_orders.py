"""The order of traffic as a choice of the plan: the better of all, proposals shared, checked as stated, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from solvers.job.loop import LoopResult
from solvers.job.methods import best_order
from solvers.stop import Stop
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.job import ConvergencePoint, CoOptimisation
from topoopt.core.proofs import StopReason
from topoopt.core.result import Result
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.job.check import CHECKER

FIFO, FAIR, FIRST = LinkSharing.FIFO, LinkSharing.FAIR, LinkSharing.TRANSFERS_FIRST
CLUSTER = Cluster(4, 1, 2, 25.0)


def searched(times, made):
    """A search that finds such a time for each way to share links, after half of its proposals twice the time."""

    def search(cluster, budget, stop, keep):
        ms = times[cluster.link_sharing]
        made[cluster.link_sharing] = budget, stop.deadline
        points = (ConvergencePoint(budget // 2, "start", 2 * ms), ConvergencePoint(budget, "polish", ms))
        result = LoopResult(
            plan=None,
            iteration_time_ms=ms,
            initial_ms=3 * ms,
            convergence=points,
            stopped_by=StopReason.BUDGET,
            method="alternating",
            proposals=budget,
            notes=(f"found {ms}",),
        )
        keep(lambda: result)
        return result

    return search


def best(times, stop=None):
    """What comes out, the proposals of each, and the times offered on the way."""
    made, offered = {}, []

    def keep(found):
        offered.append(found()[0].iteration_time_ms)

    found = best_order(CLUSTER, tuple(times), searched(times, made), budget=101, stop=stop or Stop(), on_incumbent=keep)
    return found, made, offered


@pytest.mark.parametrize(
    ("times", "sharing", "points", "offered"),
    [
        ({FIFO: 8.0, FIRST: 6.0}, FIRST, [(25, 16.0), (51, 8.0), (101, 6.0)], [8.0, 6.0]),
        ({FIFO: 8.0, FIRST: 2.0}, FIRST, [(25, 16.0), (51, 8.0), (76, 4.0), (101, 2.0)], [8.0, 2.0]),
        ({FIFO: 8.0, FIRST: 9.0}, FIFO, [(25, 16.0), (51, 8.0)], [8.0, 8.0]),
        ({FIFO: 8.0, FIRST: 8.0}, FIFO, [(25, 16.0), (51, 8.0)], [8.0, 8.0]),
        ({FIRST: 3.0}, FIRST, [(50, 6.0), (101, 3.0)], [3.0]),
    ],
)
def test_the_better_of_all(times, sharing, points, offered) -> None:
    """Each has half of the proposals; the way leads over both; a tie is for the first."""
    (result, cluster), made, kept = best(times)
    assert cluster == replace(CLUSTER, link_sharing=sharing)
    assert result.iteration_time_ms == times[sharing]
    assert [(point.proposals, point.best_ms) for point in result.convergence] == points
    assert result.proposals == 101 == sum(budget for budget, _ in made.values())
    assert kept == offered
    first = next(iter(times))  # what the way begins with, whichever wins: 3 times what its search ends with
    assert result.initial_ms == 3 * times[first]


def test_each_has_its_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten seconds the first of two has five; where time is up nothing else is begun."""
    monkeypatch.setattr("solvers.stop.time.monotonic", lambda: 20.0)
    _, made, _ = best({FIFO: 2.0, FIRST: 1.0}, Stop(30.0))
    assert (made[FIFO][1], made[FIRST][1]) == (25.0, 30.0)
    found, made, _ = best({FIFO: 2.0, FIRST: 1.0}, Stop(19.0))
    assert set(made) == {FIFO}
    assert found[1].link_sharing is FIFO


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small job that leaves the order of traffic to the plan."""
    document = yaml.safe_load((INSTANCES / "tiny-4.yaml").read_text())
    document["search"]["link_sharing"] = ["fair", "transfers-first"]
    path = tmp_path_factory.mktemp("orders") / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_solution_says_which_and_the_checker_holds_it_to_that(file: Path) -> None:
    """The order is a decision of the plan; one that is not allowed is rejected."""
    instance = read_instance(file)
    assert isinstance(instance, CoOptimisation)
    solution = solve(instance, SolveOptions(budget=60, seed=1))
    assert isinstance(solution, Result)
    assert solution.plan.link_sharing in (FAIR, FIRST)
    assert solution.check.ok
    other = replace(solution, plan=replace(solution.plan, link_sharing=FIFO))
    assert "link-sharing" in {each.code for each in CHECKER(instance, other).violations}
    own = replace(instance, search=replace(instance.search, link_sharing=()))
    assert "link-sharing" in {each.code for each in CHECKER(own, solution).violations}


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (["fifo", "fifo"], "listed twice"),
        ([], "no way to share links"),
        (["lifo"], "did you mean fifo"),
        ("fifo", "wrong type"),
    ],
)
def test_lists_that_are_refused(file: Path, tmp_path: Path, listed: object, said: str) -> None:
    """One message that names the field."""
    document = yaml.safe_load(file.read_text())
    document["search"]["link_sharing"] = listed
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
    result = run("validate", tmp_path / "job.yaml")
    assert result.code == 2
    assert said in result.stdout + result.stderr
    assert (result.stdout + result.stderr).count("search.link_sharing") == 1
