"""Circuits of the switches of all rails over a step: which ports are joined in which phase of it, to the nanosecond."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.shown import Shown
from topoopt.core.switching import PortUse


@dataclass(frozen=True, order=True)
class RailCircuit:
    """Two ports of the switch of a rail, joined for both directions.

    Attributes:
        rail: its number.
        port, peer: server times ports of a GPU, and the port of the GPU; from 0.
    """

    rail: int
    port: int
    peer: int


@dataclass(frozen=True, order=True)
class CircuitGroup:
    """Circuits that are set and cut together.

    Attributes:
        use: what they carry.
        stages: one, or two that follow each other.
        circuits: on all rails, ascending.
    """

    use: PortUse
    stages: tuple[int, ...]
    circuits: tuple[RailCircuit, ...]


@dataclass(frozen=True)
class RailPhase:
    """A time in which nothing changes.

    Attributes:
        begin_ns, end_ns: from the begin of the step.
        lit: groups that carry light, by number; ascending.
        dark: groups that are being set: their ports are taken, and carry nothing yet.
    """

    begin_ns: int
    end_ns: int
    lit: tuple[int, ...]
    dark: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class RailTimetable(Shown):
    """One step, which follows itself: its phases stand in a circle.

    Attributes:
        rails, servers, ports: switches; servers, each with so many ports on each of them.
        step_ns, delay_ns: of the step, and from the command to light.
        groups: that are lit at some time.
        phases: in their order, without gaps.
    """

    rails: int
    servers: int
    ports: int
    step_ns: int
    delay_ns: int
    groups: tuple[CircuitGroup, ...]
    phases: tuple[RailPhase, ...]
