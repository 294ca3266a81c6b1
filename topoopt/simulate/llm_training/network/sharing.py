"""Rates of families beside those that send at the same time, by how much of the time they do.

In steady state transfers between stages meet the exchanges inside the passes (tokens to experts, keys, tensors across
servers), at the end of an iteration the reduction of gradients meets both. A family whose time alone is a, and which
meets another for the part u of it, takes a (1 - u + u / x), x the part of its rate that max-min fairness leaves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.network.layer_sync import layer_sync
from topoopt.simulate.llm_training.network.rates import NetworkRates, max_min_parts
from topoopt.simulate.llm_training.network.stages import stage_times
from topoopt.simulate.llm_training.rank_times import rank_times
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.transfers import GroupHops, GroupRates

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
    rates = found.rates
    columns = rates.tensor, rates.context, rates.expert, rates.hop, rates.data, rates.expert_data
    alone = tuple(float(column[0]) for column in columns)
    part, backward, reduced = _busy(problem, strategy, alone, rates.inside, rates.hops)
    meets: dict[F, tuple[F, ...]] = dict.fromkeys(EXCHANGES, (F.PIPELINE,))
    meets[F.PIPELINE] = EXCHANGES if problem.overlap.pipeline else ()
    behind = (*EXCHANGES, F.PIPELINE) if problem.overlap.data else ()
    meets[F.DATA] = meets[F.EXPERT_DATA] = behind
    factors = {}
    for family, load in found.loads.items():
        # Only what is reduced during the last backward pass meets anything.
        long = reduced if family in (F.DATA, F.EXPERT_DATA) else 0.0
        during = min(1.0, backward / long) if long > 0 else 1.0
        factor = 1.0
        for other in meets[family]:
            if other in found.loads and part[other] > 0:
                kept = max_min_parts([load, found.loads[other]])[0]
                factor += during * part[other] * (1.0 / kept - 1.0)
        factors[family] = factor
    return factors


@lru_cache(maxsize=256)
def _busy(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, alone: tuple[float, ...], inside: float, hops: GroupHops
) -> tuple[Mapping[F, float], float, float]:
    """Of an inner rank: how much of its time each family sends, and seconds of a backward pass and of reducing
    gradients. Most maps of ranks that are tried give the rates of one before."""
    tensor, context, expert, hop_rate, data, expert_data = (np.array([value]) for value in alone)
    rates = GroupRates(tensor, context, expert, hop_rate, data, expert_data, inside, hops)
    ranks, moved = rank_times(problem, problem.device, columns_of([strategy], problem.model.layers), rates)
    inner = ranks[1]
    whole = float(inner.forward[0] + inner.backward[0])
    busy = {F.TENSOR: inner.tensor, F.CONTEXT: inner.context, F.EXPERT: inner.expert}
    part = {family: float(busy[family][0][0] + busy[family][1][0]) / whole for family in EXCHANGES}
    hop = min(1.0, 2.0 * strategy.chunks * float(moved.hop[0]) / whole) if strategy.pipeline > 1 else 0.0
    part[F.PIPELINE] = hop if problem.overlap.pipeline else 0.0
    sync = layer_sync(problem, strategy, stage_times(problem, strategy, rates), rates)
    reduced = (sync.reduced * sync.layers).reshape(strategy.chunks, strategy.pipeline).sum(axis=0).max()
    return part, float(inner.backward[0]), float(reduced)
