"""An iteration as an explicit graph of tasks on all servers, followed by the engine of events: what checks the timeline.

Each server does the passes of its rank in their order: computing, then what it exchanges with its groups, then a
transfer to the servers of the next stage. The last backward pass of a stage is cut into its layers, whose gradients are
reduced one after the other; so is the first forward pass where weights are gathered before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PassKind
from topoopt.core.routing import GroupRings, PathTable, Ring
from topoopt.core.taskgraph import TaskGraph, TaskKind
from topoopt.simulate.llm_training.network.groups import BlockGroups, FamilyGroups
from topoopt.simulate.llm_training.network.links import RoutedNetwork
from topoopt.simulate.llm_training.network.rates import NetworkRates
from topoopt.simulate.llm_training.network.stages import BOTH_ENDS, StageTimes, pipeline_shape, stage_times
from topoopt.simulate.llm_training.network.timeline import layer_sync, optimizer_s
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.traffic import data_bytes, layer_traffic
from topoopt.simulate.network import Network, compile_network
from topoopt.simulate.pipeline.orders import PassOrders
from topoopt.simulate.pipeline.table import PipelineMemory, pass_orders
from topoopt.simulate.pipeline.timeline import TickCosts
from topoopt.simulate.time_models.evaluate import simulate

MS = 1e3
FREE = 1e18
"""Bytes a second of what the graph sends itself."""

FORWARD, WEIGHTS = int(PassKind.FORWARD), int(PassKind.WEIGHTS)

Pass = tuple[int, int, int, int]
"""Server, kind, micro-batch, stage."""


@dataclass
class _Tasks:
    """Tasks and what each waits for."""

    kind: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    duration: list[float] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def _add(self, row: tuple[int, int, int, int, float, int], after: Sequence[int]) -> int:
        for column, value in zip(
            (self.kind, self.source, self.target, self.group, self.duration, self.size), row, strict=True
        ):
            column.append(value)  # type: ignore[arg-type]
        place = len(self.kind) - 1
        self.edges += [(one, place) for one in after]
        return place

    def compute(self, server: int, seconds: float, after: Sequence[int]) -> int:
        return self._add((TaskKind.FORWARD, server, -1, -1, seconds * MS, 0), after)

    def wait(self, seconds: float, after: Sequence[int]) -> int:
        return self._add((TaskKind.ALLREDUCE, -1, -1, -1, seconds * MS, 0), after)

    def transfer(self, source: int, target: int, size: float, after: Sequence[int]) -> int:
        return self._add((TaskKind.TRANSFER, source, target, -1, 0.0, round(size)), after)

    def collective(self, group: int, ranks: int, ring_bytes: float, after: Sequence[int]) -> int:
        """Each of k members sends `ring_bytes` to the next one."""
        payload = ring_bytes * ranks / (2.0 * (ranks - 1))
        return self._add((TaskKind.ALLREDUCE, -1, -1, group, 0.0, round(payload)), after)

    def graph(self, servers: int, groups: tuple[tuple[int, ...], ...]) -> TaskGraph:
        tasks = len(self.kind)
        edges = np.array(sorted(self.edges), dtype=np.int64).reshape(-1, 2)
        counts = np.bincount(edges[:, 0], minlength=tasks)
        return TaskGraph(
            servers=servers,
            kind=np.array(self.kind, dtype=np.int8),
            source=np.array(self.source, dtype=np.int32),
            target=np.array(self.target, dtype=np.int32),
            group=np.array(self.group, dtype=np.int32),
            duration_ms=np.array(self.duration),
            bytes=np.array(self.size, dtype=np.int64),
            operator=np.full(tasks, -1, dtype=np.int32),
            successor_ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            successor=edges[:, 1].astype(np.int32),
            groups=groups,
        )


@dataclass(frozen=True)
class _Group:
    """A group of servers: place in the graph's table, members, groups of ranks on them, ranks of each."""

    place: int
    members: tuple[int, ...]
    groups: float
    ranks: int


