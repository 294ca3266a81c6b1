"""When the circuits of planned jobs are set, on which side of the 1x2 switches, and when the jobs start."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.optical_layer import Shard, ShardShape


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
class Wiring:
    """Circuits of one plane that hang together, set at once.

    Attributes:
        plane: whose.
        side: of the 1x2 switches of their interfaces, from 0.
        servers: whose interfaces they join, by rank.
        circuits: how many.
        begin_s, done_s: the panel works on them in between.
    """

    plane: int
    side: int
    servers: tuple[int, ...]
    circuits: int
    begin_s: float
    done_s: float


@dataclass(frozen=True)
class WiredJob:
    """When a job of the plan starts.

    Attributes:
        name: of the job.
        ready_s: known, and all its servers free.
        start_s: it runs; ready and wired, and the 1x2 switches turned.
        end_s: it is over.
        wirings: its circuits.
    """

    name: str
    ready_s: float
    start_s: float
    end_s: float
    wirings: tuple[Wiring, ...]

    @property
    def delay_s(self) -> float:
        """Seconds its servers stand idle for wiring."""
        return self.start_s - self.ready_s

    @property
    def circuits(self) -> int:
        """All its circuits."""
        return sum(wiring.circuits for wiring in self.wirings)

    @property
    def provisioned(self) -> int:
        """Circuits set by the time it was ready."""
        return sum(wiring.circuits for wiring in self.wirings if wiring.done_s <= self.ready_s)
