"""Kind `parallel-circuits`: one demand is sent once over several optical switches that work at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Le, Len, Lt

from topoopt.core.arrays import Floats, Ints
from topoopt.core.data import STRICT, Shown
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.core.search_settings import ProblemBase, SearchSettings

MAX_SERVERS = 128
MAX_SWITCHES = 16
MAX_CONFIGURATIONS = 100_000
MAX_US = 1e15

Switch = Annotated[int, Ge(0), Lt(MAX_SWITCHES)]
Duration = Annotated[float, Ge(0), Le(MAX_US)]
Targets = Annotated[tuple[Annotated[int, Ge(0), Lt(MAX_SERVERS)], ...], Len(1, MAX_SERVERS)]

Configuration = tuple[Switch, Duration, Targets]
"""Switch, duration in microseconds without the delay, and the server that each server sends to."""


@dataclass(frozen=True, eq=False, repr=False)
class ParallelCircuitsProblem(ProblemBase):
    """Which configurations of s optical switches send a demand in the least time.

    Every server has an interface on every switch. A configuration joins each server to one that it sends to, for a
    duration. Before it all circuits of its switch are dark for the delay. The demand of a pair may be split over
    configurations and switches; nothing is forwarded.

    Attributes
    ----------
    servers, switches : n and s.
    delay_us : of a reconfiguration, microseconds.
    first_pays : whether the first configuration of a switch waits for the delay as well.
    demand_us : float64[n, n], microseconds at the rate of a link, from server to server.
    link_gbps : of an interface; None where the demand is stated in microseconds.
    """

    name: str
    servers: int
    switches: int
    delay_us: float
    first_pays: bool
    demand_us: Floats
    link_gbps: float | None = None
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind: ClassVar[str] = "parallel-circuits"

    @property
    def saved_us(self) -> float:
        """What every switch saves where its first configuration is there before: the makespan is less by that."""
        return 0.0 if self.first_pays else self.delay_us


@dataclass(frozen=True, eq=False, repr=False)
class ParallelCircuitsPlan(Shown):
    """The decisions: the configurations of every switch."""

    __pydantic_config__ = STRICT

    configurations: Annotated[tuple[Configuration, ...], Len(1, MAX_CONFIGURATIONS)]
    """switch, duration in microseconds and, for each server, the server that it sends to; by switch, in order"""

    @classmethod
    def of(cls, switches: Ints, durations_us: Floats, targets: Ints) -> ParallelCircuitsPlan:
        """Return the plan of K configurations: int64[K], float64[K] and int64[K, n]."""
        order = np.lexsort((-durations_us, switches))
        rows = zip(switches[order].tolist(), durations_us[order].tolist(), targets[order].tolist(), strict=True)
        return cls(tuple((switch, duration, tuple(row)) for switch, duration, row in rows))


def price_certificate(length: Floats, start: Floats, whole: Floats, longest_us: float) -> Certificate:
    """Return the proof that no permutation of any duration is worth more than its time, at prices of the pairs.

    Parameters
    ----------
    length, start, whole : float64[n, n], prices of a microsecond, of any piece, and of a piece that serves all.
    longest_us : duration that no configuration of a better plan exceeds.
    """
    arrays = {
        "length": length.ravel(),
        "start": start.ravel(),
        "whole": whole.ravel(),
        "longest_us": np.array([longest_us]),
    }
    return Certificate(Argument.ASSIGNMENT_PRICES, arrays)


def tree_certificate(switches: int, target_us: float, tree: Sequence[int], multipliers: Floats) -> Certificate:
    """Return the proof by cases of which configurations are used.

    Parameters
    ----------
    switches : of the plans that the cases are about: those of the problem, or 1, which bounds any number.
    target_us : makespan that is proven, the delay of first configurations included.
    tree : depth first, the configuration that a case is split by, the half without it first; -1 closes a case.
        Configurations are numbered by switch, then by permutation in the order of `itertools.permutations`; of
        permutations that serve the same pairs there is the first.
    multipliers : float64[closed cases, 2 m + switches], of the length and of the count of each of m pairs, and of
        switches.
    """
    arrays = {
        "switches": np.array([switches], dtype=np.int64),
        "target_us": np.array([target_us]),
        "tree": np.array(tree, dtype=np.int64),
        "multipliers": multipliers.ravel(),
    }
    return Certificate(Argument.CONFIGURATION_TREE, arrays)
