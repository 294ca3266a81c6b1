"""Jobs at once whose contention follows the formula: cases by hand, against the flows, what the checker rejects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import at_once_cases as cases
from topoopt.core.errors import InputError
from topoopt.core.result import Result
from topoopt.core.shared_cluster import ClassPlan, SharedCluster
from topoopt.kinds import kind_of
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster import SOLUTION_FILE
from topoopt.verify.checker import FULL

SENDING = {"servers": 8, "iteration_ms": 100, "compute_ms": 60, "allreduce_gbytes": 2}
"""2 GB at 400 Gbit/s: 40 ms, after 60 ms of compute."""


def document(**changes: Any) -> dict[str, Any]:
    """Two jobs of 8 on 16 servers in racks of two, whole racks each."""
    return {
        "schema_version": 1,
        "kind": "shared-cluster",
        "name": "formula",
        "cluster": {"servers": 16, "degree": 4, "link_gbps": 100, "rack_servers": 2},
        "contention": "coinciding",
        "classes": [{"name": "sending", **SENDING}],
        "jobs": {"at_once": [1, 2], "repetitions": 2, "placement": "rack-local"},
        "fabrics": [
            {"kind": "partitioned"},
            {"kind": "ideal-switch"},
            {"name": "tree", "kind": "fat-tree", "server_gbps": 400},
            {"name": "thin", "kind": "fat-tree", "server_gbps": 400, "oversubscription": 4},
        ],
        **changes,
    }


def solved(**changes: Any) -> tuple[SharedCluster, Result[Any, Any]]:
    """A problem and its solution, which the checker accepts."""
    problem = cases.read(document(**changes))
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    return problem, solution


def test_whole_racks_by_hand() -> None:
    """The ring leaves each rack once: 4:1 leaves 200 of 400 Gbit/s, so 2 GB take 80 ms instead of 40."""
    _, solution = solved()
    for draw in solution.figures.draws:
        assert draw.times_ms[:3] == (pytest.approx((100.0,) * draw.load),) * 3
        assert draw.times_ms[3] == pytest.approx((140.0,) * draw.load)
    top = [row for row in solution.figures.statistics if row.load == 2]
    assert [row.over_first for row in top] == pytest.approx([1, 1, 1, 1.4])
    assert solution.objective.value == pytest.approx(100.0)


def test_jobs_that_share_racks_slow_each_other_down() -> None:
    """Placed at random, some rack holds servers of both; interleaved they still fit beside each other."""
    _, coinciding = solved(jobs={"at_once": [2], "repetitions": 3})
    _, interleaved = solved(jobs={"at_once": [2], "repetitions": 3}, contention="interleaved")
    for one, other in zip(coinciding.figures.draws, interleaved.figures.draws, strict=True):
        assert one.servers == other.servers
        assert max(one.times_ms[3]) > 140.0
        assert max(other.times_ms[3]) <= max(one.times_ms[3])


def test_formula_and_flows_agree_where_nothing_is_shared() -> None:
    """On shards and on an ideal switch a draw takes the times alone, by either; the jobs are the same ones."""
    fabrics = [{"kind": "partitioned"}, {"kind": "ideal-switch"}]
    flows = solve(cases.read(cases.instance({"rank_order": "sorted"}, fabrics=fabrics)))
    formula = solve(cases.read(cases.instance(fabrics=fabrics, contention="coinciding")))
    assert flows.check.ok
    assert formula.check.ok
    for one, other in zip(flows.figures.draws, formula.figures.draws, strict=True):
        assert (one.classes, one.servers) == (other.classes, other.servers)
        # Both were planned, by searches of other budgets.
        assert one.times_ms[0] == pytest.approx(other.times_ms[0], rel=0.05)


def test_round_trip_and_report(tmp_path: Path) -> None:
    """What is read back writes the same bytes and passes the check; the report has the table of fabrics."""
    problem, solution = solved()
    SOLUTION_FILE.write(solution, tmp_path / "a.json")
    again = replace(SOLUTION_FILE.read(tmp_path / "a.json"), problem=problem)
    SOLUTION_FILE.write(again, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert kind_of(problem).check(problem, again, FULL).violations == ()
    assert "4:1 above the rack" in kind_of(again).pages().report(again)


CHANGES: dict[str, tuple[str, Callable[[Result[Any, Any]], Result[Any, Any]]]] = {
    "another value": ("objective", lambda s: replace(s, objective=replace(s.objective, value=101.0))),
    "fewer draws": ("runs", lambda s: replace(s, plan=replace(s.plan, draws=3))),
    "a plan of a class": ("plan", lambda s: replace(s, plan=replace(s.plan, classes=(ClassPlan(None),)))),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("first", [1, 3])
def test_the_checker_rejects(name: str, first: int) -> None:
    """The mean is found anew from the servers of all jobs, on any fabric that stands first."""
    fabrics = document()["fabrics"]
    jobs = {"at_once": [1, 2], "repetitions": 2}
    problem, solution = solved(fabrics=[fabrics[3], fabrics[1]] if first == 3 else fabrics, jobs=jobs)
    code, change = CHANGES[name]
    findings = kind_of(problem).check(problem, change(solution), FULL)
    assert code in {violation.code for violation in findings.violations}


def test_what_belongs_to_flows_is_refused(tmp_path: Path) -> None:
    """Time models and orders of ranks play no part in the formula, nor do lengths for jobs at once."""
    section = {"at_once": [1], "rank_order": "random"}
    broken = document(jobs=section, time_model="fluid", classes=[{"name": "a", **SENDING, "iterations": 3}])
    broken["fabrics"] = [{"kind": "hypercube"}]
    with pytest.raises(InputError) as refusal:
        read_instance(cases.write(tmp_path, broken))
    found = {problem.path for problem in refusal.value.problems}
    assert found == {"jobs.rank_order", "time_model", "classes[0].iterations", "fabrics[0].kind"}