class _Builder:
    def __init__(
        self,
        problem: LlmTrainingProblem,
        strategy: ParallelStrategy,
        network: RoutedNetwork,
        groups: FamilyGroups,
        found: NetworkRates,
    ) -> None:
        self.problem, self.strategy, self.network = problem, strategy, network
        self.tasks = _Tasks()
        self.rings: list[GroupRings] = []
        self.of_server: dict[F, list[_Group | None]] = {}
        for family, classes in groups.collectives.items():
            self.of_server[family] = self._groups(family, classes)
        places = network.places
        self.ahead: list[list[tuple[int, float]]] = [[] for _ in places]
        self.behind: list[list[tuple[int, float]]] = [[] for _ in places]
        hops = groups.hops
        for a, b, ranks in zip(places[hops.source], places[hops.target], hops.ranks, strict=True):
            self.ahead[a].append((int(b), float(ranks)))
            self.behind[b].append((int(a), float(ranks)))
        names = {F.TENSOR: "tensor", F.CONTEXT: "context", F.EXPERT: "expert", F.PIPELINE: "hop",
                 F.DATA: "data", F.EXPERT_DATA: "expert_data"}  # fmt: skip
        free = {names[family]: np.full(1, FREE) for family in found.loads}
        self.rates = replace(found.rates, **free)
        self.stages = stage_times(problem, strategy, self.rates)
        self.stage_of = np.empty(len(places), dtype=np.int64)
        per_stage = len(places) // strategy.pipeline
        self.stage_of[places] = np.arange(len(places)) // per_stage

    def _groups(self, family: F, classes: tuple[BlockGroups, ...]) -> list[_Group | None]:
        network = self.network
        found: list[_Group | None] = [None] * len(network.places)
        for which, one in enumerate(classes):
            for row, (blocks, count) in enumerate(zip(network.places[one.blocks], one.groups, strict=True)):
                members = tuple(sorted(blocks.tolist()))
                place = -1
                if family is not F.EXPERT:
                    orders = [tuple(order) for order in network.orders[family][which][row].tolist()]
                    place = len(self.rings)
                    self.rings.append(GroupRings(members, _rings(network.routes, orders)))
                for server in members:
                    if found[server] is not None:
                        text = "servers are in several groups of a family"
                        raise InputError([Problem(text, path=family.value, allowed="one group each")])
                    found[server] = _Group(place, members, float(count), one.ranks)
        return found


    def hop_bytes(self) -> float:
        """Bytes that a rank sends to the next stage."""
        columns = columns_of([self.strategy], self.problem.model.layers)
        traffic = layer_traffic(
            self.problem.model,
            self.problem.formats,
            columns,
            self.problem.batch.length,
            self.problem.cluster.gpus_per_server,
        )
        return float(traffic.hop[0])

    def compute_costs(self, *, split: bool) -> list[Floats]:
        """Seconds of the passes of each kind, without tokens to experts."""
        costs = replace(self.stages, expert=(np.zeros(1), np.zeros(1))).costs(blocking=False)
        whole = costs.inputs_s + costs.weights_s
        return [costs.forward_s, whole, costs.inputs_s if split else whole, costs.weights_s]


def _rings(routes: PathTable, orders: list[tuple[int, ...]]) -> tuple[Ring, ...]:
    """The rings, each as often as pairs have ways, which it then goes in turn."""
    keys = routes.source.astype(np.int64) * routes.nodes_total + routes.target
    found = []
    for order in orders:
        pairs = [int(np.searchsorted(keys, a * routes.nodes_total + b)) for a, b in zip(order, _next(order), strict=True)]
        spans = [(int(routes.pair_ptr[pair]), int(routes.pair_ptr[pair + 1])) for pair in pairs]
        turns = max(end - begin for begin, end in spans)
        for turn in range(turns):
            chosen = [
                begin + int(np.searchsorted(np.cumsum(routes.share[begin:end]), (turn + 0.5) / turns))
                for begin, end in spans
            ]
            found.append(Ring(order, 1.0 / (turns * len(orders)), tuple(routes.path(path) for path in chosen)))
    return tuple(found)


