"""What a simulation of a task graph did."""

from __future__ import annotations

from typing import NamedTuple

from topoopt.core.arrays import Floats, Int32s


class Outcome(NamedTuple):
    """One iteration of every job, or the last one begun where jobs begin again.

    Attributes:
        time: latest end of a task, ms; infinity if it passed the threshold.
        start, end: float64[T], ms; end -1: never ran.
        cause: int32[T], the task whose end let it start, -1: none.
        first_end: float64[J], end of the first iteration of each job, -1: none.
        carried, busy: float64[L], bytes over each link, and ms in which it carries them.
        left: tasks of first iterations that could never run, or not yet when it was stopped.
    """

    time: float
    start: Floats
    end: Floats
    cause: Int32s
    first_end: Floats
    carried: Floats
    busy: Floats
    left: int
