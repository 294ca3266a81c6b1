"""Instance and solution files of kind placement: what is refused, and round trips."""

from __future__ import annotations

import copy
import json
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.paths import INSTANCES
from tests.support.placement_cases import random_problem
from topoopt.core.errors import InputError
from topoopt.core.placement import LinkShare, PlacementProblem, Throughput
from topoopt.core.result import Result
from topoopt.kinds.files import converted, read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.placement import SOLUTION_FILE
from topoopt.verify.checker import FULL

GOOD: dict[str, Any] = {
    "schema_version": 1,
    "kind": "placement",
    "name": "small",
    "objective": "throughput",
    "servers": [
        {
            "name": name,
            "links": [{"name": "eth0", "gbps": 10.0}],
            "devices": [{"name": f"{name}0", "class": "gpu", "memory_bytes": 100}],
        }
        for name in ("a", "b")
    ],
    "operators": [
        {"name": "x", "times_ms": {"gpu": 1.0}, "memory_bytes": 60},
        {"name": "y", "times_ms": {"gpu": 2.0}, "memory_bytes": 60},
        {"name": "z", "times_ms": {"gpu": 2.0}},
    ],
    "tensors": [
        {"producer": "x", "consumers": ["y"], "size_bytes": 1250},
        {"producer": "y", "consumers": ["z"], "size_bytes": 1250},
    ],
}


def read(document: dict[str, Any], folder: Path) -> PlacementProblem:
    """Through a file."""
    file = folder / "instance.json"
    file.write_text(json.dumps(document))
    problem = read_instance(file)
    assert isinstance(problem, PlacementProblem)
    return problem


def changed(path: str, value: object) -> dict[str, Any]:
    """GOOD with one value replaced; the path has keys and positions joined by dots."""
    document = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    at: Any = document
    for key in parents:
        at = at[int(key)] if isinstance(at, list) else at[key]
    if isinstance(at, list):
        at[int(last)] = value
    else:
        at[last] = value
    return document


def test_good_file_is_read(tmp_path: Path) -> None:
    """Names, units and defaults as the file says."""
    problem = read(GOOD, tmp_path)
    assert problem.classes == ("gpu",)
    assert [tensor.consumers for tensor in problem.tensors] == [(1,), (2,)]
    assert problem.send_ms(1250, 0, 1) == pytest.approx(0.001)  # 10 kbit at 10 Gbit/s
    assert problem.objective == Throughput()


REFUSED = {
    "cycle": ("tensors.1.consumers", ["x"], r"cycle of 2 operators.*'x'"),
    "operator on itself": ("tensors.0.consumers", ["x"], r"cycle of 1 operators"),
    "fits no device": ("operators.0.memory_bytes", 101, r"operators\[0\].memory_bytes: the operator fits no device"),
    "runs nowhere": ("operators.2.times_ms", {"gpu": None}, r"'z'"),
    "missing class": ("operators.2.times_ms", {"cpu": 1.0}, r"no time for a device class \(value: gpu\)"),
    "negative time": ("operators.1.times_ms", {"gpu": -1.0}, r"operators\[1\].times_ms.gpu: out of range \(value: -1"),
    "negative size": ("tensors.0.size_bytes", -5, r"tensors\[0\].size_bytes: out of range"),
    "duplicate operator": ("operators.1.name", "x", r"operators\[1\].name: the name of another operator"),
    "duplicate server": ("servers.1.name", "a", r"servers\[1\].name: the name of another server"),
    "duplicate device": ("servers.1.devices.0.name", "a0", r"the name of another device"),
    "unknown producer": ("tensors.0.producer", "w", r"no operator of that name"),
    "consumer twice": ("tensors.0.consumers", ["y", "y"], r"a consumer more than once"),
    "no link": ("servers.1.links", [], r"servers\[1\].links: no link to the other servers"),
    "other objective": ("latency", {}, r"options of objective latency"),
    "stages without interleaving": ("throughput", {"stages_per_device": 2}, r"only interleaved stages"),
    "no graph": ("operators", None, r"no graph"),
    "two graphs": ("generator", {"family": "moe"}, r"more than one graph"),
}


@pytest.mark.parametrize("issue", list(REFUSED))
def test_refusals_name_what_is_wrong(issue: str, tmp_path: Path) -> None:
    """Each fault is told with its place and value."""
    path, value, message = REFUSED[issue]
    with pytest.raises(InputError, match=message):
        read(changed(path, value), tmp_path)


def test_contradictory_colocation_is_named(tmp_path: Path) -> None:
    """A group too large for every device, and one that no device runs as a whole."""
    large = copy.deepcopy(GOOD)
    for operator in large["operators"][:2]:
        operator["colocation"] = "pair"
    with pytest.raises(InputError, match=r"co-located group fits no device, 120 bytes: 'x', 'y' \(value: 'pair'\)"):
        read(large, tmp_path)
    split = copy.deepcopy(GOOD)
    split["servers"][1]["devices"][0]["class"] = "cpu"
    for operator, times in zip(
        split["operators"], ({"gpu": 1.0, "cpu": None}, {"gpu": None, "cpu": 1.0}), strict=False
    ):
        operator.update(times_ms=times, colocation="pair", memory_bytes=1)
    split["operators"][2]["times_ms"] = {"gpu": 1.0, "cpu": 1.0}
    with pytest.raises(InputError, match=r"no device runs all operators of a co-located group: 'x', 'y'"):
        read(split, tmp_path)


