"""Collectives on switched networks reach their bounds, which all cuts and independent arborescences confirm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from solvers.collective.best_rates import best_rate, limiting
from solvers.collective.limits import ratio_cut
from solvers.collective.symmetry import merge_twins, symmetry_of
from solvers.collective.trees import fine_forest
from solvers.stop import Stop
from tests.support import collective_networks as small
from tests.support import switched_networks as nets
from topoopt.core.collective import CollectiveOp, CollectivePlan, CollectiveProblem, tree_certificate
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Certificate
from topoopt.kinds.pipeline import solve
from topoopt.native import graph
from topoopt.verify.collective import CHECKER, allgather_ratio, bandwidth_us, least_arborescence, objective_value


def stated(network: RatedNetwork, collective: str, **more: object) -> CollectiveProblem:
    operation = CollectiveOp(collective)
    return CollectiveProblem("x", network, operation, 10**9, objective="throughput", sha256="0" * 64, **more)  # type: ignore[arg-type]


# Rates in GB/s, by hand and of public papers: 64/63 of what a rank's links carry, half of it for an AllReduce; DGX-2 of
# two boxes by ForestColl; a row and a diagonal of a torus 4 x 4 by all cuts.
@pytest.mark.parametrize(
    ("make", "collective", "rate"),
    [
        (nets.two_tier, "allgather", 50 * 64 / 63),
        (lambda: nets.two_tier(nics=4), "allgather", 200 * 64 / 63),
        (lambda: nets.two_tier(nics=4), "allreduce", 100 * 64 / 63),
        (lambda: nets.two_tier(nics=4), "reduce-scatter", 200 * 64 / 63),
        (lambda: nets.two_tier(nics=4), "all-to-all", 200 * 64 / 63),
        (nets.mi300x, "allgather", 400 * 64 / 63),
        (lambda: small.machine("dgx-a100", 2), "allgather", 346.6666667),
        (lambda: small.machine("dgx2", 2), "allreduce", 67.741935484),
        (lambda: small.torus(4, 4).with_members([0, 1, 2, 3]), "allgather", 16 / 3),
        (lambda: small.torus(4, 4).with_members([0, 5, 10, 15]), "allgather", 16 / 3),
        (lambda: small.torus(4, 4).with_members([0, 1, 2, 3]), "all-to-all", 4 * 4 / 3),
    ],
)
def test_values_by_hand(make: Callable[[], RatedNetwork], collective: str, rate: float) -> None:
    result = solve(stated(make(), collective))
    assert result.check.ok, result.check.violations
    assert result.objective.value == pytest.approx(rate, rel=1e-6)
    assert result.bound.value == pytest.approx(rate, rel=1e-6)
    assert result.status == "optimal"


@pytest.mark.parametrize("collective", ["allgather", "allreduce"])
def test_without_symmetry(collective: str) -> None:
    """16 ranks on 12 switches drawn at random: within a thousandth of the bound, by splitting and packing."""
    result = solve(stated(nets.even(16, 12, seed=4), collective))
    assert result.check.ok, result.check.violations
    assert result.objective.value >= 0.999 * result.bound.value


def least_cut_rate(network: RatedNetwork) -> Fraction:
    """Over all sets of nodes."""
    best = None
    for code in range(1, (1 << network.nodes) - 1):
        inside = [node for node in range(network.nodes) if code >> node & 1]
        try:
            ratio = allgather_ratio(network, inside)
        except ValueError:
            continue
        best = ratio if best is None else max(best, ratio)
    assert best is not None
    return 1 / best


def test_small_networks_against_all_cuts() -> None:
    """AllGathers reach the least cut; the lengths of an AllReduce prove no more than its schedule reaches."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        network = small.random_network(rng, switches=True, most_ranks=6)
        problem = stated(network, "allgather")
        best = best_rate(problem, Stop())
        plan = CollectivePlan.of(best.schedule())
        assert [text for _, law in CHECKER.constraints for text in law(problem, plan)] == []
        rate = float(least_cut_rate(network) * network.unit_gbytes_per_s) * len(network.ranks)
        assert objective_value(problem, plan) == pytest.approx(rate, rel=1e-6)
        summed = stated(network, "allreduce")
        both = best_rate(summed, Stop())
        value = objective_value(summed, CollectivePlan.of(both.schedule()))
        assert value == pytest.approx(10**6 / float(bandwidth_us(summed, both.certificates)), rel=2e-4)


