"""Worst failures, sampling, cuts, lists of failures, and theta after failures."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.failures.repairs import PlanTraffic
from solvers.failures.robust import NetworkEvaluator
from solvers.failures.worst import (
    badness,
    check_count,
    check_failure,
    drawn,
    ends_of,
    every_set,
    fewest_links,
    joined,
    links_of,
    parts_of,
    sample_failures,
    single_links,
    worst_failure,
)
from solvers.network.routes import balanced_routes
from tests.support.failure_cases import UNIDIRECTIONAL, BusiestLink, circulant, circulant_job, cluster, demand, of_links
from topoopt.core.errors import InputError
from topoopt.core.outcomes import Failure


def uniform(n: int) -> np.ndarray:
    """One unit between all pairs."""
    return np.asarray(demand(n, 0.0, 1.0).model_parallel_bytes)


def test_enumeration_is_the_worst_of_all_pairs() -> None:
    """By brute force over all pairs of links of a small circulant."""
    evaluator = circulant_job(7, (1, 2))
    found = worst_failure(evaluator, "links", 2)
    pairs = [joined(pair) for pair in combinations(parts_of(evaluator.topology, "links"), 2)]
    assert found.proven
    assert found.evaluated == len(pairs) == comb(14, 2)
    assert badness(found.outcome) == max(badness(evaluator.outcome(failure)) for failure in pairs)


def test_search_finds_what_enumeration_finds_on_a_weak_spot() -> None:
    """Seven servers in a ring with chords: the search is not above enumeration, and at least as bad as any single."""
    evaluator = circulant_job(9, (1, 2))
    full = worst_failure(evaluator, "links", 2)
    quick = worst_failure(evaluator, "links", 2, enumerated=0, evaluations=150)
    assert not quick.proven
    assert quick.outcome.value is not None
    assert full.outcome.value is not None
    assert quick.outcome.value <= full.outcome.value * (1 + 1e-12)
    singles = [evaluator.outcome(failure).value or 0.0 for failure in single_links(evaluator.topology)]
    assert quick.outcome.value >= max(singles) * (1 - 1e-12)


def test_as_many_links_as_a_cut_disconnect() -> None:
    """Degree 4: four links cut a server off, and that is proven to be the worst without trying all of them."""
    evaluator = circulant_job(12, (1, 5))
    found = worst_failure(evaluator, "links", 4)
    assert (found.proven, found.outcome.value, found.evaluated) == (True, None, 1)
    assert found.outcome.disconnected_pairs >= 2 * 11
    three = worst_failure(evaluator, "links", 3, enumerated=0, evaluations=20)
    assert three.outcome.value is not None


@pytest.mark.parametrize(
    ("topology", "size"),
    [
        (circulant(8, (1,)), 2),
        (circulant(16, (1, 3)), 4),
        (of_links(6, 3, [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (2, 3)]), 1),
        (circulant(7, (1, 2), UNIDIRECTIONAL), 2),
        (of_links(2, 3, [(0, 1), (0, 1), (0, 1)]), 3),
    ],
)
def test_fewest_links(topology, size: int) -> None:  # type: ignore[no-untyped-def]
    """Edge connectivity of rings, circulants (their degree), a dumbbell and parallel links; removal disconnects."""
    cut = fewest_links(topology)
    assert len(cut) == size
    outcome = NetworkEvaluator(topology, uniform(topology.servers)).outcome(Failure(links=cut))
    assert outcome.disconnected_pairs > 0


def test_samples_are_reproducible_and_their_interval_holds_the_mean() -> None:
    """Same seed, same figures; the mean over all pairs lies in the interval."""
    evaluator = circulant_job(8, (1, 3))
    first = sample_failures(evaluator, "links", 2, 40, seed=3)
    again = sample_failures(circulant_job(8, (1, 3)), "links", 2, 40, seed=3)
    assert first == again
    every = [evaluator.outcome(failure).slowdown(evaluator.nominal) for failure in
             every_set(evaluator.topology, "links", 2)]  # fmt: skip
    assert None not in every
    assert first.mean_low is not None
    assert first.mean_high is not None
    assert first.mean_slowdown is not None
    assert first.mean_low <= float(np.mean([value or 0.0 for value in every])) <= first.mean_high
    assert first.delivered == 40
    assert first.delivered_high == 1.0
    assert first.delivered_low == pytest.approx(0.025 ** (1 / 40))  # closed form when all are delivered
    lone = sample_failures(evaluator, "links", 1, 1)
    assert (lone.mean_low, lone.mean_high) == (None, None)


def test_theta_of_a_ring_without_a_link() -> None:
    """A ring of n bidirectional links: theta (n^2 - 1) / 8 for odd n; without one the middle of the path carries
    (n^2 - 1) / 4."""
    for n in (5, 7, 9):
        evaluator = NetworkEvaluator(circulant(n, (1,)), uniform(n))
        assert evaluator.nominal == pytest.approx((n * n - 1) / 8)
        outcome = evaluator.outcome(Failure(links=((2, 3),)))
        assert outcome.value == pytest.approx((n * n - 1) / 4)
        assert outcome.bound == pytest.approx(outcome.value)
        server = evaluator.outcome(Failure(servers=(0,)))  # a path of n - 1 servers is left
        assert server.value == pytest.approx(((n - 1) // 2) ** 2)
        assert server.disconnected_pairs == 0


def test_alike_failures_have_one_value() -> None:
    """Rotations of a failure on a circulant are solved once, and each is told under its own name."""
    evaluator = NetworkEvaluator(circulant(10, (1, 3)), uniform(10))
    values = {failure: evaluator.outcome(failure) for failure in single_links(evaluator.topology)}
    assert all(outcome.failure == failure for failure, outcome in values.items())
    assert len({outcome.value for outcome in values.values()}) == 2
    plain = NetworkEvaluator(of_links(10, 4, links_of(evaluator.topology)), uniform(10))
    for failure in list(values)[::5]:
        assert plain.outcome(failure).value == pytest.approx(values[failure].value)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_a_spare_link_never_makes_theta_worse(seed: int) -> None:
    """With optimal routing: any one more link, parallel ones included, and any single failure of the others."""
    rng = np.random.default_rng(seed)
    plain = circulant(7, (1, 2), UNIDIRECTIONAL, spare=1)
    a, b = (int(v) for v in rng.choice(7, 2, replace=False))
    richer = of_links(7, 3, [*links_of(plain), (a, b)], UNIDIRECTIONAL)
    wanted = rng.integers(0, 5, (7, 7)).astype(float)
    np.fill_diagonal(wanted, 0.0)
    wanted[0, 1] = 1.0
    before, now = NetworkEvaluator(plain, wanted), NetworkEvaluator(richer, wanted)
    for index in rng.choice(14, 3, replace=False):
        failure = Failure(links=(links_of(plain)[int(index)],))
        worse, better = before.outcome(failure).value, now.outcome(failure).value
        assert worse is not None
        assert better is not None
        assert better <= worse * (1 + 1e-6)


def test_what_does_not_exist_is_refused_all_at_once() -> None:
    """Every unknown part is named; so are too many failures."""
    topology = circulant(8, (1, 3))
    with pytest.raises(InputError) as caught:
        check_failure(topology, Failure(links=((0, 2), (1, 9)), servers=(8,), planes=(7,)))
    messages = [problem.message for problem in caught.value.problems]
    assert sorted(messages) == ["no such link", "unknown optical switch", "unknown server", "unknown server"]
    with pytest.raises(InputError, match="more than there are"):
        check_failure(topology, Failure(links=((0, 1), (0, 1))))
    for part, most in (("links", 16), ("servers", 7)):
        check_count(topology, part, most)
        with pytest.raises(InputError, match="more failures than"):
            check_count(topology, part, most + 1)
    for text in ("0", "0-1-2", "a-b", "0--1", ""):
        with pytest.raises(InputError, match="not a link"):
            ends_of(text, topology)
    assert ends_of("3-0", topology) == (0, 3)
    assert ends_of("3-0", circulant(8, (1, 3), UNIDIRECTIONAL)) == (3, 0)


def test_draws_are_of_different_parts() -> None:
    """Each sample holds k different links, parallel ones counted apart."""
    topology = of_links(3, 4, [(0, 1), (0, 1), (1, 2), (0, 2)])
    for failure in drawn(topology, "links", 4, 5, np.random.default_rng(0)):
        assert failure.links == ((0, 1), (0, 1), (0, 2), (1, 2))


def test_two_and_three_servers() -> None:
    """The smallest networks: two servers on one link lose everything, a triangle loses nothing but a hop."""
    pair = of_links(2, 1, [(0, 1)])
    lost = BusiestLink(cluster(2, 1), PlanTraffic(pair, balanced_routes(pair), (), demand(2, 0.0, 1.0)))
    assert lost.outcome(Failure(links=((0, 1),))).value is None
    triangle = circulant_job(3, (1,))
    outcome = triangle.outcome(Failure(links=((0, 1),)))
    assert (outcome.diameter, outcome.broken_rings) == (2, 2)
    assert outcome.value == pytest.approx(2 * triangle.nominal)
