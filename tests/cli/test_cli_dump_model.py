"""`topoopt dump-model`: files that HiGHS reads back to the optimum of the arrays, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from formulations.programs import LpArrays
from formulations.table import FORMULATIONS, build_named
from tests.support.cli_cases import refusals, run, write
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.kinds.files import read_instance

HEAD = {"schema_version": 1, "name": "case"}
ROUTING = {
    **HEAD,
    "kind": "routing",
    "topology": {"family": "circulant", "servers": 5, "offsets": [1, 2], "links": "unidirectional"},
    "demand": {"family": "uniform"},
}
TOPOLOGY = {
    **HEAD, "kind": "topology", "servers": 4, "degree": 2, "links": "unidirectional", "demand": {"family": "uniform"}
}  # fmt: skip

# Z_5 with steps 1 and 2, a unit to every displacement: 1 and 2 go straight, 3 = 1 + 2, and 4 = 2 + 2 for a share 1 - a,
# 1 + 1 + 2 for the rest. Loads 2 + 2a and 4 - a meet at 10/3; lengths 1/3 and 2/3 prove it (1/3 + 2/3 + 1 + 4/3).
# Four servers of degree 2: each sends two units one hop and one two hops, 4 units of capacity over 2 links.
OPTIMA = {
    "circulant_flow": 10 / 3,
    "concurrent_flow": 10 / 3,
    "concurrent_flow_hops": 10 / 3,
    "path_split": 10 / 3,
    "joint_topology": -1 / 2,
    "placement_makespan": 5.0,  # both operators on one device, 3 ms and 2 ms
    "placement_joint": 5.0,
    # A ring of 4 both ways: distances 1, 1, 2 from each over 8 links of 1: 8 / 16; an AllReduce moves 2 (4 - 1) vectors
    # over them at least: 8 / 6; of an AllGather each rank takes 3 chunks over 2 links: one in a step, two in the other.
    "all_to_all_rate": -1 / 2,
    "allreduce_roots": -4 / 3,
    "step_schedule": 2.0,
    "dag_topology": 6.0,
    "circuit_matching": 3.0,
    "bandwidth_allocation": -50.0,  # the long transfer shares each link of 100 Gbit/s with another one
}

ALLOCATION: dict[str, Any] = {
    "schema_version": 1,
    "kind": "allocation",
    "name": "parking-lot",
    "topology": {"links": [[0, 1], [1, 2]], "directed": False},
    "link_gbps": 100,
    "objective": "max-min",
    "transfers": [
        {"name": "long", "source": 0, "destination": 2},
        {"name": "first", "source": 0, "destination": 1},
        {"name": "second", "source": 1, "destination": 2},
    ],
}


PLACEMENT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "placement",
    "name": "two",
    "objective": "throughput",
    "servers": [
        {"name": name, "links": [{"name": "e", "gbps": 8.0}], "devices": [{"name": f"{name}0", "class": "gpu"}]}
        for name in ("a", "b")
    ],
    "operators": [{"name": "x", "times_ms": {"gpu": 3.0}}, {"name": "y", "times_ms": {"gpu": 2.0}}],
    "tensors": [{"producer": "x", "consumers": ["y"], "size_bytes": 1_000_000}],
}
"""3 ms and 2 ms, and 1 ms to send between them."""

COLLECTIVE: dict[str, Any] = {
    "schema_version": 1,
    "kind": "collective",
    "name": "ring",
    "collective": "allgather",
    "bytes": 1000,
    "topology": {"family": "ring", "servers": 4, "link_gbytes_per_s": 1},
}


JOB: dict[str, Any] = {
    "schema_version": 1,
    "kind": "dag-topology",
    "name": "job",
    "pods": 3,
    "ports": 3,
    "circuit_rate": 1,
    "transfers": [
        {"name": "ab", "source": 0, "target": 1, "volume": 4, "after": ["before"]},
        {"name": "ac", "source": 0, "target": 2, "volume": 2},
    ],
    "tasks": [{"name": "before", "duration": 2}, {"name": "behind", "duration": 2, "after": ["ab"]}],
}
"""Two of three circuits carry 4 between 2 and 2: 6."""

REGION: dict[str, Any] = {
    "schema_version": 1,
    "kind": "regional-circuits",
    "name": "region",
    "servers": 3,
    "ports": [2, 1, 2],
    "circuit_gbps": 0.008,
    "electrical_gbps": 0.016,
    "demands": [{"matrix": [[0, 6e6, 1e6], [2e6, 0, 0], [0, 3e6, 0]]}],
}
"""A circuit of 10^6 bytes a second for the 3 from the last server to the second; 6 go electrically, twice as fast."""

LATENCY: dict[str, Any] = {**PLACEMENT, "objective": "latency"}
OF_LATENCY = {
    "favourite_children": "static",
    "link_packing": "static",
    "placement_joint": "static",
    "placement_makespan": "none",
    "placement_rates": "static",
}
"""How transfers share links, for the formulations of that objective."""


def instance_for(name: str, folder: Path) -> Path:
    """An instance that the formulation takes."""
    placement = {**LATENCY, "latency": {"sharing": OF_LATENCY[name]}} if name in OF_LATENCY else PLACEMENT
    documents = {"routing": ROUTING, "topology": TOPOLOGY, "allocation": ALLOCATION, "placement": placement}
    documents |= {"collective": COLLECTIVE, "dag-topology": JOB, "regional-circuits": REGION}
    return write(folder, next(document for kind, document in documents.items() if kind in FORMULATIONS[name].kinds))


def optimum(program: LpArrays) -> float:
    """By scipy, from the arrays."""
    found = milp(
        program.cost,
        integrality=program.is_integer.astype(int),
        bounds=Bounds(program.lower, program.upper),
        constraints=LinearConstraint(program.matrix(), program.row_lower, program.row_upper),
    )
    return float(found.fun)


@pytest.mark.parametrize("form", ["lp", "mps"])
@pytest.mark.parametrize("name", list(FORMULATIONS))
def test_files_have_the_optimum_of_the_arrays(name: str, form: str, tmp_path: Path) -> None:
    """Written, read back by HiGHS, solved: the same optimum, and the one known for the problem; names are ours."""
    path, file = instance_for(name, tmp_path), tmp_path / f"model.{form}"
    result = run("export", path, "--to", form, "--set", f"formulation={name}", "-o", file, "--json")
    assert result.code == 0
    program = build_named(name, read_instance(path), {})
    told = result.json
    assert (told["model"], told["format"], told["formulation"]) == (str(file), form, name)
    assert (told["columns"], told["rows"], told["nonzeros"]) == (program.columns, program.rows, program.nonzeros)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(file)) == highspy.HighsStatus.kOk
    assert list(solver.getLp().col_names_) == list(program.column_names or ())
    solver.run()
    found = solver.getInfo().objective_function_value
    assert found == pytest.approx(optimum(program), rel=1e-7)
    assert found == pytest.approx(OPTIMA.get(name, found), rel=1e-6)


def test_hop_lp_bounds_the_joint_program(tmp_path: Path) -> None:
    """The hop-LP of the same problem is a relaxation: lambda at least that of the joint program."""
    problem = read_instance(write(tmp_path, TOPOLOGY))
    assert -optimum(build_named("hop_lp", problem, {})) >= 1 / 2 - 1e-9


def test_options_change_the_model(tmp_path: Path) -> None:
    """Fewer paths cannot be better, and one hop cannot carry what needs two; a hop price adds its share."""
    problem = read_instance(write(tmp_path, ROUTING))
    one = optimum(build_named("path_split", problem, {"paths": 1}))
    assert one >= optimum(build_named("path_split", problem, {"paths": 4})) - 1e-9
    # 6 + a hops for 4 units: 4 - a + 2 (6 + a) / 4 falls until the loads meet at a = 2/3
    assert optimum(build_named("concurrent_flow", problem, {"hop_price": 2.0})) == pytest.approx(7 - 1 / 3)
    coarse = optimum(build_named("circulant_flow", problem, {"grid": 0}))
    assert coarse >= optimum(build_named("circulant_flow", problem, {"grid": 6})) - 1e-9
    plain = build_named("joint_topology", read_instance(write(tmp_path, TOPOLOGY)), {"symmetry": 0})
    assert not any(name.startswith("root") for name in plain.row_names or ())


def test_readable_names(tmp_path: Path) -> None:
    """Paths are named by their servers, rows by their law."""
    file = tmp_path / "model.lp"
    assert (
        run("export", write(tmp_path, ROUTING), "--to", "lp", "--set", "formulation=path_split", "-o", file).code == 0
    )
    text = file.read_text()
    assert text.startswith("\\ case: path_split\n")
    assert " split_0_3: + share_0_1_3 + share_0_2_3" in text
    assert " fit_peak_0_1: " in text


def test_list_names_every_formulation() -> None:
    """Names, kinds and options, as text and as JSON."""
    listed = run("export", "--list", "--json").json["formulations"]
    assert list(listed) == list(FORMULATIONS)
    assert listed["concurrent_flow"]["kinds"] == ["routing"]
    assert listed["path_split"]["options"]["paths"]["default"] == 4
    assert "joint_topology" in run("export", "--list").stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], [("--set formulation", None, "missing")]),
        (["--set", "formulation=nothing"], [("--set formulation", "nothing", "no such formulation")]),
        (
            ["--set", "formulation=hop_lp,gues=1"],
            [
                ("kind", "routing", "formulation hop_lp takes instances of kind topology"),
                ("--set", "gues", "no such option"),
            ],
        ),
        (["--set", "formulation=path_split,paths=0.5"], [("--set paths", "0.5", "out of range")]),
        (["--set", "formulation=path_split", "--set", "paths"], [("--set", "paths", "not a setting")]),
        (["--set", "formulation=path_split,paths=nan"], [("--set paths", "nan", "wrong value")]),
    ],
    ids=["missing", "name", "kind-and-option", "range", "no-number", "nan"],
)  # fmt: skip
def test_refusals(words: list[str], expected: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: Any) -> None:
    """Exit code 2, everything wrong at once, and no file."""
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, ROUTING)
    result = run("export", path, "--to", "lp", *words, "--json")
    assert result.code == 2
    assert refusals(result.json) == expected
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("name", "document", "path"),
    [
        ("circulant_flow", {**ROUTING, "topology": {"family": "hypercube", "dimension": 2}}, "topology"),
        ("circulant_flow", {**ROUTING, "demand": {"matrix": np.triu(np.ones((5, 5)), 1).tolist()}}, "demand"),
        ("hop_lp", {**TOPOLOGY, "servers": 2, "degree": 1}, "servers"),
        ("concurrent_flow", {**ROUTING, "kind": "co"}, "kind"),
    ],
    ids=["not-circulant", "not-invariant", "two-servers", "bad-instance"],
)
def test_what_a_formulation_cannot_state(name: str, document: dict[str, Any], path: str, tmp_path: Path) -> None:
    """The field at fault is named, exit code 2."""
    result = run(
        "export",
        write(tmp_path, document),
        "--to",
        "lp",
        "--set",
        f"formulation={name}",
        "-o",
        tmp_path / "m.lp",
        "--json",
    )
    assert result.code == 2
    assert [problem["path"] for problem in result.json["problems"]] == [path]
    assert not (tmp_path / "m.lp").exists()


def test_two_servers(tmp_path: Path) -> None:
    """The smallest network gives a model: one link each way, demand 1, lambda 1."""
    path, file = write(tmp_path, {**TOPOLOGY, "servers": 2, "degree": 1}), tmp_path / "m.lp"
    assert run("export", path, "--to", "lp", "--set", "formulation=joint_topology", "-o", file).code == 0
    assert optimum(build_named("joint_topology", read_instance(path), {})) == pytest.approx(-1.0)


def test_hop_limits(tmp_path: Path) -> None:
    """A limit is kept where the formulation knows it, refused where not, and names the demand out of reach."""
    problem = replace(read_instance(write(tmp_path, ROUTING)), max_hops=2)  # type: ignore[type-var]
    # displacement 4 takes two steps of 2 now, but 2 can go 1 + 1 for a share b: loads 2 + 2b and 4 - b
    assert optimum(build_named("concurrent_flow_hops", problem, {})) == pytest.approx(10 / 3)
    assert optimum(build_named("path_split", problem, {"paths": 50})) == pytest.approx(10 / 3)
    for name in ("concurrent_flow", "circulant_flow"):
        with pytest.raises(InputError, match="knows no hop limit"):
            build_named(name, problem, {})
    with pytest.raises(InfeasibleError, match="no path from server 0 to server 3 within 1 hops"):
        build_named("path_split", replace(problem, max_hops=1), {})  # type: ignore[type-var]


def test_same_bytes(tmp_path: Path) -> None:
    """The same instance gives the same file."""
    path = write(tmp_path, ROUTING)
    for file in ("a.mps", "b.mps"):
        assert run("export", path, "--to", "mps", "--set", "formulation=path_split", "-o", tmp_path / file).code == 0
    assert (tmp_path / "a.mps").read_bytes() == (tmp_path / "b.mps").read_bytes()
