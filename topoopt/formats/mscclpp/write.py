"""Schedules of collectives as MSCCL++ plans: every rank writes into the memory of others and signals.

A thread block of a rank handles some blocks of the vector from begin to end, in the order of their steps, so that
nothing but signals orders anything. What is added comes to a place of its own in the scratch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topoopt.core.collective import CollectiveResult
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
from topoopt.formats.msccl.write import FEWER, NAMES, rank_table
from topoopt.formats.mscclpp import MOST_CHANNELS, MOST_OPERATIONS
from topoopt.formats.schedules.placed_blocks import ChunkMemory, Hop, RankSchedule, placed_schedule, traffic_of

MOST_BLOCKS = 1024


def _ranges(end: tuple[str, int], count: int, remote: int | None = None) -> list[dict[str, Any]]:
    location = {"type": end[0]} if remote is None else {"buffer_id": remote}
    return [{**location, "index": end[1], "size": count}]


class _Block:
    def __init__(self) -> None:
        self.operations: list[dict[str, Any]] = []
        self.peers: list[int] = []
        self.remote: list[tuple[int, str]] = []

    def channel(self, peer: int) -> int:
        if peer not in self.peers:
            self.peers.append(peer)
        return self.peers.index(peer)

    def sync(self) -> None:
        if self.operations and self.operations[-1]["name"] != "nop":
            self.operations.append({"name": "nop"})

    def put(self, peer: int, source: tuple[str, int], target: tuple[str, int], count: int) -> None:
        if (peer, target[0]) not in self.remote:
            self.remote.append((peer, target[0]))
        there = _ranges(target, count, self.remote.index((peer, target[0])))
        self.sync()
        self.operations.append(
            {"name": "put", "src_buff": _ranges(source, count), "dst_buff": there, "channel_type": "memory"}
        )
        self.sync()
        self.operations.append({"name": "signal", "channel_ids": [self.channel(peer)], "channel_type": "memory"})

    def take(self, peer: int, target: tuple[str, int], added: tuple[str, int] | None, count: int) -> None:
        self.sync()
        self.operations.append({"name": "wait", "channel_ids": [self.channel(peer)], "channel_type": "memory"})
        if added is not None:
            self.sync()
            both = [*_ranges(target, count), *_ranges(added, count)]
            self.operations.append(
                {"name": "re", "src_buff": both, "dst_buff": _ranges(target, count), "reduce_op": "sum"}
            )


def _operations(schedule: RankSchedule, members: Sequence[int], memory: ChunkMemory) -> list[_Block]:
    made = [_Block() for _ in range(schedule.ranks)]
    hops: list[tuple[Hop, int]] = sorted((hop, member) for member in members for hop in schedule.blocks[member].hops)
    for (_, tail, head, adds), number in hops:
        block = schedule.blocks[number]
        source, target = memory.location(tail, number, block), memory.location(head, number, block)
        added = ("s", memory.slot(head, block.count)) if adds else None
        made[tail].put(head, source, added or target, block.count)
        made[head].take(tail, target, added, block.count)
    return made


def plan_document(name: str, schedule: RankSchedule) -> dict[str, Any]:
    """A plan.

    Raises:
        InputError: it does not fit the limits of MSCCL++.
    """
    memory = ChunkMemory(schedule)
    groups: list[list[_Block]] = []
    waiting = list(range(len(schedule.blocks)))
    while waiting:
        count = len(waiting)
        while True:
            tried = memory.copied()
            made = _operations(schedule, waiting[:count], tried)
            if max(len(block.operations) for block in made) <= MOST_OPERATIONS and (
                max(len(block.peers) for block in made) <= MOST_CHANNELS
            ):
                break
            if count == 1:
                longest = max(len(block.operations) for block in made)
                peers = max(len(block.peers) for block in made)
                allowed = f"{MOST_OPERATIONS} operations and {MOST_CHANNELS} channels a block; {FEWER}"
                raise refuse("too much for a plan", value=f"{longest} operations, {peers} channels", allowed=allowed)
            count = max(count // 2, 1)
        groups.append(made)
        memory = tried
        waiting = waiting[count:]
        if len(groups) > MOST_BLOCKS:
            raise refuse("too many thread blocks for a plan", allowed=f"at most {MOST_BLOCKS}; {FEWER}")
    return _document(name, schedule, memory, groups)


def _document(name: str, schedule: RankSchedule, memory: ChunkMemory, groups: list[list[_Block]]) -> dict[str, Any]:
    inside, outside = memory.sizes()
    return {
        "name": name,
        "collective": NAMES[schedule.collective].replace("_", ""),
        "protocol": "Simple",
        "inplace": memory.in_place,
        "reuse_resources": False,
        "gpus": [
            {
                "id": rank,
                "input_chunks": inside,
                "output_chunks": outside,
                "scratch_chunks": memory.scratch[rank],
                **_threadblocks(rank, [group[rank] for group in groups], memory),
                "semaphores": [],
            }
            for rank in range(schedule.ranks)
        ],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": (1 << 64) - 1,
    }


def _threadblocks(rank: int, made: list[_Block], memory: ChunkMemory) -> dict[str, Any]:
    used = [block for block in made if block.operations]
    own = _Block()
    for source, target, count in memory.own_copies(rank):
        copied = {"name": "copy", "src_buff": _ranges(("i", source), count), "dst_buff": _ranges(("o", target), count)}
        own.operations.append(copied)
    used += [own] if own.operations else []
    remote = sorted({buffer for block in used for buffer in block.remote})
    connected: list[int] = []
    listed = []
    for number, block in enumerate(used):
        ids = list(range(len(connected), len(connected) + len(block.peers)))
        connected += block.peers
        refs = [remote.index(buffer) for buffer in block.remote]
        listed.append(
            {
                "id": number,
                "ops": block.operations,
                "channels": [{"channel_type": "memory", "channel_ids": ids}] if ids else [],
                "remote_buffer_refs": ([{"access_channel_type": "memory", "remote_buffer_ids": refs}] if refs else []),
            }
        )
    return {
        "threadblocks": listed,
        "channels": [{"channel_type": "memory", "connected_to": connected}] if connected else [],
        "remote_buffers": [{"rank": peer, "type": kind, "access_channel_types": ["memory"]} for peer, kind in remote],
    }


def build(result: CollectiveResult, options: ExportOptions) -> Export:
    """One plan.

    Raises:
        InputError: it does not fit the limits of MSCCL++.
    """
    schedule = placed_schedule(result)
    prefix = plain_name(result.name)
    document = plan_document(prefix, schedule)
    title = f"{schedule.collective} over {schedule.ranks} ranks"
    notes = (*EXPORTER.limits, *([f"the root is rank {schedule.root}"] if schedule.root else []))
    files = (
        ("plan.json", json_bytes(document)),
        ("ranks.csv", rank_table(result)),
        (NOTES_FILE, notes_bytes(title, notes)),
    )
    return Export(files, traffic_of(schedule), notes)


EXPORTER = Exporter(
    kinds=("collective",),
    makes="an MSCCL++ execution plan (plan.json) and ranks.csv",
    limits=(
        f"at most {MOST_OPERATIONS} operations and {MOST_CHANNELS} channels a thread block: schedules of many steps "
        "of one block of the vector are refused",
        "channels of memory only: ranks reach each other's memory",
        "routes through switches are not part of a plan",
        "no GPU has run it here; `topoopt collective audit` executes it",
    ),
    folder=True,
    build=build,
)
