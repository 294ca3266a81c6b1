"""Reading FlexNet task graphs: known contents of released files, files from the flatbuffers library, bad files."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.taskgraphs import shared
from topoopt.core.errors import InputError
from topoopt.core.workload import TaskKind
from topoopt.formats.flexnet import MAX_FILE_BYTES, FlexnetFile, colour_arcs, read_flexnet_taskgraph


def groups_by_size(file: FlexnetFile) -> dict[int, tuple[int, float]]:
    """For each group size, number of AllReduces and their payload in MB."""
    graph = file.graph
    out: dict[int, tuple[int, float]] = {}
    for task in np.flatnonzero(graph.kind == TaskKind.ALLREDUCE):
        size = len(graph.groups[graph.group[task]]) if graph.group[task] >= 0 else 1
        count, payload = out.get(size, (0, 0.0))
        out[size] = (count + 1, payload + float(graph.bytes[task]) / 1e6)
    return out


def transfer_matrix(file: FlexnetFile) -> np.ndarray:
    """Bytes between servers."""
    graph = file.graph
    sent = graph.kind == TaskKind.TRANSFER
    matrix = np.zeros((file.servers, file.servers))
    np.add.at(matrix, (graph.source[sent], graph.target[sent]), graph.bytes[sent])
    return matrix


@pytest.mark.parametrize(
    ("name", "counts", "operators"),
    [
        ("100vgg_16", [368, 368, 0, 32], 23),
        ("100transformer_16", [976, 976, 0, 68], 61),
        ("100dlrm_16", [360, 360, 496, 62], 40),
        ("100candle_16", [492, 492, 456, 140], 71),
        ("topoopt_12", [198, 198, 132, 36], 22),
    ],
)
def test_task_counts(name: str, counts: list[int], operators: int) -> None:
    """Numbers of forward, backward, transfer and AllReduce tasks, and of operators, are the published ones."""
    file = shared(name)
    assert np.bincount(file.graph.kind, minlength=4).tolist() == counts
    assert len(file.operator_names) == operators


@pytest.mark.parametrize("name", ["100vgg_16", "100transformer_16", "100dlrm_16", "100candle_16", "400candle_16"])
def test_star_networks(name: str) -> None:
    """Graphs of the ideal switch: 16 links to node 16, two-hop routes of all pairs, no rings, no topology."""
    file = shared(name)
    assert (file.servers, file.switches, file.gpus_per_server) == (16, 1, 1)
    assert file.link_gbps == float(name[:3])
    assert file.connections.tolist() == [[16, server, 1] for server in range(16)]
    assert file.topology is None
    assert file.ring_jumps == {}
    assert file.routes is not None
    assert len(file.routes.source) == 240
    assert {file.routes.path(i)[1:-1] for i in range(240)} == {(16,)}
    matrix = transfer_matrix(file)
    assert (matrix == matrix.T).all()


def test_allreduce_groups_of_the_released_graphs() -> None:
    """Group sizes and payloads of DLRM, CANDLE and VGG, and VGG's local AllReduce time of 23.148 ms."""
    dlrm, candle, vgg = (shared(f"100{model}_16") for model in ("dlrm", "candle", "vgg"))
    assert {size: count for size, (count, _) in groups_by_size(dlrm).items()} == {1: 16, 8: 10, 16: 36}
    sizes = groups_by_size(candle)
    assert {size: count for size, (count, _) in sizes.items()} == {4: 86, 8: 32, 16: 22}
    assert [round(sizes[k][1], 1) for k in (4, 8, 16)] == [2852.8, 1027.2, 872.6]
    assert groups_by_size(vgg)[16][1] == pytest.approx(1157.409952)
    local = vgg.graph.duration_ms[vgg.graph.kind == TaskKind.ALLREDUCE].sum()
    assert local == pytest.approx(23.148, abs=5e-4)
    compute = vgg.graph.kind < TaskKind.TRANSFER
    per_server = np.bincount(vgg.graph.source[compute], weights=vgg.graph.duration_ms[compute])
    assert per_server == pytest.approx([100.48] * 16, abs=0.01)


