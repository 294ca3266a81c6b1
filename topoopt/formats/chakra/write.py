"""Jobs, iterations of training and schedules of collectives are written as Chakra traces: a file a server or a rank."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from topoopt.core.collective import CollectiveOp, CollectiveResult
from topoopt.core.hierarchy import Collective, CollectiveStep, ComputeStep, RankStep
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.result import Result
from topoopt.formats.astrasim import system_document
from topoopt.formats.chakra import (
    MAX_NODES,
    VERSION,
    CollectiveUse,
    CommType,
    Metadata,
    NodeType,
    TraceContent,
    collective_node,
    frame,
    message_node,
    node,
    trace_bytes,
)
from topoopt.formats.msccl.write import (
    Accesses,
    ChunkMemory,
    PlacedBlock,
    RankSchedule,
    placed_schedule,
    rank_table,
    traffic_of,
)
from topoopt.formats.table import (
    NOTES_FILE,
    Export,
    Exporter,
    ExportOptions,
    json_bytes,
    notes_bytes,
    plain_name,
    plan_on,
    refuse,
)

GROUPS_FILE, LAYOUT_FILE = "comm_groups.json", "layout.json"
STAGES, ALL = "stages", "all"
RANKS = re.compile(r"\d{1,9}(-\d{1,9})?")

COMM_TYPES = {
    Collective.ALL_REDUCE: CommType.ALL_REDUCE,
    Collective.ALL_GATHER: CommType.ALL_GATHER,
    Collective.REDUCE_SCATTER: CommType.REDUCE_SCATTER,
    Collective.ALL_TO_ALL: CommType.ALL_TO_ALL,
}

TRAINING_LIMITS = (
    "training: transfers of a pass follow its computing, those of its layers added up; what is hidden behind computing "
    "is not in a trace",
    "training: gradients are reduced behind the last backward pass of a stage, weights gathered ahead of its first "
    "pass, with ZeRO 3 in all passes; the step of the optimizer is that of the fullest rank",
    "training: embeddings and losses exchange nothing; schedule dualpipe and experts shared by GPUs are refused",
)


def build_training(result: Result[Any, Any], options: ExportOptions) -> Export:
    """Traces of the ranks asked for, groups of their collectives, and where ranks stand.

    Raises:
        InputError: no instance, no plan for the fabric, ranks that there are not, or too many.
    """
    plan, program = plan_on(result, options.fabric), options.program
    if program is None:
        raise refuse("sizes of layers are those of the instance", path="instance", allowed="the solved instance")
    strategy = plan.strategy
    ranks = requested_ranks(strategy, options.ranks)
    totals = [program.totals(rank) for rank in ranks]
    count = sum(total.steps for total in totals)
    if count > MAX_NODES:
        raise refuse("too many nodes for traces", path="--set ranks", value=count, allowed=f"at most {MAX_NODES}")
    prefix, n = plain_name(result.name), strategy.gpus
    traces = [(f"{prefix}.{rank}.et", trace_bytes(_nodes(program.steps(rank)))) for rank in ranks]
    cluster = result.figures.problem.cluster
    places = plan.network.places or tuple(range(cluster.servers))
    layout = {
        "ranks": n,
        "gpus_per_server": cluster.gpus_per_server,
        "servers": list(places),
        "order": [total.value for total in strategy.order],
        "sizes": [getattr(strategy, total.value) for total in strategy.order],
    }
    groups = {str(number): list(members) for number, members in program.groups.items()}
    title = f"{len(ranks)} of {n} ranks as Chakra execution traces: {prefix}.RANK.et, groups in {GROUPS_FILE}"
    files = (
        *traces,
        (GROUPS_FILE, json_bytes(groups)),
        (LAYOUT_FILE, json_bytes(layout)),
        (NOTES_FILE, notes_bytes(title, TRAINING_LIMITS)),
    )
    content = (layout, {name: tuple(members) for name, members in groups.items()}, totals)
    return Export(files, content, TRAINING_LIMITS)


def _nodes(steps: Iterable[RankStep]) -> Iterator[Any]:
    for index, step in enumerate(steps):
        if isinstance(step, ComputeStep):
            yield node(index, step.name, NodeType.COMP, step.after, step.time_us)
        elif isinstance(step, CollectiveStep):
            kind = COMM_TYPES[step.collective]
            yield collective_node(index, step.name, kind, step.size_bytes, step.after, str(step.group))
        else:
            yield message_node(index, step.sends, step.peer, step.tag, step.size_bytes, step.after)


def requested_ranks(strategy: ParallelStrategy, text: str) -> list[int]:
    """Ranks: `stages`, one of each stage of the first replica; `all`; or a list such as `0,8-15`.

    Raises:
        InputError: no such list, or ranks that there are not.
    """
    n = strategy.gpus
    if text == ALL:
        return list(range(n))
    if text == STAGES:
        stride = 1
        for dimension in strategy.order:
            if dimension.value == "pipeline":
                break
            stride *= getattr(strategy, dimension.value)
        return [stride * stage for stage in range(strategy.pipeline)]
    parts = text.split(",")
    allowed = f"{STAGES}, {ALL}, or ranks 0 to {n - 1} such as 0,8-15"
    ranks: set[int] = set()
    for part in parts:
        first, _, last = part.partition("-")
        if not RANKS.fullmatch(part) or not int(first) <= int(last or first) < n:
            raise refuse("not ranks of the strategy", path="--set ranks", value=part, allowed=allowed)
        ranks.update(range(int(first), int(last or first) + 1))
    return sorted(ranks)


LIMITS = (
    "communication follows all compute of a server: solutions do not keep which operator waits for which message",
    "compute times are whole microseconds; the AllReduces of a group are added up",
    "routes, rings and the topology are not part of a trace: export them with --to astrasim or --to graphml",
)


def _computed(solution: Result[Any, Any]) -> list[list[Any]]:
    """Compute nodes of every server, each after the one before."""
    operators = solution.figures.operators
    ranks: list[list[Any]] = [[] for _ in range(solution.plan.topology.servers)]

    def compute(server: int, name: str, time_ms: float) -> None:
        duration, nodes = round(time_ms * 1000.0), ranks[server]
        if duration:
            nodes.append(node(len(nodes), name, NodeType.COMP, [len(nodes) - 1] if nodes else [], duration))

    for choice in operators:
        for server in choice.servers:
            compute(server, f"{choice.name} forward", choice.forward_ms)
    for choice in reversed(operators):
        for server in choice.servers:
            compute(server, f"{choice.name} backward", choice.backward_ms)
    return ranks


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Traces of all servers and the groups of their collectives; of a language model those of ranks.

    Raises:
        InputError: too many messages, or what traces of training cannot say.
    """
    if solution.kind == "llm-training":
        return build_training(solution, options)
    n, demand = solution.plan.topology.servers, solution.figures.demand
    sent = np.ceil(demand.model_parallel_bytes).astype(np.int64)
    groups = [reduced for reduced in demand.allreduce if reduced.payload_bytes > 0]
    count = 2 * np.count_nonzero(sent) + sum(len(reduced.members) for reduced in groups)
    if count > MAX_NODES:
        raise refuse("too many messages for traces", value=count, allowed=f"at most {MAX_NODES}")
    ranks = _computed(solution)
    computed = [len(nodes) for nodes in ranks]
    compute_us = [sum(done.duration_micros for done in nodes) for nodes in ranks]

    def after(server: int) -> list[int]:
        return [computed[server] - 1] if computed[server] else []

    for source, target in np.argwhere(sent > 0).tolist():
        size, tag = int(sent[source, target]), source * n + target
        for server, peer, sends in ((source, target, True), (target, source, False)):
            nodes = ranks[server]
            nodes.append(message_node(len(nodes), sends, peer, tag, size, after(server)))
    named: dict[str, list[int]] = {}
    calls: dict[tuple[tuple[int, ...], int], int] = {}
    for reduced in groups:
        members, size = tuple(sorted(reduced.members)), math.ceil(reduced.payload_bytes)
        group = None if len(members) == n else str(len(named) + 1)
        if group is not None:
            named[group] = list(members)
        calls[members, size] = calls.get((members, size), 0) + 1
        for server in members:
            nodes = ranks[server]
            name = f"all-reduce of {len(members)}"
            nodes.append(collective_node(len(nodes), name, CommType.ALL_REDUCE, size, after(server), group))
    if not any(ranks):
        raise refuse("nothing takes a microsecond or sends anything", allowed="a plan that computes or communicates")
    prefix = plain_name(solution.name)
    traces = [(f"{prefix}.{server}.et", trace_bytes(nodes)) for server, nodes in enumerate(ranks)]
    content = TraceContent(
        prefix,
        n,
        sum(map(len, ranks)),
        tuple(
            CollectiveUse(CommType.ALL_REDUCE, members, size, (times,) * len(members))
            for (members, size), times in sorted(calls.items())
        ),
        sent,
        np.array(compute_us, dtype=np.int64),
        np.zeros(n),
    )
    title = f"{n} servers as Chakra execution traces: {prefix}.RANK.et, groups in comm_groups.json"
    files = (*traces, ("comm_groups.json", json_bytes(named)), (NOTES_FILE, notes_bytes(title, LIMITS)))
    return Export(files, content.comparable(), LIMITS)


