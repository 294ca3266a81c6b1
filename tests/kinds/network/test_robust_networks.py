"""`topoopt robust`: topologies for changing traffic, against links set anew; files and refusals."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from solvers.network.robust_topology import robust_topologies
from solvers.stop import Stop
from topoopt.cli.app import app
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import TopologyProblem
from topoopt.core.robust_network import RobustMode, RobustProblem
from topoopt.kinds.network.several_demands.read import read_robust
from topoopt.kinds.network.several_demands.solve import solve_robust
from topoopt.kinds.network.several_demands.steps import _sequence
from topoopt.verify.network.bounds import quick_bound
from topoopt.workloads.demand_traces import HotExperts, hot_experts

HEAD = "schema_version: 1\nkind: robust-network\nname: case\n"
TRIANGLE = HEAD + "topology: {links: [[0, 1], [1, 2], [2, 0]]}\n"


def written(folder: Path, text: str) -> Path:
    """A file of that text."""
    path = folder / "case.yaml"
    path.write_text(text)
    return path


def run(*words: object) -> tuple[int, dict[str, object]]:
    """Exit code and JSON object of the command."""
    result = CliRunner().invoke(app, ["robust", *map(str, words), "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, json.loads(result.stdout)


def problem(demands: np.ndarray, mode: RobustMode, degree: int = 2, step_ms: float | None = None) -> RobustProblem:
    """Topology to be found, directed links."""
    n = demands.shape[1]
    return RobustProblem("case", n, degree, LinkDirection.UNIDIRECTIONAL, None, demands, mode, step_ms)


def shifts(n: int, *steps: int) -> np.ndarray:
    """Permutation traffic i -> i + step, one matrix each."""
    return np.array([np.roll(np.eye(n), step, axis=1) for step in steps])


def test_one_topology_serves_as_many_permutations_as_it_has_links() -> None:
    """Three permutations in turn over three links a server: a link for each, theta 1 whatever the routing knows.

    With fewer links than permutations somebody needs two hops, and then theta is above 1 / degree of the node cut.
    """
    demands = shifts(7, 1, 2, 4)
    for mode in RobustMode:
        found = solve_robust(problem(demands, mode, degree=3), steps=False)
        assert found.check.ok
        assert found.worst <= 1.0 + 1e-6
        assert found.bound.value <= found.worst * (1 + 1e-9)


def test_setting_links_anew_and_its_break_even() -> None:
    """A permutation on links of its own over d = 2 has theta 1/2; at the break-even delay both ways take as long."""
    demands = shifts(7, 1, 2, 4, 1)
    found = solve_robust(problem(demands, RobustMode.COMMON), delays=(0.0, 0.05, 1e6))
    steps = found.steps
    assert steps is not None
    assert steps.theta == pytest.approx((0.5,) * 4, rel=1e-6)
    assert steps.break_even is not None
    assert steps.break_even_rerouted is not None
    assert steps.break_even >= steps.break_even_rerouted - 1e-9, "adapted routing leaves less to gain"
    for own, rerouted, fixed in zip(steps.theta, steps.rerouted, found.theta, strict=True):
        assert own <= rerouted <= fixed * (1 + 1e-6)
    free, _, never = steps.sequences
    assert free.every_step == pytest.approx(2.0, rel=1e-6)
    assert free.best <= free.every_step + 1e-9
    assert never.changes == 0
    assert never.best <= never.one_rerouted + 1e-9
    assert never.one_network == pytest.approx(sum(found.theta))
    again = solve_robust(problem(demands, RobustMode.COMMON), delays=(steps.break_even,))
    assert again.steps is not None
    at = again.steps.sequences[0]
    assert at.every_step == pytest.approx(at.one_network, rel=1e-9)


def test_best_sequence_is_the_least_of_all() -> None:
    """The dynamic program against every sequence of three topologies over five steps."""
    draw = np.random.default_rng(2)
    times = draw.random((5, 3))
    place = np.argmin(times, axis=1)
    for delay in (0.0, 0.1, 0.4, 10.0):
        every = [
            sum(times[k, j] for k, j in enumerate(chosen)) + delay * sum(a != b for a, b in pairwise(chosen))
            for chosen in np.ndindex(3, 3, 3, 3, 3)
        ]
        found = _sequence(times, 9.0, times.min(axis=1), place, delay)
        assert found.best == pytest.approx(min(every), rel=1e-12)
        assert found.one_network == 9.0


def test_adapted_worst_is_the_largest_of_all_optima() -> None:
    """On a given topology, routing adapted: exactly the largest of the single optima, proven."""
    from solvers.network.routing import route
    from topoopt.files.sections import make_topology

    net = make_topology(6, np.array([(i, (i + s) % 6) for i in range(6) for s in (1, 2)]), None, "given")
    demands = hot_experts(6, HotExperts(4, law="dirichlet", skew=0.5), seed=3)
    given = RobustProblem("case", 6, 2, net.links, net, demands, RobustMode.ADAPTED)
    found = solve_robust(given, steps=False)
    assert found.theta == pytest.approx([route(net, matrix).theta for matrix in demands], rel=1e-6)
    assert found.gap < 1e-5
    assert found.status.value == "optimal"
    common = solve_robust(RobustProblem("case", 6, 2, net.links, net, demands, RobustMode.COMMON), steps=False)
    assert common.worst >= found.worst * (1 - 1e-6)
    assert common.gap < 1e-5


def test_a_set_of_one_meets_the_topology_problem() -> None:
    """One uniform matrix of 5 servers and two links: the optimum of kind `topology`, 3/4 of a unit (hand: 6 hops / 8).

    Every server reaches two others in one hop and at best the other two in two: 6 hops for 4 units over 2 links, so
    theta is 3 at least, and enumeration says it is reached.
    """
    uniform = (np.ones((5, 5)) - np.eye(5))[None]
    found = solve_robust(problem(uniform, RobustMode.ADAPTED), steps=False)
    assert found.worst == pytest.approx(3.0, rel=1e-5)


def test_search_keeps_the_best_and_the_degree() -> None:
    """Topologies best first, distinct, within the degree, none below the bound of any matrix."""
    demands = hot_experts(8, HotExperts(5, skew=1.2, affinity=0.5), seed=1)
    bounds = [
        quick_bound(TopologyProblem("case", 8, 3, LinkDirection.BIDIRECTIONAL, matrix)).value for matrix in demands
    ]
    pool = robust_topologies(8, 3, LinkDirection.BIDIRECTIONAL, demands, seed=0, goal=max(bounds), keep=3, stop=Stop())
    worst = [each.worst for each in pool]
    assert worst == sorted(worst)
    assert worst[0] >= max(bounds) * (1 - 1e-9)
    for each in pool:
        sent = np.bincount(each.topology.arcs[:, 0], each.topology.multiplicity, 8)
        assert sent.max() <= 3


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
    """In the file, as .npz, .npy and CSV, in links or in Gbit/s: the same matrices, and the same hash of content."""
    matrices = np.zeros((2, 3, 3))
    matrices[0, 0, 2], matrices[1, 1, 0] = 3.0, 0.5
    np.savez(tmp_path / "t.npz", *matrices)
    np.save(tmp_path / "t.npy", matrices)
    for k, matrix in enumerate(matrices):
        np.savetxt(tmp_path / f"{k}.csv", matrix, delimiter=",")
    hashes = []
    for demand in (
        f"{{set: {matrices.tolist()}}}",
        "{file: t.npz}",
        "{file: t.npy}",
        "{files: [0.csv, 1.csv]}",
    ):
        read = read_robust(written(tmp_path, TRIANGLE + f"demand: {demand}\n"))
        assert (read.demands == matrices).all()
        hashes.append(read.sha256)
    assert len(set(hashes[1:])) == 1
    doubled = read_robust(written(tmp_path, TRIANGLE + "link_gbps: 0.5\ndemand: {file: t.npz, unit: gbps}\n"))
    assert (doubled.demands == 2 * matrices).all()


BAD = {
    "an empty set": ("demand: {set: []}", ["demand.set"]),
    "another size": ("demand: {set: [[[0, 1], [1, 0]]]}", ["demand.set[0]"]),
    "all that is wrong": (
        "demand: {set: [[[0, 1, 0], [0, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0], [0, 0, 1]], [[0]]]}\nstep_ms: -1",
        ["demand.set[1]", "demand.set[1]", "demand.set[2]", "step_ms"],
    ),
    "no demand in one": ("demand: {set: [[[0, 0, 0], [0, 0, 0], [0, 0, 0]]]}", ["demand.set[0]"]),
    "negative": ("demand: {set: [[[0, -1, 0], [0, 0, 0], [0, 0, 0]]]}", ["demand.set[0][0][1]"]),
    "no such file": ("demand: {file: none.npz}", ["demand.file"]),
    "no such law": ("demand: {family: hot-experts, steps: 2, law: flat}", ["demand.law"]),
    "rate missing": ("demand: {family: hot-experts, steps: 2, unit: gbps}", ["demand.unit"]),
    "both": ("demand: {family: hot-experts, steps: 2}\nservers: 3\ndegree: 2", ["servers", "degree"]),
    "unknown routing": ("demand: {family: hot-experts, steps: 2}\nrouting: clever", ["routing"]),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_files_are_refused_with_all_problems(name: str, tmp_path: Path) -> None:
    """Exit code 2, and where each problem is."""
    text, paths = BAD[name]
    code, document = run(written(tmp_path, TRIANGLE + text + "\n"))
    assert code == 2
    problems = document["problems"]
    assert isinstance(problems, list)
    assert sorted(each["path"] for each in problems) == sorted(paths)
    assert all(each["line"] for each in problems)


def test_bad_traces_and_sizes(tmp_path: Path) -> None:
    """Matrices of different size, pickles, text, no links at all, one fibre pair for three servers, bad delays."""
    np.savez(tmp_path / "t.npz", np.ones((2, 2)), np.ones((3, 3)))
    np.save(tmp_path / "o.npy", np.array([[None, 1], [1, None]]), allow_pickle=True)
    (tmp_path / "x.npz").write_text("no archive")
    for demand in ("{file: t.npz}", "{file: o.npy}", "{file: x.npz}", "{files: [t.npz]}"):
        assert run(written(tmp_path, TRIANGLE + f"demand: {demand}\n"))[0] == 2, demand
    hot = "demand: {family: hot-experts, steps: 2}\n"
    assert run(written(tmp_path, HEAD + hot))[0] == 2, "no size"
    assert run(written(tmp_path, HEAD + hot + "servers: 3\ndegree: 1\n"))[0] == 2, "not connected"
    fine = written(tmp_path, TRIANGLE + hot + "step_ms: 1\n")
    assert run(fine, "--delays", "-1us,abacus")[0] == 2
    assert run(written(tmp_path, TRIANGLE + hot), "--delays", "1us")[0] == 2, "no length of a step"
    assert run(tmp_path / "missing.yaml")[0] == 2
    assert run("instances/networks/k4-4.yaml")[0] == 2, "another kind"


def test_the_command_end_to_end(tmp_path: Path) -> None:
    """Figures agree with each other and with the file written; a time limit of 0 leaves the first topology (exit 4)."""
    text = HEAD + "servers: 5\ndegree: 2\nlinks: unidirectional\nstep_ms: 2\n"
    text += "demand: {family: hot-experts, steps: 3, seed: 1, law: dirichlet, skew: 0.3}\n"
    path = written(tmp_path, text)
    code, document = run(path, "--out", tmp_path / "out.json", "--delays", "1us,3d-mems")
    assert code == 0
    thetas = document["theta"]
    assert isinstance(thetas, list)
    assert document["worst_theta"] == max(thetas)
    stored = json.loads((tmp_path / "out.json").read_text())
    assert {key: stored[key] for key in ("theta", "bound", "routing_bound", "instance_sha256")} == {
        key: document[key] for key in ("theta", "bound", "routing_bound", "instance_sha256")
    }
    arcs = np.array(stored["topology"]["arcs"])
    demands = read_robust(path).demands
    loads = np.zeros((3, len(arcs)))
    for (s, t), (used, parts) in zip(stored["common"]["pairs"], stored["common"]["split"], strict=True):
        for a, part in zip(used, parts, strict=True):
            loads[:, a] += demands[:, s, t] * part
    assert (loads / arcs[:, 2]).max(axis=1) == pytest.approx(thetas, rel=1e-9)
    again = run(path, "--delays", "1us,3d-mems")[1]
    assert {**again, "wall_s": 0, "solution": 0} == {**document, "wall_s": 0, "solution": 0}
    code, early = run(path, "--time-limit", "0")
    assert (code, early["check"]) == (4, {"ok": True, "violations": []})
    assert early["new_links_every_step"] is None


def test_shipped_files_are_read() -> None:
    """Every file of instances/robust."""
    files = sorted(Path("instances/robust").glob("*.yaml"))
    assert files
    for file in files:
        assert read_robust(file).demands.ndim == 3
