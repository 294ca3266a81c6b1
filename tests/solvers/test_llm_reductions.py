"""AllReduces of language models in training on schedules: rates of known graphs, rounds, choices, and their checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from solvers.collective.group_options import too_many_servers
from solvers.llm_training.network.plan import best_on_fabric, outcome_of
from solvers.stop import Stop
from tests.support.llm_cases import strategy, training
from topoopt.core.cluster import LinkDirection
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DimensionLoad, FabricOutcome, RankedStrategy
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.search_settings import AllReduceChoice
from topoopt.simulate.llm_training.estimate import estimate
from topoopt.simulate.llm_training.strategies import stage_layers
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.network import check_network

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


def _outcome(problem: LlmTrainingProblem, one: ParallelStrategy, fabric: str) -> FabricOutcome:
    one = replace(one, stage_layers=stage_layers(problem.model.layers, one.pipeline, one.chunks))
    ideal = estimate(problem, one)
    ranked = RankedStrategy(one, ideal.iteration_time_s, ideal.memory.total)
    return outcome_of(problem, best_on_fabric(problem, fabric, [ranked], Stop()))


def _load(outcome: FabricOutcome, family: F = F.DATA) -> DimensionLoad:
    return next(load for load in outcome.plan.network.loads if load.dimension is family)


def _codes(problem: LlmTrainingProblem, outcome: FabricOutcome) -> set[str]:
    findings = ViolationLog()
    check_network(findings, problem, outcome)
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
    head = model.hidden // model.heads
    weights = 2 * model.hidden**2 + 2 * model.hidden * model.kv_heads * head + 3 * model.hidden * model.ffn_hidden
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
    """It accepts what is planned, and a millionth more for any family that reduces on schedules is too much."""
    one, model, gpus, per_gpu = CASES[case]
    problem = _problem(choice, gpus=gpus, model=model, per_gpu=per_gpu, degree=8 if per_gpu else 4)
    outcome = _outcome(problem, one, "direct-connect" if per_gpu else "torus-2d")
    assert _codes(problem, outcome) == set()
    network = outcome.plan.network
    assert bool(network.schedules) or choice in (AllReduceChoice.RINGS, AllReduceChoice.BEST)
    for family in (own.dimension for own in network.schedules):
        more = tuple(
            replace(load, gbytes_per_s=load.gbytes_per_s * (1 + 1e-6)) if load.dimension is family else load
            for load in network.loads
        )
        wrong = replace(outcome, plan=replace(outcome.plan, network=replace(network, loads=more)))
        assert "rates" in _codes(problem, wrong) or _capped(problem, outcome, family)


def _capped(problem: LlmTrainingProblem, outcome: FabricOutcome, family: F) -> bool:
    """Whether a family has the whole rate of an ideal switch, so that its links could give more."""
    servers = outcome.plan.strategy.tensor * outcome.plan.strategy.context
    whole = problem.cluster.gpu_gbps * 0.125 * problem.device.reached.network * max(1.0, 8 / servers)
    return _load(outcome, family).gbytes_per_s >= whole * (1 - 1e-9)


def _altered(outcome: FabricOutcome, **changes: Any) -> FabricOutcome:
    network = outcome.plan.network
    (own,) = network.schedules
    (one,) = own.schedules
    made = replace(own, schedules=(replace(one, **changes),))
    return replace(outcome, plan=replace(outcome.plan, network=replace(network, schedules=(made,))))


def _without_last(outcome: FabricOutcome) -> FabricOutcome:
    (one,) = outcome.plan.network.schedules[0].schedules
    sends = one.schedule.sends
    fewer = type(sends)(*(getattr(sends, name)[:-1] for name in sends.__dataclass_fields__))
    return _altered(outcome, schedule=replace(one.schedule, sends=fewer))


def _on_rings(outcome: FabricOutcome) -> FabricOutcome:
    return replace(outcome, plan=replace(outcome.plan, network=replace(outcome.plan.network, schedules=())))


def _fewer_rounds(outcome: FabricOutcome) -> FabricOutcome:
    network = outcome.plan.network
    loads = tuple(replace(load, rounds=load.rounds - 1) for load in network.loads)
    return replace(outcome, plan=replace(outcome.plan, network=replace(network, loads=loads)))


@pytest.mark.parametrize(
    ("alter", "code"),
    [
        (_without_last, "schedules"),
        (_on_rings, "rings"),
        (_fewer_rounds, "schedules"),
        (lambda outcome: _altered(outcome, method="trees"), "schedules"),
        (lambda outcome: _altered(outcome, from_bytes=1), "schedules"),
        (lambda outcome: _altered(outcome, members=tuple(range(15))), "schedules"),
    ],
)
def test_corrupted_schedules_are_named(alter: Callable[[FabricOutcome], FabricOutcome], code: str) -> None:
    """A message lost, no schedule at all, rounds left out, another kind, some sizes only, another group."""
    problem = _problem("bfb")
    outcome = _outcome(problem, REPLICAS, "torus-2d")
    assert code in _codes(problem, alter(outcome))


def test_schedules_where_rings_are_asked_for_are_refused() -> None:
    """By an instance that says rings."""
    outcome = _outcome(_problem("bfb"), REPLICAS, "torus-2d")
    assert "schedules" in _codes(_problem("rings"), outcome)


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
    from topoopt.simulate.llm_training.network.links import FamilyLoad
    from topoopt.simulate.llm_training.network.rates import max_min_parts

    waiting, busy = FamilyLoad(np.array([1.0, 0.0]), 1.0, 1, waits=1.0), FamilyLoad(np.array([1.0, 0.0]), 1.0, 1)
    assert max_min_parts([waiting, busy]) == pytest.approx([2 / 3, 2 / 3])
    apart = FamilyLoad(np.array([0.0, 1.0]), 1.0, 1)
    assert max_min_parts([waiting, apart]) == pytest.approx([1.0, 1.0])
