"""Topology search: kernels against plain recomputation, published small optima, rules kept, refusals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from formulations.joint_topology import HopLp, hop_lp_arrays
from solvers.backends import SOLVERS
from solvers.network.annealing import anneal, hops_of, table_of, topology_of
from solvers.network.assembly import assemble
from solvers.network.polish import SearchBudget, polish
from solvers.network.routing import route
from solvers.network.search import TopologySearchResult, alternate, best_link_counts, one_hop_topology, search_topology
from solvers.network.seeds import SEEDS, seed_topologies
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import StopReason
from topoopt.native import search
from topoopt.verify.laws.routing import check_flow
from topoopt.verify.network.bounds import topology_bounds
from topoopt.workloads.demands import demand_matrix

ONE_WAY, BOTH_WAYS = LinkDirection.UNIDIRECTIONAL, LinkDirection.BIDIRECTIONAL

# Servers, degree, seed of balanced skew: hop-LP bound, optimum, best of an older search.
PUBLISHED = (
    (6, 2, 1, 3.376, 3.437, 3.437),
    (6, 2, 2, 3.412, 3.553, 3.553),
    (6, 2, 3, 3.403, 3.610, 3.610),
    (7, 2, 1, 4.397, 4.572, 4.572),
    (7, 2, 2, 4.132, 4.233, 4.233),
    (7, 3, 1, 2.492, 2.545, 2.545),
    (7, 3, 2, 2.449, 2.552, 2.552),
    (8, 2, 1, 5.225, 5.366, 5.366),
    (8, 3, 1, 3.033, 3.115, 3.133),
    (8, 3, 2, 2.952, 3.063, 3.063),
    (8, 3, 3, 2.986, 3.079, 3.145),
)
QUICK = SearchBudget(proposals=60_000, evaluations=1500)


def _plain_hops(out: NDArray[np.int64], demand: NDArray[np.float64], most: int) -> float:
    n = len(out)
    hops = np.full((n, n), most, dtype=np.int64)
    for s in range(n):
        hops[s, s] = 0
        layer, depth = {s}, 0
        while layer and depth + 1 < most:
            depth += 1
            layer = {int(w) for v in layer for w in out[v] if hops[s, w] == most}
            for w in layer:
                hops[s, w] = min(hops[s, w], depth)
    return float((demand * hops).sum())


def _problem(n: int, d: int, family: str = "balanced-skew", seed: int = 1, **rules: object) -> TopologyProblem:
    links = rules.pop("links", ONE_WAY)
    return TopologyProblem("case", n, d, links, demand_matrix(family, n, seed=seed), **rules)  # type: ignore[arg-type]


def _sound(result: TopologySearchResult, problem: TopologyProblem) -> None:
    """Degrees and symmetry from the arcs; conservation and the largest load by the checker."""
    topology, n = result.topology, problem.servers
    counts = np.zeros((n, n), dtype=np.int64)
    counts[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
    assert not np.diag(counts).any()
    assert counts.sum(axis=0).max() <= problem.degree
    assert counts.sum(axis=1).max() <= problem.degree
    if problem.links is BOTH_WAYS:
        np.testing.assert_array_equal(counts, counts.T)
    checked = check_flow(topology, problem.demand, result.routing.flow)
    assert checked.ok, checked.violations
    assert result.routing.theta == pytest.approx(checked.theta)


@given(n=st.integers(5, 70), levels=st.integers(1, 6), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_bit_rows_count_hops(n: int, levels: int, seed: int) -> None:
    """The hop total of the packed rows equals a breadth-first search, cut off at the same depth."""
    rng = np.random.default_rng(seed)
    out = np.stack([rng.permutation(n) for _ in range(3)], axis=1).astype(np.int64)
    demand = demand_matrix("skew", n, seed=seed)
    levels = min(levels, n)
    assert search.cut_hop_total(out, demand, levels) == pytest.approx(_plain_hops(out, demand, levels + 1))
    assert hops_of(out, demand) == pytest.approx(_plain_hops(out, demand, n))


@pytest.mark.parametrize("links", [ONE_WAY, BOTH_WAYS])
@pytest.mark.parametrize(("n", "by_demand"), [(9, False), (66, False), (9, True), (66, True)])
def test_annealing_lowers_the_hop_total_and_keeps_the_rules(links: LinkDirection, n: int, by_demand: bool) -> None:
    """Degrees and fibre pairs stay, forbidden arcs and parallel links are not made, and the total falls."""
    demand = demand_matrix("balanced-skew", n, seed=2)
    start = table_of(dict(seed_topologies(n, 4, links, demand))["circulant"])
    allowed = ~np.eye(n, dtype=np.bool_)
    used = np.zeros((n, n), dtype=np.bool_)
    used[np.repeat(np.arange(n), 4), start.out.ravel()] = True
    free = np.argwhere(allowed & ~used)[:: max(1, n // 4)]
    allowed[free[:, 0], free[:, 1]] = allowed[free[:, 1], free[:, 0]] = False
    allowed |= used
    out = anneal(start, demand, allowed, 40_000, parallel=False, by_demand=by_demand, seed=1)
    counts = np.zeros((n, n), dtype=np.int64)
    np.add.at(counts, (np.repeat(np.arange(n), 4), out.ravel()), 1)
    assert (counts.sum(axis=0) == 4).all()
    assert (counts.sum(axis=1) == 4).all()
    assert counts.max() == 1
    assert not counts[~allowed].any()
    if links is BOTH_WAYS:
        np.testing.assert_array_equal(counts, counts.T)
    assert hops_of(out, demand) < hops_of(start.out, demand)
    again = anneal(start, demand, allowed, 40_000, parallel=False, by_demand=by_demand, seed=1)
    np.testing.assert_array_equal(out, again)


def test_swaps_drawn_by_demand_need_fewer_proposals() -> None:
    """A fifth of them leaves fewer hops on each of three demands."""
    allowed = ~np.eye(40, dtype=np.bool_)
    for seed in range(3):
        demand = demand_matrix("balanced-skew", 40, seed=seed)
        start = table_of(dict(seed_topologies(40, 4, ONE_WAY, demand))["matching"])
        drawn = anneal(start, demand, allowed, 20_000, by_demand=True, seed=seed)
        assert hops_of(drawn, demand) < hops_of(anneal(start, demand, allowed, 100_000, seed=seed), demand)


@given(n=st.integers(4, 14), seed=st.integers(0, 99))
@settings(max_examples=10)
def test_gradient_bound_is_valid_and_close(n: int, seed: int) -> None:
    """Bounds of the gradient never exceed the routed theta and come within 0.1 % of it."""
    demand = demand_matrix("skew", n, seed=seed)
    topology = dict(seed_topologies(n, 3, ONE_WAY, demand, seed=seed))["random"]
    theta = route(topology, demand, method="simplex").theta
    out = table_of(topology).out
    lengths = np.full(3 * n, 1.0 / (3 * n))
    flow, potential = np.zeros((3 * n, n)), np.zeros((n, n))
    bound = search.price_links(out, demand / theta, 2.0, 4000, 0.2, flow, potential, lengths)[0]
    assert 0.999 <= bound <= 1.0 + 1e-7


def test_polish_improves_and_its_cuts_hold_everywhere() -> None:
    """Theta falls from the seed, and every cut bounds lambda of unrelated topologies."""
    demand = demand_matrix("balanced-skew", 8, seed=3)
    topologies = dict(seed_topologies(8, 3, ONE_WAY, demand))
    start = topologies["totient"]
    heads, _, cuts = polish(table_of(start), demand, ~np.eye(8, dtype=np.bool_), evaluations=300)
    best = topology_of(heads, ONE_WAY, "polished")
    assert route(best, demand).theta < 0.95 * route(start, demand).theta
    for topology in (best, *topologies.values()):
        counts = np.zeros((8, 8))
        counts[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
        ceilings = (cuts * counts).sum(axis=(1, 2))
        assert ceilings.min() >= (1 - 1e-6) / route(topology, demand).theta


@pytest.mark.parametrize(("n", "d", "seed", "hop_bound", "optimum", "older"), PUBLISHED)
def test_search_meets_published_small_optima(
    n: int, d: int, seed: int, hop_bound: float, optimum: float, older: float
) -> None:
    """Theta is never below the published optimum, and at least as good as the older search."""
    problem = _problem(n, d, seed=seed)
    budget = QUICK if n < 8 else SearchBudget(proposals=60_000, evaluations=6000)
    result = search_topology(problem, budget=budget)
    assert optimum - 6e-4 <= result.routing.theta <= older + 6e-4
    _sound(result, problem)


@pytest.mark.parametrize("case", [PUBLISHED[0], PUBLISHED[6], PUBLISHED[10]])
def test_hop_program_reaches_published_bounds(case: tuple[int, int, int, float, float, float]) -> None:
    """A guess just above the published bound is proven by a value below it; a guess just below is not."""
    n, d, seed, published, _, _ = case
    demand = demand_matrix("balanced-skew", n, seed=seed)

    def value(guess: float) -> float:
        result = SOLVERS["highs"](hop_lp_arrays(HopLp(n, d, demand, guess)))
        assert result.objective is not None
        return -result.objective

    for theta, proven in ((published - 1.5e-3, True), (published + 1.5e-3, False)):
        assert (value(1 / theta) < (1 - 1e-7) / theta) == proven


@pytest.mark.parametrize(("n", "theta"), [(5, 3.0), (10, 9.5)])
def test_uniform_optima_are_found_and_proven(n: int, theta: float) -> None:
    """Uniform demand, degree 2: lambda 1/3 for 5 servers, 0.105263 = 1/9.5 for 10, closed by the layered bound."""
    problem = _problem(n, 2, "uniform")
    bound = max(bound.value for bound in topology_bounds(n, 2, problem.demand))
    result = search_topology(
        problem, goal=bound, budget=SearchBudget(proposals=200_000, evaluations=1500, accuracy=1e-7)
    )
    assert bound == pytest.approx(theta, rel=1e-4)
    assert result.routing.theta == pytest.approx(theta, rel=1e-4)


def test_fibre_pairs_of_k44_like_demand() -> None:
    """Eight servers of degree 4 with fibre pairs: K4,4 has theta 2.5 for uniform demand; the search does no worse."""
    problem = _problem(8, 4, "uniform", links=BOTH_WAYS)
    result = search_topology(problem, budget=QUICK)
    assert result.routing.theta <= 2.5 * (1 + 1e-4)
    _sound(result, problem)


def test_sparse_demand_stops_at_the_node_cut() -> None:
    """Where the matchings reach the busiest server's cut, the search proves it and stops before annealing."""
    problem = _problem(16, 4, "sparse")
    result = search_topology(problem)
    cut = max(problem.demand.sum(axis=0).max(), problem.demand.sum(axis=1).max()) / 4
    assert result.routing.theta == pytest.approx(cut, rel=1e-6)
    assert result.stopped_by is StopReason.GAP


