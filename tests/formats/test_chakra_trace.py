"""What traces say about the network: traffic, groups, compute; expected values from formulas and the shared files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chakra_files import INT32, SINT64, UINT64, node, shared, write
from topoopt.core.errors import InputError
from topoopt.formats.chakra import CommType, NodeType
from topoopt.formats.chakra.importer import Algorithm, between_servers, block, compute_ns, traffic_matrix
from topoopt.formats.chakra.read import read_chakra

MIB = 1 << 20
COMP, SEND, RECV, COLL = (
    int(kind) for kind in (NodeType.COMP, NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL)
)


def test_custom_ring() -> None:
    """The shared custom ring AllReduce: 1 835 008 = 2 x 7/8 x 2^20 bytes to the successor, nothing else; 7 x 7 us."""
    content = read_chakra(shared("chakra/custom_ring_allreduce_8npus_1MB"))
    expected = np.zeros((8, 8))
    expected[np.arange(8), (np.arange(8) + 1) % 8] = 1_835_008
    assert np.array_equal(traffic_matrix(content), expected)
    assert content.ranks == 8
    assert content.nodes == 8 * 35
    assert not content.uses
    assert not [note for note in content.notes if not note.startswith("not used: ")]
    assert content.compute_us.tolist() == [49] * 8


def test_microbenchmarks() -> None:
    """The shared all-reduce by ring equals the custom ring; the all-to-all sends an eighth to everyone."""
    reduced = read_chakra(shared("chakra/all_reduce/8npus_1MB"))
    custom = read_chakra(shared("chakra/custom_ring_allreduce_8npus_1MB"))
    assert np.array_equal(traffic_matrix(reduced), traffic_matrix(custom))
    exchanged = traffic_matrix(read_chakra(shared("chakra/all_to_all/8npus_1MB")))
    assert np.array_equal(exchanged, MIB / 8 * (1 - np.eye(8)))
    relayed = traffic_matrix(read_chakra(shared("chakra/all_to_all/8npus_1MB")), all_to_all=Algorithm.RING)
    assert relayed[3].tolist() == [0, 0, 0, 0, 7 / 2 * MIB, 0, 0, 0]


def test_real_trace_of_one_rank() -> None:
    """The shared PyTorch trace: five sized all-reduces of 102 228 128 bytes in all and two broadcasts of 212 904."""
    file = shared("chakra/ddp_resnet50_rank0.et")
    with pytest.raises(InputError, match="for the trace of one rank say how many there are"):
        read_chakra(file)
    content = read_chakra(file, ranks=4)
    sizes = {kind: [use.size_bytes for use in content.uses if use.collective is kind] for kind in CommType}
    assert (len(sizes[CommType.ALL_REDUCE]), sum(sizes[CommType.ALL_REDUCE])) == (5, 102_228_128)
    assert (len(sizes[CommType.BROADCAST]), sum(sizes[CommType.BROADCAST])) == (2, 212_904)
    assert content.nodes == 3664
    assert any("all 4 ranks are taken to do the same" in note for note in content.notes)
    sent = traffic_matrix(content).sum(axis=1)
    assert sent[:3] == pytest.approx([2 * 3 / 4 * 102_228_128 + 212_904] * 3)
    assert sent[3] == pytest.approx(2 * 3 / 4 * 102_228_128)


@settings(max_examples=60)
@given(
    st.sampled_from((CommType.ALL_REDUCE, CommType.ALL_GATHER, CommType.REDUCE_SCATTER)),
    st.integers(1, 5),
    st.integers(1, 10**9),
)
def test_algorithms_move_the_same_bytes(kind: CommType, k: int, size: int) -> None:
    """Every bandwidth-optimal algorithm sends the same bytes out of each rank: v of the model with one dimension."""
    p = 2**k
    optimal = {CommType.ALL_REDUCE: 2 * size * (p - 1) / p, CommType.ALL_GATHER: size * (p - 1)}
    for algorithm in Algorithm:
        sent = block(kind, size, p, algorithm)
        assert sent.sum(axis=1) == pytest.approx(optimal.get(kind, size * (p - 1) / p))
        assert sent.sum(axis=0) == pytest.approx(sent.sum(axis=1))
        assert not sent.diagonal().any()


@pytest.mark.parametrize("p", [1, 2, 3, 5, 7])
def test_small_and_odd_groups(p: int) -> None:
    """One rank sends nothing, odd groups work but for halving-doubling, a broadcast reaches everyone once."""
    assert block(CommType.ALL_REDUCE, 30.0, p, Algorithm.RING).sum() == pytest.approx(60.0 * (p - 1))
    for algorithm in Algorithm:
        assert block(CommType.BROADCAST, 5.0, p, algorithm).sum(axis=0).tolist() == [0.0] + [5.0] * (p - 1)
    if p & (p - 1):
        with pytest.raises(InputError, match="power of two"):
            block(CommType.ALL_REDUCE, 30.0, p, Algorithm.HALVING_DOUBLING)


def collective(number: int, kind: CommType, size: int, **more: object) -> bytes:
    return node(number, COLL, comm_type=int(kind), comm_size=size, **more)


def test_halving_doubling_distances(tmp_path: Path) -> None:
    """An all-reduce of s sends 2 s / 2^(k+1) to the rank at distance 2^k."""
    write(tmp_path, {rank: [collective(0, CommType.ALL_REDUCE, 800)] for rank in range(8)})
    demand = traffic_matrix(read_chakra(tmp_path), Algorithm.HALVING_DOUBLING)
    assert demand[5].tolist() == [0, 200, 0, 0, 800, 0, 0, 400]


@pytest.mark.parametrize("kind", [INT32, SINT64, UINT64])
def test_any_kind_of_integer(tmp_path: Path, kind: int) -> None:
    """Sizes and types count whatever kind of integer holds them."""
    one = node(0, COLL, comm_type=0, comm_size=64, as_kind=kind)
    write(tmp_path, {0: [one], 1: [one]})
    assert traffic_matrix(read_chakra(tmp_path)).tolist() == [[0, 64], [64, 0]]


def test_groups_of_a_file(tmp_path: Path) -> None:
    """Groups by name; the empty one and 0 are everyone; calls add up."""
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"1": [0, 1], "2": [2, 3]}))
    own = {0: "1", 1: "1", 2: "2", 3: "2"}
    nodes = {
        rank: [
            collective(0, CommType.ALL_REDUCE, 100, pg_name=own[rank]),
            collective(1, CommType.ALL_REDUCE, 100, pg_name=own[rank]),
            collective(2, CommType.ALL_GATHER, 10, pg_name="0"),
            collective(3, CommType.ALL_GATHER, 10, pg_name=""),
        ]
        for rank in range(4)
    }
    write(tmp_path / "traces", nodes)
    content = read_chakra(tmp_path / "traces", comm_groups=groups)
    assert [(use.collective, use.members, use.calls) for use in content.uses] == [
        (CommType.ALL_REDUCE, (0, 1), (2, 2)),
        (CommType.ALL_REDUCE, (2, 3), (2, 2)),
        (CommType.ALL_GATHER, (0, 1, 2, 3), (2, 2, 2, 2)),
    ]
    assert not [note for note in content.notes if not note.startswith("not used: ")]
    unknown = read_chakra(tmp_path / "traces")
    assert unknown.uses[0].members == (0, 1, 2, 3)
    assert any("without a list of ranks are taken as all ranks: '1', '2'" in note for note in unknown.notes)
    groups.write_text(json.dumps({"1": [1, 2], "2": [2, 3]}))
    with pytest.raises(InputError, match="its rank is not in"):
        read_chakra(tmp_path / "traces", comm_groups=groups)
    groups.write_text(json.dumps({"1": [0, 0], "2": [4], "3": "all"}))
    with pytest.raises(InputError) as caught:
        read_chakra(tmp_path / "traces", comm_groups=groups)
    assert [problem.path for problem in caught.value.problems] == ["1", "2", "3"]


@pytest.mark.parametrize("quoted", [False, True])
def test_groups_of_pytorch(tmp_path: Path, quoted: bool) -> None:
    """PyTorch traces state their groups inside a metadata node, here after their use; empty ranks mean all."""
    text = json.dumps([{"pg_name": "7", "ranks": [0, 2]}, {"pg_name": "8", "ranks": []}])
    text = text.replace('"', '\\"') if quoted else text
    nodes = [
        collective(0, CommType.ALL_REDUCE, 50, pg_name="7"),
        collective(1, CommType.ALL_REDUCE, 50, pg_name="8"),
        node(2, int(NodeType.METADATA), inputs=f"['{text}']"),
    ]
    idle = [node(0, COMP, us=1)]
    write(tmp_path, {0: nodes, 1: idle, 2: nodes})
    content = read_chakra(tmp_path)
    assert [use.members for use in content.uses] == [(0, 1, 2), (0, 2)]
    assert content.uses[0].calls == (1, 0, 1)
    assert any("do not take part equally often" in note for note in content.notes)


def test_involved_dimensions(tmp_path: Path) -> None:
    """Collectives in some dimensions: with the sizes the groups are lines of the grid, without them everyone."""
    nodes = [collective(0, CommType.ALL_REDUCE, 8, involved_dim=(0, 1, 0))]
    write(tmp_path, dict.fromkeys(range(12), nodes))
    members = {use.members for use in read_chakra(tmp_path, dims=(2, 3, 2)).uses}
    assert members == {(0, 2, 4), (1, 3, 5), (6, 8, 10), (7, 9, 11)}
    blind = read_chakra(tmp_path)
    assert [use.members for use in blind.uses] == [tuple(range(12))]
    assert any("the sizes are not given" in note for note in blind.notes)


def test_one_rank_of_many(tmp_path: Path) -> None:
    """Groups and peers of a single trace are shifted over all ranks, whichever rank it is of."""
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"tp": [4, 5], "dp": [1, 3, 5, 7], "odd": [0, 1, 5]}))
    nodes = [
        collective(0, CommType.ALL_REDUCE, 8, pg_name="tp"),
        collective(1, CommType.ALL_REDUCE, 16, pg_name="dp"),
        node(2, SEND, comm_dst=7, comm_size=100),
    ]
    write(tmp_path / "one", {5: nodes})
    content = read_chakra(tmp_path / "one" / "job.5.et", ranks=8, comm_groups=groups)
    members = {(use.size_bytes, use.members) for use in content.uses}
    assert members == {(8, (k, k + 1)) for k in range(0, 8, 2)} | {(16, (0, 2, 4, 6)), (16, (1, 3, 5, 7))}
    assert {(i, j) for i, j in np.argwhere(content.sent_bytes == 100).tolist()} == {(i, (i + 2) % 8) for i in range(8)}
    write(tmp_path / "odd", {5: [collective(0, CommType.ALL_REDUCE, 8, pg_name="odd")]})
    with pytest.raises(InputError, match="not clear"):
        read_chakra(tmp_path / "odd" / "job.5.et", ranks=8, comm_groups=groups)


def test_assumptions_are_told(tmp_path: Path) -> None:
    """Nodes without sizes, receives that do not match, host operators and unknown times are said."""
    launch = node(0, COLL, is_cpu_op=1)
    unsized = node(1, COLL)
    write(
        tmp_path / "a",
        {0: [launch, unsized, node(2, SEND, comm_dst=1, comm_size=5)], 1: [node(0, RECV, comm_src=0, comm_size=6)]},
    )
    notes = "\n".join(read_chakra(tmp_path / "a").notes)
    assert "1 communication nodes state no size" in notes
    assert "rank 1 receives 6 bytes from rank 0, which sends 5" in notes
    host = node(0, COMP, us=7, is_cpu_op=1)
    write(tmp_path / "b", {0: [host], 1: [host]})
    assert any("host operators only (0.007 ms)" in note for note in read_chakra(tmp_path / "b").notes)
    unknown = [host, node(1, COMP, num_ops=4 * 10**12)]
    write(tmp_path / "c", {0: unknown, 1: unknown})
    content = read_chakra(tmp_path / "c")
    told = [note for note in content.notes if not note.startswith("not used: ")]
    assert told == ["host operators (0.007 ms of the busiest rank): their time is not counted"]
    assert compute_ns(content, 2.0)[0].tolist() == [2e9, 2e9]
    blind, told = compute_ns(content, None)
    assert not blind.any()
    assert "--peak-tflops" in told[0]


def test_wrong_nodes_are_listed(tmp_path: Path) -> None:
    """Every unusable number is named with its node."""
    wrong = [
        node(1, COLL, comm_type=10, comm_size=8),
        node(2, COLL, comm_type=0, comm_size=-8),
        node(3, SEND, comm_dst=2, comm_size=8),
        node(4, SEND, comm_dst=0, comm_size=8),
        node(5, RECV, comm_size=8),
    ]
    write(tmp_path, {0: wrong, 1: []})
    with pytest.raises(InputError) as caught:
        read_chakra(tmp_path)
    assert [problem.path for problem in caught.value.problems] == [f"node {k}" for k in range(1, 6)]
    write(tmp_path, {0: [node(k, SEND, comm_dst=9, comm_size=1) for k in range(30)]})
    with pytest.raises(InputError, match="10 further nodes are wrong"):
        read_chakra(tmp_path)


def test_wrong_numbers_of_ranks(tmp_path: Path) -> None:
    """No nodes at all, other numbers of ranks, dimensions that do not multiply to them."""
    write(tmp_path, {0: [], 1: []})
    with pytest.raises(InputError, match="no nodes in these traces"):
        read_chakra(tmp_path)
    with pytest.raises(InputError, match="another number of ranks"):
        read_chakra(tmp_path, ranks=3)
    with pytest.raises(InputError, match="sizes whose product is 2"):
        read_chakra(tmp_path, dims=(2, 2))
    with pytest.raises(InputError, match="of a rank there is not"):
        read_chakra(write(tmp_path / "x", {5: []}).with_suffix(".5.et"), ranks=4)


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(2, 5), st.integers(0, 2**32))
def test_folding_ranks(per_server: int, servers: int, seed: int) -> None:
    """Traffic between servers is what leaves them."""
    n = per_server * servers
    traffic = np.random.default_rng(seed).integers(0, 1000, (n, n)).astype(np.float64)
    folded = between_servers(traffic, servers)
    home = np.arange(n) // per_server
    assert folded.sum() == traffic[home[:, None] != home[None, :]].sum()
    assert folded[0].sum() == traffic[home == 0][:, home != 0].sum()
