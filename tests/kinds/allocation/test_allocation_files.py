"""Instance and solution files of kind `allocation`, and the commands on them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from topoopt.cli.app import app
from topoopt.core.allocation import AllocationProblem
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.topology import Topology
from topoopt.kinds import kind_named
from topoopt.kinds.allocation.read import _same_links
from topoopt.kinds.files import read_instance

LINE = {"links": [[0, 1], [1, 2]], "directed": False}
CASE: dict[str, Any] = {
    "schema_version": 1,
    "kind": "allocation",
    "name": "case",
    "topology": LINE,
    "link_gbps": 100,
    "transfers": [{"source": 0, "destination": 2}, {"source": 0, "destination": 1}],
}
COMMON = {
    "kind", "name", "status", "stopped_by", "objective", "bound", "gap", "check", "seed", "wall_s", "versions",
    "instance_sha256", "notes", "solution", "report", "rates_gbps", "min_rate_gbps", "completion_time_s",
    "bottleneck_links",
}  # fmt: skip


def written(folder: Path, **changes: Any) -> Path:
    """An instance file."""
    path = folder / "case.json"
    path.write_text(json.dumps({key: value for key, value in {**CASE, **changes}.items() if value is not None}))
    return path


def load(folder: Path, **changes: Any) -> AllocationProblem:
    """The problem of an instance file."""
    found = read_instance(written(folder, **changes))
    assert isinstance(found, AllocationProblem)
    return found


def run(*words: str | Path) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout


def solved(folder: Path, *options: str, code: int = 0, **changes: Any) -> dict[str, Any]:
    """JSON of a solve; a solution is checked again."""
    path = written(folder, **changes)
    got, text = run("solve", path, "--output", folder / "out", "--force", "--json", *options)
    document = json.loads(text)
    assert got == code, document
    if got == 0:
        assert run("check", path, folder / "out" / "solution.json")[0] == 0
    assert isinstance(document, dict)
    return document


def test_all_keys_of_an_instance(tmp_path: Path) -> None:
    """Capacities, limits, names, paths and sizes come back as they stand."""
    transfers = [
        {"name": "a", "source": 0, "destination": 2, "path": [0, 1, 2], "min_gbps": 1, "max_gbps": 9, "weight": 2},
        {"source": 0, "destination": 1, "gbytes": 2, "routing": "shortest"},
        {"source": 0, "destination": 1, "bytes": 5, "paths": [[0, 1]], "shares": [1.0]},
    ]
    fields = {"capacities": [[0, 1, 40]], "egress_gbps": 80, "ingress_gbps": [1, 2, 3], "objective": "min-guarantee"}
    found = load(tmp_path, transfers=transfers, **fields)
    assert [t.name for t in found.transfers] == ["a", "0->1", "0->1#2"]
    assert [t.size_bytes for t in found.transfers] == [None, 2e9, 5.0]
    first = found.transfers[0]
    assert (first.weight, first.min_gbps, first.max_gbps) == (2.0, 1.0, 9.0)
    assert found.capacity_gbps.tolist() == [40.0, 100.0, 100.0, 100.0]
    assert found.egress_gbps is not None
    assert found.ingress_gbps is not None
    assert (found.egress_gbps.tolist(), found.ingress_gbps.tolist()) == ([80.0] * 3, [1.0, 2.0, 3.0])
    assert found.goal == "min-guarantee"


@pytest.mark.parametrize(
    ("objective", "field", "value"),
    [("max-min", "max_gbps", 50.0), ("weighted", "weight", 0.5), ("min-guarantee", "min_gbps", 50.0),
     ("completion-time", "size_bytes", 5e8)],
)  # fmt: skip
def test_transfers_of_a_matrix(tmp_path: Path, objective: str, field: str, value: float) -> None:
    """Every positive entry is a transfer, and an entry is what the objective needs; files give the same."""
    matrix = [[0, 0.5, 0], [0, 0, 0.5], [0.5, 0, 0]]
    found = load(tmp_path, transfers=None, transfers_from={"demand": {"matrix": matrix}}, objective=objective)
    assert [(t.source, t.destination) for t in found.transfers] == [(0, 1), (1, 2), (2, 0)]
    assert [getattr(t, field) for t in found.transfers] == [value] * 3
    np.savetxt(tmp_path / "demand.csv", matrix, delimiter=",")
    filed = load(tmp_path, transfers=None, transfers_from={"demand": {"file": "demand.csv"}}, objective=objective)
    assert [getattr(t, field) for t in filed.transfers] == [value] * 3


def test_transfers_of_a_routing(tmp_path: Path) -> None:
    """The routes of a routing solution carry the same: all-to-all at 1/theta links a pair, on its own links."""
    routing = {"schema_version": 1, "kind": "routing", "name": "r", "topology": {"family": "torus", "dims": [3, 3]}}
    (tmp_path / "routing.json").write_text(json.dumps({**routing, "demand": {"family": "uniform"}}))
    assert run("solve", tmp_path / "routing.json", "--output", tmp_path / "routed", "--json")[0] == 0
    source = {"solution": "routed/solution.json"}
    for topology in (None, {"family": "torus", "dims": [3, 3]}):
        document = solved(
            tmp_path, topology=topology, transfers=None, transfers_from=source, objective="completion-time"
        )
        # theta 3 (see the table of well-known networks): 1 GB a pair at 100/3 Gbit/s
        assert len(document["rates_gbps"]) == 72
        assert document["completion_time_s"] == pytest.approx(8 * 3 / 100, rel=1e-5)
    code, text = run(
        "solve", written(tmp_path, transfers=None, transfers_from=source), "--output", tmp_path, "--force", "--json"
    )
    assert code == 2
    assert "other links" in json.loads(text)["error"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"transfers": []}, "wrong length"),
    ({"transfers": None}, "one of transfers and transfers_from"),
    ({"transfers_from": {"demand": {"family": "uniform"}}}, "one of transfers and transfers_from"),
    ({"transfers": None, "transfers_from": {}}, "one of demand and solution"),
    ({"topology": None}, "topology: missing"),
    ({"transfers": [{"source": 0, "destination": 0}]}, "itself"),
    ({"transfers": [{"source": 0, "destination": 9}]}, "unknown server"),
    ({"transfers": [{"source": 0, "destination": 2, "bytes": -1}]}, "transfers[0].bytes: out of range"),
    ({"transfers": [{"source": 0, "destination": 2, "bytes": 1, "gbytes": 1}]}, "both bytes and gbytes"),
    ({"transfers": [{"source": 0, "destination": 2, "path": [0, 2]}]}, "no link 0 -> 2"),
    ({"transfers": [{"source": 0, "destination": 2, "path": [0, 1]}]}, "does not lead from 0 to 2"),
    ({"transfers": [{"source": 0, "destination": 2, "path": [0, 1, 0, 1, 2]}]}, "twice"),
    ({"transfers": [{"source": 0, "destination": 2, "path": [0, 1, 7]}]}, "unknown server 7"),
    ({"transfers": [{"source": 0, "destination": 2, "path": [0, 1, 2], "routing": "shortest"}]}, "both path and"),
    ({"transfers": [{"source": 0, "destination": 2, "paths": [[0, 1, 2], [0, 1, 2]]}]}, "more than once"),
    ({"transfers": [{"source": 0, "destination": 2, "paths": [[0, 1, 2]], "shares": [0.5]}]}, "do not sum to 1"),
    ({"transfers": [{"source": 0, "destination": 2, "shares": [1.0]}]}, "wrong number of shares"),
    ({"transfers": [{"source": 0, "destination": 2, "weight": 2}]}, "plays no part"),
    ({"transfers": [{"source": 0, "destination": 2, "min_gbps": 2}]}, "plays no part"),
    ({"transfers": [{"source": 0, "destination": 2, "min_gbps": 9, "max_gbps": 2}], "objective": "min-guarantee"},
     "more than max_gbps"),
    ({"objective": "completion-time"}, "a size for every transfer"),
    ({"objective": "fair"}, "not one of the allowed"),
    ({"surplus": "sum"}, "plays no part"),
    ({"capacities": [[0, 2, 5]]}, "no such link"),
    ({"capacities": [[0, 1, 5], [0, 1, 6]]}, "more than once"),
    ({"egress_gbps": [1, 2]}, "wrong number of rates"),
    ({"egress_gbps": -3}, "egress_gbps[0]: out of range"),
    ({"egress_gbps": "fast"}, "egress_gbps: wrong type"),
    ({"egress_gbps": [1, -2, 3]}, "egress_gbps[1]: out of range"),
    ({"link_gbps": 0}, "link_gbps: out of range"),
    ({"topology": {"links": [[0, 1], [1, 0], [2, 3], [3, 2]]}}, "no path from server 0 to server 2"),
    ({"transfers": None, "transfers_from": {"demand": {"matrix": [[0, 1], [1, 0]]}}}, "wrong size"),
    ({"transfers": None, "transfers_from": {"demand": {"family": "uniform", "unit": "gbps"}, "entry": "gbytes"}},
     "no unit"),
    ({"transfers": None, "transfers_from": {"solution": "none.json"}}, "no such file"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_bad_instances_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """Every kind of bad input has its message, with the file, and exit code 2."""
    path = written(tmp_path, **changes)
    with pytest.raises(InputError) as caught:
        read_instance(path)
    assert words in str(caught.value)
    assert all(problem.file for problem in caught.value.problems)
    assert run("validate", path, "--json")[0] == 2


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Faults of links, transfers and keys come together, each with its path."""
    transfers = [{"source": 0, "destination": 9}, {"source": 0, "destination": 2, "path": [0, 2]}]
    with pytest.raises(InputError) as caught:
        load(tmp_path, transfers=transfers, capacities=[[0, 2, 5]], surplus="sum")
    paths = {problem.path for problem in caught.value.problems}
    assert paths == {"transfers[0].destination", "transfers[1].path", "capacities[0]", "surplus"}


