"""Seconds of iterations by the explicit order of their passes: p representative ranks stand for all replicas.

An iteration lasts until all ranks have done their passes and reduced their gradients, and then takes the step of the
optimizer, which waits for all ranks, as gradients are normed. No pass of a stage begins before its weights are gathered
(ZeRO 1 and 2), layer by layer in the order of the stages of a rank, which passes of the layers before hide; gradients
of a layer are reduced as soon as its last backward pass is through, one layer after the other. With ZeRO 3, which does
both in all passes, what passes do not hide comes on top.

Strategies whose orders are the same are followed together, few micro-batches where others are proven to repeat them.
ZB-2P plans its order with times on an ideal switch, of nine digits, so that a slower network delays it and changes
nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.leaving import end_if_left
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.core.pipeline import PipelineShape, StageCosts
from topoopt.native import pipeline as native
from topoopt.simulate.llm_training.stage_parts import FORWARD, INPUTS, WEIGHTS
from topoopt.simulate.llm_training.strategies import BOTH_ENDS
from topoopt.simulate.pipeline.orders import BACKWARD, PassOrders
from topoopt.simulate.pipeline.orders import WEIGHTS as LATE
from topoopt.simulate.pipeline.periods import Period, grown, periods_compared
from topoopt.simulate.pipeline.table import SCHEDULES, PipelineMemory, pass_orders
from topoopt.simulate.pipeline.timeline import MOST_TICKS, TickCosts

ZB_HELD, ZB_LATE = 34.0, 32.0
"""Bytes over s b h that a forward pass leaves behind, and that of it which gradients of weights wait for
(arXiv:2401.10241, table 2); whole numbers, so that room is what it is."""

PLANNED_DIGITS = 9
"""Of the times that an order is planned with: as many as rounding leaves alone."""

FINEST_BITS = 1000.0
"""Ticks are no finer than this power of two, where nothing takes any time."""


@dataclass(frozen=True)
class OrderShape:
    """What an order and what is exchanged around it depend on, but for how long passes take."""

    schedule: S
    pipeline: int
    chunks: int
    micro_batches: int
    zero: int

    @property
    def stages(self) -> int:
        """Of the model."""
        return self.pipeline * self.chunks

    @property
    def paired(self) -> bool:
        """Whether ranks hold one stage of either half: of two copies of the model (DualPipe), or in the V shape."""
        return self.schedule in BOTH_ENDS

    def home(self) -> Ints:
        """int64[stages]: the rank of each; of DualPipe, where two ranks hold the same two, the first of them."""
        stage = np.arange(self.stages)
        return np.minimum(stage, self.stages - 1 - stage) if self.paired else stage % self.pipeline


@dataclass(frozen=True, eq=False)
class OrderTimes:
    """Seconds, one value a strategy.

    Attributes:
        passes: until the last pass ends, weights being there from the begin.
        exchanged: how much later gradients are reduced, weights being gathered before.
        step: of the optimizer.
    """

    passes: Floats
    exchanged: Floats
    step: Floats

    @property
    def total(self) -> Floats:
        """Of an iteration, but for what each costs anyway."""
        return self.passes + self.exchanged + self.step


def order_times(
    problem: LlmTrainingProblem, shape: OrderShape, tables: Floats, hop: Floats, planned: tuple[Floats, Floats] | None
) -> OrderTimes:
    """Follow the passes of strategies of one shape.

    Args:
        tables: float64[7, stages, R], of their stages.
        hop: float64[R].
        planned: the same two on an ideal switch, for orders that are planned; None: these are they.
    """
    hop = hop if shape.pipeline > 1 else np.zeros_like(hop)
    count = tables.shape[2]
    passes, ends = np.empty(count), np.empty(count)
    if shape.schedule is S.ZB_2P:
        known, known_hop = (tables, hop) if planned is None else planned
        for one in range(count):
            end_if_left()
            here = slice(one, one + 1)
            rounded = _rounded(known[:, :, one], known_hop[one])
            orders, program = _planned_program(shape, not problem.overlap.pipeline, *rounded)
            own = np.ascontiguousarray(tables[:, :, here])
            passes[here], ends[here], _ = _followed(problem, shape, orders, program, None, own, hop[here])
    else:
        left, period = np.arange(count), _period(shape)
        while len(left):
            few = shape.micro_batches if period is None else period.few
            orders, program = _program(replace(shape, micro_batches=few, zero=0), not problem.overlap.pipeline)
            own = np.ascontiguousarray(tables[:, :, left])
            passes[left], ends[left], proven = _followed(problem, shape, orders, program, period, own, hop[left])
            left, period = left[~proven], period and grown(period, shape.micro_batches)
    step, shown = native.rank_costs(
        _flat(tables), shape.pipeline, shape.chunks, shape.micro_batches, shape.zero >= 3, problem.overlap.data,
        shape.paired,
    )  # fmt: skip
    return OrderTimes(passes, np.maximum(ends - passes, 0.0) + shown, step)


def _period(shape: OrderShape) -> Period | None:
    find = SCHEDULES[shape.schedule].period
    return None if find is None else find(PipelineShape(shape.pipeline, shape.micro_batches, shape.chunks))


@lru_cache(maxsize=64)
def _program(shape: OrderShape, blocking: bool) -> tuple[PassOrders, native.PassProgram]:
    orders = _fixed(shape)
    return orders, orders.program(blocking=blocking)


def _fixed(shape: OrderShape) -> PassOrders:
    """Of a schedule whose order is a rule."""
    sizes = PipelineShape(shape.pipeline, shape.micro_batches, shape.chunks)
    ticks = TickCosts.of(StageCosts.uniform(sizes, 1.0, 1.0, 1.0), shape.micro_batches)
    return pass_orders(shape.schedule, sizes, ticks, PipelineMemory.usual(shape.stages))


Rounded = tuple[bytes, float]
"""Ticks of the passes, float64[3, stages], and of a hop: what an order is planned from."""


def _rounded(table: Floats, hop: float) -> Rounded:
    passes = table[[FORWARD, INPUTS, WEIGHTS]]
    digits = PLANNED_DIGITS - 1 - int(np.floor(np.log10(max(passes.max(), hop))))
    return np.rint(passes * 10.0**digits).tobytes(), float(np.rint(hop * 10.0**digits))


@lru_cache(maxsize=8)
def _planned_program(
    shape: OrderShape, blocking: bool, passes: bytes, hop: float
) -> tuple[PassOrders, native.PassProgram]:
    """Kept: a strategy is followed on one network after the other by the same order."""
    orders = _planned(shape, passes, hop)
    return orders, orders.program(blocking=blocking)


def _planned(shape: OrderShape, passes: bytes, hop: float) -> PassOrders:
    """The order that the greedy rounds come to."""
    forward, inputs, weights = np.frombuffer(passes).reshape(3, -1)
    costs = StageCosts(forward, inputs, weights, hop)
    ticks, sizes = TickCosts.of(costs, shape.micro_batches), PipelineShape(shape.pipeline, shape.micro_batches)
    held = np.full(shape.stages, ZB_HELD)
    return pass_orders(S.ZB_2P, sizes, ticks, PipelineMemory(held, np.full(shape.stages, ZB_LATE)))


def shape_of(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> OrderShape:
    """Of the order of the passes of a strategy."""
    m = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    return OrderShape(strategy.schedule, strategy.pipeline, strategy.chunks, m, strategy.zero)


def orders_of(shape: OrderShape, table: Floats, hop: float) -> PassOrders:
    """The order of all passes of a strategy.

    Args:
        table, hop: on an ideal switch, for orders that are planned.
    """
    return _planned(shape, *_rounded(table, hop)) if shape.schedule is S.ZB_2P else _fixed(shape)


def _followed(
    problem: LlmTrainingProblem,
    shape: OrderShape,
    orders: PassOrders,
    program: native.PassProgram,
    period: Period | None,
    tables: Floats,
    hop: Floats,
) -> tuple[Floats, Floats, Bools]:
    """Seconds until the last pass ends, and until the last gradient is reduced; whether that is proven for all.

    The second are with weights gathered first, the first are not: both are run side by side.
    """
    count, hiding = tables.shape[2], problem.overlap.data
    ready = np.zeros((shape.stages, 2 * count))
    if shape.zero < 3:
        ready[:, count:] = native.ready_times(_flat(tables), shape.home(), hiding)
    both, twice = np.concatenate([tables[: WEIGHTS + 1]] * 2, axis=2), np.concatenate([hop, hop])
    total = (both.sum(axis=(0, 1)) + 2.0 * shape.stages * twice) * shape.micro_batches + ready.sum(axis=0)
    scale = np.exp2(np.minimum(np.floor(np.log2(MOST_TICKS / total)), FINEST_BITS))
    ticks, first_ready, hops = np.rint(both * scale), np.rint(ready * scale), np.rint(twice * scale)
    last, windows = orders.start[1:] - 1, np.zeros((2, 0), dtype=np.int64)
    final = np.flatnonzero(np.isin(orders.passes[:, 0], (BACKWARD, LATE)))
    done = np.full(len(orders.rank_of_stage), -1, dtype=np.int64)
    done[orders.passes[final, 2]] = final
    if period is not None:
        windows = np.stack([rows.ravel() for rows in periods_compared(period, orders.start)])
    places = np.concatenate([last, done, windows[0], windows[1]])
    copies = np.tile(first_ready, (orders.copies, 1))
    ends = program.ends(ticks[FORWARD], ticks[INPUTS], ticks[WEIGHTS], hops, copies, places)
    p, stages = orders.ranks, len(done)
    later, proven = np.zeros(2 * count), np.ones(count, dtype=bool)
    if period is not None:
        shift = ends[p + stages + windows.shape[1] :] - ends[p + stages : p + stages + windows.shape[1]]
        same = (shift == shift[0]).all(axis=0)
        proven = same[:count] & same[count:]
        later = shift[0] * ((shape.micro_batches - orders.micro_batches) // period.batches)
    passes = (ends[:p].max(axis=0) + later) / scale
    of_stage = ends[p : p + stages].reshape(orders.copies, -1, 2 * count).max(axis=0)
    done_s = np.ascontiguousarray(((of_stage + later) / scale)[:, count:])
    split = bool((orders.passes[:, 0] == LATE).any())
    reduced = np.zeros(count)
    if shape.zero < 3:
        reduced = native.reduced_times(_flat(tables), done_s, shape.home(), split, hiding)
    return passes[:count], np.maximum(passes[count:], reduced), proven


def _flat(tables: Floats) -> Floats:
    """float64[7 stages, R], as `native.pipeline` takes them."""
    spans, stages, count = tables.shape
    return tables.reshape(spans * stages, count)
