"""Several demands at all commands: validate, schema, solve, check, report, compare, explain; tampered files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.network_cases import HOT_EXPERTS, run
from topoopt.kinds.files import read_instance, read_solution, write_solution

FOUND = HOT_EXPERTS
RING = """
schema_version: 1
kind: routing
name: case
topology: {links: [[0, 1], [1, 2], [2, 0]]}
demands: [{matrix: [[0, 1, 0], [0, 0, 1], [1, 0, 0]]}, {matrix: [[0, 0, 1], [1, 0, 0], [0, 1, 0]]}]
"""


def told(*words: object) -> tuple[int, Any]:
    """Exit code and JSON object of a command."""
    code, text = run(*map(str, words), "--json")
    return code, json.loads(text)


def written(folder: Path, text: str, name: str = "case.yaml") -> Path:
    """A file of that text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("mode", ["common", "adapted"])
@pytest.mark.parametrize("text", [FOUND, RING])
def test_solved_checked_reported(tmp_path: Path, text: str, mode: str) -> None:
    """Both modes, links given or not: the file is read back to the same bytes, checked, and reported the same."""
    path = written(tmp_path, f"{text}routing: {mode}\n")
    assert told("validate", path)[1]["files"][0]["ok"]
    code, document = told("solve", path, "--output", tmp_path / "out")
    assert (code, document["check"]) == (0, {"ok": True, "violations": [], "not_recomputed": []})
    assert document["objective"]["value"] == document["theta"] == max(document["thetas"])
    assert (document["objective"]["name"], document["routing"], document["method"]) == (
        "worst-theta",
        mode,
        "worst-demand",
    )
    assert document["bound"]["value"] <= document["theta"]
    stored = tmp_path / "out" / "solution.json"
    code, verdict = told("check", path, stored)
    assert (code, verdict["ok"], verdict["violations"], verdict["not_recomputed"]) == (0, True, [], [])
    write_solution(read_solution(stored), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == stored.read_bytes()
    assert told("report", stored, "--output", tmp_path / "again.html")[0] == 0
    page = (tmp_path / "again.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Theta of each demand" in page
    assert 'id="topology"' in page, "the picture of the links, as with one demand"
    assert "http" not in page.replace("http://www.w3.org", "")


def test_the_theta_of_a_ring(tmp_path: Path) -> None:
    """Over a directed ring of 3, neighbours need 1 link, all others 2: theta 1 and 2, proven with the ring given."""
    code, document = told("solve", written(tmp_path, RING), "--output", tmp_path / "out")
    assert code == 0
    assert document["thetas"] == pytest.approx([1.0, 2.0])
    assert document["bound"]["value"] == pytest.approx(2.0)
    assert document["status"] == "optimal"


def test_figures_of_the_file_agree_with_the_instance(tmp_path: Path) -> None:
    """theta of every demand, added up here from pairs, their demand and their split in the solution file."""
    path = written(tmp_path, FOUND)
    code, document = told("solve", path, "--output", tmp_path / "out")
    assert code == 0
    stored = json.loads((tmp_path / "out" / "solution.json").read_text())
    demands, split = read_instance(path).demands, stored["plan"]["split"]
    heads = np.array(stored["plan"]["circuits"])
    arcs: dict[tuple[int, int], int] = {}
    for tail, head in sorted((tail, head) for row in heads.tolist() for tail, head in enumerate(row) if head >= 0):
        arcs[tail, head] = arcs.get((tail, head), 0) + 1
    pairs = np.argwhere(demands.max(axis=0) > 0)
    assert split["shape"] == [len(pairs), len(arcs)]
    loads, begin = np.zeros((3, len(arcs))), 0
    for (source, target), used in zip(pairs, split["used"], strict=True):
        row = slice(begin, begin + used)
        loads[:, split["columns"][row]] += demands[:, source, target, None] * np.array(split["values"][row])
        begin += used
    assert (loads / list(arcs.values())).max(axis=1) == pytest.approx(document["thetas"], rel=1e-9)
    assert demands.sum() == pytest.approx(3 * 5 * 4), "mean 1 over steps and ordered pairs"


def test_no_time_leaves_the_first_topology(tmp_path: Path) -> None:
    """Exit code 4 and a network that the checker takes."""
    code, early = told("solve", written(tmp_path, FOUND), "--time-limit", 0, "--output", tmp_path / "out")
    assert (code, early["check"]) == (4, {"ok": True, "violations": [], "not_recomputed": []})


def test_methods_and_compare(tmp_path: Path) -> None:
    """One method takes several demands, no other does, and it takes no single one."""
    path = written(tmp_path, RING)
    code, document = told("compare", path)
    assert code == 0
    assert "worst-demand" in json.dumps(document)
    code, document = told("solve", path, "--method", "simplex", "--output", tmp_path / "out")
    assert (code, document["problems"][0]["allowed"]) == (2, "auto, worst-demand")
    one = "schema_version: 1\nkind: topology\nname: one\nservers: 4\ndegree: 2\ndemand: {family: uniform}\n"
    assert (
        told("solve", written(tmp_path, one, "one.yaml"), "--method", "worst-demand", "--output", tmp_path / "o")[0]
        == 2
    )
    assert not (tmp_path / "out").exists()


def test_what_takes_one_demand_says_so(tmp_path: Path) -> None:
    """`explain` and `resilience` read one routing: several are refused (exit code 2)."""
    path = written(tmp_path, RING)
    assert told("solve", path, "--output", tmp_path / "out")[0] == 0
    for words in (("explain", tmp_path / "out" / "solution.json"), ("resilience", tmp_path / "out" / "solution.json")):
        code, document = told(*words)
        assert (code, document["problems"][0]["message"]) == (2, "this takes the solution of one demand")


def test_the_program_of_all_demands_is_written(tmp_path: Path) -> None:
    """`export --to lp` writes the common routing of the set; formulations of one demand refuse it."""
    path = written(tmp_path, RING)
    code, document = told(
        "export", path, "--to", "lp", "--set", "formulation=common_routing", "--output", tmp_path / "m.lp"
    )
    # conservation of 6 pairs at 2 servers each, and a load of 3 arcs under 2 demands
    assert (code, document["rows"]) == (0, 6 * 2 + 2 * 3)
    code, document = told(
        "export", path, "--to", "lp", "--set", "formulation=concurrent_flow", "--output", tmp_path / "n.lp"
    )
    assert (code, document["problems"][0]["message"]) == (2, "this formulation takes one demand")


@pytest.mark.parametrize(
    ("rule", "where"),
    [
        ("max_hops: 2", "max_hops"),
        ("forbidden: [[0, 1]]", "forbidden"),
        ("parallel_links: false", "parallel_links"),
        ("search: {robust: {}}", "search.robust"),
        ("demand: {family: uniform}", "demand"),
    ],
)
def test_what_several_demands_do_not_take(tmp_path: Path, rule: str, where: str) -> None:
    """Constraints and another demand are refused where they stand."""
    code, document = told("solve", written(tmp_path, f"{FOUND}{rule}\n"), "--output", tmp_path / "out")
    assert code == 2
    assert [each["path"] for each in document["problems"]] == [where]


@pytest.mark.parametrize(("key", "value"), [("routing", "adapted"), ("step_ms", "2")])
def test_what_one_demand_does_not_take(tmp_path: Path, key: str, value: str) -> None:
    """Keys about several demands beside one."""
    text = "schema_version: 1\nkind: topology\nname: one\nservers: 4\ndegree: 2\ndemand: {family: uniform}\n"
    code, document = told("solve", written(tmp_path, f"{text}{key}: {value}\n"), "--output", tmp_path / "out")
    assert code == 2
    assert [each["path"] for each in document["problems"]] == [key]


def test_the_former_kind_is_named_with_its_new_spelling(tmp_path: Path) -> None:
    """Files of kind robust-network are refused, and told what to write."""
    path = written(tmp_path, FOUND.replace("kind: topology", "kind: robust-network"))
    code, document = told("solve", path, "--output", tmp_path / "out")
    assert code == 2
    assert "with demands: [...]" in document["problems"][0]["allowed"]


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    """An edit: the last item is put where the others lead."""

    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for part in path[:-2]:
            target = target[part]
        target[path[-2]] = path[-1]

    return change


def _less_theta(document: dict[str, Any]) -> None:
    document["objective"]["value"] *= 0.9


def _raised_bound(document: dict[str, Any]) -> None:
    document["bound"]["value"] = document["objective"]["value"] * 1.1


def _other_links(document: dict[str, Any]) -> None:
    row = document["plan"]["circuits"][0]
    row[0], row[1] = row[1], row[0]


def _no_prices(document: dict[str, Any]) -> None:
    arrays = document["certificates"][0]["arrays"]
    arrays["prices"] = [0.0 for _ in arrays["prices"]]


def _less_traffic(document: dict[str, Any]) -> None:
    split = document["plan"]["split"]
    split["values"] = [0.9 * value for value in split["values"]]


def _no_routing(document: dict[str, Any]) -> None:
    split = document["plan"]["split"]
    for name in ("columns", "values"):
        del split[name][: split["used"][0]]
    split["used"][0] = 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_set("name", "other"), "identity"),
        (_set("instance_sha256", "0"), "instance-sha256"),
        (_less_theta, "objective"),
        (_raised_bound, "bound"),
        (_no_routing, "flow"),
        (_less_traffic, "flow"),
        (_other_links, ""),
        (_no_prices, "certificate"),
        (_set("status", "optimal"), "status"),
    ],
)
def test_changed_solutions_are_rejected(tmp_path: Path, change: Callable[[dict[str, Any]], None], code: str) -> None:
    """Whatever is changed in a solution, `check` ends with exit code 6 and says what is wrong."""
    exit_code, found = _checked_after(tmp_path, change)
    assert exit_code == 6
    codes = {each["code"] for each in found["violations"]}
    assert codes
    assert not code or code in codes


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_set("plan", "split", "shape", [1, 1]), "plan.split"),
        (_set("plan", "split", "used", 0, 10**6), "plan.split"),
        (_set("plan", "split", "values", 0, -1.0), "plan.split.values[0]"),
        (_set("plan", "circuits", 0, [1]), "plan.circuits"),
        (_set("plan", None), "plan"),
        (_set("thetas", [1.0]), "thetas"),
        (_set("surprise", 1), "surprise"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], where: str
) -> None:
    """Tables that do not fit together are input errors (exit code 2) at their place."""
    exit_code, found = _checked_after(tmp_path, change)
    assert exit_code == 2
    assert where in {problem["path"] for problem in found["problems"]}


def _checked_after(folder: Path, change: Callable[[dict[str, Any]], None]) -> tuple[int, Any]:
    path = written(folder, FOUND)
    assert told("solve", path, "--output", folder)[0] == 0
    document = json.loads((folder / "solution.json").read_text(encoding="utf-8"))
    change(document)
    (folder / "solution.json").write_text(json.dumps(document), encoding="utf-8")
    return told("check", path, folder / "solution.json")
