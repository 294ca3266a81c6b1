"""Strategies of jobs in native code: annealing, bounds and rings against plain Python, and what the border refuses.

Lowering, simulated times, fair rates and switched pipelines have their plain counterparts in `tests/simulate`.
"""

from __future__ import annotations

import math
import threading
from itertools import permutations

import numpy as np
import pytest

from tests.native.calls_jobs import CALLS, Case, case_of, distances, drawn
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkSharing
from topoopt.native import StopFlag, Stopped, jobs
from topoopt.simulate.network import GraphArrays, WorkloadArrays

Plan = tuple[Ints, Ints]


def uniform(state: np.ndarray) -> float:
    """The next number in [0, 1) of a SplitMix64 generator."""
    z = state[0] = (int(state[0]) + 0x9E3779B97F4A7C15) % 2**64
    z = (int(z) ^ (int(z) >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return float(((z ^ (z >> 31)) >> 11) / 2**53)


def plain_bounds(w: WorkloadArrays, plan: Plan, capacity: float) -> tuple[float, float]:
    """Busiest server or longest chain, and memory beyond the capacity."""
    load, memory, chain = np.zeros(w.servers), np.zeros(w.servers), []
    for o, (split, offset) in enumerate(zip(*plan, strict=True)):
        s = w.split_ptr[o] + split
        parts = w.sample_ways[s] * w.channel_ways[s] * w.reduce_ways[s]
        servers = offset + w.servers // parts * np.arange(parts)
        span = w.forward_ms[s] + w.backward_ms[s]
        load[servers] += span
        memory[servers] += w.memory[s]
        chain.append(span + max((chain[u] for u in w.producer[w.edge_ptr[o] : w.edge_ptr[o + 1]]), default=0.0))
    return max(load.max(), *chain), float(np.maximum(0.0, memory - capacity).sum())


class PlainAnnealing:
    """The chain of the annealing, one proposal after the other."""

    def __init__(self, case: Case, plan: Plan, capacity: float, seed: int, rounds: bool) -> None:
        self.case, self.plan, self.capacity, self.rounds = case, plan, capacity, rounds
        self.state = np.array([seed], dtype=np.uint64)
        self.best, self.best_ms = plan, self._time(plan, True)
        self.cost = self.best_cost = self._time(plan, rounds)
        self.overflow = self.best_overflow = plain_bounds(case.workload, plan, capacity)[1]
        self.accepted = 0

    def _time(self, plan: Plan, rounds: bool) -> float:
        graph = GraphArrays(*jobs.lower(self.case.workload, *plan))
        return jobs.simulate(graph, self.case.network, rounds)[0]

    def propose(self, temperature: float) -> None:
        """One proposal."""
        plan = self.plan[0].copy(), self.plan[1].copy()
        if not jobs.propose(self.case.workload, self.case.shape, *plan, self.state):
            return
        limit = self.cost * (1.0 - temperature * math.log(1.0 - uniform(self.state)))
        overflow = plain_bounds(self.case.workload, plan, self.capacity)[1]
        cost = self._time(plan, self.rounds)
        if overflow > self.overflow or (overflow == self.overflow and cost > limit):
            return
        self.accepted += 1
        self.plan, self.cost, self.overflow = plan, cost, overflow
        less = overflow < self.best_overflow
        if less or (overflow == self.best_overflow and cost < 1.005 * self.best_cost):
            figure = self._time(plan, True)
            if less or figure < self.best_ms:
                self.best, self.best_ms = plan, figure
            self.best_cost, self.best_overflow = cost if less else min(cost, self.best_cost), overflow


@pytest.mark.parametrize("sharing", LinkSharing)
@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("capacity", [40.0, math.inf])
def test_annealing_is_a_metropolis_chain(sharing: LinkSharing, rounds: bool, capacity: float) -> None:
    """Bounds, deadlines, early ends and threads change nothing: the same proposals are accepted, the same strategy is
    best."""
    case = case_of(sharing, False)
    plan = np.zeros_like(case.workload.pinned), np.maximum(case.workload.pinned, 0)
    fast, threaded = (jobs.Annealing(*case, *plan, capacity, 11, rounds, threads=threads) for threads in (1, 3))
    plain = PlainAnnealing(case, plan, capacity, 11, rounds)
    temperature = 0.3
    for _ in range(3):
        fast.run(50, temperature, 0.98)
        threaded.run(50, temperature, 0.98)
        for _ in range(50):
            temperature *= 0.98
            plain.propose(temperature)
    assert fast.best_ms == plain.best_ms
    assert [column.tolist() for column in fast.best] == [column.tolist() for column in plain.best]
    assert fast.counts[[0, 2]].tolist() == [150, plain.accepted]
    assert 0 < plain.accepted < 150
    assert threaded.best_ms == fast.best_ms
    assert threaded.counts.tolist() == fast.counts.tolist()
    assert [column.tolist() for column in threaded.best] == [column.tolist() for column in fast.best]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_run_can_be_left(threads: int) -> None:
    """It ends once the flag is set, and goes on from there when it is asked to."""
    case, *plan = drawn(np.random.default_rng(2))
    run, flag = jobs.Annealing(*case, *plan, math.inf, 3, threads=threads), StopFlag()
    timer = threading.Timer(0.05, flag.set)
    timer.start()
    flag.watch()
    with pytest.raises(Stopped):
        run.run(2**60, 0.01, 1.0)
    flag.unwatch()
    timer.join()
    made = int(run.counts[0])
    run.run(7, 0.01, 1.0)
    assert run.counts[0] == made + 7


@pytest.mark.parametrize("seed", range(20))
def test_bounds_and_counts_of_strategies(seed: int) -> None:
    """The bound of compute, memory beyond the capacity, and tasks that are counted but not built."""
    case, *plan = drawn(np.random.default_rng(seed))
    found = jobs.quick_bounds(case.workload, *plan, 25.0)
    assert found == pytest.approx(plain_bounds(case.workload, (plan[0], plan[1]), 25.0))
    assert jobs.task_count(case.workload, *plan) == len(jobs.lower(case.workload, *plan)[0])


def length(distance: Floats, order: Ints) -> float:
    """Once round."""
    return float(distance[order, np.roll(order, -1)].sum())


@pytest.mark.parametrize("seed", range(20))
def test_rings_are_shortest_or_shortened(seed: int) -> None:
    """Against all orders of few members; moving segments keeps the members and never makes a ring longer."""
    rng = np.random.default_rng(seed)
    (distance,) = distances(rng)
    k = len(distance)
    start = rng.permutation(k)
    moved = jobs.move_segments(distance, start)
    assert sorted(moved) == list(range(k))
    assert length(distance, moved) <= length(distance, start)
    exact = jobs.exact_ring(distance)
    assert exact[0] == 0
    assert length(distance, exact) <= length(distance, moved)
    if k <= 7:
        assert length(distance, exact) == min(
            length(distance, np.array([0, *order])) for order in permutations(range(1, k))
        )


def test_a_job_that_waits_for_itself_can_be_left() -> None:
    """A task that waits for itself never runs; the other job begins again until the flag is set."""
    rng = np.random.default_rng(0)
    arrays, network, *_ = CALLS["load_bound"](rng)
    tasks = len(arrays.kind)
    circle = GraphArrays(
        *(np.append(column, column[:1]) for column in arrays[:-2]),
        np.append(arrays.successor_ptr, arrays.successor_ptr[-1] + 1),
        np.append(arrays.successor, np.int32(tasks)),
    )
    with pytest.raises(ValueError, match="circle"):
        jobs.load_bound(circle, network, 1e9)
    flag = StopFlag()
    flag.set()
    flag.watch()
    with pytest.raises(Stopped):
        jobs.simulate(circle, network, False, np.inf, None, False, np.array([0, tasks, tasks + 1]), True)
    flag.unwatch()


def test_wrong_strategies_and_networks_are_refused() -> None:
    """Indices and offsets out of range, arrays of other types and lengths, too few groups."""
    case, split, offset = drawn(np.random.default_rng(1))
    w, net = case.workload, case.network
    for wrong in (split + 9, split - 9, split[:-1]):
        with pytest.raises(ValueError, match="split"):
            jobs.lower(w, wrong, offset)
    with pytest.raises(ValueError, match="offset"):
        jobs.lower(w, split, offset + w.servers)
    with pytest.raises(TypeError):
        jobs.lower(w, split.astype(np.int32), offset)
    with pytest.raises(ValueError, match="producer"):
        jobs.lower(w._replace(producer=w.producer + 1), split, offset)
    graph = GraphArrays(*jobs.lower(w, split, offset))
    for field in ("path_link", "member_link"):
        with pytest.raises(ValueError, match=field):
            jobs.simulate(graph, net._replace(**{field: getattr(net, field) + len(net.link_rate)}), True)
    fewer = net._replace(group_size=net.group_size[:1])
    with pytest.raises(ValueError, match="group_ptr"):
        jobs.Annealing(w, fewer, case.shape, split, offset, np.inf, 0)


def test_fair_rates_by_hand() -> None:
    """Link 0 of 6: job 0 stops at 1, job 1 and twice job 2 share the rest evenly; job 3 has what is left of link 1."""
    low, high, link = np.array([0, 1, 2, 4]), np.array([1, 2, 4, 5]), np.array([0, 0, 0, 1, 1])
    part, limit = np.array([1.0, 1.0, 2.0, 1.0, 1.0]), np.array([1.0, 99.0, 99.0, 99.0])
    rates = jobs.fair_rates(np.arange(4), low, high, link, part, np.array([6.0, 9.0]), limit)
    assert rates == pytest.approx([1.0, 5 / 3, 5 / 3, 9.0 - 5 / 3])


def test_transfers_between_stages_wait_for_each_other() -> None:
    """Two passes of 1 s on rank 0, each sent for 5 s to rank 1: the second transfer begins when the first is over."""
    links, none, never = np.array([[-1, -1, 0, 1], [1, 1, -1, -1]]), np.zeros(4), np.full(2, -1.0)
    times, _, done = jobs.follow_passes(
        np.array([0, 2, 4]), links, np.ones(4), np.zeros(4, dtype=np.int64), np.zeros((2, 4)), none,
        np.array([[0.0, 5.0], [5.0, 0.0]]), np.zeros(2), never, never, np.zeros((2, 2)), np.zeros(2, dtype=np.int64),
        False, False,
    )  # fmt: skip
    begin, end, sent, arrived = times[:4]
    assert done
    assert (sent[:2].tolist(), arrived[:2].tolist()) == ([1.0, 6.0], [6.0, 11.0])
    assert (begin.tolist(), end.tolist()) == ([0.0, 1.0, 6.0, 11.0], [1.0, 2.0, 7.0, 12.0])
