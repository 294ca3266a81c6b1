"""Seconds of an iteration of any strategies, by the explicit orders of their passes."""

from __future__ import annotations

import numpy as np

from topoopt.core.leaving import end_if_left
from topoopt.core.llm_training import LlmTrainingProblem, TrainingDevice
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.simulate.llm_training.order_times import OrderShape, order_times
from topoopt.simulate.llm_training.stage_parts import stage_parts
from topoopt.simulate.llm_training.stage_table import stage_tables, stages_of
from topoopt.simulate.llm_training.strategies import Column, StrategyColumns
from topoopt.simulate.llm_training.transfers import GroupRates


def iteration_times(
    problem: LlmTrainingProblem,
    device: TrainingDevice,
    columns: StrategyColumns,
    rates: GroupRates | None = None,
) -> Column:
    """Seconds, one value a strategy that obeys the rules.

    Args:
        rates: of their groups; None: of an ideal switch.
    """
    ideal = GroupRates.of(problem.cluster, device.reached, columns)
    own = stage_parts(problem, device, columns, ideal if rates is None else rates)
    planned = None if rates is None else stage_parts(problem, device, columns, ideal)
    m = problem.batch.sequences / columns.data / columns.micro_batch
    keys = np.stack([columns.schedule, columns.pipeline, columns.chunks, m, columns.zero >= 3], axis=1).astype(np.int64)
    found = np.empty(len(keys))
    shapes, group = np.unique(keys, axis=0, return_inverse=True)
    layers = stages_of(problem, columns)
    order = np.argsort(group.ravel(), kind="stable")
    for key, rows in zip(shapes.tolist(), np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1]), strict=True):
        end_if_left()
        schedule, p, v, micro_batches, all_passes = key
        shape = OrderShape(tuple(S)[schedule], p, v, micro_batches, 3 if all_passes else 0)
        tables = stage_tables(problem, own.rows(rows), layers[rows, : p * v])
        known = None
        if planned is not None and shape.schedule is S.ZB_2P:
            known = stage_tables(problem, planned.rows(rows), layers[rows, : p * v]), planned.hop[rows]
        found[rows] = order_times(problem, shape, tables, own.hop[rows], known).total
    return found + own.iteration
