"""Instance files of the kinds `routing` and `topology`: what is read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.support.network_cases import instance, run
from tests.support.network_files import ROUTING, TOPOLOGY, load, refused, with_
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.kinds.files import read_instance
from topoopt.workloads.demands import DEMAND_FAMILIES


def routed(folder: Path, topology: dict[str, Any], demand: dict[str, Any] | None = None) -> RoutingProblem:
    """A routing problem on a topology."""
    problem = load(folder, with_(ROUTING, topology=topology, demand=demand or {"family": "uniform"}))
    assert isinstance(problem, RoutingProblem)
    return problem


def arcs_of(problem: RoutingProblem) -> set[tuple[int, int, int]]:
    """Tail, head and links of every arc."""
    topology = problem.topology
    return {(int(t), int(h), int(m)) for (t, h), m in zip(topology.arcs, topology.multiplicity, strict=True)}


def test_links_and_matrix_in_the_file(tmp_path: Path) -> None:
    """A topology and a demand in full come back as they stand, in units of one link."""
    problem = load(tmp_path, ROUTING)
    assert arcs_of(problem) == {(0, 1, 1), (1, 2, 1), (2, 0, 1)}
    assert problem.topology.links is LinkDirection.UNIDIRECTIONAL
    assert problem.demand.tolist() == [[0, 1, 2], [3, 0, 4], [5, 6, 0]]


def test_repeated_links_are_parallel_and_undirected_ones_go_both_ways(tmp_path: Path) -> None:
    """A pair listed twice is two links; with directed: false each goes back as well."""
    topology = {"links": [[0, 1], [0, 1], [1, 2], [2, 0]], "directed": False}
    problem = routed(tmp_path, topology)
    assert arcs_of(problem) == {(0, 1, 2), (1, 0, 2), (1, 2, 1), (2, 1, 1), (2, 0, 1), (0, 2, 1)}
    assert problem.topology.degree == 3
    assert problem.topology.links is LinkDirection.BIDIRECTIONAL


FAMILIES = [
    ({"family": "ring", "servers": 6}, nx.cycle_graph(6)),
    ({"family": "torus", "dims": [3, 4]}, nx.convert_node_labels_to_integers(nx.grid_graph((4, 3), periodic=True))),
    ({"family": "torus", "dims": [2, 2, 2]}, nx.convert_node_labels_to_integers(nx.hypercube_graph(3))),
    ({"family": "hypercube", "dimension": 4}, nx.convert_node_labels_to_integers(nx.hypercube_graph(4))),
    ({"family": "complete-bipartite", "sides": [4, 4]}, nx.complete_bipartite_graph(4, 4)),
    ({"family": "complete", "servers": 5}, nx.complete_graph(5)),
    ({"family": "circulant", "servers": 16, "offsets": [3, 4]}, nx.circulant_graph(16, [3, 4])),
    ({"family": "circulant", "servers": 8, "offsets": [1, 4]}, nx.circulant_graph(8, [1, 4])),
    ({"family": "mesh", "dims": [3, 4]}, nx.grid_2d_graph(3, 4)),
    ({"family": "distance-regular", "graph": "petersen"}, nx.petersen_graph()),
    (
        {"family": "product", "factors": [{"family": "ring", "servers": 5}, {"family": "complete", "servers": 3}]},
        nx.cartesian_product(nx.cycle_graph(5), nx.complete_graph(3)),
    ),
    (
        {"family": "degree-expansion", "of": {"family": "ring", "servers": 5}, "copies": 2},
        nx.lexicographic_product(nx.cycle_graph(5), nx.empty_graph(2)),
    ),
    # Heawood's and the Moebius-Kantor graph are the cyclic Haar graphs of 7 and 8 with differences 0, 1, 3.
    ({"family": "haar", "modulus": 7, "order": 1, "twist": 1, "generators": [0, 1, 3]}, nx.heawood_graph()),
    ({"family": "haar", "modulus": 8, "order": 1, "twist": 1, "generators": [0, 1, 3]}, nx.moebius_kantor_graph()),
    # The dihedral group of six elements with its three reflections.
    (
        {"family": "cayley", "modulus": 3, "order": 2, "twist": 2, "generators": [1, 3, 5], "links": "bidirectional"},
        nx.complete_bipartite_graph(3, 3),
    ),
]


@pytest.mark.parametrize(("section", "graph"), FAMILIES, ids=lambda value: str(value)[:40])
def test_families_are_the_graphs_of_networkx(tmp_path: Path, section: dict[str, Any], graph: nx.Graph) -> None:
    """Every undirected family is isomorphic to networkx's, single links in both directions."""
    problem = routed(tmp_path, section)
    made = nx.DiGraph([(t, h) for t, h, _ in arcs_of(problem)])
    assert nx.is_isomorphic(made.to_undirected(), graph)
    assert made.number_of_edges() == 2 * graph.number_of_edges()
    assert set(problem.topology.multiplicity.tolist()) == {1}
    assert problem.topology.links is LinkDirection.BIDIRECTIONAL


