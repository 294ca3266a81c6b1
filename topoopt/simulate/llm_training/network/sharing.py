"""Rates of families beside those that send at the same time, by how much of the time they do.

In steady state transfers between stages meet the exchanges inside the passes (tokens to experts, keys, tensors across
servers), at the end of an iteration the reduction of gradients meets both. A family whose time alone is a, and which
meets another for the part u of it, takes a (1 - u + u / x), x the part of its rate that max-min fairness leaves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.network.layer_sync import layer_sync
from topoopt.simulate.llm_training.network.rates import NetworkRates, max_min_parts
from topoopt.simulate.llm_training.network.stages import stage_times
from topoopt.simulate.llm_training.rank_times import rank_times
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.transfers import GroupRates

EXCHANGES = (F.TENSOR, F.CONTEXT, F.EXPERT)
"""Families whose transfers are parts of the passes."""


def shared_rates(problem: LlmTrainingProblem, strategy: ParallelStrategy, found: NetworkRates) -> GroupRates:
    """Rates that the time model takes: none above those alone."""
    parts = {family: 1.0 / factor for family, factor in _factors(problem, strategy, found).items()}
    rates = found.rates
    return replace(
        rates,
        tensor=rates.tensor * parts.get(F.TENSOR, 1.0),
        context=rates.context * parts.get(F.CONTEXT, 1.0),
        expert=rates.expert * parts.get(F.EXPERT, 1.0),
        hop=rates.hop * parts.get(F.PIPELINE, 1.0),
        data=rates.data * parts.get(F.DATA, 1.0),
        expert_data=rates.expert_data * parts.get(F.EXPERT_DATA, 1.0),
    )


def _factors(problem: LlmTrainingProblem, strategy: ParallelStrategy, found: NetworkRates) -> Mapping[F, float]:
    """How much longer the transfers of each family take."""
    columns = columns_of([strategy], problem.model.layers)
    ranks, moved = rank_times(problem, problem.device, columns, found.rates)
    inner = ranks[1]
    whole = float(inner.forward[0] + inner.backward[0])
    busy = {F.TENSOR: inner.tensor, F.CONTEXT: inner.context, F.EXPERT: inner.expert}
    part = {family: float(busy[family][0][0] + busy[family][1][0]) / whole for family in EXCHANGES}
    hop = min(1.0, 2.0 * strategy.chunks * float(moved.hop[0]) / whole) if strategy.pipeline > 1 else 0.0
    part[F.PIPELINE] = hop if problem.overlap.pipeline else 0.0
    meets: dict[F, tuple[F, ...]] = dict.fromkeys(EXCHANGES, (F.PIPELINE,))
    meets[F.PIPELINE] = EXCHANGES if problem.overlap.pipeline else ()
    behind = (*EXCHANGES, F.PIPELINE) if problem.overlap.data else ()
    meets[F.DATA] = meets[F.EXPERT_DATA] = behind
    reduced = _reduced_s(problem, strategy, found)
    factors = {}
    for family, load in found.loads.items():
        # Only what is reduced during the last backward pass meets anything.
        long = reduced if family in (F.DATA, F.EXPERT_DATA) else 0.0
        during = min(1.0, float(inner.backward[0]) / long) if long > 0 else 1.0
        factor = 1.0
        for other in meets[family]:
            if other in found.loads and part[other] > 0:
                kept = max_min_parts([load, found.loads[other]])[0]
                factor += during * part[other] * (1.0 / kept - 1.0)
        factors[family] = factor
    return factors


def _reduced_s(problem: LlmTrainingProblem, strategy: ParallelStrategy, found: NetworkRates) -> float:
    """Seconds of reducing the gradients of an inner rank."""
    stages = stage_times(problem, strategy, found.rates)
    sync = layer_sync(problem, strategy, stages, found.rates)
    return float((sync.reduced * sync.layers).reshape(strategy.chunks, strategy.pipeline).sum(axis=0).max())
