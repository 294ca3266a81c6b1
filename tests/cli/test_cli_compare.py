"""`topoopt compare`: kinds side by side, refusals before anything runs, files, exit codes, Ctrl-C."""

from __future__ import annotations

import csv
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import topoopt
from tests.support.cli_cases import Run, await_search, chain, job, refusals, run, searching, write
from topoopt.core.errors import InfeasibleError, InputError, LimitError, TopooptError
from topoopt.core.outcomes import COLUMNS
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import CheckResult, Objective
from topoopt.kinds.kind import Method, SolveOptions, Solver, table
from topoopt.kinds.network import ROUTING

RING = {"schema_version": 1, "name": "ring", "kind": "routing", "demand": {"family": "uniform"},
        "topology": {"family": "ring", "servers": 4}}  # fmt: skip
FIVE = {"schema_version": 1, "name": "five", "kind": "topology", "servers": 5, "degree": 2, "links": "unidirectional",
        "demand": {"family": "uniform"}}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """A solution as far as `compare` looks at it."""

    objective: Objective
    bound: Bound
    status: Status = Status.FEASIBLE
    stopped_by: StopReason = StopReason.CONVERGED
    claimed_bound: Bound | None = None
    check: CheckResult = field(default_factory=lambda: CheckResult(True, ()))


def result(value: float, bound: float, **fields: Any) -> Result:
    """A value with its bound."""
    return Result(Objective("theta", value, "link capacity"), Bound(bound, Argument.NODE_CUT), **fields)


Script = Callable[[SolveOptions], Result]