def test_model_parallel_traffic_of_the_released_graphs() -> None:
    """CANDLE moves 18.52 GB over 48 pairs; DLRM on 128 servers has the stated number of transfers and pairs."""
    candle = transfer_matrix(shared("100candle_16"))
    assert (round(candle.sum() / 1e9, 2), int((candle > 0).sum())) == (18.52, 48)
    big = shared("100dlrm_128")
    transfers = int((big.graph.kind == TaskKind.TRANSFER).sum())
    assert 16_256 <= transfers <= 17_472
    assert 10_680 <= int((transfer_matrix(big) > 0).sum()) <= 12_290
    assert groups_by_size(big)[1][0] == 64


def test_the_direct_connect_example() -> None:
    """12 servers of degree 4 at 50 Gbit/s: circulant {1, 5}, 24 links, 144 routes of 0 to 3 hops, ring descriptors."""
    file = shared("topoopt_12")
    assert (file.servers, file.switches, file.link_gbps) == (12, 0, 50.0)
    assert len(file.connections) == 24
    topology = file.topology
    assert topology is not None
    assert (topology.degree, topology.offsets) == (4, (1, 5, 7, 11))
    assert topology.multiplicity.tolist() == [1] * 48
    for row in topology.switches:
        assert sorted(row.tolist()) == list(range(12))
    patched = {(i, int(j)) for row in topology.switches for i, j in enumerate(row)}
    assert patched == {(i, j) for i, j in topology.arcs.tolist()}
    assert file.routes is not None
    hops = np.bincount([len(file.routes.path(i)) - 1 for i in range(len(file.routes.source))])
    assert hops.tolist() == [0, 48, 60, 24]
    assert len(file.routes.source) + 12 == 144  # routes to oneself are empty
    assert {size: [sorted(jumps) for jumps in rings] for size, rings in file.ring_jumps.items()} == {
        12: [[5], [7], [11], [1]],
        6: [[1, 1], [11, 11]],
        4: [[5, 11, 11], [1, 1, 7]],
        3: [[5, 11], [1, 7]],
        2: [[1, 5], [7, 11]],
    }
    sizes = groups_by_size(file)
    assert {size: count for size, (count, _) in sizes.items()} == {1: 6, 12: 30}
    assert sizes[12][1] == pytest.approx(964.94, abs=0.005)
    matrix = transfer_matrix(file)
    assert (round(matrix.sum() / 1e6, 1), int((matrix > 0).sum())) == (324.4, 102)
    assert round(matrix.sum(axis=1).max() / 1e6, 1) == 39.3


@dataclass(frozen=True)
class Draft:
    """A small file to write: tasks (type, id, device, runtime, bytes, next), devices (type, id, property)."""

    servers: int = 3
    switches: int = 0
    netbw: float = 125_000.0
    connections: tuple[tuple[int, int, int], ...] = ((1, 0, 2), (2, 1, 1))
    tasks: tuple[tuple[int, int, int, float, int, tuple[int, ...]], ...] = (
        (0, 100, 7, 1.5, 0, (101,)),
        (5, 101, 8, 0.0, 4096, (102,)),
        (1, 102, 9, 2.5, 0, (103,)),
        (6, 103, 0, 0.25, 800, (0, 1)),
        (6, 104, 0, 0.0, 900, (2,)),
    )
    devices: tuple[tuple[int, int, int], ...] = ((0, 7, 0), (14, 8, 2), (0, 9, 2))
    routes: tuple[tuple[int, int, tuple[tuple[tuple[int, ...], float], ...]], ...] = (
        (0, 2, (((0, 1, 2), 1.0),)),
        (0, 1, (((0, 1), 0.25), ((0, 1), 0.75))),
        (0, 0, ()),
    )
    rings: tuple[tuple[int, tuple[tuple[int, ...], ...]], ...] = ((2, ((1,), (2,))),)
    names: tuple[str, ...] = field(default=("Dense_1", "Embed_é"))


