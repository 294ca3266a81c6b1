"""Moves for a waiting job: least cost by brute force over who moves, greedy never below, every plan executed."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.shards import decide, find_shard, greedy_moves, wait_s
from solvers.shards.exact_moves import exact_moves
from solvers.shards.exact_shards import ShardLimits
from solvers.shards.steps import ordered_steps
from solvers.stop import Stop
from tests.support.shard_cases import most_placed, pairs, random_layer, random_shape, rings
from topoopt.core.optical_layer import OpticalLayer, Shard, ShardShape, block_layer
from topoopt.core.shard_moves import MovePlan, RunningJob
from topoopt.core.status import Status, StopReason
from topoopt.verify.shards.moves import move_violations


def cheapest(layer: OpticalLayer, free: np.ndarray, running: list[RunningJob], waiting: ShardShape) -> float | None:
    """Least cost over all sets of jobs that move, each set by the brute force of `most_placed`."""
    costs = []
    for count in range(len(running) + 1):
        for moved in combinations(running, count):
            room = free.copy()
            for job in moved:
                room[list(job.shard.servers)] = True
            shapes = [waiting, *(job.shape for job in moved)]
            if most_placed(layer, room, shapes, [1.0] * len(shapes)) == len(shapes):
                costs.append(sum(job.pause_s * job.shape.servers for job in moved))
    return min(costs, default=None)


@given(st.integers(0, 10**6), st.integers(3, 6), st.integers(1, 2), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_exact_moves_are_cheapest(seed: int, servers: int, planes: int, switches: int, jobs: int) -> None:
    """Cost and bound are the brute force's; greedy finds nothing cheaper; both can be executed."""
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, servers, planes, switches)
    free = np.ones(servers, dtype=bool)
    running = []
    for k in range(jobs):
        shape = random_shape(rng, int(rng.integers(1, 3)), int(rng.integers(1, planes + 1)))
        # random holes among free servers, so that shards stand anywhere
        shard = find_shard(layer, free & (rng.random(servers) < 0.7), shape, seed)
        if shard is not None:
            free[list(shard.servers)] = False
            running.append(RunningJob(f"j{k}", shape, shard, 10.0, float(rng.integers(1, 4))))
    waiting = random_shape(rng, int(rng.integers(1, 4)), int(rng.integers(1, planes + 1)))
    least = cheapest(layer, free, running, waiting)
    plan, status, _ = exact_moves(layer, free, running, waiting, ShardLimits(seed=seed))
    if least is None:
        assert (plan, status) == (None, Status.INFEASIBLE)
    else:
        assert plan is not None
        assert (plan.cost_server_s, status) == (least, Status.OPTIMAL)
        assert plan.bound_server_s == pytest.approx(least)
        assert move_violations(layer, running, waiting, plan) == ()
    found = greedy_moves(layer, free, running, waiting, seed)
    if found is not None:
        assert least is not None
        assert found.bound_server_s <= least <= found.cost_server_s
        assert move_violations(layer, running, waiting, found) == ()


LAYER = block_layer(8, 2, 4, 0.01)
"""Blocks 0..3 and 4..7."""


def job(name: str, servers: tuple[int, ...], pause_s: float = 1.0, remaining_s: float = 100.0) -> RunningJob:
    """A ring on all planes."""
    return RunningJob(name, rings(len(servers), 1, 1), Shard(servers, (0, 1)), remaining_s, pause_s)


def free_of(*running: RunningJob) -> np.ndarray:
    """Servers nobody has."""
    free = np.ones(8, dtype=bool)
    for each in running:
        free[list(each.shard.servers)] = False
    return free


def both(running: list[RunningJob], waiting: ShardShape) -> tuple[MovePlan | None, MovePlan | None]:
    """Exact and greedy."""
    free = free_of(*running)
    return exact_moves(LAYER, free, running, waiting)[0], greedy_moves(LAYER, free, running, waiting)


def test_the_cheaper_job_moves() -> None:
    """A pair in each block; a ring of four needs one of them gone: the one that pauses shorter."""
    running = [job("slow", (0, 1), 5.0), job("quick", (4, 5), 2.0)]
    for plan in both(running, rings(4, 1, 1)):
        assert plan is not None
        assert plan.moved == ("quick",)
        assert (plan.cost_server_s, plan.delay_s) == (4.0, 2.0)
        assert set(plan.shard.servers) == {4, 5, 6, 7}


def test_a_job_cleared_makes_room_for_itself() -> None:
    """A ring of four needs a block of four: a ring of three leaves the middle one, for whose sake a pair moves too.

    Blocks: pair, pair, fixed, free; three times the ring of three, free; fixed, fixed, free, free.
    """
    layer = block_layer(12, 1, 4, 0.01)

    def ring_of(name: str, servers: tuple[int, ...], pause_s: float) -> RunningJob:
        return RunningJob(name, rings(len(servers), 1), Shard(servers, (0,)), 100.0, pause_s)

    running = [
        ring_of("pair", (0, 1), 1.0),
        RunningJob("single", pairs(1, []), Shard((2,), (0,)), 100.0, float("inf")),
        ring_of("three", (4, 5, 6), 1.0),
        ring_of("fixed", (8, 9), float("inf")),
    ]
    free = np.ones(12, dtype=bool)
    free[[server for job in running for server in job.shard.servers]] = False
    plan, waiting = greedy_moves(layer, free, running, rings(4, 1)), rings(4, 1)
    least = exact_moves(layer, free, running, waiting)[0]
    assert plan is not None
    assert least is not None
    assert plan.cost_server_s == least.cost_server_s == 5.0
    assert plan.moved == least.moved == ("pair", "three")
    assert move_violations(layer, running, waiting, plan) == ()


