"""What a check leaves out is claimed: exit code 8, no status `optimal`, no bound that is called verified."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import topoopt
from tests.support.cli_cases import chain, job, operator, run, write
from tests.support.paths import INSTANCES
from tests.support.valid_solutions import CASES
from topoopt.core.proofs import Status, StopReason, gap
from topoopt.core.result import UNCHECKED, Decides, LeftOut, Objective
from topoopt.kinds import kind_of
from topoopt.kinds import pipeline as pipeline_of_kinds
from topoopt.kinds.files import converted
from topoopt.kinds.pipeline import solve as solve_any
from topoopt.verify.checker import FULL, CheckDepth, CheckFindings, ViolationLog

Document = dict[str, Any]
CLAIMS = Path("../shared/data/false_claims")
CIRCUITS = """{schema_version: 1, kind: regional-circuits, name: case, servers: 4, ports: 2, circuit_gbps: 100,
  electrical_gbps: 100, switching: {delay_ms: 1, window_ms: 0}, demands: [{matrix: [
  [0, 9.0e+8, 0, 1.0e+8], [0, 0, 5.0e+8, 0], [2.0e+8, 0, 0, 0], [0, 0, 7.0e+8, 0]]}]}"""


def _claims(folder: str) -> Path:
    path = CLAIMS / folder
    if not path.is_dir():
        pytest.skip(f"{path} is not here")
    return path


@pytest.fixture(scope="module")
def circuits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the solution of a small instance, bound by prices of circuits."""
    folder = tmp_path_factory.mktemp("circuits")
    (folder / "case.yaml").write_text(CIRCUITS, encoding="utf-8")
    assert run("solve", folder / "case.yaml", "--output", folder).code == 0
    return folder


def _altered(folder: Path, change: Callable[[Document], None], name: str = "altered.json") -> Path:
    document = json.loads((folder / "solution.json").read_text())
    change(document)
    return write(folder, document, name)


def test_a_bound_that_is_left_out_is_claimed(circuits: Path) -> None:
    """Its value stated as optimal: rejected where the proof is looked at, claimed where it is not, never verified."""

    def lie(document: Document) -> None:
        document["status"] = "optimal"
        document["bound"]["value"] = document["objective"]["value"]

    honest = run("check", circuits / "solution.json", "--json").json
    assert (honest["holds"], honest["bound"]["verified"]) == (True, True)
    path = _altered(circuits, lie)
    found = run("check", circuits / "case.yaml", path, "--quick", "--json")
    assert found.code == 8
    assert (found.json["holds"], found.json["status"], found.json["bound"]["verified"]) == (False, "feasible", False)
    assert [each["decides"] for each in found.json["not_recomputed"]] == ["bound"]
    assert "is only claimed" in found.json["answer"]


@pytest.mark.parametrize(
    ("instance", "solution"), [("two-stages.yaml", "dag_lie.json"), ("hot-experts-8.yaml", "quick.json")]
)
def test_false_bounds_of_old_files_are_rejected_or_claimed(tmp_path: Path, instance: str, solution: str) -> None:
    """A lie of format 2 is not converted; in the present format it passes no check."""
    folder, file = _claims("left_out_bound"), tmp_path / "solution.json"
    assert run("convert", folder / instance, folder / solution, "-o", file).code == 6
    assert not file.exists()
    lie = converted(folder / solution, folder / instance, FULL)
    claim = replace(lie, check=UNCHECKED, status=Status.OPTIMAL, stopped_by=StopReason.CONVERGED)
    topoopt.write_solution(claim, file)
    assert run("check", folder / instance, file).code == 6
    quick = run("check", folder / instance, file, "--quick", "--json")
    assert (quick.code, quick.json["status"], quick.json["bound"]["verified"]) == (8, "feasible", False)


def test_padding_of_proofs_is_refused(circuits: Path) -> None:
    """Before any of it is looked at, so that it cannot make a check leave a proof out."""

    def twice(document: Document) -> None:
        document["certificates"] += document["certificates"]

    def empty(document: Document) -> None:
        arrays = document["certificates"][0]["arrays"]
        arrays["pair"] += [-1] * 1000
        arrays["count"] += [0] * 1000

    for change in (twice, empty):
        for words in ((), ("--quick",)):
            found = run("check", circuits / "case.yaml", _altered(circuits, change), "--json", *words)
            assert found.code == 6
            assert {each["code"] for each in found.json["violations"]} == {"bound"}


