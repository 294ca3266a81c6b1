"""Who names no queue gets the best: `solve` of jobs that arrive is no worse than any method of `compare`."""

from __future__ import annotations

from typing import Any

import pytest

import topoopt

DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "shared-cluster",
    "name": "busy",
    "cluster": {"servers": 16, "degree": 4, "link_gbps": 100},
    "optical": {"switch_ports": 8},
    "classes": [
        {
            "name": name,
            "servers": servers,
            "iteration_ms": 100,
            "compute_ms": 60,
            "allreduce_gbytes": 0.05,
            "duration_s": s,
        }
        for name, servers, s in (("large", 8, 300), ("middle", 4, 100), ("small", 2, 40))
    ],
    "jobs": {"count": 60, "load": 0.9},
    "fabrics": [{"kind": "partitioned"}],
    "objective": "mean-completion-time",
    "search": {"seed": 3},
}
"""Jobs of three sizes on two switches of eight servers each: the queue matters."""

WAYS = ("fifo", "backfill", "reserve", "fifo-defragment", "backfill-defragment", "reserve-defragment")


def test_the_best_way_is_taken_where_no_queue_is_named() -> None:
    """The least of all ways, each run by itself; the solution names it and passes its check."""
    problem = topoopt.instance_from_dict(DOCUMENT)
    by_way = {way: topoopt.solve(problem, method=way, objective_only=True).objective.value for way in WAYS}
    assert max(by_way.values()) > 1.05 * min(by_way.values())
    solution = topoopt.solve(problem)
    assert solution.objective.value == pytest.approx(min(by_way.values()))
    assert by_way[solution.method] == pytest.approx(min(by_way.values()))
    assert topoopt.check(problem, solution).ok


@pytest.mark.parametrize(
    ("scheduling", "way"),
    [({"queue": "fifo"}, "fifo"), ({"queue": "reserve"}, "reserve"), ({"defragment": True}, "fifo-defragment")],
)
def test_a_queue_that_is_named_holds(scheduling: dict[str, Any], way: str) -> None:
    """Whoever asked for it gets it, though another one is better."""
    asked = topoopt.solve(topoopt.instance_from_dict({**DOCUMENT, "scheduling": scheduling}), objective_only=True)
    alone = topoopt.solve(topoopt.instance_from_dict(DOCUMENT), method=way, objective_only=True)
    assert asked.method == "auto"
    assert asked.objective.value == pytest.approx(alone.objective.value)
