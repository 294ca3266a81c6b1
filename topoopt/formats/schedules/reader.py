"""What every reader of schedules is: a function from a file and options to a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from topoopt.core.collective import ChunkProgram, CollectiveOp
from topoopt.core.errors import InputError
from topoopt.files.untrusted import refusal


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
    return refusal("the file names no collective", file, value=value, allowed=allowed)