def test_padding_of_trees_is_refused(tmp_path: Path) -> None:
    """A mean that closes no box, and one that stands twice."""
    assert run("solve", INSTANCES / "dag-topology" / "two-stages.yaml", "--output", tmp_path).code == 0

    def needless(document: Document) -> None:
        arrays = document["certificates"][0]["arrays"]
        for name in ("groups", "group_size", "mean_size"):
            arrays[name].append(1)
        arrays["path_steps"].append(0)
        arrays["mean_path"].append(len(arrays["groups"]) - 1)
        arrays["mean_weight"].append(1.0)
        arrays["mean_price"] += [0.0] * document["instance"]["pods"]

    found = run("check", _altered(tmp_path, needless), "--json")
    assert found.code == 6
    assert any("closes no box" in each["message"] for each in found.json["violations"])


@pytest.fixture(scope="module")
def solved_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job and its solution."""
    folder = tmp_path_factory.mktemp("job")
    tables = [operator(f"o{i}", 6, [f"o{i - 1}"] if i else [], parts=[1], pinned_offset=i) for i in range(4)]
    assert run("solve", write(folder, job(6, 3, tables)), "--output", folder).code == 0
    return folder


def test_paths_that_carry_nothing_or_stand_twice_are_refused(solved_job: Path) -> None:
    """They would make the simulation too long to be looked at."""

    def idle(document: Document) -> None:
        routes = document["plan"]["routes"]
        document["plan"]["routes"] = [row for share, path in routes for row in ([share, path], [0.0, path])]

    def split(document: Document) -> None:
        routes = document["plan"]["routes"]
        document["plan"]["routes"] = [row for share, path in routes for row in [[share / 2, path]] * 2]

    assert json.loads((solved_job / "solution.json").read_text())["plan"]["routes"]
    refused = run("check", _altered(solved_job, idle), "--json")
    assert (refused.code, refused.json["problems"][0]["path"]) == (2, "plan.routes[1][0]")
    found = run("check", _altered(solved_job, split), "--json")
    assert found.code == 6
    assert "route-twice" in {each["code"] for each in found.json["violations"]}


def test_a_value_that_was_not_recomputed_is_not_called_holding(solved_job: Path) -> None:
    """A quick check of a job: the simulation is left out, so the value is claimed."""
    found = run("check", solved_job / "solution.json", "--quick", "--json")
    assert (found.code, found.json["ok"], found.json["holds"]) == (8, True, False)
    assert "The solution holds" not in found.json["answer"]
    assert "iteration time" in found.json["answer"]
    assert "only claimed" in found.json["answer"]
    assert run("check", solved_job / "solution.json").code == 0


def test_a_limit_of_time_leaves_all_as_claimed(solved_job: Path, circuits: Path) -> None:
    """No time at all: nothing is verified, nothing is wrong."""
    for folder in (solved_job, circuits):
        found = run("check", folder / "solution.json", "--time-limit", "0", "--json")
        assert (found.code, found.json["holds"], found.json["violations"]) == (8, False, [])
        assert found.json["bound"]["verified"] is False


def test_a_simulation_beyond_the_memory_is_not_begun(solved_job: Path) -> None:
    """Its size is estimated from what stands in the file."""
    problem = topoopt.read_instance(solved_job / "case.json")
    solution = topoopt.read_solution(solved_job / "solution.json")
    found = kind_of(problem).check(problem, solution, CheckDepth(memory_bytes=1000))
    assert found.ok
    assert not found.holds
    assert "GB" in found.claimed[0].reason


def test_too_much_memory_is_said(solved_job: Path) -> None:
    """A limit below what the program itself takes: exit code 5, no traceback."""
    found = run("check", solved_job / "solution.json", "--memory-limit", "1MB")
    assert found.code == 5
    assert "memory" in found.stderr


def test_a_check_says_for_which_instance_it_is(solved_job: Path) -> None:
    """Name and hash, and whether somebody gave it from outside."""
    problem = topoopt.read_instance(solved_job / "case.json")
    alone = run("check", solved_job / "solution.json", "--json").json
    given = run("check", solved_job / "case.json", solved_job / "solution.json", "--json").json
    for found in (alone, given):
        assert (found["instance_name"], found["instance_sha256"]) == ("case", problem.sha256)
        assert f"'case' (SHA-256 {problem.sha256})" in found["answer"]
    assert "no instance was given from outside" in alone["answer"]
    assert "no instance was given" not in given["answer"]


def test_a_solve_whose_check_leaves_its_value_out_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 8; its file says so too, and a whole check of it holds."""
    monkeypatch.setattr(pipeline_of_kinds, "BRIEF", CheckDepth(events=1))
    found = run("solve", write(tmp_path, job(6, 2, chain(6))), "--output", tmp_path, "--json")
    assert found.code == 8
    assert found.json["status"] == "feasible"
    assert "value" in {each["decides"] for each in found.json["check"]["not_recomputed"]}
    assert "holds as far as looked at" in found.json["answer"]
    assert "holds as far as looked at" in " ".join((tmp_path / "report.html").read_text().split())
    assert run("check", tmp_path / "solution.json").code == 0


