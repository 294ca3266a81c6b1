"""For every shape a time that none of its strategies is below, whatever memory they take.

Over micro-batches b, sequence parallelism and families of schedules, the least of what such strategies take at least.
With q the least seconds of a layer and micro-batch both ways with nothing computed again, L layers, p stages:

    M = max(all layers, embedding, head / p,  ceil(L / p) q) + fixed costs of a chunk
                       the busiest rank has the mean at least, and by counting ceil(L / p) layers
    S = all layers, embedding, head + p fixed costs         the sum over ranks

    one stage, 1F1B, GPipe      (m - 1) M + S
    interleaved                 (m - 1/v) M + S / v         v the most chunks there can be
    ZB-H1, ZB-2p                the least of 1F1B and m M + (p - 1) max(0, F + B - (1, 2) W) of ceil(L / p) layers
    DualPipe                    m M, with the exchange between experts hidden

and 2c (p - 1) of hops c, 2c (m + p - 1) where they hide nothing, and what an iteration costs anyway. Transfers of
gradients and the step of the optimizer are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.llm_training.records import ONE_CHUNK, columns_of_rows, orders_of_shape, stage_ways, stated
from solvers.llm_training.shapes import divisors
from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.simulate.llm_training.layer_times import LayerTimes
from topoopt.simulate.llm_training.rank_times import EXCHANGE_SHARE
from topoopt.simulate.llm_training.strategies import SCHEDULE_CODES, Column, StrategyColumns
from topoopt.simulate.llm_training.traffic import layer_traffic
from topoopt.simulate.llm_training.transfers import GroupRates, layer_transfers

FAMILIES = (S.ONE_F_ONE_B, S.INTERLEAVED, S.ZB_H1, S.ZB_2P, S.DUALPIPE)
"""A schedule for each family: GPipe goes with 1F1B, both forms of DualPipe together."""


def shape_bounds(problem: LlmTrainingProblem, shapes: Sequence[StrategyShape]) -> Floats:
    """Seconds, one value a shape; inf where the rules leave no strategy."""
    rows = [(place, *row) for place, shape in enumerate(shapes) for row in _relaxed(problem, shape)]
    found = np.full(len(shapes), np.inf)
    if not rows:
        return found
    table = np.array(rows)
    place = table[:, 0].astype(np.int64)
    of_row = np.array([shape_numbers(shape) for shape in shapes])[place]
    columns = columns_of_rows(problem, of_row, table[:, 2:])
    np.minimum.at(found, place, _seconds(problem, columns, table[:, 1]))
    return found


def shape_numbers(shape: StrategyShape) -> tuple[float, ...]:
    """Its six parts."""
    parts = (shape.tensor, shape.context, shape.pipeline, shape.data, shape.expert, shape.expert_tensor)
    return tuple(float(part) for part in parts)


def _relaxed(problem: LlmTrainingProblem, shape: StrategyShape) -> list[tuple[float, ...]]:
    """Most chunks of a family, then a row as of `rows_of_shape` with one chunk, nothing shared or computed again."""
    found: list[tuple[float, ...]] = []
    orders = orders_of_shape(problem, shape)
    for b in stated(divisors(problem.batch.sequences // shape.data), problem.space.micro_batch):
        most: dict[S, float] = {}
        for v, name in stage_ways(problem, shape, problem.batch.sequences // (shape.data * b)):
            family = S.DUALPIPE if name is S.DUALPIPE_V else S.ONE_F_ONE_B if name is S.GPIPE else name
            most[family] = max(most.get(family, 1.0), float(v if name in (*ONE_CHUNK, S.INTERLEAVED) else 1))
        splits = [0.0] if shape.tensor == 1 or b * problem.batch.length // shape.context % shape.tensor else [0.0, 1.0]
        found += [
            (v, 1.0, 0.0, float(b), float(SCHEDULE_CODES[family]), 0.0, split, -1.0, -1.0, order)
            for family, v in most.items()
            for split in splits
            for order in orders
        ]
    return found


def _seconds(problem: LlmTrainingProblem, columns: StrategyColumns, most_chunks: Column) -> Column:
    p, m = columns.pipeline, problem.batch.sequences / columns.data / columns.micro_batch
    q, whole, idle, hop = _layers(problem, columns)
    fixed = 2.0 * problem.device.reached.chunk_us * 1e-6
    fullest = np.ceil(problem.model.layers / p)
    dual = columns.scheduled(S.DUALPIPE)
    scale = np.where(dual & (columns.expert > 1), 1.0 / (1.0 - EXCHANGE_SHARE), 1.0)
    whole, mean = whole + p * fixed * scale, whole / p + fixed * scale
    busiest = np.maximum(mean, np.where(dual & (p == 2), 0.0, fullest * q + fixed * scale))
    plain = (m - 1.0) * busiest + whole
    found = np.where(columns.scheduled(S.INTERLEAVED), (m - 1.0 / most_chunks) * busiest + whole / most_chunks, plain)
    for schedule, part in ((S.ZB_H1, 0), (S.ZB_2P, 1)):
        waits = (p - 1.0) * np.maximum(fullest * idle[part] + fixed, 0.0)
        found = np.where(columns.scheduled(schedule), np.minimum(plain, m * busiest + waits), found)
    found = np.where(dual, m * busiest, found)
    hops = 2.0 * hop * (p - 1.0 if problem.overlap.pipeline else m + p - 1.0)
    return np.asarray(problem.cluster.slowdown * (found + hops + problem.device.reached.iteration_ms * 1e-3))


def _layers(
    problem: LlmTrainingProblem, columns: StrategyColumns
) -> tuple[Column, Column, tuple[Column, Column], Column]:
    """Least seconds of a layer both ways; of all layers, embedding and head; F + B - W and F + B - 2 W; a hop."""
    model, length = problem.model, problem.batch.length
    times = LayerTimes(model, problem.device, problem.formats, columns, length)
    traffic = layer_traffic(model, problem.formats, columns, length, problem.cluster.gpus_per_server)
    rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
    moved = layer_transfers(problem.cluster, problem.overlap, columns, traffic, rates)
    dual = columns.scheduled(S.DUALPIPE)
    scale = np.where(dual & (columns.expert > 1), 1.0 / (1.0 - EXCHANGE_SHARE), 1.0)
    ring = sum(moved.tensor[:2], sum(moved.context, np.zeros_like(scale)))
    dense = times.layer(expert_layer=False)
    kinds = [(dense, ring)]
    if model.experts is not None:
        kinds.append((times.layer(expert_layer=True), ring + np.where(dual, 0.0, 2.0 * moved.expert)))
    both = [scale * (one.forward + one.backward) + sent for one, sent in kinds]
    idle = tuple(
        np.minimum.reduce([one.forward + one.backward - (1 + more) * one.weights + sent for one, sent in kinds])
        for more in (1, 2)
    )
    q = np.minimum.reduce(both)
    first_dense = 0 if model.experts is None else model.experts.dense_layers
    head, embedding = times.head(), times.embedding()
    ends = embedding.forward + embedding.backward + (1.0 + model.mtp_layers) * (head.forward + head.backward)
    whole = (model.layers - first_dense + model.mtp_layers) * both[-1] + first_dense * q + scale * ends
    return q, whole, (idle[0], idle[1]), moved.hop