def test_all_issues_are_told_at_once(tmp_path: Path) -> None:
    """A server without links, a device twice and an unknown consumer in one message."""
    document = changed("servers.1.links", [])
    document["servers"][1]["devices"][0]["name"] = "a0"
    document["tensors"][0]["consumers"] = ["nobody"]
    with pytest.raises(InputError) as error:
        read(document, tmp_path)
    assert len(error.value.problems) == 3


def test_generated_and_library_graphs(tmp_path: Path) -> None:
    """A generator or a model in place of operators; another device class is refused."""
    plain = {key: value for key, value in GOOD.items() if key not in ("operators", "tensors")}
    open_memory = json.loads(json.dumps(plain).replace('"memory_bytes": 100', '"memory_bytes": null'))
    moe = read({**open_memory, "generator": {"family": "moe", "layers": 2, "branches": 3}}, tmp_path)
    # tokens, two blocks of attention, router, three experts and combine, output: forward and backward
    assert len(moe.operators) == 2 * (1 + 2 * 6 + 1)
    small = {"layers": 1, "hidden": 64, "heads": 2, "sequence": 16}
    gpt = {"model": "gpt", "sizes": small, "device": "a100"}
    model = read({**open_memory, "workload": {**gpt, "training": False}}, tmp_path)
    assert not any(operator.backward for operator in model.operators)
    with pytest.raises(InputError, match=r"workload.device_class: no times for other classes \(value: gpu\)"):
        read({**open_memory, "workload": {**gpt, "device_class": "tpu"}}, tmp_path)
    with pytest.raises(InputError, match="no such device"):
        read({**open_memory, "workload": {**gpt, "device": "abacus"}}, tmp_path)


@pytest.fixture(scope="module")
def solution() -> Result[Any, Any]:
    """A GPipe pipeline with a CPU."""
    problem = random_problem(4, operators=6, cpus=1, backward=True, memory=True, settings=Throughput(schedule="gpipe"))
    result: Result[Any, Any] = solve(problem, SolveOptions(method="slices"))
    return result


def test_solution_file_round_trip(solution: Result[Any, Any], tmp_path: Path) -> None:
    """Written, read and written again: the same bytes, the same placement."""
    file = tmp_path / "solution.json"
    SOLUTION_FILE.write(solution, file)
    again = SOLUTION_FILE.read(file)
    assert SOLUTION_FILE.text(again) == file.read_text()
    assert (again.plan.device == solution.plan.device).all()
    assert again.plan.device.dtype == np.int32


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("device", [0, -1], r"plan.device\[1\]: out of range"),
        ("device", [0.5], r"plan.device\[0\]"),
        ("start_ms", [-1.0], r"plan.start_ms\[0\]: out of range"),
        ("send_ms", None, "plan.send_ms"),
        ("link_shares", [{"source": 0, "target": 1, "link": 64, "gbps": 1.0}], r"plan.link_shares\[0\].link: out of"),
        ("stage", [0], "plan.stage: unknown"),
    ],
)
def test_broken_solution_files_are_refused(
    key: str, value: object, message: str, solution: Result[Any, Any], tmp_path: Path
) -> None:
    """Numbers out of range and unknown keys never reach the checker."""
    document = json.loads(SOLUTION_FILE.text(solution))
    document["plan"][key] = value
    file = tmp_path / "solution.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        SOLUTION_FILE.read(file)


def test_schedules_round_trip(solution: Result[Any, Any], tmp_path: Path) -> None:
    """Starts and shares of links survive the file."""
    n = len(solution.plan.device)
    plan = replace(
        solution.plan,
        start_ms=np.arange(n, dtype=float),
        send_ms=np.array([0.25]),
        link_shares=(LinkShare(0, 1, 0, 0.5),),
    )
    file = tmp_path / "solution.json"
    SOLUTION_FILE.write(replace(solution, plan=plan), file)
    again = SOLUTION_FILE.read(file)
    assert again.plan.link_shares == plan.link_shares
    assert again.plan.start_ms.tolist() == plan.start_ms.tolist()
    assert SOLUTION_FILE.text(again) == file.read_text()


def written_before(result: Result[Any, Any]) -> dict[str, Any]:
    """The file of format 2 of a result: tables that follow from the plan, beside its decisions."""
    figures, plan, scheduled = result.figures, result.plan, result.figures.scheduled
    document = SOLUTION_FILE.document(result)
    bounds = {
        key: {"value": bound["value"], "proved_by": bound["argument"], "verified": key == "bound"}
        for key in ("bound", "claimed_bound")
        if (bound := document.get(key)) is not None
    }
    return {
        **{key: value for key, value in document.items() if key not in ("plan", "certificates")},
        **bounds,
        "schema_version": 2,
        "operators": [["x", d] for d in plan.device.tolist()],
        "start_ms": plan.start_ms.tolist() if scheduled else None,
        "transfers": [list(astuple(row)) for row in figures.transfers],
        "link_shares": [list(astuple(share)) for share in plan.link_shares],
    }


@pytest.mark.parametrize("name", ["shared-fork-3", "branches-3"])
def test_files_of_format_2_are_converted(name: str, tmp_path: Path) -> None:
    """The same decisions, and a check that passes."""
    result: Result[Any, Any] = solve(read_instance(INSTANCES / f"placement/{name}.yaml"), SolveOptions(budget=50))
    file = tmp_path / "solution.json"
    file.write_text(json.dumps(written_before(result)))
    again = converted(file, None, FULL)
    assert again.check.ok, again.check.violations
    assert SOLUTION_FILE.text(again) == SOLUTION_FILE.text(replace(result, check=again.check, notes=again.notes))