def test_a_solve_whose_check_leaves_its_bound_out_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound in the file is not verified; a whole check verifies it."""
    monkeypatch.setattr(pipeline_of_kinds, "BRIEF", CheckDepth(events=0))
    (tmp_path / "case.yaml").write_text(CIRCUITS, encoding="utf-8")
    found = run("solve", tmp_path / "case.yaml", "--output", tmp_path, "--json")
    assert (found.code, found.json["status"], found.json["bound"]["verified"]) == (8, "feasible", False)
    assert "(proven)" not in found.json["answer"]
    assert json.loads((tmp_path / "solution.json").read_text())["bound"]["derived"] is False
    whole = run("check", tmp_path / "solution.json", "--json")
    assert (whole.code, whole.json["holds"], whole.json["bound"]["verified"]) == (0, True, True)


def test_an_explanation_rests_on_a_check(solved_job: Path, tmp_path: Path) -> None:
    """One without an instance, and one of a changed file."""

    def without(document: Document) -> None:
        del document["instance"]

    def faster(document: Document) -> None:
        document["objective"]["value"] *= 0.9

    assert run("explain", solved_job / "solution.json").code == 0
    found = run("explain", _altered(solved_job, without, "alone.json"), "--json")
    assert (found.code, found.json["problems"][0]["path"]) == (2, "instance")
    assert run("explain", _altered(solved_job, faster, "faster.json")).code == 6


def test_what_follows_memory_or_time_that_ran_out_is_left_out() -> None:
    """A part that runs out of memory, and one behind it that would then find nothing to read."""
    log = ViolationLog()

    def large() -> None:
        raise MemoryError

    log.guard("a", "the large part", large, Decides.VALUE)
    log.guard("b", "what rests on it", lambda: log.add("b", "nothing there"), Decides.BOUND)
    found = log.findings()
    assert (found.violations, found.holds) == ((), False)
    assert [(each.figure, each.decides) for each in found.not_recomputed] == [
        ("the large part", Decides.VALUE),
        ("what rests on it", Decides.BOUND),
    ]


def test_findings_hold_where_nothing_decides() -> None:
    """A side figure that is left out is listed, and decides nothing."""
    side = LeftOut("a price", "no book")
    assert CheckFindings((), (side,)).holds
    assert not CheckFindings((), (replace(side, decides=Decides.VALUE),)).holds


@pytest.mark.parametrize(
    ("value", "bound", "maximise", "expected"),
    [
        (7.14, 203.17, True, 1 - 7.14 / 203.17),
        (203.17, 7.14, False, 1 - 7.14 / 203.17),
        (5.0, 5.0, True, 0.0),
        (5.0, 5.0, False, 0.0),
        (5.0, 4.0, True, 0.0),
        (4.0, 5.0, False, 0.0),
        (0.0, 0.0, False, 0.0),
        (0.0, 3.0, True, 1.0),
        (3.0, 0.0, False, 1.0),
        (3.0, float("inf"), True, 1.0),
    ],
)
def test_a_gap_is_the_part_by_which_others_may_be_better(
    value: float, bound: float, maximise: bool, expected: float
) -> None:
    """Of the larger of value and bound, whether less or more is better."""
    assert gap(value, bound, maximise=maximise) == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("allocation", "collective", "routing"))])
def test_objectives_know_whether_more_is_better(name: str) -> None:
    """As the kind says of the problem; only then are gaps and answers the right way round."""
    valid = CASES[name]
    problem = valid.problem()
    solution = solve_any(problem, replace(valid.options, time_limit_s=None))
    assert solution.objective.maximise == kind_of(problem).maximise(problem)
    worse = solution.objective.value * (0.5 if solution.objective.maximise else 2.0)
    objective = Objective(solution.objective.name, worse, solution.objective.unit)
    if solution.status is Status.OPTIMAL and worse > 0 and solution.bound.value > 0:
        assert replace(solution, objective=objective).gap == pytest.approx(0.5, rel=1e-4)
