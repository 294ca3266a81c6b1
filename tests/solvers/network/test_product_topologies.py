"""Products of circulants: experts on groups of equally spaced servers send inside blocks only, in a plan that is
faster."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from solvers.job.candidate_topologies import product_topologies
from solvers.job.loop import LoopSettings, TopologyStep
from solvers.job.realise import realise, split_routed
from solvers.job.starts import layers_on_cosets
from solvers.stop import Stop
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.workload import AllReduceDemand, Demand, Operator, OperatorInput, Split, Workload

BOTH = LinkDirection.BIDIRECTIONAL


def in_blocks(n: int, size: int) -> Demand:
    """One byte between all servers of a block of n / size, and AllReduces in the groups across blocks."""
    groups = n // size
    block = np.arange(n) // groups
    traffic = np.equal.outer(block, block).astype(float)
    np.fill_diagonal(traffic, 0.0)
    return Demand(traffic, tuple(AllReduceDemand(tuple(range(o, n, groups)), 1e6) for o in range(groups)))


@pytest.mark.parametrize(("n", "size", "degree"), [(16, 4, 4), (32, 8, 4), (32, 8, 6), (64, 32, 4)])
def test_they_are_cartesian_products(n: int, size: int, degree: int) -> None:
    """Links join servers of a block, the same in each, or of a group, the same in each."""
    groups = n // size
    topologies = list(product_topologies(Cluster(n, 1, degree, 100.0, BOTH), in_blocks(n, size)))
    assert topologies
    for topology in topologies:
        graph: nx.Graph[int] = nx.Graph(topology.arcs.tolist())
        assert nx.is_connected(graph)
        assert np.bincount(topology.arcs[:, 0], topology.multiplicity, minlength=n).tolist() == [degree] * n
        group = nx.relabel_nodes(graph.subgraph(range(0, n, groups)), {v: v // groups for v in range(0, n, groups)})
        product = nx.cartesian_product(group, graph.subgraph(range(groups)))
        expected = {frozenset((a * groups + b, c * groups + d)) for (a, b), (c, d) in product.edges}
        assert {frozenset(edge) for edge in graph.edges} == expected


def test_there_are_none_without_groups_or_traffic_in_blocks() -> None:
    cluster, demand = Cluster(16, 1, 4, 100.0, BOTH), in_blocks(16, 4)
    everyone = (AllReduceDemand(tuple(range(16)), 1e6),)
    assert not list(product_topologies(cluster, Demand(demand.model_parallel_bytes, everyone)))
    assert not list(product_topologies(cluster, Demand(np.zeros((16, 16)), demand.allreduce)))
    # A server sends 3 bytes inside its block, and 3 to other blocks: half, which is no more than half.
    half = demand.model_parallel_bytes.copy()
    half[np.arange(16)[:, None], (np.arange(16)[:, None] + [4, 8, 12]) % 16] = 1.0
    assert not list(product_topologies(cluster, Demand(half, demand.allreduce)))
    half[0, 4] = 0.5
    assert list(product_topologies(cluster, Demand(half, demand.allreduce)))


def test_split_routes_load_all_links_of_a_block_alike() -> None:
    """A cycle of four: pairs at one hop 8, at two hops 4, so 16 bytes times hops on eight arcs."""
    cluster, demand = Cluster(16, 1, 4, 100.0, BOTH), in_blocks(16, 4)
    topology = next(iter(product_topologies(cluster, demand)))
    base = realise(cluster, topology, [group.members for group in demand.allreduce])
    routes = split_routed(cluster, base, demand.model_parallel_bytes).routes
    load: dict[tuple[int, int], float] = {}
    for index, (source, target) in enumerate(zip(routes.source.tolist(), routes.target.tolist(), strict=True)):
        for path in range(int(routes.pair_ptr[index]), int(routes.pair_ptr[index + 1])):
            for hop in pairwise(routes.path(path)):
                sent = float(demand.model_parallel_bytes[source, target] * routes.share[path])
                load[hop] = load.get(hop, 0.0) + sent
    assert sorted(load[hop] for hop in load if hop[0] // 4 == hop[1] // 4) == pytest.approx([2.0] * 32)


def experts(n: int) -> Workload:
    """Two layers of eight experts, each of which reads some samples of all servers."""

    def splits() -> tuple[Split, ...]:
        return tuple(Split(k, 0.1 * n / k, 0.2 * n / k, 0) for k in (n, n // 4))

    every = (Split(n, 0.1, 0.2, 0),)
    operators = [Operator("tokens", "dense", 1024, 4, (1000,), (), every)]
    for layer in range(2):
        source = len(operators) - 1
        operators += [
            Operator(f"{layer}-{e}", "dense", 1024, 4, (1_000_000,), (OperatorInput(source),), splits())
            for e in range(8)
        ]
        reads = tuple(OperatorInput(source + 1 + e) for e in range(8))
        operators.append(Operator(f"{layer}-sum", "dense", 1024, 4, (1000,), reads, every))
    return Workload("experts", 64 * n, tuple(operators))


def test_the_portfolio_takes_a_product_for_experts_in_blocks() -> None:
    """Nothing of the others has blocks of cycles: a circulant of 32 servers with the distance 1 joins all blocks."""
    workload, cluster = experts(32), Cluster(32, 1, 4, 10.0, BOTH)
    strategy = layers_on_cosets(32, workload, 8, 0)
    assert strategy is not None
    step = TopologyStep(cluster, workload, LoopSettings(0, 24), seed=0, stop=Stop())
    best = step.portfolio("start", strategy, limit=24)[0].realisation
    assert best.topology.origin.startswith("product of circulants")
    assert best.tailored  # routes are split for the tokens
