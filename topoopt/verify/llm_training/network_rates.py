"""Rates of families on a network: alone, and beside those that send at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy
from topoopt.verify.llm_training.groups import Pairs
from topoopt.verify.llm_training.link_loads import BYTES_OF_GBIT, FamilySeconds
from topoopt.verify.llm_training.space import Records, records_of, row_of
from topoopt.verify.llm_training.stage_rows import stage_rows
from topoopt.verify.llm_training.step import rank_passes
from topoopt.verify.llm_training.transfers import DimensionRates, ideal_rates, sent_by

EXCHANGES = (F.TENSOR, F.CONTEXT, F.EXPERT)
"""Inside the passes."""

REPLICAS = (F.DATA, F.EXPERT_DATA)

OWN, OTHERS = (-1, -1), (-2, -2)
"""No links: the rates alone of two families that send at the same time, which neither exceeds."""

FULL = 1e-12
"""A link is full when no more than this part of it is free."""


def rates_alone(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, loads: Mapping[F, FamilySeconds]
) -> dict[F, float]:
    """Bytes a second of a GPU when none of the other families sends; at most those on an ideal switch."""
    most = _most(problem, strategy)
    return {
        family: min(most[family], 1.0 / load.taken) if load.taken > 0 else most[family]
        for family, load in loads.items()
    }


def _most(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> dict[F, float]:
    ideal = ideal_rates(problem, records_of([row_of(strategy)]))
    if strategy.order == RANK_ORDER:
        rates = (ideal.tensor, ideal.context, ideal.expert, ideal.hop, ideal.data, ideal.expert_data)
        families = (F.TENSOR, F.CONTEXT, F.EXPERT, F.PIPELINE, F.DATA, F.EXPERT_DATA)
        return {family: float(rate[0]) for family, rate in zip(families, rates, strict=True)}
    cluster = problem.cluster
    outside = cluster.degree * cluster.link_gbps / cluster.gpus_per_server
    outside *= BYTES_OF_GBIT * problem.device.reached.network
    found = dict.fromkeys(F, ideal.inside) | {F.TENSOR: min(ideal.inside, outside)}
    return found | {F.EXPERT: outside, F.PIPELINE: outside}


def as_rates(
    problem: LlmTrainingProblem, r: Records, rates: Mapping[F, float], loads: Mapping[F, FamilySeconds]
) -> DimensionRates:
    """For the time model; families inside servers have the rate of their links."""
    ideal = ideal_rates(problem, r)

    def rate(family: F, otherwise: Floats) -> Floats:
        return np.full_like(r.t, rates[family]) if family in rates else otherwise

    inside = np.full_like(r.t, ideal.inside)
    hops = [loads[family].hops if family in loads else 1 for family in (F.TENSOR, F.CONTEXT, F.EXPERT, F.PIPELINE)]
    return DimensionRates(
        ideal.inside,
        rate(F.TENSOR, inside),
        rate(F.CONTEXT, inside),
        rate(F.DATA, inside),
        rate(F.EXPERT_DATA, inside),
        rate(F.EXPERT, ideal.expert),
        rate(F.PIPELINE, ideal.hop),
        *hops,
    )


def rates_shared(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    loads: Mapping[F, FamilySeconds],
    alone: Mapping[F, float],
) -> dict[F, float]:
    """Beside the families that send at the same time, by how much of the time they do.

    A family that meets another for the part u of its time takes (1 - u + u / x) as long, x the part of its rate that
    max-min fairness leaves it. Exchanges inside the passes and transfers between stages meet each other, the reduction
    of gradients both, as far as it is done during the last backward pass.
    """
    r = records_of([row_of(strategy)])
    rates = as_rates(problem, r, alone, loads)
    moved = sent_by(problem, r, rates)
    inner = rank_passes(problem, r, moved, (r.first, r.inner, r.last))[1]
    whole, backward = float(inner.both[0]), float(inner.backward[0])
    part = {F.TENSOR: inner.tensor, F.CONTEXT: inner.context, F.EXPERT: inner.expert}
    busy = {family: float(seconds[0]) / whole for family, seconds in part.items()}
    hidden = problem.overlap.pipeline and strategy.pipeline > 1
    busy[F.PIPELINE] = min(1.0, 2.0 * strategy.chunks * float(moved.hop[0]) / whole) if hidden else 0.0
    layers = np.array(strategy.stage_layers, dtype=np.float64)[:, None]
    reduced = stage_rows(problem, r, layers, rates).reduced[:, 0] / problem.cluster.slowdown
    long = float(reduced.reshape(strategy.chunks, strategy.pipeline).sum(axis=0).max())
    found = {}
    for family, load in loads.items():
        others: tuple[F, ...] = (F.PIPELINE,)
        if family is F.PIPELINE:
            others = EXCHANGES if problem.overlap.pipeline else ()
        elif family in REPLICAS:
            others = (*EXCHANGES, F.PIPELINE) if problem.overlap.data else ()
        during = min(1.0, backward / long) if family in REPLICAS and long > 0 else 1.0
        longer = sum(
            during * busy[other] * (1.0 / part_kept(load, loads[other]) - 1.0)
            for other in others
            if other in loads and busy[other] > 0
        )
        found[family] = alone[family] / (1.0 + longer)
    return found


def part_kept(one: FamilySeconds, other: FamilySeconds) -> float:
    """Part of its rate alone that the first keeps beside the other.

    Both rise alike until what they share is full, or one of them has all of its rate: waiting fills no link.
    """
    a, b = _at_rate(one, OWN), _at_rate(other, OTHERS)
    together = {step: a.get(step, 0.0) + b.get(step, 0.0) for step in a.keys() | b.keys()}
    level = 1.0 / max(together.values())
    full = [step for step, load in together.items() if 1.0 - level * load <= FULL]
    if any(a.get(step, 0.0) > 0 for step in full):
        return level
    # The other one stopped: this one goes on until a link has no more capacity.
    remaining = [(1.0 - level * together[step]) / load for step, load in a.items() if load > 0]
    return level + min(remaining)


def _at_rate(family: FamilySeconds, rate: tuple[int, int]) -> Pairs:
    """Of the capacity of each link when a family sends at its rate alone; under `rate` stands that rate itself."""
    return {step: seconds / family.taken for step, seconds in family.seconds.items()} | {rate: 1.0}


def free(rates: DimensionRates, family: F, much: float) -> DimensionRates:
    """The same with transfers of a family that take no time."""
    name = {F.TENSOR: "tensor", F.CONTEXT: "context", F.EXPERT: "expert", F.PIPELINE: "hop", F.DATA: "data"}
    changed: dict[str, Any] = {name.get(family, "expert_data"): np.full_like(rates.tensor, much)}
    return replace(rates, **changed)
