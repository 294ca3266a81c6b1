"""Times of iterations, strategies as columns: of ranks, stages and orders of passes, and what no order is below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LanguageModel, LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy, PipelineShape, StageCosts
from topoopt.core.parallelism import PipelineSchedule as S
from topoopt.core.process import end_if_left
from topoopt.native import pipeline
from topoopt.simulate.llm_training.costs import (
    ALL_SHARED,
    CHUNK,
    ELEMENT,
    EMBEDDING,
    HEAD,
    GroupRates,
    Layers,
    data_share,
    in_flight,
    layer_activations,
    layer_transfers,
    logit_bytes,
    part_weights,
    round_waits,
    state_bytes,
)
from topoopt.simulate.llm_training.strategies import (
    BOTH_ENDS,
    Column,
    PassTimes,
    StrategyColumns,
    part_times,
    with_stages,
)
from topoopt.simulate.pipeline import (
    BACKWARD,
    MOST_TICKS,
    SCHEDULES,
    PassOrders,
    Period,
    PipelineMemory,
    TickCosts,
    grown,
    pass_orders,
    periods_compared,
)
from topoopt.simulate.pipeline import WEIGHTS as LATE


@dataclass(frozen=True, eq=False)
class RankPasses:
    """Seconds of a micro-batch in stages or ranks, one value each.

    Attributes:
        passes: computing.
        tensor, context: exposed transfers forward and backward.
        exchange: of tokens, in each direction.
        hop: to the next stage.
    """

    passes: PassTimes
    tensor: tuple[Floats, Floats]
    context: tuple[Floats, Floats]
    exchange: Floats
    hop: Column


def pass_times(
    problem: LlmTrainingProblem, columns: StrategyColumns, rates: GroupRates, counts: Sequence[Floats]
) -> RankPasses:
    """Passes of stages or ranks.

    Args:
        counts: how many of each part of stages: layers of each kind, embeddings, heads, chunks.
    """
    kinds, (transfers, hop) = part_times(problem, columns), layer_transfers(problem, columns, rates)
    hidden = columns.scheduled(*BOTH_ENDS) & (columns.expert > 1)
    passes = sum((part * count for part, count in zip(kinds, counts, strict=True)), np.zeros((4, 1)))
    passes = passes * np.where(hidden, 1.0 / (1.0 - EXCHANGE_SHARE), 1.0)
    layers = list(zip(counts, transfers, strict=False))

    ahead, back, here, there, exchange = (np.asarray(sum(count * own[k] for count, own in layers)) for k in range(5))
    computing = passes[FORWARD] + (passes[INPUTS] + passes[WEIGHTS])
    exchange = exchange - np.where(hidden, np.minimum(2.0 * exchange, computing), 0.0) / 2.0
    return RankPasses(passes, (ahead, back), (here, there), exchange, hop)


def inner_rank_times(
    problem: LlmTrainingProblem, columns: StrategyColumns, rates: GroupRates
) -> tuple[dict[F, Column], Column, Column, Column]:
    """Of the first rank with most layers between the first and the last, all its chunks, one value a strategy; of the
    only one with one stage.

    Returns:
        Exposed seconds of exchanges in the passes of a micro-batch by family; the forward pass, the backward one, and
        the hop to the next stage.
    """
    model, only = problem.model, columns.pipeline == 1
    layers = inner_kinds(problem, columns)
    layers[model.order[-1]] += np.where(only, float(model.mtp_layers), 0.0)
    own = pass_times(problem, columns, rates, (*layers, only, only * (1.0 + model.mtp_layers), columns.chunks))
    ahead, inputs, weights, again = own.passes
    forward = ahead + own.tensor[0] + own.context[0] + own.exchange
    backward = inputs + weights + again + own.tensor[1] + own.context[1] + own.exchange
    busy = {
        F.TENSOR: own.tensor[0] + own.tensor[1],
        F.CONTEXT: own.context[0] + own.context[1],
        F.EXPERT: own.exchange + own.exchange,
    }
    return busy, forward, backward, own.hop


def inner_kinds(problem: LlmTrainingProblem, columns: StrategyColumns) -> Layers:
    """Layers of each kind on the first of the ranks between the ends that has most; of two ranks on either."""
    stages, kinds = stages_of(problem, columns), len(problem.model.kinds)
    ends = np.cumsum(stages, axis=1)
    own = problem.model.before[ends] - problem.model.before[ends - stages]
    longest = np.zeros((kinds, len(stages)))
    for row, p in enumerate(columns.pipeline.astype(np.int64).tolist()):
        ranks = [own[row, rank::p].sum(axis=0) for rank in range(p)]
        between = ranks[1:-1] or ranks
        longest[:, row] = max(between, key=lambda layers: int(layers.sum()))
    return longest


def parts_of_stages(
    problem: LlmTrainingProblem, parts: StageParts, layers: Ints
) -> tuple[Floats, Floats, Bools, Ints, Ints, int, int]:
    """Parts and layers as `native.pipeline` takes them.

    Args:
        layers: int64[R, stages].
    """
    model = problem.model
    count, kinds, spans = parts.seconds.shape
    seconds, own = parts.seconds.reshape(count, kinds * spans), np.ascontiguousarray(layers)
    return seconds, parts.exchange, parts.hidden, own, model.before, model.mtp_layers, model.order[-1]


def stage_tables(problem: LlmTrainingProblem, parts: StageParts, layers: Ints) -> Floats:
    """float64[7, stages, R] of strategies of as many stages: spans of `stage_parts` up to STEP, and layers.

    Args:
        layers: int64[R, stages].
    """
    tables = pipeline.stage_tables(*parts_of_stages(problem, parts, layers))
    return tables.reshape(parts.seconds.shape[2], *layers.T.shape)


def stages_of(problem: LlmTrainingProblem, columns: StrategyColumns) -> Ints:
    """int64[R, most stages], layers of every stage of strategies."""
    if columns.stages is not None:
        return columns.stages
    shape = columns.pipeline, columns.chunks, columns.first_layers, columns.last_layers
    p, v, first, last = (part.astype(np.int64) for part in shape)
    return pipeline.even_stages(problem.model.layers, p, v, first, last)


EXCHANGE_SHARE = 20 / 132
"""Part of the processors of a GPU that an exchange of tokens takes while it is hidden (arXiv:2412.19437, 3.2.2)."""

OPTIMIZER_BYTES, HELD_BYTES = 30.0, 6.0
"""Moved for a weight: gradient, master weight and moments read, the latter three and the weight written, by the rank
that has its states; by every rank that holds it, its gradient is read for the norm and cleared."""

FORWARD, INPUTS, WEIGHTS, REDUCED, GATHERED, STEP, COMPUTE = range(7)
"""Of a kind of part: seconds of its passes (what is computed again among INPUTS), of reducing its gradients, gathering
its weights, the optimizer; and of all its computing but what is computed again."""


@dataclass(frozen=True, eq=False)
class StageParts:
    """One value a strategy.

    Attributes:
        seconds: float64[R, kinds + 3, 7], of layers of each kind, and of the other parts of stages.
        exchange: float64[R, kinds], of tokens, in each direction of a layer.
        hidden: whether computing of the other micro-batches hides exchanges.
        hop: to the next stage.
        iteration: what an iteration costs anyway.
    """

    seconds: Floats
    exchange: Floats
    hidden: Bools
    hop: Column
    iteration: float

    def rows(self, rows: Ints) -> StageParts:
        return StageParts(self.seconds[rows], self.exchange[rows], self.hidden[rows], self.hop[rows], self.iteration)


def stage_parts(problem: LlmTrainingProblem, columns: StrategyColumns, rates: GroupRates) -> StageParts:
    """Parts of the stages of strategies, by the rates of their groups."""
    transfers, hop = layer_transfers(problem, columns, rates)
    count, slow = len(columns.tensor), problem.cluster.slowdown
    hidden = columns.scheduled(*BOTH_ENDS) & (columns.expert > 1)
    scale = slow * np.where(hidden, 1.0 / (1.0 - EXCHANGE_SHARE), 1.0)
    kinds = part_times(problem, columns)
    seconds = np.zeros((count, len(kinds), 7))
    kinds[HEAD] = kinds[HEAD] * (1.0 + problem.model.mtp_layers)
    for kind, (forward, inputs, weights, again) in enumerate(kinds):
        seconds[:, kind, FORWARD] = scale * forward
        seconds[:, kind, INPUTS] = scale * (inputs + again)
        seconds[:, kind, WEIGHTS] = scale * weights
        seconds[:, kind, COMPUTE] = scale * (forward + (inputs + weights))
    for kind, (ahead, back, here, there, _) in enumerate(transfers):
        seconds[:, kind, FORWARD] += slow * (ahead + here)
        seconds[:, kind, INPUTS] += slow * (back + there)
    _of_weights(problem, columns, rates, seconds)
    fixed = slow * problem.device.reached.iteration_ms * 1e-3
    exchange = np.stack([slow * expert for *_, expert in transfers], axis=1)
    return StageParts(seconds, exchange, hidden, slow * hop, fixed)


def _of_weights(problem: LlmTrainingProblem, columns: StrategyColumns, rates: GroupRates, seconds: Floats) -> None:
    """Reducing, gathering and the step: of ZeRO 3, which does both in every pass, of one micro-batch."""
    moving = problem.device.memory_gbytes_per_s * problem.device.reached.memory * 1e9
    slow, gradient = problem.cluster.slowdown, problem.formats.gradient_bytes
    none, shared, share = columns.zero == 0, columns.zero >= 1, data_share(problem, columns.zero)
    all_passes = columns.zero >= ALL_SHARED
    weights = part_weights(problem, columns)
    shared_out = (columns.replicas, rates.data), (columns.expert_replicas, rates.expert_data)
    for index, (ranks, rate) in enumerate(shared_out):
        ring = slow * (ranks - 1) / np.maximum(ranks, 1.0) / (rate * share)
        reduced = np.where(none, 2.0, 1.0) * gradient * ring
        gathered = np.where(none, 0.0, np.where(columns.zero >= 3, 2.0, 1.0)) * ELEMENT * ring
        of_ranks = np.maximum(ranks, 1.0)
        step = OPTIMIZER_BYTES / np.where(shared, of_ranks, 1.0) + HELD_BYTES / np.where(all_passes, of_ranks, 1.0)
        step = slow * step / moving
        for part, own in zip((*range(len(weights) - 2), EMBEDDING, HEAD), weights, strict=True):
            seconds[:, part, REDUCED] += own[index] * reduced
            seconds[:, part, GATHERED] += own[index] * gathered
            seconds[:, part, STEP] += own[index] * step
    waits = slow * round_waits(problem, columns.zero, columns.replicas)
    for part in range(len(weights) - 2):
        seconds[:, part, REDUCED] += waits
        seconds[:, part, GATHERED] += 2.0 * waits
    # Of ranks the first one stands for all, which wait as long.
    seconds[:, EMBEDDING, STEP] += slow * problem.device.reached.replica_ms * 1e-3 * columns.replicas


def with_balanced(problem: LlmTrainingProblem, columns: StrategyColumns, chosen: Bools) -> StrategyColumns:
    """Strategies, the layers of some balanced by their seconds on an ideal switch.

    Args:
        columns: layers as even as can be, or with short ends.
        chosen: bool[R], those that are balanced, of several stages; where no division fits their layers stay.
    """
    stages, rows = stages_of(problem, columns), np.flatnonzero(chosen)
    own = columns.rows(rows)
    parts = stage_parts(problem, own, GroupRates.of(problem, own))
    m = problem.batch.sequences / own.data / own.micro_batch
    ranks = np.arange(own.pipeline.max())
    flight = np.stack([in_flight(own, m, np.full_like(m, rank)) for rank in ranks], axis=1)
    usable, model = problem.usable_bytes, problem.model
    stages[rows] = pipeline.balanced_stages(
        np.stack([own.pipeline, own.chunks], axis=1).astype(np.int64),
        _seconds(problem, parts),
        _bytes(problem, own),
        flight,
        np.inf if usable is None else float(usable),
        model.layers,
        leading_layers(model),
        stages[rows],
    )
    return with_stages(columns, stages)


def leading_layers(model: LanguageModel) -> int:
    """First layers of a kind that stands there alone; balanced layers count the others at their mean."""
    count = model.counts[model.order[0]]
    return count if count < model.layers and set(model.order[:count]) == {model.order[0]} else 0


def lead_and_body(model: LanguageModel, values: Sequence[Column]) -> tuple[Column, Column]:
    """Of a value of each kind of layers: that of the first layers, and the mean of all others."""
    leading = leading_layers(model)
    counts = np.bincount(model.order[leading:], minlength=len(model.kinds))
    body = [(int(count), value) for count, value in zip(counts, values, strict=True) if count]
    mean = body[0][1] if len(body) == 1 else sum(count * value for count, value in body) / (model.layers - leading)
    return values[model.order[0]] if leading else np.asarray(mean), np.asarray(mean)


def _seconds(problem: LlmTrainingProblem, parts: StageParts) -> Floats:
    """float64[R, 5]: of one of the first layers and of another one, of what each chunk costs, and what the first and
    the last rank have beside."""
    model = problem.model
    passes = parts.seconds[:, :, [FORWARD, INPUTS, WEIGHTS]].sum(axis=2)
    layers = [passes[:, kind] + 2.0 * parts.exchange[:, kind] for kind in range(len(model.kinds))]
    last = passes[:, HEAD] + model.mtp_layers * layers[model.order[-1]]
    return np.stack([*lead_and_body(model, layers), passes[:, CHUNK], passes[:, EMBEDDING], last], axis=1)


def _bytes(problem: LlmTrainingProblem, columns: StrategyColumns) -> Floats:
    """float64[R, 6]: state of one of the first layers and of another one, activations of a layer and micro-batch, and
    what every, the first and the last rank have beside."""
    model, formats = problem.model, problem.formats
    state = [np.add.reduce(state_bytes(columns, formats, own)) for own in part_weights(problem, columns)]
    plain = replace(columns, recompute=np.zeros_like(columns.recompute))
    kept = lead_and_body(model, [layer_activations(problem, columns, kind) for kind in model.kinds])[1]
    whole = np.max([layer_activations(problem, plain, kind) for kind in model.kinds], axis=0)
    *layers, embedding, head = state
    logits = np.maximum(0.0, logit_bytes(problem, columns) - whole)
    last = head + model.mtp_layers * layers[model.order[-1]] + logits
    return np.stack([*lead_and_body(model, layers), kept, whole, embedding, last], axis=1)


def order_bounds(problem: LlmTrainingProblem, columns: StrategyColumns, parts: StageParts) -> Column:
    """Seconds, one value a strategy; layers as `columns` has them."""
    m = problem.batch.sequences / columns.data / columns.micro_batch
    shape = np.stack([columns.schedule, columns.pipeline, columns.chunks, m, columns.zero], axis=1).astype(
        np.int64, order="C"
    )
    bounds = pipeline.order_bounds(
        *parts_of_stages(problem, parts, stages_of(problem, columns)),
        shape,
        parts.hop,
        problem.overlap.data,
        not problem.overlap.pipeline,
    )
    return bounds + parts.iteration


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
        planned_tables, planned_hop = (tables, hop) if planned is None else planned
        for row in range(count):
            end_if_left()
            here = slice(row, row + 1)
            rounded = _rounded(planned_tables[:, :, row], planned_hop[row])
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
    step, shown = pipeline.rank_costs(
        _flat(tables), shape.pipeline, shape.chunks, shape.micro_batches, shape.zero >= 3, problem.overlap.data,
        shape.paired,
    )  # fmt: skip
    return OrderTimes(passes, np.maximum(ends - passes, 0.0) + shown, step)


def _period(shape: OrderShape) -> Period | None:
    find = SCHEDULES[shape.schedule].period
    return None if find is None else find(PipelineShape(shape.pipeline, shape.micro_batches, shape.chunks))


@lru_cache(maxsize=64)
def _program(shape: OrderShape, blocking: bool) -> tuple[PassOrders, pipeline.PassProgram]:
    orders = _fixed(shape)
    return orders, orders.program(blocking=blocking)


def _fixed(shape: OrderShape) -> PassOrders:
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
) -> tuple[PassOrders, pipeline.PassProgram]:
    """Kept: a strategy is followed on one network after the other by the same order."""
    orders = _planned(shape, passes, hop)
    return orders, orders.program(blocking=blocking)


def _planned(shape: OrderShape, passes: bytes, hop: float) -> PassOrders:
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
    program: pipeline.PassProgram,
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
        ready[:, count:] = pipeline.ready_times(_flat(tables), shape.home(), hiding)
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
        reduced = pipeline.reduced_times(_flat(tables), done_s, shape.home(), split, hiding)
    return passes[:count], np.maximum(passes[count:], reduced), proven


def _flat(tables: Floats) -> Floats:
    """float64[7 stages, R], as `native.pipeline` takes them."""
    spans, stages, count = tables.shape
    return tables.reshape(spans * stages, count)


def iteration_times(problem: LlmTrainingProblem, columns: StrategyColumns, rates: GroupRates | None = None) -> Column:
    """Seconds, one value a strategy that obeys the rules.

    Args:
        rates: of their groups; None: of an ideal switch.
    """
    ideal = GroupRates.of(problem, columns)
    own = stage_parts(problem, columns, ideal if rates is None else rates)
    planned = None if rates is None else stage_parts(problem, columns, ideal)
    m = problem.batch.sequences / columns.data / columns.micro_batch
    keys = np.stack([columns.schedule, columns.pipeline, columns.chunks, m, columns.zero >= 3], axis=1).astype(np.int64)
    seconds = np.empty(len(keys))
    shapes, group = np.unique(keys, axis=0, return_inverse=True)
    layers = stages_of(problem, columns)
    order = np.argsort(group.ravel(), kind="stable")
    for key, rows in zip(shapes.tolist(), np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1]), strict=True):
        end_if_left()
        schedule, p, v, micro_batches, all_passes = key
        shape = OrderShape(tuple(S)[schedule], p, v, micro_batches, 3 if all_passes else 0)
        tables = stage_tables(problem, own.rows(rows), layers[rows, : p * v])
        planned_shape = None
        if planned is not None and shape.schedule is S.ZB_2P:
            planned_shape = stage_tables(problem, planned.rows(rows), layers[rows, : p * v]), planned.hop[rows]
        seconds[rows] = order_times(problem, shape, tables, own.hop[rows], planned_shape).total
    return seconds + own.iteration