EXPORTER = Exporter(
    kinds=("co-optimisation", "llm-training"),
    makes="one trace a server, of training a rank (PREFIX.RANK.et; setting ranks), and comm_groups.json",
    limits=(*LIMITS, *TRAINING_LIMITS),
    folder=True,
    build=build,
    for_instances=("llm-training",),
)


MOST_HOPS = 1_000_000
KEYS = {
    CollectiveOp.ALLREDUCE: "all-reduce",
    CollectiveOp.ALLGATHER: "all-gather",
    CollectiveOp.REDUCE_SCATTER: "reduce-scatter",
    CollectiveOp.ALL_TO_ALL: "all-to-all",
}
"""Collectives whose implementation a system file may name."""


def _add(nodes: list[Any], made: Any, position: tuple[str, int], count: int) -> int:
    made.attr.add(name="chunk_buffer", string_val=position[0])
    made.attr.add(name="chunk_first", int64_val=position[1])
    made.attr.add(name="chunk_count", int64_val=count)
    nodes.append(made)
    return len(nodes) - 1


def _bytes(schedule: RankSchedule, block: PlacedBlock, vector_bytes: int) -> int:
    """Size of a block: what lies between its ends, rounded down each."""
    first = block.offset
    if schedule.collective is CollectiveOp.ALL_TO_ALL:
        first += block.target * schedule.share
    return (first + block.count) * vector_bytes // schedule.chunks - first * vector_bytes // schedule.chunks


