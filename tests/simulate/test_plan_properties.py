"""Properties of evaluated plans: relabelling servers, more interfaces, routes balanced for the traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.network.rings import group_rings
from solvers.network.routes import balanced_routes, circulant_topology
from tests.support.simulated import times
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, Operator, OperatorInput, Ring, Split, TaskGraph, Workload, strided_groups
from topoopt.page.networks import diameter_and_mean_hops
from topoopt.simulate.fabrics import direct_connect_network
from topoopt.simulate.network import build_task_graph, hop_matrix
from topoopt.simulate.time_models.evaluate import simulate

N = 8


def make_case(distances=(1, 3)):
    """A task graph of tables and dense layers on 8 servers, and its circulant network."""
    wide = tuple(Split(p, 2.0 / p, 4.0 / p, 0) for p in (1, 2, 4, 8))
    tables = [Operator(f"t{i}", "embedding", 3000, 4, (), (), (Split(1, 0.5, 1.0, 0),)) for i in range(3)]
    dense = Operator("d", "dense", 500, 4, (400_000,), tuple(OperatorInput(i) for i in range(3)), wide)
    last = Operator("e", "dense", 1, 4, (900_000,), (OperatorInput(3),), wide)
    workload = Workload("job", 64, (*tables, dense, last))
    from topoopt.core.workload import Placement, Strategy

    strategy = Strategy((Placement(0, 1), Placement(0, 4), Placement(0, 6), Placement(3, 0), Placement(2, 1)))
    cluster = Cluster(N, 1, 2 * len(distances), 10.0)
    topology = circulant_topology(N, cluster.degree, LinkDirection.BIDIRECTIONAL, distances)
    rings = group_rings(topology, strided_groups(N))
    return cluster, topology, balanced_routes(topology), rings, build_task_graph(cluster, workload, strategy)


def relabel(permutation, topology, routes, rings, graph):
    """The same plan with server i called permutation[i]."""
    new = np.asarray(permutation, dtype=np.int32)
    arcs = new[topology.arcs]
    order = np.lexsort((arcs[:, 1], arcs[:, 0]))
    moved = Topology(
        topology.servers,
        topology.degree,
        topology.links,
        arcs[order],
        topology.multiplicity[order],
        topology.switches,
    )
    source, target = new[routes.source], new[routes.target]
    pairs = np.lexsort((target, source))
    paths = [range(int(routes.pair_ptr[i]), int(routes.pair_ptr[i + 1])) for i in pairs]
    picked = [p for each in paths for p in each]
    lengths = [int(routes.path_ptr[p + 1] - routes.path_ptr[p]) for p in picked]
    table = replace(
        routes,
        source=source[pairs],
        target=target[pairs],
        pair_ptr=np.concatenate(([0], np.cumsum([len(each) for each in paths]))).astype(np.int64),
        share=routes.share[picked],
        path_ptr=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        node=np.concatenate([new[routes.node[routes.path_ptr[p] : routes.path_ptr[p + 1]]] for p in picked]),
    )
    renamed = tuple(
        GroupRings(
            tuple(int(new[m]) for m in group.members),
            tuple(
                Ring(
                    tuple(int(new[m]) for m in ring.order),
                    ring.share,
                    tuple(tuple(int(new[v]) for v in path) for path in ring.paths),
                )
                for ring in group.rings
            ),
        )
        for group in rings
    )
    fields = {name: getattr(graph, name) for name in graph.__dataclass_fields__}
    fields["source"] = np.where(graph.source >= 0, new[graph.source], -1).astype(np.int32)
    fields["target"] = np.where(graph.target >= 0, new[graph.target], -1).astype(np.int32)
    fields["groups"] = tuple(tuple(int(new[m]) for m in group) for group in graph.groups)
    return moved, table, renamed, TaskGraph(**fields)


@settings(max_examples=20)
@given(permutation=st.permutations(range(N)))
def test_relabelling_servers_changes_nothing(permutation):
    """Names of servers carry no meaning: equal time by `fluid` and `rounds`, equal link loads after renaming."""
    cluster, topology, routes, rings, graph = make_case()
    network = direct_connect_network(cluster, topology, routes, rings)
    moved, table, renamed, renamed_graph = relabel(permutation, topology, routes, rings, graph)
    other = direct_connect_network(cluster, moved, table, renamed)
    assert times(renamed_graph, other, "fluid")[1].max() == pytest.approx(
        times(graph, network, "fluid")[1].max(), rel=1e-9
    )
    before, after = simulate(graph, network), simulate(renamed_graph, other)
    assert after.iteration_time_ms == pytest.approx(before.iteration_time_ms, rel=1e-9)
    assert sorted(after.link_bytes.tolist()) == pytest.approx(sorted(before.link_bytes.tolist()))


@settings(max_examples=40)
@given(tail=st.integers(0, N - 1), step=st.integers(1, N - 1))
def test_adding_a_link_never_lengthens_a_distance(tail, step):
    """Hop distances with one more arc are at most those without it."""
    topology = circulant_topology(N, 2, LinkDirection.UNIDIRECTIONAL, (1, 3))
    head = (tail + step) % N
    arcs = sorted({*map(tuple, topology.arcs.tolist()), (tail, head)})
    more = replace(
        topology, arcs=np.array(arcs, dtype=np.int32), multiplicity=np.ones(len(arcs), dtype=np.int32), offsets=()
    )
    assert (hop_matrix(more) <= hop_matrix(topology)).all()
    assert diameter_and_mean_hops(more)[1] <= diameter_and_mean_hops(topology)[1]


def test_twice_the_bandwidth_halves_the_network_time_of_a_plan():
    """Rates x 2, compute and latencies / 2: half the time, exactly (powers of two)."""
    cluster, topology, routes, rings, graph = make_case()
    slow = direct_connect_network(cluster, topology, routes, rings)
    fast = direct_connect_network(
        replace(cluster, link_gbps=20.0, hop_latency_us=0.5, ring_round_latency_us=1.05), topology, routes, rings
    )
    quick = TaskGraph(
        **{
            **{name: getattr(graph, name) for name in graph.__dataclass_fields__},
            "duration_ms": graph.duration_ms / 2,
        }
    )
    assert simulate(quick, fast).iteration_time_ms == simulate(graph, slow).iteration_time_ms / 2


def test_link_bytes_are_bytes_times_hops():
    """Bytes over all links = sum over transfers of bytes x hops + AllReduce bytes x ring hops."""
    cluster, topology, routes, rings, graph = make_case()
    outcome = simulate(graph, direct_connect_network(cluster, topology, routes, rings))
    hops = hop_matrix(topology)
    moved = graph.kind == 2
    expected = float((graph.bytes[moved] * hops[graph.source[moved], graph.target[moved]]).sum())
    for group, size in zip(graph.group[graph.kind == 3], graph.bytes[graph.kind == 3], strict=True):
        if group >= 0:
            k = len(rings[group].members)
            for ring in rings[group].rings:
                sent = sum(len(path) - 1 for path in ring.paths)
                expected += 2 * (k - 1) / k * float(size) * ring.share * sent
    assert outcome.link_bytes.sum() == pytest.approx(expected, rel=1e-9)
