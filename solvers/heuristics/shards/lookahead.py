"""Look-ahead wiring: circuits of the next job patched on a second plane of panels while the present job runs.

Every interface has a 1x2 mechanical switch to two sides, each with its own patch panels in every plane (NSDI'23,
look-ahead provisioning). A circuit needs both its interfaces on one side. Setting circuits of a side takes minutes and
can go on as soon as the job is known and the side's fibres are no longer those of a running job; turning the 1x2
switches takes a fraction of a second. Servers whose present jobs run on unlike sides cannot be joined in advance: such
circuits wait for the first side to be left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.shard_classes import InterfaceGroup, parts_of
from topoopt.core.optical_layer import OpticalLayer, Shard, ShardShape


@dataclass(frozen=True)
class PlannedJob:
    """A job of the plan, in the order the servers take them.

    Attributes:
        name: for people.
        shape, shard: what is wired where; servers may still be busy with earlier jobs of the plan.
        known_s: when the shard is decided, and wiring may begin.
        duration_s: from start to end.
    """

    name: str
    shape: ShardShape
    shard: Shard
    known_s: float
    duration_s: float


@dataclass(frozen=True)
class WiredJob:
    """When a job of the plan starts.

    Attributes:
        name: of the job.
        ready_s: known, and all its servers free.
        wired_s: the last of its circuits is set.
        start_s: it runs; the later of ready and wired, plus the turn of the 1x2 switches.
        end_s: it is over.
        circuits, provisioned: all of its circuits, and those set by the time it was ready.
    """

    name: str
    ready_s: float
    wired_s: float
    start_s: float
    end_s: float
    circuits: int
    provisioned: int

    @property
    def delay_s(self) -> float:
        """Seconds its servers stand idle for wiring."""
        return self.start_s - self.ready_s


def wire(
    layer: OpticalLayer, plan: Sequence[PlannedJob], panel_s: float, turn_s: float = 0.0, *, sides: int = 2
) -> tuple[WiredJob, ...]:
    """Start of every job of a plan.

    Circuits that hang together in a plane (components of the interface's arcs) are set on one side, the one that is
    left first; components are independent, and panels work side by side.

    Args:
        layer: sizes only; `sides` panels stand behind every interface.
        plan: by the order in which servers take the jobs.
        panel_s: time to set circuits of one side, seconds.
        turn_s: time of the 1x2 switches; 0 where there are none.
        sides: 2 with look-ahead, 1 without.

    Raises:
        ValueError: a time below 0 or not finite, less than one side, or a shard that does not fit its shape.
    """
    if sides < 1 or not all(0 <= t < np.inf for t in (panel_s, turn_s)):
        raise ValueError("times are finite and not negative, and there is one side at least")
    left_at = np.zeros((sides, layer.planes, layer.servers))
    free_at = np.zeros(layer.servers)
    wired = []
    for job in plan:
        if not all(0 <= t < np.inf for t in (job.known_s, job.duration_s)):
            raise ValueError(f"job {job.name}: times are finite and not negative")
        servers = np.array(job.shard.servers, dtype=np.int64)
        if len(servers) != job.shape.servers or len(job.shard.planes) != job.shape.interfaces:
            raise ValueError(f"job {job.name}: the shard does not fit the shape")
        ready = max(job.known_s, float(free_at[servers].max()))
        last, circuits, provisioned = job.known_s, 0, 0
        chosen: list[tuple[int, int, np.ndarray]] = []
        for plane, interface, ranks in _components(job):
            side = int(left_at[:, plane, servers[ranks]].max(axis=1).argmin())
            done = max(job.known_s, float(left_at[side, plane, servers[ranks]].max())) + panel_s
            count = int((job.shape.arcs[interface, ranks] >= 0).sum())
            last, circuits = max(last, done), circuits + count
            provisioned += count * (done <= ready)
            chosen.append((side, plane, servers[ranks]))
        start = max(ready, last) + turn_s
        end = start + job.duration_s
        for side, plane, at in chosen:
            left_at[side, plane, at] = end
        free_at[servers] = end
        wired.append(WiredJob(job.name, ready, last, start, end, circuits, provisioned))
    return tuple(wired)


def _components(job: PlannedJob) -> list[tuple[int, int, np.ndarray]]:
    """(plane, interface, ranks) of the circuits that hang together."""
    parts = parts_of(job.shape)

    def ranks_of(group: InterfaceGroup, component: int) -> np.ndarray:
        return np.concatenate([parts.atoms[q] for q in np.flatnonzero(group.component == component).tolist()])

    return [
        (job.shard.planes[interface], interface, ranks_of(group, e))
        for group in parts.groups
        for interface in group.interfaces
        for e in range(group.components)
    ]
