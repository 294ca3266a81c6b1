"""Exporters: what they write says what the solution says, and what they cannot express they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.dag_jobs import pipeline
from tests.support.handmade import altered
from tests.support.make_solution import circulant, make_solution
from tests.support.read_back.exports import check_export
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import CheckError, InputError
from topoopt.core.hierarchy import Block, Dimension
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph
from topoopt.files.sections import FileTopology, topology_of
from topoopt.formats.astrasim import algorithms, ns3_topology, read_network
from topoopt.formats.chakra.importer import traffic_matrix
from topoopt.formats.chakra.read import read_chakra
from topoopt.formats.chakra.write import build as build_chakra
from topoopt.formats.networks import build_graphml
from topoopt.formats.table import EXPORTERS, Export, ExportOptions, plain_name
from topoopt.kinds import KINDS

OPTIONS = ExportOptions()


def place(export: Export, folder: Path) -> Path:
    """The files of an export in a folder."""
    for name, data in export.files:
        (folder / name).write_bytes(data)
    return folder


def one_way() -> Topology:
    """Three servers in a one-way ring."""
    return Topology(
        servers=3,
        degree=1,
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=np.array([[0, 1], [1, 2], [2, 0]], dtype=np.int32),
        multiplicity=np.ones(3, dtype=np.int32),
        switches=np.array([[1, 2, 0]], dtype=np.int32),
    )


def test_tables_agree() -> None:
    """Every target says what it takes, makes and cannot say; every kind it takes has a reader of its solutions."""
    for one in EXPORTERS.values():
        assert one.limits
        assert one.makes
        assert set(one.kinds) <= set(KINDS)


@pytest.mark.parametrize("target", ["astrasim", "chakra", "graphml"])
@pytest.mark.parametrize("n", [2, 3, 8, 16])
def test_reads_back(target: str, n: int) -> None:
    """Solutions of many sizes read back as themselves; equal solutions give equal bytes."""
    solution = make_solution(n, (1,) if n < 4 else (1, 3))
    export = EXPORTERS[target].build(solution, OPTIONS)
    check_export(target, export)
    assert EXPORTERS[target].build(solution, OPTIONS).files == export.files
    spoilt = replace(export, content=("something", "else"))
    with pytest.raises(CheckError, match="reads back as something else"):
        check_export(target, spoilt)


def test_traces_carry_the_demand(tmp_path: Path) -> None:
    """Messages are the model-parallel matrix, every AllReduce sends 2 (k-1)/k of its payload along its ring."""
    solution = make_solution(8, (1, 3))
    folder = place(build_chakra(solution, OPTIONS), tmp_path)
    content = read_chakra(folder, comm_groups=folder / "comm_groups.json")
    assert np.array_equal(content.sent_bytes, solution.figures.demand.model_parallel_bytes)
    found = {use.members: use.size_bytes for use in content.uses}
    assert found == {one.members: one.payload_bytes for one in solution.figures.demand.allreduce}
    assert [note for note in content.notes if not note.startswith("not used: ")] == []
    assert traffic_matrix(content).sum() == pytest.approx(
        solution.figures.demand.model_parallel_bytes.sum() + solution.figures.demand.allreduce_wire_bytes
    )
    computed = [
        sum(one.forward_ms + one.backward_ms for one in solution.figures.operators if server in one.servers) * 1000
        for server in range(8)
    ]
    assert content.compute_us == pytest.approx(computed, abs=len(solution.figures.operators))


def test_groups_are_named(tmp_path: Path) -> None:
    """Groups smaller than the cluster stand in comm_groups.json by whole numbers from 1, that of all ranks does not."""
    folder = place(build_chakra(make_solution(8, (1, 3)), OPTIONS), tmp_path)
    assert json.loads((folder / "comm_groups.json").read_text()) == {str(o + 1): [o, o + 4] for o in range(4)}


def test_too_many_messages() -> None:
    """Demand that would take millions of nodes is refused before memory is."""
    solution = make_solution(3, (1,))
    n = 1500
    demand = replace(solution.figures.demand, model_parallel_bytes=np.ones((n, n)), allreduce=())
    topology = replace(solution.plan.topology, servers=n)
    with pytest.raises(InputError, match="too many messages"):
        build_chakra(
            altered(solution, demand=demand, operators=(), plan=replace(solution.plan, topology=topology)), OPTIONS
        )


def test_graphml_is_the_topology(tmp_path: Path) -> None:
    """The file gives an instance of kind routing the same arcs and parallel links."""
    topology = circulant(6, (1, 3, 3))
    solution = make_solution(6, (1, 3))
    solution = replace(solution, plan=replace(solution.plan, topology=topology))
    export = build_graphml(solution, OPTIONS)
    place(export, tmp_path)
    again = topology_of(FileTopology(file=export.files[0][0]), tmp_path).topology
    assert np.array_equal(again.arcs, topology.arcs)
    assert np.array_equal(again.multiplicity, topology.multiplicity)


def test_graph_for_ns3() -> None:
    """A host and a switch for every server, links between switches both ways at once, parallel ones listed apart."""
    topology = circulant(4, (1, 2, 2))
    graph = ns3_topology(topology, 100.0, 2.0)
    assert (graph.nodes, graph.switches) == (8, (4, 5, 6, 7))
    own, between = graph.links[:4], graph.links[4:]
    assert [link[:3] for link in own] == [(i, i + 4, 400.0) for i in range(4)]
    assert [(link[0] - 4, link[1] - 4) for link in between] == [
        (0, 1),
        (0, 2),
        (0, 2),
        (0, 3),
        (1, 2),
        (1, 3),
        (1, 3),
        (2, 3),
    ]
    assert {link[2:4] for link in between} == {(100.0, 0.002)}


def test_one_way_links() -> None:
    """A full-duplex format cannot hold them, GraphML can."""
    solution = make_solution(3, (1,))
    solution = replace(solution, plan=replace(solution.plan, topology=one_way()))
    with pytest.raises(InputError, match=r"one-way links.*links from server 0 to 1: 1, back: 0"):
        EXPORTERS["astrasim"].build(solution, OPTIONS)
    check_export("graphml", build_graphml(solution, OPTIONS))


def test_rate_of_the_solution() -> None:
    """A job states the rate of its links; another one is refused."""
    solution = make_solution(3, (1,))
    EXPORTERS["astrasim"].build(solution, ExportOptions(link_gbps=100.0))
    with pytest.raises(InputError, match="another rate"):
        EXPORTERS["astrasim"].build(solution, ExportOptions(link_gbps=200.0))


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("..", "exported"),
        ("/abs", "abs"),
        ("a b\n", "a-b-"),
        ("", "exported"),
        ("x" * 300, "x" * 100),
    ],
)
def test_names_stay_in_their_folder(name: str, plain: str) -> None:
    """Names of solutions cannot lead out of the folder."""
    assert plain_name(name) == plain
    solution = replace(make_solution(3, (1,)), name=name)
    none = np.zeros(0, dtype=np.int32)
    idle = TaskGraph(3, none, none, none, none, none, none, none, np.zeros(1, dtype=np.int64), none, ())
    options = replace(OPTIONS, task_graph=idle, job_graph=pipeline(2, 2, 2, 4, 3))
    lined = {target: one for target, one in EXPORTERS.items() if solution.kind in one.kinds and target != "trace"}
    for one in lined.values():  # there is no time line of a plan without operators
        assert all("/" not in file and not file.startswith(".") for file, _ in one.build(solution, options).files)


def test_algorithms_fit_the_size() -> None:
    """Halving-doubling needs a power of two; other switches run rings."""
    assert algorithms("switch", 32) == ("halvingDoubling", "direct")
    assert algorithms("switch", 6) == ("ring", "direct")
    assert algorithms("ring", 6) == ("ring", "ring")
    assert algorithms("fully-connected", 6) == ("direct", "direct")


def test_hierarchical_design(tmp_path: Path) -> None:
    """The optimum for GPT-3 in three dimensions goes out in GiB/s of a link, with an algorithm for every block."""
    optimum = SimpleNamespace(
        name="gpt",
        kind="hierarchical-bandwidth",
        plan=SimpleNamespace(bandwidth_gbytes_per_s=(397.55295, 89.99270, 12.45435)),
        figures=SimpleNamespace(
            dimensions=[
                Dimension("package", Block.RING, 16),
                Dimension("node", Block.FULLY_CONNECTED, 8),
                Dimension("pod", Block.SWITCH, 32),
            ]
        ),
    )
    export = EXPORTERS["astrasim"].build(optimum, OPTIONS)
    check_export("astrasim", export)
    network = read_network(place(export, tmp_path) / "network.yml")
    assert network.bandwidth_gib_per_s == pytest.approx((370.2500, 11.9732, 11.5990), abs=5e-5)
    assert network.latency_ns == (500.0, 500.0, 500.0)
    system = json.loads((tmp_path / "system.json").read_text())
    assert system["all-reduce-implementation"] == ["ring", "direct", "halvingDoubling"]
    assert system["all-to-all-implementation"] == ["ring", "direct", "direct"]
    assert "assumed" in (tmp_path / "NOTES.txt").read_text()