def test_rules_of_the_problem_are_kept() -> None:
    """No forbidden link, no parallel link, and no pair beyond the hop limit."""
    forbidden = tuple((i, (i + 1) % 9) for i in range(0, 9, 2))
    problem = _problem(9, 3, forbidden=forbidden, parallel_links=False, max_hops=3)
    result = search_topology(problem, budget=QUICK)
    arcs = {(int(a), int(b)) for a, b in result.topology.arcs}
    assert not arcs & set(forbidden)
    assert result.topology.multiplicity.max() == 1
    assert _plain_hops(table_of(result.topology).out, np.ones((9, 9)), 9) <= 3 * 72
    _sound(result, problem)
    with pytest.raises(InfeasibleError, match="Moore"):
        search_topology(_problem(9, 2, max_hops=2), budget=QUICK)


def test_same_seed_same_topology_and_scale_does_not_matter() -> None:
    """Two runs agree to the last bit, by two processes too; doubling the demand doubles theta on the same links."""
    problem = _problem(9, 3, seed=4)
    double = TopologyProblem("case", 9, 3, ONE_WAY, 2.0 * problem.demand)
    first, second, third = (search_topology(p, seed=7, budget=QUICK) for p in (problem, problem, double))
    assert first.topology.arcs.tobytes() == second.topology.arcs.tobytes()
    assert first.routing.theta == second.routing.theta
    shared = search_topology(problem, seed=7, budget=QUICK, jobs=2)
    assert shared.topology.arcs.tobytes() == first.topology.arcs.tobytes()
    assert (shared.routing.theta, shared.steps) == (first.routing.theta, first.steps)
    assert third.routing.theta == pytest.approx(2.0 * first.routing.theta, rel=1e-4)


