"""The simulator of the checker: closed forms worked out here, and the engine's times to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.verify_cases import dense, make_cluster, make_plan, sample_splits
from topoopt.core.cluster import ComputeOrder, LinkSharing
from topoopt.core.workload import Split, Workload, strided_groups
from topoopt.simulate.fabrics import direct_connect_network
from topoopt.simulate.network import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.plan import inspect_plan
from topoopt.verify.job.simulation import (
    ALLREDUCE,
    FORWARD,
    TRANSFER,
    IterationTasks,
    SimulatedNetwork,
    flows_of,
    plan_network,
    simulate_rounds,
    tasks_of,
)

RATE, HOP_MS, ROUND_MS = 12.5e6, 0.001, 0.0021  # 100 Gbit/s, 1 us, 2.1 us
SEGMENT = 262_144


def network(links, paths=None, rings=None):
    """Links of 100 Gbit/s; one path a pair."""
    ways = {pair: ((1.0, way),) for pair, way in (paths or {}).items()}
    return SimulatedNetwork([RATE] * links, HOP_MS, ROUND_MS, ways, rings or {})


def run(tasks, over):
    """(start, end) of all tasks."""
    times = simulate_rounds(tasks, flows_of(tasks, over), over)
    return list(zip(times.start, times.end, strict=True))


def test_a_transfer_over_two_links():
    """Of three segments the last is sent when the others are; it crosses the second link a hop later, and arrives."""
    tasks = IterationTasks()
    size = 2 * SEGMENT + 1000
    tasks.add(TRANSFER, 0, lane=0, target=1, size=size)
    ((start, end),) = run(tasks, network(2, {(0, 1): (0, 1)}))
    # The second link is busy with the second segment a hop latency longer than the first, so the last one waits there.
    assert (start, end) == (0.0, pytest.approx(size / RATE + 2 * HOP_MS, rel=1e-12))


def test_a_transfer_that_speeds_up_does_not_arrive_before_it_is_sent():
    """The second link is ten times as fast: the last byte crosses it when it has come over the first."""
    tasks = IterationTasks()
    tasks.add(TRANSFER, 0, lane=0, target=1, size=100_000)
    fast = replace(network(2, {(0, 1): (0, 1)}), rate=[RATE, 10 * RATE])
    assert run(tasks, fast)[0][1] == pytest.approx(100_000 / RATE + 2 * HOP_MS, rel=1e-12)


def test_two_transfers_take_turns_on_one_link():
    """Each has two segments. They are served first come, first served: a, b, then a again (it came while b was on)."""
    tasks = IterationTasks()
    tasks.add(TRANSFER, 0, lane=0, target=1, size=2 * SEGMENT)
    tasks.add(TRANSFER, 0, lane=2, target=1, size=2 * SEGMENT)
    ends = [end for _, end in run(tasks, network(1, {(0, 1): (0,), (2, 1): (0,)}))]
    one = SEGMENT / RATE
    assert ends == [pytest.approx(3 * one + HOP_MS, rel=1e-12), pytest.approx(4 * one + HOP_MS, rel=1e-12)]


def test_a_ring_of_four_in_six_rounds():
    """2 (k-1) rounds of S/k bytes, each with its fixed cost, after the time inside the servers."""
    tasks, payload, members = IterationTasks(), 8_000_000, (0, 1, 2, 3)
    tasks.add(ALLREDUCE, 0, members=members, size=payload, duration_ms=0.25)
    ring = network(4, rings={members: ((1.0, ((0,), (1,), (2,), (3,))),)})
    ((start, end),) = run(tasks, ring)
    assert (start, end) == (0.0, pytest.approx(0.25 + 6 * (payload / 4 / RATE + ROUND_MS), rel=1e-12))


def test_a_small_tensor_goes_in_one_round_and_a_round_waits_for_the_longest_way():
    """1000 bytes: 2 (k-1)/k S bytes at once, all fixed costs after them; one member's way has a second hop."""
    tasks, members = IterationTasks(), (0, 1, 2)
    tasks.add(ALLREDUCE, 0, members=members, size=1000)
    ring = network(4, rings={members: ((1.0, ((0,), (1,), (2, 3))),)})
    sent = 2 * 2 / 3 * 1000 / RATE
    assert run(tasks, ring)[0][1] == pytest.approx(HOP_MS + sent + 4 * ROUND_MS, rel=1e-12)


