"""The best strategy on rails whose circuits are set anew: by time on an ideal switch, each with its ports.

No circuit is faster than an ideal switch, so the time there bounds the step, strategy by strategy; the first one that
takes as long there as the best found ends the search, proven.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from solvers.stop import Stop
from solvers.switching.rail_steps import RailSteps
from solvers.switching.search import fastest_ports
from topoopt.core.errors import InfeasibleError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import PHOTONIC_RAILS, RankedStrategy, ShapeOutcome, ShapeVerdict
from topoopt.core.switched_step import RailPlan, SwitchedStep, SwitchMode, changes_of
from topoopt.core.verdict import StopReason

MOST_TRIED = 500
"""Strategies that get a plan of ports."""


@dataclass(frozen=True, eq=False)
class FoundOnRails:
    """What a search found.

    Attributes:
        ranked: the best strategy.
        plan: its ports.
        limited: why no more strategies got theirs; None: no other can be faster.
    """

    ranked: RankedStrategy
    plan: RailPlan
    limited: StopReason | None
    fabric: str = PHOTONIC_RAILS

    @property
    def iteration_time_s(self) -> float:
        """Seconds."""
        return self.plan.step_s

    @property
    def tried(self) -> int:
        """Strategies that got a plan of ports."""
        return len(self.plan.bounds_s)


def best_on_rails(problem: LlmTrainingProblem, candidates: Iterable[RankedStrategy], stop: Stop) -> FoundOnRails:
    """Search strategies and plans of ports together.

    Args:
        candidates: strategies that can stand on rails, by ascending time on an ideal switch.

    Raises:
        InfeasibleError: no plan of ports can do a step of any.
    """
    settings = problem.switching
    assert settings is not None
    mode = SwitchMode.PROVISIONED if settings.provisioned else SwitchMode.ON_DEMAND
    best: tuple[RankedStrategy, RailSteps, SwitchedStep] | None = None
    bounds: list[float] = []
    limited = None
    for ranked in candidates:
        least = float("inf") if best is None else best[2].step_s
        if ranked.iteration_time_s >= least:
            break
        if len(bounds) == MOST_TRIED or (best is not None and stop.reason() is not None):
            limited = stop.reason() or StopReason.BUDGET
            break
        rails = RailSteps(problem, ranked.strategy, settings)
        found = fastest_ports(rails.job, rails.known, settings.delay_s, mode, stop, cutoff_s=least)
        bounds.append(ranked.iteration_time_s if found is None else found.bound_s)
        if found is not None and found.step_s < least:
            best = ranked, rails, rails.stepped(found.plan, found.bound_s, settings.delay_s, mode, events=True)
    if best is None:
        text = f"passes of {len(bounds)} strategies wait for each other with any plan of ports"
        raise InfeasibleError(f"{PHOTONIC_RAILS}: {text}")
    ranked, rails, step = best
    one_shot, _ = rails.static(stop)
    plan = RailPlan(
        mode,
        settings.delay_s,
        step.plan,
        step.step_s,
        one_shot if one_shot < float("inf") else None,
        step.exposed_s,
        tuple(min(one, step.step_s) for one in bounds),
        changes_of(step.events),
    )
    return FoundOnRails(ranked, plan, limited)


def rails_bound_s(plan: RailPlan, ranked: Sequence[float], shapes: Iterable[ShapeOutcome]) -> float:
    """Seconds that no strategy of the space is below, with any plan of ports.

    Args:
        ranked: seconds of the fastest strategies on an ideal switch.
        shapes: the certificate of these.
    """
    lines = list(shapes)
    left = [line.bound_s for line in lines if line.verdict is ShapeVerdict.LEFT]
    every = all(line.verdict in (ShapeVerdict.SEARCHED, ShapeVerdict.MEMORY) for line in lines)
    if not every or sum(line.fitting for line in lines) > len(plan.bounds_s):
        left.append(ranked[min(len(plan.bounds_s), len(ranked) - 1)])
    return min([plan.step_s, *plan.bounds_s, *left])
