"""Traces as instances: demand, bytes and times are those of the trace, whatever the kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.chakra_files import node, shared, write
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.workload import Demand, Placement, Strategy, Workload
from topoopt.formats.chakra import CommType, NodeType, TraceContent
from topoopt.formats.chakra.importer import (
    coordinates,
    layers_workload,
    spans_of,
    task_documents,
    tasks_workload,
    topology_document,
    traffic_matrix,
    workload_of_trace,
)
from topoopt.formats.chakra.read import read_chakra

COMP, SEND, COLL = int(NodeType.COMP), int(NodeType.COMM_SEND), int(NodeType.COMM_COLL)


def collective(number: int, kind: CommType, size: int, **more: object) -> bytes:
    return node(number, COLL, comm_type=int(kind), comm_size=size, **more)


def demand_of_workload(workload: Workload, servers: int) -> Demand:
    """Demand of the only strategy of an imported workload, by the simulator."""
    from topoopt.simulate.network import build_task_graph, demand_of

    strategy = Strategy(tuple(Placement(0, operator.pinned_offset or 0) for operator in workload.operators))
    return demand_of(build_task_graph(Cluster(servers, 1, 2, 100.0), workload, strategy))


def test_topology_demand_is_time() -> None:
    """1 835 008 bytes over one link of 100 Gbit/s take 0.14680064 ms, so that is the demand in links."""
    content = read_chakra(shared("chakra/custom_ring_allreduce_8npus_1MB"))
    document = topology_document("x", traffic_matrix(content), degree=1, links="unidirectional", link_gbps=100.0)
    assert document["demand"]["matrix"][0][1] / document["link_gbps"] == pytest.approx(0.14680064, rel=1e-12)


def test_all_reduce_as_workload() -> None:
    """The shared all-reduce becomes one AllReduce of its size over all servers."""
    workload, _notes = workload_of_trace(read_chakra(shared("chakra/all_reduce/8npus_1MB")), 1, 3.0)
    demand = demand_of_workload(workload, 8)
    assert not demand.model_parallel_bytes.any()
    assert [(one.members, one.payload_bytes) for one in demand.allreduce] == [(tuple(range(8)), 1 << 20)]
    assert [operator.splits[0].forward_ms for operator in workload.operators] == [3.0]


def test_all_to_all_as_workload() -> None:
    """The shared all-to-all moves an eighth of its size between every two servers."""
    workload, _notes = workload_of_trace(read_chakra(shared("chakra/all_to_all/8npus_1MB")), 1, 0.0)
    demand = demand_of_workload(workload, 8)
    assert np.array_equal(demand.model_parallel_bytes, (1 << 17) * (1 - np.eye(8)))
    assert not demand.allreduce


def test_ranks_that_share_a_server() -> None:
    """Two ranks a server: the AllReduce between servers keeps its size, the all-to-all adds up."""
    workload, _notes = workload_of_trace(read_chakra(shared("chakra/all_reduce/8npus_1MB")), 2, 0.0)
    demand = demand_of_workload(workload, 4)
    assert [(one.members, one.payload_bytes) for one in demand.allreduce] == [((0, 1, 2, 3), 1 << 20)]
    workload, _notes = workload_of_trace(read_chakra(shared("chakra/all_to_all/8npus_1MB")), 2, 0.0)
    demand = demand_of_workload(workload, 4)
    assert np.array_equal(demand.model_parallel_bytes, 4 * (1 << 17) * (1 - np.eye(4)))


def traced(folder: Path, nodes: dict[int, list[bytes]], **options: object) -> TraceContent:
    write(folder, nodes)
    return read_chakra(folder, **options)  # type: ignore[arg-type]


def test_messages_as_workload(tmp_path: Path) -> None:
    """Messages that go back as they come become operators on two servers; one-way ones are refused."""
    there, back = node(0, SEND, comm_dst=3, comm_size=400), node(0, SEND, comm_dst=1, comm_size=400)
    idle = [node(0, COMP, us=1)]
    content = traced(tmp_path, {0: idle, 1: [there], 2: idle, 3: [back]})
    demand = demand_of_workload(workload_of_trace(content, 1, 1.0)[0], 4)
    assert [(i, j, demand.model_parallel_bytes[i, j]) for i, j in np.argwhere(demand.model_parallel_bytes)] == [
        (1, 3, 400.0),
        (3, 1, 400.0),
    ]
    content = traced(tmp_path, {0: idle, 1: [there], 2: idle, 3: idle})
    with pytest.raises(InputError, match=r"one way only.*400 bytes from server 1 to 3, 0 back.*--as topology"):
        workload_of_trace(content, 1, 1.0)


def test_other_collectives_as_workload(tmp_path: Path) -> None:
    """A reduce-scatter of s and an all-gather of its shards send together what an AllReduce of s sends."""
    nodes = [collective(0, CommType.REDUCE_SCATTER, 4000), collective(1, CommType.ALL_GATHER, 1000)]
    content = traced(tmp_path, dict.fromkeys(range(4), nodes))
    workload, notes = workload_of_trace(content, 1, 0.0)
    (one,) = demand_of_workload(workload, 4).allreduce
    assert one.payload_bytes == 4000
    assert traffic_matrix(content).sum() == 4 * one.wire_bytes_per_member
    assert any("count as all-reduces" in note for note in notes)


def test_groups_without_a_split(tmp_path: Path) -> None:
    """Neighbours are no evenly spaced group; together in a server they are local."""
    groups = tmp_path / "groups.json"
    groups.write_text('{"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]}')
    tensor = {rank: [collective(0, CommType.ALL_REDUCE, 8, pg_name=str(1 + rank // 2))] for rank in range(4)}
    both = {
        rank: [*nodes, collective(1, CommType.ALL_REDUCE, 80, pg_name=str(3 + rank % 2))]
        for rank, nodes in tensor.items()
    }
    content = traced(tmp_path / "both", both, comm_groups=groups)
    with pytest.raises(InputError, match=r"no split for \(value: \(0, 1\)\)"):
        workload_of_trace(content, 1, 0.0)
    workload, notes = workload_of_trace(content, 2, 0.0)
    assert [(one.members, one.payload_bytes) for one in demand_of_workload(workload, 2).allreduce] == [((0, 1), 160)]
    assert any("inside one server" in note for note in notes)
    with pytest.raises(InputError, match="a divisor of 4"):
        workload_of_trace(content, 3, 0.0)


@pytest.mark.parametrize(
    ("members", "spans"),
    [
        (range(24), (2, 3, 4)),
        ((0, 1), (2, 1, 1)),
        ((0, 2, 4), (1, 3, 1)),
        ((1, 7, 13, 19), (1, 1, 4)),
        ((0, 12), (1, 1, 2)),
        ((0, 3), None),
        ((0, 1, 2), None),
        ((0, 6, 12), None),
    ],
)
def test_groups_in_dimensions(members: range, spans: tuple[int, ...] | None) -> None:
    """Products of coordinates whose sizes divide the dimensions are communicators, other groups are not."""
    assert spans_of(tuple(members), coordinates(24, (2, 3, 4)), (2, 3, 4)) == spans


def test_rank_47_of_the_specification() -> None:
    """For sizes [2, 8, 4], rank 47 = (1, 7, 2)."""
    assert coordinates(64, (2, 8, 4))[47].tolist() == [1, 7, 2]


def test_layers_add_up(tmp_path: Path) -> None:
    """Equal collectives add, groups side by side count once, messages pass the dimensions their ends differ in."""
    groups = tmp_path / "groups.json"
    groups.write_text('{"1": [0, 1], "2": [2, 3]}')
    nodes = {
        rank: [
            collective(0, CommType.ALL_REDUCE, 10 + rank // 2, pg_name=str(1 + rank // 2)),
            collective(1, CommType.ALL_GATHER, 5),
            collective(2, CommType.ALL_GATHER, 5),
        ]
        for rank in range(4)
    }
    nodes[1].append(node(3, SEND, comm_dst=2, comm_size=7))
    content = traced(tmp_path / "t", nodes, comm_groups=groups, dims=(2, 2))
    workload, _ = layers_workload(content, (2, 2), 100.0)
    assert workload["communicators"] == {"2x1": [2, 1], "2x2": [2, 2]}
    assert workload["layers"][0]["forward"] == {
        "compute_ns": 100.0,
        "collectives": [
            {"collective": "all-reduce", "bytes": 11.0, "communicator": "2x1"},
            {"collective": "all-gather", "bytes": 10.0, "communicator": "2x2"},
            {"collective": "point-to-point", "bytes": 7.0, "communicator": "2x2"},
        ],
    }


def longest_ns(tasks: list[dict[str, object]]) -> float:
    """Longest path over compute times."""
    end: list[float] = []
    for task in tasks:
        end.append(task["compute_ns"] + max((end[k] for k in task["after"]), default=0.0))  # type: ignore[operator, attr-defined]
    return max(end)


def test_graph(tmp_path: Path) -> None:
    """Chains become one task, forward references are followed, collectives beside compute stay beside it."""
    nodes = [
        node(9, COMP, us=4, after=[7]),  # waits for a node further on
        node(7, COMP, us=3),
        collective(20, CommType.ALL_REDUCE, 64, after=[9]),
        node(30, COMP, us=5, control=[9, 1000]),  # 1000 is not there
        node(31, COMP, us=1, after=[20, 30]),
    ]
    write(tmp_path, dict.fromkeys(range(4), nodes))
    workload, _ = tasks_workload(tmp_path, "job", (2, 2), 4)
    reduce = {"collective": "all-reduce", "bytes": 64.0, "communicator": "2x2"}
    assert [(task["compute_ns"], task["collectives"], task["after"]) for task in workload["tasks"]] == [
        (7000.0, [], []),
        (0.0, [reduce], [0]),
        (5000.0, [], [0]),
        (1000.0, [], [1, 2]),
    ]
    assert longest_ns(workload["tasks"]) == 13_000
    text = "job.0.et: 1 control dependencies on nodes that are not in the trace are taken as met, the first of node 30"
    assert any(f"{text} on node 1000" in note for note in read_chakra(tmp_path).notes)


def test_barriers_move_nothing(tmp_path: Path) -> None:
    """A barrier is no traffic in any kind, even if it states a size."""
    nodes = [collective(0, CommType.BARRIER, 8), node(1, COMP, us=2, after=[0])]
    write(tmp_path, dict.fromkeys(range(4), nodes))
    content = read_chakra(tmp_path)
    assert not traffic_matrix(content).any()
    assert layers_workload(content, (2, 2), 2000.0)[0]["layers"][0]["forward"]["collectives"] == []
    assert tasks_workload(tmp_path, "job", (2, 2), 4)[0]["tasks"][0]["collectives"] == []
    assert not any(operator.weight_elements for operator in workload_of_trace(content, 1, 2.0)[0].operators)


def test_one_node_at_a_time(tmp_path: Path) -> None:
    """Compute nodes that wait for nothing do not run side by side on one rank."""
    write(tmp_path, {0: [node(k, COMP, us=2) for k in range(5)]})
    tasks, _ = task_documents(tmp_path / "job.0.et", lambda *_: None)
    assert [task["compute_ns"] for task in tasks] == [10_000.0]


def test_real_graph() -> None:
    """The shared PyTorch trace has a cycle through control dependencies; by data alone it computes 292.828 ms."""
    file = shared("chakra/ddp_resnet50_rank0.et")
    with pytest.raises(InputError, match="--dependencies data"):
        tasks_workload(file, "x", (4, 2), 8)
    workload, _ = tasks_workload(file, "x", (4, 2), 8, control=False)
    assert longest_ns(workload["tasks"]) == 292_828_000
    sizes = [one["bytes"] for task in workload["tasks"] for one in task["collectives"]]
    assert sum(sizes) == 102_228_128 + 212_904 / 2


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node(1, COMP), node(1, COMP)], "two nodes with one id"),
        ([node(1, COMP, after=[2]), node(2, COMP, after=[1])], "cycle"),
        ([node(1, COMP, after=[1])], "cycle"),
    ],
)
def test_wrong_graphs(tmp_path: Path, nodes: list[bytes], message: str) -> None:
    """Ids used twice and cycles are refused."""
    write(tmp_path, {0: nodes})
    with pytest.raises(InputError, match=message):
        task_documents(tmp_path / "job.0.et", lambda *_: None)
