"""What a pipeline costs beside the work of its busiest rank, in closed form, for many strategies at once.

A rank of a pipeline is the first, an inner or the last one: embedding, head and uneven layers make them differ. With
m micro-batches, v chunks, passes of all chunks of a rank (with transfers that nothing hides), Q of a micro-batch both
ways and c for a hop, the pipeline takes

    m max Q + (sum Q - max Q) / v     1F1B (exact for equal stages), GPipe, interleaved (arXiv:2104.04473)
    m max Q + (p-1) (F + B - W)       ZB-H1, B and W gradients of inputs and of weights (arXiv:2401.10241)
    m max Q + (p-1) (F + B - 2 W)     ZB-2p; neither less than what passes before and behind any rank take
    m max Q + (p/2-1) (F + 2 B - W)   DualPipe (arXiv:2412.19437), whose ranks share the first and the last stage

and hops 2c (p-1) + 2c (m-1 - ceil((m-1)/p)) under 1F1B, 2c (p v - 1) interleaved while a chunk outlasts a hop,
4c (p-1) under zero-bubble schedules, 2c (p-1) under GPipe; every hop where transfers between stages hide nothing.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.simulate.llm_training.rank_times import RankTimes
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns

Ranks = tuple[RankTimes, RankTimes, RankTimes]


def bubble_s(
    columns: StrategyColumns,
    ranks: Ranks,
    loads: list[Column],
    most: Column,
    m: Column,
) -> Column:
    """What the busiest rank waits for at both ends."""
    p = columns.pipeline
    total = loads[0] + loads[2] + np.maximum(p - 2, 0.0) * loads[1]
    plain = np.where(p > 1, (total - most) / columns.chunks, 0.0)
    weights, forward = ranks[1].passes.weights, ranks[1].forward
    inputs = ranks[1].backward - weights
    h1 = (p - 1) * np.maximum(forward + inputs - weights, 0.0)
    free = (p - 1) * np.maximum(forward + inputs - 2 * weights, 0.0)
    dual = np.maximum(p / 2 - 1, 0.0) * np.maximum(forward + 2 * inputs - weights, 0.0)
    least = _passed(columns, ranks, loads, m) - m * most
    found = np.where(columns.scheduled(S.ZB_H1), np.minimum(np.maximum(h1, least), plain), plain)
    found = np.where(columns.scheduled(S.ZB_2P), np.minimum(np.maximum(free, least), plain), found)
    found = np.where(columns.scheduled(S.DUALPIPE, S.DUALPIPE_V), np.minimum(dual, plain), found)
    return np.where(p > 1, found, 0.0)


def _passed(columns: StrategyColumns, ranks: Ranks, loads: list[Column], m: Column) -> Column:
    """Least makespan where gradients of weights wait for nobody: of each rank, all its work behind the first pass
    through the ranks before it, and the passes that others wait for between those through all other ranks."""
    p = columns.pipeline
    between = np.maximum(p - 2.0, 0.0)
    forward = [rank.forward for rank in ranks]
    waited = [rank.forward + rank.backward - rank.passes.weights for rank in ranks]
    inside = forward[0] + np.maximum(between - 1.0, 0.0) * forward[1]
    behind = forward[0] + between * forward[1]
    around = waited[0] + between * waited[1] + waited[2]
    found = np.maximum(loads[2] * m + behind, (m - 1.0) * waited[2] + around)
    found = np.maximum(found, (m - 1.0) * waited[0] + around)
    inner = np.maximum(loads[1] * m + inside, (m - 1.0) * waited[1] + around)
    return np.asarray(np.where(p > 2, np.maximum(found, inner), found))


def hops_s(
    problem: LlmTrainingProblem,
    columns: StrategyColumns,
    ranks: Ranks,
    hop: Column,
    m: Column,
) -> Column:
    """Exposed transfers between stages."""
    p, v = columns.pipeline, columns.chunks
    if not problem.overlap.pipeline:
        return np.where(p > 1, 2.0 * hop * (m * v + p - 1), 0.0)
    plain = 2.0 * hop * (p - 1)
    waits = plain + 2.0 * hop * (m - 1 - np.ceil((m - 1) / p))
    short = np.maximum(hop - ranks[1].forward / v, 0.0) + np.maximum(hop - ranks[1].backward / v, 0.0)
    interleaved = 2.0 * hop * (p * v - 1) + m * v * short
    found = np.where(columns.scheduled(S.ONE_F_ONE_B), waits, 2.0 * plain)
    found = np.where(columns.scheduled(S.INTERLEAVED), interleaved, found)
    found = np.where(columns.scheduled(S.GPIPE), plain, found)
    return np.where(p > 1, found, 0.0)
