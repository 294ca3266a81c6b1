"""`topoopt reconfigure`: figures, break-even delays on both sides, files, refusals."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.support.cli_cases import chain, job, run, write
from topoopt.analyses.reconfiguration.run import break_even
from topoopt.core.outcomes import DelayPoint


def point(delay: float, time_ms: float) -> DelayPoint:
    """A point of which only delay and time matter."""
    return DelayPoint(delay, time_ms, "", 0, 0.0)


def test_break_even_is_found_between_two_simulated_delays() -> None:
    """A scheme of 1 + delay ms against 2 ms: it pays up to 1 ms, known to 2 %, true on both sides."""
    seen: list[float] = []

    def at(delay: float) -> DelayPoint:
        seen.append(delay)
        return point(delay, 1.0 + delay)

    found = break_even(at, [at(0.1), at(0.5), at(4.0)], 2.0)
    assert found.verdict == "up to"
    assert found.wins is not None
    assert found.loses is not None
    assert found.wins.iteration_time_ms < 2.0 <= found.loses.iteration_time_ms
    assert found.wins.delay_ms < 1.0 <= found.loses.delay_ms <= 1.02 * found.wins.delay_ms
    assert {found.wins.delay_ms, found.loses.delay_ms} <= set(seen)


def test_break_even_at_the_ends() -> None:
    """Never: not even at 0. Always: at the largest delay tried. Below the grid: between 0 and its first delay."""
    assert break_even(lambda d: point(d, 3.0 + d), [point(1.0, 4.0)], 2.0).verdict == "never"
    assert break_even(lambda d: point(d, 2.0), [point(0.0, 2.0)], 2.0).verdict == "never", "a tie pays nothing"
    assert (
        break_even(lambda d: point(d, 1.0), [point(1.0, 1.0), point(9.0, 1.0)], 2.0).verdict == "at every delay tried"
    )
    found = break_even(lambda d: point(d, 1.0 + 1000 * d), [point(1.0, 1001.0)], 2.0)
    assert found.wins is not None
    assert found.loses is not None
    assert found.wins.delay_ms < 1e-3 <= found.loses.delay_ms


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four servers, two links each, AllReduce and transfers."""
    folder = tmp_path_factory.mktemp("reconfigure")
    operators = chain(4, 3, weights=2_000_000, outputs=20_000)
    operators[1]["splits"] = operators[1]["splits"][:1]  # one server: its neighbours send to it
    operators[1]["pinned_offset"] = 2
    return write(folder, job(4, 2, operators))


def test_sweep_of_a_small_job(small: Path, tmp_path: Path) -> None:
    """One-shot is flat, schedules by phase only get slower with the delay, verdicts are true, files agree."""
    table, page = tmp_path / "s.csv", tmp_path / "s.html"
    words = ("reconfigure", small, "--delays", "1us,3d-mems,1ms,1us", "--output", table, "--output", page, "--json")
    done = run(*words)
    assert done.code == 0, done.stderr
    sweep = done.json
    assert [scheme["name"] for scheme in sweep["schemes"]] == ["one-shot", "per-phase", "sip-ml", "ocs-reconfig"]
    by_name = {scheme["name"]: scheme for scheme in sweep["schemes"]}
    times = {name: [each["iteration_time_ms"] for each in scheme["points"]] for name, scheme in by_name.items()}
    assert [each["delay_ms"] for each in by_name["one-shot"]["points"]] == [0.001, 1.0, 10.0]
    assert len(set(times["one-shot"])) == 1
    assert times["per-phase"] == sorted(times["per-phase"])
    assert by_name["one-shot"]["break_even"] is None
    one_shot = times["one-shot"][0]
    for name in ("per-phase", "sip-ml", "ocs-reconfig"):
        verdict = by_name[name]["break_even"]
        if verdict["verdict"] == "up to":
            assert verdict["wins"]["iteration_time_ms"] < one_shot <= verdict["loses"]["iteration_time_ms"] * (1 + 1e-9)
            assert verdict["wins"]["delay_ms"] < verdict["loses"]["delay_ms"]
        if verdict["verdict"] == "never":
            assert min(times[name]) >= one_shot * (1 - 1e-9)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [float(row["iteration_time_ms"]) for row in rows] == [value for name in times for value in times[name]]
    assert "<svg" in page.read_text()
    again = run(*words, "--force").json
    assert {**again, "wall_s": 0} == {**sweep, "wall_s": 0}, "the same seed gives the same figures"