def contended(sharing, reductions):
    """A transfer of 64 segments over a link of a ring of eight, on which AllReduces send 16 segments a round."""
    tasks, members = IterationTasks(), tuple(range(8))
    for _ in range(reductions):
        tasks.add(ALLREDUCE, 0, members=members, size=8 * 16 * SEGMENT)
    tasks.add(TRANSFER, 0, lane=0, target=1, size=64 * SEGMENT)
    ring = {members: ((1.0, tuple((i,) for i in range(8))),)}
    return tasks, replace(network(8, {(0, 1): (0,)}, ring), sharing=sharing)


@pytest.mark.parametrize("reductions", [1, 3, 8])
def test_a_transfer_among_allreduces_has_its_turn(reductions):
    """Of k AllReduces and one transfer each has every (k+1)-th segment: 12.08 ms for k = 8, as by max-min fairness."""
    *_, (start, end) = run(*contended(LinkSharing.FAIR, reductions))
    share = 64 * (reductions + 1) * SEGMENT / RATE
    assert (start, end) == (0.0, pytest.approx(share + HOP_MS, rel=1e-9))


def test_a_transfer_among_allreduces_in_order_of_arrival():
    """In 14 rounds each AllReduce sends 16 segments between two of the transfer, which then has the link."""
    *_, (_, end) = run(*contended(LinkSharing.FIFO, 8))
    assert end == pytest.approx((14 * 8 * 16 + 64) * SEGMENT / RATE, rel=1e-3)


@pytest.mark.parametrize("reductions", [1, 3, 8])
def test_a_transfer_among_allreduces_goes_first(reductions):
    """As if it were alone: 64 segments of its own, whatever the AllReduces send."""
    *_, (start, end) = run(*contended(LinkSharing.TRANSFERS_FIRST, reductions))
    assert (start, end) == (0.0, pytest.approx(64 * SEGMENT / RATE + HOP_MS, rel=1e-9))


@pytest.mark.parametrize("sharing", LinkSharing)
def test_links_carry_all_at_their_rate(sharing):
    """Turns only change who is served first: the last of all is done at the same time, fixed costs of rounds apart."""
    ends = [end for _, end in run(*contended(sharing, 8))]
    assert max(ends) == pytest.approx((14 * 8 * 16 + 64) * SEGMENT / RATE, rel=3e-3)


def test_a_server_computes_in_the_order_of_readiness():
    """The task that is ready later waits for the longer one that was ready first, and that is its cause."""
    tasks = IterationTasks()
    for lane, length in ((0, 3.0), (1, 1.0), (0, 2.0)):
        tasks.add(FORWARD, 0, lane=lane, duration_ms=length)
    tasks.followers[1].append(2)
    over = network(0)
    times = simulate_rounds(tasks, flows_of(tasks, over), over)
    assert (times.start, times.end, times.cause) == ([0.0, 0.0, 3.0], [3.0, 1.0, 5.0], [-1, -1, 0])