def encode(draft: Draft) -> bytes:
    """The draft as a FlatBuffer, written by the flatbuffers library."""
    b = flatbuffers.Builder(1024)

    def table(slots: list[tuple[int, str, object]]) -> int:
        b.StartObject(12)
        for slot, kind, value in slots:
            if kind == "offset":
                b.PrependUOffsetTRelativeSlot(slot, value, 0)
            else:
                getattr(b, f"Prepend{kind}Slot")(slot, value, 0)
        return int(b.EndObject())

    def vector(items: list[int] | tuple[int, ...], kind: str, width: int) -> int:
        b.StartVector(width, len(items), width)
        for item in reversed(items):
            getattr(b, f"Prepend{kind}")(item)
        return int(b.EndVector())

    def tables(offsets: list[int]) -> int:
        return vector(offsets, "UOffsetTRelative", 4)

    tasks = []
    for kind, ident, device, runtime, size, following in draft.tasks:
        after = vector(following, "Uint64", 8)
        slots = [(0, "Int16", kind), (1, "Uint64", ident), (2, "Uint64", device), (3, "Float32", runtime)]
        tasks.append(table([*slots, (4, "Uint64", size), (5, "offset", after)]))
    devices = [table([(0, "Int16", kind), (1, "Uint64", i), (3, "Uint64", p)]) for kind, i, p in draft.devices]
    connections = [table([(slot, "Uint32", value) for slot, value in enumerate(row)]) for row in draft.connections]
    routes = []
    for source, target, paths in draft.routes:
        rows = [table([(0, "offset", vector(nodes, "Uint32", 4)), (1, "Float32", c)]) for nodes, c in paths]
        routes.append(table([(0, "Uint32", source), (1, "Uint32", target), (2, "offset", tables(rows))]))
    rings = []
    for size, descriptors in draft.rings:
        rows = [table([(0, "offset", vector(jumps, "Int32", 4))]) for jumps in descriptors]
        rings.append(table([(0, "Uint64", size), (1, "offset", tables(rows))]))
    texts = [b.CreateString(name) for name in draft.names]
    operators = [table([(2, "offset", text)]) for text in texts]
    columns = {6: connections, 7: operators, 8: tasks, 9: devices, 10: routes, 11: rings}
    slots = [(slot, "offset", tables(rows)) for slot, rows in columns.items()]
    scalars = [(0, "Uint32", 1), (1, "Uint32", draft.servers), (2, "Uint32", draft.switches)]
    b.Finish(table([*scalars, (5, "Float32", draft.netbw), *slots]))
    return bytes(b.Output())


def read_draft(draft: Draft | bytes, folder: Path) -> FlexnetFile:
    """Write and read back."""
    path = folder / "draft.fbuf"
    path.write_bytes(draft if isinstance(draft, bytes) else encode(draft))
    return read_flexnet_taskgraph(path)


def test_a_file_written_by_the_library(tmp_path: Path) -> None:
    """Every field of a small file comes back as written; ids become indexes, default-valued fields zero."""
    file = read_draft(Draft(), tmp_path)
    graph = file.graph
    assert graph.kind.tolist() == [0, 2, 1, 3, 3]
    assert graph.source.tolist() == [0, 0, 2, -1, -1]
    assert graph.target.tolist() == [-1, 2, -1, -1, -1]
    assert graph.duration_ms.tolist() == [1.5, 0.0, 2.5, 0.25, 0.0]
    assert graph.bytes.tolist() == [0, 4096, 0, 800, 900]
    assert graph.successor_ptr.tolist() == [0, 1, 2, 3, 3, 3]
    assert graph.successor.tolist() == [1, 2, 3]
    assert (graph.group.tolist(), graph.groups) == ([-1, -1, -1, 0, -1], ((0, 1),))
    assert file.link_gbps == 1.0
    assert file.operator_names == ("Dense_1", "Embed_é")
    assert file.ring_jumps == {2: ((1,), (2,))}
    assert file.topology is not None
    assert (file.topology.degree, file.topology.offsets) == (3, ())
    assert file.topology.arcs.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert file.topology.multiplicity.tolist() == [2, 2, 1, 1]
    routes = file.routes
    assert routes is not None
    assert (routes.source.tolist(), routes.target.tolist()) == ([0, 0], [1, 2])
    assert routes.share.tolist() == [0.25, 0.75, 1.0]
    assert [routes.path(i) for i in range(3)] == [(0, 1), (0, 1), (0, 1, 2)]


def test_chances_that_climb_to_one_are_steps(tmp_path: Path) -> None:
    """Cumulative chances 0.25, 1.0 mean shares 0.25 and 0.75."""
    routes = ((0, 1, (((0, 1), 0.25), ((0, 1), 1.0))),)
    table = read_draft(replace(Draft(), routes=routes), tmp_path).routes
    assert table is not None
    assert table.share.tolist() == [0.25, 0.75]