def test_delays_alone(small: Path) -> None:
    """Without break-even delays the points are the same, and the answer names the fastest of them."""
    words = ("reconfigure", small, "--delays", "1us,1ms", "--fabrics", "sip-ml,ocs-reconfig", "--budget", 30)
    judged, alone = run(*words, "--json"), run(*words, "--set", "break_even=false", "--json")
    assert alone.code == 0, alone.stderr
    assert [scheme["points"] for scheme in alone.json["schemes"]] == [
        scheme["points"] for scheme in judged.json["schemes"]
    ]
    assert all(scheme["break_even"] is None for scheme in alone.json["schemes"])
    anew = [
        (point["iteration_time_ms"], scheme["name"])
        for scheme in alone.json["schemes"][1:]
        for point in scheme["points"]
    ]
    said = run(*words, "--set", "break_even=false").stdout
    assert "When does reconfiguring pay?" not in said
    assert f"at best ({min(anew)[1]} at " in said


def test_a_given_plan_is_checked_and_used(small: Path, tmp_path: Path) -> None:
    """Of a solution nothing is searched: one-shot is the plan's own network; with another job in it, it is refused."""
    assert run("solve", small, "--output", tmp_path / "out", "--budget", "30").code == 0
    solution = tmp_path / "out" / "solution.json"
    done = run("reconfigure", solution, "--delays", "1ms", "--fabrics", "sip-ml", "--json")
    assert done.code == 0, done.stderr
    assert [scheme["name"] for scheme in done.json["schemes"]] == ["one-shot", "sip-ml"]
    document = json.loads(solution.read_text())
    other = write(tmp_path, {**document, "instance": job(4, 2, chain(4, 4))}, "other.json")
    assert run("reconfigure", other, "--delays", "1ms").code == 6


def test_svg_and_text(small: Path, tmp_path: Path) -> None:
    """The picture alone, and a table with the answer for people."""
    done = run("reconfigure", small, "--delays", "1us,60s", "--fabrics", "per-phase", "--output", tmp_path / "s.svg")
    assert done.code == 0, done.stderr
    assert "When does reconfiguring pay?" in done.stdout
    assert (tmp_path / "s.svg").read_text().startswith("<svg")


def test_a_time_limit_of_zero_still_says_what_is_there(small: Path) -> None:
    """Nothing is simulated but one-shot; the verdicts are open, exit code 4."""
    done = run("reconfigure", small, "--delays", "1ms", "--time-limit", "0", "--json")
    assert done.code == 4, done.stderr
    assert {scheme["break_even"]["verdict"] for scheme in done.json["schemes"][1:]} == {"not decided in time"}


def test_refusals(small: Path, tmp_path: Path) -> None:
    """Bad delays are all told, and unknown schemes, no delay, a period of 0, another kind of instance: exit code 2."""
    done = run("reconfigure", small, "--delays", "-1us,abacus,10", "--set", "period=soon", "--json")
    assert done.code == 2
    assert [problem["value"] for problem in done.json["problems"]] == ["'-1us'", "'abacus'", "'10'", "'soon'"]
    for words in (
        ("--fabrics", "sip-ml,token-ring"),
        ("--delays", ","),
        ("--set", "period=0us"),
        ("--output", tmp_path / "s.gif"),
    ):
        done = run("reconfigure", small, *words, "--json")
        assert (done.code, bool(done.json["problems"])) == (2, True), words
    assert run("reconfigure", "instances/networks/k4-4.yaml").code == 2
    assert run("reconfigure", tmp_path / "missing.yaml").code == 2
