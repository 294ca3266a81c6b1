"""Networks for traffic that changes: a set of demand matrices, one topology, and what it is worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from topoopt.core.cluster import LinkDirection
from topoopt.core.network import LengthCertificate, SourceFlow
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shown import Displayed
from topoopt.core.solution import SolutionHead
from topoopt.core.topology import Topology


class RobustMode(StrEnum):
    """Who knows which matrix is there: `common`: nobody, one routing for all; `adapted`: the routing, not the links."""

    COMMON = "common"
    ADAPTED = "adapted"


@dataclass(frozen=True, eq=False, repr=False)
class RobustProblem(Displayed):
    """Least worst theta over a set of demand matrices.

    Attributes:
        name: of the instance.
        servers, degree, links: n, d, and whether links are fibre pairs or single fibres.
        topology: given, or None: to be found.
        demands: float64[k, n, n], zero diagonals, in units of the capacity of one link.
        routing: common to all matrices, or adapted to each.
        step_ms: time a matrix stands for; theta times this is the time its traffic takes. None: not given.
        search: seed and time limit.
        sha256: of the canonical instance.
        notes: what was assumed in reading.
    """

    name: str
    servers: int
    degree: int
    links: LinkDirection
    topology: Topology | None
    demands: NDArray[np.float64]
    routing: RobustMode
    step_ms: float | None = None
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "robust-network"


@dataclass(frozen=True, eq=False)
class CommonRouting:
    """One routing for all matrices, and prices that prove how good it can be.

    Attributes:
        pairs: int64[P, 2], ordered pairs with demand in some matrix.
        split: float64[P, m], part of each pair's traffic over each arc.
        prices: float64[k, m], not negative; see `topoopt.verify.network.robust_routing`.
    """

    pairs: NDArray[np.int64]
    split: NDArray[np.float64]
    prices: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AdaptedRouting:
    """A routing for each matrix, with the lengths that prove how good each can be."""

    flows: tuple[SourceFlow, ...]
    certificates: tuple[LengthCertificate, ...]


@dataclass(frozen=True)
class Sequenced:
    """Total time of all steps at one reconfiguration delay, in steps.

    Attributes:
        delay: of a reconfiguration, in steps.
        one_network: links and routing stay as the solution has them.
        one_rerouted: links stay, routing is adapted to every matrix.
        every_step: each matrix on links and routing of its own.
        best, changes: the best sequence of the topologies at hand, and how often it changes links.
    """

    delay: float
    one_network: float
    one_rerouted: float
    every_step: float
    best: float
    changes: int


@dataclass(frozen=True)
class StepTopologies:
    """Links set anew for every matrix, against one network for all.

    Attributes:
        theta: of each matrix on a topology of its own.
        rerouted: of each matrix on the one topology, routing adapted to it.
        break_even: delay of a reconfiguration, in steps, below which setting the links for every matrix is faster than
            the solution; None where no step wants other links than the one before.
        break_even_rerouted: the same against the one topology with routing adapted to every matrix.
        sequences: by delay.
    """

    theta: tuple[float, ...]
    rerouted: tuple[float, ...]
    break_even: float | None
    break_even_rerouted: float | None
    sequences: tuple[Sequenced, ...]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RobustSolution(SolutionHead):
    """One topology with its routing.

    Attributes, besides those of `SolutionHead`:
        objective: largest theta of all matrices.
        bound: for every topology where it was to be found, else as `routing_bound`.
        mode: of the routing.
        topology: given, or found.
        routing: common or adapted.
        theta: of each matrix.
        routing_bound: proven for this topology and mode.
        steps: comparison with links set anew for every matrix; None if not asked for.
        step_ms: as in the instance.
    """

    kind: str = field(default="robust-network", init=False)
    method: str = "auto"
    mode: RobustMode
    topology: Topology
    routing: CommonRouting | AdaptedRouting
    theta: tuple[float, ...]
    routing_bound: float
    steps: StepTopologies | None
    step_ms: float | None

    @property
    def worst(self) -> float:
        """Largest theta."""
        return max(self.theta)
