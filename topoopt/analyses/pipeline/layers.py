"""Layers of a model to the stages of a pipeline, as each schedule needs it: early ranks of 1F1B hold more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.pipeline.stage_split import LayerLoads, stage_split
from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.pipeline import PipelineSchedule, PipelineShape, StageCosts
from topoopt.simulate.pipeline import pipeline_time
from topoopt.simulate.pipeline.table import PipelineMemory
from topoopt.simulate.pipeline.timeline import most_held

MOST_LAYERS = 2000
ON_LAYERS = (
    PipelineSchedule.GPIPE,
    PipelineSchedule.ONE_F_ONE_B,
    PipelineSchedule.ZB_H1,
    PipelineSchedule.ZB_2P,
)
"""Schedules whose ranks hold consecutive layers."""


@dataclass(frozen=True, eq=False)
class Layers:
    """Layers in the order of the model.

    Attributes:
        forward_s, inputs_s, weights_s: float64[L] of a micro-batch.
        state: float64[L], memory of weights, gradients, optimizer.
        activations: float64[L], memory of a micro-batch on its way.
        room: memory of a rank, in the same unit.
    """

    forward_s: Floats
    inputs_s: Floats
    weights_s: Floats
    state: Floats
    activations: Floats
    room: float


def numbers(option: str, text: str, count: int | None, allowed: str) -> Floats:
    """Numbers parted by commas, `3x1.5` for three of them; one number for all if `count` is given.

    Raises:
        InputError: no numbers of at least 0 and below 1e9, or not as many.
    """
    values: list[float] = []
    try:
        for word in text.split(","):
            times, _, value = word.rpartition("x")
            repeat = int(times) if times else 1
            if not 0 < repeat <= MOST_LAYERS:
                raise ValueError
            values += [float(value)] * repeat
    except ValueError:
        raise InputError([Problem("not numbers", path=option, value=text, allowed=allowed)]) from None
    fitting = len(values) <= MOST_LAYERS if count is None else len(values) in (1, count)
    if not fitting or not all(0.0 <= value < 1e9 for value in values):
        raise InputError([Problem("out of range", path=option, value=text, allowed=allowed)])
    return np.array(values * (count or 1) if len(values) == 1 else values)


def split_layers(
    layers: Layers, schedule: PipelineSchedule, shape: PipelineShape, costs: StageCosts
) -> tuple[tuple[int, ...], StageCosts]:
    """Layers of each stage, and what the stages cost.

    Args:
        costs: of equal stages, for their transfers.

    Raises:
        InputError: the ranks of the schedule do not hold consecutive layers.
        InfeasibleError: fewer layers than stages, or too little memory.
    """
    if schedule not in ON_LAYERS:
        allowed = ", ".join(ON_LAYERS)
        raise InputError([Problem("does not split layers", path="--schedule", value=schedule, allowed=allowed)])
    ones, usual = np.ones(shape.ranks), PipelineMemory.usual(shape.ranks)
    if schedule is PipelineSchedule.ZB_2P:
        in_flight = np.full(shape.ranks, min(2.0 * shape.ranks, shape.micro_batches))
    else:
        orders = pipeline_time(schedule, shape, StageCosts(ones, ones, ones)).orders
        in_flight = most_held(orders, usual.activations, usual.for_weights)
    time = layers.forward_s + layers.inputs_s + layers.weights_s
    split = stage_split(LayerLoads(time, layers.state, layers.activations, in_flight, layers.room))
    begin = np.concatenate([[0], np.cumsum(split)[:-1]])
    forward, inputs, weights = (
        np.add.reduceat(part, begin) for part in (layers.forward_s, layers.inputs_s, layers.weights_s)
    )
    return split, StageCosts(forward, inputs, weights, costs.transfer_s, costs.blocking)