def test_solve_prints_and_writes_everything(tmp_path: Path) -> None:
    """All keys of a solving command, the rates by name, the full links, a report without references to elsewhere."""
    document = solved(tmp_path)
    assert set(document) >= COMMON
    assert document["rates_gbps"] == {"0->2": 50.0, "0->1": 50.0}
    assert document["bottleneck_links"] == [[0, 1]]
    assert (document["min_rate_gbps"], document["status"], document["completion_time_s"]) == (50.0, "optimal", None)
    page = Path(document["report"]).read_text()
    assert "50.00" in page
    assert "http://" not in page
    assert "https://" not in page
    assert run("report", document["solution"], "--output", tmp_path / "again.html")[0] == 0
    assert (tmp_path / "again.html").read_text() == page
    code, text = run("solve", tmp_path / "case.json", "--output", tmp_path / "out", "--force")
    assert code == 0
    assert "link 0 → 1" in text


def test_names_are_escaped_in_the_report(tmp_path: Path) -> None:
    """A name that looks like markup stays text."""
    document = solved(tmp_path, transfers=[{"name": "<script>[b]", "source": 0, "destination": 1}])
    assert "<script>[b]" not in Path(document["report"]).read_text()


def test_clashing_guarantees_exit_with_3(tmp_path: Path) -> None:
    """The message names transfers and link, and nothing is written."""
    transfers = [{"name": name, "source": 0, "destination": 1, "min_gbps": 60} for name in ("left", "right")]
    document = solved(tmp_path, code=3, transfers=transfers, objective="min-guarantee")
    assert document["status"] == "infeasible"
    assert all(word in document["error"] for word in ("left", "right", "link 0 → 1"))
    assert not (tmp_path / "out").exists()


