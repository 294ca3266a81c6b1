"""AllReduces on schedules: times worked out by hand, the engine and the checker to the last bit, laws, bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from solvers.job.candidate_topologies import JobSchedules, allreduce_sizes
from solvers.stop import Stop
from tests.support.plan_loads import figures_of
from tests.support.schedule_cases import links_topology, one_allreduce, one_tree, schedule_of
from tests.support.verify_cases import four_servers, path_table
from tests.verify.job.test_rounds_simulated_again import drawn_case
from topoopt.core.errors import InputError
from topoopt.core.job import Plan
from topoopt.core.result import AllReduceChoice
from topoopt.core.workload import Strategy
from topoopt.simulate.fabrics import plan_network as engine_network
from topoopt.simulate.network import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.bounds import bounds_of, instance_bounds
from topoopt.verify.job.plan import Inspection, check_plan, inspect_plan
from topoopt.verify.job.simulation import ALLREDUCE, IterationTasks, flows_of, plan_network, simulate_rounds, tasks_of
from topoopt.verify.laws.routing import check_rings
from topoopt.verify.laws.schedules import check_choice, check_schedules

MB_MS, HOP_MS, ROUND_MS = 1.0, 0.1, 0.5  # what 1e6 bytes take on a link, and the latencies of `links_topology`
RING_OF_4 = [(0, 1), (1, 2), (2, 3), (0, 3)]
PATH_OF_3 = [(0, 1), (1, 2)]
STAR_OF_4 = [(0, 1), (0, 2), (0, 3)]


def both_times(cluster, topology, schedule, payload):
    """Time of one AllReduce alone, by the engine (its time model `rounds`) and by the checker."""
    plan = Plan(Strategy(()), topology, path_table(topology.servers, {}), (), (schedule,))
    graph = one_allreduce(schedule.members, payload, topology.servers)
    tasks = IterationTasks()
    tasks.add(ALLREDUCE, 0, members=schedule.members, size=payload)
    findings = ViolationLog()
    loads = check_schedules(findings, plan.schedules, topology.adjacency())
    assert [str(each) for each in findings.violations()] == []
    over = plan_network(cluster, plan, loads)
    checked = simulate_rounds(tasks, flows_of(tasks, over), over).total_ms
    by_hops = simulate(graph, engine_network(cluster, plan), "hop").iteration_time_ms
    engine = simulate(graph, engine_network(cluster, plan)).iteration_time_ms
    assert by_hops == engine  # step by step in both
    return engine, checked


def breadth_first(cluster, topology, payload):
    """The breadth-first schedule of all servers, by the solver."""
    members = tuple(range(topology.servers))
    made = JobSchedules(cluster, AllReduceChoice.BFB, Stop())
    (proposal,) = made.proposals(topology, {members: (payload,)}, ())
    (schedule,) = proposal
    assert (schedule.method, schedule.pieces, schedule.from_bytes, schedule.below_bytes) == ("bfb", 1, 0, None)
    return schedule


def test_breadth_first_on_a_ring_of_four():
    """Shards of S/4: one over each link, then half of the opposite one; up and down again: 2 (S/4 + S/8), 4 rounds."""
    cluster, topology = links_topology(4, RING_OF_4, 2)
    times = both_times(cluster, topology, breadth_first(cluster, topology, 8_000_000), 8_000_000)
    assert times == (pytest.approx(6.0 * MB_MS + 4 * ROUND_MS, rel=1e-12),) * 2


def test_breadth_first_on_a_complete_graph_in_one_step_each_way():
    """Every shard of S/4 goes straight over a link of its own: 2 S/4, 2 rounds."""
    cluster, topology = links_topology(4, list(combinations(range(4), 2)), 3)
    times = both_times(cluster, topology, breadth_first(cluster, topology, 8_000_000), 8_000_000)
    assert times == (pytest.approx(4.0 * MB_MS + 2 * ROUND_MS, rel=1e-12),) * 2


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_a_tree_on_a_path(pieces):
    """Both ends to the middle and back: 2 steps of S; in p pieces p + 1 of S/p, up and down over opposite links."""
    cluster, topology = links_topology(3, PATH_OF_3, 2)
    tree = one_tree(topology, (0, 1, 2), 1, pieces=pieces)
    times = both_times(cluster, topology, tree, 4_000_000)
    assert times == (pytest.approx((pieces + 1) * (4.0 / pieces * MB_MS + ROUND_MS), rel=1e-12),) * 2


def test_a_server_outside_passes_on():
    """Two hops, cut through: the second link begins a hop latency after the first, on both steps."""
    cluster, topology = links_topology(3, PATH_OF_3, 2)
    times = both_times(cluster, topology, one_tree(topology, (0, 2), 0), 4_000_000)
    assert times == (pytest.approx(2 * (4.0 * MB_MS + HOP_MS + ROUND_MS), rel=1e-12),) * 2


def issues(schedule, pairs=tuple(RING_OF_4), n=4):
    """Codes of what the checker finds wrong with a schedule."""
    _, topology = links_topology(n, list(pairs), 3)
    findings = ViolationLog()
    sound = check_schedules(findings, (schedule,), topology.adjacency())
    assert bool(sound) or not findings.clean
    return {each.code for each in findings.violations()}


UP = [(0, 0, 1, 0, True), (0, 0, 3, 0, True), (0, 0, 2, 3, True)]
"""Not in time: server 2 hands its part to 3 in the step in which 3 sends."""
GOOD = [(0, 0, 2, 3, True), (1, 0, 1, 0, True), (1, 0, 3, 0, True), (2, 0, 0, 1, False), (2, 0, 0, 3, False),
        (3, 0, 1, 2, False)]  # fmt: skip


def changed(**change):
    """The good schedule with one thing altered."""
    return replace(schedule_of((0, 1, 2, 3), [(1, 0)], GOOD), **change)


def test_a_good_schedule_passes():
    """The one that the corrupt ones below are made of."""
    assert issues(changed()) == set()


@pytest.mark.parametrize(
    ("sends", "code"),
    [
        ([*UP, *GOOD[3:]], "schedule-sum"),
        (GOOD[1:], "schedule-sum"),
        (GOOD[:-1], "schedule-result"),
        ([*GOOD[:5], (1, 0, 1, 2, False)], "schedule-causality"),
        ([*GOOD[:3], (0, 0, 0, 1, False), *GOOD[4:]], "schedule-causality"),
        ([*GOOD, (4, 0, 0, 2, False)], "schedule-route"),
        ([*GOOD[:2], (1, 0, 1, 0, True), *GOOD[2:]], "schedule-sum"),
    ],
    ids=["sum too late", "a part lost", "a copy lost", "copied before it is there", "copied before it is summed",
         "no such link", "a part twice"],
)  # fmt: skip
def test_corrupt_schedules_are_refused(sends, code):
    """Each is named for what is wrong with it."""
    ordered = sorted(sends, key=lambda row: row[0])
    assert code in issues(schedule_of((0, 1, 2, 3), [(1, 0)], ordered))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"members": (0, 1, 3)}, "schedule-sends"),
        ({"members": (3, 2, 1, 0)}, "schedule-group"),
        ({"pieces": 0}, "schedule-pieces"),
        ({"from_bytes": 10, "below_bytes": 10}, "schedule-sizes"),
        ({"method": "magic"}, "schedule-method"),
        ({"pieces": 10**9}, "schedule-size"),
    ],
)
def test_what_stands_beside_a_schedule_is_checked(change, code):
    """Members, sizes, pieces, and who made it."""
    assert code in issues(changed(**change))


def test_two_schedules_for_one_payload_and_none():
    """Every AllReduce has exactly one way: overlapping sizes are refused, and so are payloads left without rings."""
    cluster, workload, plan = four_servers()
    tree = one_tree(plan.topology, (0, 1, 2, 3), 0)
    assert check_plan(cluster, workload, replace(plan, rings=(), schedules=(tree,))) == ()
    low, high = replace(tree, below_bytes=100), replace(tree, from_bytes=99)
    (found,) = check_plan(cluster, workload, replace(plan, rings=(), schedules=(low, high)))
    assert found.code == "schedule-sizes"
    high = replace(tree, from_bytes=100)
    assert check_plan(cluster, workload, replace(plan, rings=(), schedules=(low, high))) == ()
    (found,) = check_plan(cluster, workload, replace(plan, rings=(), schedules=(low,)))
    assert found.code == "ring-missing"
    assert "16384 bytes" in found.message  # 4096 elements; the 8 others are covered
    assert check_plan(cluster, workload, replace(plan, schedules=(low,))) == ()


def test_loads_are_split_between_rings_and_schedules():
    """Of 16384 + 32 bytes the large tensor on a tree rooted at 0, the small one on two opposite rings."""
    cluster, workload, plan = four_servers()
    tree = one_tree(plan.topology, (0, 1, 2, 3), 0, sizes=(100, None))
    figures = figures_of(cluster, inspect_plan(ViolationLog(), cluster, workload, replace(plan, schedules=(tree,))))
    moved = figures.link_bytes - figures_of(cluster, inspect_plan(ViolationLog(), cluster, workload, plan)).link_bytes
    on_rings = 2 * 3 / 4 * 16384 / 2  # each of both rings, on every link
    on_tree = np.zeros((4, 4))
    for above, server in ((0, 1), (0, 3), (1, 2)):
        on_tree[above, server] = on_tree[server, above] = 16384
    np.testing.assert_allclose(moved, on_tree - on_rings * (plan.topology.adjacency() > 0), atol=1e-6)


def test_schedules_are_those_that_the_instance_asks_for():
    """Rings alone, one kind alone, or anything."""
    _, _, plan = four_servers()
    tree = one_tree(plan.topology, (0, 1, 2, 3), 0)
    cases = {
        AllReduceChoice.RINGS: (False, True, True),
        AllReduceChoice.TREES: (True, False, True),
        AllReduceChoice.BFB: (True, True, True),
        AllReduceChoice.BEST: (False, False, False),
    }
    for choice, refused in cases.items():
        plans = (plan, replace(plan, rings=(), schedules=(tree,)), replace(plan, schedules=(tree,)))
        for one, wrong in zip(plans, refused, strict=True):
            findings = ViolationLog()
            check_choice(findings, choice, one)
            assert findings.clean == (not wrong), (choice, one.schedules)


def scheduled_case(seed):
    """A drawn plan whose AllReduces run on drawn proposals of schedules, some of them still on rings."""
    rng = np.random.default_rng(seed)
    cluster, workload, plan = drawn_case(rng)
    sizes = allreduce_sizes(build_task_graph(cluster, workload, plan.strategy))
    choice = list(AllReduceChoice)[1 + int(rng.integers(3))]
    rings = plan.rings if choice is AllReduceChoice.BEST else ()
    proposals = list(JobSchedules(cluster, choice, Stop()).proposals(plan.topology, sizes, rings)) if sizes else [()]
    return cluster, workload, replace(plan, schedules=proposals[int(rng.integers(len(proposals)))])


def inspected(cluster, workload, plan):
    """What the checker sees of a plan in which it finds nothing wrong."""
    findings = ViolationLog()
    seen = inspect_plan(findings, cluster, workload, plan)
    assert [str(each) for each in findings.violations()] == []
    return seen


@pytest.mark.parametrize("seed", range(15))
def test_equal_to_the_engine_on_drawn_plans(seed):
    """Every task starts and ends when the compiled engine says, and links carry what is counted without a clock."""
    cluster, workload, plan = scheduled_case(seed)
    seen = inspected(cluster, workload, plan)
    tasks, over = tasks_of(workload, seen.parts, seen.traffic), plan_network(cluster, plan, seen.schedules)
    times = simulate_rounds(tasks, flows_of(tasks, over), over)
    engine = simulate(build_task_graph(cluster, workload, plan.strategy), engine_network(cluster, plan))
    assert (times.start, times.end) == (engine.start_ms.tolist(), engine.end_ms.tolist())
    carried = figures_of(cluster, seen).link_bytes
    np.testing.assert_allclose(engine.link_bytes, carried[tuple(plan.topology.arcs.T)], rtol=1e-9, atol=1e-3)


@pytest.mark.parametrize("seed", range(15))
def test_no_plan_beats_the_bounds_for_any_schedule(seed):
    """Balanced schedules, and a tree with one root that lets the others send as little as possible."""
    cluster, workload, plan = scheduled_case(seed)
    groups = {tuple(sorted(group.members)) for group in plan.rings}
    lopsided = tuple(one_tree(plan.topology, members, members[0], pieces=16) for members in sorted(groups))
    for schedules in (plan.schedules, lopsided):
        own = replace(plan, schedules=schedules)
        seen = inspected(cluster, workload, own)
        graph = build_task_graph(cluster, workload, plan.strategy)
        time_ms = simulate(graph, engine_network(cluster, own)).iteration_time_ms
        for links in (seen.links, None):
            bounds = bounds_of(cluster, workload, seen.parts, seen.traffic, links, on_rings=False)
            worst = max((*bounds, *instance_bounds(cluster, workload)), key=lambda bound: bound.value)
            assert worst.value <= time_ms * (1 + 1e-9), worst


def star_bounds(*, on_rings):
    """(least time of an AllReduce of 4 MB by bounds, a pipelined tree of it) on a star whose hub has all links."""
    from topoopt.verify.job.least_times import Rates, shared_wire_ms, slowest_wire_ms
    from topoopt.verify.job.plan import Reduction

    cluster, topology = links_topology(4, STAR_OF_4, 3)
    tree = one_tree(topology, (0, 1, 2, 3), 0, pieces=64)
    links = topology.adjacency()
    rates = Rates(links.sum(axis=1) * 1e6 / MB_MS, links.sum(axis=0) * 1e6 / MB_MS)
    reduction = Reduction(0, (0, 1, 2, 3), (0, 1, 2, 3), 4_000_000, 2 * 3 / 4 * 4_000_000, 0.0)
    least = (slowest_wire_ms if on_rings else shared_wire_ms)(reduction, rates)
    free = replace(cluster, ring_round_latency_us=0.0)
    return least, both_times(free, topology, tree, 4_000_000)[0]


def test_a_tree_beats_what_rings_need_and_not_what_any_schedule_needs():
    """Leaves send S each, not 2 (k-1)/k S: 4.06 ms beat the 6 ms of rings; 6 S over 6 links take 4 ms."""
    least, tree_ms = star_bounds(on_rings=True)
    assert tree_ms == pytest.approx(65 / 64 * 4.0)
    assert least == pytest.approx(6.0)
    least, _ = star_bounds(on_rings=False)
    assert least == pytest.approx(4.0)


@pytest.mark.parametrize("model", ["fluid", "flexnet"])
def test_other_time_models_refuse_schedules(model):
    """They know rings; nothing is timed as if it were on some."""
    cluster, topology = links_topology(3, PATH_OF_3, 2)
    plan = Plan(Strategy(()), topology, path_table(3, {}), (), (one_tree(topology, (0, 1, 2), 1),))
    with pytest.raises(InputError, match="rings only"):
        simulate(one_allreduce((0, 1, 2), 1000, 3), engine_network(cluster, plan), model)


def test_the_engine_refuses_a_payload_that_has_neither():
    """Nothing costs nothing for want of a schedule."""
    cluster, topology = links_topology(3, PATH_OF_3, 2)
    small = one_tree(topology, (0, 1, 2), 1, sizes=(0, 1000))
    plan = Plan(Strategy(()), topology, path_table(3, {}), (), (small,))
    with pytest.raises(ValueError, match="neither rings nor a schedule"):
        simulate(one_allreduce((0, 1, 2), 1000, 3), engine_network(cluster, plan))


def test_payload_on_rings_is_what_no_schedule_covers():
    """Groups need rings for that alone."""
    cluster, workload, plan = four_servers()
    seen = inspect_plan(ViolationLog(), cluster, workload, plan)
    tree = one_tree(plan.topology, (0, 1, 2, 3), 0, sizes=(0, 100))
    loads = check_schedules(ViolationLog(), (tree,), seen.links)
    left = Inspection(seen.parts, seen.traffic, seen.links, seen.hops, (), loads).ring_payload()
    assert left == {(0, 1, 2, 3): 16384}
    findings = ViolationLog()
    check_rings(findings, (), seen.links, left)
    assert [each.code for each in findings.violations()] == ["ring-missing"]