def test_no_moves_when_the_job_fits() -> None:
    """Free room in one block: nothing moves, nothing costs."""
    for plan in both([job("a", (0, 1))], rings(4, 1, 1)):
        assert plan is not None
        assert (plan.steps, plan.cost_server_s, plan.status) == ((), 0.0, Status.OPTIMAL)


def test_jobs_that_cannot_move_stay() -> None:
    """The cheap move is ruled out, or both are."""
    fixed, slow = job("fixed", (4, 5), float("inf")), job("slow", (0, 1), 5.0)
    for plan in both([fixed, slow], rings(4, 1, 1)):
        assert plan is not None
        assert plan.moved == ("slow",)
    assert both([fixed, job("too", (0, 1), float("inf"))], rings(4, 1, 1)) == (None, None)


def test_moves_that_wait_for_each_other_pause_together() -> None:
    """Servers taken from each other make one step; from one side only, two steps in order."""
    running = [
        RunningJob("a", rings(3, 1), Shard((0, 1, 3), (0,)), 9.0, 1.0),
        RunningJob("b", pairs(2, [(0, 1)]), Shard((4, 5), (0,)), 9.0, 2.0),
    ]

    def steps(a: tuple[int, ...], b: tuple[int, ...]) -> list[list[str]]:
        found = ordered_steps(running, {"a": Shard(a, (0,)), "b": Shard(b, (0,))})
        return [[move.name for move in step] for step in found]

    assert steps((3, 4, 5), (0, 1)) == [["a", "b"]]
    assert steps((3, 4, 5), (2, 6)) == [["b"], ["a"]]
    assert steps((6, 7, 8), (0, 1)) == [["a"], ["b"]]
    assert steps((0, 1, 6), (4, 7)) == [["a"], ["b"]]


def test_interrupted_before_the_solver() -> None:
    """No plan and no claim."""
    stop = Stop()
    stop.interrupted.set()
    running = [job("a", (0, 1)), job("b", (4, 5))]
    found = exact_moves(LAYER, free_of(*running), running, rings(4, 1, 1), ShardLimits(stop=stop))
    assert found == (None, Status.UNKNOWN, StopReason.INTERRUPTED)


def test_the_checker_rejects_corrupted_plans() -> None:
    """Wrong figures, targets that overlap, servers that are closed, jobs that do not run or may not move."""
    running = [job("slow", (0, 1), 5.0), job("quick", (4, 5), 2.0)]
    waiting = rings(4, 1, 1)
    plan = greedy_moves(LAYER, free_of(*running), running, waiting)
    assert plan is not None
    move = plan.steps[0][0]

    def codes(corrupt: MovePlan, jobs: list[RunningJob] = running, closed: tuple[int, ...] = ()) -> set[str]:
        return {violation.code for violation in move_violations(LAYER, jobs, waiting, corrupt, closed)}

    assert codes(plan) == set()
    assert "cost" in codes(replace(plan, cost_server_s=3.0))
    assert "delay" in codes(replace(plan, delay_s=0.0))
    assert "bound" in codes(replace(plan, bound_server_s=5.0))
    assert "servers" in codes(replace(plan, steps=()))
    assert "servers" in codes(replace(plan, steps=((replace(move, after=Shard((1, 2), (0, 1))),),)))
    assert "switch" in codes(replace(plan, steps=((replace(move, after=Shard((3, 6), (0, 1))),),)))
    assert "move" in codes(replace(plan, steps=((replace(move, name="nobody"),),)))
    assert "move" in codes(replace(plan, steps=((replace(move, before=move.after),),)))
    assert "move" in codes(replace(plan, steps=(*plan.steps, *plan.steps)))
    assert "move" in codes(plan, [running[0], replace(running[1], pause_s=float("inf"))])
    assert "closed" in codes(plan, closed=(move.after.servers[0],))
    assert codes(replace(plan, steps=None)) == {"plan"}  # type: ignore[arg-type]


@pytest.mark.parametrize(("wait", "saved", "pays"), [(3.0, 4.0, False), (3.1, 4.4, True), (1.0, -4.0, False)])
def test_moving_pays_when_it_saves_more_than_it_costs(wait: float, saved: float, pays: bool) -> None:
    """Two servers stand 2 s; four servers start at 2 s instead of at `wait`."""
    running = [job("slow", (0, 1), 5.0), job("quick", (4, 5), 2.0)]
    plan = greedy_moves(LAYER, free_of(*running), running, rings(4, 1, 1))
    assert plan is not None
    decision = decide(plan, 4, wait)
    assert decision.saved_server_s == pytest.approx(saved)
    assert decision.pays is pays


def test_the_wait_ends_when_enough_jobs_do() -> None:
    """A block is whole again when its last job ends; never for a job wider than a block."""
    running = [
        job("a", (0, 1), remaining_s=50.0),
        job("b", (4, 5), remaining_s=20.0),
        job("c", (6, 7), remaining_s=30.0),
    ]
    free = free_of(*running)
    assert wait_s(LAYER, free, running, rings(4, 1, 1)) == 30.0
    assert wait_s(LAYER, free, running, rings(2, 1, 1)) == 0.0
    assert wait_s(LAYER, free, running, rings(5, 1, 1)) == float("inf")
