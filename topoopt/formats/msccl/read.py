"""Reader of MSCCL algorithms: executes them on sets of contributions, and says which rings they run.

An AllReduce is right when every rank ends with every chunk summed over all ranks, each counted once. Only the step
types of ring algorithms are understood, in place.
"""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from xml.etree import ElementTree

from topoopt.core.errors import InputError, Problem
from topoopt.core.units import MIB
from topoopt.files.untrusted import read_xml_text

MAX_BYTES = 256 * MIB

RECEIVES, REDUCES, KEEPS, SENDS = (
    {"rrs", "rrcs", "rcs", "r", "rrc"}, {"rrs", "rrcs", "rrc"}, {"rrcs", "rcs", "r", "rrc"}, {"s", "rrs", "rrcs", "rcs"}
)  # fmt: skip

Rings = tuple[tuple[tuple[int, ...], int], ...]


def read_msccl(folder: Path) -> dict[str, Rings]:
    """Rings of each algorithm of a folder: order of its ranks, chunks of a block.

    Raises:
        InputError: a file that is no algorithm, waits for ever, or does not end with all sums everywhere.
    """
    return {file.name: _rings(file) for file in sorted(folder.glob("*.xml"))}


def _rings(file: Path) -> Rings:
    try:
        root = ElementTree.fromstring(read_xml_text(file, MAX_BYTES))
        ranks = sorted(root.findall("gpu"), key=lambda gpu: int(gpu.attrib["id"]))
        _execute(file.name, ranks, int(root.attrib["nchunksperloop"]))
        found = []
        for channel in range(int(root.attrib["nchannels"])):
            blocks = [
                next(block for block in gpu.findall("tb") if int(block.attrib["chan"]) == channel) for gpu in ranks
            ]
            following = [int(block.attrib["send"]) for block in blocks]
            first = _first(blocks, following)
            order = [first]
            while following[order[-1]] != first and len(order) <= len(ranks):
                order.append(following[order[-1]])
            counts = {int(step.attrib["cnt"]) for block in blocks for step in block.findall("step")}
            if sorted(order) != list(range(len(ranks))) or len(counts) != 1:
                raise InputError([Problem("a channel that is no ring", file=file.name, value=str(channel))])
            found.append((tuple(order), counts.pop()))
    except (ElementTree.ParseError, KeyError, ValueError, StopIteration) as error:
        raise InputError([Problem(f"not an MSCCL algorithm: {error!r}", file=file.name)]) from error
    return tuple(found)


def _first(blocks: list[ElementTree.Element], following: list[int]) -> int:
    """The rank that sends the first block of its ring first."""
    starts = [int(block.findall("step")[0].attrib["srcoff"]) for block in blocks]
    return starts.index(min(starts))


def _execute(name: str, ranks: list[ElementTree.Element], chunks: int) -> None:
    size = len(ranks)
    held = [[1 << rank] * chunks for rank in range(size)]
    sent: dict[tuple[int, int, int], deque[list[int]]] = defaultdict(deque)
    work = [
        (rank, int(block.attrib["send"]), int(block.attrib["recv"]), int(block.attrib["chan"]), block.findall("step"))
        for rank, gpu in enumerate(ranks)
        for block in gpu.findall("tb")
    ]
    done = [0] * len(work)
    moved = True
    while moved:
        moved = False
        for index, (rank, target, source, channel, steps) in enumerate(work):
            while done[index] < len(steps):
                step = steps[done[index]].attrib
                kind, offset, count = step["type"], int(step["srcoff"]), int(step["cnt"])
                inbox = sent[source, rank, channel]
                if kind in RECEIVES and not inbox:
                    break
                values = held[rank][offset : offset + count]
                if kind in RECEIVES:
                    came = inbox.popleft()
                    if len(came) != count or (
                        kind in REDUCES and any(a & b for a, b in zip(came, values, strict=True))
                    ):
                        raise InputError([Problem("a chunk counted twice, or cut", file=name, value=str(rank))])
                    values = [a | b for a, b in zip(came, values, strict=True)] if kind in REDUCES else came
                if kind in KEEPS:
                    held[rank][offset : offset + count] = values
                if kind in SENDS:
                    sent[rank, target, channel].append(values)
                if kind not in RECEIVES | SENDS:
                    raise InputError([Problem("unknown type of step", file=name, value=kind)])
                done[index] += 1
                moved = True
    if any(count < len(one[4]) for count, one in zip(done, work, strict=True)) or any(sent.values()):
        raise InputError([Problem("it waits for ever, or sends what nobody takes", file=name)])
    if any(chunk != (1 << size) - 1 for own in held for chunk in own):
        raise InputError([Problem("some rank ends without some sum", file=name)])
