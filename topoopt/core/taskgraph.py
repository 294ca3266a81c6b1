"""One training iteration as a graph of tasks, in flat arrays (no object per task)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints


class TaskKind(IntEnum):
    """What a task occupies."""

    FORWARD = 0
    BACKWARD = 1
    TRANSFER = 2
    ALLREDUCE = 3


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """T tasks with their successors.

    Attributes:
        servers: n.
        kind: int8[T], a `TaskKind`.
        source: int32[T]; the server of a compute task, the sender of a transfer, -1 for an AllReduce.
        target: int32[T]; the receiver of a transfer, -1 otherwise.
        group: int32[T]; index in `groups` of an AllReduce over two or more servers, -1 otherwise (an AllReduce with
            group -1 costs its local time only).
        duration_ms: float64[T]; run time of a compute task, local (inside a server) time of an AllReduce, 0 otherwise.
        bytes: int64[T]; bytes of a transfer, payload of an AllReduce, 0 otherwise.
        operator: int32[T]; index of the operator the task belongs to (of the consumer for a transfer), or -1.
        successor_ptr: int64[T+1] and successor: int32[E]; tasks released by task t are
            successor[successor_ptr[t]:successor_ptr[t+1]].
        groups: AllReduce groups, members in ring order.
        operator_names: names for `operator`, may be empty.
    """

    servers: int
    kind: NDArray[np.int8]
    source: Int32s
    target: Int32s
    group: Int32s
    duration_ms: Floats
    bytes: Ints
    operator: Int32s
    successor_ptr: Ints
    successor: Int32s
    groups: tuple[tuple[int, ...], ...]
    operator_names: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        """T."""
        return len(self.kind)
