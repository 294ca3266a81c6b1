"""Schedules of collectives as ASTRA-sim runs them: a Chakra trace a rank of sends, receives and additions.

Nodes carry which chunks they are about besides, which ASTRA-sim does not read, and an audit does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from topoopt.core.collective import CollectiveOp, CollectiveResult
from topoopt.formats.astrasim.system import system_document
from topoopt.formats.chakra.content import Metadata, NodeType, frame
from topoopt.formats.chakra.nodes import VERSION, message_node, node
from topoopt.formats.exporter import (
    NOTES_FILE,
    Export,
    Exporter,
    ExportOptions,
    json_bytes,
    notes_bytes,
    plain_name,
    refuse,
)
from topoopt.formats.msccl.collective_write import rank_table
from topoopt.formats.schedules.memory import ChunkMemory
from topoopt.formats.schedules.placed_blocks import (
    PlacedBlock,
    RankSchedule,
    placed_schedule,
    traffic_of,
)

MOST_HOPS = 1_000_000
KEYS = {
    CollectiveOp.ALLREDUCE: "all-reduce",
    CollectiveOp.ALLGATHER: "all-gather",
    CollectiveOp.REDUCE_SCATTER: "reduce-scatter",
    CollectiveOp.ALL_TO_ALL: "all-to-all",
}
"""Collectives whose implementation a system file may name."""


class _Trace:
    """Nodes of a rank."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def add(self, made: Any, place: tuple[str, int], count: int) -> int:
        """A node, with the chunks that it is about."""
        made.attr.add(name="chunk_buffer", string_val=place[0])
        made.attr.add(name="chunk_first", int64_val=place[1])
        made.attr.add(name="chunk_count", int64_val=count)
        self.nodes.append(made)
        return len(self.nodes) - 1

    def message(
        self, *, sends: bool, peer: int, tag: int, size: int, after: Iterable[int], place: tuple[str, int], count: int
    ) -> int:
        """One end of a message."""
        made = message_node(len(self.nodes), sends, peer, tag, size, sorted(after))
        return self.add(made, place, count)


def _bytes(schedule: RankSchedule, block: PlacedBlock, vector_bytes: int) -> int:
    """Size of a block: what lies between its ends, rounded down each."""
    first = block.offset
    if schedule.collective is CollectiveOp.ALL_TO_ALL:
        first += block.target * schedule.share
    return (first + block.count) * vector_bytes // schedule.chunks - first * vector_bytes // schedule.chunks


def _traces(schedule: RankSchedule, vector_bytes: int) -> tuple[list[_Trace], ChunkMemory]:
    memory = ChunkMemory(schedule)
    traces = [_Trace() for _ in range(schedule.ranks)]
    written: dict[tuple[int, int], set[int]] = {}
    read: dict[tuple[int, int], set[int]] = {}
    hops = sorted((hop, number) for number, block in enumerate(schedule.blocks) for hop in block.hops)
    for tag, ((_, tail, head, adds), number) in enumerate(hops):
        block = schedule.blocks[number]
        size = _bytes(schedule, block, vector_bytes)
        if size < 1:
            allowed = f"at least a byte a chunk, {schedule.chunks} chunks"
            raise refuse("too few bytes for so many chunks", path="bytes", value=vector_bytes, allowed=allowed)
        source, target = memory.place(tail, number, block), memory.place(head, number, block)
        before = written.get((tail, number), set())
        sent = traces[tail].message(
            sends=True, peer=head, tag=tag, size=size, after=before, place=source, count=block.count
        )
        read.setdefault((tail, number), set()).add(sent)
        key = (head, number)
        after = written.get(key, set()) | read.get(key, set())
        slot = ("s", memory.slot(head, block.count)) if adds else target
        taken = traces[head].message(
            sends=False, peer=tail, tag=tag, size=size, after=set() if adds else after, place=slot, count=block.count
        )
        if adds:
            adding = node(len(traces[head].nodes), f"add {size} bytes", NodeType.COMP, sorted({taken, *after}))
            adding.attr.add(name="num_ops", int64_val=size)
            adding.attr.add(name="tensor_size", int64_val=size)
            adding.attr.add(name="chunk_added", int64_val=taken)
            taken = traces[head].add(adding, target, block.count)
        written[key], read[key] = {taken}, set()
    return traces, memory


def build(result: CollectiveResult, options: ExportOptions) -> Export:
    """Traces of all ranks, and a system file that names them.

    Raises:
        InputError: a collective that ASTRA-sim has not; too many sends.
    """
    problem = result.figures.problem
    if problem.collective not in KEYS:
        allowed = ", ".join(one.value for one in KEYS)
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
        files.append((f"{prefix}.{rank}.et", b"".join((frame(head), *(frame(one) for one in trace.nodes)))))
    key = KEYS[problem.collective]
    system = system_document([("ring", "direct")]) | {f"{key}-implementation-custom": [prefix]}
    del system[f"{key}-implementation"]
    title = f"{problem.collective} over {schedule.ranks} ranks: {prefix}.RANK.et, named in system.json"
    rest = (
        ("system.json", json_bytes(system)),
        ("ranks.csv", rank_table(result)),
        (NOTES_FILE, notes_bytes(title, EXPORTER.limits)),
    )
    return Export((*files, *rest), traffic_of(schedule), EXPORTER.limits)


EXPORTER = Exporter(
    kinds=("collective",),
    makes="a Chakra trace a rank (PREFIX.RANK.et) and system.json that names them as custom implementation",
    limits=(
        "sizes and the number of ranks stand in the traces: a workload's own sizes are not used, and ASTRA-sim takes "
        "one custom collective for groups of any size",
        "links and switches are not part of a trace: export a topology with --to astrasim",
        "ASTRA-sim has not run it here; `topoopt collective audit` executes it",
    ),
    folder=True,
    build=build,
)
