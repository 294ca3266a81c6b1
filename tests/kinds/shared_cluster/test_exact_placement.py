"""Jobs placed together by the exact program, against cases worked out by hand and against the heuristics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from solvers.stop import Stop
from tests.support.shared_cases import PARTITIONED, plain_class, shared_cluster
from topoopt.core.cluster import staggered_layer
from topoopt.core.errors import InputError
from topoopt.core.shared_cluster import FabricRun, QueueOrder, SharedCluster
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster import SOLUTION_FILE
from topoopt.kinds.shared_cluster.methods import ExactPlacer, outside

CLASSES = tuple(replace(plain_class(f"c{k}", k), interfaces=1) for k in (1, 2, 3, 4))


def staggered(
    jobs: list[tuple[float, int, int]], placement: str = "exact", queue: QueueOrder = "fifo", servers: int = 8
) -> SharedCluster:
    """Two planes of switches of four: 0-3 | 4-7 and 6-1 | 2-5; jobs use one interface, so one plane."""
    fabrics = (replace(PARTITIONED, placement=placement),)
    problem = shared_cluster(jobs, CLASSES, servers=servers, fabrics=fabrics, queue=queue)
    cluster = replace(problem.cluster, degree=2)
    return replace(problem, cluster=cluster, layer=staggered_layer(servers, 2, 4, 0.0))


def run_of(problem: SharedCluster) -> FabricRun:
    """The run, which the checker accepts."""
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    return solution.figures.runs[0]


def starts(run: FabricRun) -> list[float]:
    """When each job got servers."""
    return [float(run.stays.held_from_s[run.stays.job == job][0]) for job in range(len(run.finished))]


THREE = [(0.0, 1, 10), (0.0, 2, 10), (0.0, 2, 10)]
"""Jobs of 2, 3 and 3 on 8 servers: 6-7, 0-2 and 3-5 hold them, the last under a switch of the second plane."""


def test_jobs_out_of_each_others_way() -> None:
    """One after the other leaves the last one waiting, together all three start at once."""
    assert starts(run_of(staggered(THREE, "spread"))) == [0.0, 0.0, 10.0]
    solution = solve(staggered(THREE))
    assert starts(solution.figures.runs[0]) == [0.0, 0.0, 0.0]
    assert solution.notes[-1].endswith("placements of waiting jobs are proven to be the best, all that were made")


@pytest.mark.parametrize("queue", get_args(QueueOrder))
def test_as_spread_where_nothing_conflicts(queue: QueueOrder) -> None:
    """Jobs that need all planes under one switch of eight wait for one another only by number."""
    jobs = [(0.0, 3, 10), (1.0, 2, 7), (2.0, 1, 5), (2.5, 0, 1), (11.0, 0, 3)]
    cases = [shared_cluster(jobs, CLASSES, fabrics=(replace(PARTITIONED, placement=p),)) for p in ("spread", "exact")]
    found = [starts(run_of(replace(case, scheduling=replace(case.scheduling, queue=queue)))) for case in cases]
    assert found[0] == found[1]


def test_what_each_queue_starts() -> None:
    """Six of eight servers are taken until 10 s; then 4 (waits), 1 for 20 s, 2 for 5 s: who may pass the first?"""
    jobs = [(0.0, 2, 10), (0.0, 2, 10), (1.0, 3, 5), (1.0, 0, 20), (1.0, 1, 5)]
    whole = [
        shared_cluster(jobs, CLASSES, fabrics=(replace(PARTITIONED, placement="exact"),), queue=q)
        for q in get_args(QueueOrder)
    ]
    found = dict(zip(get_args(QueueOrder), (starts(run_of(problem)) for problem in whole), strict=True))
    assert found["fifo"] == [0.0, 0.0, 10.0, 10.0, 10.0]
    # The job of 2 fills more servers than that of 1, which gets one of its servers at 6 s and leaves 7 for the first.
    assert found["backfill"] == [0.0, 0.0, 10.0, 6.0, 1.0]
    reserved = found["reserve"]
    assert (reserved[2], reserved[4]) == (10.0, 1.0)  # it ends before the turn of the first


def test_backfilling_uses_the_most_servers() -> None:
    """With 3 of 4 servers under the switch free, a pair and a single pass over two singles and beat one of them."""
    jobs = [(0.0, 0, 10), (1.0, 3, 5), (1.0, 0, 9), (1.0, 0, 9), (1.0, 2, 9)]
    problem = shared_cluster(jobs, CLASSES, servers=4, queue="backfill")
    problem = replace(problem, fabrics=(replace(PARTITIONED, placement="exact"),))
    assert starts(run_of(problem))[4] == 1.0  # 3 servers at once, rather than two jobs of 1


def test_more_jobs_than_are_placed_at_once() -> None:
    """Twenty jobs of one server start at once, though a question is about twelve of them."""
    assert starts(run_of(staggered([(0.0, 0, 1)] * 20, servers=20))) == [0.0] * 20


def test_a_search_cut_short_is_counted() -> None:
    """Pairs on 0, 1, 2 and 6: only 0-2 and 1-6 (or 1-2 and 0-6) leave each other room, as 2 and 6 share no switch."""
    layer, free, stopped = staggered_layer(8, 2, 4, 0.0), np.zeros(8, dtype=bool), Stop()
    free[[0, 1, 2, 6]] = True
    whole = ExactPlacer(layer, CLASSES, 0, Stop())
    found = whole.together(free, [1, 1], [2, 2])
    assert sorted(server for pair in found if pair is not None for server in pair.tolist()) == [0, 1, 2, 6]
    assert (whole.proven, whole.unproven) == (1, 0)
    stopped.interrupted.set()
    short = ExactPlacer(layer, CLASSES, 0, stopped)
    assert sum(pair is not None for pair in short.together(free, [1, 1], [2, 2])) >= 1  # what the heuristics find
    assert (short.proven, short.unproven) == (0, 1)


def test_too_large_a_cluster_is_refused() -> None:
    """The message says what to use instead."""
    with pytest.raises(InputError, match=r"too many servers.*spread"):
        solve(staggered(THREE, servers=65))
    with pytest.raises(InputError, match="not moved"):
        solve(staggered(THREE), SolveOptions(method="fifo-defragment"))


def test_same_bytes_and_what_is_proven_is_noted(tmp_path: Path) -> None:
    """Twice the same file; how many placements are proven to be the best stands in the notes."""
    problem = staggered(THREE)
    for name in ("a.json", "b.json"):
        SOLUTION_FILE.write(solve(problem), tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    solution = SOLUTION_FILE.read(tmp_path / "a.json")
    assert any("proven to be the best" in note for note in solution.notes)


@pytest.mark.parametrize("queue", ["backfill", "reserve"])
def test_large_clusters_place_in_turn_only(queue: QueueOrder) -> None:
    """Out of turn, a burst on more than 16 servers could take the solver minutes: refused with the ways out."""
    problem = staggered(THREE, queue=queue, servers=17)
    found = outside("auto", problem)
    assert found is not None
    assert (found.path, found.value) == ("scheduling.queue", queue)
    assert outside("fifo", problem) is None
