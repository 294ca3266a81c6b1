"""Scores of topologies by steps, bandwidth factor and all-to-all: values known in closed form."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from solvers.job import candidate_topologies as collective_graphs
from solvers.job.candidate_topologies import CollectiveGraphs, cayley_topologies, graph_score, score_ms
from solvers.job.loop import LoopSettings, TopologyStep
from solvers.job.starts import data_parallel, starting_strategies
from solvers.stop import Stop
from tests.support.paths import INSTANCES
from tests.support.verify_cases import circulant, make_cluster, two_layers
from topoopt.core.cluster import LinkDirection
from topoopt.core.result import AllReduceChoice
from topoopt.core.topology import Topology, de_bruijn_arcs
from topoopt.core.workload import Demand
from topoopt.kinds.files import read_instance
from topoopt.simulate.network import build_task_graph

ONE_WAY = LinkDirection.UNIDIRECTIONAL
TOPOLOGIES = 20


def de_bruijn(n, degree):
    """One-way links i -> d i + a, those of a server to itself dropped."""
    arcs = de_bruijn_arcs(n, degree, joined=False)
    return Topology.of_arcs(n, arcs, degree=degree, links=ONE_WAY, origin="de Bruijn")


@pytest.mark.parametrize(
    ("cluster", "topology", "steps", "bandwidth", "hops"),
    [
        # Distances 1 1 2 2 3 3 4; an even ring halves the last shard between both ways.
        (make_cluster(8, 2), circulant(make_cluster(8, 2), [1]), 4, Fraction(7, 8), 16 / 7),
        # One way round all shards pass over every link.
        (make_cluster(8, 1, ONE_WAY), circulant(make_cluster(8, 1, ONE_WAY), [1]), 7, Fraction(7, 8), 4.0),
        # C(16; 3, 4): 4 servers at one hop, 7 at two, 4 at three; loads 1, 7/4, 1 of 4 links.
        (make_cluster(16, 4), circulant(make_cluster(16, 4), [3, 4]), 3, Fraction(15, 16), 30 / 15),
        # De Bruijn (2, 8): the loads double each step, 1 2 4 over 8 servers of 2 links.
        (make_cluster(8, 2, ONE_WAY), de_bruijn(8, 2), 3, Fraction(7, 4), None),
    ],
)
def test_steps_and_factors_of_known_graphs(cluster, topology, steps, bandwidth, hops):
    """Rings and circulants are balanced, de Bruijn graphs are not."""
    *score, distance = graph_score(cluster, topology)
    assert score == [steps, bandwidth]
    if hops is not None:
        assert distance == pytest.approx(hops)


def test_the_estimate_adds_latency_bytes_and_hops():
    """Two gradients of 4 MB: 2 (3 rounds + 7/8 of 2 ms) each; 16 MB over 8 servers of 2 MB a ms and 1.5 hops."""
    cluster = make_cluster(8, 2, ring_round_latency_us=500.0)
    score = 3, Fraction(7, 8), 1.5
    sizes = {tuple(range(8)): (4_000_000, 4_000_000), (0, 4): (9_000_000,)}
    assert score_ms(score, cluster, sizes, 16_000_000) == pytest.approx(2 * 2 * (1.5 + 1.75) + 1.5)


def test_cayley_graphs_are_regular_and_reach_the_bound():
    """16 servers of 4 fibre pairs: all broadcasts balance (15/16); the least diameter is the Moore bound of 3 steps."""
    cluster = make_cluster(16, 4)
    found = cayley_topologies(cluster, Stop(), seed=0)
    for topology in found:
        counts = topology.adjacency()
        assert (counts == counts.T).all()
        assert (counts.sum(axis=0) == 4).all()
    scores = [graph_score(cluster, one) for one in found]
    assert min(score[:2] for score in scores) == (3, Fraction(15, 16))


def test_the_score_prefers_few_hops_for_transfers():
    """With model-parallel traffic alone the ring comes last."""
    cluster = make_cluster(16, 4)
    ring, near = (circulant(cluster, distances) for distances in ([1], [3, 4]))
    graph = build_task_graph(cluster, two_layers(16, 16), data_parallel(16, two_layers(16, 16)))
    demand = Demand(np.full((16, 16), 1e6) * (1 - np.eye(16)), ())
    best = CollectiveGraphs(cluster, Stop(), seed=0).best([ring, near], graph, demand)
    assert all(one is not ring for one in best)


def _portfolio_ms(choice: AllReduceChoice) -> float:
    """Of ncf-16 with every branch on one server, its dense layers in parallel on all."""
    job = read_instance(INSTANCES / "ncf-16.yaml")
    start = next(islice(starting_strategies(job.cluster, job.workload), 1, None))
    settings = LoopSettings(budget=1, topologies=TOPOLOGIES, allreduce=choice)
    step = TopologyStep(job.cluster, job.workload, settings, seed=3, stop=Stop())
    return step.portfolio(start.name, start.strategy, limit=TOPOLOGIES)[0].iteration_time_ms


def test_topologies_that_score_well_are_simulated(monkeypatch):
    """Beside those that are best by a quick simulation, so that times can only fall; here they do."""
    scored = _portfolio_ms(AllReduceChoice.BFB)
    monkeypatch.setattr(collective_graphs, "BEST_SCORED", 0)
    assert scored < 0.95 * _portfolio_ms(AllReduceChoice.BFB)


def test_on_rings_nothing_is_scored(monkeypatch):
    """Rings need link-disjoint cycles, not balanced broadcasts."""

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(collective_graphs, "graph_score", never)
    assert _portfolio_ms(AllReduceChoice.RINGS) > 0
