"""AllReduces of language models in training on schedules: rates of known graphs, rounds, choices, and their checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from solvers.collective.options import too_many_servers
from solvers.llm_training.plan import best_on_fabric, decided
from solvers.stop import Stop
from tests.support.llm_cases import strategy, training
from tests.support.llm_plans import with_network
from topoopt.core.cluster import LinkDirection
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DimensionLoad, FabricPlan, RankedStrategy
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.result import AllReduceChoice
from topoopt.kinds.llm_training.figures import FabricFigures
from topoopt.simulate.llm_training.step import estimate
from topoopt.simulate.llm_training.strategies import stage_layers
from topoopt.verify.checker import ViolationLog, WorkBudget
from topoopt.verify.llm_training.networks import network_rates

ONE_WAY, PAIRS = LinkDirection.UNIDIRECTIONAL, LinkDirection.BIDIRECTIONAL
LATENCY_S = 3e-6
REPLICAS = strategy(tensor=8, data=16)
CHOICES = tuple(AllReduceChoice)


def _problem(choice: str, *, gpus: int = 128, model: str = "llama3-70b", **changes: Any) -> LlmTrainingProblem:
    """Servers of eight GPUs, four interfaces of 100 Gbit/s that serve all of them, and slow enough to be exposed."""
    problem = training(model, gpus, gpus, 8192)
    known = {"per_gpu": False, "degree": 4, "link_gbps": 100.0, "hop_latency_us": 1.0, "message_latency_us": 2.0}
    cluster = replace(problem.cluster, **(known | changes))
    return replace(problem, cluster=cluster, search=replace(problem.search, allreduce=AllReduceChoice(choice)))


def _outcome(problem: LlmTrainingProblem, one: ParallelStrategy, fabric: str) -> FabricFigures:
    one = replace(one, stage_layers=stage_layers(problem.model.layers, one.pipeline, one.chunks))
    ideal = estimate(problem, one)
    ranked = RankedStrategy(one, ideal.iteration_time_s, ideal.memory.total)
    plan = decided(best_on_fabric(problem, fabric, [ranked], Stop()))
    return FabricFigures(problem, plan, one)


def _load(outcome: FabricFigures, family: F = F.DATA) -> DimensionLoad:
    return next(load for load in outcome.loads if load.dimension is family)


def _codes(problem: LlmTrainingProblem, plan: FabricPlan) -> set[str]:
    findings = ViolationLog()
    network_rates(findings, problem, plan, WorkBudget())
    return {violation.code for violation in findings.violations()}


@pytest.mark.parametrize(
    ("fabric", "links", "steps", "factor"),
    [
        # Breadth-first broadcasts on 16 servers of degree 4, of the best that any schedule reaches, 15/16 of the
        # vector over all interfaces of a server.
        ("torus-2d", PAIRS, 4, 1.0),
        ("hypercube", PAIRS, 4, 1.0),
        # Generalised Kautz (4, 16): loads 1 and 4 of 4 links, 5/4 of the vector.
        ("generalized-kautz", ONE_WAY, 2, (15 / 16) / (5 / 4)),
    ],
)
def test_breadth_first_broadcasts_reach_their_bandwidth_factor(fabric, links, steps, factor) -> None:
    """Eight GPUs share 50 GB/s; both phases of an AllReduce take the steps of the diameter."""
    problem = _problem("bfb", links=links, hop_latency_us=0.0, message_latency_us=0.0)
    load = _load(_outcome(problem, REPLICAS, fabric))
    assert load.gbytes_per_s / problem.device.reached.network == pytest.approx(50 / 8 * factor)
    assert (load.method, load.rounds) == ("bfb", 2 * steps)


def test_rounds_take_their_latency() -> None:
    """On a 4 x 4 torus: 8 rounds of 3 us beside 2 (15/16) of a layer's gradients, 4 bytes each, over 6.25 GB/s."""
    problem = _problem("bfb")
    model, sent = problem.model, _load(_outcome(problem, REPLICAS, "torus-2d")).gbytes_per_s * 1e9
    (heads,), (keys,), (inner,) = model.heads, model.kv_heads, model.inner
    weights = 2 * model.hidden**2 + 2 * model.hidden * keys * (model.hidden // heads) + 3 * model.hidden * inner
    passed = 2 * 15 / 16 * 4 * weights / 8
    moving = passed / (6.25e9 * problem.device.reached.network)
    assert passed / sent == pytest.approx(moving + 8 * LATENCY_S)


def test_rings_count_their_rounds_beside_schedules() -> None:
    """Rings of 16 take 30 rounds where anything else may be taken, and none where only rings are asked for."""
    plain = _load(_outcome(_problem("rings"), REPLICAS, "direct-connect"))
    assert (plain.method, plain.rounds) == ("", 0)
    slow = _problem("best", message_latency_us=0.0, hop_latency_us=0.0)
    counted = _load(_outcome(slow, REPLICAS, "direct-connect"))
    assert (counted.method, counted.rounds) == ("rings", 30)
    assert counted.gbytes_per_s == pytest.approx(plain.gbytes_per_s)
    late = _load(_outcome(_problem("best"), REPLICAS, "direct-connect"))
    assert (late.method, late.rounds < 30) == ("bfb", True)


@pytest.mark.parametrize("fabric", ["torus-2d", "random-regular", "direct-connect"])
def test_the_best_is_no_slower_than_what_is_asked_for(fabric: str) -> None:
    """Of the same strategy; never faster than an ideal switch."""
    times = {choice: _outcome(_problem(choice), REPLICAS, fabric) for choice in ("bfb", "trees", "best")}
    ideal = estimate(_problem("best"), REPLICAS).iteration_time_s
    for outcome in times.values():
        assert ideal <= outcome.iteration_time_s * (1 + 1e-12)
        assert times["best"].iteration_time_s <= outcome.iteration_time_s


MIXED = strategy(tensor=2, pipeline=2, data=16, expert=8, zero=1)
CASES = {
    "gradients": (REPLICAS, "llama3-70b", 128, False),
    "sharded": (strategy(tensor=8, data=16, zero=1), "llama3-70b", 128, True),
    "tensor across servers": (strategy(tensor=16, data=4, sequence=True), "llama3-70b", 64, False),
    "replicas inside servers": (strategy(tensor=2, data=32), "llama3-70b", 64, False),
    "experts": (MIXED, "mixtral-8x22b", 64, True),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("choice", CHOICES)
def test_the_checker_finds_the_same_rates(choice: AllReduceChoice, case: str) -> None:
    """Alone and beside others, for all families."""
    one, model, gpus, per_gpu = CASES[case]
    problem = _problem(choice, gpus=gpus, model=model, per_gpu=per_gpu, degree=8 if per_gpu else 4)
    outcome = _outcome(problem, one, "direct-connect" if per_gpu else "torus-2d")
    findings = ViolationLog()
    sound = network_rates(findings, problem, outcome.plan, WorkBudget())
    assert findings.clean
    assert sound is not None
    loads, alone, shared, _ = sound
    schedules = outcome.network.schedules
    assert bool(schedules) or choice in (AllReduceChoice.RINGS, AllReduceChoice.BEST)
    assert {load.dimension for load in outcome.loads} == set(loads)
    for load in outcome.loads:
        assert load.gbytes_per_s == pytest.approx(alone[load.dimension] / 1e9, rel=1e-9)
        assert load.shared_gbytes_per_s == pytest.approx(shared[load.dimension] / 1e9, rel=1e-9)
        assert load.rounds == loads[load.dimension].rounds


def _altered(plan: FabricPlan, **changes: Any) -> FabricPlan:
    (own,) = plan.network.schedules
    (one,) = own.groups
    return with_network(plan, schedules=(replace(own, groups=(replace(one, **changes),)),))


def _without_last(plan: FabricPlan) -> FabricPlan:
    (one,) = plan.network.schedules[0].groups
    return _altered(plan, sends=one.sends[:-1])


def _on_rings(plan: FabricPlan) -> FabricPlan:
    return with_network(plan, schedules=())


@pytest.mark.parametrize(
    ("alter", "code"),
    [
        (_without_last, "schedules"),
        (_on_rings, "rings"),
        (lambda outcome: _altered(outcome, method="trees"), "schedules"),
        (lambda outcome: _altered(outcome, members=tuple(range(15))), "schedules"),
    ],
)
def test_corrupted_schedules_are_named(alter: Callable[[FabricPlan], FabricPlan], code: str) -> None:
    """A message lost, no schedule at all, another kind, another group."""
    problem = _problem("bfb")
    plan = _outcome(problem, REPLICAS, "torus-2d").plan
    assert code in _codes(problem, alter(plan))


def test_schedules_where_rings_are_asked_for_are_refused() -> None:
    """By an instance that says rings."""
    outcome = _outcome(_problem("bfb"), REPLICAS, "torus-2d")
    assert "schedules" in _codes(_problem("rings"), outcome.plan)


def test_behind_switches_all_stay_on_rings() -> None:
    """Rings take 2 (k-1)/k of the vector over the interfaces of a server, as any schedule must."""
    for choice in ("rings", "best"):
        load = _load(_outcome(_problem(choice), REPLICAS, "rail-fat-tree"))
        assert (load.method, load.rounds) == ("", 0)
        assert load.gbytes_per_s / training("llama3-70b", 8, 8, 8192).device.reached.network == pytest.approx(6.25)


def test_too_many_servers_are_refused() -> None:
    """Packing trees takes long beyond 64 servers."""
    assert not too_many_servers(AllReduceChoice.RINGS, 10_000)
    assert not too_many_servers(AllReduceChoice.TREES, 64)
    (problem,) = too_many_servers(AllReduceChoice.TREES, 65)
    assert (problem.path, problem.value, problem.allowed) == ("cluster.servers", "65", "at most 64")


def test_a_family_that_waits_keeps_no_more_than_its_rate() -> None:
    """One that fills half of a link beside one that fills all of it: together 3/2, so two thirds each."""
    from topoopt.simulate.llm_training.links import FamilyLoad
    from topoopt.simulate.llm_training.step import max_min_parts

    waiting, busy = FamilyLoad(np.array([1.0, 0.0]), 1.0, 1, waits=1.0), FamilyLoad(np.array([1.0, 0.0]), 1.0, 1)
    assert max_min_parts([waiting, busy]) == pytest.approx([2 / 3, 2 / 3])
    apart = FamilyLoad(np.array([0.0, 1.0]), 1.0, 1)
    assert max_min_parts([waiting, apart]) == pytest.approx([1.0, 1.0])