def test_no_time_no_result(tmp_path: Path) -> None:
    """A limit of 0 exits with 5; proposals are no limit of this kind, and unknown methods are refused."""
    assert solved(tmp_path, "--time-limit", "0", code=5)["status"] == "unknown"
    assert "no such limit" in solved(tmp_path, "--budget", "5", code=2)["error"]
    assert "water-filling" in solved(tmp_path, "--method", "magic", code=2)["error"]
    assert run("validate", written(tmp_path, search={"method": "magic"}))[0] == 2


def test_same_bytes_and_round_trip(tmp_path: Path) -> None:
    """Two runs write the same file, and what is read back writes the same again, certificates included."""
    paths = {"paths": [[0, 1, 2], [0, 2]]}
    ring = {"family": "ring", "servers": 3}
    transfers = [{"source": 0, "destination": 2, **paths}, {"source": 0, "destination": 1}]
    first = Path(solved(tmp_path, topology=ring, transfers=transfers)["solution"]).read_bytes()
    document = solved(tmp_path, topology=ring, transfers=transfers)
    assert Path(document["solution"]).read_bytes() == first
    form = kind_named("allocation").files.solutions
    solution = form.read(document["solution"])
    assert solution.certificates
    assert form.text(solution).encode() == first


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [("link_gbps", [1.0], 2), ("plan", {"route_gbps": [50.0]}, 6), ("plan", {"route_gbps": [50.0, -1.0]}, 2),
     ("plan", {}, 2), ("name", "other", 6), ("status", "good", 2), ("instance", {"kind": "allocation"}, 2),
     ("certificates", [{"argument": "link-prices", "arrays": {"price": ["x"]}}], 2)],
)  # fmt: skip
def test_damaged_solution_files(tmp_path: Path, key: str, value: object, code: int) -> None:
    """A file that cannot be one exits with 2, one that is wrong with 6."""
    document = solved(tmp_path)
    path = Path(document["solution"])
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert run("check", tmp_path / "case.json", path)[0] == code


