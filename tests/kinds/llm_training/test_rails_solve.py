"""`solve` on rails whose circuits are set anew: the strategy is chosen with the delay counted, and proven."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from solvers import switching as strategies
from tests.support.cli_cases import run
from tests.support.llm_plans import with_certificate, with_fabric
from tests.support.paths import INSTANCES
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import rail_bounds_s, rails_certificate
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import Result
from topoopt.core.switching import PortSplit
from topoopt.kinds.files import read_instance
from topoopt.kinds.llm_training.page import answer
from topoopt.kinds.pipeline import solve
from topoopt.verify.llm_training import rails as checked
from topoopt.verify.llm_training.check import check_llm_training
from topoopt.verify.llm_training.iteration import seconds_of
from topoopt.verify.llm_training.layers import records_of, shapes_of, strategies_of
from topoopt.verify.llm_training.rails import Follower, all_plans, derived_job

FILE = INSTANCES / "llm-training" / "rails-32.yaml"


def problem_with(delay_s: float, *, provisioned: bool = True) -> LlmTrainingProblem:
    """Eight servers of four GPUs, one or two stages."""
    problem = read_instance(FILE)
    assert isinstance(problem, LlmTrainingProblem)
    assert problem.switching is not None
    space = replace(problem.space, pipeline=(1, 2), tensor=(2, 4), zero=(1,), micro_batch=(2,), context=(1,))
    switching = replace(problem.switching, delay_s=delay_s, provisioned=provisioned)
    return replace(problem, space=space, switching=switching)


@cache
def solved(delay_s: float) -> Result[Any, Any]:
    """Of two stages at most."""
    found = solve(problem_with(delay_s))
    assert isinstance(found, Result)
    assert found.check.ok
    assert not found.check.not_recomputed
    return found


def fastest_s(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> float:
    """Of all plans of ports, each followed by the checker."""
    assert problem.switching is not None
    job, delay_s = derived_job(problem, strategy, problem.switching), problem.switching.delay_s
    demand = not problem.switching.provisioned
    plans = itertools.product(*(all_plans(job, rank) for rank in range(job.ranks)))
    return min(Follower(job, plan, delay_s, demand=demand).step() for plan in plans)


@pytest.mark.parametrize("delay_s", [0.0, 0.004, 0.05])
def test_no_strategy_and_no_plan_of_ports_is_faster(delay_s: float) -> None:
    """Every strategy of the space on every plan of ports."""
    problem, solution = problem_with(delay_s), solved(delay_s)
    every = replace(problem, top=1000)
    ranked = solve(every).plan.ranked
    rows = [row for shape in shapes_of(problem) for row in strategies_of(problem, shape)]
    assert len(ranked) == len(rows)
    best = min(fastest_s(problem, one) for one in ranked)
    assert solution.objective.value == pytest.approx(best, rel=1e-9)
    assert solution.status is Status.OPTIMAL
    least = float(seconds_of(problem, records_of(rows)).min())
    assert solution.figures.fabrics[1].iteration_time_s == pytest.approx(least, rel=1e-9)
    assert solution.objective.value >= least * (1 - 1e-9)


def test_the_best_strategy_changes_with_the_delay() -> None:
    """Stages while switching hides, replicas alone, which are never switched, beyond."""
    short, long = solved(0.0), solved(0.05)
    assert (short.plan.strategy.pipeline, long.plan.strategy.pipeline) == (2, 1)
    rails = long.figures.fabrics[0].rails
    assert rails is not None
    assert rails.stall_s == 0.0
    assert {one.data for one in rails.stages} == {PortSplit(0, 2)}
    assert rails.one_shot_s == pytest.approx(long.objective.value)
    assert "photonic-rails" in answer(long)


def test_a_limit_keeps_the_best_with_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next strategy's time on an ideal switch is the bound then."""
    proven = solved(0.05)
    monkeypatch.setattr(strategies, "MOST_TRIED", 1)
    problem = problem_with(0.05)
    found = solve(problem)
    assert isinstance(found, Result)
    assert found.check.ok
    assert found.stopped_by is StopReason.BUDGET
    assert found.status is Status.FEASIBLE
    assert found.bound.value == pytest.approx(found.figures.ranked[1].iteration_time_s)
    assert found.bound.value <= proven.objective.value <= found.objective.value


