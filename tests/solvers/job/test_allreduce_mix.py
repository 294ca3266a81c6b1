"""Ring orders as variables, solved: closed forms, brute force over topologies and orders, certificates re-checked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from solvers.job.allreduce_mix import (
    EXACT_SIZE,
    OPTIMALITY,
    Shares,
    arithmetic_orders,
    every_order,
    mix_rings,
    normal,
    ring_length,
    short_ring,
)
from solvers.job.program_topologies import ring_topology_bound, solve_ring_topology
from solvers.network.routes import circulant_topology
from solvers.stop import Stop
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.proofs import Argument, Status, StopReason
from topoopt.core.topology import Topology
from topoopt.core.workload import AllReduceDemand, Demand
from topoopt.verify.laws.routing import all_pairs, check_flow, integer_lengths

BOTH, ONE_WAY = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL


def whole(n: int, payload: float, moved: NDArray[np.float64] | None = None) -> Demand:
    """One AllReduce over all servers."""
    return Demand(np.zeros((n, n)) if moved is None else moved, (AllReduceDemand(tuple(range(n)), payload),))


def skewed(n: int, seed: int) -> NDArray[np.float64]:
    """Lognormal demand, zero diagonal."""
    moved = np.random.default_rng(seed).lognormal(0.0, 1.0, (n, n))
    np.fill_diagonal(moved, 0.0)
    return moved


def by_hand(counts: NDArray[np.int64], demand: Demand) -> float:
    """Least theta on link counts by a pair-by-pair multicommodity program over all orders; shares no code with ours."""
    n = len(counts)
    arcs = [(i, j) for i in range(n) for j in range(n) if counts[i, j]]
    pairs = [(s, t) for s in range(n) for t in range(n) if s != t]
    orders = [
        (group.wire_bytes_per_member, number, (group.members[0], *rest))
        for number, group in enumerate(demand.allreduce)
        for rest in permutations(group.members[1:])
    ]
    flows, columns = len(pairs) * len(arcs), len(pairs) * len(arcs) + len(orders) + 1
    equal, right = [], []
    for p, (s, t) in enumerate(pairs):
        for v in range(n):
            if v == s:
                continue
            row = np.zeros(columns)
            for a, (i, j) in enumerate(arcs):
                row[p * len(arcs) + a] += (j == v) - (i == v)
            if v == t:
                for r, (volume, _, order) in enumerate(orders):
                    if (s, t) in zip(order, (*order[1:], order[0]), strict=True):
                        row[flows + r] -= volume
            equal.append(row)
            right.append(demand.model_parallel_bytes[s, t] if v == t else 0.0)
    for number in range(len(demand.allreduce)):
        row = np.zeros(columns)
        row[[flows + r for r, (_, own, _) in enumerate(orders) if own == number]] = 1.0
        equal.append(row)
        right.append(1.0)
    upper = np.zeros((len(arcs), columns))
    for a, arc in enumerate(arcs):
        upper[a, a : flows : len(arcs)] = 1.0
        upper[a, -1] = -counts[arc]
    cost = np.zeros(columns)
    cost[-1] = 1.0
    answer = linprog(cost, A_ub=upper, b_ub=np.zeros(len(arcs)), A_eq=np.array(equal), b_eq=np.array(right))
    return float(answer.fun) if answer.status == 0 else np.inf


def sent(demand: Demand, rings: Sequence[Shares]) -> NDArray[np.float64]:
    """Bytes between servers: the demand, and all steps of the rings, which visit each member of their group once."""
    total = demand.model_parallel_bytes.copy()
    for group, shares in zip(demand.allreduce, rings, strict=True):
        assert sum(share for _, share in shares) == pytest.approx(1.0, abs=1e-9)
        for order, share in shares:
            assert share >= 0
            assert sorted(order) == sorted(group.members)
            for here, there in zip(order, (*order[1:], order[0]), strict=True):
                total[here, there] += share * group.wire_bytes_per_member
    return total


def by_lengths(topology: Topology, demand: Demand, lengths: NDArray[np.float64]) -> float:
    """Bytes times distances over capacities times lengths: no mix of rings is shorter than the shortest of all."""
    scaled = integer_lengths(topology.servers, lengths)
    distance = all_pairs(topology, scaled)
    work = float((demand.model_parallel_bytes * distance).sum())
    for group in demand.allreduce:
        first, *others = group.members
        orders = ((first, *rest) for rest in permutations(others))
        shortest = min(sum(int(distance[edge]) for edge in zip(way, (*way[1:], first), strict=True)) for way in orders)
        work += group.wire_bytes_per_member * shortest
    return work / float(topology.multiplicity @ scaled)


@pytest.mark.parametrize(
    ("n", "links", "distances"),
    [(3, ONE_WAY, (1,)), (5, ONE_WAY, (1, 2)), (7, ONE_WAY, (1, 2, 3)), (13, BOTH, (1, 5)), (16, BOTH, (1, 5))],
)
def test_edge_disjoint_rings_share_the_load(n: int, links: LinkDirection, distances: tuple[int, ...]) -> None:
    """All distances are coprime to n: d Hamiltonian cycles share the AllReduce, theta = 2 (n-1)/n * bytes / d."""
    degree = len(distances) * (2 if links is BOTH else 1)
    topology = circulant_topology(n, degree, links, distances)
    result = mix_rings(topology, whole(n, 100.0))
    assert result.theta == pytest.approx(2 * (n - 1) / n * 100.0 / degree, rel=1e-9)
    assert result.status is Status.OPTIMAL


def test_a_circulant_without_single_hop_rings_of_one_step() -> None:
    """Distances 2 and 3 of six servers make no Hamiltonian ring of one distance, yet mixed rings fill all links: d = 3.

    Fibre pairs {2, 3}: three links a server, the prism, whose two-way edges carry 2 * 5/6 * 60 / 3 at best (node cut),
    as its Hamiltonian cycles cover the edges evenly.
    """
    topology = circulant_topology(6, 3, BOTH, (2, 3))
    assert mix_rings(topology, whole(6, 60.0)).theta == pytest.approx(2 * 5 / 6 * 60.0 / 3, rel=1e-6)


@settings(max_examples=20)
@given(st.integers(2, 7), st.integers(0, 10**6), st.sampled_from(list(LinkDirection)), st.booleans())
def test_certificate_and_mix_pass_the_independent_check(n: int, seed: int, links: LinkDirection, half: bool) -> None:
    """Theta is that of the checked flow of demand and ring steps; lengths prove the bound; and they meet."""
    rng = np.random.default_rng(seed)
    topology = circulant_topology(n, 2 if n > 2 else 1, links, (1, 2) if links is ONE_WAY and n > 2 else (1,))
    groups = [AllReduceDemand(tuple(range(n)), float(rng.integers(1, 9)))]
    if half and n > 3:
        groups.append(AllReduceDemand(tuple(range(0, n, 2)), 5.0))
    demand = Demand(skewed(n, seed) * (rng.random((n, n)) < 0.5), tuple(groups))
    result = mix_rings(topology, demand, link_bytes_per_ms=3.0)
    checked = check_flow(topology, sent(demand, result.rings), result.flow)
    assert checked.violations == ()
    assert checked.theta / 3.0 == pytest.approx(result.theta, rel=1e-9)
    assert by_lengths(topology, demand, result.certificate.lengths) / 3.0 == pytest.approx(result.bound, rel=1e-6)
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("seed", range(3))
def test_mix_equals_a_program_over_all_orders(seed: int) -> None:
    """Five servers: column generation reaches the optimum of a pair-by-pair program with all 24 orders."""
    counts = np.zeros((5, 5), dtype=np.int64)
    topology = circulant_topology(5, 2, ONE_WAY, (1, 3))
    counts[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
    demand = Demand(skewed(5, seed), (AllReduceDemand((0, 1, 2, 3, 4), 4.0), AllReduceDemand((0, 3), 2.0)))
    assert mix_rings(topology, demand).theta == pytest.approx(by_hand(counts, demand), rel=1e-6)


def test_limits_leave_a_sound_result() -> None:
    """One program, or a stop at once: a feasible mix with a valid bound, and the reason."""
    topology = circulant_topology(12, 3, ONE_WAY, (1, 3, 4))
    few = mix_rings(topology, whole(12, 10.0, skewed(12, 0)), rounds=1)
    assert (few.rounds, few.stopped_by) == (1, StopReason.BUDGET)
    late = mix_rings(topology, whole(12, 10.0, skewed(12, 0)), stop=Stop(deadline=time.monotonic()))
    assert (late.rounds, late.stopped_by) == (1, StopReason.TIME)
    full = mix_rings(topology, whole(12, 10.0, skewed(12, 0)))
    assert few.bound <= full.theta * (1 + 1e-9) <= few.theta * (1 + 1e-9)
    priced = mix_rings(topology, whole(12, 10.0, skewed(12, 0)), hop_price=1e-3)
    assert full.theta * (1 - 1e-9) <= priced.theta <= full.theta * 1.01
    assert priced.flow.flow.sum() <= full.flow.flow.sum() * (1 + 1e-9)


def test_mix_refuses_bad_input() -> None:
    """No traffic, another size, groups that are none, wrong known orders, a cut network."""
    topology = circulant_topology(4, 2, BOTH, (1,))
    with pytest.raises(InputError, match="no traffic"):
        mix_rings(topology, Demand(np.zeros((4, 4)), ()))
    with pytest.raises(InputError, match="another cluster"):
        mix_rings(topology, whole(5, 1.0))
    bad = Demand(np.zeros((4, 4)), (AllReduceDemand((0, 0), 1.0), AllReduceDemand((1, 7), 1.0)))
    with pytest.raises(InputError) as caught:
        mix_rings(topology, bad)
    assert len(caught.value.problems) == 2
    with pytest.raises(InputError, match="every member once"):
        mix_rings(topology, whole(4, 1.0), warm_start=[[(0, 1, 2, 2)]])
    pair = Topology(
        4, 1, BOTH, np.array([[0, 1], [1, 0]], dtype=np.int32), np.ones(2, dtype=np.int32), -np.ones((1, 4))
    )
    with pytest.raises(InfeasibleError):
        mix_rings(pair, whole(4, 1.0))


@settings(max_examples=25)
@given(st.integers(2, 7), st.integers(0, 10**6))
def test_small_groups_are_priced_exactly(size: int, seed: int) -> None:
    """The ring found is no longer than any order, and its length is as stated."""
    distance = np.random.default_rng(seed).random((size, size))
    length, order = short_ring(distance)
    assert sorted(order.tolist()) == list(range(size))
    assert length == ring_length(distance, order)
    shortest = min(ring_length(distance, np.array(every)) for every in every_order(range(size)))
    assert length == pytest.approx(shortest)


def test_large_groups_are_priced_by_local_search() -> None:
    """Points round a circle in random names: the tour round it is found; orders are whole."""
    size = EXACT_SIZE + 12
    names = np.random.default_rng(1).permutation(size)
    gap = (names[None, :] - names[:, None]) % size
    length, order = short_ring(gap.astype(np.float64))
    assert sorted(order.tolist()) == list(range(size))
    assert order[0] == 0
    assert length == size
    assert len(set(arithmetic_orders(size))) == len(arithmetic_orders(size))
    assert normal((3, 1, 2)) == (1, 2, 3)


@pytest.mark.parametrize(("links", "seed"), [(ONE_WAY, 0), (ONE_WAY, 1), (BOTH, 0), (BOTH, 1)])
def test_four_servers_of_degree_two_by_brute_force(links: LinkDirection, seed: int) -> None:
    """The joint program equals the best of every topology, each with a program of its own over all orders."""
    demand = whole(4, 3.0, skewed(4, seed))
    best = np.inf
    tried: set[bytes] = set()
    rows = [np.bincount(heads, minlength=4) for heads in combinations_with_replacement(range(4), 2)]
    for chosen in product(rows, repeat=4):
        counts = np.array(chosen, dtype=np.int64)
        np.fill_diagonal(counts, 0)
        usable = (counts.sum(axis=0) <= 2).all() and (links is ONE_WAY or np.array_equal(counts, counts.T))
        full = counts.sum() == 8 or links is BOTH  # further links never hurt
        if usable and full and counts.tobytes() not in tried:
            tried.add(counts.tobytes())
            best = min(best, by_hand(counts, demand))
    result = solve_ring_topology(Cluster(4, 1, 2, 8e-6, links), demand)  # one byte per ms
    assert result.plan.theta == pytest.approx(best, rel=1e-5)
    assert result.plan.theta <= result.bounds[0].value * (1 + OPTIMALITY)
    assert result.bounds[0].value <= best * (1 + 1e-6)


@pytest.mark.parametrize(("n", "degree"), [(5, 2), (7, 2), (7, 3)])
def test_pure_allreduce_meets_the_node_cut(n: int, degree: int) -> None:
    """Prime n: TotientPerms has enough edge-disjoint rings, so 2 (n-1)/n * bytes / d is optimal over all topologies."""
    cluster = Cluster(n, 1, degree, 8e-6, ONE_WAY)
    result = solve_ring_topology(cluster, whole(n, 50.0))
    assert result.plan.theta == pytest.approx(2 * (n - 1) / n * 50.0 / degree, rel=1e-9)
    assert result.plan.theta <= result.bounds[0].value * (1 + OPTIMALITY)
    assert result.bounds[0].argument is Argument.NODE_CUT


def test_a_node_limit_leaves_a_bound_and_repeats_itself() -> None:
    """One node: no optimum is claimed falsely, the bound is not above theta, and twice the same gives the same."""
    cluster = Cluster(6, 1, 2, 8e-6, ONE_WAY)
    demand = whole(6, 5.0, skewed(6, 0))
    first, again = (solve_ring_topology(cluster, demand, nodes=1) for _ in range(2))
    assert ring_topology_bound(cluster, demand).value <= first.bounds[0].value * (1 + 1e-9)
    assert first.bounds[0].value <= first.plan.theta
    assert first.plan.theta == again.plan.theta
    assert np.array_equal(first.plan.topology.arcs, again.plan.topology.arcs)
    assert first.plan.rings == again.plan.rings


def test_large_groups_are_relaxed_and_still_bounded() -> None:
    """Eight members have no list of orders in the program; two servers and one server are the small ends."""
    cluster = Cluster(8, 1, 2, 8e-6, ONE_WAY)
    result = solve_ring_topology(cluster, whole(8, 5.0, skewed(8, 0)), nodes=1)
    assert result.bounds[0].value <= result.plan.theta
    two = solve_ring_topology(Cluster(2, 1, 3, 8e-6), whole(2, 6.0))
    assert two.plan.theta == pytest.approx(2.0)
    with pytest.raises(InputError, match="too few servers"):
        solve_ring_topology(Cluster(1, 1, 3, 8e-6), Demand(np.zeros((1, 1)), ()))
