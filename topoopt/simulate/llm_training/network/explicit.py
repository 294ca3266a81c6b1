"""An iteration as an explicit graph of tasks on all servers, as the engine of events follows them.

Each server does the passes of its rank in their order: computing, then what it exchanges with its groups, then a
transfer to the servers of the next stage. The last backward pass of a stage is cut into its layers, whose gradients are
reduced one after the other; so is the first forward pass where weights are gathered before it.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.routing import GroupRings
from topoopt.core.search_settings import AllReduceChoice
from topoopt.simulate.llm_training.network.explicit_servers import ExplicitServers
from topoopt.simulate.llm_training.network.explicit_transfers import FORWARD, WEIGHTS, PassExchanges, ReplicaSync
from topoopt.simulate.llm_training.network.groups import FamilyGroups
from topoopt.simulate.llm_training.network.layer_sync import optimizer_s
from topoopt.simulate.llm_training.network.links import PlacedNetwork
from topoopt.simulate.llm_training.network.rates import NetworkRates
from topoopt.simulate.llm_training.network.task_list import MS
from topoopt.simulate.llm_training.step import strategy_orders
from topoopt.simulate.llm_training.strategies import BOTH_ENDS
from topoopt.simulate.network import Network, compile_network
from topoopt.simulate.pipeline.orders import PassOrders
from topoopt.simulate.time_models.evaluate import simulate

Pass = tuple[int, int, int, int]
"""Server, kind, micro-batch, stage."""


def explicit_s(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    network: PlacedNetwork,
    groups: FamilyGroups,
    found: NetworkRates,
) -> float:
    """Seconds of an iteration, all servers and all transfers followed.

    Raises:
        InputError: GPUs of a server are of several stages, a server is in several groups of a family, both ends of the
            pipeline take micro-batches, or weights are gathered in all passes.
    """
    _refuse(problem, strategy)
    if network.token_routes is not None:
        raise InputError([Problem("circuits of tokens alone are not followed task by task", path="fabric")])
    builder = ExplicitServers(problem, strategy, network, groups, found)
    _passes(builder, strategy_orders(problem, strategy))
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
    if problem.search.allreduce is not AllReduceChoice.RINGS:
        allowed, choice = AllReduceChoice.RINGS.value, problem.search.allreduce.value
        found.append(Problem("not followed task by task", path="search.allreduce", value=choice, allowed=allowed))
    if found:
        raise InputError(found)


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
            for stage in range(rank, build.stages.dense.size, p):
                for _ in range(sync.pieces(stage, first=False, last=True)):
                    sync.reduce(stage, {server: ends[0] for server, ends in previous.items()})
    _wire(build, began, done)


def _wire(build: ExplicitServers, began: dict[Pass, int], done: dict[Pass, int]) -> None:
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
