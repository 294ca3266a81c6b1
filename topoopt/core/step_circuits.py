"""Circuits of one optical switch over steps that follow each other: which of its ports are joined in which step."""

from __future__ import annotations

from dataclasses import dataclass

PortPair = tuple[int, int]
"""Two ports of the switch, joined for both directions; the smaller number first, from 0."""


@dataclass(frozen=True)
class StepCircuits:
    """A step.

    Attributes:
        stall_ns, transfer_ns: what it waits for circuits, and what its transfers take.
        lit: circuits that it sends over, by number; ascending.
        disconnect, connect: what is cut and what is set before it; ascending.
    """

    stall_ns: int
    transfer_ns: int
    lit: tuple[int, ...]
    disconnect: tuple[int, ...]
    connect: tuple[int, ...]


@dataclass(frozen=True)
class SwitchedSteps:
    """All steps.

    Attributes:
        circuits: by number, as they are first set.
        steps: in order.
    """

    circuits: tuple[PortPair, ...]
    steps: tuple[StepCircuits, ...]