@pytest.mark.parametrize("links", [ONE_WAY, BOTH_WAYS])
@pytest.mark.parametrize(("n", "d"), [(2, 1), (5, 2), (9, 3), (16, 5)])
def test_seeds_are_connected_and_within_degree(n: int, d: int, links: LinkDirection) -> None:
    """Every seed of the table that exists uses no more than d interfaces and joins all servers."""
    found = dict(seed_topologies(n, d, links, demand_matrix("skew", n, seed=1)))
    assert set(found) <= set(SEEDS)
    assert len(found) >= (4 if links is ONE_WAY and d > 1 else 1)
    for topology in found.values():
        sent = np.bincount(topology.arcs[:, 0], weights=topology.multiplicity, minlength=n)
        assert sent.max() <= d
        assert hops_of(table_of(topology).out, np.ones((n, n)) - np.eye(n)) < n * n * (n - 1)


def test_generalized_kautz_is_a_kautz_graph() -> None:
    """For n = d^2 + d it is the Kautz graph: every pair within two hops, the Moore bound."""
    topology = dict(seed_topologies(12, 3, ONE_WAY, np.ones((12, 12)) - np.eye(12)))["kautz"]
    assert _plain_hops(table_of(topology).out, np.ones((12, 12)), 12) == 12 * (3 * 1 + 8 * 2)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15)
