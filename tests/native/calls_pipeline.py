"""Small valid arguments of the functions of `topoopt.native.pipeline`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.parallelism import PipelineSchedule, PipelineShape, StageCosts
from topoopt.native import pipeline
from topoopt.simulate.pipeline import PassOrders, PipelineMemory, TickCosts, pass_orders

Rng = np.random.Generator


def pipeline_orders(rng: Rng) -> PassOrders:
    """Orders of any schedule, of at most four ranks."""
    schedule = tuple(PipelineSchedule)[rng.integers(len(PipelineSchedule))]
    p = 2 * int(rng.integers(1, 3))
    chunks = {PipelineSchedule.INTERLEAVED: int(rng.integers(2, 4)), PipelineSchedule.DUALPIPE_V: 2}
    shape = PipelineShape(p, 2 * p * int(rng.integers(1, 3)), chunks.get(schedule, 1))
    ticks = TickCosts.of(StageCosts.uniform(shape, 1.0, 1.0, 1.0), shape.micro_batches)
    return pass_orders(schedule, shape, ticks, PipelineMemory.usual(shape.stages))


def program_arguments(orders: PassOrders, *, blocking: bool) -> tuple[Any, ...]:
    """Of the constructor of `PassProgram`."""
    stages = orders.rank_of_stage, orders.before, orders.after
    return orders.start, orders.passes, *stages, orders.model_stages, orders.micro_batches, blocking


def drawn_passes(rng: Rng, orders: PassOrders, sets: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Whole seconds of passes and of a transfer, and when stages are ready, for sets of costs."""
    forward, inputs, weights = rng.integers(1, 20, (3, orders.model_stages, sets)).astype(np.float64)
    ready = rng.integers(0, 30, (len(orders.rank_of_stage), sets)).astype(np.float64)
    return forward, inputs, weights, rng.integers(0, 9, sets).astype(np.float64), ready


def drawn_parts(rng: Rng, layers: Ints) -> tuple[Any, ...]:
    """Parts of stages, as `stage_tables` takes them."""
    count, kinds = len(layers), int(rng.integers(1, 4))
    parts = rng.random((count, 7 * (kinds + 3))), rng.random((count, kinds)), rng.random(count) < 0.5
    order = rng.integers(0, kinds, int(layers.sum(axis=1).max(initial=1)))
    before = np.concatenate([np.zeros((1, kinds)), np.cumsum(order[:, None] == np.arange(kinds), axis=0)])
    return *parts, layers, before.astype(np.int64), int(rng.integers(0, 2)), int(rng.integers(0, kinds))


def drawn_tables(rng: Rng, stages: int, count: int) -> Floats:
    """float64[7 stages, R], as `stage_tables` makes them."""
    tables = rng.random((7, stages, count))
    tables[6] = rng.integers(1, 4, (stages, count))
    return tables.reshape(7 * stages, count)


def drawn_shapes(rng: Rng, count: int) -> tuple[Ints, Ints]:
    """int64[R, 5], shapes of every schedule as `order_bounds` takes them, and layers, int64[R, most stages]."""
    schedule, p = rng.integers(0, len(PipelineSchedule), count), 2 * rng.integers(1, 4, count)
    v = np.where(schedule == 2, 3, np.where(schedule == 6, 2, 1))
    shape = np.stack([schedule, p, v, 2 * p * rng.integers(1, 4, count), rng.integers(0, 4, count)], axis=1)
    return shape, rng.integers(1, 4, (count, int((p * v).max())))


def _even_stages(rng: Rng) -> tuple[Any, ...]:
    p, v, first, last = rng.integers(1, 5, (4, 3))
    return int(rng.integers(10, 40)), p, v, first, last


def _loads_of_ranks(rng: Rng) -> tuple[Any, ...]:
    return rng.integers(1, 4, 3), rng.integers(0, 5, (3, 8))


def _balanced_stages(rng: Rng) -> tuple[Any, ...]:
    shape = rng.integers(1, 4, (3, 2))
    tables = rng.random((3, 5)), rng.random((3, 6)), rng.random((3, 4))
    return shape, *tables, float(rng.choice([9.0, 30.0])), int(rng.integers(5, 20)), 2, rng.integers(0, 3, (3, 9))