def test_arborescences_against_networkx() -> None:
    """The checker's, and the native one, on 40 dense matrices with ties."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        n = int(rng.integers(2, 9))
        cost, root = rng.integers(0, 12, (n, n)), int(rng.integers(n))
        directed = nx.DiGraph()
        directed.add_weighted_edges_from(
            (u, v, int(cost[u, v])) for u in range(n) for v in range(n) if v not in (u, root)
        )
        expected = sum(row["weight"] for _, _, row in nx.minimum_spanning_arborescence(directed).edges(data=True))
        assert least_arborescence(cost, root) == expected
        parent = graph.least_tree(cost.astype(np.float64), root)
        assert sum(int(cost[u, v]) for v, u in enumerate(parent.tolist()) if u >= 0) == expected


def test_packed_trees_fit() -> None:
    """Arborescences of every root reach all nodes and stay within the capacities."""
    network = small.torus(3, 3)
    tail, head = (np.ascontiguousarray(row) for row in network.arcs.T)
    capacity, count = np.full(len(tail), 2), np.ones(9, dtype=np.int64)
    for flat in (False, True):
        roots, counts, parents = graph.pack_trees(9, tail, head, capacity, count, 100, flat)
        assert np.bincount(roots, counts, 9).tolist() == [1.0] * 9
        used: dict[tuple[int, int], int] = {}
        for root, units, parent in zip(roots.tolist(), counts.tolist(), parents.tolist(), strict=True):
            for node in range(9):
                up = node
                for _ in range(9):
                    up = parent[up] if up != root else root
                assert up == root
                if node != root:
                    used[parent[node], node] = used.get((parent[node], node), 0) + units
        assert max(used.values()) <= 2
        assert not len(graph.pack_trees(9, tail, head, capacity, 2 * count, 100, flat)[0])


def test_symmetries_are_found_and_twins_merged() -> None:
    """Eight spines are one; shifts leave few orbits of links, with the nodes numbered at random too."""
    network = nets.rails(8)
    merged = merge_twins(network)
    assert merged.network.nodes == network.nodes - 7
    assert [weight for group in merged.groups for _, weight in group] == [1] * 8
    assert len(symmetry_of(merged.network, (merged.network.ranks,)).arc_count) <= 6


SPOILT: dict[str, Callable[[CollectiveProblem, Certificate], Certificate]] = {
    "no permutation": lambda problem, own: tree_certificate(
        own["lengths"], [np.zeros(problem.network.nodes, np.int64)]
    ),
    "ranks and switches": lambda problem, own: tree_certificate(
        own["lengths"], [np.roll(np.arange(problem.network.nodes), 1)]
    ),
    "negative": lambda problem, own: tree_certificate(own["lengths"] - own["lengths"].max() - 1),
    "too few": lambda problem, own: tree_certificate(own["lengths"][1:]),
}


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_lengths_prove_nothing(name: str) -> None:
    problem = stated(nets.two_tier(2, 4), "allreduce")
    first, cut = limiting(problem, Stop())
    assert bandwidth_us(problem, (first, cut)) > 0
    with pytest.raises(ValueError, match=r"length|symmetr|apart"):
        bandwidth_us(problem, (SPOILT[name](problem, first), cut))


def test_a_message_over_a_group_of_switches_loads_each() -> None:
    """Over spines of rates 30 and 10 it is divided 3 to 1; other weights are slower, other switches refused."""
    links = [(0, 2, 40), (1, 2, 40), (2, 3, 30), (2, 4, 10), (3, 5, 30), (4, 5, 10), (5, 6, 40), (5, 7, 40)]
    network = small.two_way(8, links, switches=(2, 3, 4, 5))
    problem = stated(network, "allgather")
    plan = CollectivePlan.of(best_rate(problem, Stop()).schedule())
    assert sorted(weight for _, weight in plan.switch_groups[0]) == [1, 3]
    assert objective_value(problem, plan) == pytest.approx(40 * 4 / 3)
    slower = replace(plan, switch_groups=(tuple((switch, 1) for switch, _ in plan.switch_groups[0]),))
    # Two shards of 13.3 GB/s cross at least, half of both over the link of 10: three quarters of the rate.
    assert objective_value(problem, slower) <= 40 * (1 + 1e-9)
    wrong = replace(plan, switch_groups=(((2, 1), (3, 1)),))
    assert [text for _, law in CHECKER.constraints for text in law(problem, wrong)]


# Rows of a torus 4 x 4, each on its own ring: two links of 1 GB/s in; all four at once use the columns only as detours.
@pytest.mark.parametrize(
    ("collective", "rate"), [("allgather", 8 / 3), ("reduce-scatter", 8 / 3), ("allreduce", 4 / 3), ("all-to-all", 2.0)]
)
def test_process_groups_at_once(collective: str, rate: float) -> None:
    groups = tuple(tuple(range(4 * row, 4 * row + 4)) for row in range(4))
    result = solve(stated(small.torus(4, 4), collective, groups=groups))
    assert result.check.ok, result.check.violations
    assert result.objective.value == pytest.approx(rate, rel=1e-6)
    assert result.status == "optimal"


# Two switches joined by 1 GB/s each way, ranks at 10. Over the joint cross one of the two shards of the pair and two of
# the four others (AllGather), one pair of two and four of twelve (All-to-All), both vectors once (AllReduce).
@pytest.mark.parametrize(
    ("collective", "shares", "rate"),
    [
        ("allgather", (), 1.0), ("allgather", (3, 1), 1 / 2), ("reduce-scatter", (1, 3), 1 / 2),
        ("allreduce", (3, 1), 1 / 4), ("all-to-all", (), 2 / 3), ("all-to-all", (3, 1), 2 / 5),
    ],
)  # fmt: skip
def test_process_groups_of_unequal_sizes_and_vectors(collective: str, shares: tuple[int, ...], rate: float) -> None:
    b = nets.Builder()
    ranks, (left, right) = b.some(6, rank=True), b.some(2)
    for rank in ranks:
        b.cable(rank, left if rank < 3 else right, 10)
    b.cable(left, right, 1)
    problem = stated(b.done(), collective, groups=((0, 3), (1, 2, 4, 5)), shares=shares)
    result = solve(problem)
    assert result.check.ok, result.check.violations
    assert result.objective.value == pytest.approx(rate, rel=1e-6)
    assert result.status == "optimal"
    larger = replace(problem, shares=(2, 7))
    assert any("proportion" in text for _, law in CHECKER.constraints for text in law(larger, result.plan))


@pytest.mark.parametrize("seed", range(4))
def test_groups_drawn_at_random_meet_their_bound(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pairs = [(node, (node + step) % 11, int(draw.integers(1, 4))) for node in range(11) for step in (1, 3)]
    network = small.two_way(11, pairs, switches=(4, 8))
    ranks = draw.permutation(network.ranks).tolist()
    groups = tuple(tuple(sorted(own)) for own in (ranks[:2], ranks[2:5], ranks[5:9]))
    for collective in ("allgather", "allreduce", "all-to-all"):
        result = solve(stated(network, collective, groups=groups, shares=(1, int(draw.integers(1, 4)), 2)))
        assert result.check.ok, result.check.violations
        assert result.objective.value >= result.bound.value * (1 - 1e-3)


def test_low_trees_where_latencies_count() -> None:
    """Nothing alike: 32 ranks reach each other over at most 3 log2 32 messages, at the rate of the higher trees."""
    network = nets.even(32, 20)
    rate = np.full(32, 1 / float(ratio_cut(network)[0]))
    low, high = (fine_forest(network, network.units.astype(np.float64), rate, flat=flat) for flat in (True, False))
    assert max(trees.height for trees in low) <= 15
    assert max(trees.height for trees in low) < max(trees.height for trees in high)
    counts = [sum(trees.count for trees in forest if trees.root == 0) for forest in (low, high)]
    assert counts[0] == counts[1]