@pytest.mark.parametrize(
    ("name", "value", "rates"),
    [
        ("parking-lot-5", 50.0, {"long": 50.0, "first": 50.0, "fourth": 50.0}),
        # all-to-all on a 4 x 4 torus: 16 * 32 hops over 64 links, 8 pairs a link, so 32 / 8 Gbit/s and 8 Gbit at 4
        ("shuffle-torus-4x4", 2.0, {"0->1": 4.0, "0->10": 4.0}),
        # server 3 takes 60: 10 above the guarantees 30 and 20; both ways into 2 carry 200, of which 140 remain for
        # 80 guaranteed and 60 shared 2 to 1
        ("guarantees-6", 5.0, {"activations": 35.0, "embeddings": 25.0, "gradients": 120.0, "checkpoint": 20.0}),
    ],
)
def test_shipped_instances(tmp_path: Path, name: str, value: float, rates: dict[str, float]) -> None:
    """What ships has the values that follow by hand."""
    code, text = run("solve", f"instances/networks/{name}.yaml", "--output", tmp_path / "out", "--json")
    document = json.loads(text)
    assert (code, document["status"]) == (0, "optimal")
    assert document["objective"]["value"] == pytest.approx(value)
    assert {key: document["rates_gbps"][key] for key in rates} == pytest.approx(rates)


def test_all_pairs_of_a_torus_take_little_memory(tmp_path: Path) -> None:
    """Routes of 65,280 pairs over 4.5 million arcs are 72 MB of arrays; their identity does not write them out."""
    path = written(
        tmp_path,
        topology={"family": "torus", "dims": [4, 4, 4, 4]},
        transfers=None,
        transfers_from={"demand": {"family": "uniform"}},
    )
    code = (
        "import re, sys\nfrom topoopt.cli.app import command_line\nstatus = command_line(sys.argv[1:])\n"
        # Not of getrusage, which counts what the parent held when it made this process.
        "print(status, int(re.search(r'VmHWM:\\s+([0-9]+)', open('/proc/self/status').read())[1]) // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "validate", str(path)], capture_output=True, text=True, check=True, timeout=300
    )
    status, peak_mib = done.stdout.split()[-2:]
    assert status == "0"
    assert int(peak_mib) < 450


def test_links_are_the_same_in_number_place_and_capacity() -> None:
    """Each of these by itself makes another network."""
    arcs = np.array([(0, 1), (1, 2), (2, 0)], dtype=np.int32)
    ring = Topology.of_arcs(3, arcs, degree=2, links=LinkDirection.UNIDIRECTIONAL)
    assert _same_links(ring, replace(ring))
    for other in (
        replace(ring, arcs=arcs[:, ::-1].copy()),
        replace(ring, multiplicity=np.array([1, 2, 1], dtype=np.int32)),
        replace(ring, rates=np.array([1.0, 1.0, 2.0])),
    ):
        assert not _same_links(ring, other)