@pytest.fixture
def contest(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts hand-made methods in the place of those of the network kinds."""

    def install(methods: dict[str, Script], **fields: Any) -> None:
        lines = table(*(Method(name, "", lambda *_: None) for name in ("auto", *methods)))
        solver = Solver(lambda _: lines, lambda *_: pytest.fail("assembled"), lambda _: (("", lines),))
        record = replace(ROUTING, solver=lambda: solver, **fields)
        monkeypatch.setattr("topoopt.library.compare.kind_of", lambda _: record)
        monkeypatch.setattr("topoopt.library.compare.solve", lambda _, options: methods[options.method](options))

    return install


def raising(error: BaseException) -> Script:
    """A method that ends like this."""

    def method(_: SolveOptions) -> Result:
        raise error

    return method


def rows_of(found: Run) -> list[dict[str, Any]]:
    """Rows of the JSON object."""
    rows = found.json["runs"]
    assert isinstance(rows, list)
    return rows


def test_rows_and_gaps_of_hand_made_runs(tmp_path: Path, contest: Callable[..., None]) -> None:
    """Every outcome is a row; gaps are to the best value, 4, and the best bound, 3, of any run; CSV and JSON agree."""
    contest(
        {
            "good": lambda _: result(4.0, 2.0),
            "seeded": lambda options: result(5.0 + (options.seed or 0), 3.0),
            "picky": raising(InputError("not for this")),
            "stuck": raising(InfeasibleError("no way")),
            "slow": raising(LimitError("too late")),
        }
    )
    table = tmp_path / "table.csv"
    found = run("compare", write(tmp_path, RING), "--seeds", 2, "--output", table, "--json")
    rows = rows_of(found)
    assert found.code == 0
    assert [(row["method"], row["seed"], row["outcome"]) for row in rows] == [
        ("good", 0, "feasible"), ("good", 1, "feasible"), ("seeded", 0, "feasible"), ("seeded", 1, "feasible"),
        ("picky", 0, "not covered"), ("picky", 1, "not covered"), ("stuck", 0, "infeasible"),
        ("stuck", 1, "infeasible"), ("slow", 0, "limit"), ("slow", 1, "limit"),
    ]  # fmt: skip
    assert [row["gap_to_best"] for row in rows[:4]] == [0.0, 0.0, 0.25, 0.5]
    assert [row["gap_to_bound"] for row in rows[:4]] == pytest.approx([0.25, 0.25, 0.4, 0.5])
    assert [row["value"] for row in rows[4:]] == [None] * 6
    assert rows[4]["reason"] == "not for this"
    assert (rows[0]["theta"], rows[0]["lambda"], rows[0]["unit"]) == (4.0, 0.25, "link capacity")
    with table.open(newline="") as stream:
        listed = list(csv.DictReader(stream))
    assert tuple(listed[0]) == COLUMNS
    for row, line in zip(rows, listed, strict=True):
        assert {key: "" if value is None else str(value) for key, value in row.items()} == line
    text = run("compare", write(tmp_path, RING), "--seeds", 2).stdout
    assert "median" in text
    assert "highest bound 3 (node cut), not reached" in text
    assert "stuck: infeasible: no way" in text
    assert "25.00%" in run("compare", write(tmp_path, RING), "--methods", "good,seeded").stdout


def test_kinds_of_all_sorts_together(tmp_path: Path) -> None:
    """A method of one kind is `not covered` to the others; a budget goes to the kind that takes one."""
    files = [
        write(tmp_path, RING, "ring.json"),
        write(tmp_path, FIVE, "five.json"),
        write(tmp_path, job(4, 2, chain(4, 2)), "job.json"),
    ]
    plot = tmp_path / "plot.svg"
    found = run(
        "compare", *files, "--methods", "simplex,exact,data-parallel", "--budget", 20, "--output", plot, "--json"
    )
    assert found.code == 0
    rows = rows_of(found)
    outcomes = {(row["kind"], row["method"]): row["outcome"] for row in rows}
    assert len(rows) == len(outcomes) == 9
    assert {pair for pair, outcome in outcomes.items() if outcome != "not covered"} == {
        ("routing", "simplex"), ("topology", "exact"), ("co-optimisation", "data-parallel"),
    }  # fmt: skip
    job_row = next(row for row in rows if row["outcome"] != "not covered" and row["kind"] == "co-optimisation")
    assert (job_row["objective"], job_row["unit"], job_row["theta"]) == ("iteration_time", "ms", None)
    assert job_row["value"] >= job_row["bound"] > 0
    assert job_row["checked"]
    five = next(row for row in rows if row["kind"] == "topology" and row["method"] == "exact")
    assert (five["value"], five["proven"]) == (pytest.approx(3.0), True)  # known optimum, lambda 1/3
    root = ElementTree.fromstring(plot.read_text())
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"simplex", "exact", "data-parallel", "ring", "five", "case"} <= texts


def test_budget_makes_a_job_reproducible(tmp_path: Path) -> None:
    """With a budget there is no limit in time, so the same seed gives the same value; other seeds are other runs."""
    file = write(tmp_path, job(6, 2, chain(6)))
    twice = [rows_of(run("compare", file, "--methods", "alternating", "--budget", 30, "--json")) for _ in range(2)]
    assert twice[0][0]["value"] == twice[1][0]["value"]
    assert twice[0][0]["stopped_by"] in {"budget", "converged", "gap"}


def test_limits_reach_the_kinds_they_are_for(tmp_path: Path, contest: Callable[..., None]) -> None:
    """30 seconds unless told otherwise; none for a kind that runs by budget, unless both are given."""
    seen: list[tuple[float | None, int | None]] = []

    def method(options: SolveOptions) -> Result:
        seen.append((options.time_limit_s, options.budget))
        return result(1.0, 1.0)

    file = write(tmp_path, RING)
    contest({"m": method}, takes_budget=True)
    for words in ([], ["--time-limit", 2], ["--budget", 7], ["--budget", 7, "--time-limit", 2]):
        assert run("compare", file, *words, "--json").code == 0
    assert seen == [(30.0, None), (2.0, None), (None, 7), (2.0, 7)]


def test_nothing_runs_before_all_names_are_known(tmp_path: Path, contest: Callable[..., None]) -> None:
    """All unknown methods, and a budget without use, in one refusal."""
    contest({"m": raising(AssertionError("ran"))})
    file = write(tmp_path, RING)
    found = run("compare", file, "--methods", "quantum,m,,annealing", "--budget", 5, "--json")
    assert found.code == 2
    assert [(path, value) for path, value, _ in refusals(found.json)] == [
        ("--methods", "'quantum'"), ("--methods", "''"), ("--methods", "'annealing'"), ("--budget", "5"),
    ]  # fmt: skip


def test_a_kind_with_one_method_is_compared_by_it(tmp_path: Path, contest: Callable[..., None]) -> None:
    """Where there is no other, `auto` is run."""
    contest({})
    file = write(tmp_path, RING)
    found = run("compare", file, "--methods", "simplex", "--json")
    assert found.code == 2
    contest({"auto": lambda _: result(1.0, 1.0)})
    assert [row["method"] for row in rows_of(run("compare", file, "--json"))] == ["auto"]


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        ("--output", "plot.png", ".html, .svg"),
        ("--output", "nowhere/plot.svg", "cannot be written"),
        ("--output", "nowhere/table.csv", "cannot be written"),
        ("--output", ".", "cannot be written"),
    ],
)
def test_files_that_cannot_be_written_are_refused_first(
    tmp_path: Path, contest: Callable[..., None], option: str, name: str, words: str
) -> None:
    """Before minutes are spent; nothing runs."""
    contest({"m": raising(AssertionError("ran"))})
    found = run("compare", write(tmp_path, RING), option, tmp_path / name, "--json")
    assert found.code == 2
    assert words in found.json["error"]


def test_a_file_given_twice_counts_once(tmp_path: Path, contest: Callable[..., None]) -> None:
    """Overlapping patterns of the shell do not double the work."""
    contest({"m": lambda _: result(1.0, 1.0)})
    file = write(tmp_path, RING)
    assert len(rows_of(run("compare", file, file, "--methods", "m,m", "--json"))) == 1


def test_rejections_and_contradictions_are_failures(tmp_path: Path, contest: Callable[..., None]) -> None:
    """Exit code 6 when the checker rejects a run, and when a checked value is better than a checked bound."""
    file = write(tmp_path, RING)
    contest({"bad": lambda _: result(1.0, 1.0, check=CheckResult(False, ("flow: lost",)))})
    found = run("compare", file, "--json")
    assert found.code == 6
    assert "the checker rejects what bad found for ring" in found.stderr
    assert "REJECTED" in run("compare", file).stdout
    contest({"one": lambda _: result(2.0, 1.0), "other": lambda _: result(4.0, 3.0)})
    found = run("compare", file, "--json")
    assert found.code == 6
    assert "2.0 is better than the bound 3.0 of other (node cut)" in found.stderr


def test_a_run_that_breaks_is_a_row(tmp_path: Path, contest: Callable[..., None]) -> None:
    """Any error at all, and no memory, leaves the other rows, and says what it was; exit code 1, no traceback."""
    broken: dict[str, Exception] = {
        "broken": TopooptError("oh"),
        "big": MemoryError(),
        "zero": ZeroDivisionError("division by zero"),
        "assert": AssertionError(),
        "value": ValueError("cannot reshape array of size 0"),
    }
    contest({"good": lambda _: result(1.0, 1.0), **{name: raising(error) for name, error in broken.items()}})
    found = run("compare", write(tmp_path, RING), "--json")
    assert found.code == 1
    assert [(row["outcome"], row["reason"]) for row in rows_of(found)][1:] == [
        ("error", "oh"), ("error", "out of memory"), ("error", "ZeroDivisionError: division by zero"),
        ("error", "AssertionError"), ("error", "ValueError: cannot reshape array of size 0"),
    ]  # fmt: skip
    assert "ring: broken: oh" in found.stderr
    assert "ring: zero: ZeroDivisionError: division by zero" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_refused_file_does_not_cost_the_others(tmp_path: Path, contest: Callable[..., None]) -> None:
    """Its problems are told before the runs, the rows of the others come, and the exit code says so: 2."""
    contest({"good": lambda _: result(1.0, 1.0)})
    bad, gone = write(tmp_path, {**RING, "demand": {"family": "none"}}, "bad.json"), tmp_path / "gone.json"
    found = run("compare", bad, write(tmp_path, RING), gone, "--json")
    assert found.code == 2
    assert [(row["instance"], row["outcome"]) for row in rows_of(found)] == [("ring", "feasible")]
    assert {Path(problem["file"]).name for problem in found.json["refused"]} == {"bad.json", "gone.json"}
    assert "bad.json" in found.stderr
    assert "2 of the instances refused" in found.stderr
    nothing = run("compare", bad, gone)
    assert nothing.code == 2
    assert "bad.json" in nothing.stderr
    assert "gone.json" in nothing.stderr


def test_methods_that_do_not_apply_are_not_called_infeasible(tmp_path: Path) -> None:
    """Fibre pairs of an odd degree: no Kautz graph, no circulant; other methods solve it, so it is not infeasible."""
    case = {**FIVE, "servers": 4, "degree": 1, "demand": {"matrix": [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1],
            [0, 0, 1, 0]]}}  # fmt: skip
    pairs = {**FIVE, "links": "bidirectional"}
    found = run("compare", write(tmp_path, case, "a.json"), write(tmp_path, pairs, "b.json"), "--json")
    outcomes = {(row["file"][-6], row["method"]): (row["outcome"], row["reason"]) for row in rows_of(found)}
    assert {name for name, (outcome, _) in outcomes.items() if outcome == "infeasible"} == set()
    assert outcomes["a", "milp"][0] == "optimal"
    assert outcomes["b", "exact"][0] in {"optimal", "feasible"}
    assert outcomes["a", "robust"] == ("not covered", outcomes["a", "robust"][1])
    assert "one link a server" in outcomes["a", "robust"][1]
    assert outcomes["b", "kautz"][0] == "not covered"
    assert "fibre pairs" in outcomes["b", "kautz"][1]


@pytest.mark.parametrize("keeps", [True, False])
def test_interrupt_keeps_the_rows_so_far(tmp_path: Path, contest: Callable[..., None], keeps: bool) -> None:
    """Ctrl-C in the second of three runs: exit code 130, rows shown and written; a run that ends well counts."""
    last = (lambda _: result(2.0, 1.0, stopped_by=StopReason.INTERRUPTED)) if keeps else raising(KeyboardInterrupt())
    contest({"a": lambda _: result(3.0, 1.0), "b": last, "c": raising(AssertionError("ran"))})
    table, plot = tmp_path / "t.csv", tmp_path / "p.html"
    found = run("compare", write(tmp_path, RING), "--output", table, "--output", plot, "--json")
    assert found.code == 130
    expected = ["a", "b"] if keeps else ["a"]
    assert [row["method"] for row in rows_of(found)] == expected
    assert (found.json["stopped_by"], found.json["left_out"]) == ("interrupted", 3 - len(expected))
    assert f"interrupted: {len(expected)} of 3 runs made" in found.stderr
    assert len(table.read_text().splitlines()) == 1 + len(expected)
    assert plot.read_text().startswith("<!doctype html>")


def test_interrupt_before_the_first_row(tmp_path: Path, contest: Callable[..., None]) -> None:
    """Even then an empty table with its head is written."""
    contest({"a": raising(KeyboardInterrupt())})
    table = tmp_path / "t.csv"
    found = run("compare", write(tmp_path, RING), "--output", table, "--output", tmp_path / "p.svg")
    assert found.code == 130
    assert "no run was made" in found.stdout
    assert table.read_text() == ",".join(COLUMNS) + "\n"
    ElementTree.fromstring((tmp_path / "p.svg").read_text())


def test_ctrl_c_of_a_real_comparison(tmp_path: Path) -> None:
    """A search without end is interrupted: its best so far is a row, beside those of the methods before it."""
    hard = {**FIVE, "servers": 16, "degree": 4, "demand": {"family": "balanced-skew", "seed": 1}}
    table = tmp_path / "t.csv"
    words = ("compare", write(tmp_path, hard), "--methods", "kautz,portfolio", "--time-limit", 1000, "--output", table)
    with searching(*words, "--json") as child:
        await_search(child)  # the second run begins only after the first has its row
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=300)
    assert child.returncode == 130, stderr
    assert '"stopped_by": "interrupted"' in stdout
    assert "Traceback" not in stderr
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0]["method"] == "kautz"
    assert all(row["checked"] == "True" for row in rows)


def test_the_library_keeps_rows_too(tmp_path: Path, contest: Callable[..., None]) -> None:
    """Refused instances are named beside the rows, Ctrl-C ends with those so far; nothing left is an error."""
    contest({"a": lambda _: result(3.0, 1.0), "b": raising(KeyboardInterrupt()), "c": raising(AssertionError("ran"))})
    gone = tmp_path / "gone.json"
    table = topoopt.compare([gone, write(tmp_path, RING)])
    assert [row.run.method for row in table.rows] == ["a"]
    assert table.interrupted
    assert [problem.file for problem in table.refused] == [str(gone)]
    assert "left out" in repr(table)
    with pytest.raises(InputError, match=r"gone\.json"):
        topoopt.compare(gone)
