"""Exact topology methods: known optima, agreement of independent methods, constraints."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

from solvers.network.enumeration import maximal_networks, moore_sum, networks_of_excess
from solvers.network.exact import METHODS
from solvers.network.space import open_space
from tests.support.every_topology import plain_theta
from tests.support.exact_cases import LIMITS, ONE_WAY, PAIRS, check, problem, skewed
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.proofs import Argument

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


@pytest.mark.parametrize(("n", "d"), list(KNOWN))
def test_known_optima_of_uniform_demand(n: int, d: int) -> None:
    """`exact` proves the published value, by the Moore bound or by exhaustion, and the result checks from scratch."""
    case = problem(n, d)
    result = METHODS["exact"](case, LIMITS)
    assert result.optimal
    assert 1 / result.theta == pytest.approx(KNOWN[n, d], abs=1e-6)
    assert 1.0 / result.bound.value == pytest.approx(KNOWN[n, d], abs=1e-6)
    check(case, result)


@pytest.mark.parametrize(("n", "d"), [(5, 2), (6, 2), (5, 3), (6, 3)])
def test_program_and_enumeration_agree_on_known_optima(n: int, d: int) -> None:
    """Two formulations that share only the routing program reach the published value, each with its own bound."""
    for method in ("milp", "enumerate"):
        result = METHODS[method](problem(n, d), LIMITS)
        assert result.optimal
        assert 1 / result.theta == pytest.approx(KNOWN[n, d], abs=1e-6)


@pytest.mark.parametrize(("n", "most_theta"), [(8, 20 / 3), (9, 8.2)])
def test_uniform_eight_and_nine_are_closed(n: int, most_theta: float) -> None:
    """d = 2: enumeration closes the gap between the Moore bound and the best network, which checks from scratch."""
    case = problem(n, 2)
    result = METHODS["enumerate"](case, LIMITS)
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
    milp = METHODS["milp"](problem(n, d), LIMITS)
    listed = METHODS["enumerate"](problem(n, d), LIMITS)
    assert milp.optimal
    assert listed.optimal
    assert milp.theta == pytest.approx(listed.theta, rel=1e-6)


@pytest.mark.heavy
def test_program_proves_a_published_skewed_size() -> None:
    """n = 6, d = 2, balanced skew: program and search agree, above the layered bound (no cheap bound closes it)."""
    case = problem(6, 2, skewed(6, 1, balanced=True))
    result = METHODS["milp"](case, LIMITS)
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
        found = [name(c) for batch in networks_of_excess(n, d, excess, excess) for c in batch]
        assert len(found) == len(set(found))
        assert set(found) == expected.get(excess, set())


@given(st.sampled_from([(3, 1), (3, 2), (4, 1), (4, 2)]), st.sampled_from([ONE_WAY, PAIRS]), st.integers(0, 10**6))
@settings(max_examples=6)
def test_branch_and_bound_finds_the_least_of_all_networks(
    size: tuple[int, int], links: LinkDirection, seed: int
) -> None:
    """Every table of link counts routed by another program: the least theta is that of `branch-and-bound`."""
    n, d = size
    case = problem(n, d, skewed(n, seed, balanced=seed % 2 == 0), links=links)
    if links is PAIRS and d == 1:
        with pytest.raises(InfeasibleError):
            METHODS["branch-and-bound"](case, LIMITS)
        return
    result = METHODS["branch-and-bound"](case, LIMITS)
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
        result = METHODS[method](case, LIMITS)
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
        free = METHODS["branch-and-bound"](
            replace(case, **dict.fromkeys(("max_hops", "max_changed")), forbidden=()), LIMITS
        )
        assert free.theta <= thetas[0] * (1 + 1e-9) or not case.parallel_links
