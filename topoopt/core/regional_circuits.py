"""Kind `regional-circuits`: one optical switch joins servers step by step, beside an electrical network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le, Len, Lt

from topoopt.core.arrays import Floats, Ints
from topoopt.core.data import STRICT, Shown
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate
from topoopt.core.search_settings import ProblemBase, SearchSettings

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

    Attributes
    ----------
    servers : n.
    ports : n numbers, circuits that may end at each server.
    circuit_rate : bytes a second of a circuit, in each direction.
    electrical_rate : bytes a second of the electrical interfaces of a server together, in each direction.
    demands : float64[K, n, n], bytes from server to server in each step; zero diagonals.
    split : whether a pair with circuits may use the electrical network as well.
    delay_s : of the optical switch.
    windows_s : K numbers, seconds before each step that hide the delay.
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

    Parameters
    ----------
    first, last : steps, both included.
    bound_s : seconds of the transfers of these steps together, above 0.
    tree : splits in the order in which boxes are visited.
    multipliers : 3 n numbers for every closed box: of ports, of what leaves, of what reaches each server.
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
