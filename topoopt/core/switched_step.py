"""What a step on circuits that are set anew comes to: events, windows, and a study over delays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from topoopt.core.shown import Shown
from topoopt.core.switching import PortSplit, PortUse, StagePorts


class SwitchMode(StrEnum):
    """When circuits are asked for."""

    ON_DEMAND = "on-demand"
    PROVISIONED = "provisioned"


class Boundary(StrEnum):
    """Where the ports of a stage may change what they serve."""

    DATA_TO_PIPELINE = "data-to-pipeline"  # at the begin of a step: to what the passes need first
    INSIDE_TO_PIPELINE = "inside-to-pipeline"  # behind a pass
    PIPELINE_TO_INSIDE = "pipeline-to-inside"  # before the next
    PIPELINE_TO_DATA = "pipeline-to-data"  # behind the last pass


@dataclass(frozen=True)
class RailEvent:
    """Something that a stage does for a time.

    Attributes:
        rank: the stage.
        what: `forward`, `backward`, `inputs`, `weights`, `send`, `gather`, `reduce`, `switch`, `optimizer`.
        begin_s, end_s: seconds from the begin of the step; those before it are of the step before.
        micro_batch, stage: of a pass, and of what is sent of it; -1 else.
        peer: the rank that it is sent to; -1 else.
        before, after, boundary: what the ports serve, of a switch, and where it stands.
    """

    rank: int
    what: str
    begin_s: float
    end_s: float
    micro_batch: int = -1
    stage: int = -1
    peer: int = -1
    before: PortSplit | None = None
    after: PortSplit | None = None
    boundary: Boundary | None = None


@dataclass(frozen=True, order=True)
class PortChange:
    """The ports of a stage begin to be set anew.

    Attributes:
        rank: the stage.
        begin_s: seconds from the begin of the step; what is before it is of the step before.
        boundary: where it stands.
        after: what the ports serve then.
    """

    rank: int
    begin_s: float
    boundary: Boundary
    after: PortSplit


def changes_of(events: Iterable[RailEvent]) -> tuple[PortChange, ...]:
    """Those among events of a step, by rank and time."""
    found = [
        PortChange(one.rank, one.begin_s, one.boundary, one.after)
        for one in events
        if one.boundary is not None and one.after is not None
    ]
    return tuple(sorted(found, key=lambda one: (one.rank, one.begin_s)))


class PortAction(StrEnum):
    """What happens to the ports of a stage at a boundary."""

    KEEP = "keep"
    SPLIT = "split"  # they serve several uses then
    PART = "switch part"
    ALL = "switch all"


def action(before: PortSplit, after: PortSplit) -> PortAction:
    """Between two splits."""
    if before == after:
        return PortAction.KEEP
    if sum(after.of(use) > 0 for use in PortUse) > 1:
        return PortAction.SPLIT
    stay = sum(min(before.of(use), after.of(use)) for use in PortUse)
    return PortAction.PART if stay else PortAction.ALL


@dataclass(frozen=True, eq=False, repr=False)
class SwitchedStep(Shown):
    """One step on circuits.

    Attributes:
        mode, delay_s: when circuits are asked for, and how long they take.
        plan: ports of each stage.
        step_s: seconds of the step.
        electrical_s: on a network that gives each exchange the whole rate of a GPU, all at once.
        bound_s: no plan of ports takes less with this delay.
        switches: times that the ports of a stage are set anew, over all stages.
        exposed_s: what the step would gain if switching took no time.
        events: by rank and time.
    """

    mode: SwitchMode
    delay_s: float
    plan: tuple[StagePorts, ...]
    step_s: float
    electrical_s: float
    bound_s: float
    switches: int
    exposed_s: float
    events: tuple[RailEvent, ...] = ()


@dataclass(frozen=True)
class BoundaryFigures:
    """What setting ports at one boundary costs; at all others they are set in no time.

    Attributes:
        boundary: which.
        action: what most stages do there.
        switches: times that ports are set there in a step, over all stages.
        window_s: the longest delay that costs nothing; infinite: any.
        stall_s: what the delay of the instance costs.
        break_even_s: the longest delay with which the step is faster than on one static topology; 0: none, infinite:
            any.
    """

    boundary: Boundary
    action: PortAction
    switches: int
    window_s: float
    stall_s: float
    break_even_s: float


@dataclass(frozen=True)
class StragglerFigures:
    """A step one of whose stages is slow.

    Attributes:
        rank: the stage.
        step_s: seconds of the step on the ports of the plan.
        electrical_s: the same on a network that gives every exchange the whole rate of a GPU, all at once.
    """

    rank: int
    step_s: float
    electrical_s: float


EVERY_STAGE = -1
"""In place of a stage: a failure that strikes all servers, as that of the switches of rails."""


@dataclass(frozen=True)
class FailedFigures:
    """A step after interfaces failed.

    Attributes:
        rank: the stage that one server has so many fewer of; `EVERY_STAGE`: all servers have.
        step_s: seconds of the step on the ports of the plan.
        electrical_s: the same on a network that gives every exchange the whole rate of what is left, all at once.
    """

    rank: int
    step_s: float
    electrical_s: float


@dataclass(frozen=True, eq=False, repr=False)
class RailStudy(Shown):
    """Switching inside the steps of one strategy.

    Attributes:
        ports, circuit_gbps: of a GPU, and of a circuit in each direction.
        electrical_s: the step on a network that gives every exchange the whole rate of a GPU, all at once.
        static_s: the step on the best topology that is never switched; infinite: there is none.
        static: what that is.
        steps: one for each mode and delay, without events.
        shown: at the delay and in the mode of the instance, with its events.
        boundaries: of that step.
        slowdown: passes of one stage take so many times as long in `stragglers`.
        stragglers: that step with each stage slow in turn; empty: not asked for.
        failed: interfaces of a server that are dead in `failures`.
        failures: that step with these in all servers, then in one of each stage in turn; empty: not asked for.
    """

    ports: int
    circuit_gbps: float
    electrical_s: float
    static_s: float
    static: str
    steps: tuple[SwitchedStep, ...]
    shown: SwitchedStep
    boundaries: tuple[BoundaryFigures, ...]
    slowdown: float = 1.0
    stragglers: tuple[StragglerFigures, ...] = ()
    failed: int = 0
    failures: tuple[FailedFigures, ...] = ()
