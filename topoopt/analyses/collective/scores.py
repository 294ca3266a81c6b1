"""What a topology is worth to collectives: steps, bandwidth factor and All-to-All rate, beside what any can reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from solvers.collective.breadth_first import step_loads
from solvers.collective.paths import shortest_path_rate
from topoopt.core.arrays import Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.graphs import SemidirectGroup, UnitGraph, moore_bound
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.topology_families import family_arcs

Recipe = Mapping[str, Any]
"""A section `topology` of instance files: a family with its sizes."""

ALIKE = frozenset(
    {"ring", "torus", "hypercube", "complete", "circulant", "cayley", "distance-regular", "complete-bipartite"}
)
"""Families that look the same from every server (bipartite ones with equal sides)."""
CLOSE = 1e-7
"""Relative difference of rates that does not count."""


@dataclass(frozen=True)
class Wanted:
    """Servers, links of each, and their kind."""

    servers: int
    degree: int
    links: LinkDirection


@dataclass(frozen=True)
class ScoredTopology:
    """A topology and its figures; a link has the rate 1.

    Attributes:
        recipe: how to build it.
        steps: T_L of breadth-first broadcasts, its diameter.
        bandwidth: T_B: a ReduceScatter or AllGather of M bytes takes T_L latencies and T_B M / (d b).
        all_to_all: rate of every ordered pair along shortest paths.
    """

    recipe: Recipe
    steps: int
    bandwidth: Fraction
    all_to_all: float

    def no_worse(self, other: ScoredTopology) -> bool:
        """Whether it is at least as good in all three."""
        return (
            self.steps <= other.steps
            and self.bandwidth <= other.bandwidth
            and self.all_to_all >= other.all_to_all * (1 - CLOSE)
        )


@dataclass(frozen=True)
class TopologyLimits:
    """Bounds over all topologies of so many servers and links.

    Attributes:
        steps: Moore bound.
        bandwidth: (N - 1) / N, as N - 1 shards must come over d links.
        all_to_all: d over the least sum of distances.
    """

    steps: int
    bandwidth: Fraction
    all_to_all: float


def topology_limits(wanted: Wanted) -> TopologyLimits:
    """The bounds.

    Raises:
        ValueError: so few links cannot connect the servers.
    """
    moore = moore_bound(wanted.servers, wanted.degree, wanted.links)
    n = wanted.servers
    return TopologyLimits(moore.diameter, Fraction(n - 1, n), wanted.degree / moore.distances)


def front(candidates: Iterable[ScoredTopology]) -> list[ScoredTopology]:
    """Those that no other is at least as good as, by steps; of equals the first."""
    kept: list[ScoredTopology] = []
    for one in candidates:
        if not any(other.no_worse(one) for other in kept):
            kept = [other for other in kept if not one.no_worse(other)] + [one]
    return sorted(kept, key=lambda one: (one.steps, one.bandwidth))


def built(recipe: Recipe) -> UnitGraph:
    """The topology of a recipe.

    Raises:
        InputError: there is none.
    """
    given = {key: value for key, value in recipe.items() if key != "family"}
    return family_arcs(recipe["family"], given, seed=0, max_servers=MAX_SERVERS)


def unit_network(graph: UnitGraph) -> RatedNetwork:
    """All links of rate 1."""
    links = [(tail, head, Fraction(1)) for tail, head in graph.arcs.tolist()]
    return RatedNetwork.of_links([False] * graph.servers, links)


def adds_nothing(best: Iterable[ScoredTopology], steps: int, limits: TopologyLimits) -> bool:
    """Whether one of these has no more steps and the best bandwidth factor there is; only All-to-All could gain."""
    return any(one.steps <= steps and one.bandwidth == limits.bandwidth for one in best)


def scored(recipe: Recipe, wanted: Wanted, best: Sequence[ScoredTopology] = ()) -> ScoredTopology | None:
    """The figures of a recipe.

    None where it is not connected, has another number of servers, or more links, or adds nothing to the best.
    """
    graph = built(recipe)
    if graph.servers != wanted.servers:
        return None
    for side in range(2):
        if np.bincount(graph.arcs[:, side]).max() > wanted.degree:
            return None
    network = unit_network(graph)
    if wanted.links is LinkDirection.BIDIRECTIONAL:
        back = network.transposed()
        if not (np.array_equal(network.arcs, back.arcs) and np.array_equal(network.units, back.units)):
            return None
    if network.unreachable() is not None:
        return None
    if best and adds_nothing(best, diameter(network), topology_limits(wanted)):
        return None
    found = step_loads(network, alike=recipe["family"] in ALIKE)
    factor = Fraction(wanted.degree, graph.servers) * sum(found.loads)
    rate = shortest_path_rate(network, found.distance, generator_labels(recipe, network))
    return ScoredTopology(recipe, found.steps, factor, rate)


def diameter(network: RatedNetwork) -> int:
    """Most hops between two servers of a connected network."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    shape = (network.nodes, network.nodes)
    links = csr_array((np.ones(len(network.arcs)), (network.arcs[:, 0], network.arcs[:, 1])), shape=shape)
    return int(shortest_path(links, unweighted=True).max())


def generator_labels(recipe: Recipe, network: RatedNetwork) -> Ints | None:
    """int64[m], the generator that each arc of a Cayley digraph belongs to; None for other topologies."""
    tails, heads = network.arcs.T.astype(np.int64)
    if recipe["family"] in ("ring", "circulant"):
        generator = (heads - tails) % network.nodes
    elif recipe["family"] == "cayley":
        group = SemidirectGroup(recipe["modulus"], recipe["order"], recipe["twist"])
        inverses = np.array([group.inverse(x) for x in range(group.elements)])
        generator = group.products(inverses[tails], heads)
    else:
        return None
    return np.unique(generator, return_inverse=True)[1].astype(np.int64)
