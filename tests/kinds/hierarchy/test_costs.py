"""Costs, catalogues of links, and what trades time for cost: enumeration, limits of each other, the front."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.support.hierarchical_cases import (
    instance,
    network,
    problem_of,
    random_instance,
    solved,
    value_at,
)
from topoopt.core.proofs import Argument, Status
from topoopt.verify.hierarchy import broken_laws, fleet_time_ns, point_bound

SPEEDS = ([10.0, 25.0, 50.0, 100.0], [12.5, 25.0, 50.0], [5.0, 10.0, 20.0, 40.0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("goal", ["time", "time-times-cost", "cost"])
def test_catalogues_against_enumeration(seed: int, goal: str) -> None:
    """Branch and bound finds the best of all combinations of speeds."""
    document = random_instance(200 + seed, 3, objective=goal)
    for dimension, speeds in zip(document["network"]["dimensions"], SPEEDS, strict=True):
        dimension["speeds_gbytes_per_s"] = speeds
    document["network"]["total_at_most_gbytes_per_s"] = 130.0
    del document["network"]["total_gbytes_per_s"]
    relaxed = problem_of({**document, "objective": "time"})
    design = relaxed.designs[0]
    allowed = [row for row in itertools.product(*SPEEDS) if not broken_laws(design.network, row)]
    if goal == "cost":
        times = sorted(fleet_time_ns(design, relaxed.fleet, row) for row in allowed)
        document["time_limit_ns"] = times[len(times) // 3]
    problem = problem_of(document)
    limit = problem.time_limit_ns or math.inf
    best = min(value_at(problem, design, row) for row in allowed if fleet_time_ns(design, problem.fleet, row) <= limit)
    found = solved(document)
    assert found.objective.value == pytest.approx(best, rel=1e-12)
    assert found.status is Status.OPTIMAL
    assert found.bound.argument is Argument.ALL_SPEEDS or found.gap <= 1e-6


def test_catalogue_in_one_dimension_only() -> None:
    """One dimension has speeds, the other takes what is left: as good as the best of all fixed speeds."""
    document = random_instance(7, 2, objective="time-times-cost")
    document["network"]["dimensions"][0]["speeds_gbytes_per_s"] = [10.0, 20.0, 40.0, 80.0]
    document["network"]["total_at_most_gbytes_per_s"] = document["network"].pop("total_gbytes_per_s")
    found = solved(document)
    values = []
    for speed in (10.0, 20.0, 40.0, 80.0):
        fixed = {**document, "network": {**document["network"]}}
        first = {**document["network"]["dimensions"][0], "min_gbytes_per_s": speed, "max_gbytes_per_s": speed}
        del first["speeds_gbytes_per_s"]
        fixed["network"]["dimensions"] = [first, document["network"]["dimensions"][1]]
        values.append(solved(fixed).objective.value)
    assert found.objective.value == pytest.approx(min(values), rel=1e-6)


def test_cost_and_time_are_each_others_limits() -> None:
    """Least cost within the least time of a cost cap is that cap; least time within the least cost, that time."""
    document = random_instance(3)
    document["network"]["total_at_most_gbytes_per_s"] = document["network"].pop("total_gbytes_per_s")
    free = solved(document)
    assert free.figures.cost_usd is not None
    cap = 0.5 * free.figures.cost_usd
    capped = solved({**document, "cost_cap_usd": cap})
    assert capped.figures.time_ns > free.figures.time_ns
    assert capped.figures.cost_usd == pytest.approx(cap, rel=1e-9)
    cheapest = solved({**document, "objective": "cost", "time_limit_ns": capped.figures.time_ns})
    assert cheapest.objective.value == pytest.approx(cap, rel=1e-7)


def test_cost_needs_no_total() -> None:
    """One collective: cost under a limit is (sum sqrt(v k))^2 / (limit - C), Lagrange's closed form."""
    own = instance(network([4, 8], [3.0, 20.0]), objective="cost", time_limit_ns=2e8)
    volumes = 2e9 * np.array([3 / 4, 7 / 8 / 4])
    # The slowest dimension is the whole time, so each needs exactly v / (limit - C), at its own price.
    cost = 32 * float((np.array([3.0, 20.0]) * volumes).sum()) / (2e8 - 1e6)
    assert solved(own).objective.value == pytest.approx(cost, rel=1e-8)


def test_time_x_cost_needs_a_floor_only() -> None:
    """Without any upper limit on bandwidth: the best of all totals, found one by one."""
    document = random_instance(9, 2, objective="time-times-cost")
    del document["network"]["total_gbytes_per_s"]
    document["network"]["constraints"] = [{"name": "floor", "terms": {"d0": 1.0, "d1": 1.0}, "at_least": 40.0}]
    found = solved(document)
    fixed = {**document, "network": {**document["network"], "constraints": []}}
    values = []
    for total in (40.0, 45.0, 60.0, 100.0, 400.0):
        fixed["network"]["total_gbytes_per_s"] = total
        values.append(solved(fixed).objective.value)
    # More bandwidth only adds cost to compute time, so the floor is where the least product lies.
    assert min(values) == values[0]
    assert found.objective.value == pytest.approx(values[0], rel=2e-9)


def test_front_is_falling_and_ends_at_the_fastest() -> None:
    """Every point is cheaper than the one before; no single solution beats one; bounds are tight."""
    found = solved(random_instance(11, 3, objective="time-times-cost", pareto_points=12))
    times, costs = (list(column) for column in zip(*found.figures.front, strict=True))
    assert len(found.figures.front) == 12
    assert times == sorted(times)
    assert costs == sorted(costs, reverse=True)
    for k, cost in enumerate(costs):
        assert point_bound(found.problem, found.plan, k, found.certificates) >= cost * (1 - 1e-7)
    # The solution of least time x cost lies on the front, so no point is below it in both.
    assert not any(
        t < found.figures.time_ns * (1 - 1e-7) and c < (found.figures.cost_usd or 0) * (1 - 1e-7)
        for t, c in zip(times, costs, strict=True)
    )
    assert all(t * c >= found.objective.value * (1 - 1e-7) for t, c in zip(times, costs, strict=True))