def _next(order: tuple[int, ...]) -> tuple[int, ...]:
    return order[1:] + order[:1]


def explicit_s(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    network: RoutedNetwork,
    groups: FamilyGroups,
    found: NetworkRates,
) -> float:
    """Seconds of an iteration, all servers and all transfers followed.

    Raises:
        InputError: GPUs of a server are of several stages, a server is in several groups of a family, both ends of the
            pipeline take micro-batches, or weights are gathered in all passes.
    """
    _refuse(problem, strategy)
    builder = _Builder(problem, strategy, network, groups, found)
    orders = _orders(problem, strategy, builder.stages)
    _passes(builder, orders)
    graph = builder.tasks.graph(problem.cluster.servers, tuple(one.members for one in builder.rings))
    end = simulate(graph, _network(problem, network, builder.rings), "fluid").iteration_time_ms / MS
    return problem.cluster.slowdown * (end + optimizer_s(problem, strategy, builder.stages))


def _refuse(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> None:
    g = problem.cluster.gpus_per_server
    found = []
    if strategy.gpus // strategy.pipeline % g:
        found.append(Problem("GPUs of a server are of several stages", path="pipeline", value=str(strategy.pipeline)))
    if strategy.schedule in BOTH_ENDS:
        found.append(Problem("not followed task by task", path="schedule", value=strategy.schedule.value))
    if not problem.overlap.pipeline:
        found.append(Problem("not followed task by task", path="overlap.pipeline", value="false", allowed="true"))
    if strategy.zero >= 3:
        found.append(Problem("not followed task by task", path="zero", value=str(strategy.zero), allowed="0 to 2"))
    if found:
        raise InputError(found)


def _orders(problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: StageTimes) -> PassOrders:
    shape = pipeline_shape(problem, strategy)
    ticks = TickCosts.of(stages.costs(blocking=False), shape.micro_batches)
    return pass_orders(strategy.schedule, shape, ticks, PipelineMemory.usual(shape.stages))


def _network(problem: LlmTrainingProblem, network: RoutedNetwork, rings: list[GroupRings]) -> Network:
    graph = network.graph
    return compile_network(
        servers=graph.servers,
        link_ends=np.column_stack([graph.tail, graph.head]).astype(np.int32),
        link_rate=graph.bytes_per_s * problem.device.reached.network / MS,
        hop_latency_ms=0.0,
        ring_round_latency_ms=0.0,
        routes=network.routes,
        rings=tuple(rings),
    )


def _passes(build: _Builder, orders: PassOrders) -> None:
    """All passes of all servers, those of a micro-batch and stage wired to the stages before and behind."""
    p, tasks = build.strategy.pipeline, build.tasks
    exchange, sync = _Exchange(build), _Sync(build)
    last = {int(stage): place for place, (kind, _, stage) in enumerate(orders.passes) if kind in (1, WEIGHTS)}
    seconds = build.compute_costs(split=bool((orders.passes[:, 0] == WEIGHTS).any()))
    done: dict[Pass, int] = {}
    began: dict[Pass, int] = {
        (server, kind, micro_batch, stage): tasks.wait(0.0, ())
        for kind, micro_batch, stage in orders.passes.tolist()
        for server in np.flatnonzero(build.stage_of == stage % p).tolist()
    }
    for rank in range(p):
        own = np.flatnonzero(build.stage_of == rank).tolist()
        previous: dict[int, list[int]] = {server: [] for server in own}
        for place in range(int(orders.start[rank]), int(orders.start[rank + 1])):
            kind, micro_batch, stage = (int(value) for value in orders.passes[place])
            first, final = kind == FORWARD and micro_batch == 0, last[stage] == place
            ends = {
                server: tasks.wait(0.0, [began[server, kind, micro_batch, stage], *previous[server]]) for server in own
            }
            pieces = sync.pieces(stage, first=first, last=final)
            for piece in range(pieces):
                computed = {
                    server: tasks.compute(
                        server,
                        float(seconds[kind][stage]) / pieces,
                        [ends[server], *(sync.weights(server, stage, piece) if first else ())],
                    )
                    for server in own
                }
                ends = exchange.after(kind, stage, computed, 1.0 / pieces)
                if final and build.problem.overlap.data:
                    sync.reduce(stage, ends)
            for server in own:
                previous[server] = [ends[server]]
                done[server, kind, micro_batch, stage] = ends[server]
        if not build.problem.overlap.data:
            for stage in range(rank, build.stages.dense.size, p):
                for _ in range(sync.pieces(stage, first=False, last=True)):
                    sync.reduce(stage, {server: ends[0] for server, ends in previous.items()})
    _wire(build, began, done)


def _wire(build: _Builder, began: dict[Pass, int], done: dict[Pass, int]) -> None:
    """What passes wait for, and transfers between servers."""
    p, count = build.strategy.pipeline, build.stages.dense.size
    hop = build.hop_bytes()
    for (server, kind, micro_batch, stage), end in done.items():
        if kind == WEIGHTS:
            continue
        ahead = kind == FORWARD
        following = stage + 1 if ahead else stage - 1
        if ahead:
            for other in (1, 2):
                if (server, other, micro_batch, stage) in began:
                    build.tasks.edges.append((end, began[server, other, micro_batch, stage]))
        elif (server, WEIGHTS, micro_batch, stage) in began:
            build.tasks.edges.append((end, began[server, WEIGHTS, micro_batch, stage]))
        if not 0 <= following < count or p == 1:
            continue
        sent = build.ahead[server] if ahead else build.behind[server]
        for target, ranks in sent:
            if build.stage_of[target] != following % p:
                continue
            moved = build.tasks.wait(build.stages.hop_s, [build.tasks.transfer(server, target, ranks * hop, [end])])
            build.tasks.edges.append((moved, began[target, kind, micro_batch, following]))


class _Exchange:
    """What servers of a stage exchange behind the computing of a pass."""

    def __init__(self, build: _Builder) -> None:
        problem, strategy = build.problem, build.strategy
        self._build = build
        columns = columns_of([strategy], problem.model.layers)
        self._traffic = layer_traffic(
            problem.model, problem.formats, columns, problem.batch.length, problem.cluster.gpus_per_server
        )

    def after(self, kind: int, stage: int, computed: dict[int, int], part: float) -> dict[int, int]:
        """The tasks that end a part of the pass on each server."""
        if kind == WEIGHTS:
            return computed
        build, traffic = self._build, self._traffic
        overlap, back = build.problem.overlap, kind != FORWARD
        layers = part * float(build.stages.dense[stage] + build.stages.routed[stage])
        tensor = float(traffic.tensor[1][0] + traffic.tensor[2][0]) if back else float(traffic.tensor[0][0])
        ends = self._ring(F.TENSOR, layers * (1.0 - overlap.tensor) * tensor, computed)
        ends = self._ring(F.CONTEXT, layers * float(traffic.context[1 if back else 0][0]), ends)
        crossing = part * float(build.stages.routed[stage]) * (1.0 - overlap.expert) * float(traffic.expert_crossing[0])
        return self._exchange(crossing, ends, part * float(build.stages.expert[0][stage]))

    def _ring(self, family: F, each: float, computed: dict[int, int]) -> dict[int, int]:
        groups = self._build.of_server.get(family)
        if groups is None or each <= 0:
            return computed
        ends = dict(computed)
        for group in {groups[server] for server in computed if groups[server] is not None}:
            assert group is not None
            after = [computed[server] for server in group.members]
            task = self._build.tasks.collective(group.place, len(group.members), group.groups * each, after)
            ends.update(dict.fromkeys(group.members, task))
        return ends

    def _exchange(self, crossing: float, computed: dict[int, int], inside: float) -> dict[int, int]:
        groups, tasks = self._build.of_server.get(F.EXPERT), self._build.tasks
        if groups is None or crossing <= 0:
            return {server: tasks.wait(inside, [end]) for server, end in computed.items()} if inside else computed
        ends = {}
        for group in {groups[server] for server in computed if groups[server] is not None}:
            assert group is not None
            k = len(group.members)
            each = group.groups * group.ranks / k / (k - 1) * crossing
            sent = [tasks.transfer(a, b, each, [computed[a]]) for a in group.members for b in group.members if a != b]
            after = [*sent, *(tasks.wait(inside, [computed[a]]) for a in group.members)]
            ends.update(dict.fromkeys(group.members, tasks.wait(0.0, after)))
        return {**computed, **ends}


class _Sync:
    """Gathering of weights before the first forward passes, reduction of gradients behind the last backward ones."""

    def __init__(self, build: _Builder) -> None:
        self._build = build
        strategy, stages, problem = build.strategy, build.stages, build.problem
        self._inside = layer_sync(problem, strategy, stages, build.rates)
        replicas = np.array([float(strategy.data * strategy.context)])
        of_stage = strategy.gpus / strategy.pipeline
        of_experts = np.array([of_stage / (strategy.expert * strategy.expert_tensor)])
        zero, size = np.array([float(strategy.zero)]), problem.formats.gradient_bytes
        layers = self._inside.layers
        self._bytes = {
            F.DATA: [part / layers for part in data_bytes(stages.dense_weights, replicas, zero, size, np.ones(1))],
            F.EXPERT_DATA: [part / layers for part in data_bytes(stages.expert_weights, of_experts, zero, size, np.ones(1))],
        }
        self._channel: dict[int, int] = {}
        self._weights: dict[tuple[int, int], list[int]] = {}
        if strategy.zero:
            for stage in range(len(layers)):
                self._gather(stage)

    def _gather(self, stage: int) -> None:
        own = np.flatnonzero(self._build.stage_of == stage % self._build.strategy.pipeline).tolist()
        for _ in range(int(self._inside.layers[stage])):
            ends = self._collect(own, stage, 1, {server: [] for server in own})
            for server in own:
                self._weights.setdefault((server, stage), []).append(ends[server])

    def _collect(self, own: list[int], stage: int, which: int, ready: dict[int, list[int]]) -> dict[int, int]:
        """One layer: all families one after the other, behind what the servers exchanged before."""
        build = self._build
        seconds = (self._inside.reduced, self._inside.gathered)[which][stage]
        for server in own:
            before = [self._channel[server]] if server in self._channel else []
            self._channel[server] = build.tasks.wait(float(seconds), [*ready[server], *before])
        for family in (F.DATA, F.EXPERT_DATA):
            groups, each = build.of_server.get(family), float(self._bytes[family][which][stage])
            if groups is None or each <= 0:
                continue
            for group in {groups[server] for server in own if groups[server] is not None}:
                assert group is not None
                after = [self._channel[server] for server in group.members]
                task = build.tasks.collective(group.place, len(group.members), group.groups * each, after)
                self._channel.update(dict.fromkeys(group.members, task))
        return {server: self._channel[server] for server in own}

    def pieces(self, stage: int, *, first: bool, last: bool) -> int:
        """Parts that a pass is cut into: layers, where weights come or gradients go layer by layer."""
        return int(self._inside.layers[stage]) if last or (first and self._build.strategy.zero) else 1

    def weights(self, server: int, stage: int, layer: int) -> list[int]:
        """What the first forward pass over a layer waits for."""
        gathered = self._weights.get((server, stage), [])
        if not gathered:
            return []
        return [gathered[layer] if self._build.problem.overlap.data else self._channel[server]]

    def reduce(self, stage: int, ready: dict[int, int]) -> None:
        """One layer of a stage behind its last backward pass."""
        self._collect(list(ready), stage, 0, {server: [task] for server, task in ready.items()})
