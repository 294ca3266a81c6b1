"""Exact topology methods: known optima, agreement of independent methods, constraints, refusals, honest bounds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

from solvers.network.exact import METHODS, ExactLimits, TopologyResult
from solvers.network.exact.all_networks import maximal_networks
from solvers.network.exact.bounds import best_bound, layer_sizes, most_within
from solvers.network.exact.enumeration import moore_sum, networks_of_excess
from solvers.network.exact.local import price_cut
from solvers.network.exact.routed import relaxed_theta, route
from solvers.network.exact.space import open_space
from solvers.stop import Stop
from tests.support.every_topology import plain_theta
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import AdaptedRouting, TopologyProblem
from topoopt.core.network_solution import FoundNetwork
from topoopt.core.proofs import Argument

ONE_WAY, PAIRS = LinkDirection.UNIDIRECTIONAL, LinkDirection.BIDIRECTIONAL
LIMITS = ExactLimits()
KNOWN = {  # lambda of uniform demand, directed links; published values
    (5, 2): 1 / 3,
    (6, 2): 0.238095,
    (7, 2): 0.181818,
    (10, 2): 0.105263,
    (5, 3): 0.6,
    (6, 3): 0.428571,
    (7, 3): 1 / 3,
    (8, 3): 0.272727,
    (10, 3): 0.2,
}


def uniform(n: int) -> NDArray[np.float64]:
    """One unit between every ordered pair."""
    return np.ones((n, n)) - np.eye(n)


def skewed(n: int, seed: int, *, balanced: bool = False) -> NDArray[np.float64]:
    """Lognormal demand, all positive; balanced: rows and columns of sum 1."""
    demand = np.random.default_rng(seed).lognormal(0.0, 1.5, (n, n))
    np.fill_diagonal(demand, 0.0)
    for _ in range(200 if balanced else 0):
        demand /= demand.sum(axis=1, keepdims=True)
        demand /= demand.sum(axis=0, keepdims=True)
    return demand


def problem(n: int, d: int, demand: NDArray[np.float64] | None = None, **options: object) -> TopologyProblem:
    """Directed links and uniform demand unless said otherwise."""
    values: dict[str, object] = {"links": ONE_WAY, "demand": uniform(n) if demand is None else demand}
    return TopologyProblem("test", n, d, **{**values, **options})  # type: ignore[arg-type]


def check(given_problem: TopologyProblem, result: TopologyResult) -> NDArray[np.int64]:
    """Verify a result from scratch: degrees, deliveries, loads, theta, lengths; returns its link counts."""
    topology, demand, n = result.network.topology, given_problem.demand, given_problem.servers
    counts = topology.adjacency()
    assert counts.sum(axis=1).max() <= given_problem.degree
    assert counts.sum(axis=0).max() <= given_problem.degree
    flow = result.network.flows[0].flow
    net = np.zeros((n, n))
    for a, (i, j) in enumerate(topology.arcs.tolist()):
        net[:, j] += flow[:, a]
        net[:, i] -= flow[:, a]
    off = ~np.eye(n, dtype=bool)
    np.testing.assert_allclose(net[off], demand[off], atol=1e-9 * demand.sum())
    assert (flow >= 0).all()
    assert result.theta == pytest.approx((flow.sum(axis=0) / topology.multiplicity).max(), rel=1e-12)
    routing = result.network.routing
    assert isinstance(routing, AdaptedRouting)
    lengths = routing.certificates[0].lengths
    graph = nx.DiGraph()
    for (i, j), length in zip(topology.arcs.tolist(), lengths.tolist(), strict=True):
        graph.add_edge(i, j, weight=length)
    far = dict(nx.all_pairs_dijkstra_path_length(graph))
    needed = sum(demand[i, j] * far[i][j] for i, j in np.argwhere(demand > 0).tolist())
    proven = needed / float(lengths @ topology.multiplicity)
    assert proven == pytest.approx(result.network.routing_bound, rel=1e-9)
    assert result.bound.value <= result.theta
    return counts


@pytest.mark.parametrize(("n", "d"), list(KNOWN))
def test_known_optima_of_uniform_demand(n: int, d: int) -> None:
    """`exact` proves the published value, by the Moore bound or by exhaustion, and the result checks from scratch."""
    case = problem(n, d)
    result = METHODS["exact"].run(case, LIMITS)
    assert result.optimal
    assert 1 / result.theta == pytest.approx(KNOWN[n, d], abs=1e-6)
    assert 1.0 / result.bound.value == pytest.approx(KNOWN[n, d], abs=1e-6)
    check(case, result)


@pytest.mark.parametrize(("n", "d"), [(5, 2), (6, 2), (5, 3), (6, 3)])
def test_program_and_enumeration_agree_on_known_optima(n: int, d: int) -> None:
    """Two formulations that share only the routing program reach the published value, each with its own bound."""
    for method in ("milp", "enumerate"):
        result = METHODS[method].run(problem(n, d), LIMITS)
        assert result.optimal
        assert 1 / result.theta == pytest.approx(KNOWN[n, d], abs=1e-6)


@pytest.mark.parametrize(("n", "most_theta"), [(8, 20 / 3), (9, 8.2)])
def test_uniform_eight_and_nine_are_closed(n: int, most_theta: float) -> None:
    """d = 2: enumeration closes the gap between the Moore bound and the best network, which checks from scratch."""
    case = problem(n, 2)
    result = METHODS["enumerate"].run(case, LIMITS)
    counts = check(case, result)
    assert result.optimal
    assert result.bound.argument is Argument.TOPOLOGY_ENUMERATION
    assert plain_theta(case.demand, counts) == pytest.approx(result.theta)
    # Neither below the Moore bound nor above the networks that other searches met.
    assert n * moore_sum(n, 2) / (2 * n) < result.bound.value <= result.theta <= most_theta + 1e-9


@pytest.mark.heavy
@pytest.mark.parametrize(("n", "d"), [(7, 2), (8, 2), (7, 3)])
def test_program_confirms_enumeration(n: int, d: int) -> None:
    """HiGHS on the joint program proves what enumeration proves."""
    milp = METHODS["milp"].run(problem(n, d), LIMITS)
    listed = METHODS["enumerate"].run(problem(n, d), LIMITS)
    assert milp.optimal
    assert listed.optimal
    assert milp.theta == pytest.approx(listed.theta, rel=1e-6)


@pytest.mark.heavy
def test_program_proves_a_published_skewed_size() -> None:
    """n = 6, d = 2, balanced skew: program and search agree, above the layered bound (no cheap bound closes it)."""
    case = problem(6, 2, skewed(6, 1, balanced=True))
    result = METHODS["milp"].run(case, LIMITS)
    check(case, result)
    assert result.optimal
    assert result.theta > open_space(case).bound.value * 1.01


@pytest.mark.parametrize(("n", "d"), [(4, 2), (5, 2), (4, 3)])
def test_enumeration_has_every_class_once(n: int, d: int) -> None:
    """Networks found level by level are the classes of all labelled regular tables, told apart by all n! renamings."""
    labelled = maximal_networks(open_space(problem(n, d)))
    regular = [c for c in labelled if (c.sum(axis=0) == d).all() and (c.sum(axis=1) == d).all()]
    hops = [shortest_path(c.astype(float), unweighted=True).sum() for c in regular]
    orders = [np.array(p) for p in itertools.permutations(range(n))]

    def name(counts: NDArray[np.int64]) -> bytes:
        return min(counts[np.ix_(p, p)].astype(np.int8).tobytes() for p in orders)

    expected: dict[int, set[bytes]] = {}
    for counts, total in zip(regular, hops, strict=True):
        if np.isfinite(total):
            expected.setdefault(int(total) - n * moore_sum(n, d), set()).add(name(counts))
    for excess in range(max(expected) + 2):
        found = [name(c) for batch in networks_of_excess(n, d, excess) for c in batch]
        assert len(found) == len(set(found))
        assert set(found) == expected.get(excess, set())


@given(st.sampled_from([(3, 1), (3, 2), (4, 1), (4, 2)]), st.sampled_from([ONE_WAY, PAIRS]), st.integers(0, 10**6))
@settings(max_examples=6, deadline=None)
def test_branch_and_bound_finds_the_least_of_all_networks(
    size: tuple[int, int], links: LinkDirection, seed: int
) -> None:
    """Every table of link counts routed by another program: the least theta is that of `branch-and-bound`."""
    n, d = size
    case = problem(n, d, skewed(n, seed, balanced=seed % 2 == 0), links=links)
    if links is PAIRS and d == 1:
        with pytest.raises(InfeasibleError):
            METHODS["branch-and-bound"].run(case, LIMITS)
        return
    result = METHODS["branch-and-bound"].run(case, LIMITS)
    check(case, result)
    assert result.optimal
    best = np.inf
    for rows in itertools.product(_rows(n, d), repeat=n):
        counts = np.array(rows, dtype=np.int64)
        if counts.diagonal().any() or (counts.sum(axis=0) > d).any():
            continue
        if links is PAIRS and not np.array_equal(counts, counts.T):
            continue
        if np.isfinite(shortest_path((counts > 0).astype(float), unweighted=True)).all() and counts.sum() >= n * d - d:
            best = min(best, plain_theta(case.demand, counts))
    assert result.theta == pytest.approx(best, rel=1e-7)


def _rows(n: int, d: int) -> list[tuple[int, ...]]:
    """All rows of link counts of sum d - 1 or d (fewer links never help more than one server at a time)."""
    return [row for row in itertools.product(range(d + 1), repeat=n) if d - 1 <= sum(row) <= d]


OPTIONS: dict[str, dict[str, object]] = {
    "plain": {},
    "max-hops": {"max_hops": 2},
    "single-links": {"parallel_links": False},
    "forbidden": {"forbidden": ((0, 1), (2, 3))},
    "kept": {"kept": tuple((i, (i + 1) % 4) for i in range(4)), "max_changed": 1},
    "all-kept": {"kept": tuple((i, (i + 1) % 4) for i in range(4)), "max_changed": 0},
}


@pytest.mark.parametrize("links", [ONE_WAY, PAIRS])
@pytest.mark.parametrize("name", list(OPTIONS))
def test_program_equals_branch_and_bound_under_constraints(name: str, links: LinkDirection) -> None:
    """n = 4, d = 2, skewed demand: both exact methods agree and every constraint holds in both results."""
    case = problem(4, 2, skewed(4, 5, balanced=True), links=links, **OPTIONS[name])
    thetas = []
    for method in ("branch-and-bound", "milp"):
        result = METHODS[method].run(case, LIMITS)
        counts = check(case, result)
        thetas.append(result.theta)
        assert result.optimal
        assert not any(counts[arc] for arc in case.forbidden)
        if not case.parallel_links:
            assert counts.max() == 1
        if case.max_hops is not None:
            assert shortest_path((counts > 0).astype(float), unweighted=True).max() <= case.max_hops
        if case.max_changed is not None:
            lost = sum(1 for arc in case.kept if not counts[arc])
            assert lost <= case.max_changed
    assert thetas[0] == pytest.approx(thetas[1], rel=1e-6)
    if name != "plain":
        free = METHODS["branch-and-bound"].run(
            replace(case, **dict.fromkeys(("max_hops", "max_changed")), forbidden=()), LIMITS
        )
        assert free.theta <= thetas[0] * (1 + 1e-9) or not case.parallel_links


@given(st.integers(4, 7), st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_bounds_hold_for_random_networks(n: int, d: int, seed: int) -> None:
    """Node cut, layered Moore bound and price cuts of one network never exceed what another one reaches."""
    rng = np.random.default_rng(seed)
    demand = skewed(n, seed, balanced=seed % 2 == 0)
    space = open_space(problem(n, d, demand))
    first, second = (_random_regular(rng, n, d) for _ in range(2))
    found = relaxed_theta(demand, first)
    routed = route(demand, second)
    assert found is not None
    assert routed is not None
    assert best_bound(space.problem, space.allowed)[0].value <= routed.theta * (1 + 1e-9)
    assert routed.bound == pytest.approx(routed.theta, rel=1e-7)
    assert routed.theta == pytest.approx(plain_theta(demand, second), rel=1e-7)
    cut = price_cut(demand, first, found[2])
    assert cut is not None
    assert (cut * second).sum() >= 1.0 / routed.theta * (1 - 1e-9)
    assert (cut * first).sum() == pytest.approx(1.0 / found[0], rel=1e-7), "tight where it was made"


def _random_regular(rng: np.random.Generator, n: int, d: int) -> NDArray[np.int64]:
    """A ring and d - 1 more permutations without fixed points."""
    ring = rng.permutation(n)
    counts = np.zeros((n, n), dtype=np.int64)
    counts[ring, np.roll(ring, -1)] += 1
    while counts.sum() < n * d:
        heads = rng.permutation(n)
        if (heads != np.arange(n)).all():
            counts[np.arange(n), heads] += 1
    return counts


def test_layers_and_matching_bound() -> None:
    """Layers 2, 6, ... (directed, d = 2) and 3, 9, ... (fibre pairs, d = 3); b-matching of two heavy pairs by hand."""
    assert layer_sizes(16, 2, ONE_WAY) == [2, 6, 14, 15]
    assert layer_sizes(12, 3, PAIRS) == [3, 9, 11]
    demand = np.array([[0.0, 3.0, 2.0], [2.0, 0.0, 1.0], [0.0, 5.0, 0.0]])
    assert most_within(demand, 1)[0] == pytest.approx(2.0 + 2.0 + 5.0), "0->2, 1->0, 2->1"


@pytest.mark.parametrize(("n", "theta"), [(16, 7.25), (32, 19.5)])
def test_best_circulants_of_the_specification(n: int, theta: float) -> None:
    """d = 4, uniform: 7.25 at n = 16 ({1,3,7,12}), 19.5 at n = 32; flagged as a restriction, not called optimal."""
    case = problem(n, 4)
    result = METHODS["circulant"].run(case, LIMITS)
    check(case, result)
    assert result.theta == pytest.approx(theta)
    assert result.restricted_bound == pytest.approx(theta)
    assert result.notes == ("searched circulants only",)
    assert not result.optimal
    assert result.bound.value < theta


@pytest.mark.heavy
def test_best_circulant_of_sixty_four() -> None:
    """n = 64, d = 4, uniform: 52.27 among all circulants."""
    result = METHODS["circulant"].run(problem(64, 4), LIMITS)
    assert result.restricted_bound == pytest.approx(result.theta)
    assert result.theta == pytest.approx(52.27, abs=0.005)


@pytest.mark.parametrize("links", [ONE_WAY, PAIRS])
def test_circulants_for_shift_invariant_and_other_demand(links: LinkDirection) -> None:
    """n = 7: the best of all circulants by the full program, for demand that goes by cutting planes and for other."""
    weights = np.array([0.0, 3.0, 1.0, 0.5, 2.0, 1.0, 4.0])
    shift = np.arange(7)
    invariant = weights[(shift[None] - shift[:, None]) % 7]
    for demand in (invariant, skewed(7, 3)):
        case = problem(7, 2, demand, links=links)
        result = METHODS["circulant"].run(case, LIMITS)
        check(case, result)
        thetas = []
        for pick in itertools.combinations(range(1, 7), 2):
            if links is PAIRS and sum(pick) != 7:
                continue
            counts = np.zeros((7, 7), dtype=np.int64)
            for c in pick:
                counts[shift, (shift + c) % 7] += 1
            thetas.append(plain_theta(demand, counts))
        assert result.theta == pytest.approx(min(thetas), rel=1e-7)


def test_infeasible_hop_limits() -> None:
    """Below the Moore bound at once; above it by the program, with the smallest limit known and the Moore bound."""
    with pytest.raises(InfeasibleError, match="Moore bound is 3 hops"):
        METHODS["milp"].run(problem(8, 2, max_hops=2), LIMITS)
    # Six servers, one interface each: only the ring of 6 joins them, diameter 5 = the Moore bound.
    with pytest.raises(InfeasibleError, match="Moore bound is 5 hops"):
        METHODS["exact"].run(problem(6, 1, max_hops=4), LIMITS)
    # d = 2, n = 7 = 1 + 2 + 4: a Moore digraph of diameter 2 does not exist (Plesnik and Znam 1974).
    with pytest.raises(InfeasibleError, match=r"Moore bound is 2 hops, the smallest limit known to be feasible 3"):
        METHODS["milp"].run(problem(7, 2, max_hops=2), LIMITS)


def test_refusals_list_every_problem() -> None:
    """Bad demand, bad limits, unknown arcs: all named at once; methods refuse what they do not cover."""
    bad = problem(3, 0, np.array([[1.0, -1.0, 0.0]] * 3), max_hops=0, forbidden=((0, 9),))
    for method in METHODS.values():
        with pytest.raises(InputError) as caught:
            method.run(bad, LIMITS)
        assert {p.path for p in caught.value.problems} == {"degree", "demand", "max_hops", "forbidden"}
    with pytest.raises(InputError, match="enumerate"):
        METHODS["enumerate"].run(problem(5, 2, skewed(5, 0), max_hops=3), LIMITS)
    with pytest.raises(InputError, match="branch and bound"):
        METHODS["branch-and-bound"].run(problem(11, 2), LIMITS)
    with pytest.raises(InputError, match="too many circulants"):
        METHODS["circulant"].run(problem(200, 6), LIMITS)
    with pytest.raises(InputError, match="demand"):
        METHODS["exact"].run(problem(3, 1, np.zeros((3, 3))), LIMITS)


def test_everything_forbidden_is_infeasible() -> None:
    """A server nobody may send to: branch and bound and program both say so."""
    case = problem(4, 2, forbidden=((0, 3), (1, 3), (2, 3)))
    for method in ("branch-and-bound", "milp"):
        with pytest.raises(InfeasibleError):
            METHODS[method].run(case, LIMITS)


def test_a_given_incumbent_is_never_lost() -> None:
    """With no time at all, the program still returns the network it was given, and an honest bound."""
    case = problem(7, 2, skewed(7, 2, balanced=True))
    known = METHODS["circulant"].run(case, LIMITS)
    result = METHODS["milp"].run(case, ExactLimits(stop=Stop().within(0.05), incumbent=known.network.topology))
    assert result.theta <= known.theta * (1 + 1e-9)
    assert result.bound.value <= result.theta
    assert result.bound.value >= open_space(case).bound.value * (1 - 1e-9)


def test_same_seed_same_result() -> None:
    """Two runs of the program give the same links and the same flow."""
    case = problem(5, 2, skewed(5, 4, balanced=True))
    one, two = (METHODS["milp"].run(case, LIMITS) for _ in range(2))
    np.testing.assert_array_equal(one.network.topology.arcs, two.network.topology.arcs)
    np.testing.assert_array_equal(one.network.flows[0].flow, two.network.flows[0].flow)


@pytest.mark.parametrize("method", ["exact", "milp", "branch-and-bound"])
def test_a_network_is_kept_before_the_long_part(method: str) -> None:
    """Whoever has to leave a method has its first network, with a bound that holds."""
    kept: list[FoundNetwork] = []
    case = problem(5, 2, skewed(5, 4, balanced=True))
    result = METHODS[method].run(case, ExactLimits(keep=kept.append))
    assert kept
    assert all(each.bound.verified and each.bound.value <= result.theta * (1 + 1e-9) for each in kept)
    assert all(each.network.utilisation.max() >= result.theta * (1 - 1e-9) for each in kept)


@pytest.mark.parametrize("seed", [3, 6])
@pytest.mark.parametrize("links", [ONE_WAY, PAIRS])
def test_demand_over_fourteen_orders_of_magnitude(seed: int, links: LinkDirection) -> None:
    """Small demands beside large ones, below what solvers call 0: the bound is exact all the same, and is reached."""
    n = 4 + seed % 2
    demand = 10.0 ** np.random.default_rng(seed).uniform(-14, 0, (n, n))
    np.fill_diagonal(demand, 0.0)
    case = problem(n, 2, demand, links=links)
    result = METHODS["branch-and-bound"].run(case, LIMITS)
    counts = check(case, result)
    assert result.optimal
    assert result.bound.verified
    assert plain_theta(demand / demand.sum(), counts) * demand.sum() == pytest.approx(result.theta, rel=1e-6)
