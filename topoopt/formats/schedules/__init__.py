"""Schedules of collectives in the formats of others are read to programs by a table of readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from topoopt.core.arrays import MIB
from topoopt.core.collective import ALL_RANKS, ChunkProgram, CollectiveOp
from topoopt.core.errors import InputError, Problem
from topoopt.core.process import PlugIns
from topoopt.files.documents import Document, parse_json
from topoopt.files.untrusted import parsing, read_text, refusal

MAX_FILE_BYTES = 512 * MIB
MAX_NODES = 30_000_000
MOST_CELLS = 20_000_000
MOST_ACTIONS = 4_000_000
MOST_RANKS = 8192
MOST_SHOWN = 5


def read_object(path: Path, what: str) -> tuple[dict[str, Any], Document]:
    """Plain data of a file, and the file as a document, which knows their lines.

    Raises:
        InputError: no such file, too large, broken, no object at its top.
    """
    text = read_text(path, MAX_FILE_BYTES, what)
    with parsing(str(path), what):
        read = parse_json(text, MAX_NODES)
    if read.issues:
        problems = [
            Problem(issue.message, str(path), issue.line, None, issue.value, issue.allowed)
            for issue in read.issues[:20]
        ]
        raise InputError(problems)
    if not isinstance(read.data, dict):
        raise refusal(f"not {what}", str(path), allowed="an object at the top")
    return read.data, replace(read, file=str(path))


@dataclass(frozen=True)
class ScheduleOptions:
    """What a file may not say.

    Attributes:
        collective: None: as the file says.
        root: rank of a broadcast or a reduction.
    """

    collective: CollectiveOp | None = None
    root: int = 0


ScheduleReader = Callable[[Path, ScheduleOptions], ChunkProgram]
"""Raises InputError: not such a file. What is wrong with the schedule itself stands in the program."""


def no_collective(file: str, value: object) -> InputError:
    """An error about a file that does not say what it is to do."""
    allowed = "one of allreduce, allgather, reduce-scatter, all-to-all, broadcast, reduce, by --collective"
    missing = "the file names no collective" if value is not None else "the file names no collective: coll is missing"
    return refusal(missing, file, value=value, allowed=allowed)


SHARED = frozenset({CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALL_TO_ALL})
"""Those whose vector has an equal share of every rank."""

NAMES = {
    "allreduce": CollectiveOp.ALLREDUCE,
    "allgather": CollectiveOp.ALLGATHER,
    "reducescatter": CollectiveOp.REDUCE_SCATTER,
    "alltoall": CollectiveOp.ALL_TO_ALL,
    "broadcast": CollectiveOp.BROADCAST,
    "reduce": CollectiveOp.REDUCE,
}


def collective_named(text: str) -> CollectiveOp | None:
    """The collective that a name of any spelling means: all_gather, AllGather, all-gather(n=8)."""
    plain = "".join(letter for letter in text.partition("(")[0].lower() if letter.isalpha())
    return NAMES.get(plain)


def parameters_of(text: str) -> dict[str, str]:
    """Parameters in a name such as Broadcast(n=8,root=0)."""
    rows = [
        parameter.partition("=")
        for parameter in text.partition("(")[2].removesuffix(")").split(",")
        if parameter.strip()
    ]
    return {key.strip(): value.strip() for key, _, value in rows}


def inputs(collective: CollectiveOp, ranks: int, chunks: int, root: int) -> Iterator[tuple[int, int, int]]:
    """Rows (rank, chunk of its input, label); `chunks` of the whole vector, in an All-to-All of that of each rank."""
    share = chunks // ranks
    for rank in range(ranks):
        if collective is CollectiveOp.ALLGATHER:
            yield from ((rank, chunk, rank * share + chunk) for chunk in range(share))
        elif collective is CollectiveOp.ALL_TO_ALL:
            yield from ((rank, chunk, rank * chunks + chunk) for chunk in range(chunks))
        elif collective is not CollectiveOp.BROADCAST or rank == root:
            yield from ((rank, chunk, chunk) for chunk in range(chunks))


def outputs(collective: CollectiveOp, ranks: int, chunks: int, root: int) -> Iterator[tuple[int, int, int, int]]:
    """Rows (rank, chunk of its output, label, whose part or ALL_RANKS)."""
    share = chunks // ranks
    for rank in range(ranks):
        if collective is CollectiveOp.ALLGATHER:
            yield from ((rank, chunk, chunk, chunk // share) for chunk in range(chunks))
        elif collective is CollectiveOp.ALL_TO_ALL:
            for source in range(ranks):
                first = source * chunks + rank * share
                yield from ((rank, source * share + own, first + own, source) for own in range(share))
        elif collective is CollectiveOp.REDUCE_SCATTER:
            yield from ((rank, chunk, rank * share + chunk, ALL_RANKS) for chunk in range(share))
        elif collective is CollectiveOp.ALLREDUCE:
            yield from ((rank, chunk, chunk, ALL_RANKS) for chunk in range(chunks))
        elif collective is CollectiveOp.BROADCAST:
            yield from ((rank, chunk, chunk, root) for chunk in range(chunks))
        elif rank == root:
            yield from ((rank, chunk, chunk, ALL_RANKS) for chunk in range(chunks))


SCHEDULES: Mapping[str, ScheduleReader] = PlugIns(
    {
        "msccl": "topoopt.formats.msccl:read_schedule",
        "mscclpp": "topoopt.formats.mscclpp:read_schedule",
        "teccl": "topoopt.formats.teccl:read_schedule",
        "forestcoll": "topoopt.formats.forestcoll:read_schedule",
        "sccl": "topoopt.formats.sccl:read_schedule",
        "chakra": "topoopt.formats.chakra.collective_read:read_schedule",
    }
)
"""The formats of `topoopt collective audit`."""
