"""Look-ahead wiring: circuits of the next job patched on a second plane of panels while the present job runs.

Every interface has a 1x2 mechanical switch to two sides, each with its own patch panels in every plane (NSDI'23,
look-ahead provisioning). A circuit needs both its interfaces on one side. Setting circuits of a side takes minutes and
can go on as soon as the job is known and the side's fibres are no longer those of an earlier job; turning the 1x2
switches takes a fraction of a second. Servers whose present jobs run on unlike sides cannot be joined in advance: such
circuits wait for the first side to be left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from formulations.shards.shard_classes import Ints, parts_of
from topoopt.core.optical_layer import OpticalLayer
from topoopt.core.shard_wiring import PlannedJob, WiredJob, Wiring


def wire(
    layer: OpticalLayer, plan: Sequence[PlannedJob], panel_s: float, turn_s: float = 0.0, *, sides: int = 2
) -> tuple[WiredJob, ...]:
    """Wiring and start of every job of a plan.

    Circuits that hang together in a plane (components of an interface's arcs) are set on one side, the one left first;
    components are independent, and panels work side by side.

    Args:
        layer: numbers of planes and servers; `sides` panels stand behind every interface.
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
        wirings = []
        for plane, interface, ranks in _components(job):
            at = servers[ranks]
            left = left_at[:, plane, at].max(axis=1)
            side = int(left.argmin())
            begin = max(job.known_s, float(left[side]))
            circuits = int((job.shape.arcs[interface, ranks] >= 0).sum())
            wirings.append(Wiring(plane, side, tuple(at.tolist()), circuits, begin, begin + panel_s))
        ready = max(job.known_s, float(free_at[servers].max()))
        start = max([ready, *(wiring.done_s for wiring in wirings)]) + turn_s
        end = start + job.duration_s
        for wiring in wirings:
            left_at[wiring.side, wiring.plane, list(wiring.servers)] = end
        free_at[servers] = end
        wired.append(WiredJob(job.name, ready, start, end, tuple(wirings)))
    return tuple(wired)


def _components(job: PlannedJob) -> Iterator[tuple[int, int, Ints]]:
    """(plane, interface, ranks) of the circuits that hang together."""
    parts = parts_of(job.shape)
    for group in parts.groups:
        for interface in group.interfaces:
            for e in range(group.components):
                atoms = [parts.atoms[q] for q in np.flatnonzero(group.component == e).tolist()]
                yield job.shard.planes[interface], interface, np.sort(np.concatenate(atoms))
