"""Schedules of collectives as MSCCL algorithms: a block for every peer that is sent to or received from, by channel.

Only s, r, rrc, cpy and nop are written, the types that every executor and converter knows; fused, what a rank receives
and sends on is one step of a block with two peers (rcs, rrs, rrcs), and every tree has a channel as far as they go.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import quoteattr

from topoopt.core.collective import CollectiveOp, CollectiveResult
from topoopt.formats.exporter import NOTES_FILE, Export, notes_bytes, plain_name, refuse
from topoopt.formats.msccl.limits import MOST_CHANNELS, MOST_STEPS, RESIDENT_BLOCKS
from topoopt.formats.msccl.thread_blocks import RankBlocks, laid_out
from topoopt.formats.schedules.memory import ChunkMemory
from topoopt.formats.schedules.placed_blocks import RankSchedule, placed_schedule, traffic_of

NAMES: Mapping[CollectiveOp, str] = {
    CollectiveOp.ALLREDUCE: "allreduce",
    CollectiveOp.ALLGATHER: "allgather",
    CollectiveOp.REDUCE_SCATTER: "reduce_scatter",
    CollectiveOp.ALL_TO_ALL: "alltoall",
    CollectiveOp.BROADCAST: "broadcast",
    CollectiveOp.REDUCE: "reduce",
}
MAX_BYTES = 1 << 40
MOST_WRITTEN_STEPS = 1_000_000
FEWER = "fewer trees (limits.trees_per_root), or another method"
FUSED_NOTE = "converters to ASTRA-sim know s, r, rrc and nop alone, not the fused steps of this file"
NOTES = (
    "one rank a compute node, in their order; ranks.csv names them",
    "pieces of blocks that go the same ways are one: the runtime divides large vectors itself",
    "routes through switches are not part of an algorithm",
    "no GPU has run it here; `topoopt collective audit` executes it",
)


def algorithm_of(
    name: str, schedule: RankSchedule, sizes: tuple[int, int] = (0, MAX_BYTES), *, fused: bool = False
) -> str:
    """XML of a schedule for vectors of least and most so many bytes.

    Args:
        fused: steps that receive and send on at once, in as many channels as there are trees and fit; otherwise in as
            few as the steps need.

    Raises:
        InputError: it does not fit the limits of MSCCL.
    """
    total = sum(len(block.hops) for block in schedule.blocks)
    if total > MOST_WRITTEN_STEPS:
        raise refuse("too many steps for an algorithm", value=total, allowed=f"at most {MOST_WRITTEN_STEPS}; {FEWER}")
    channels = min(MOST_CHANNELS, len(schedule.blocks)) if fused else 1
    while True:
        ranks, memory = laid_out(schedule, channels, fused=fused)
        longest = max((len(block.steps) for rank in ranks for block in rank.blocks), default=0)
        most = max(len(rank.blocks) for rank in ranks)
        if longest > MOST_STEPS:
            text = f"blocks of {longest} steps with {channels} channels"
            channels = max(channels + 1, -(-channels * longest // MOST_STEPS))
            if fused or channels > MOST_CHANNELS:
                raise refuse("too long for an algorithm", value=text, allowed=f"at most {MOST_STEPS}; {FEWER}")
        elif most > RESIDENT_BLOCKS and fused and channels > 1:
            channels //= 2
        elif most > RESIDENT_BLOCKS:
            raise refuse("too many blocks of a rank", value=most, allowed=f"at most {RESIDENT_BLOCKS}; {FEWER}")
        else:
            return _xml(name, schedule, ranks, memory, channels, sizes)


def _xml(
    name: str,
    schedule: RankSchedule,
    ranks: list[RankBlocks],
    memory: ChunkMemory,
    channels: int,
    sizes: tuple[int, int],
) -> str:
    inside, outside = memory.sizes()
    lines = [
        f'<algo name={quoteattr(name)} proto="Simple" nchannels="{channels}" nchunksperloop="{schedule.chunks}" '
        f'ngpus="{schedule.ranks}" coll="{NAMES[schedule.collective]}" inplace="{int(memory.in_place)}" '
        f'outofplace="{int(not memory.in_place)}" minBytes="{sizes[0]}" maxBytes="{sizes[1]}">'
    ]
    for number, rank in enumerate(ranks):
        scratch = memory.scratch[number]
        lines.append(f'  <gpu id="{number}" i_chunks="{inside}" o_chunks="{outside}" s_chunks="{scratch}">')
        for block, one in enumerate(rank.blocks):
            lines.append(f'    <tb id="{block}" send="{one.send}" recv="{one.receive}" chan="{one.channel}">')
            for place, step in enumerate(one.steps):
                other, awaited = step.needs or (-1, -1)
                lines.append(
                    f'      <step s="{place}" type="{step.kind}" srcbuf="{step.source[0]}" srcoff="{step.source[1]}" '
                    f'dstbuf="{step.target[0]}" dstoff="{step.target[1]}" cnt="{step.count}" depid="{other}" '
                    f'deps="{awaited}" hasdep="{int((block, place) in rank.waited)}"/>'
                )
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>"]) + "\n"


def rank_table(result: CollectiveResult) -> bytes:
    """CSV: which compute node is which rank."""
    network = result.figures.problem.network
    names = [network.names[node] for node in network.ranks.tolist()]
    return ("rank,node\n" + "".join(f"{rank},{name}\n" for rank, name in enumerate(names))).encode()


def build_collective(result: CollectiveResult, *, fused: bool = False) -> Export:
    """One algorithm.

    Raises:
        InputError: it does not fit the limits of MSCCL.
    """
    schedule = placed_schedule(result)
    prefix = plain_name(result.name)
    file = f"{prefix}.xml"
    text = algorithm_of(prefix, schedule, fused=fused)
    title = f"{schedule.collective} over {schedule.ranks} ranks"
    notes = (
        *NOTES,
        *([FUSED_NOTE] if fused else []),
        *([f"the root is rank {schedule.root}"] if schedule.root else []),
    )
    files = (
        (file, text.encode()),
        ("ranks.csv", rank_table(result)),
        (NOTES_FILE, notes_bytes(title, notes)),
    )
    return Export(files, {file: traffic_of(schedule)}, notes)
