"""`topoopt reconfigure` on a trace of demands: one network against routes and links set anew at every step."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.network_cases import HOT_EXPERTS, run
from topoopt.analyses.reconfiguration.run import EVERY_STEP, best_sequence, trace_sweep
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import RoutingMode, TopologyProblem
from topoopt.core.outcomes import Scheme
from topoopt.kinds.pipeline import solve

TRACE = HOT_EXPERTS


def shifted(mode: RoutingMode, step_ms: float | None = 10.0) -> TopologyProblem:
    """Permutation traffic i -> i + 1, 2, 4, 1 of 7 servers with two links each."""
    demands = np.array([np.roll(np.eye(7), step, axis=1) for step in (1, 2, 4, 1)])
    return TopologyProblem("case", 7, 2, LinkDirection.UNIDIRECTIONAL, demands, routing=mode, step_ms=step_ms)


def swept(problem: TopologyProblem, *delays_ms: float) -> dict[str, Scheme]:
    """Schemes by name."""
    return {one.name: one for one in trace_sweep(problem, solve(problem), delays_ms=delays_ms).schemes}


def test_setting_links_anew_and_its_break_even() -> None:
    """A permutation on links of its own over d = 2 has theta 1/2; at the break-even delay both ways take as long."""
    problem = shifted("common")
    found = swept(problem, 0.0, 0.5, 1e7)
    one, rerouted, every, best = found["one-shot"], found["rerouted"], found["every-step"], found["best-sequence"]
    assert every.thetas == pytest.approx((0.5,) * 4, rel=1e-6)
    for own, routed, fixed in zip(every.thetas, rerouted.thetas, one.thetas, strict=True):
        assert own <= routed <= fixed * (1 + 1e-6)
    free, _, never = range(3)
    assert every.points[free].iteration_time_ms == pytest.approx(4 * 0.5 * 10, rel=1e-6)
    assert best.points[free].iteration_time_ms <= every.points[free].iteration_time_ms + 1e-9
    assert best.points[never].reconfigurations == 0
    assert best.points[never].iteration_time_ms <= rerouted.points[never].iteration_time_ms + 1e-9
    assert one.points[never].iteration_time_ms == pytest.approx(10 * sum(one.thetas))
    paid, against = every.break_even, every.break_even_rerouted
    assert paid is not None
    assert against is not None
    assert paid.verdict == against.verdict == "up to"
    assert paid.wins is not None
    assert against.wins is not None
    assert paid.wins.delay_ms >= against.wins.delay_ms - 1e-9, "adapted routing leaves less to gain"
    saved = one.points[0].iteration_time_ms - every.points[0].iteration_time_ms
    assert paid.wins.delay_ms == pytest.approx(saved / every.points[0].reconfigurations, rel=1e-6)
    at = swept(problem, paid.wins.delay_ms)
    times = [at[name].points[0].iteration_time_ms for name in ("every-step", "one-shot")]
    assert times[0] == pytest.approx(times[1], rel=1e-6)


def test_routing_adapted_has_no_scheme_of_its_own() -> None:
    """Where routes are set for every demand anyhow, `rerouted` is the one network itself."""
    found = swept(shifted("adapted"), 1.0)
    assert list(found) == ["one-shot", "every-step", "best-sequence"]
    assert found["every-step"].break_even_rerouted is None


def test_best_sequence_is_the_least_of_all() -> None:
    """The dynamic program against every sequence of three topologies over five steps."""
    times = np.random.default_rng(2).random((5, 3))
    for delay in (0.0, 0.1, 0.4, 10.0):
        every = [
            sum(times[k, j] for k, j in enumerate(chosen)) + delay * sum(a != b for a, b in pairwise(chosen))
            for chosen in np.ndindex(3, 3, 3, 3, 3)
        ]
        assert best_sequence(times, delay)[0] == pytest.approx(min(every), rel=1e-12)


def test_what_is_no_trace_is_refused() -> None:
    """No length of a step, one demand, a scheme that does not exist."""
    for problem in (
        shifted("common", None),
        TopologyProblem("one", 4, 2, LinkDirection.UNIDIRECTIONAL, np.ones((4, 4)) - np.eye(4), step_ms=1.0),
    ):
        with pytest.raises(InputError):
            trace_sweep(problem, solve(problem), delays_ms=[1.0])
    problem = shifted("common")
    with pytest.raises(InputError, match="unknown scheme"):
        trace_sweep(problem, solve(problem), delays_ms=[1.0], schemes=[EVERY_STEP, "sip-ml"])


def told(*words: object) -> tuple[int, Any]:
    """Exit code and JSON object of the command."""
    code, text = run("reconfigure", *map(str, words), "--json")
    return code, json.loads(text)


def test_the_command_end_to_end(tmp_path: Path) -> None:
    """The same with a stored solution as with none; table and page; again the same; a time limit of 0 exits with 4."""
    path = tmp_path / "case.yaml"
    path.write_text(TRACE)
    wanted = ("--delays", "1us,3d-mems", "--output", tmp_path / "p.html", "--output", tmp_path / "t.csv")
    code, document = told(path, *wanted)
    assert code == 0
    schemes = {each["name"]: each for each in document["schemes"]}
    assert [point["delay_ms"] for point in schemes["every-step"]["points"]] == [0.001, 10.0]
    assert len(schemes["one-shot"]["thetas"]) == 3
    assert schemes["one-shot"]["points"][0]["iteration_time_ms"] == pytest.approx(
        2 * sum(schemes["one-shot"]["thetas"])
    )
    assert "Theta of every step" in (tmp_path / "p.html").read_text()
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 1 + 4 * 2
    assert run("solve", path, "--output", tmp_path / "out")[0] == 0
    again = told(tmp_path / "out" / "solution.json", *wanted, "--force")[1]
    assert {**again, "wall_s": 0} == {**document, "wall_s": 0}
    code, early = told(path, "--time-limit", 0)
    assert code == 4
    assert [each["name"] for each in early["schemes"]] == ["one-shot"]


@pytest.mark.parametrize(
    "words",
    [
        ("--delays", "-1us,abacus"),
        ("--set", "period=1ms"),
        ("--budget", "10"),
        ("--set", "iterations=2"),
        ("--fabrics", "per-phase"),
    ],
)
def test_what_is_for_jobs_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Options of jobs, and bad delays, end with exit code 2."""
    path = tmp_path / "case.yaml"
    path.write_text(TRACE)
    assert told(path, *words)[0] == 2
