"""All strategies of a shape, as columns; each stands once.

What plays no part is not asked whether the instance allows it, and what does the same stands once: no sequence
parallelism with tensor 1, 1F1B for one stage, ZeRO 0 with one replica, no selective recomputation where attention
computes its scores again anyway. ZeRO 2 and 3 go with several stages only where an instance says so, as gradients or
weights would be exchanged in every micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from topoopt.core.arrays import Bools, divisors
from topoopt.core.llm_training import END_SLOTS, LlmTrainingProblem
from topoopt.core.llm_training_plan import PHOTONIC_RAILS, StrategyShape
from topoopt.core.parallelism import (
    RANK_ORDER,
    RANK_ORDERS,
    TENSOR_FIRST,
    LayerDivision,
    ParallelDimension,
    Recompute,
)
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.llm_training.strategies import (
    BOTH_ENDS,
    RECOMPUTE_CODES,
    SCHEDULE_CODES,
    Column,
    short_ends,
)

ONE_CHUNK = (PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.ZB_H1, PipelineSchedule.ZB_2P)

PARTS = ("chunks", "zero", "micro_batch", "schedule", "recompute", "sequence", "first_less", "last_less", "order")
"""What strategies of a shape differ in; a row of a table has them in this order."""

ALL_SHARED = 3
"""ZeRO of weights that are gathered in every pass."""

EVEN, BALANCED = -1.0, -2.0
"""In place of how many layers fewer the ends have: layers are spread evenly, or so that the slowest rank is fastest."""


def rows_of_shape(problem: LlmTrainingProblem, shape: StrategyShape, *, free: bool = False) -> Column:
    """float64[records, 9], the parts of all strategies of a shape; schedules and recomputation as codes.

    Args:
        free: ZeRO and recomputation cost nothing: 0 and none stand for all, where no layers are divided by them.
    """
    tables = []
    space, batch = problem.space, problem.batch
    free = free and (shape.pipeline == 1 or space.layers is LayerDivision.EVEN)
    zeros = _zeros(problem, shape)
    zeros = [min(zeros)] if free else zeros
    orders = orders_of_shape(problem, shape)
    recomputed = [Recompute.NONE] if free else _recomputations(problem)
    again = [float(RECOMPUTE_CODES[one]) for one in recomputed]
    for b in stated(divisors(batch.sequences // shape.data), space.micro_batch):
        m = batch.sequences // (shape.data * b)
        ways = _ways(problem, shape, m)
        split = [0.0] if shape.tensor == 1 else [0.0, 1.0]
        if b * batch.length // shape.context % shape.tensor:
            split = [0.0]
        split = [one for one in split if space.sequence is None or shape.tensor == 1 or bool(one) in space.sequence]
        grid = np.meshgrid(np.arange(len(ways)), zeros, again, split, orders, indexing="ij")
        way, zero, recompute, sequence, order = (part.ravel() for part in grid)
        if not len(way):
            continue
        chunks, schedule, first, last = np.array(ways, dtype=np.float64)[way.astype(np.int64)].T
        parts = [chunks, zero, np.full_like(zero, b), schedule, recompute, sequence, first, last, order]
        tables.append(np.stack(parts, axis=1))
    rows = np.concatenate(tables) if tables else np.zeros((0, len(PARTS)))
    if PHOTONIC_RAILS in problem.fabrics:
        rows = rows[_standing_on_rails(problem, shape, rows)]
    if free:
        rows[:, PARTS.index("zero")] = 0.0
    return rows


def _standing_on_rails(problem: LlmTrainingProblem, shape: StrategyShape, rows: Column) -> Bools:
    """bool[records]: tensor and context groups lie inside servers, which hold one stage each; ranks hold the model
    once; passes gather no weights over the rail; and circuits have ports. Experts lie on no more servers than replicas.
    """
    found = np.zeros(len(rows), dtype=bool)
    ports = 0 if problem.switching is None else problem.switching.ports
    zero, schedule, order = (rows[:, PARTS.index(name)] for name in ("zero", "schedule", "order"))
    twice = np.isin(schedule, [SCHEDULE_CODES[one] for one in BOTH_ENDS])
    for code in np.unique(order):
        tensor, context, data, pipeline = _beside(problem, shape, RANK_ORDERS[int(code)])
        servers = shape.data * shape.context / (data * context)
        fits = max(min(shape.pipeline - 1, 2), min(servers - 1, 2)) <= ports
        if fits and (tensor, context) == (shape.tensor, shape.context) and pipeline == 1:
            found |= (order == code) & ~twice & ((zero < ALL_SHARED) | (servers == 1))
    return found


def _beside(
    problem: LlmTrainingProblem, shape: StrategyShape, order: tuple[ParallelDimension, ...]
) -> tuple[float, ...]:
    """Ranks of each dimension on a server, in the usual order of the dimensions."""
    sizes: dict[ParallelDimension, int] = {one: getattr(shape, one.value) for one in RANK_ORDER}
    beside, stride = dict.fromkeys(RANK_ORDER, 1.0), 1
    for dimension in order:
        beside[dimension] = min(max(problem.cluster.gpus_per_server / stride, 1.0), float(sizes[dimension]))
        stride *= sizes[dimension]
    return tuple(beside.values())


def orders_of_shape(problem: LlmTrainingProblem, shape: StrategyShape) -> list[float]:
    """Orders of the ranks, as codes; of those that put the same groups on a server the first one."""
    found: dict[tuple[float, ...], float] = {}
    for order in problem.space.order or TENSOR_FIRST:
        found.setdefault(_beside(problem, shape, order), float(RANK_ORDERS.index(order)))
    return list(found.values())


def stated(values: Iterable[int], allowed: tuple[int, ...] | None) -> list[int]:
    """Those of the values that an instance allows."""
    return [value for value in values if allowed is None or value in allowed]


def _zeros(problem: LlmTrainingProblem, shape: StrategyShape) -> list[float]:
    stated = problem.space.zero
    if shape.data * shape.context == 1:
        return [0.0]
    usual = (0, 1) if shape.pipeline > 1 else (0, 1, 2, 3)
    return [float(zero) for zero in (usual if stated is None else stated)]


def _recomputations(problem: LlmTrainingProblem) -> list[Recompute]:
    stated = tuple(Recompute) if problem.space.recompute is None else problem.space.recompute
    same = problem.formats.flash and Recompute.NONE in stated
    return [one for one in stated if not (same and one is Recompute.SELECTIVE)]


def stage_ways(problem: LlmTrainingProblem, shape: StrategyShape, m: int) -> list[tuple[int, PipelineSchedule]]:
    """Chunks with a schedule, for m micro-batches of a replica."""
    p, space = shape.pipeline, problem.space
    names = tuple(PipelineSchedule) if space.schedule is None else space.schedule
    if problem.pods is not None:  # whose ranks hold one stage
        names = tuple(name for name in names if name is not PipelineSchedule.DUALPIPE)
    most = (problem.model.layers + END_SLOTS) // p
    if p == 1:
        ways = [(1, PipelineSchedule.ONE_F_ONE_B)]
    else:
        ways = [(1, name) for name in names if name in ONE_CHUNK]
        if PipelineSchedule.INTERLEAVED in names and m % p == 0:
            ways += [(v, PipelineSchedule.INTERLEAVED) for v in range(2, most + 1)]
        if m >= 2 * p:
            if PipelineSchedule.DUALPIPE in names and p % 2 == 0 and m % 2 == 0:
                ways.append((1, PipelineSchedule.DUALPIPE))
            if PipelineSchedule.DUALPIPE_V in names and most >= 2:
                ways.append((2, PipelineSchedule.DUALPIPE_V))
    return [(v, name) for v, name in ways if space.chunks is None or v in space.chunks]


def _ways(problem: LlmTrainingProblem, shape: StrategyShape, m: int) -> list[tuple[float, ...]]:
    """Chunks, the code of the schedule, and how many layers fewer the ends have."""
    p = shape.pipeline
    return [
        (v, SCHEDULE_CODES[name], *ends)
        for v, name in stage_ways(problem, shape, m)
        for ends in ends_of(problem, p, v, name)
    ]


def ends_of(problem: LlmTrainingProblem, p: int, v: int, schedule: PipelineSchedule) -> list[tuple[float, float]]:
    """How many layers fewer the first and the last rank may have."""
    fewer = problem.space.short_ends
    if problem.space.layers is LayerDivision.BALANCED and p > 1 and schedule not in BOTH_ENDS:
        return [(BALANCED, BALANCED)]
    if not fewer or p == 1:
        return [(EVEN, EVEN)]
    i, j = (part.ravel().astype(np.float64) for part in np.meshgrid(fewer, fewer, indexing="ij"))
    able = short_ends(problem.model.layers, np.full_like(i, p), np.full_like(i, v), (i, j))[3]
    return list(zip(i[able].tolist(), j[able].tolist(), strict=True))
