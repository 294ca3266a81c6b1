"""`topoopt solve`, `check` and `compare` on network instances, held against optima anyone can recompute."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.network_cases import instance, run, solved

COMMON = {
    "kind", "name", "status", "stopped_by", "objective", "bound", "gap", "check", "seed", "wall_s", "versions",
    "instance_sha256", "solution", "report",
}  # fmt: skip

ALL_TO_ALL = [
    # Optima of uniform all-to-all (maximum concurrent flow), from the table of independent oracles; torus
    # 3x3x3: 162 links carry 27 * 54 hops, and by symmetry all alike.
    ({"family": "complete-bipartite", "sides": [4, 4]}, 0.4, 2),
    ({"family": "hypercube", "dimension": 3}, 1 / 4, 3),
    ({"family": "hypercube", "dimension": 4}, 1 / 8, 4),
    ({"family": "torus", "dims": [3, 3]}, 1 / 3, 2),
    ({"family": "torus", "dims": [4, 4]}, 1 / 8, 4),
    ({"family": "torus", "dims": [3, 3, 3]}, 1 / 9, 3),
    ({"family": "circulant", "servers": 12, "offsets": [2, 3]}, 0.214286, 3),
]


@pytest.mark.parametrize(("topology", "rate", "diameter"), ALL_TO_ALL, ids=lambda value: str(value)[:40])
def test_all_to_all_on_well_known_networks(
    tmp_path: Path, topology: dict[str, Any], rate: float, diameter: int
) -> None:
    """lambda is the known one, proven, with all keys a solving command prints."""
    document = solved(tmp_path, kind="routing", topology=topology, demand={"family": "uniform"})
    assert document["lambda"] == pytest.approx(rate, rel=2e-6)
    assert document["theta"] == pytest.approx(1 / rate, rel=2e-6)
    assert document["status"] == "optimal"
    assert document["bound"]["value"] <= document["theta"]
    assert document["gap"] <= 1e-6
    if diameter != 3 or "offsets" not in topology:
        assert document["diameter"] == diameter
    assert COMMON | {"theta", "lambda", "diameter", "mean_hops"} <= set(document)
    assert document["check"] == {"ok": True, "violations": [], "not_recomputed": []}


@pytest.mark.parametrize(
    ("n", "d", "rate"),
    [(5, 2, 1 / 3), (6, 2, 0.238095), (10, 2, 0.105263), (5, 3, 0.6), (6, 3, 0.428571), (10, 3, 0.2)],
)
def test_best_topologies_for_all_to_all(tmp_path: Path, n: int, d: int, rate: float) -> None:
    """Known optima of the joint choice of links and routing, proven."""
    document = solved(
        tmp_path, kind="topology", servers=n, degree=d, links="unidirectional", demand={"family": "uniform"}
    )
    assert document["lambda"] == pytest.approx(rate, rel=5e-6)
    assert document["status"] == "optimal"


def test_two_servers_by_hand(tmp_path: Path) -> None:
    """One link each way: theta is the larger demand; in Gbit/s it is divided by the rate."""
    demand = {"matrix": [[0, 30], [120, 0]], "unit": "gbps"}
    document = solved(tmp_path, kind="routing", topology={"links": [[0, 1], [1, 0]]}, demand=demand, link_gbps=100)
    assert document["theta"] == pytest.approx(1.2)
    assert (document["diameter"], document["mean_hops"]) == (1, 1.0)


def test_constraints_of_a_topology_are_kept(tmp_path: Path) -> None:
    """Forbidden links are not used, and of a running ring at most one link is given up."""
    ring = [[i, (i + 1) % 6] for i in range(6)]
    fields: dict[str, Any] = {
        "kind": "topology", "servers": 6, "degree": 2, "links": "unidirectional", "demand": {"family": "skew"},
        "forbidden": [[0, 3]], "kept": ring, "max_changed": 1, "parallel_links": False, "max_hops": 4,
    }  # fmt: skip
    document = solved(tmp_path, **fields)
    solution = json.loads(Path(document["solution"]).read_text())
    circuits = solution["plan"]["circuits"]
    links = [(tail, head) for row in circuits for tail, head in enumerate(row) if head >= 0]
    arcs = set(links)
    assert (0, 3) not in arcs
    assert len({tuple(pair) for pair in ring} - arcs) <= 1
    assert len(links) == len(arcs)
    assert document["diameter"] <= 4


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """Two runs write the same file."""
    fields: dict[str, Any] = {"kind": "routing", "topology": {"family": "torus", "dims": [3, 4]}}
    texts = []
    for name in ("a", "b"):
        path = instance(tmp_path, **fields, demand={"family": "skew", "seed": 4})
        run("solve", path, "--output", tmp_path / name, "--json")
        texts.append((tmp_path / name / "solution.json").read_bytes())
    assert texts[0] == texts[1]


def test_report_of_a_network(tmp_path: Path) -> None:
    """`solve` writes the report, `report` writes the same one, and its headline is the theta that was printed."""
    fields: dict[str, Any] = {"kind": "topology", "servers": 5, "degree": 2, "links": "unidirectional"}
    document = solved(tmp_path, **fields, demand={"family": "uniform"})
    first = Path(document["report"])
    assert first == tmp_path / "out" / "report.html"
    code, text = run("report", document["solution"], "-o", tmp_path / "again.html", "--json")
    assert (code, json.loads(text)) == (0, {"report": str(tmp_path / "again.html")})
    assert (tmp_path / "again.html").read_bytes() == first.read_bytes()
    assert f'<p class="value">{document["theta"]:.3f}</p>' in first.read_text()


@pytest.mark.parametrize(
    ("fields", "options", "code", "words"),
    [
        ({"kind": "routing", "topology": {"family": "ring", "servers": 4}, "demand": {"family": "no"}}, [], 2,
         "family"),
        ({"kind": "routing", "topology": {"family": "ring", "servers": 4}, "demand": {"family": "uniform"}},
         ["--method", "quantum"], 2, "frank-wolfe"),
        ({"kind": "routing", "topology": {"family": "ring", "servers": 4}, "demand": {"family": "uniform"}},
         ["--budget", "5"], 2, "--budget"),
        ({"kind": "routing", "topology": {"links": [[0, 1], [1, 2]]}, "demand": {"family": "uniform"}}, [], 2,
         "not connected"),
        ({"kind": "topology", "servers": 9, "degree": 2, "demand": {"family": "uniform"}, "max_hops": 1,
          "links": "unidirectional"}, [], 3, "hop"),
        ({"kind": "topology", "servers": 8, "degree": 2, "demand": {"family": "skew"}, "links": "unidirectional"},
         ["--method", "enumerate"], 2, "uniform"),
    ],
)  # fmt: skip
def test_bad_input_ends_with_its_exit_code(
    tmp_path: Path, fields: dict[str, Any], options: list[str], code: int, words: str
) -> None:
    """Bad input 2, infeasible 3; the JSON says why, and nothing is written."""
    out = tmp_path / "out"
    found, text = run("solve", instance(tmp_path, **fields), "--output", out, "--json", *options)
    document = json.loads(text)
    assert (found, document["exit_code"]) == (code, code)
    assert words in document["error"]
    assert not (out / "solution.json").exists()


def test_a_spoilt_solution_is_rejected(tmp_path: Path) -> None:
    """`check` ends with 6 and says what is wrong when traffic vanishes on the way."""
    solved(tmp_path, kind="routing", topology={"family": "ring", "servers": 4}, demand={"family": "uniform"})
    file = tmp_path / "out" / "solution.json"
    document = json.loads(file.read_text())
    document["plan"]["flows"][0]["flow"]["values"][0] *= 0.5
    file.write_text(json.dumps(document))
    code, text = run("check", tmp_path / "case.json", file, "--json")
    assert code == 6
    assert {violation["code"] for violation in json.loads(text)["violations"]} & {"flow"}


def test_compare_sets_methods_side_by_side(tmp_path: Path) -> None:
    """One row for each method, gaps relative to the best and to the best bound; CSV and JSON agree."""
    path = instance(
        tmp_path, kind="topology", servers=5, degree=2, links="unidirectional", demand={"family": "uniform"}
    )
    table = tmp_path / "table.csv"
    code, text = run("compare", path, "--methods", "exact,branch-and-bound,totient,kautz", "--output", table, "--json")
    assert code == 0
    rows = {row["method"]: row for row in json.loads(text)["runs"]}
    assert list(rows) == ["exact", "branch-and-bound", "totient", "kautz"]
    assert rows["exact"]["theta"] == pytest.approx(3.0, rel=1e-6)
    assert rows["branch-and-bound"]["theta"] == pytest.approx(3.0, rel=1e-6)
    best = min(row["theta"] for row in rows.values())
    for row in rows.values():
        assert row["proven"]
        assert row["checked"]
        assert row["gap_to_best"] == pytest.approx(row["theta"] / best - 1, abs=1e-9)
        assert row["gap_to_bound"] == pytest.approx(1 - 3.0 / row["theta"], abs=1e-6)
    with table.open() as stream:
        assert [row["method"] for row in csv.DictReader(stream)] == list(rows)


def test_text_output_shows_the_figures(tmp_path: Path) -> None:
    """People see theta, the bound and what proves it."""
    path = instance(tmp_path, kind="routing", topology={"family": "ring", "servers": 4}, demand={"family": "uniform"})
    code, text = run("solve", path, "--output", tmp_path / "out")
    assert code == 0
    # Ring of four: 16 hops over 8 links.
    assert "theta" in text
    assert " 2 " in text
    assert "duality" in text
    code, text = run("compare", path, "--methods", "simplex")
    assert code == 0
    assert "simplex" in text


def test_demand_from_a_file_gives_the_same_theta(tmp_path: Path) -> None:
    """The same matrix inline and as NPY is the same problem."""
    matrix = np.random.default_rng(3).integers(0, 9, (4, 4)).astype(float)
    np.fill_diagonal(matrix, 0)
    np.save(tmp_path / "demand.npy", matrix)
    ring = {"family": "ring", "servers": 4}
    inline = solved(tmp_path, kind="routing", topology=ring, demand={"matrix": matrix.tolist()})
    filed = solved(tmp_path, kind="routing", topology=ring, demand={"file": "demand.npy"})
    assert inline["theta"] == pytest.approx(filed["theta"], rel=1e-9)
