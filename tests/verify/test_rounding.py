"""No bound is above the true one by rounding: sums that doubles round up, held against rationals."""

from __future__ import annotations

import random
from fractions import Fraction

from tests.support.hierarchical_cases import instance, job, layer, network, phase, problem_of
from tests.support.verify_cases import dense, make_cluster, sample_splits
from topoopt.core.hierarchy import PathWeight
from topoopt.core.proofs import Argument
from topoopt.core.workload import Workload
from topoopt.verify.checker import error_of_sum
from topoopt.verify.hierarchy import BandwidthProof, certified_bound, formula_bound
from topoopt.verify.job.bounds import compute_bounds

TIMES = (0.1, 0.2)
"""Their sum in doubles is 2^-55 more than that of the two doubles."""


def below(bound: float, exact: Fraction) -> bool:
    """Whether a bound says no more than is true, and hardly less."""
    return exact * (1 - Fraction(1, 10**9)) <= Fraction(bound) <= exact


def test_the_error_of_sums() -> None:
    """Of drawn terms of both signs, added from left to right."""
    draw = random.Random(1)
    for count in (2, 10, 1000):
        terms = [draw.choice([-1.0, 1.0]) * draw.random() * 10.0 ** draw.randint(-9, 9) for _ in range(count)]
        off = abs(Fraction(sum(terms)) - sum(map(Fraction, terms)))
        assert off <= Fraction(error_of_sum(count, sum(map(abs, terms))))


def test_bounds_of_jobs() -> None:
    """Two operators on one server, 0.1 and 0.2 ms: work, chain and what stands on the server."""
    assert Fraction(sum(TIMES)) > sum(map(Fraction, TIMES))
    operators = [
        dense(f"o{k}", 4, () if k == 0 else (k - 1,), sample_splits([1], 0.0, ms)) for k, ms in enumerate(TIMES)
    ]
    found = {
        bound.argument: bound.value for bound in compute_bounds(make_cluster(1, 2), Workload("x", 8, tuple(operators)))
    }
    exact = sum(map(Fraction, TIMES), Fraction(0))
    for argument in (
        Argument.COMPUTE_WORK,
        Argument.COMPUTE_CHAIN,
        Argument.WHOLE_OPERATORS,
        Argument.PINNED_OPERATORS,
    ):
        assert below(found[argument], exact), argument


def test_bounds_of_hierarchies() -> None:
    """Two layers of 0.1 and 0.2 ns without communication: by sums, and by a path of weight 1."""
    layers = [layer(f"l{k}", forward=phase(ns)) for k, ns in enumerate(TIMES)]
    problem = problem_of(instance(network([4, 8], total_gbytes_per_s=100.0), job("job", *layers)))
    design, exact = problem.designs[0], sum(map(Fraction, TIMES), Fraction(0))
    assert below(formula_bound(problem, design), exact)
    path = BandwidthProof(0, (PathWeight(0, 1.0, ()),), (), ())
    assert below(certified_bound(problem, design, path, float("inf")), exact)
