"""Annealed random graphs: regular, connected, few hops, the same for a seed, and in the loop a better plan."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from solvers.job.candidate_topologies import annealed_topologies
from solvers.job.loop import LoopSettings, TopologyStep, with_one_of
from solvers.job.starts import data_parallel
from solvers.network.finder import candidate_topologies
from solvers.stop import Stop
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand, Operator, OperatorInput, Split, Workload
from topoopt.simulate.network import demand_of

BOTH, ONE_WAY = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL


def hops(topology: Topology, traffic: np.ndarray) -> float:
    """Sum of traffic times hops, by networkx."""
    graph = nx.DiGraph(topology.arcs.tolist())
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    n = topology.servers
    return sum(traffic[i, j] * lengths[i][j] for i in range(n) for j in range(n) if i != j)


@pytest.mark.parametrize("links", [BOTH, ONE_WAY])
@pytest.mark.parametrize(("n", "degree"), [(6, 2), (7, 3), (9, 4), (16, 3), (16, 4), (31, 2), (12, 20), (13, 20)])
def test_topologies_are_regular_connected_and_repeatable(n: int, degree: int, links: LinkDirection) -> None:
    cluster = Cluster(n, 1, degree, 100.0, links)
    traffic = np.random.default_rng(n).random((n, n)) ** 4
    np.fill_diagonal(traffic, 0.0)
    found = list(annealed_topologies(cluster, Demand(traffic, ()), count=2, seed=5))
    again = list(annealed_topologies(cluster, Demand(traffic, ()), count=2, seed=5))
    assert [each.arcs.tobytes() for each in found] == [each.arcs.tobytes() for each in again]
    assert found
    for each in found:
        graph = nx.DiGraph(each.arcs.tolist())
        assert nx.is_strongly_connected(graph)
        assert graph.number_of_nodes() == n
        sent = np.bincount(each.arcs[:, 0], each.multiplicity, minlength=n)
        received = np.bincount(each.arcs[:, 1], each.multiplicity, minlength=n)
        assert max(sent.max(), received.max()) <= degree
        assert sent.sum() >= n * degree - (n * degree % 2 if links is BOTH else 0)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_small_clusters_and_no_traffic_have_none(n: int) -> None:
    everyone = np.ones((n, n)) - np.eye(n)
    assert not list(annealed_topologies(Cluster(n, 1, 2, 100.0, BOTH), Demand(everyone, ()), count=3, seed=0))
    assert not list(
        annealed_topologies(Cluster(16, 1, 4, 100.0, BOTH), Demand(np.zeros((16, 16)), ()), count=3, seed=0)
    )
    assert not list(
        annealed_topologies(Cluster(16, 1, 1, 100.0, ONE_WAY), Demand(np.ones((16, 16)), ()), count=3, seed=0)
    )


def test_hops_are_fewer_than_those_of_circulants_and_no_fewer_than_moores() -> None:
    """All-to-all traffic of 64 servers of degree 4: at most 4, 12, 36 servers are 1, 2, 3 hops away."""
    n = 64
    traffic = np.ones((n, n)) - np.eye(n)
    for each in annealed_topologies(Cluster(n, 1, 4, 100.0, BOTH), Demand(traffic, ()), count=2, seed=1):
        mean = hops(each, traffic) / (n * (n - 1))
        assert (4 * 1 + 12 * 2 + 36 * 3 + 11 * 4) / 63 <= mean <= 3.1
    # The best of all circulants {1, p} of 64 servers: 12 at 3 hops, not 36.
    best = min(
        hops(Topology.of_arcs(n, np.array([(i, (i + s) % n) for i in range(n) for s in (1, -1, p, -p)])), traffic)
        for p in range(2, 32)
    )
    assert best / (n * (n - 1)) > 3.6


def test_the_portfolio_has_a_faster_one_where_all_servers_send_to_all() -> None:
    """Tables on single servers, read by all: fewer hops than on any circulant of the portfolio, and less time."""
    n = 32
    wide = (Split(n, 0.01, 0.02, 0),)
    tables = [
        Operator(f"table{i}", "embedding", 200_000, 4, (), (), (Split(1, 0.01, 0.02, 0),), locally_reduced=False)
        for i in range(n)
    ]
    reads = tuple(OperatorInput(i) for i in range(n))
    workload = Workload("job", 16 * n, (*tables, Operator("dense", "dense", 4096, 4, (1_000_000,), reads, wide)))
    cluster = Cluster(n, 1, 4, 10.0, BOTH)
    step = TopologyStep(cluster, workload, LoopSettings(0, 8), seed=0, stop=Stop())
    strategy = data_parallel(n, workload)
    best = step.portfolio("start", strategy, limit=8)[0]
    assert best.realisation.topology.origin == "annealed random graph"
    demand = demand_of(step.graph(strategy))
    circulants = candidate_topologies(cluster, demand, limit=8)
    least = min(hops(each, demand.model_parallel_bytes) for each in circulants)
    assert hops(best.realisation.topology, demand.model_parallel_bytes) < 0.9 * least


@pytest.mark.parametrize(
    ("grouped", "most", "order"),
    [
        ({3, 4}, 2, [0, 3, 1, 2, 4]),
        ({3}, 3, [0, 1, 3, 2, 4]),
        ({1, 4}, 2, [0, 1, 2, 3, 4]),  # one is among them
        ({4}, 1, [0, 1, 2, 3, 4]),  # the best alone is looked at
        (set(), 2, [0, 1, 2, 3, 4]),
    ],
)
def test_one_topology_in_groups_is_simulated_by_rounds(grouped: set[int], most: int, order: list[int]) -> None:
    """The best of them takes the last of the places, and no other is lost."""
    ranked = [(10.0 + place, place, None) for place in range(5)]
    assert [place for _, place, _ in with_one_of(grouped, ranked, most)] == order  # type: ignore[arg-type]
