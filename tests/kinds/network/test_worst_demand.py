"""Networks whose worst of several demands is best: topologies, routings and bounds; reading of the demands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from solvers.network.routing import route
from solvers.network.worst_case import price_bound, route_in_common, worst_topologies
from solvers.stop import Stop
from tests.support.network_cases import run
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import NetworkProblem, RoutingMode, RoutingProblem, TopologyProblem, single
from topoopt.core.topology import Topology
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve
from topoopt.verify.network.bounds import quick_bound
from topoopt.verify.network.checker import common_bound
from topoopt.workloads.demands import HotExperts, hot_experts

HEAD = "schema_version: 1\nkind: topology\nname: case\n"
TRIANGLE = "schema_version: 1\nkind: routing\nname: case\ntopology: {links: [[0, 1], [1, 2], [2, 0]]}\n"


def written(folder: Path, text: str) -> Path:
    """A file of that text."""
    path = folder / "case.yaml"
    path.write_text(text)
    return path


def demands_of(path: Path) -> NetworkProblem:
    """The problem of a file."""
    found = read_instance(path)
    assert isinstance(found, RoutingProblem | TopologyProblem)
    return found


def refused(folder: Path, text: str) -> list[dict[str, Any]]:
    """Problems of a file that `validate` refuses."""
    code, out = run("validate", written(folder, text), "--json")
    assert code == 2, text
    problems = json.loads(out)["files"][0]["problems"]
    assert isinstance(problems, list)
    return problems


def problem(demands: np.ndarray, mode: RoutingMode, degree: int = 2) -> TopologyProblem:
    """Topology to be found, directed links."""
    return TopologyProblem("case", demands.shape[1], degree, LinkDirection.UNIDIRECTIONAL, demands, routing=mode)


def shifts(n: int, *steps: int) -> np.ndarray:
    """Permutation traffic i -> i + step, one matrix each."""
    return np.array([np.roll(np.eye(n), step, axis=1) for step in steps])


def test_one_topology_serves_as_many_permutations_as_it_has_links() -> None:
    """Three permutations in turn over three links a server: a link for each, theta 1 whatever the routing knows.

    With fewer links than permutations somebody needs two hops, and then theta is above 1 / degree of the node cut.
    """
    demands = shifts(7, 1, 2, 4)
    for mode in get_args(RoutingMode):
        found = solve(problem(demands, mode, degree=3))
        assert found.check.ok
        assert found.figures.theta <= 1.0 + 1e-6
        assert found.bound.value <= found.figures.theta * (1 + 1e-9)


def test_adapted_worst_is_the_largest_of_all_optima() -> None:
    """On a given topology, routing adapted: exactly the largest of the single optima, proven."""
    edges = [(i, (i + step) % 6) for i in range(6) for step in (1, 2)]
    net = Topology.from_edges(edges, links="unidirectional")
    demands = hot_experts(6, HotExperts(4, law="dirichlet", skew=0.5), seed=3)
    found = solve(RoutingProblem("case", net, demands, routing="adapted"))
    assert found.figures.thetas == pytest.approx([route(net, matrix).theta for matrix in demands], rel=1e-6)
    assert found.gap < 1e-5
    assert found.status.value == "optimal"
    common = solve(RoutingProblem("case", net, demands))
    assert common.figures.theta >= found.figures.theta * (1 - 1e-6)
    assert common.gap < 1e-5


def test_a_set_of_one_meets_the_topology_problem() -> None:
    """One uniform matrix of 5 servers and two links: the optimum of kind `topology`, 3/4 of a unit (hand: 6 hops / 8).

    Every server reaches two others in one hop and at best the other two in two: 6 hops for 4 units over 2 links, so
    theta is 3 at least, and enumeration says it is reached.
    """
    uniform = (np.ones((5, 5)) - np.eye(5))[None]
    for mode in get_args(RoutingMode):
        found = solve(problem(uniform, mode))
        assert found.figures.theta == pytest.approx(3.0, rel=1e-5)
    assert solve(single(problem(uniform, "common"), 0)).figures.theta == pytest.approx(3.0, rel=1e-6)


def test_search_keeps_the_best_and_the_degree() -> None:
    """Topologies best first, distinct, within the degree, none below the bound of any matrix."""
    demands = hot_experts(8, HotExperts(5, skew=1.2, affinity=0.5), seed=1)
    case = TopologyProblem("case", 8, 3, LinkDirection.BIDIRECTIONAL, demands)
    bounds = [quick_bound(single(case, k)).value for k in range(5)]
    pool = worst_topologies(case, seed=0, goal=max(bounds), keep=3, stop=Stop())
    worst = [value for value, _, _ in pool]
    assert worst == sorted(worst)
    assert worst[0] >= max(bounds) * (1 - 1e-9)
    for _, topology, _ in pool:
        sent = np.bincount(topology.arcs[:, 0], topology.multiplicity, 8)
        assert sent.max() <= 3


@pytest.mark.parametrize("goal", [np.inf, 0.0])
def test_a_single_topology_is_sought_until_it_is_good_enough(goal: float) -> None:
    """Of two shifts over all links of three servers a third goes over two: the first topology met, or the best."""
    (best,) = worst_topologies(problem(shifts(3, 1, 2), "adapted"), seed=0, goal=goal, keep=1, stop=Stop())
    assert best[0] == pytest.approx(2 / 3)


def test_the_solver_and_the_checker_read_prices_alike() -> None:
    """What prices prove, by the solver's shortest paths and by the checker's own code."""
    net = Topology.from_edges([(i, (i + step) % 6) for i in range(6) for step in (1, 4)], links="unidirectional")
    demands = hot_experts(6, HotExperts(4), seed=5)
    routing = route_in_common(net, demands)
    assert price_bound(net, routing) == pytest.approx(common_bound(net, demands, routing.prices), rel=1e-12)


def test_hot_experts() -> None:
    """Mean 1, symmetric, empty diagonals, the same for the same seed; without affinity popularity explains it all."""
    for law in ("zipf", "dirichlet"):
        demands = hot_experts(6, HotExperts(10, 2, law, 0.7), seed=4)
        assert demands.shape == (10, 6, 6)
        assert demands.sum() == pytest.approx(10 * 6 * 5)
        assert np.allclose(demands, demands.transpose(0, 2, 1))
        assert not demands[:, range(6), range(6)].any()
        assert (demands == hot_experts(6, HotExperts(10, 2, law, 0.7), seed=4)).all()
        hottest = demands.sum(axis=2).argmax(axis=1)
        assert len(set(hottest.tolist())) > 1, "the hot servers move"
    zipf = hot_experts(3, HotExperts(1, law="zipf", skew=1.0), seed=0)[0]
    # Popularities 1, 1/2, 1/3 over 11/6: pairs ask for 3/2, 4/3 and 5/6 of them, scaled to a mean of 1.
    entries = sorted({round(float(value), 9) for value in zipf[np.triu_indices(3, 1)]})
    assert entries == pytest.approx([5 / 6 / (11 / 9), 4 / 3 / (11 / 9), 3 / 2 / (11 / 9)], rel=1e-9)
    with pytest.raises(InputError) as raised:
        hot_experts(1, HotExperts(0, 0, "flat", -1.0, 2.0), seed=-1)
    assert len(raised.value.problems) == 7


def test_matrices_from_all_sources_are_the_same(tmp_path: Path) -> None:
    """In the file, as .npz, .npy and CSV, in links or in Gbit/s: the same matrices, entry after entry."""
    matrices = np.zeros((2, 3, 3))
    matrices[0, 0, 2], matrices[1, 1, 0] = 3.0, 0.5
    np.savez(tmp_path / "t.npz", *matrices)
    np.save(tmp_path / "t.npy", matrices)
    for k, matrix in enumerate(matrices):
        np.savetxt(tmp_path / f"{k}.csv", matrix, delimiter=",")
    listed = ", ".join(f"{{matrix: {matrix.tolist()}}}" for matrix in matrices)
    for demands in (f"[{listed}]", "[{file: t.npz}]", "[{file: t.npy}]", "[{file: 0.csv}, {file: 1.csv}]"):
        read = demands_of(written(tmp_path, TRIANGLE + f"demands: {demands}\n"))
        assert (read.demand == matrices).all()
        assert read.several
    doubled = demands_of(written(tmp_path, TRIANGLE + "link_gbps: 0.5\ndemands: [{file: t.npz, unit: gbps}]\n"))
    assert (doubled.demands == 2 * matrices).all()
    mixed = demands_of(written(tmp_path, TRIANGLE + "demands: [{file: t.npy}, {family: uniform}, {file: 1.csv}]\n"))
    assert (mixed.demands[[0, 1, 3]] == matrices[[0, 1, 1]]).all()
    assert mixed.demands.shape == (4, 3, 3)


def test_files_count_by_their_content(tmp_path: Path) -> None:
    """The hash of an instance is that of what is in its files, not of their names."""
    hashes = []
    for name, factor in (("a.npy", 1.0), ("b.npy", 1.0), ("b.npy", 2.0)):
        np.save(tmp_path / name, factor * shifts(3, 1, 2))
        hashes.append(demands_of(written(tmp_path, TRIANGLE + f"demands: [{{file: {name}}}]\n")).sha256)
    assert hashes[0] == hashes[1] != hashes[2]


BAD = {
    "neither": ("", ["demand"]),
    "an empty set": ("demands: []", ["demands"]),
    "no list": ("demands: {family: hot-experts, steps: 2}", ["demands"]),
    "another size": ("demands: [{matrix: [[0, 1], [1, 0]]}]", ["demands[0].matrix"]),
    "all that is wrong": (
        "demands: [{matrix: [[0, 1, 0], [0, 0, 0], [0, 0, 0]]}, {matrix: [[1, 0, 0], [0, 0, 0], [0, 0, 1]]}, "
        "{matrix: [[0]]}]\nstep_ms: -1",
        ["demands[1].matrix[0][0]", "demands[1].matrix[2][2]", "demands[2].matrix", "step_ms"],
    ),
    "no demand in one": ("demands: [{matrix: [[0, 0, 0], [0, 0, 0], [0, 0, 0]]}]", ["demands[0].matrix"]),
    "negative": ("demands: [{matrix: [[0, -1, 0], [0, 0, 0], [0, 0, 0]]}]", ["demands[0].matrix[0][1]"]),
    "no such file": ("demands: [{file: none.npz}]", ["demands[0].file"]),
    "no such law": ("demands: [{family: hot-experts, steps: 2, law: flat}]", ["demands[0].law"]),
    "no such family": ("demands: [{family: hot}]", ["demands[0].family"]),
    "rate missing": ("demands: [{family: hot-experts, steps: 2, unit: gbps}]", ["demands[0].unit"]),
    "unknown routing": ("demands: [{family: hot-experts, steps: 2}]\nrouting: clever", ["routing"]),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_files_are_refused_with_all_problems(name: str, tmp_path: Path) -> None:
    """Exit code 2, and where each problem is."""
    text, paths = BAD[name]
    problems = refused(tmp_path, TRIANGLE + text + "\n")
    assert sorted(each["path"] for each in problems) == sorted(paths)
    assert all(each["line"] for each in problems)


def test_bad_traces_and_sizes(tmp_path: Path) -> None:
    """Matrices of different size, pickles, text, no links at all, one fibre pair for three servers."""
    np.savez(tmp_path / "t.npz", np.ones((2, 2)), np.ones((3, 3)))
    np.save(tmp_path / "o.npy", np.array([[None, 1], [1, None]]), allow_pickle=True)
    (tmp_path / "x.npz").write_text("no archive")
    stack = np.array([np.ones((3, 3)) - np.eye(3), np.eye(3)])
    np.save(tmp_path / "d.npy", stack)
    for name in ("t.npz", "o.npy", "x.npz"):
        assert refused(tmp_path, TRIANGLE + f"demands: [{{file: {name}}}]\n")
    assert "matrix 1" in refused(tmp_path, TRIANGLE + "demands: [{file: d.npy}]\n")[0]["message"]
    hot = "demands: [{family: hot-experts, steps: 2}]\n"
    assert refused(tmp_path, HEAD + hot), "no size"
    assert refused(tmp_path, HEAD + hot + "servers: 3\ndegree: 1\n"), "not connected"