def test_one_way_expansions(tmp_path: Path) -> None:
    """The line graph of a line graph, and a Cayley digraph of a group that does not commute."""
    ring = {"family": "complete", "servers": 4}
    twice = arcs_of(routed(tmp_path, {"family": "line-graph", "of": ring, "times": 2}))
    due = nx.line_graph(nx.line_graph(nx.complete_graph(4).to_directed()))
    assert nx.is_isomorphic(nx.DiGraph([(t, h) for t, h, _ in twice]), due)
    section = {"family": "cayley", "modulus": 7, "order": 3, "twist": 2, "generators": [1, 3]}
    # (a, b) has the number 3 a + b; times (0, 1) it is (a, b + 1), times (1, 0) it is (a + 2^b, b).
    links = {(3 * a + b, 3 * a + (b + 1) % 3, 1) for a in range(7) for b in range(3)}
    links |= {(3 * a + b, 3 * ((a + 2**b) % 7) + b, 1) for a in range(7) for b in range(3)}
    assert arcs_of(routed(tmp_path, section)) == links


def test_later_keys_leave_identities_alone(tmp_path: Path) -> None:
    """Keys that came with later families are not part of the identity of instances without them."""
    from topoopt.files.sections import FamilyTopology

    dumped = FamilyTopology(family="ring", servers=6).model_dump(mode="json")
    assert set(dumped) == {
        "family", "servers", "degree", "dims", "dimension", "sides", "offsets", "links", "seed",
    }  # fmt: skip


def test_unidirectional_circulant(tmp_path: Path) -> None:
    """Single fibres go one way round only, and the distances are told."""
    problem = routed(tmp_path, {"family": "circulant", "servers": 7, "offsets": [1, 3], "links": "unidirectional"})
    assert arcs_of(problem) == {(i, (i + o) % 7, 1) for i in range(7) for o in (1, 3)}
    assert problem.topology.offsets == (1, 3)


@pytest.mark.parametrize(("n", "d"), [(27, 6), (20, 4), (6, 2), (5, 2), (9, 2), (10, 3), (4, 3)])
def test_generalized_kautz_is_regular_with_a_small_diameter(tmp_path: Path, n: int, d: int) -> None:
    """Degrees are d, no server is linked to itself, and the diameter is at most Imase and Itoh's ceil(log_d n)."""
    problem = routed(tmp_path, {"family": "generalized-kautz", "servers": n, "degree": d})
    graph = nx.MultiDiGraph([(t, h) for t, h, m in arcs_of(problem) for _ in range(m)])
    assert {k for _, k in graph.out_degree()} == {k for _, k in graph.in_degree()} == {d}
    assert nx.number_of_selfloops(graph) == 0
    assert nx.diameter(nx.DiGraph(graph)) <= math.ceil(math.log(n, d))


@pytest.mark.parametrize("links", ["bidirectional", "unidirectional"])
def test_random_regular_is_seeded(tmp_path: Path, links: str) -> None:
    """Regular, connected, without parallel links; the seed decides."""
    section = {"family": "random-regular", "servers": 12, "degree": 3, "links": links}
    one, again, other = (arcs_of(routed(tmp_path, {**section, "seed": seed})) for seed in (1, 1, 2))
    assert one == again != other
    assert {m for _, _, m in one} == {1}
    for end in (0, 1):
        assert set(np.bincount([arc[end] for arc in one]).tolist()) == {3}
    assert ({(h, t) for t, h, _ in one} == {(t, h) for t, h, _ in one}) is (links == "bidirectional")


def test_graphs_of_other_tools(tmp_path: Path) -> None:
    """The same graph as GraphML, node-link JSON and list of links gives the same topology and the same identity."""
    graph = nx.petersen_graph()
    nx.write_graphml(graph, tmp_path / "net.graphml")
    (tmp_path / "net.json").write_text(json.dumps(nx.node_link_data(graph, edges="links")))
    (tmp_path / "net.csv").write_text("source,target\n" + "".join(f"{t},{h}\n" for t, h in graph.edges()))
    sections: list[dict[str, Any]] = [{"file": f"net.{end}"} for end in ("graphml", "json")]
    found = [routed(tmp_path, section) for section in (*sections, {"file": "net.csv", "directed": False})]
    expected = {(a, b, 1) for t, h in graph.edges() for a, b in ((t, h), (h, t))}
    assert [arcs_of(problem) for problem in found] == [expected] * 3
    assert len({problem.sha256 for problem in found}) == 1


def test_named_nodes_are_numbered_in_file_order(tmp_path: Path) -> None:
    """Servers with names get numbers, and the notes say which."""
    nx.write_graphml(nx.DiGraph([("tor-a", "tor-b"), ("tor-b", "tor-a")]), tmp_path / "net.graphml")
    problem = routed(tmp_path, {"file": "net.graphml"})
    assert arcs_of(problem) == {(0, 1, 1), (1, 0, 1)}
    assert "0 = 'tor-a', 1 = 'tor-b'" in problem.notes[0]


