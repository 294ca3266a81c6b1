"""Topologies made for collectives, and the score of any topology by steps, bandwidth factor and all-to-all.

On schedules AllReduces need no rings, so that any regular graph of small diameter whose breadth-first broadcasts
balance will do: Cayley digraphs of Z_m x| Z_k stand beside the portfolio of circulants (arXiv 2202.03356).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from solvers.collective.breadth_first import step_loads
from solvers.collective.cayley_search import MOST_DEGREE, search_cayley
from solvers.job.scheduled import Sizes, allreduce_sizes, group_network
from solvers.network.constructions.assemble import assemble
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.routing import Demand
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph

VISITS = 2_000_000
"""Links followed in a search for Cayley digraphs: well under a second."""

MOST_STEPS = 12

BEST_SCORED = 2
"""Topologies, the best by score, that are simulated."""


@dataclass(frozen=True)
class GraphScore:
    """What a topology is worth to collectives of all servers.

    Attributes:
        steps: T_L of breadth-first broadcasts, the diameter.
        bandwidth: T_B: one takes T_B M / B, where a server sends at rate B.
        hops: mean distance; an all-to-all takes at least hops times what a server sends, over B.
    """

    steps: int
    bandwidth: Fraction
    hops: float

    def time_ms(self, cluster: Cluster, sizes: Sizes, model_parallel_bytes: float) -> float:
        """All AllReduces of all servers one after the other, and model-parallel traffic as if it were an all-to-all."""
        rate = cluster.degree * cluster.link_bytes_per_ms
        own = sizes.get(tuple(range(cluster.servers)), ())
        latency_ms = cluster.ring_round_latency_us / 1000
        reduced = sum(2 * (self.steps * latency_ms + float(self.bandwidth) * size / rate) for size in own)
        return reduced + self.hops * model_parallel_bytes / (cluster.servers * rate)


def graph_score(cluster: Cluster, topology: Topology) -> GraphScore:
    """The score of a connected topology."""
    n = cluster.servers
    network = group_network(cluster, topology, tuple(range(n)))
    found = step_loads(network)
    units = Fraction(int(cluster.degree * network.units.sum()), int(topology.multiplicity.sum()))
    return GraphScore(
        found.steps, sum(found.loads, Fraction(0)) * units / n, float(found.distance.sum()) / (n * (n - 1))
    )


def cayley_topologies(cluster: Cluster, stop: Stop, *, seed: int) -> list[Topology]:
    """Cayley digraphs with the best breadth-first broadcasts found of every number of steps."""
    n, degree = cluster.servers, cluster.degree
    if degree > min(n - 1, MOST_DEGREE):
        return []
    found = search_cayley(n, degree, cluster.links, stop, visits=VISITS, most_steps=MOST_STEPS, seed=seed)
    return [
        assemble(
            n,
            degree,
            cluster.links,
            [one.group.arcs(one.generators)],
            f"Cayley graph of Z_{one.group.modulus} x| Z_{one.group.order} (twist {one.group.twist}), generators "
            f"{', '.join(map(str, one.generators))}",
        )
        for one in found
    ]


class CollectiveGraphs:
    """Scores of topologies for the collectives of one job, each found once."""

    def __init__(self, cluster: Cluster, stop: Stop, *, seed: int) -> None:
        self.cluster, self.stop, self.seed = cluster, stop, seed
        self._scores: dict[bytes, GraphScore] = {}
        self._cayley: list[Topology] | None = None

    def best(self, topologies: Sequence[Topology], graph: TaskGraph, demand: Demand) -> list[Topology]:
        """Of these and of Cayley digraphs those of the least estimated time for a strategy's traffic, best first."""
        if self._cayley is None:
            self._cayley = cayley_topologies(self.cluster, self.stop, seed=self.seed)
        sizes, moved = allreduce_sizes(graph), float(demand.model_parallel_bytes.sum())
        both = (*topologies, *self._cayley)
        times = [self.score(one).time_ms(self.cluster, sizes, moved) for one in both]
        return [both[place] for place in np.argsort(times, kind="stable")[:BEST_SCORED]]

    def score(self, topology: Topology) -> GraphScore:
        """The score of a connected topology."""
        key = topology.arcs.tobytes() + topology.multiplicity.tobytes()
        if key not in self._scores:
            self._scores[key] = graph_score(self.cluster, topology)
        return self._scores[key]
