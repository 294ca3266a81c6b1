"""Chakra traces: every field is used, noted or refused, at every level of its protobuf messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.chakra_files import INT64, METADATA, TEXT, attribute, block, node, shared, stream, whole, write
from tests.support.reader_cases import plain
from topoopt.core.collective import CollectiveOp
from topoopt.core.errors import InputError
from topoopt.formats.chakra import NodeType
from topoopt.formats.chakra.read import read_chakra, read_schedule
from topoopt.formats.schedules import ScheduleOptions
from topoopt.formats.table import IMPORTERS, READERS

COMP, SEND, RECV, COLL = (
    int(kind) for kind in (NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL)
)
NODES = [
    {"number": 1, "kind": COMP, "us": 5, "num_ops": 9, "is_cpu_op": False},
    {"number": 2, "kind": COLL, "after": [1], "comm_type": 0, "comm_size": 64, "pg_name": "a", "involved_dim": [1, 0]},
    {"number": 3, "kind": SEND, "control": [2], "comm_dst": 1, "comm_size": 8, "comm_tag": 4},
    {"number": 4, "kind": RECV, "comm_src": 1, "comm_size": 8},
    {"number": 5, "kind": COMP, "num_ops": 7},
    {"number": 6, "kind": 1, "inputs": '[{"pg_name": "a", "ranks": [0, 1]}]'},
]
OTHER_NODES: dict[str, Any] = {
    "Node.id": (0, {"number": 9}),
    "Node.type": (0, {"kind": COLL, "comm_type": 0, "comm_size": 8}),
    "Node.ctrl_deps": (2, {"control": [1]}),
    "Node.data_deps": (1, {"after": [5]}),
    "Node.duration_micros": (0, {"us": 6}),
    "Node.inputs.values": (5, {"inputs": '[{"pg_name": "a", "ranks": [0, 1, 2]}]'}),
    "Node.attr.is_cpu_op": (0, {"is_cpu_op": True}),
    "Node.attr.num_ops": (4, {"num_ops": 8}),
    "Node.attr.comm_size": (1, {"comm_size": 65}),
    "Node.attr.comm_type": (1, {"comm_type": 2}),
    "Node.attr.pg_name": (1, {"pg_name": "0"}),
    "Node.attr.involved_dim": (1, {"pg_name": "0", "involved_dim": [0, 1]}),
    "Node.attr.comm_dst": (2, {"comm_dst": 2}),
    "Node.attr.comm_src": (3, {"comm_src": 2}),
}


def _traces(folder: Path, changes: tuple[int, dict[str, Any]] = (0, {})) -> Path:
    """Four ranks, of which the first does what `NODES` say, one of them changed."""
    rows = [dict(one) for one in NODES]
    rows[changes[0]] |= changes[1]
    idle = stream(node(1, COMP, us=1))
    taken = stream(node(1, RECV, comm_src=0, comm_size=8))
    for rank in range(4):
        data = stream(*(node(**one) for one in rows)) if rank == 0 else taken if rank == 1 else idle
        (folder / f"job.{rank}.et").write_bytes(data)
    return folder


def _of_traces(folder: Path) -> object:
    """What is read in both loops of a hierarchical instance, and of the network."""
    content = read_chakra(folder, dims=(2, 2))
    options = {"kind": "hierarchical-bandwidth", "dims": "ring:2,ring:2", "total_gbytes_per_s": 1.0, "loop": "dag"}
    made = [IMPORTERS["chakra"](folder, **options, peak_tflops=1.0, dependencies=one) for one in ("all", "data")]
    received = [note for note in content.notes if note.startswith("sends and receives")]
    return plain((content.comparable(), received, [one.document for one in made], [one.figures for one in made]))


def test_what_is_used_of_a_trace_changes_what_is_read(tmp_path: Path) -> None:
    """Every used field of Chakra; orders show in the graph of tasks."""
    used = {name for name, (use, _) in READERS["Chakra: traces of a job"].items() if use == "used"}
    assert used == set(OTHER_NODES)
    base = _of_traces(_traces(tmp_path))
    same = {name for name, change in OTHER_NODES.items() if _outcome(tmp_path, change) == base}
    assert same == set()


def _outcome(folder: Path, change: tuple[int, dict[str, Any]]) -> object:
    try:
        return _of_traces(_traces(folder, change))
    except InputError as error:
        return str(error)


UNKNOWN = whole(99, 7)
STRANGE_TRACES = {
    "GlobalMetadata, field 99": (METADATA + UNKNOWN, node(1, COMP)),
    "GlobalMetadata.attr.never": (METADATA + attribute("never", 7, INT64).replace(b"\x52", b"\x12", 1), node(1, COMP)),
    "Node, field 99": (METADATA, node(1, COMP) + UNKNOWN),
    "Node.attr, field 99": (METADATA, node(1, COMP) + block(10, block(1, b"a") + whole(INT64, 1) + UNKNOWN)),
    "Node.attr.int64_list, field 99": (METADATA, node(1, COMP) + block(10, block(1, b"a") + block(INT64 + 1, UNKNOWN))),
    "Node.inputs, field 99": (METADATA, node(1, COMP) + block(8, UNKNOWN)),
    "Node.attr.never": (METADATA, node(1, COMP, never=7)),
    "Node.attr.doc": (METADATA, node(1, COMP) + block(10, block(1, b"num_ops") + block(2, b"why") + whole(INT64, 1))),
    "Node.attr.comm_src of COMM_COLL": (METADATA, node(1, COLL, comm_type=5, comm_size=1, comm_src=1)),
    "Node.start_time_micros": (METADATA, node(1, COMP) + whole(6, 1)),
}


@pytest.mark.parametrize("named", STRANGE_TRACES)
def test_what_is_not_known_of_a_trace_is_named(named: str, tmp_path: Path) -> None:
    """Fields of the protobuf messages at every level, attributes, attributes of nodes that do not have them."""
    metadata, message = STRANGE_TRACES[named]
    for rank in range(2):
        (tmp_path / f"job.{rank}.et").write_bytes(stream(message, metadata=metadata))
    assert named in "\n".join(read_chakra(tmp_path).notes)
    if "COMM_COLL" not in named:
        program = read_schedule(tmp_path, ScheduleOptions(CollectiveOp.ALLGATHER))
        assert named in "\n".join(program.notes)


SCHEDULE = [
    {"number": 1, "kind": SEND, "comm_dst": 1, "comm_size": 8, "comm_tag": 4, "chunk_first": 0, "chunk_count": 1},
    {"number": 2, "kind": RECV, "comm_src": 1, "comm_size": 8, "comm_tag": 5, "chunk_first": 1, "chunk_count": 1},
    {"number": 3, "kind": COMP, "after": [2], "chunk_first": 0, "chunk_count": 1, "chunk_added": 2},
]
OTHER_SCHEDULE: dict[str, tuple[int, dict[str, Any]]] = {
    "Node.id": (0, {"number": 9}),
    "Node.type": (0, {"kind": RECV, "comm_src": 1}),
    "Node.ctrl_deps": (1, {"control": [1]}),
    "Node.data_deps": (1, {"after": [1]}),
    "Node.attr.comm_size": (0, {"comm_size": 9}),
    "Node.attr.comm_dst": (0, {"comm_dst": 0}),
    "Node.attr.comm_src": (1, {"comm_src": 0}),
    "Node.attr.comm_tag": (0, {"comm_tag": 6}),
    "Node.attr.chunk_first": (1, {"chunk_first": 0}),
    "Node.attr.chunk_count": (0, {"chunk_count": 2}),
    "Node.attr.chunk_buffer": (0, {"chunk_buffer": "s"}),
    "Node.attr.chunk_added": (2, {"chunk_added": 1}),
    "GlobalMetadata.attr.collective": (-1, {"collective": "broadcast"}),
    "GlobalMetadata.attr.vector_chunks": (-1, {"vector_chunks": 4}),
    "GlobalMetadata.attr.vector_bytes": (-1, {"vector_bytes": 32}),
    "GlobalMetadata.attr.scratch_chunks": (-1, {"scratch_chunks": 3}),
}
HEAD = {"collective": "allreduce", "vector_chunks": 2, "vector_bytes": 16, "scratch_chunks": 2}


def _schedule(folder: Path, change: tuple[int, dict[str, Any]] = (-1, {})) -> object:
    """Two ranks that send each other a chunk; something of the first rank is different."""
    for rank in range(2):
        rows = [{"chunk_buffer": "i", **one} for one in SCHEDULE]
        for row in rows:
            row |= {key: 1 - rank for key in ("comm_dst", "comm_src") if key in row}
        rows[0]["comm_tag"], rows[1]["comm_tag"] = 4 + rank, 5 - rank
        head = dict(HEAD)
        if change[0] >= 0 and rank == 0:
            rows[change[0]] |= change[1]
        elif change[0] < 0:
            head |= change[1]
        given = (attribute(name, value, TEXT if isinstance(value, str) else INT64) for name, value in head.items())
        metadata = METADATA + b"".join(b"\x12" + one[1:] for one in given)
        (folder / f"job.{rank}.et").write_bytes(stream(*(node(**one) for one in rows), metadata=metadata))
    try:
        return plain(read_schedule(folder, ScheduleOptions()))
    except InputError as error:
        return str(error)


def test_what_is_used_of_a_custom_collective_changes_what_is_read(tmp_path: Path) -> None:
    """Every used field."""
    used = {name for name, (use, _) in READERS["ASTRA-sim: custom collective (Chakra)"].items() if use == "used"}
    assert used == set(OTHER_SCHEDULE)
    base = _schedule(tmp_path)
    assert not isinstance(base, str), base
    assert {name for name, change in OTHER_SCHEDULE.items() if _schedule(tmp_path, change) == base} == set()


def test_a_dependency_on_nothing(tmp_path: Path) -> None:
    """Of data: refused with the file, who waits, and for what. Of control: noted so."""
    alone = [node(1, COMP, us=2), node(2, COLL, after=[1, 7], comm_type=0, comm_size=64)]
    write(tmp_path / "data", dict.fromkeys(range(2), alone))
    with pytest.raises(
        InputError, match=r"job\.0\.et node 2: a node that another waits for is not in the trace .*node 7"
    ):
        read_chakra(tmp_path / "data")
    launched = [node(1, COMP, us=2, control=[0]), node(2, COLL, after=[1], comm_type=0, comm_size=64)]
    write(tmp_path / "control", dict.fromkeys(range(2), launched))
    text = r"job\.1\.et: 1 control dependencies on nodes that are not in the trace .* first of node 1 on node 0"
    assert any(re.search(text, note) for note in read_chakra(tmp_path / "control").notes)


def test_ids_may_come_in_any_order(tmp_path: Path) -> None:
    """A dependency on a node further on, or far away, is one on a node that is there."""
    far = 2**63
    nodes = [node(3, COMP, after=[far, 1], us=1), node(far, COMP, us=1), node(1, COMP, us=1, control=[3])]
    write(tmp_path, dict.fromkeys(range(2), nodes))
    assert not any("not in the trace" in note for note in read_chakra(tmp_path).notes)


def test_nodes_of_memory_are_counted(tmp_path: Path) -> None:
    """Two ranks, each with two loads of 3 and 4 us and a store without a time."""
    nodes = [node(1, 2, us=3), node(2, 2, us=4), node(3, 3, tensor_size=64), node(4, COMP, us=5)]
    write(tmp_path, dict.fromkeys(range(2), nodes))
    assert "4 MEM_LOAD, 2 MEM_STORE nodes (0.014 ms): their time is not counted" in read_chakra(tmp_path).notes


def test_an_attribute_twice(tmp_path: Path) -> None:
    """Which of the two counts is not for a reader to say."""
    twice = node(1, COLL, comm_type=0, comm_size=8) + attribute("comm_size", 9, INT64)
    write(tmp_path, {rank: [twice] for rank in range(2)})
    with pytest.raises(InputError, match=r"node 1: an attribute given twice .*comm_size"):
        read_chakra(tmp_path)


def test_the_shared_trace_with_a_dependency_on_nothing(tmp_path: Path) -> None:
    """Node 1 of each rank waits for node 0; traffic is that of the all-reduce."""
    content = read_chakra(shared("public_cases/18-dependency-on-nothing/traces"))
    assert sum("the first of node 1 on node 0" in note for note in content.notes) == 2
    assert [(use.size_bytes, use.members) for use in content.uses] == [(1 << 20, (0, 1))]
