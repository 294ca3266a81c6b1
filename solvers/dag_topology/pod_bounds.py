"""What no strategy goes below in pods, whatever circuits join them: a time of every strategy of an instance.

The order of the passes of a strategy, with rates that no circuits exceed: what a pod sends to the stages before and
behind goes at most over all its ports, and so does what it sends round the ring of its replicas, of which it reduces
its own first. Weights come at once, gradients of ZeRO 3 take no time, nor do tokens between pods.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from solvers.llm_training.search import shape_numbers
from solvers.llm_training.space import columns_of_rows, rows_of_shape, strategy_of, strategy_shapes
from solvers.stop import Stop
from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, Floats
from topoopt.core.llm_training import LlmTrainingProblem, PodSettings
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.costs import GroupRates, ledger
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.simulate.llm_training.times import GATHERED, REDUCED, StageParts, order_bounds, stage_parts

BLOCK = 1 << 14
"""Strategies whose bounds are computed together."""

ALL_SHARED = 3
"""ZeRO of weights that are gathered in every pass."""


@dataclass(frozen=True)
class BoundedStrategies:
    """Strategies that fit into memory, by what circuits cannot better.

    Attributes:
        least: (seconds, strategy) of those with the least bounds, ascending.
        rest_s: bound of all others; infinite: there are none.
        count: of all that fit.
    """

    least: tuple[tuple[float, ParallelStrategy], ...]
    rest_s: float
    count: int


def least_bounds(problem: LlmTrainingProblem, most: int, stop: Stop) -> BoundedStrategies | None:
    """Bounds of all strategies, and those with the least; None: a limit came.

    Args:
        most: how many of them.
    """
    kept: list[tuple[float, int, StrategyShape, Column]] = []
    count, rest_s = 0, np.inf
    for shapes, of_row, rows in _blocks(problem):
        if stop.reason() is not None:
            return None
        numbers = np.array([shape_numbers(shape) for shape in shapes])
        columns = columns_of_rows(problem, numbers[of_row], rows)
        usable = problem.cluster.usable_bytes
        held = ledger(problem, columns).total
        fits = np.flatnonzero(np.ones(len(rows), dtype=bool) if usable is None else held <= usable)
        bounds = pod_bounds(problem, columns.rows(fits)) if len(fits) else np.zeros(0)
        own = [
            (value, count + place, shapes[of_row[one]], rows[one])
            for place, (value, one) in enumerate(zip(bounds.tolist(), fits.tolist(), strict=True))
        ]
        count += len(fits)
        kept = heapq.nsmallest(most + 1, [*kept, *own], key=lambda one: one[:2])
        if len(kept) > most:
            rest_s = min(rest_s, kept.pop()[0])
    least = tuple((value, strategy_of(problem, shape, row)) for value, _, shape, row in kept)
    return BoundedStrategies(least, rest_s if count > most else np.inf, count)


def _blocks(problem: LlmTrainingProblem) -> Iterator[tuple[list[StrategyShape], np.ndarray, Column]]:
    """Shapes, the place of the shape of every row, rows."""
    tables: dict[StrategyShape, Column] = {}
    shapes, parts, size = list[StrategyShape](), list[Column](), 0
    every = strategy_shapes(problem)
    for number, shape in enumerate(every):
        dense = replace(shape, expert=1, expert_tensor=1)  # how experts are divided changes nothing in the rows
        if dense not in tables:
            tables[dense] = rows_of_shape(problem, dense)
        shapes.append(shape)
        parts.append(tables[dense])
        size += len(parts[-1])
        if size >= BLOCK or (size and number == len(every) - 1):
            yield shapes, np.repeat(np.arange(len(shapes)), [len(part) for part in parts]), np.concatenate(parts)
            shapes, parts, size = [], [], 0


def pod_bounds(problem: LlmTrainingProblem, columns: StrategyColumns) -> Floats:
    """Seconds, one value a strategy."""
    pods = problem.pods
    assert pods is not None
    freed = replace(problem, overlap=replace(problem.overlap, data=True))
    return order_bounds(freed, columns, _parts(freed, columns, pods))


def _parts(problem: LlmTrainingProblem, columns: StrategyColumns, pods: PodSettings) -> StageParts:
    slow, whole = problem.cluster.slowdown, pods.ports * pods.circuit_gbps * BYTES_PER_MS_PER_GBPS * 1e3
    of_stage = columns.tensor * columns.context * columns.data
    rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
    rates = replace(
        rates,
        data=slow * whole * _share(columns.replicas, columns.tensor, of_stage, pods.gpus),
        expert_data=slow * whole * _share(columns.expert_replicas, columns.expert, of_stage, pods.gpus),
    )
    parts = stage_parts(problem, problem.device, columns, rates)
    seconds = parts.seconds
    seconds[:, :, GATHERED] = 0.0
    seconds[columns.zero >= ALL_SHARED, :, REDUCED] = 0.0
    tokens = 2.0 * columns.micro_batch * problem.batch.length / columns.context * problem.model.hidden
    sent = np.where(columns.sequence > 0, tokens / columns.tensor, tokens)
    return replace(
        parts,
        exchange=np.where(columns.expert > pods.gpus, 0.0, parts.exchange),
        hop=np.where(columns.pipeline > 1, sent * pods.gpus / whole, 0.0),
    )


def _share(replicas: Column, holders: Column, of_stage: Column, gpus: int) -> Column:
    """Part of the rate of all ports of a pod at which a GPU would pass its gradients round all replicas, where those of
    its pod are reduced first and pods pass what they hold round a ring of their own.

    Args:
        replicas: GPUs that hold the same.
        holders: GPUs that hold one replica.
    """
    ring = np.where(holders > gpus, of_stage / np.maximum(holders, 1.0), of_stage / gpus)
    each = (replicas - 1.0) / np.maximum(replicas, 1.0)
    together = np.maximum(1.0 - 1.0 / np.maximum(ring, 1.0), 0.0)
    return np.where(ring > 1.0, each / np.where(ring > 1.0, together, 1.0) / np.minimum(holders, gpus), np.inf)
