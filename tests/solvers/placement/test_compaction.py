"""Compaction of placed graphs: structure, guards, and what the exact rule may not change."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from solvers.placement.compaction import BlockGraph, compacted
from tests.support.placed_graphs import problem, random_problems
from topoopt.kinds.placement.methods import expanded
from topoopt.simulate.placement import placement_arrays, simulated, uniform_rates


def graph_of(instance):
    """The operator graph."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(instance.operators)))
    graph.add_edges_from((t.producer, user) for t in instance.tensors for user in t.consumers)
    return graph


@settings(max_examples=150)
@given(random_problems(most=14))
def test_blocks_make_a_graph_without_cycle_and_lose_nothing(instance):
    """Times, memory and co-location survive; the quotient has no cycle; producers stand before consumers."""
    found = compacted(instance)
    assert nx.is_directed_acyclic_graph(graph_of(found.problem))
    before = sum(operator.times_ms[0] for operator in instance.operators)
    assert sum(operator.times_ms[0] for operator in found.problem.operators) == pytest.approx(before)
    together = {}
    for members in found.problem.colocated():
        together.update(dict.fromkeys(members, members))
    for members in instance.colocated():
        blocks = {int(found.block_of[i]) for i in members}
        assert blocks <= set(together[next(iter(blocks))])
    assert len(found.tensor_of) == len(found.problem.tensors)


@settings(max_examples=60)
@given(random_problems(most=14))
def test_paths_are_upper_bounds_between_refreshes(instance):
    """After any allowed merge the kept longest path is no shorter than the one computed from scratch."""
    graph = BlockGraph(placement_arrays(instance))
    for _ in range(4):
        pairs = [(u, v) for u in graph.in_order() for v in graph.after[u] if not graph.second_path(u, v)]
        if not pairs:
            break
        expected = graph.path_after_merge(*pairs[0])
        block = graph.merge(*pairs[0])
        assert graph.head[block] + graph.tail[block] == pytest.approx(expected)
        heads = list(graph.head)
        tails = list(graph.tail)
        graph.refresh()
        for u in graph.in_order():
            assert graph.head[u] <= heads[u] + 1e-9
            assert graph.tail[u] <= tails[u] + 1e-9


def test_chains_are_fused_up_to_the_cap():
    """Twenty operators of 1 ms on two devices: at most total / (4 k) = 2.5 ms a block, so that ten of 2 ms are left."""
    chain = [(i, [i + 1], 1) for i in range(19)]
    found = compacted(problem([1] * 20, chain, [1, 1]), rules=("B5",))
    assert [operator.times_ms[0] for operator in found.problem.operators] == [2] * 10
    assert found.used == {"B1": 0, "B5": 10}
    few = compacted(problem([1] * 20, chain, [1, 1]), rules=("B5",), target=15)
    assert len(few.problem.operators) == 15


def test_edge_zeroing_never_makes_the_graph_slower_without_limits():
    """B6 alone keeps the longest path with communication from growing."""
    rng = np.random.default_rng(0)
    tensors = [(i, sorted({*(i + 1 + rng.integers(0, min(6, 39 - i), 2)).tolist()}), 1.0) for i in range(39)]
    instance = problem([1.0] * 40, tensors, [1, 1])
    before = BlockGraph(placement_arrays(instance)).longest
    found = compacted(instance, rules=("B6",))
    assert found.used["B6"] > 0
    assert BlockGraph(placement_arrays(found.problem)).longest <= before * (1 + 1e-9)


def test_co_located_groups_are_not_glued_into_one():
    """Class guard: each of twelve groups (forward and backward) stays below a third of a device's share, or alone."""
    n = 12
    tensors = [(i, [i + 1], 8) for i in range(2 * n - 1)]
    labels = [f"g{min(i, 2 * n - 1 - i)}" for i in range(2 * n)]
    found = compacted(problem([1.0] * (2 * n), tensors, [1, 1], labels=labels))
    assert len(found.problem.colocated()) >= 3 * 2


def test_the_exact_rule_keeps_the_best_makespan():
    """B1 on a small inference graph with parameter nodes: brute force before and after agree, and so do schedules."""
    times = [0.0, 2.0, 0.0, 3.0, 1.0]
    tensors = [(0, [1], 4), (1, [3, 4], 1), (2, [3], 4)]
    instance = problem(times, tensors, [1, 1], sharing="none")
    found = compacted(instance, rules=())
    assert found.used == {"B1": 2}

    def best(one):
        a = placement_arrays(one)
        return min(
            (
                simulated(a, np.array(place), uniform_rates(a))
                for place in itertools.product(range(2), repeat=len(a.needs))
            ),
            key=lambda schedule: schedule.makespan_ms,
        )

    small = best(found.problem)
    assert small.makespan_ms == best(instance).makespan_ms
    whole = expanded(small, found)
    again = simulated(placement_arrays(instance), whole.device, uniform_rates(placement_arrays(instance)))
    assert again.makespan_ms == whole.end_ms.max() == small.makespan_ms
    assert [instance.tensors[way.tensor].producer for way in whole.transfers] == [
        instance.tensors[way.tensor].producer for way in again.transfers
    ]


def test_the_exact_rule_is_left_alone_where_memory_decides():
    """A parameter node that need not be where its consumer is stays free when devices are small."""
    tight = problem([0.0, 1.0], [(0, [1], 1)], [1, 1], memory=[3, 3], room=5)
    assert compacted(tight, rules=()).used == {"B1": 0}
