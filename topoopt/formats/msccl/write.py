"""AllReduces of a plan as MSCCL algorithms: one XML file for the rings of each group, and for each schedule.

A ring of k ranks works on k blocks of its part of the buffer: k - 1 steps reduce, k - 1 steps copy (the ring
algorithm of Patarasuk and Yuan, 2009). Every ring is a channel with a thread block of its own; shares of rings become
numbers of chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from topoopt.core.collective import CollectiveOp
from topoopt.core.result import Result
from topoopt.core.routing import GroupRings
from topoopt.formats.exporter import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes, plain_name, refuse
from topoopt.formats.msccl.collective_write import MAX_BYTES, algorithm_of, build_collective
from topoopt.formats.schedules.placed_blocks import placed, traffic_of
from topoopt.formats.traffic_classes import class_notes

SCHEDULED = ".schedule"
"""In names of files for schedules of a job."""

MAX_STEPS = 2_000_000
MAX_PARTS = 64
"""Most chunks a block of ring 0..R-1 is cut into, all together."""


def parts_of(shares: Sequence[float]) -> list[int]:
    """Whole numbers near the shares of rings, their total at most 64; none is 0.

    The smallest total whose largest error is within a thousandth, else the best of all.
    """
    best: tuple[float, list[int]] = (np.inf, [1] * len(shares))
    for total in range(len(shares), max(MAX_PARTS, len(shares)) + 1):
        exact = np.asarray(shares) * total
        parts = np.maximum(np.floor(exact), 1).astype(int)
        for index in np.argsort(parts - exact, kind="stable")[: max(0, total - int(parts.sum()))]:
            parts[index] += 1
        if parts.sum() != total:
            continue
        error = float(np.abs(parts / total - np.asarray(shares)).max())
        if error < best[0] - 1e-12:
            best = error, parts.tolist()
        if error <= 1e-3:
            break
    return best[1]


def ring_steps(position: int, size: int, first: int, parts: int) -> list[tuple[str, int, int]]:
    """(type, offset of the chunks, count) of a rank at a position of a ring; `first` is the ring's first chunk.

    Types of MSCCL: s sends, rrs receives, reduces and sends, rrcs keeps the result as well, rcs receives, keeps and
    sends on, r receives and keeps.
    """
    kinds = ["s", *["rrs"] * (size - 2), "rrcs", *["rcs"] * (size - 2), "r"]
    return [(kind, first + (position - step) % size * parts, parts) for step, kind in enumerate(kinds)]


def algorithm(name: str, group: GroupRings) -> tuple[str, list[int]]:
    """XML of a group whose communicator has the members as ranks 0, 1, ..., and the chunks of a block of each ring."""
    size = len(group.members)
    rank = {server: index for index, server in enumerate(group.members)}
    parts = parts_of([ring.share for ring in group.rings])
    chunks = size * sum(parts)
    lines = [
        f'<algo name={quoteattr(name)} nchannels="{len(group.rings)}" nchunksperloop="{chunks}" proto="Simple" '
        f'ngpus="{size}" coll="allreduce" inplace="1" outofplace="0" minBytes="0" maxBytes="0">'
    ]
    places = [{rank[server]: place for place, server in enumerate(ring.order)} for ring in group.rings]
    orders = [[rank[server] for server in ring.order] for ring in group.rings]
    for own in range(size):
        lines.append(f'  <gpu id="{own}" i_chunks="{chunks}" o_chunks="{chunks}" s_chunks="0">')
        for channel, (place, order) in enumerate(zip(places, orders, strict=True)):
            at = place[own]
            send, receive = order[(at + 1) % size], order[at - 1]
            lines.append(f'    <tb id="{channel}" send="{send}" recv="{receive}" chan="{channel}">')
            first = size * sum(parts[:channel])
            for step, (kind, offset, count) in enumerate(ring_steps(at, size, first, parts[channel])):
                lines.append(
                    f'      <step s="{step}" type="{kind}" srcbuf="i" srcoff="{offset}" dstbuf="i" dstoff="{offset}" '
                    f'cnt="{count}" depid="-1" deps="-1" hasdep="0"/>'
                )
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return "\n".join([*lines, "</algo>"]) + "\n", parts


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The algorithm of a collective, or those of a job.

    Raises:
        InputError: no group of two or more servers, or more than the format takes.
    """
    if solution.kind == "collective":
        return build_collective(solution, fused=options.fused)
    return _of_job(solution, fused=options.fused)


def _of_job(solution: Result[Any, Any], *, fused: bool) -> Export:
    """One algorithm for each group that has rings, and for each schedule.

    Raises:
        InputError: no group of two or more servers, or too many steps.
    """
    groups = [group for group in solution.plan.rings if len(group.members) > 1]
    if not groups and not solution.plan.schedules:
        raise refuse("the plan has no AllReduce", allowed="a plan with rings or schedules")
    steps = sum(len(group.rings) * len(group.members) * (2 * len(group.members) - 1) for group in groups)
    if steps > MAX_STEPS:
        raise refuse("too many steps for algorithms", value=steps, allowed=f"at most {MAX_STEPS}")
    prefix, n = plain_name(solution.name), solution.plan.topology.servers
    files: list[tuple[str, bytes]] = []
    content: dict[str, object] = {}
    notes = [*EXPORTER.limits, *class_notes(solution.figures.cluster)]
    table = ["file,rank,server"]
    for number, group in enumerate(groups):
        file = f"{prefix}.allreduce{number}.xml"
        text, parts = algorithm(f"{prefix}-{number}", group)
        files.append((file, text.encode()))
        rank = {server: index for index, server in enumerate(group.members)}
        content[file] = tuple(
            (tuple(rank[server] for server in ring.order), count)
            for ring, count in zip(group.rings, parts, strict=True)
        )
        error = max(abs(c / sum(parts) - ring.share) for c, ring in zip(parts, group.rings, strict=True))
        if error > 1e-3:
            notes.append(f"{file}: shares of rings are off by up to {error:.3f}")
        table += [f"{file},{index},{server}" for index, server in enumerate(group.members)]
    for number, one in enumerate(solution.plan.schedules):
        file = f"{prefix}{SCHEDULED}{number}.xml"
        schedule = placed(one.schedule, one.members, CollectiveOp.ALLREDUCE)
        largest = MAX_BYTES if one.below_bytes is None else one.below_bytes - 1
        text = algorithm_of(f"{prefix}-schedule-{number}", schedule, (one.from_bytes, largest), fused=fused)
        files.append((file, text.encode()))
        content[file] = traffic_of(schedule)
        table += [f"{file},{index},{server}" for index, server in enumerate(one.members)]
    if solution.plan.schedules:
        notes.append("schedules are for vectors of minBytes to maxBytes; the runtime divides large ones itself")
    files.append(("ranks.csv", ("\n".join(table) + "\n").encode()))
    count = len(groups) + len(solution.plan.schedules)
    title = f"{count} AllReduce algorithms for {n} servers; ranks.csv: which server is which rank"
    files.append((NOTES_FILE, notes_bytes(title, tuple(notes))))
    return Export(tuple(files), content, tuple(notes))


EXPORTER = Exporter(
    kinds=("co-optimisation", "collective"),
    makes="MSCCL algorithms (XML): of a collective, or for the AllReduce of each group of a job; and ranks.csv",
    limits=(
        "one rank a server: the AllReduce inside a server is another communicator's",
        "an algorithm says which rank sends to which, not by which interface: routes do (--to linux-forwarding)",
        "no GPU has run it here; `topoopt collective audit` executes it",
    ),
    folder=True,
    build=build,
)
