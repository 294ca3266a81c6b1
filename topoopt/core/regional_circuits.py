"""Kind `regional-circuits`: one optical switch joins servers step by step, beside an electrical network. Kind
`parallel-circuits`: one demand is sent once over several optical switches that work at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Le, Len, Lt

from topoopt.core.arrays import Floats, Ints
from topoopt.core.data import STRICT, Shown
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate, ProblemBase, SearchSettings

MAX_SERVERS = 128
MAX_PORTS = 1024
MAX_STEPS = 200
MAX_PAIRS = MAX_SERVERS * (MAX_SERVERS - 1) // 2

RegionServer = Annotated[int, Ge(0), Lt(MAX_SERVERS)]
PairCircuits = tuple[RegionServer, RegionServer, Annotated[int, Ge(1), Le(MAX_PORTS)]]
"""Smaller server, larger server, circuits between them."""

Pair = tuple[int, int]
"""Two servers, the smaller number first."""

Split = tuple[int, int]
"""Pair whose circuits a box is split by, and the largest count of the first half; (-1, 0) closes a box."""


@dataclass(frozen=True, eq=False, repr=False)
class RegionalCircuitsProblem(ProblemBase):
    """How many circuits join each pair of servers of a region in each step, for the least time of all steps.

    A circuit takes a port of the optical switch at both ends, and carries its rate in each direction at the same time.
    A pair with circuits sends over them alone. A pair without circuits sends over the electrical network; all such
    pairs of a server share its electrical interfaces. With `split`, what circuits cannot carry in time goes over the
    electrical network as well. Steps follow each other. Circuits may be reconfigured before a step: that takes the
    delay of the switch, less the window in which the circuits are idle anyway. Those of the first step are set before.

    Attributes:
        servers: n.
        ports: n numbers, circuits that may end at each server.
        circuit_rate: bytes a second of a circuit, in each direction.
        electrical_rate: bytes a second of the electrical interfaces of a server together, in each direction.
        demands: float64[K, n, n], bytes from server to server in each step; zero diagonals.
        split: whether a pair with circuits may use the electrical network as well.
        delay_s: of the optical switch.
        windows_s: K numbers, seconds before each step that hide the delay.
    """

    name: str
    servers: int
    ports: tuple[int, ...]
    circuit_rate: float
    electrical_rate: float
    demands: Floats
    split: bool = False
    delay_s: float = 0.0
    windows_s: tuple[float, ...] = ()
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "regional-circuits"

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The P pairs that send in any step, ascending."""
        sent = self.demands.sum(axis=0)
        first, second = np.nonzero(np.triu(sent + sent.T, 1))
        return tuple(zip(first.tolist(), second.tolist(), strict=True))

    @cached_property
    def stalls_s(self) -> tuple[float, ...]:
        """K numbers: what a reconfiguration before each step costs; nothing before the first."""
        return tuple(max(0.0, self.delay_s - window) if k else 0.0 for k, window in enumerate(self.windows_s))


@dataclass(frozen=True, eq=False, repr=False)
class RegionalCircuitsPlan(Shown):
    """The decisions: the circuits of every step."""

    __pydantic_config__ = STRICT

    topologies: Annotated[tuple[Annotated[tuple[PairCircuits, ...], Len(0, MAX_PAIRS)], ...], Len(1, MAX_STEPS)]
    """each different selection of circuits: smaller server, larger server, circuits; in the order of their first use"""
    steps: Annotated[tuple[Annotated[int, Ge(0), Lt(MAX_STEPS)], ...], Len(1, MAX_STEPS)]
    """index of the topology of each step"""

    @classmethod
    def of(cls, problem: RegionalCircuitsProblem, circuits: Ints) -> RegionalCircuitsPlan:
        """Return the plan with these circuits of every step and pair, int64[K, P]."""
        index: dict[tuple[int, ...], int] = {}
        steps = tuple(index.setdefault(tuple(row), len(index)) for row in circuits.tolist())
        topologies = (zip(problem.pairs, row, strict=True) for row in index)
        return cls(tuple(tuple((*pair, count) for pair, count in rows if count) for rows in topologies), steps)

    def circuits(self, problem: RegionalCircuitsProblem) -> Ints:
        """Return int64[K, P], the circuits of every step and pair."""
        index = {pair: k for k, pair in enumerate(problem.pairs)}
        rows = np.zeros((len(self.topologies), len(index)), dtype=np.int64)
        for row, topology in zip(rows, self.topologies, strict=True):
            for first, second, count in topology:
                row[index[first, second]] = count
        return rows[list(self.steps)]


def box_certificate(
    first: int, last: int, bound_s: float, tree: Sequence[Split], multipliers: Sequence[Floats]
) -> Certificate:
    """Return the proof that no circuits that stay over some steps carry them in less than a time.

    The demands of these steps are added. A box says how many circuits each pair has at least and at most. Boxes are
    split as in the tree, depth first, the half with fewer circuits first. In each closed box the multipliers show that
    no circuits keep ports and electrical interfaces by that time.

    Args:
        first, last: steps, both included.
        bound_s: seconds of the transfers of these steps together, above 0.
        tree: splits in the order in which boxes are visited.
        multipliers: 3 n numbers for every closed box: of ports, of what leaves, of what reaches each server.
    """
    arrays = {
        "steps": np.array([first, last], dtype=np.int64),
        "bound_s": np.array([bound_s], dtype=np.float64),
        "pair": np.array([pair for pair, _ in tree], dtype=np.int64),
        "count": np.array([count for _, count in tree], dtype=np.int64),
        "multipliers": np.concatenate([np.asarray(row, dtype=np.float64) for row in multipliers]),
    }
    return Certificate(Argument.CIRCUIT_PRICES, arrays)


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

    Attributes:
        servers, switches: n and s.
        delay_us: of a reconfiguration, microseconds.
        first_pays: whether the first configuration of a switch waits for the delay as well.
        demand_us: float64[n, n], microseconds at the rate of a link, from server to server.
        link_gbps: of an interface; None where the demand is stated in microseconds.
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

    Args:
        length, start, whole: float64[n, n], prices of a microsecond, of any piece, and of a piece that serves all.
        longest_us: duration that no configuration of a better plan exceeds.
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

    Args:
        switches: of the plans that the cases are about: those of the problem, or 1, which bounds any number.
        target_us: makespan that is proven, the delay of first configurations included.
        tree: depth first, the configuration that a case is split by, the half without it first; -1 closes a case.
            Configurations are numbered by switch, then by permutation in the order of `itertools.permutations`; of
            permutations that serve the same pairs there is the first.
        multipliers: float64[closed cases, 2 m + switches], of the length and of the count of each of m pairs, and of
            switches.
    """
    arrays = {
        "switches": np.array([switches], dtype=np.int64),
        "target_us": np.array([target_us]),
        "tree": np.array(tree, dtype=np.int64),
        "multipliers": multipliers.ravel(),
    }
    return Certificate(Argument.CONFIGURATION_TREE, arrays)