def test_the_checker_objects() -> None:
    """Another step, other ports, other bounds, none."""
    problem, solution = problem_with(0.004), solved(0.004)
    first, bounds_s = solution.plan.fabrics[0], rail_bounds_s(solution.certificates)
    assert check_llm_training(problem, solution).ok
    assert solution.figures.fabrics[0].rails.one_shot_s is not None
    for ports in (
        (),
        (*first.ports, first.ports[0]),
        tuple(replace(one, data=PortSplit(2, 2)) for one in first.ports),
    ):
        assert not check_llm_training(problem, with_fabric(solution, 0, replace(first, ports=ports))).ok, ports
    for bounds in ((*bounds_s[:-1], bounds_s[-1] * 1.01), bounds_s[:-1], ()):
        assert not check_llm_training(
            problem, with_certificate(solution, "rail_bounds_s", rails_certificate(bounds))
        ).ok
    value = replace(solution.objective, value=solution.objective.value * 0.99)
    assert not check_llm_training(problem, replace(solution, objective=value)).ok


def test_bounds_beyond_the_limit_of_passes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of strategies that come after the one at which the limit is met."""
    solution = solved(0.004)  # Solved and checked in full before the limit is lowered.
    monkeypatch.setattr(checked, "MAX_PASSES", 1)
    findings = check_llm_training(problem_with(0.004), solution)
    assert findings.ok
    assert "rails" in {one.figure for one in findings.not_recomputed}


def test_from_the_command_line(tmp_path: Path) -> None:
    result = run("solve", FILE, "-o", tmp_path / "out", "--json")
    assert result.code == 0, result.stderr
    document = result.json
    switching = document["switching"]
    assert document["fabric"] == "photonic-rails"
    assert document["status"] == "optimal"
    assert sum(document["breakdown_s"].values()) == pytest.approx(document["iteration_time_s"])
    assert switching["electrical_s"] <= document["iteration_time_s"] <= switching["one_shot_s"]
    assert "never switched" in (tmp_path / "out" / "report.html").read_text()
    assert run("check", tmp_path / "out" / "solution.json").code == 0
    failed = run("resilience", tmp_path / "out" / "solution.json")
    assert failed.code == 2
    assert "topoopt reconfigure --failed says what dead interfaces do" in " ".join(failed.stderr.split())
    steps = run("reconfigure", tmp_path / "out" / "solution.json", "--delays", "3ms", "--json").json
    provisioned = next(one for one in steps["rails"]["steps"] if one["mode"] == "provisioned")
    assert provisioned["step_s"] == pytest.approx(document["iteration_time_s"], rel=1e-9)


def test_rails_need_a_delay(tmp_path: Path) -> None:
    file = tmp_path / "rails.yaml"
    text = FILE.read_text().replace("switching:", "fabrics: [photonic-rails] #")
    file.write_text(text)
    result = run("solve", file)
    assert result.code == 2
    assert "how long circuits of the rails take to set" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("ports", "strategy", "message"),
    [
        (1, "{tensor: 4, pipeline: 4, data: 2, zero: 1}", "circuits for pipeline exceed the ports of a GPU"),
        (2, "{tensor: 8, pipeline: 1, data: 4, zero: 1}", "pods split a tensor group"),
        (2, "{tensor: 1, pipeline: 1, data: 32, zero: 3}", "passes gather weights over the rail"),
    ],
)
def test_why_no_strategy_stands_on_rails(ports: int, strategy: str, message: str, tmp_path: Path) -> None:
    """One sentence with the part of the strategy or the setting that is in the way."""
    text = FILE.read_text()
    begin, end = text.index("strategy:"), text.index("switching:")
    text = text[:begin] + f"strategy: {strategy}\n" + text[end:].replace("delay: 3ms", f"delay: 3ms, ports: {ports}")
    file = tmp_path / "job.yaml"
    file.write_text(text)
    refused = run("solve", file, "-o", tmp_path / "out")
    assert refused.code == 3
    assert message in " ".join(refused.stderr.split())