def test_link_counts_are_exact(seed: int) -> None:
    """For three servers of degree 3 the least theta equals that of all link counts tried one by one."""
    loads = np.random.default_rng(seed).lognormal(0.0, 1.0, (3, 3))
    np.fill_diagonal(loads, 0.0)
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    best = np.inf
    for counts in product((1, 2), repeat=6):
        table = np.zeros((3, 3))
        for (i, j), count in zip(pairs, counts, strict=True):
            table[i, j] = count
        if (table.sum(axis=0) <= 3).all() and (table.sum(axis=1) <= 3).all():
            best = min(best, max(loads[i, j] / table[i, j] for i, j in pairs))
    found = best_link_counts(loads, 3, ONE_WAY)
    assert found is not None
    assert found[0] == pytest.approx(best)
    assert best_link_counts(loads, 1, ONE_WAY) is None


def test_one_hop_networks_and_alternation_never_lose() -> None:
    """Demand that fits direct links gets its exact optimum; recounting links never raises theta."""
    demand = np.array([[0, 3, 1, 0], [0, 0, 4, 1], [2, 0, 0, 2], [5, 0, 0, 0]], dtype=np.float64)
    found = one_hop_topology(demand, 3, ONE_WAY)
    assert found is not None
    # server 3 receives from two servers over three links and server 0 as well: 5 over two links, 2 over one
    assert found[0] == pytest.approx(2.5)
    assert route(found[1], demand).theta <= 2.5 + 1e-6
    for name, topology in seed_topologies(4, 3, ONE_WAY, demand):
        routing = route(topology, demand)
        after = alternate(topology, routing, demand, rounds=3, accuracy=1e-6)
        assert after[1].theta <= routing.theta * (1 + 1e-9), name


def test_bad_problems_are_refused_with_all_issues() -> None:
    """Several faults are listed at once; running networks are not silently ignored."""
    bad = TopologyProblem("bad", 3, 0, ONE_WAY, -np.ones((3, 3)), forbidden=((0, 5),), kept=((0, 1),))
    with pytest.raises(InputError) as caught:
        search_topology(bad)
    assert len(caught.value.problems) == 3
    with pytest.raises(InputError, match="no demand at all"):
        search_topology(TopologyProblem("zero", 3, 1, ONE_WAY, np.zeros((3, 3))))
    with pytest.raises(InfeasibleError):
        search_topology(_problem(4, 1, links=BOTH_WAYS))


def test_recounting_lowers_the_load_of_a_ring() -> None:
    """Link 3-0 of a ring of triple links carries 21 over three of them; other links come with a recount."""
    demand = np.array([[0, 1, 0, 0], [0, 0, 2, 0], [3, 5, 0, 1], [9, 0, 4, 0]], dtype=np.float64)
    ring = np.array([(i, (i + 1) % 4) for i in range(4)])
    topology = assemble(4, 3, ONE_WAY, [ring, ring, ring], "ring")
    routing = route(topology, demand)
    assert routing.theta == pytest.approx(7.0)
    recounted, routed = alternate(topology, routing, demand, rounds=3, accuracy=1e-6)
    assert routed.theta < 6.0
    assert routed.theta == pytest.approx(route(recounted, demand).theta)