def test_demand_files(tmp_path: Path) -> None:
    """CSV and NPY (rows or columns first, whole numbers too) hold the same matrix; files count by their content."""
    matrix = np.array([[0, 1.5, 2], [3, 0, 4], [5, 6, 0]])
    np.savetxt(tmp_path / "d.csv", matrix, delimiter=",")
    np.save(tmp_path / "d.npy", matrix)
    np.save(tmp_path / "f.npy", np.asfortranarray(matrix))
    names = ["d.csv", "d.npy", "f.npy"]
    found = [load(tmp_path, with_(ROUTING, demand={"file": name})) for name in names]
    assert all(np.array_equal(problem.demand, matrix) for problem in found)
    assert len({problem.sha256 for problem in found}) == 1
    np.save(tmp_path / "d.npy", (2 * matrix).astype(np.int32))
    changed = load(tmp_path, with_(ROUTING, demand={"file": "d.npy"}))
    assert changed.demand.tolist() == (2 * matrix).tolist()
    assert changed.sha256 != found[0].sha256


def test_parquet_demand(tmp_path: Path) -> None:
    """A Parquet table is read."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"a": [0.0, 2.0], "b": [1.0, 0.0]}), tmp_path / "d.parquet")
    problem = load(tmp_path, with_(ROUTING, topology={"family": "ring", "servers": 2}, demand={"file": "d.parquet"}))
    assert problem.demand.tolist() == [[0, 1], [2, 0]]


def test_units(tmp_path: Path) -> None:
    """A demand in Gbit/s is divided by the rate of a link, which must be given."""
    demand = {"matrix": [[0, 50], [25, 0]], "unit": "gbps"}
    document = with_(ROUTING, topology={"family": "ring", "servers": 2}, demand=demand)
    assert load(tmp_path, {**document, "link_gbps": 100}).demand.tolist() == [[0, 0.5], [0.25, 0]]
    assert "link_gbps" in refused(tmp_path, document)


@pytest.mark.parametrize("family", sorted(DEMAND_FAMILIES))
def test_generated_demand_is_seeded(tmp_path: Path, family: str) -> None:
    """Every family gives a proper matrix of the asked mean, the same for the same seed."""
    document = with_(TOPOLOGY, servers=12, demand={"family": family, "seed": 3, "scale": 2.0})
    problem, again = load(tmp_path, document), load(tmp_path, document)
    assert isinstance(problem, TopologyProblem)
    assert np.array_equal(problem.demand, again.demand)
    assert not problem.demand.diagonal().any()
    assert problem.demand.min() >= 0
    assert problem.demand.sum() == pytest.approx(2.0 * 12 * 11)


def test_topology_problem_in_full(tmp_path: Path) -> None:
    """Links listed for fibre pairs hold both ways; everything else is handed on."""
    document = with_(
        TOPOLOGY, links="bidirectional", max_hops=2, forbidden=[[0, 3]], kept=[[1, 0], [1, 2]], max_changed=1,
        parallel_links=False, search={"method": "exact", "seed": 4, "time_limit_s": 2.5},
    )  # fmt: skip
    problem = load(tmp_path, document)
    assert problem.links is LinkDirection.BIDIRECTIONAL
    assert problem.forbidden == ((0, 3), (3, 0))
    assert problem.kept == ((0, 1), (1, 0), (1, 2), (2, 1))
    assert (problem.max_hops, problem.max_changed, problem.parallel_links) == (2, 1, False)
    assert (problem.search.method, problem.search.seed, problem.search.time_limit_s) == ("exact", 4, 2.5)


def test_shipped_instances_load() -> None:
    """Every network instance we ship is valid, and its file has its name."""
    files = sorted(Path("instances/networks").glob("*.yaml"))
    assert len(files) >= 3
    for file in files:
        assert read_instance(file).name == file.stem


def test_pairs_without_demand_need_no_path(tmp_path: Path) -> None:
    """A server apart from the others that nobody sends to is fine; demand for it is not, and the pair is named."""
    matrix = [[0, 0, 1, 0], [0.5, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    ring = {"servers": 4, "directed": True, "links": [[0, 1], [1, 2], [2, 0]]}
    path = instance(tmp_path, kind="routing", demand={"matrix": matrix}, topology=ring)
    solution = tmp_path / "out" / "solution.json"
    code, text = run("solve", path, "-o", solution.parent)
    assert code == 0, text
    found = json.loads(solution.read_text())
    assert found["objective"]["value"] == pytest.approx(1.5)  # 1 -> 2 carries 1 and 0.5
    assert found["status"] == "optimal"
    for command in (("check", path, solution), ("explain", solution), ("report", solution, "-o", tmp_path / "r.html")):
        code, text = run(*command)
        assert code == 0, text
    matrix[0][3] = 1e-12
    again = instance(tmp_path, kind="routing", demand={"matrix": matrix}, topology=ring)
    code, text = run("solve", again, "-o", tmp_path / "none", "--json")
    assert code == 2
    assert "no way from server 0 to server 3" in " ".join(text.split())