TASKS = Draft().tasks


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"servers": 0}, "number of servers"),
        ({"servers": 4_000_000_000}, "number of servers"),
        ({"switches": 4096}, "number of servers"),
        ({"netbw": 0.0}, "bandwidth must be positive"),
        ({"netbw": float("nan")}, "bandwidth must be positive"),
        ({"tasks": (*TASKS, (0, 100, 7, 1.0, 0, ()))}, "same id"),
        ({"tasks": (*TASKS, (0, 105, 7, 1.0, 0, (999,)))}, "no such task"),
        ({"tasks": (*TASKS, (0, 105, 999, 1.0, 0, ()))}, "no such device"),
        ({"tasks": (*TASKS, (0, 105, 8, 1.0, 0, ()))}, "wrong type for this task"),
        ({"tasks": (*TASKS, (3, 105, 7, 1.0, 0, ()))}, "unknown type of task"),
        ({"tasks": (*TASKS, (-1, 105, 7, 1.0, 0, ()))}, "unknown type of task"),
        ({"tasks": (*TASKS, (0, 105, 7, -1.0, 0, ()))}, "not a time"),
        ({"tasks": (*TASKS, (0, 105, 7, float("inf"), 0, ()))}, "not a time"),
        ({"tasks": (*TASKS, (5, 105, 8, 0.0, 1 << 60, ()))}, "too many bytes"),
        ({"tasks": (*TASKS, (0, 105, 7, 1.0, 0, (106,)), (1, 106, 7, 1.0, 0, (105,)))}, "in a circle"),
        ({"tasks": (*TASKS, (6, 105, 0, 0.0, 8, (0, 3)))}, "not a group of servers"),
        ({"tasks": (*TASKS, (6, 105, 0, 0.0, 8, (1, 1)))}, "not a group of servers"),
        ({"tasks": (*TASKS, (6, 105, 0, 0.0, 8, ()))}, "not a group of servers"),
        ({"devices": ((0, 7, 3), (14, 8, 2), (0, 9, 2))}, "stands for no server"),
        ({"devices": ((0, 7, 0), (14, 8, 9), (0, 9, 2))}, "stands for no server"),
        ({"connections": ((1, 0, 2), (3, 1, 1))}, "outside 0..2"),
        ({"connections": ((1, 1, 2),)}, "joins a node to itself"),
        ({"connections": ((1, 0, 1), (0, 1, 1), (2, 1, 1))}, "joined twice"),
        ({"connections": ((1, 0, 0), (2, 1, 1))}, "must be 1..3"),
        ({"routes": ((0, 2, (((0, 2), 1.0),)),)}, "not connected"),
        ({"routes": ((0, 2, (((0, 1), 1.0),)),)}, "does not lead from the source"),
        ({"routes": ((0, 2, (((0, 1, 9), 1.0),)),)}, "no node of 0..2"),
        ({"routes": ((0, 2, (((0,), 1.0),)),)}, "two nodes or more"),
        ({"routes": ((0, 1, (((0, 1), 0.5),)),)}, "chances"),
        ({"routes": ((0, 1, (((0, 1), float("nan")),)),)}, "chances"),
        ({"routes": ((0, 1, ()), (0, 1, ()))}, "two entries"),
        ({"rings": ((4, ((1,),)),)}, "must be 2..3"),
        ({"rings": ((2, ((),)),)}, "must have 1..3 jumps"),
        ({"rings": ((2, ((3,),)),)}, "leads nowhere"),
        ({"rings": ((2, ((1,),)), (2, ((2,),)))}, "two entries"),
    ],
)
def test_contradictions_are_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    """Each kind of contradiction in an otherwise good file is named, with the file."""
    with pytest.raises(InputError, match=message) as caught:
        read_draft(replace(Draft(), **change), tmp_path)  # type: ignore[arg-type]
    assert all(problem.file == str(tmp_path / "draft.fbuf") for problem in caught.value.problems)


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    """A file with a bad rate, a self-link and twelve bad ring sizes reports all, long lists shortened."""
    rings = tuple((size, ((1,),)) for size in range(100, 112))
    bad = replace(Draft(), netbw=-1.0, connections=((1, 1, 1),), routes=(), rings=rings)
    with pytest.raises(InputError) as caught:
        read_draft(bad, tmp_path)
    messages = [problem.message for problem in caught.value.problems]
    assert "bandwidth must be positive" in messages
    assert "joins a node to itself" in messages
    assert "must be 2..3: 7 more" in messages
    assert len(messages) == 1 + 1 + 6


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\0" * 64, b"\xff" * 64, b"not a task graph at all"])
def test_other_bytes_are_refused(data: bytes, tmp_path: Path) -> None:
    """Bytes that are no FlatBuffer, or an empty one, are refused."""
    with pytest.raises(InputError):
        read_draft(data, tmp_path)


