"""What must hold on every fabric: bytes are conserved; an ideal switch is no slower than a fat-tree of its rate."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fabric_cases import cluster, clusters
from tests.support.simulated import times
from topoopt.analyses.replay import replay
from topoopt.core.workload import TaskGraph, TaskKind, strided_groups
from topoopt.simulate.fabrics import FABRICS, FabricOptions
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.evaluate import simulate

TASKGRAPHS = Path("../shared/data/flexnet/taskgraphs")


def traffic_graph(
    servers: int, transfers: list[tuple[int, int, int]], reductions: list[tuple[int, int]], *, chained: bool = False
) -> TaskGraph:
    """Transfers (source, target, bytes) and AllReduces (group of `strided_groups`, bytes), at once or in turn."""
    rows = [(TaskKind.TRANSFER, s, t, -1, size) for s, t, size in transfers]
    rows += [(TaskKind.ALLREDUCE, -1, -1, group, size) for group, size in reductions]
    count = len(rows)
    kind, source, target, group, size = zip(*rows, strict=True)
    follows = np.arange(1, count) if chained else np.zeros(0)
    return TaskGraph(
        servers=servers,
        kind=np.array(kind, dtype=np.int8),
        source=np.array(source, dtype=np.int32),
        target=np.array(target, dtype=np.int32),
        group=np.array(group, dtype=np.int32),
        duration_ms=np.zeros(count),
        bytes=np.array(size, dtype=np.int64),
        operator=np.full(count, -1, dtype=np.int32),
        successor_ptr=np.minimum(np.arange(count + 1), len(follows)).astype(np.int64),
        successor=follows.astype(np.int32),
        groups=strided_groups(servers),
        operator_names=(),
    )


@st.composite
def graphs(draw: st.DrawFn, servers: int) -> TaskGraph:
    """Some transfers and AllReduces among the servers."""
    server, size = st.integers(0, servers - 1), st.integers(1, 4_000_000)
    drawn = draw(st.lists(st.tuples(server, st.integers(1, servers - 1), size), min_size=1, max_size=12))
    transfers = [(s, (s + step) % servers, amount) for s, step, amount in drawn]
    group = st.integers(0, len(strided_groups(servers)) - 1)
    reductions = draw(st.lists(st.tuples(group, size), max_size=4))
    return traffic_graph(servers, transfers, reductions, chained=draw(st.booleans()))


def walked(network: Network, first: int, last: int, link: np.ndarray, pointer: np.ndarray) -> list[list[int]]:
    """Nodes of the walks `first` to `last` - 1, link by link."""
    walks = []
    for walk in range(first, last):
        ends = network.link_ends[link[pointer[walk] : pointer[walk + 1]]].tolist()
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ends))
        walks.append([ends[0][0], *(b for _, b in ends)])
    return walks


@pytest.mark.parametrize("fabric", FABRICS)
@given(data=st.data())
@settings(max_examples=12)
def test_bytes_are_conserved(fabric: str, data: st.DataObject) -> None:
    """Each link carries what is demanded over it, no more; what every node takes in goes on, or was for it."""
    mine = data.draw(clusters(fabric))
    n = mine.servers
    graph = data.draw(graphs(n))
    network = FABRICS[fabric].build(mine, strided_groups(n), FabricOptions(seed=1))
    nodes = int(network.link_ends.max()) + 1
    place = {(int(a), int(b)): index for index, (a, b) in enumerate(network.link_ends)}
    carried, demanded, balance = np.zeros(network.links), 0.0, np.zeros(nodes)
    for task in range(graph.tasks):
        amount = float(graph.bytes[task])
        if graph.kind[task] == TaskKind.TRANSFER:
            pair = int(graph.source[task]) * n + int(graph.target[task])
            low, high = int(network.pair_ptr[pair]), int(network.pair_ptr[pair + 1])
            walks = walked(network, low, high, network.path_link, network.path_ptr)
            parts = [amount * share for share in network.path_share[low:high]]
            demanded += amount
        else:
            group = int(graph.group[task])
            k = int(network.group_size[group])
            walks, parts = [], []
            for ring in range(int(network.group_ptr[group]), int(network.group_ptr[group + 1])):
                low, high = int(network.ring_ptr[ring]), int(network.ring_ptr[ring + 1])
                walks += walked(network, low, high, network.member_link, network.member_ptr)
                parts += [2 * (k - 1) / k * amount * float(network.ring_share[ring])] * (high - low)
            demanded += 2 * (k - 1) * amount
        for walk, part in zip(walks, parts, strict=True):
            balance[walk[0]] -= part
            balance[walk[-1]] += part
            for a, b in itertools.pairwise(walk):
                carried[place[a, b]] += part
    found = simulate(graph, network).link_bytes
    assert found == pytest.approx(carried, rel=1e-9)
    assert found.sum() >= demanded * (1 - 1e-12)
    arrived = np.bincount(network.link_ends[:, 1], weights=found, minlength=nodes)
    left = np.bincount(network.link_ends[:, 0], weights=found, minlength=nodes)
    assert arrived - left == pytest.approx(balance, abs=1e-6 * max(demanded, 1.0))


@given(data=st.data(), servers=st.integers(3, 16), degree=st.integers(1, 8))
@settings(max_examples=60)
def test_an_ideal_switch_is_no_slower_than_the_fat_tree_of_its_rate(
    data: st.DataObject, servers: int, degree: int
) -> None:
    """Max-min fair flows, in turn or at once: the switch has no inner links to wait for, and shorter rounds."""
    graph = data.draw(graphs(servers))
    mine = cluster(servers, degree)
    ends = [
        times(graph, FABRICS[name].build(mine, strided_groups(servers), FabricOptions(seed=2)), "fluid")[1].max()
        for name in ("ideal-switch", "full-fat-tree", "oversubscribed-fat-tree")
    ]
    assert ends[0] <= min(ends[1:]) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["100dlrm_16", "100vgg_16", "400transformer_16"])
def test_task_graphs_on_the_switch_and_on_fat_trees(name: str) -> None:
    """The published graphs take no less time on a fat-tree of the same rate, nor on one with half its uplinks gone."""
    path = TASKGRAPHS / f"{name}.fbuf"
    if not path.exists():
        pytest.skip(f"shared data absent: {path}")
    ideal, full, half = (
        replay(path, fabric=fabric, time_model="fluid").iteration_time_ms
        for fabric in ("ideal-switch", "full-fat-tree", "oversubscribed-fat-tree")
    )
    assert ideal <= full * (1 + 1e-9)
    assert full <= half * (1 + 1e-9)


def test_two_racks_share_what_oversubscription_leaves() -> None:
    """k = 4, NIC of 400 Gbit/s, 2:1 at the racks: one uplink for two hosts, so each sends at half its rate."""
    n = 16
    transfers = [(0, 8, 50_000_000), (1, 9, 50_000_000)]
    graph = traffic_graph(n, transfers, [])
    groups = strided_groups(n)
    network = FABRICS["oversubscribed-fat-tree"].build(cluster(n, 4), groups, FabricOptions())
    assert times(graph, network, "fluid")[1].max() == pytest.approx(2.0 + 0.006, rel=1e-9)
    slower = FABRICS["oversubscribed-fat-tree"].build(cluster(n, 4), groups, FabricOptions(oversubscription=8.0))
    assert times(graph, slower, "fluid")[1].max() == pytest.approx(8.0 + 0.006, rel=1e-9)
