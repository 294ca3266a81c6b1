"""Collectives whose circuits are set anew between their steps: what is asked, and the least time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SteppedCollective(StrEnum):
    """A collective in steps, in each of which every rank sends as much over the same distance."""

    RING = "ring"  # AllReduce: 2 (n - 1) steps to the neighbours, both ways round
    HALVING_DOUBLING = "halving-doubling"  # AllReduce: recursive halving, then doubling: partners i xor 2^k
    ALL_TO_ALL = "all-to-all"  # to the ranks s before and behind at once, s = 1, 2, ...


@dataclass(frozen=True)
class SwitchedCollective:
    """A collective on circuits.

    A circuit takes a port at both ends and carries the rate each way. Circuits of distance s join rank i to i + s and
    i - s, half of the ports each; partners i xor 2^k are joined by all ports.

    Attributes:
        ranks: n; a power of two for halving and doubling.
        ports: d of a rank, an even number.
        vector_bytes: of the vector that each rank holds.
        bytes_per_s: rate of a circuit in each direction.
        step_s: latency of a step.
    """

    collective: SteppedCollective
    ranks: int
    ports: int
    vector_bytes: float
    bytes_per_s: float
    step_s: float


@dataclass(frozen=True)
class CircuitSchedule:
    """Which circuits each step has.

    Attributes:
        delay_s: to set circuits; all are dark meanwhile.
        steps: distance and bytes that a rank sends, of every step (of all-to-all to either side).
        circuits: for each step what is set: s > 0: circuits of distance s; -2^k: partners i xor 2^k.
        time_s: of all; the first circuits join neighbours.
        never_s: with these all the time.
        every_s: with circuits set for every step whose distance is another one.
        break_even_s: the longest delay with which setting any is faster than never; 0: none is.
    """

    delay_s: float
    steps: tuple[tuple[int, float], ...]
    circuits: tuple[int, ...]
    time_s: float
    never_s: float
    every_s: float
    break_even_s: float

    @property
    def times_set(self) -> int:
        """How often circuits are set."""
        return sum(a != b for a, b in zip((1, *self.circuits), self.circuits, strict=False))
