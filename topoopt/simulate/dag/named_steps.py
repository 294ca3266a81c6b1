"""Steps of a job by name, gathered into a problem of circuits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS
from topoopt.core.dag_topology import DagTask, DagTopologyProblem, DagTransfer


class NamedSteps:
    """Transfers in bytes and tasks in seconds, each after others, which may come later."""

    def __init__(self) -> None:
        self._transfers: dict[str, tuple[int, int, float, tuple[str, ...]]] = {}
        self._tasks: dict[str, tuple[float, tuple[str, ...]]] = {}

    def transfer(self, name: str, source: int, target: int, volume: float, after: Iterable[str]) -> str:
        """A transfer; its name."""
        self._transfers[name] = (source, target, volume, tuple(dict.fromkeys(after)))
        return name

    def task(self, name: str, duration: float, after: Iterable[str]) -> str:
        """A task; its name."""
        self._tasks[name] = (duration, tuple(dict.fromkeys(after)))
        return name

    def ring(self, name: str, pods: Sequence[int], volume: float, after: Iterable[str]) -> list[str]:
        """A collective round a ring of pods that waits for all of them, half of it each way round.

        Args:
            pods: in the order of the ring, at least 2; with 2 the same pair carries both halves.
            volume: what each pod sends in all.

        Returns:
            Names of its transfers.
        """
        begun = self.task(f"{name} ready", 0.0, after)
        each = volume if len(pods) == 2 else volume / 2
        for step, (source, target) in zip(self.ring_names(name, pods), _arcs(pods), strict=True):
            self.transfer(step, source, target, each, [begun])
        return self.ring_names(name, pods)

    @staticmethod
    def ring_names(name: str, pods: Sequence[int]) -> list[str]:
        """Names of the transfers of a collective round a ring."""
        return [f"{name} {source}-{target}" for source, target in _arcs(pods)]

    def problem(
        self, name: str, ports: Sequence[int], circuit_gbps: float, notes: tuple[str, ...] = ()
    ) -> DagTopologyProblem:
        """All steps so far, on as many pods as ports are given for."""
        number = {step: k for k, step in enumerate((*self._transfers, *self._tasks))}
        return DagTopologyProblem(
            name=name,
            pods=len(ports),
            ports=tuple(ports),
            rate=circuit_gbps * BYTES_PER_MS_PER_GBPS * 1e3,
            transfers=tuple(
                DagTransfer(step, source, target, volume, tuple(number[each] for each in after))
                for step, (source, target, volume, after) in self._transfers.items()
            ),
            tasks=tuple(
                DagTask(step, duration, tuple(number[each] for each in after))
                for step, (duration, after) in self._tasks.items()
            ),
            volume_unit="bytes",
            time_unit="s",
            notes=notes,
        )


def _arcs(pods: Sequence[int]) -> list[tuple[int, int]]:
    """(source, target) of a ring, one way round, then the other; a ring of two is one pair."""
    ways = (1,) if len(pods) == 2 else (1, -1)
    return [(pods[k], pods[(k + way) % len(pods)]) for way in ways for k in range(len(pods))]
