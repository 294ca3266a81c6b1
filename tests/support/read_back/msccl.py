"""What the algorithms of an export say: the rings of a job's groups, or what ranks send each other in a collective."""

from __future__ import annotations

from pathlib import Path

from tests.support.read_back.traffic import read_traffic
from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.files.untrusted import parsing, read_text
from topoopt.formats.msccl import WHAT, MscclAlgorithm, MscclBlock, parsed, program_of
from topoopt.formats.msccl.write import SCHEDULED
from topoopt.formats.schedules import ScheduleOptions

Rings = tuple[tuple[tuple[int, ...], int], ...]


def read_msccl(folder: Path) -> dict[str, object]:
    """Of each algorithm its rings (order of ranks, chunks of a block); of a collective or a schedule its traffic.

    Raises:
        InputError: a file that is no algorithm, or in a job's export no rings.
    """
    files = sorted(folder.glob("*.xml"))
    single = read_text(folder / "ranks.csv", MIB).startswith("rank,")
    options = ScheduleOptions()
    found: dict[str, object] = {}
    for file in files:
        algorithm = parsed(file, options)
        scheduled = single or SCHEDULED in file.name
        found[file.name] = read_traffic(program_of(file, algorithm, 0)) if scheduled else _rings(file, algorithm)
    return found


def _rings(file: Path, algorithm: MscclAlgorithm) -> Rings:
    ranks = len(algorithm.gpus)
    found = []
    with parsing(file.name, WHAT):
        for channel in range(algorithm.channels):
            blocks = [next(one for one in gpu.blocks if one.channel == channel) for gpu in algorithm.gpus]
            following = [block.send for block in blocks]
            first = _first(blocks)
            order = [first]
            while following[order[-1]] != first and len(order) <= ranks:
                order.append(following[order[-1]])
            counts = {step.count for block in blocks for step in block.steps}
            if sorted(order) != list(range(ranks)) or len(counts) != 1:
                raise InputError([Problem("a channel that is no ring", file=file.name, value=str(channel))])
            found.append((tuple(order), counts.pop()))
    return tuple(found)


def _first(blocks: list[MscclBlock]) -> int:
    """The rank that sends the first block of its ring first."""
    starts = [block.steps[0].source[1] for block in blocks]
    return starts.index(min(starts))
