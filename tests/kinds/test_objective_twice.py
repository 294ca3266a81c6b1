"""The objective of every kind is computed twice, by code that is not shared: alter the one, and the other objects.

A change is made wherever the function was imported to, so that it reaches both sides if both call it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import at_once_cases
from tests.support.altered import altered_everywhere
from topoopt.core.job_solution import Evaluation
from topoopt.core.llm_training_solution import StrategyFigures
from topoopt.core.solution import Objective
from topoopt.kinds import KINDS, kind_of
from topoopt.kinds.instance_file import read_instance
from topoopt.library.calls import solve
from topoopt.verify.job.simulation.rounds import Times
from topoopt.verify.laws.findings import FULL

INSTANCES = Path(__file__).parents[2] / "instances"

WORSE = 1.01


def scaled(value: float) -> float:
    """1 % more."""
    return value * WORSE


def all_scaled(found: Mapping[str, float]) -> dict[str, float]:
    """1 % more of every part."""
    return {name: scaled(part) for name, part in found.items()}


def scaled_field(name: str) -> Callable[[Any], Any]:
    """The same dataclass with 1 % more in one field."""
    return lambda found: replace(found, **{name: getattr(found, name) * WORSE})


def all_later(found: Times) -> Times:
    """1 % more in the end of every task."""
    return replace(found, end=[scaled(end) for end in found.end])


def less(found: Objective) -> Objective:
    """1 % less, where more would be better than the bound."""
    return replace(found, value=found.value / WORSE)


def slower(found: StrategyFigures) -> StrategyFigures:
    """1 % more in the time of the forward passes."""
    return replace(found, breakdown=scaled_field("forward")(found.breakdown))


def scaled_second(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """A tuple with 1 % more at its second place."""
    return (found[0], found[1] * WORSE, *found[2:])


def ends_later(found: Evaluation) -> Evaluation:
    """An iteration whose last step takes 1 % of it longer."""
    *steps, last = found.critical_path
    return replace(found, critical_path=(*steps, replace(last, end_ms=scaled(last.end_ms))))


def slower_steps(found: tuple[Any, Any]) -> tuple[Any, Any]:
    """Begin and end of all steps 1 % later."""
    return type(found)(
        np.multiply(times, WORSE).tolist() if isinstance(times, list) else times * WORSE for times in found
    )


@dataclass(frozen=True)
class Side:
    """A function that computes the objective, or what it follows from, and how its result is altered."""

    name: str
    change: Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A problem, what computes its objective for the solution, and what does for the checker."""

    kind: str
    problem: Callable[[], Any]
    producer: Side
    checker: Side
    options: tuple[tuple[str, Any], ...] = ()


def shipped(name: str) -> Callable[[], Any]:
    """An instance of ours."""
    return lambda: read_instance(INSTANCES / f"{name}.yaml")


def two_demands() -> Any:
    """One network for two demands."""
    problem = shipped("networks/hot-experts-8")()
    return replace(problem, demand=problem.demand[:2])


FLOW = Side("topoopt.verify.laws.flows:check_flow", scaled_field("theta"))
UTILISATION = Side("topoopt.kinds.network.solve:_objective", scaled_field("value"))

