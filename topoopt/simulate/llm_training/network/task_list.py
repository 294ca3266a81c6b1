"""A graph of tasks as it grows: what each occupies and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from topoopt.core.taskgraph import TaskGraph, TaskKind

MS = 1e3


@dataclass
class TaskList:
    """Tasks and what each waits for."""

    kind: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    duration: list[float] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def _add(self, kind: int, after: Sequence[int], *, ends: tuple[int, int, int], seconds: float, size: float) -> int:
        self.kind.append(kind)
        for column, value in zip((self.source, self.target, self.group), ends, strict=True):
            column.append(value)
        self.duration.append(seconds * MS)
        self.size.append(round(size))
        place = len(self.kind) - 1
        self.edges += [(one, place) for one in after]
        return place

    def compute(self, server: int, seconds: float, after: Sequence[int]) -> int:
        """A server computes."""
        return self._add(TaskKind.FORWARD, after, ends=(server, -1, -1), seconds=seconds, size=0)

    def wait(self, seconds: float, after: Sequence[int]) -> int:
        """Time passes."""
        return self._add(TaskKind.ALLREDUCE, after, ends=(-1, -1, -1), seconds=seconds, size=0)

    def transfer(self, source: int, target: int, size: float, after: Sequence[int]) -> int:
        """Bytes from one server to another."""
        return self._add(TaskKind.TRANSFER, after, ends=(source, target, -1), seconds=0.0, size=size)

    def collective(self, group: int, members: int, ring_bytes: float, after: Sequence[int]) -> int:
        """Each of the members of a group sends so many bytes to the next one on its rings."""
        payload = ring_bytes * members / (2.0 * (members - 1))
        return self._add(TaskKind.ALLREDUCE, after, ends=(-1, -1, group), seconds=0.0, size=payload)

    def graph(self, servers: int, groups: tuple[tuple[int, ...], ...]) -> TaskGraph:
        """All of them.

        Args:
            groups: members of the groups of collectives.
        """
        tasks = len(self.kind)
        edges = np.array(sorted(self.edges), dtype=np.int64).reshape(-1, 2)
        counts = np.bincount(edges[:, 0], minlength=tasks)
        return TaskGraph(
            servers=servers,
            kind=np.array(self.kind, dtype=np.int8),
            source=np.array(self.source, dtype=np.int32),
            target=np.array(self.target, dtype=np.int32),
            group=np.array(self.group, dtype=np.int32),
            duration_ms=np.array(self.duration),
            bytes=np.array(self.size, dtype=np.int64),
            operator=np.full(tasks, -1, dtype=np.int32),
            successor_ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            successor=edges[:, 1].astype(np.int32),
            groups=groups,
        )