def _stage_tables(rng: Rng) -> tuple[Any, ...]:
    return drawn_parts(rng, rng.integers(0, 4, (3, 5)))


def _order_bounds(rng: Rng) -> tuple[Any, ...]:
    shape, layers = drawn_shapes(rng, 8)
    return *drawn_parts(rng, layers), shape, rng.random(8), bool(rng.integers(0, 2)), bool(rng.integers(0, 2))


def _ready_times(rng: Rng) -> tuple[Any, ...]:
    return drawn_tables(rng, 6, 3), rng.integers(0, 3, 6), bool(rng.integers(0, 2))


def _reduced_times(rng: Rng) -> tuple[Any, ...]:
    tables, done = drawn_tables(rng, 6, 3), rng.integers(0, 5, (6, 3)).astype(np.float64)
    return tables, done, rng.integers(0, 3, 6), bool(rng.integers(0, 2)), bool(rng.integers(0, 2))


def _rank_costs(rng: Rng) -> tuple[Any, ...]:
    p, v = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    switches = [bool(one) for one in rng.integers(0, 2, 3)]
    return drawn_tables(rng, p * v, 3), p, v, int(rng.integers(1, 9)), *switches


def _pass_program(rng: Rng) -> tuple[Any, ...]:
    return program_arguments(pipeline_orders(rng), blocking=bool(rng.integers(0, 2)))


def _ends(rng: Rng) -> tuple[Any, ...]:
    orders = pipeline_orders(rng)
    program = pipeline.PassProgram(*program_arguments(orders, blocking=bool(rng.integers(0, 2))))
    kept = rng.integers(0, len(orders.passes), 5)
    return program, *drawn_passes(rng, orders, int(rng.choice([1, 3, 9]))), kept


def _zero_bubble(rng: Rng) -> tuple[Any, ...]:
    p, m = int(rng.integers(1, 5)), int(rng.integers(1, 9))
    adds = np.outer([34.0, -2.0, -32.0], rng.integers(1, 4, p))
    switches = [bool(one) for one in rng.integers(0, 2, 3)]
    return (
        rng.integers(0, 9, (3, p)),
        int(rng.integers(0, 4)),
        adds,
        adds[0] * rng.integers(1, 2 * p + 2, p),
        m,
        *switches,
    )


def seats_case(rng: Rng) -> tuple[Any, ...]:
    """Ranks in runs of components on every line, some dark; those in the same components are alike."""
    lines, classes, ranks, switches = (int(rng.integers(1, most)) for most in (4, 5, 6, 4))
    component = np.full((lines, ranks), -1)
    size: list[int] = []
    for row in component:
        group = np.cumsum(rng.random(ranks) < 0.4)
        for number in np.unique(group).tolist():
            if rng.random() < 0.8:
                row[group == number] = len(size)
                size.append(int((group == number).sum()))
    alike = np.append(False, (component[:, 1:] == component[:, :-1]).all(axis=0))
    switch_of, counts = rng.integers(0, switches, (lines, classes)), rng.integers(0, 4, classes)
    free = np.array([np.bincount(row, counts, minlength=switches) for row in switch_of], dtype=np.int64)
    sizes = np.array(size, dtype=np.int64)
    return switch_of, component, sizes, counts, free, alike, rng.permutation(classes), 100_000


CALLS: dict[str, Callable[[Rng], tuple[Any, ...]]] = {
    "even_stages": _even_stages,
    "loads_of_ranks": _loads_of_ranks,
    "balanced_stages": _balanced_stages,
    "stage_tables": _stage_tables,
    "order_bounds": _order_bounds,
    "ready_times": _ready_times,
    "reduced_times": _reduced_times,
    "rank_costs": _rank_costs,
    "PassProgram": _pass_program,
    "PassProgram.ends": _ends,
    "zero_bubble": _zero_bubble,
    "seat_ranks": seats_case,
}
