"""Moving running jobs so that a waiting one fits: what is known of running jobs, and a plan of moves."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.optical_layer import Shard, ShardShape
from topoopt.core.status import Status


@dataclass(frozen=True)
class RunningJob:
    """A job that has a shard.

    Attributes:
        name: for people and in plans; distinct.
        shape: what it asked for.
        shard: what it has.
        remaining_s: seconds it still needs.
        pause_s: seconds it stands still when it moves: state written and read elsewhere, circuits set (see
            `OpticalLayer.switching_time_s`), restart. Infinite: it cannot move.
    """

    name: str
    shape: ShardShape
    shard: Shard
    remaining_s: float
    pause_s: float

    @property
    def move_cost_server_s(self) -> float:
        """Server-seconds that stand still when it moves."""
        return self.pause_s * self.shape.servers


@dataclass(frozen=True)
class Move:
    """A running job from one shard to another; the two may share servers."""

    name: str
    before: Shard
    after: Shard


@dataclass(frozen=True)
class MovePlan:
    """Moves that make room for a waiting job.

    Attributes:
        shard: of the waiting job, free once all moves are made.
        steps: moves, step after step. Jobs of one step pause together, as each needs servers that another leaves; all
            circuits of the step are then set at once. Servers that a step needs are free when it begins, or left in it.
        cost_server_s: server-seconds that stand still, pause_s times servers summed over the jobs moved.
        delay_s: seconds until the waiting job can be wired: the longest pause of each step, summed.
        bound_server_s: no moves cost less.
        proved_by: the argument behind the bound, for people.
        status: OPTIMAL when the cost meets the bound.
    """

    shard: Shard
    steps: tuple[tuple[Move, ...], ...]
    cost_server_s: float
    delay_s: float
    bound_server_s: float
    proved_by: str
    status: Status

    @property
    def moved(self) -> tuple[str, ...]:
        """Names of the jobs that move, in order."""
        return tuple(move.name for step in self.steps for move in step)
