"""What single ranks of a job compute and send in one iteration, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from topoopt.core.hierarchy_workload import Collective


@dataclass(frozen=True)
class ComputeStep:
    """Computing.

    Attributes:
        name: for people.
        time_us: whole microseconds.
        after: places of the steps of the rank that it waits for.
    """

    name: str
    time_us: int
    after: tuple[int, ...]


@dataclass(frozen=True)
class CollectiveStep:
    """A collective.

    Attributes:
        name: for people.
        collective: which.
        group: its number.
        size_bytes: what every rank holds; of an all-gather what it begins with.
        after: places of the steps of the rank that it waits for.
    """

    name: str
    collective: Collective
    group: int
    size_bytes: int
    after: tuple[int, ...]


@dataclass(frozen=True)
class MessageStep:
    """One end of a message.

    Attributes:
        sends: whether the rank sends it, or receives.
        peer: the other rank.
        tag: tells messages between the same ranks apart.
        size_bytes: of it.
        after: places of the steps of the rank that it waits for.
    """

    sends: bool
    peer: int
    tag: int
    size_bytes: int
    after: tuple[int, ...]


RankStep = ComputeStep | CollectiveStep | MessageStep


@dataclass(frozen=True)
class RankTotals:
    """What one rank does, added up.

    Attributes:
        rank: its number.
        steps: how many.
        calls: how often it takes part in a collective, by the number of its group and bytes.
        sent, received: bytes by peer.
        compute_us: of all computing.
    """

    rank: int
    steps: int
    calls: Counter[tuple[Collective, int, int]]
    sent: Counter[int]
    received: Counter[int]
    compute_us: int


class RankProgram(Protocol):
    """One iteration of all ranks; what one of them does is made when it is asked for."""

    @property
    def groups(self) -> Mapping[int, Sequence[int]]:
        """Ranks of the groups that the steps and totals made so far name, by number."""

    def totals(self, rank: int) -> RankTotals:
        """Of a rank, counted without its steps."""

    def steps(self, rank: int) -> list[RankStep]:
        """Of a rank, in an order in which it can take them."""
