"""An iteration as a graph of tasks on all servers, sent through the engine of events: what times are held against.

Each server does the passes of its rank in their order: computing, then what it exchanges with its groups, then a
transfer to the servers of the next stage. The last backward pass of a stage is cut into its layers, whose gradients are
reduced one after the other; so is the first forward pass where weights are gathered before it.
"""

from __future__ import annotations

import numpy as np

from solvers.llm_training.evaluation import EvaluatedNetwork
from tests.support.followed_servers import MS, ExplicitServers
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy, PassKind
from topoopt.core.workload import GroupRings
from topoopt.simulate.llm_training.costs import data_bytes, layer_traffic
from topoopt.simulate.llm_training.links import FamilyGroups, PlacedNetwork
from topoopt.simulate.llm_training.step import layer_sync, optimizer_s, strategy_orders
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.network import Network, compile_network
from topoopt.simulate.pipeline import PassOrders
from topoopt.simulate.time_models.evaluate import simulate

FORWARD, WEIGHTS = int(PassKind.FORWARD), int(PassKind.WEIGHTS)

Pass = tuple[int, int, int, int]
"""Server, kind, micro-batch, stage."""


class PassExchanges:
    """What servers of a stage exchange behind the computing of a pass."""

    def __init__(self, build: ExplicitServers) -> None:
        problem, strategy = build.problem, build.strategy
        self._build, self._reached = build, problem.device.reached
        columns = columns_of([strategy], problem.model.layers)
        every = [layer_traffic(problem, columns, kind) for kind in problem.model.kinds]
        self._traffic, self._crossing = every[0], [float(own.expert_crossing[0]) for own in every]

    def after(self, kind: int, stage: int, computed: dict[int, int], part: float) -> dict[int, int]:
        """The tasks that end a part of the pass on each server."""
        if kind == WEIGHTS:
            return computed
        build, traffic = self._build, self._traffic
        overlap, back = build.problem.overlap, kind != FORWARD
        layers = part * float(build.stages.layers[stage])
        tensor = float(traffic.tensor[1][0] + traffic.tensor[2][0]) if back else float(traffic.tensor[0][0])
        tensor = ((1.0 - overlap.tensor) * tensor + float(traffic.expert_tensor[0])) / self._reached.tensor
        ends = self._ring(F.TENSOR, layers * tensor, computed)
        ends = self._ring(F.CONTEXT, layers * self._reached.context * float(traffic.context[1 if back else 0][0]), ends)
        layers_of_kinds = build.stages.kinds[:, stage].tolist()
        crossing = sum(count * sent for count, sent in zip(layers_of_kinds, self._crossing, strict=True))
        crossing *= part * (1.0 - overlap.expert)
        return self._exchange(crossing, ends, part * float(build.stages.expert[stage]))

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


class ReplicaSync:
    """Gathering of weights before the first forward passes, reduction of gradients behind the last backward ones."""

    def __init__(self, build: ExplicitServers) -> None:
        self._build = build
        strategy, stages, problem = build.strategy, build.stages, build.problem
        self._reduced, self._gathered, self._layers = layer_sync(problem, strategy, stages, build.rates)
        replicas, of_experts = np.array([float(strategy.replicas)]), np.array([float(strategy.expert_replicas)])
        zero, size = np.array([float(strategy.zero)]), problem.formats.gradient_bytes
        share = problem.device.reached.data if problem.overlap.data else 1.0
        layers = self._layers * share  # bytes of what takes longer than they would
        self._bytes = {
            F.DATA: [part / layers for part in data_bytes(stages.dense_weights, replicas, zero, size, np.ones(1))],
            F.EXPERT_DATA: [
                part / layers for part in data_bytes(stages.expert_weights, of_experts, zero, size, np.ones(1))
            ],
        }
        self._channel: dict[int, int] = {}
        self._weights: dict[tuple[int, int], list[int]] = {}
        if strategy.zero:
            for stage in range(len(layers)):
                self._gather(stage)

    def _gather(self, stage: int) -> None:
        own = np.flatnonzero(self._build.stage_of == stage % self._build.strategy.pipeline).tolist()
        for _ in range(int(self._layers[stage])):
            ends = self._collect(own, stage, 1, {server: [] for server in own})
            for server in own:
                self._weights.setdefault((server, stage), []).append(ends[server])

    def _collect(self, own: list[int], stage: int, which: int, ready: dict[int, list[int]]) -> dict[int, int]:
        """One layer: all families one after the other, behind what the servers exchanged before."""
        build = self._build
        seconds = (self._reduced, self._gathered)[which][stage]
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
        return int(self._layers[stage]) if last or (first and self._build.strategy.zero) else 1

    def weights(self, server: int, stage: int, layer: int) -> list[int]:
        """What the first forward pass over a layer waits for."""
        gathered = self._weights.get((server, stage), [])
        if not gathered:
            return []
        return [gathered[layer] if self._build.problem.overlap.data else self._channel[server]]

    def reduce(self, stage: int, ready: dict[int, int]) -> None:
        """One layer of a stage behind its last backward pass."""
        self._collect(list(ready), stage, 0, {server: [task] for server, task in ready.items()})


def followed_s(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    network: PlacedNetwork,
    groups: FamilyGroups,
    placed: EvaluatedNetwork,
) -> float:
    """Seconds of an iteration, all servers and all transfers followed.

    Servers are of one stage each, rings carry all AllReduces, and weights are not gathered in all passes (ZeRO 3).
    """
    builder = ExplicitServers(problem, strategy, network, groups, placed)
    _passes(builder, strategy_orders(problem, strategy))
    graph = builder.tasks.graph(problem.cluster.servers, tuple(one.members for one in builder.rings))
    end = simulate(graph, _network(problem, network, builder.rings), "fluid").iteration_time_ms / MS
    return problem.cluster.slowdown * (end + optimizer_s(problem, strategy, builder.stages))


def _network(problem: LlmTrainingProblem, network: PlacedNetwork, rings: list[GroupRings]) -> Network:
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


def _passes(build: ExplicitServers, orders: PassOrders) -> None:
    """All passes of all servers, those of a micro-batch and stage wired to the stages before and behind."""
    p, tasks = build.strategy.pipeline, build.tasks
    exchange, sync = PassExchanges(build), ReplicaSync(build)
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
            for stage in range(rank, build.stages.layers.size, p):
                for _ in range(sync.pieces(stage, first=False, last=True)):
                    sync.reduce(stage, {server: ends[0] for server, ends in previous.items()})
    _wire(build, began, done)


def _wire(build: ExplicitServers, began: dict[Pass, int], done: dict[Pass, int]) -> None:
    """What passes wait for, and transfers between servers."""
    p, count = build.strategy.pipeline, build.stages.layers.size
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
