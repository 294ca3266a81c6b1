"""An iteration of a strategy takes what its parts take, at the rates that its families get on the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import ceil, log2

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.collective import RINGS, GroupSchedule
from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown, StepEstimate, TrainingMemory
from topoopt.core.llm_training_plan import ALLREDUCE_FAMILIES
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy, PipelineShape, StageCosts
from topoopt.core.parallelism import PipelineSchedule as S
from topoopt.core.result import AllReduceChoice
from topoopt.simulate.llm_training.costs import (
    ALL_SHARED,
    ELEMENT,
    GroupRates,
    Hops,
    all_matrix_weights,
    data_bytes,
    data_share,
    iteration_traffic,
    ledger,
    part_weights,
    round_waits,
)
from topoopt.simulate.llm_training.links import (
    BYTES_PER_GBIT,
    BlockGroups,
    FamilyGroups,
    FamilyLoad,
    LinkGraph,
    PlacedNetwork,
    Rails,
    family_loads,
)
from topoopt.simulate.llm_training.strategies import (
    PassTimes,
    StrategyColumns,
    columns_of,
    stage_layers,
    strategy_problems,
)
from topoopt.simulate.llm_training.times import (
    HELD_BYTES,
    OPTIMIZER_BYTES,
    OrderShape,
    OrderTimes,
    inner_rank_times,
    order_times,
    orders_of,
    pass_times,
    shape_of,
    stage_parts,
    stage_tables,
)
from topoopt.simulate.pipeline import PassOrders
from topoopt.workloads.language_models import token_operations


class LinkSchedules:
    """Loads of schedules on the links of a graph, each schedule counted once."""

    def __init__(self, graph: LinkGraph, *, server_bytes_per_s: float, gpus_per_server: int) -> None:
        self._graph = graph
        self._link = {ends: arc for arc, ends in enumerate(zip(graph.tail.tolist(), graph.head.tolist(), strict=True))}
        owned = graph.rails is Rails.OWNED
        self._passed = (gpus_per_server - 1) / gpus_per_server / server_bytes_per_s if owned else 0.0
        self._cached: dict[int, tuple[GroupSchedule, Floats]] = {}

    def load(
        self, classes: tuple[BlockGroups, ...], places: Ints, schedules: Sequence[GroupSchedule], bucket: Bucket
    ) -> FamilyLoad:
        """Of a family for every byte that each of its GPUs passes on, as if on rings.

        Args:
            classes: groups of the family.
            places: int64[n], server of each block.
            schedules: one of each group of servers.
            bucket: of one AllReduce.
        """
        graph, steps = self._graph, max(schedule.steps for schedule in schedules)
        made = {schedule.members: schedule for schedule in schedules}
        seconds = np.zeros((2, steps, len(graph.tail) + graph.servers))
        sent, ranks = np.zeros(graph.servers), classes[0].ranks
        for own in classes:
            for members, count in zip(np.sort(places[own.blocks], axis=1).tolist(), own.groups.tolist(), strict=True):
                schedule = made[tuple(members)]
                share = self._shares(schedule)
                seconds[:, : schedule.steps] += count * bucket.whole_bytes * share[:, :, : seconds.shape[2]]
                sent += count * bucket.whole_bytes * share[:, :, seconds.shape[2] :].sum(axis=(0, 1))
        if bucket.apart:
            phases = seconds.max(axis=2).sum(axis=1)
            taken, rounds = 2.0 * float(phases.max()), 2 * int((seconds.max(axis=2) > 0).sum(axis=1).max())
        else:
            taken, rounds = float(seconds.sum(axis=0).max(axis=1).sum()), steps
        hops = max(len(route) - 1 for schedule in schedules for route in schedule.schedule.routes)
        local = max(bucket.local_s(schedule.ranks, schedule.blocks.shape[1]) for schedule in classes)
        passed, of_links = bucket.passed(ranks), seconds.sum(axis=(0, 1))
        taken += (bucket.waits_s(rounds, hops) + local) * bucket.network
        return FamilyLoad(
            of_links / passed,
            float(sent.max()) / passed,
            hops,
            waits=max(taken - float(of_links.max()), 0.0) / passed,
            method=", ".join(sorted({schedule.method for schedule in schedules})),
            rounds=rounds,
        )

    def _shares(self, schedule: GroupSchedule) -> Floats:
        """float64[2, steps, L + 2n], for a byte of the vector of a group: seconds of links at their whole rate and of
        the networks inside servers, then bytes that servers begin; of what is summed, and of what is copied."""
        if id(schedule) in self._cached:
            return self._cached[id(schedule)][1]
        graph, sends, blocks = self._graph, schedule.schedule.sends, schedule.schedule.blocks
        links, n, whole = len(graph.tail), graph.servers, schedule.schedule.steps
        amount = blocks.units[sends.block] / blocks.total
        table = np.zeros((2, whole, links + 2 * n))
        for phase, chosen in enumerate((sends.reduce, ~sends.reduce)):
            self._lay(table[phase], schedule, chosen, amount)
        arriving = np.zeros((2, whole, n))
        for link, head in enumerate(graph.head.tolist()):
            arriving[:, :, head] += table[:, :, link]
        table[:, :, links : links + n] = (table[:, :, links + n :] + arriving) * self._passed
        table[:, :, :links] /= graph.bytes_per_s
        # Every piece does what whole blocks would, a step behind the one before.
        shares = np.zeros((2, schedule.steps, links + 2 * n))
        for late in range(schedule.pieces):
            shares[:, late : late + whole] += table / schedule.pieces
        self._cached[id(schedule)] = (schedule, shares)
        return shares

    def _lay(self, table: Floats, schedule: GroupSchedule, chosen: Bools, amount: Floats) -> None:
        sends, routes = schedule.schedule.sends, schedule.schedule.routes
        links, n = len(self._graph.tail), self._graph.servers
        on_route = np.zeros((len(table), len(routes)))
        np.add.at(on_route, (sends.step[chosen], sends.route[chosen]), amount[chosen])
        for index, route in enumerate(routes):
            if on_route[:, index].any():
                for hop in pairwise(route):
                    table[:, self._link[hop]] += on_route[:, index]
                table[:, links + n + route[0]] += on_route[:, index]


@dataclass(frozen=True)
class Bucket:
    """One AllReduce of a group of ranks.

    Attributes:
        whole_bytes: the vector.
        apart: a reduce-scatter and an all-gather that something stands between, so that the slower one counts twice.
        message_s, hop_s: of one round, and of each hop in it.
        counted: rounds that the closed form counts itself.
        inside: bytes a second of a GPU inside its server, where ranks reduce before servers do.
        network: part of their rate that links reach.
    """

    whole_bytes: float
    apart: bool
    message_s: float
    hop_s: float
    counted: int
    inside: float
    network: float

    def passed(self, ranks: int) -> float:
        """Bytes that a rank sends on a ring, by which rates are counted."""
        return 2.0 * self.whole_bytes * (ranks - 1) / ranks

    def waits_s(self, rounds: int, hops: int) -> float:
        """Latencies beyond those that the closed form counts."""
        return max(rounds - self.counted, 0) * (self.message_s + hops * self.hop_s)

    def local_s(self, ranks: int, servers: int) -> float:
        """Reducing and gathering among the ranks of one server, before and behind what servers do."""
        own = ranks / servers
        return 2.0 * self.whole_bytes * max(1.0 - 1.0 / own, 0.0) / self.inside


def rounds_counted(problem: LlmTrainingProblem, graph: LinkGraph) -> bool:
    """Whether AllReduces of these links have a choice: on direct links, where more than rings is asked for."""
    return problem.search.allreduce is not AllReduceChoice.RINGS and graph.nodes == graph.servers


def family_buckets(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> dict[F, Bucket]:
    """Of activations of one micro-batch, and of the gradients of one layer, the mean of all; 16-bit with ZeRO."""
    model, reached, cluster, s = problem.model, problem.device.reached, problem.cluster, strategy
    dense, experts = all_matrix_weights(model, np.array([float(s.tensor)]))
    element_bytes = (
        float(problem.formats.gradient_bytes) if s.zero == 0 else min(problem.formats.gradient_bytes, ELEMENT)
    )
    inside = cluster.intra_server_gbps * BYTES_PER_GBIT * reached.scale_up
    tokens = s.micro_batch * problem.batch.length / s.context

    def bucket(whole_bytes: float, counted: int, *, apart: bool) -> Bucket:
        latencies = cluster.message_latency_us * 1e-6, cluster.hop_latency_us * 1e-6
        return Bucket(whole_bytes, apart, *latencies, counted, inside, reached.network)

    with_experts = sum(count for count, kind in zip(model.counts, model.kinds, strict=True) if kind.experts)
    routed = experts / max(with_experts, 1) / (s.expert * s.expert_tensor)
    return {
        F.TENSOR: bucket(tokens * model.hidden * ELEMENT, 2 * ceil(log2(s.tensor)), apart=s.sequence),
        F.DATA: bucket(float(dense[0]) / model.layers * element_bytes, 0, apart=s.zero > 0),
        F.EXPERT_DATA: bucket(routed * element_bytes, 0, apart=s.zero > 0),
    }


@dataclass(frozen=True, eq=False)
class StagePasses:
    """One value a stage of the model, in its order.

    Attributes:
        kinds: int64[kinds, stages], layers of each kind.
        passes: float64[4, stages], seconds of one micro-batch.
        tensor, context: seconds of exposed transfers in the forward pass, and in the backward one.
        expert: of exposed exchanges, in each of both.
        hop_s: to the next stage.
        dense_weights, expert_weights: parameters on a rank, of experts and of all else.
    """

    kinds: Ints
    passes: PassTimes
    tensor: tuple[Floats, Floats]
    context: tuple[Floats, Floats]
    expert: Floats
    hop_s: float
    dense_weights: Floats
    expert_weights: Floats

    @property
    def layers(self) -> Ints:
        """int64[stages], layers of all kinds."""
        return np.asarray(self.kinds.sum(axis=0))

    def costs(self, *, blocking: bool) -> StageCosts:
        """As the pipeline takes them: what is computed again belongs to the gradients of the inputs."""
        there, back = (self.tensor[i] + self.context[i] + self.expert for i in range(2))
        forward, inputs, weights, again = self.passes
        return StageCosts(forward + there, inputs + again + back, weights, self.hop_s, blocking)


def pipeline_shape(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> PipelineShape:
    micro_batches = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    return PipelineShape(strategy.pipeline, micro_batches, strategy.chunks)


def stage_times(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates) -> StagePasses:
    """Times of all stages at these rates."""
    model, columns = problem.model, columns_of([strategy], problem.model.layers)
    layer_counts = strategy.stage_layers or stage_layers(model.layers, strategy.pipeline, strategy.chunks)
    count = np.array(layer_counts, dtype=np.int64)
    ends = np.cumsum(count)
    kinds = (model.before[ends] - model.before[ends - count]).T.copy()
    kinds[model.order[-1], -1] += model.mtp_layers
    first, last = np.zeros(len(count)), np.zeros(len(count))
    first[0], last[-1] = 1.0, 1.0 + model.mtp_layers
    own = pass_times(problem, columns, rates, (*kinds, first, last, np.ones(len(count))))
    weights = _weights(problem, columns, kinds)
    return StagePasses(kinds, own.passes, own.tensor, own.context, own.exchange, float(own.hop[0]), *weights)


def _weights(problem: LlmTrainingProblem, columns: StrategyColumns, kinds: Ints) -> tuple[Floats, Floats]:
    own = [(float(plain[0]), float(experts[0])) for plain, experts in part_weights(problem, columns)]
    dense, experts = np.zeros(kinds.shape[1]), np.zeros(kinds.shape[1])
    for count, (of_dense, of_experts) in zip(kinds, own, strict=False):
        dense, experts = dense + count * of_dense, experts + count * of_experts
    dense[0] += own[-2][0]
    dense[-1] += own[-1][0]
    return dense, experts


def layer_sync(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: StagePasses, rates: GroupRates
) -> tuple[Floats, Floats, Floats]:
    """What replicas exchange for one layer of each stage, embedding and head shared out among the layers of theirs.

    Returns:
        Seconds of reducing and of gathering one layer, and layers, float64[p v] each.
    """
    replicas, of_experts = np.array([float(strategy.replicas)]), np.array([float(strategy.expert_replicas)])
    zero, size = np.array([float(strategy.zero)]), problem.formats.gradient_bytes
    dense = data_bytes(stages.dense_weights, replicas, zero, size, np.ones(1))
    experts = data_bytes(stages.expert_weights, of_experts, zero, size, np.ones(1))
    layers = np.maximum(stages.layers, 1).astype(np.float64)
    share = data_share(problem, zero)
    reduced, gathered = (a / rates.data + b / rates.expert_data for a, b in zip(dense, experts, strict=True))
    waits = round_waits(problem, zero, replicas) * stages.layers
    reduced, gathered = reduced / share + waits, gathered / share + 2.0 * waits
    return reduced / layers, gathered / layers, layers


def optimizer_s(problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: StagePasses) -> float:
    """The step on the fullest rank, and what an iteration costs anyway."""

    def moved(sharing: bool) -> Floats:
        dense, experts = (strategy.replicas, strategy.expert_replicas) if sharing else (1, 1)
        return stages.dense_weights / dense + stages.expert_weights / experts

    device = problem.device
    own = OPTIMIZER_BYTES * moved(strategy.zero >= 1) + HELD_BYTES * moved(strategy.zero >= ALL_SHARED)
    seconds = own / (device.memory_gbytes_per_s * device.reached.memory * 1e9)
    seconds[0] += device.reached.replica_ms * 1e-3 * strategy.replicas
    rank = np.bincount(shape_of(problem, strategy).home(), seconds).max()
    return float(rank) + device.reached.iteration_ms * 1e-3


def ring_load(load: FamilyLoad, classes: tuple[BlockGroups, ...], bucket: Bucket) -> FamilyLoad:
    """A family on rings, its rounds counted."""
    rounds = 2 * (max(blocks.blocks.shape[1] for blocks in classes) - 1)
    waits = bucket.waits_s(rounds, load.hops) * bucket.network / bucket.passed(classes[0].ranks)
    return replace(load, waits=waits, method=RINGS, rounds=rounds)


def schedule_loads(problem: LlmTrainingProblem, graph: LinkGraph) -> LinkSchedules:
    """Loads of schedules on the links of a cluster."""
    reached, g = problem.device.reached, problem.cluster.gpus_per_server
    inside = problem.cluster.intra_server_gbps * BYTES_PER_GBIT * reached.scale_up
    return LinkSchedules(graph, server_bytes_per_s=g * inside / reached.network, gpus_per_server=g)


def _reduced(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, network: PlacedNetwork, groups: FamilyGroups,
    loads: Mapping[F, FamilyLoad],
) -> dict[F, FamilyLoad]:  # fmt: skip
    """Families that reduce on what they reduce on, their rounds counted."""
    reduced, buckets = dict(loads), family_buckets(problem, strategy)
    on_links = schedule_loads(problem, network.graph)
    for family in ALLREDUCE_FAMILIES:
        if family not in groups.collectives:
            continue
        classes, own = groups.collectives[family], network.schedules.get(family)
        if own is None:
            reduced[family] = ring_load(loads[family], classes, buckets[family])
        else:
            reduced[family] = on_links.load(classes, network.places, own, buckets[family])
    return reduced


def network_rates(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, network: PlacedNetwork, groups: FamilyGroups
) -> tuple[dict[F, FamilyLoad], dict[F, float], GroupRates]:
    """Loads of families between servers, and rates where each has the links to itself: by family, and of all groups.

    No rate is above that of an ideal switch: k servers that send at rate B need 2 (k-1)/k of the vector over B for an
    AllReduce on any schedule, as on rings of one rank a server.

    Raises:
        InfeasibleError: a pair that sends has no route.
    """
    cluster, reached = problem.cluster, problem.device.reached
    inside = cluster.intra_server_gbps * BYTES_PER_GBIT * reached.scale_up
    g = cluster.gpus_per_server
    loads = family_loads(network, groups, server_bytes_per_s=g * inside / reached.network, gpus_per_server=g)
    ideal = GroupRates.of(problem, columns_of([strategy], problem.model.layers))
    most = {family: float(getattr(ideal, name)[0]) for family, name in RATE_OF.items()}
    if rounds_counted(problem, network.graph):
        loads = _reduced(problem, strategy, network, groups, loads)
    alone = {family: min(most[family], reached.network / load.taken) for family, load in loads.items()}
    return loads, alone, group_rates(alone, loads, ideal)


def group_rates(alone: Mapping[F, float], loads: Mapping[F, FamilyLoad], ideal: GroupRates) -> GroupRates:
    """Rates as the time model takes them; groups inside servers have the rate of their links."""

    def rate(family: F, otherwise: Floats) -> Floats:
        return np.full_like(otherwise, alone[family]) if family in alone else otherwise

    def hops(family: F) -> int:
        return loads[family].hops if family in loads else 1

    return GroupRates(
        tensor=rate(F.TENSOR, ideal.tensor),
        context=rate(F.CONTEXT, ideal.context),
        expert=rate(F.EXPERT, ideal.expert),
        hop=rate(F.PIPELINE, ideal.hop),
        data=rate(F.DATA, ideal.data),
        expert_data=rate(F.EXPERT_DATA, ideal.expert_data),
        inside=ideal.inside,
        hops=(hops(F.TENSOR), hops(F.CONTEXT), hops(F.EXPERT), hops(F.PIPELINE)),
    )


def max_min_parts(loads: Sequence[FamilyLoad]) -> list[float]:
    """Part of its rate alone that each family keeps when all of them send at once.

    One that also waits fills no link alone, and keeps no more than all of its rate.
    """
    full = np.stack([load.seconds / load.taken for load in loads])
    waiting = [index for index, load in enumerate(loads) if load.waits > 0]
    full = np.concatenate([full, np.eye(len(loads))[:, waiting]], axis=1)
    part, rising, left = np.zeros(len(loads)), np.ones(len(loads), dtype=bool), np.ones(full.shape[1])
    level = 0.0
    while rising.any():
        together = full[rising].sum(axis=0)
        used = together > 0
        step = float((left[used] / together[used]).min())
        level += step
        left = np.maximum(left - step * together, 0.0)
        crowded = used & (left <= 1e-12)
        stopped = rising & (full[:, crowded] > 0).any(axis=1)
        part[stopped] = level
        rising &= ~stopped
    return part.tolist()


RATE_OF = {
    F.TENSOR: "tensor",
    F.CONTEXT: "context",
    F.EXPERT: "expert",
    F.PIPELINE: "hop",
    F.DATA: "data",
    F.EXPERT_DATA: "expert_data",
}
"""The rate of the groups of each family, by its name."""

EXCHANGES = (F.TENSOR, F.CONTEXT, F.EXPERT)
"""Families whose transfers are parts of the passes."""


def shared_rates(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, loads: Mapping[F, FamilyLoad], rates: GroupRates
) -> GroupRates:
    """Rates that the time model takes: none above those alone."""
    parts = {family: 1.0 / factor for family, factor in _factors(problem, strategy, loads, rates).items()}
    shared = {name: getattr(rates, name) * parts.get(family, 1.0) for family, name in RATE_OF.items()}
    return replace(rates, **shared)


def _factors(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, loads: Mapping[F, FamilyLoad], rates: GroupRates
) -> Mapping[F, float]:
    alone = tuple(float(getattr(rates, name)[0]) for name in RATE_OF.values())
    part, backward, reduced = _busy(problem, strategy, alone, rates.inside, rates.hops)
    meets: dict[F, tuple[F, ...]] = dict.fromkeys(EXCHANGES, (F.PIPELINE,))
    meets[F.PIPELINE] = EXCHANGES if problem.overlap.pipeline else ()
    behind = (*EXCHANGES, F.PIPELINE) if problem.overlap.data else ()
    meets[F.DATA] = meets[F.EXPERT_DATA] = behind
    factors = {}
    for family, load in loads.items():
        # Only what is reduced during the last backward pass meets anything.
        long = reduced if family in (F.DATA, F.EXPERT_DATA) else 0.0
        during = min(1.0, backward / long) if long > 0 else 1.0
        factor = 1.0
        for other in meets[family]:
            if other in loads and part[other] > 0:
                kept = max_min_parts([load, loads[other]])[0]
                factor += during * part[other] * (1.0 / kept - 1.0)
        factors[family] = factor
    return factors


@lru_cache(maxsize=256)
def _busy(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, alone: tuple[float, ...], inside: float, hops: Hops
) -> tuple[Mapping[F, float], float, float]:
    """Of an inner rank: how much of its time each family sends, and seconds of a backward pass and of reducing
    gradients. Most maps of ranks that are tried give the rates of one before."""
    tensor, context, expert, hop_rate, data, expert_data = (np.array([value]) for value in alone)
    rates = GroupRates(tensor, context, expert, hop_rate, data, expert_data, inside, hops)
    busy, forward, backward, moved = inner_rank_times(problem, columns_of([strategy], problem.model.layers), rates)
    whole = float(forward[0] + backward[0])
    part = {family: float(busy[family][0]) / whole for family in EXCHANGES}
    hop = min(1.0, 2.0 * strategy.chunks * float(moved[0]) / whole) if strategy.pipeline > 1 else 0.0
    part[F.PIPELINE] = hop if problem.overlap.pipeline else 0.0
    of_layer, _, layers = layer_sync(problem, strategy, stage_times(problem, strategy, rates), rates)
    reduced = (of_layer * layers).reshape(strategy.chunks, strategy.pipeline).sum(axis=0).max()
    return part, float(backward[0]), float(reduced)


EQUAL = 1e-9
"""Ranks whose work differs by no more than this part of it have as much to do."""


def strategy_times(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates | None = None
) -> tuple[OrderTimes, Floats]:
    """Of a strategy: seconds at these rates, and of its passes where hops take no time, float64[1].

    Args:
        rates: of its groups; None: of an ideal switch.
    """
    columns = columns_of([strategy], problem.model.layers)
    assert columns.stages is not None
    ideal = GroupRates.of(problem, columns)
    parts = stage_parts(problem, columns, ideal if rates is None else rates)
    tables = stage_tables(problem, parts, columns.stages)
    planned = (tables, parts.hop)
    if rates is not None and strategy.schedule is S.ZB_2P:
        usual = stage_parts(problem, columns, ideal)
        planned = stage_tables(problem, usual, columns.stages), usual.hop
    shape = shape_of(problem, strategy)
    times = order_times(problem, shape, tables, parts.hop, planned)
    free = order_times(problem, shape, tables, 0.0 * parts.hop, planned)
    step = times.step + parts.iteration
    return replace(times, step=step), free.passes


def strategy_orders(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, micro_batches: int | None = None
) -> PassOrders:
    """The order of the passes of so many micro-batches, or of all; it does not depend on the network."""
    columns = columns_of([strategy], problem.model.layers)
    assert columns.stages is not None
    parts = stage_parts(problem, columns, GroupRates.of(problem, columns))
    shape = shape_of(problem, strategy)
    if micro_batches is not None:
        shape = replace(shape, micro_batches=micro_batches)
    return orders_of(shape, stage_tables(problem, parts, columns.stages)[:, :, 0], float(parts.hop[0]))


def step_breakdown(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates | None = None
) -> StepBreakdown:
    """Seconds of an iteration of a strategy that obeys the rules, which add up to it."""
    times, free = strategy_times(problem, strategy, rates)
    if rates is None:
        rates = GroupRates.of(problem, columns_of([strategy], problem.model.layers))
    shape, stages = shape_of(problem, strategy), stage_times(problem, strategy, rates)
    busiest_s = problem.cluster.slowdown * shape.micro_batches * _busiest(shape, stages)
    forward, inputs, weights, again = stages.passes

    def of_rank(values: Floats) -> float:
        return float((busiest_s * values).sum())

    parts = {
        "forward": of_rank(forward),
        "backward": of_rank(inputs + weights),
        "recompute": of_rank(again),
        "tensor": of_rank(stages.tensor[0] + stages.tensor[1]),
        "context": of_rank(stages.context[0] + stages.context[1]),
        "expert": of_rank(stages.expert + stages.expert),
    }
    work = sum(parts.values())
    return StepBreakdown(
        **parts,
        bubble=max(0.0, float(free[0]) - work) if strategy.pipeline > 1 else 0.0,  # not what rounding leaves
        pipeline=max(0.0, float(times.passes[0]) - max(float(free[0]), work)),
        data=float(times.exchanged[0]),
        optimizer=float(times.step[0]),
    )


def _busiest(shape: OrderShape, stages: StagePasses) -> Floats:
    """float64[stages]: how often a micro-batch meets each stage on the rank that has most to do, the first of equals.

    Where the model is held twice, half of the micro-batches meet each of the two stages of a rank.
    """
    costs, p = stages.costs(blocking=False), shape.pipeline
    load = costs.forward_s + costs.inputs_s + costs.weights_s
    met = (shape.home() == np.arange(p)[:, None]).astype(np.float64)
    if shape.schedule is S.DUALPIPE:
        met = met / 2.0
    of_rank = met @ load
    return np.asarray(met[int(np.argmax(of_rank >= of_rank.max() * (1.0 - EQUAL)))])


def estimate(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> StepEstimate:
    """Time and memory of an iteration.

    Raises:
        InputError: the strategy cannot be run.
    """
    if problems := strategy_problems(problem, strategy):
        raise InputError(problems)
    return roofline_estimate(problem, strategy)


def roofline_estimate(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates | None = None
) -> StepEstimate:
    """Time and memory of an iteration of a strategy that obeys the rules.

    Args:
        rates: of its groups; None: of an ideal switch.
    """
    model, batch, device = problem.model, problem.batch, problem.device
    columns = columns_of([strategy], model.layers)
    peak = device.fp8_tflops if problem.formats.fp8 and device.fp8_tflops is not None else device.matrix_tflops
    return StepEstimate(
        step_breakdown(problem, strategy, rates),
        TrainingMemory(*ledger(problem, columns)[:, 0].tolist()),
        token_operations(model, batch.length) * batch.tokens,
        peak * 1e12,
        tuple((f"{name}_sent_bytes", float(column[0])) for name, column in iteration_traffic(problem, columns).items()),
    )
