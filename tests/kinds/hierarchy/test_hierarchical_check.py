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
from topoopt.core.hierarchy import Fleet
from topoopt.core.hierarchy_solution import BandwidthCertificate, GroupShare, HierarchicalSolution, PathWeight
from topoopt.core.hierarchy_workload import Collective
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import Objective
from topoopt.core.verdict import Status
from topoopt.verify.hierarchy.bounds import CertificateError, certified_bound, marginal_ns
from topoopt.verify.hierarchy.check import check_hierarchical
from topoopt.verify.hierarchy.formula import formula_bound

DOCUMENT = random_instance(17, 3, pareto_points=4, loop="dp-overlap")

Change = Callable[[HierarchicalSolution], HierarchicalSolution]


def with_proof(solution: HierarchicalSolution, **changes: Any) -> HierarchicalSolution:
    """The solution with a changed certificate."""
    [proof] = solution.proofs
    return replace(solution, proofs=(replace(proof, certificate=replace(proof.certificate, **changes)),))


def with_job(solution: HierarchicalSolution, **changes: Any) -> HierarchicalSolution:
    """The solution with a changed first job."""
    first, *rest = solution.jobs
    return replace(solution, jobs=(replace(first, **changes), *rest))


def with_point(solution: HierarchicalSolution, **changes: Any) -> HierarchicalSolution:
    """The solution with a changed second point of the front."""
    first, second, *rest = solution.pareto
    return replace(solution, pareto=(first, replace(second, **changes), *rest))


CORRUPTIONS: list[tuple[str, Change]] = [
    ("identity", lambda s: replace(s, name="other")),
    ("instance-sha256", lambda s: replace(s, instance_sha256="0")),
    ("identity", lambda s: replace(s, design=3)),
    ("identity", lambda s: replace(s, blocks=("switch",) * 3)),
    ("identity", lambda s: replace(s, bandwidth_gbytes_per_s=(1.0,))),
    ("bandwidth", lambda s: replace(s, bandwidth_gbytes_per_s=(1.0, 2.0, 3.0))),
    ("bandwidth", lambda s: replace(s, bandwidth_gbytes_per_s=(float("nan"),) * 3)),
    ("figure", lambda s: with_job(s, time_ns=s.jobs[0].time_ns * 0.999)),
    ("figure", lambda s: replace(s, cost_usd=None)),
    ("figure", lambda s: with_job(s, equal_split_ns=s.jobs[0].equal_split_ns * 1.01)),
    ("figure", lambda s: with_job(s, weight=0.5)),
    ("identity", lambda s: replace(s, fleet=Fleet.WORST_CASE)),
    ("figure", lambda s: replace(s, objective=Objective("time", s.time_ns * 0.99, "ns"))),
    ("figure", lambda s: replace(s, gain_ns=(1e9, 0.0, 0.0))),
    ("figure", lambda s: replace(s, jobs=())),
    ("collective", lambda s: replace(s, collectives=s.collectives[1:])),
    ("collective", lambda s: replace(s, collectives=(replace(s.collectives[0], times_ns=(1.0,)), *s.collectives[1:]))),
    ("collective", lambda s: replace(s, collectives=(replace(s.collectives[0], size_bytes=1), *s.collectives[1:]))),
    ("bound", lambda s: replace(s, bound=Bound(s.time_ns * 1.01, Argument.BYTE_SUMS))),
    ("bound", lambda s: replace(s, proofs=())),
    ("status", lambda s: replace(s, bound=Bound(s.time_ns * 0.9, Argument.BYTE_SUMS), status=Status.OPTIMAL)),
    ("proof", lambda s: with_proof(s, prices=(("no such row", 1.0),))),
    ("proof", lambda s: with_proof(s, paths=(PathWeight(0, 1.0, (99,)),))),
    ("bound", lambda s: with_proof(s, prices=())),
    ("marginal", lambda s: replace(s, marginal_ns=(1.0, 2.0, 3.0))),
    ("pareto", lambda s: replace(s, pareto=s.pareto[::-1])),
    ("pareto", lambda s: with_point(s, time_ns=1.0)),
    ("pareto", lambda s: with_point(s, cost_usd=1.0)),
    ("pareto", lambda s: with_point(s, limit_ns=s.pareto[0].limit_ns * 1.0000001)),
    ("pareto", lambda s: with_point(s, cost_bound=replace(s.pareto[1].cost_bound, value=s.pareto[1].cost_usd * 2))),
]


@pytest.fixture(scope="module")
def solution() -> HierarchicalSolution:
    """A sound solution with a front."""
    return solved(DOCUMENT)


@pytest.mark.parametrize(("code", "corrupt"), CORRUPTIONS)
def test_corruptions_are_caught(solution: HierarchicalSolution, code: str, corrupt: Change) -> None:
    """Each corruption is reported under its code."""
    problem = problem_of(DOCUMENT)
    assert check_hierarchical(problem, solution).violations == ()
    assert code in {violation.code for violation in check_hierarchical(problem, corrupt(solution)).violations}


@settings(max_examples=40, deadline=None, derandomize=True)
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
    names = ["total", "normalisation"] if objective == "time-times-cost" else ["total"]
    size = 10.0 ** float(rng.uniform(3, 9))
    proof = BandwidthCertificate(
        (PathWeight(0, weight, branches),), tuple(shares), tuple((name, float(rng.normal(0, size))) for name in names)
    )
    bound = certified_bound(problem, design, proof, np.inf)
    total = design.network.total_gbytes_per_s or 0.0
    from topoopt.verify.hierarchy.times import fleet_time_ns, network_cost_usd

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
        BandwidthCertificate((PathWeight(5, 1.0),), (), ()),
        BandwidthCertificate((PathWeight(0, -1.0),), (), ()),
        BandwidthCertificate((PathWeight(0, 1.0),), (GroupShare(0, 7, Collective.ALL_REDUCE, (1.0,) * 3),), ()),
        BandwidthCertificate((PathWeight(0, 1.0),), (GroupShare(0, 0, Collective.ALL_REDUCE, (-1.0,) * 3),), ()),
        BandwidthCertificate((PathWeight(0, 1.0),), (), (("total", 1.0), ("total", 1.0))),
    ],
)
def test_nonsense_is_no_certificate(proof: BandwidthCertificate) -> None:
    """Jobs, groups, amounts and rows that do not exist."""
    problem = problem_of(DOCUMENT)
    with pytest.raises(CertificateError):
        certified_bound(problem, problem.designs[0], proof, np.inf)


def test_prices_agree_with_a_larger_total(solution: HierarchicalSolution) -> None:
    """The price of bandwidth is what one more GB/s of total saves: a finite difference of optima."""
    problem = problem_of(DOCUMENT)
    [proof] = solution.proofs
    prices = marginal_ns(problem, problem.designs[0], proof.certificate, solution.bandwidth_gbytes_per_s)
    step = 0.01
    more = {**DOCUMENT, "pareto_points": 0, "network": {**DOCUMENT["network"]}}
    more["network"]["total_gbytes_per_s"] += step
    saved = (solution.time_ns - solved(more).time_ns) / step
    assert prices == pytest.approx([saved] * 3, rel=1e-2)
