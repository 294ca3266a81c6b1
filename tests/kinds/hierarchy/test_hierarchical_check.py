"""The checker: every corrupted figure, law and proof is caught; certificates of any quality prove only what is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.hierarchical_cases import problem_of, random_instance, solved
from topoopt.core.hierarchy import Collective, GroupShare, HierarchicalPlan, HierarchicalProblem, PathWeight
from topoopt.core.proofs import Argument, Bound, Status
from topoopt.core.result import Objective, Result
from topoopt.kinds.hierarchy.page import marginal_ns
from topoopt.verify.checker import FULL
from topoopt.verify.hierarchy import BandwidthProof, certified_bound, check, formula_bound

DOCUMENT = random_instance(17, 3, pareto_points=4, loop="dp-overlap")

Solution = Result[HierarchicalProblem, HierarchicalPlan]
Change = Callable[[Solution], Solution]


def with_proof(solution: Solution, **arrays: Any) -> Solution:
    """The solution with changed arrays in the certificate of its bound."""
    first, *rest = solution.certificates
    return replace(solution, certificates=(replace(first, arrays={**first.arrays, **arrays}), *rest))


def with_plan(solution: Solution, **changes: Any) -> Solution:
    """The solution with a changed plan."""
    return replace(solution, plan=replace(solution.plan, **changes))


def with_point(solution: Solution, **changes: Any) -> Solution:
    """The solution with a changed second point of the front."""
    first, second, *rest = solution.plan.front
    return with_plan(solution, front=(first, replace(second, **changes), *rest))


CORRUPTIONS: list[tuple[str, Change]] = [
    ("identity", lambda s: replace(s, name="other")),
    ("instance-sha256", lambda s: replace(s, instance_sha256="0")),
    ("design", lambda s: with_plan(s, design=3)),
    ("design", lambda s: with_plan(s, bandwidth_gbytes_per_s=(1.0,))),
    ("bandwidth", lambda s: with_plan(s, bandwidth_gbytes_per_s=(1.0, 2.0, 3.0))),
    ("bandwidth", lambda s: with_plan(s, bandwidth_gbytes_per_s=(float("nan"),) * 3)),
    ("objective", lambda s: replace(s, objective=Objective("time", s.objective.value * 0.99, "ns"))),
    ("objective", lambda s: replace(s, objective=Objective("cost", s.objective.value, "ns"))),
    ("bound", lambda s: replace(s, bound=Bound(s.objective.value * 1.01, Argument.BYTE_SUMS))),
    ("bound", lambda s: replace(s, bound=Bound(s.bound.value, Argument.BANDWIDTH_PRICES), certificates=())),
    ("status", lambda s: replace(s, bound=Bound(s.objective.value * 0.9, Argument.BYTE_SUMS), status=Status.OPTIMAL)),
    ("bound", lambda s: with_proof(s, priced_row=np.array([9]), price=np.array([1.0]))),
    ("bound", lambda s: with_proof(s, path_steps=np.array([99]), path_length=np.array([1]))),
    ("bound", lambda s: with_proof(s, priced_row=np.zeros(0), price=np.zeros(0))),
    ("bound", lambda s: with_proof(s, share_collective=np.array([77]))),
    ("bound", lambda s: with_proof(s, design=np.array([1]))),
    ("bound", lambda s: with_proof(s, path_weight=np.array(["x"]))),
    ("bound", lambda s: replace(s, certificates=(s.certificates[0], *s.certificates))),
    ("pareto", lambda s: with_plan(s, front=s.plan.front[::-1])),
    ("pareto", lambda s: with_plan(s, front=s.plan.front + s.plan.front)),
    ("pareto", lambda s: with_point(s, bandwidth_gbytes_per_s=(1.0, 2.0, 3.0))),
    ("pareto", lambda s: with_point(s, limit_ns=s.plan.front[0].limit_ns * 1.0000001)),
]


@pytest.fixture(scope="module")
def solution() -> Solution:
    """A sound solution with a front, bound by its prices."""
    found = solved(DOCUMENT)
    assert found.bound.argument is Argument.BANDWIDTH_PRICES
    return found


@pytest.mark.parametrize(("code", "corrupt"), CORRUPTIONS)
def test_corruptions_are_caught(solution: Solution, code: str, corrupt: Change) -> None:
    """Each corruption is reported under its code."""
    problem = problem_of(DOCUMENT)
    assert check(problem, solution, FULL).violations == ()
    assert code in {violation.code for violation in check(problem, corrupt(solution), FULL).violations}


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), objective=st.sampled_from(["time", "time-times-cost", "cost"]))
def test_any_certificate_proves_something_true(seed: int, objective: str) -> None:
    """Random multipliers never prove more than the objective of random bandwidths that are allowed."""
    rng = np.random.default_rng(seed)
    fields: dict[str, Any] = {"objective": objective}
    if objective == "cost":
        fields["time_limit_ns"] = 1e9
    problem = problem_of(random_instance(seed % 5, 3, loop="dp-overlap", **fields))
    design = problem.designs[0]
    own = design.workloads[0]
    branches = tuple(k for k in range(len(own.layers)) if rng.random() < 0.5)
    groups = [(0, Collective.ALL_REDUCE), (0, Collective.ALL_GATHER), (1, Collective.REDUCE_SCATTER)]
    groups.append((2, Collective.ALL_TO_ALL))
    weight = float(rng.uniform(0, 3)) * (1e-3 if objective == "cost" else 1.0)
    taken = set()
    for index, row in enumerate(own.layers):
        parts = (row.forward, row.weight_gradient if index in branches else row.input_gradient)
        taken |= {(one.communicator, one.collective) for part in parts for one in part.communications}
    shares = [
        GroupShare(0, communicator, kind, tuple(rng.exponential(1e9, 3).tolist()))
        for communicator, kind in groups
        if (communicator, kind) in taken
    ]
    network = design.network
    bounded = [one for one in network.dimensions if one.min_gbytes_per_s > 0 or one.max_gbytes_per_s < np.inf]
    assert (len(network.constraints), bounded) == (1, [])
    rows = [0, 1] if objective == "time-times-cost" else [0]
    size = 10.0 ** float(rng.uniform(3, 9))
    prices = tuple((row, float(rng.normal(0, size))) for row in rows)
    proof = BandwidthProof(0, (PathWeight(0, weight, branches),), tuple(shares), prices)
    bound = certified_bound(problem, design, proof, np.inf)
    total = design.network.total_gbytes_per_s or 0.0
    from topoopt.verify.hierarchy import fleet_time_ns, network_cost_usd

    for split in rng.dirichlet(np.ones(3), size=10):
        bandwidth = (total * split).tolist()
        time, cost = fleet_time_ns(design, problem.fleet, bandwidth), network_cost_usd(design.network, bandwidth) or 0.0
        if objective == "cost" and time > 1e9:
            continue
        value = {"time": time, "time-times-cost": time * cost, "cost": cost}[objective]
        assert bound <= value * (1 + 1e-9)
        assert formula_bound(problem, design) <= value * (1 + 1e-9)


@pytest.mark.parametrize(
    "proof",
    [
        BandwidthProof(0, (PathWeight(5, 1.0),), (), ()),
        BandwidthProof(0, (PathWeight(0, -1.0),), (), ()),
        BandwidthProof(0, (PathWeight(0, 1.0),), (GroupShare(0, 7, Collective.ALL_REDUCE, (1.0,) * 3),), ()),
        BandwidthProof(0, (PathWeight(0, 1.0),), (GroupShare(0, 0, Collective.ALL_REDUCE, (-1.0,) * 3),), ()),
        BandwidthProof(0, (PathWeight(0, 1.0),), (), ((7, 1.0),)),
    ],
)
def test_nonsense_is_no_certificate(proof: BandwidthProof) -> None:
    """Jobs, groups, amounts and rows that do not exist."""
    problem = problem_of(DOCUMENT)
    with pytest.raises(ValueError, match=r"a path of no job|a share|shares of a group|no such row"):
        certified_bound(problem, problem.designs[0], proof, np.inf)


def test_prices_agree_with_a_larger_total(solution: Solution) -> None:
    """The price of bandwidth is what one more GB/s of total saves: a finite difference of optima."""
    prices = marginal_ns(solution)
    step = 0.01
    more = {**DOCUMENT, "pareto_points": 0, "network": {**DOCUMENT["network"]}}
    more["network"]["total_gbytes_per_s"] += step
    saved = (solution.objective.value - solved(more).objective.value) / step
    assert prices == pytest.approx([saved] * 3, rel=1e-2)