CASES = {
    "job": Case(
        "co-optimisation",
        shipped("tiny-4"),
        Side("topoopt.simulate.time_models.evaluate:evaluate", ends_later),
        Side("topoopt.verify.job.simulation.rounds:simulate_rounds", all_later),
        (("budget", 20),),
    ),
    "routing": Case("routing", shipped("networks/k4-4"), UTILISATION, FLOW),
    "topology": Case("topology", shipped("networks/uniform-5-2"), UTILISATION, FLOW),
    "topology for several demands": Case(
        "topology",
        two_demands,
        UTILISATION,
        Side("topoopt.verify.network.routings:thetas_of", lambda found: (tuple(map(scaled, found[0])), found[1])),
        (("objective_only", True),),
    ),
    "allocation": Case(
        "allocation",
        shipped("networks/guarantees-6"),
        Side("topoopt.kinds.allocation.figures:reached", less),
        Side("topoopt.verify.allocation.check:objective_of", scaled_second),
    ),
    "collective": Case(
        "collective",
        shipped("collectives/ring-5"),
        Side("topoopt.kinds.collective.methods:timing", scaled_field("step_us")),
        Side("topoopt.verify.collective.check:step_time_us", scaled),
    ),
    "llm-training": Case(
        "llm-training",
        shipped("llm-training/small-16"),
        Side("topoopt.kinds.llm_training.solve:_figures", slower),
        Side("topoopt.verify.llm_training.step:parts_of", all_scaled),
    ),
    "dag-topology": Case(
        "dag-topology",
        shipped("dag-topology/two-stages"),
        Side("topoopt.kinds.dag_topology.solve:followed", slower_steps),
        Side("topoopt.verify.dag_topology.check:follow", slower_steps),
    ),
    "regional-circuits": Case(
        "regional-circuits",
        shipped("regional-circuits/hot-experts-8"),
        Side("topoopt.kinds.regional_circuits.solve:timed_step", scaled_field("transfer_s")),
        Side("topoopt.verify.regional_circuits.check:step_seconds", scaled),
    ),
    "hierarchy": Case(
        "hierarchical-bandwidth",
        shipped("hierarchical/gpt3-3d"),
        Side("topoopt.kinds.hierarchy.figures:figures_of", scaled_field("time_ns")),
        Side("topoopt.verify.hierarchy.times:fleet_time_ns", scaled),
    ),
    "placement for throughput": Case(
        "placement",
        shipped("placement/branches-3"),
        Side("topoopt.simulate.placement.stage_loads:max_load_ms", scaled),
        Side("topoopt.verify.placement.loads:objective_of", scaled),
        (("budget", 50),),
    ),
    "placement for latency": Case(
        "placement",
        shipped("placement/shared-fork-3"),
        Side("topoopt.kinds.placement.latency_outcome:expanded", scaled_field("end_ms")),
        Side("topoopt.verify.placement.latency:makespan_ms", scaled),
        (("budget", 50),),
    ),
    "jobs that arrive": Case(
        "shared-cluster",
        shipped("shared/trace-16"),
        Side("topoopt.simulate.cluster.objective:objective_of", scaled_field("value")),
        Side("topoopt.verify.shared_cluster.arrivals:_objective", scaled_second),
    ),
    "jobs at once": Case(
        "shared-cluster",
        lambda: at_once_cases.read(at_once_cases.instance()),
        Side("topoopt.simulate.cluster.objective:load_objective", scaled_field("value")),
        Side("topoopt.verify.shared_cluster.at_once_objective:_mean_ms", scaled),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_either_side_objects_when_the_other_is_altered(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 % more in the solution, or in what the checker makes of it, and the solution is rejected."""
    problem = case.problem()
    assert problem.kind == case.kind
    solution = solve(problem, seed=1, **dict(case.options))
    assert solution.check.ok, solution.check.violations
    with monkeypatch.context() as patch:
        original = altered_everywhere(patch, case.checker.name, case.checker.change)
        assert original.__module__.startswith("topoopt.verify.")
        assert not kind_of(problem).check(problem, solution, FULL).ok
    with monkeypatch.context() as patch:
        original = altered_everywhere(patch, case.producer.name, case.producer.change)
        assert original.__module__.startswith(("topoopt.simulate.", "topoopt.kinds.", "solvers.", "formulations."))
        wrong = solve(problem, seed=1, **dict(case.options))
        assert not wrong.check.ok
        assert wrong.objective.value != solution.objective.value


def test_every_kind_is_held_to_this() -> None:
    """A kind without a case here is an error."""
    assert {case.kind for case in CASES.values()} == set(KINDS)