def _traces(schedule: RankSchedule, vector_bytes: int) -> tuple[list[list[Any]], ChunkMemory]:
    memory = ChunkMemory(schedule)
    traces: list[list[Any]] = [[] for _ in range(schedule.ranks)]
    uses = Accesses[int]()
    hops = sorted((hop, number) for number, block in enumerate(schedule.blocks) for hop in block.hops)
    for tag, ((_, tail, head, adds), number) in enumerate(hops):
        block = schedule.blocks[number]
        size = _bytes(schedule, block, vector_bytes)
        if size < 1:
            allowed = f"at least a byte a chunk, {schedule.chunks} chunks"
            raise refuse("too few bytes for so many chunks", path="bytes", value=vector_bytes, allowed=allowed)
        source, target = memory.location(tail, number, block), memory.location(head, number, block)
        sending = message_node(len(traces[tail]), True, head, tag, size, sorted(uses.before_read((tail, number))))
        sent = _add(traces[tail], sending, source, block.count)
        uses.add((tail, number), sent, writes=False)
        key = (head, number)
        after = uses.before_write(key)
        slot = ("s", memory.slot(head, block.count)) if adds else target
        receiving = message_node(len(traces[head]), False, tail, tag, size, [] if adds else sorted(after))
        taken = _add(traces[head], receiving, slot, block.count)
        if adds:
            adding = node(len(traces[head]), f"add {size} bytes", NodeType.COMP, sorted({taken, *after}))
            adding.attr.add(name="num_ops", int64_val=size)
            adding.attr.add(name="tensor_size", int64_val=size)
            adding.attr.add(name="chunk_added", int64_val=taken)
            taken = _add(traces[head], adding, target, block.count)
        uses.add(key, taken, writes=True)
    return traces, memory


def build_collective(result: CollectiveResult, options: ExportOptions) -> Export:
    """Traces of all ranks, and a system file that names them.

    Raises:
        InputError: a collective that ASTRA-sim has not; too many sends.
    """
    problem = result.figures.problem
    if problem.collective not in KEYS:
        allowed = ", ".join(choice.value for choice in KEYS)
        raise refuse("ASTRA-sim has no such collective", value=problem.collective.value, allowed=allowed)
    schedule = placed_schedule(result)
    count = sum(len(block.hops) for block in schedule.blocks)
    if count > MOST_HOPS:
        raise refuse("too many sends for traces", value=count, allowed=f"at most {MOST_HOPS}")
    traces, memory = _traces(schedule, problem.vector_bytes)
    prefix = plain_name(result.name)
    files = []
    for rank, trace in enumerate(traces):
        head = Metadata(version=VERSION)
        head.attr.add(name="collective", string_val=problem.collective.value)
        head.attr.add(name="vector_bytes", int64_val=problem.vector_bytes)
        head.attr.add(name="vector_chunks", int64_val=schedule.chunks)
        head.attr.add(name="scratch_chunks", int64_val=memory.scratch[rank])
        files.append((f"{prefix}.{rank}.et", b"".join((frame(head), *map(frame, trace)))))
    key = KEYS[problem.collective]
    system = system_document([("ring", "direct")]) | {f"{key}-implementation-custom": [prefix]}
    del system[f"{key}-implementation"]
    title = f"{problem.collective} over {schedule.ranks} ranks: {prefix}.RANK.et, named in system.json"
    rest = (
        ("system.json", json_bytes(system)),
        ("ranks.csv", rank_table(result)),
        (NOTES_FILE, notes_bytes(title, COLLECTIVE_EXPORTER.limits)),
    )
    return Export((*files, *rest), traffic_of(schedule), COLLECTIVE_EXPORTER.limits)


COLLECTIVE_EXPORTER = Exporter(
    kinds=("collective",),
    makes="a Chakra trace a rank (PREFIX.RANK.et) and system.json that names them as custom implementation",
    limits=(
        "sizes and the number of ranks stand in the traces: a workload's own sizes are not used, and ASTRA-sim takes "
        "one custom collective for groups of any size",
        "links and switches are not part of a trace: export a topology with --to astrasim",
        "ASTRA-sim has not run it here; `topoopt collective audit` executes it",
    ),
    folder=True,
    build=build_collective,
)