@given(data=st.data())
@settings(max_examples=300)
def test_damaged_files_never_crash(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever bytes are changed or cut off, the reader returns a file or an InputError, nothing else."""
    good = encode(Draft())
    damaged = bytearray(good[: data.draw(st.integers(0, len(good)))] if data.draw(st.booleans()) else good)
    for _ in range(data.draw(st.integers(1, 4))):
        if damaged:
            at = data.draw(st.integers(0, len(damaged) - 1))
            damaged[at] = data.draw(st.integers(0, 255))
    try:
        file = read_draft(bytes(damaged), tmp_path_factory.getbasetemp())
    except InputError:
        return
    assert file.graph.successor.max(initial=-1) < file.graph.tasks
    assert 1 <= file.servers <= 4096


def test_a_vector_longer_than_the_file_is_refused(tmp_path: Path) -> None:
    """A length field of four thousand million is refused before memory is taken."""
    good = encode(Draft())
    at = good.index(struct.pack("<IIII", 3, 0, 1, 2))  # the path 0, 1, 2 with its length
    with pytest.raises(InputError, match="ends outside the file"):
        read_draft(good[:at] + struct.pack("<I", 0xFFFFFFF0) + good[at + 4 :], tmp_path)


def test_overlapping_vectors_are_refused(tmp_path: Path) -> None:
    """Many rows that share one long vector would multiply its size in memory; they are refused."""
    b = flatbuffers.Builder(1024)
    b.StartVector(8, 5000, 8)
    for _ in range(5000):
        b.PrependUint64(0)
    long = b.EndVector()
    b.StartObject(6)
    b.PrependUOffsetTRelativeSlot(5, long, 0)
    task = b.EndObject()
    b.StartVector(4, 1000, 4)
    for _ in range(1000):
        b.PrependUOffsetTRelative(task)
    tasks = b.EndVector()
    b.StartObject(12)
    b.PrependUint32Slot(1, 2, 0)
    b.PrependFloat32Slot(5, 1.0, 0.0)
    b.PrependUOffsetTRelativeSlot(8, tasks, 0)
    b.Finish(b.EndObject())
    with pytest.raises(InputError, match="more bytes than the file has"):
        read_draft(bytes(b.Output()), tmp_path)


def test_missing_and_oversized_files_are_refused(tmp_path: Path) -> None:
    """A missing file, a folder and a file over the size bound are refused by name."""
    with pytest.raises(InputError, match="no such file"):
        read_flexnet_taskgraph(tmp_path / "absent.fbuf")
    with pytest.raises(InputError, match="this is a folder"):
        read_flexnet_taskgraph(tmp_path)
    big = tmp_path / "big.fbuf"
    with big.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(InputError, match="too large"):
        read_flexnet_taskgraph(big)


@given(seed=st.integers(0, 10**9), servers=st.integers(2, 9), degree=st.integers(1, 6))
@settings(max_examples=80)
def test_arcs_become_switch_permutations(seed: int, servers: int, degree: int) -> None:
    """Any arcs with at most d out of and into each server fit on d switches, each a partial permutation."""
    draw = np.random.default_rng(seed)
    wanted = [
        pair for _ in range(degree) for pair in enumerate(draw.permutation(servers).tolist()) if draw.random() < 0.8
    ]
    draw.shuffle(wanted)
    switches = colour_arcs([i for i, _ in wanted], [j for _, j in wanted], servers, degree)
    for row in switches:
        heads = row[row >= 0].tolist()
        assert len(set(heads)) == len(heads)
    patched = sorted((i, int(j)) for row in switches for i, j in enumerate(row) if j >= 0)
    assert patched == sorted((int(i), int(j)) for i, j in wanted)