def test_a_server_computes_the_longest_remaining_path_first():
    """Of three tasks that are ready at 0 the first by number is the last to run, as nothing waits for it.

    Task 1 (1 ms) leads to task 3 (6 ms) on another server, task 2 (2 ms) to task 4 (3 ms) there. Task 5 (20 ms), ready
    at 1 ms when task 1 is over, goes before the two that wait since 0: 5 and 4 ms remain from their starts.
    """
    tasks = IterationTasks()
    for lane, length in ((0, 4.0), (0, 1.0), (0, 2.0), (1, 6.0), (1, 3.0), (0, 20.0)):
        tasks.add(FORWARD, 0, lane=lane, duration_ms=length)
    tasks.followers[1].extend((3, 5))
    tasks.followers[2].append(4)
    for order, starts in (
        (ComputeOrder.ARRIVAL, [0.0, 4.0, 5.0, 5.0, 11.0, 7.0]),
        (ComputeOrder.LONGEST_PATH_FIRST, [23.0, 0.0, 21.0, 1.0, 23.0, 1.0]),
    ):
        over = replace(network(0), order=order)
        assert simulate_rounds(tasks, flows_of(tasks, over), over).start == starts


def test_tasks_in_a_circle_are_refused():
    """Neither can begin."""
    tasks = IterationTasks()
    for lane, then in ((0, 1), (1, 0)):
        tasks.add(FORWARD, 0, lane=lane, duration_ms=1.0)
        tasks.followers[lane].append(then)
    with pytest.raises(ValueError, match="circle"):
        run(tasks, network(0))


def drawn_case(rng, most_weight=2_000_000):
    """A chain with a branch of layers of all splits, placed at random, on a random circulant."""
    n = int(rng.choice([4, 6, 8, 12]))
    cluster = make_cluster(
        n, 4, link_gbps=40.0, hop_latency_us=1.0, ring_round_latency_us=2.1, gpus_per_server=int(rng.integers(1, 5))
    )
    ways = [p for p in range(1, n + 1) if n % p == 0]
    splits = list(sample_splits(ways, *rng.uniform(0.01, 0.5, 2)))
    splits += [Split(1, 0.02, 0.03, 50, channel_ways=p) for p in ways if p > 1]
    splits += [Split(1, 0.02, 0.03, 50, reduce_ways=p) for p in ways if p > 1]
    layers = []
    for index in range(6):
        inputs = sorted(set(rng.integers(0, index, 2).tolist())) if index else ()
        weights = rng.integers(1, most_weight, int(rng.integers(0, 3))).tolist()
        layers.append(dense(f"layer{index}", int(rng.integers(3, 20_000)), inputs, splits, weights))
    placements = []
    for layer in layers:
        split = int(rng.integers(len(layer.splits)))
        placements.append((split, int(rng.integers(n // layer.splits[split].parts))))
    second = int(rng.integers(2, n // 2 + 1)) if n > 4 else 2
    plan = make_plan(cluster, placements, [1, second], strided_groups(n))
    return cluster, Workload("drawn", 24 * n, tuple(layers)), plan


@pytest.mark.parametrize("sharing", LinkSharing)
@pytest.mark.parametrize("most_weight", [2_000_000, 200_000_000])
@pytest.mark.parametrize("seed", range(25))
def test_equal_to_the_engine_on_drawn_plans(seed, most_weight, sharing):
    """Every task starts and ends when the compiled engine says, and for the same cause."""
    cluster, workload, plan = drawn_case(np.random.default_rng(seed), most_weight)
    for order in ComputeOrder:
        cluster = replace(cluster, link_sharing=sharing, compute_order=order)
        findings = ViolationLog()
        seen = inspect_plan(findings, cluster, workload, plan)
        assert findings.clean
        tasks, over = tasks_of(workload, seen.parts, seen.traffic), plan_network(cluster, plan)
        times = simulate_rounds(tasks, flows_of(tasks, over), over)
        own = direct_connect_network(cluster, plan.topology, plan.routes, plan.rings)
        engine = simulate(build_task_graph(cluster, workload, plan.strategy), own)
        assert times.total_ms == engine.iteration_time_ms
        assert (times.start, times.end) == (engine.start_ms.tolist(), engine.end_ms.tolist())
        assert times.cause == engine.cause.tolist()
