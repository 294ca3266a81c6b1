"""Steps of a strategy on rails: with the fastest plan of ports, and on one topology that is never switched. Why no
strategy of a space can stand on rails. The best strategy on rails whose circuits are set anew: by time on an ideal
switch, each with its ports.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from solvers.llm_training.space import rows_of_shape, strategy_of, strategy_shapes
from solvers.stop import Stop
from solvers.switching.search import fastest_ports
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH, PHOTONIC_RAILS, RankedStrategy, ShapeOutcome, ShapeVerdict
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import StopReason
from topoopt.core.switching import RailJob, StagePorts, SwitchedStep, SwitchMode, SwitchSettings
from topoopt.simulate.llm_training.strategies import stage_layers, strategy_problems
from topoopt.simulate.switching import Delays, RailShares, electrical_s, events_of, follow, rail_job, rail_orders
from topoopt.simulate.switching.step import RailOrders


class RailSteps:
    """A strategy on rails.

    Raises:
        InputError: it cannot stand on rails.
    """

    def __init__(self, problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings) -> None:
        layers = stage_layers(problem.model.layers, strategy.pipeline, strategy.chunks)
        self.problem, self.settings = problem, settings
        self.strategy = strategy if strategy.stage_layers else replace(strategy, stage_layers=layers)
        problems = strategy_problems(problem, self.strategy)
        if problems:
            raise InputError(problems)
        self.job: RailJob = rail_job(problem, self.strategy, settings)
        self.known: RailOrders = rail_orders(self.job)
        self.electrical_s = electrical_s(self.job, self.known)

    def static(self, stop: Stop) -> tuple[float, str]:
        """The step on the best topology that is never switched, and what that is; infinite: there is none."""
        found = [(math.inf, "none")]
        kept = fastest_ports(self.job, self.known, 0.0, SwitchMode.PROVISIONED, stop, kept=True)
        if kept is not None:
            found.append((kept.step_s, "ports split for good"))
        if self.job.ports > 1:
            ring = follow(self.job, self.known, RailShares.forwarded(self.job))
            found.append((ring.step_s, "one ring through all servers of a rail, which forward"))
        return min(found)

    def switched(self, delay_s: float, mode: SwitchMode, stop: Stop, *, events: bool = False) -> SwitchedStep:
        """The fastest plan of ports at a delay.

        Raises:
            InfeasibleError: no plan can do the step.
        """
        best = fastest_ports(self.job, self.known, delay_s, mode, stop)
        if best is None:
            raise InfeasibleError("no plan of ports can do the step: passes wait for each other")
        return self.stepped(best.plan, best.bound_s, delay_s, mode, events=events)

    def stepped(
        self, plan: tuple[StagePorts, ...], bound_s: float, delay_s: float, mode: SwitchMode, *, events: bool = False
    ) -> SwitchedStep:
        """With a plan of ports, whose bound is known."""
        delays, shares = Delays.same(delay_s), RailShares.of(self.job, plan)
        step = follow(self.job, self.known, shares, plan, delays, mode)
        at_once = follow(self.job, self.known, shares, plan, Delays.same(0.0), mode)
        found = events_of(self.job, self.known, plan, delays, step)
        return SwitchedStep(
            mode,
            delay_s,
            plan,
            step.step_s,
            self.electrical_s,
            bound_s,
            sum(one.what == "switch" for one in found),
            step.step_s - at_once.step_s,
            found if events else (),
        )


MOST_ASKED = 200
"""Strategies that are asked why, one of a shape."""


def reasons_off_rails(problem: LlmTrainingProblem) -> tuple[int, tuple[str, ...]]:
    """How many strategies were asked, one of each shape, and what keeps them off the rails, the most common first.

    0: the space is empty without rails too.
    """
    settings, anywhere = problem.switching, replace(problem, fabrics=(IDEAL_SWITCH,), switching=None)
    assert settings is not None
    asked, found = 0, Counter[str]()
    for shape in strategy_shapes(anywhere):
        rows = rows_of_shape(anywhere, shape)
        if asked == MOST_ASKED:
            break
        if not len(rows):
            continue
        asked += 1
        try:
            rail_job(problem, strategy_of(anywhere, shape, rows[0]), settings)
        except InputError as error:
            found.update({f"{one.message} ({one.path}: {one.value}; allowed: {one.allowed})" for one in error.problems})
    return asked, tuple(text for text, _ in found.most_common())


MOST_TRIED = 500
"""Strategies that get a plan of ports."""


@dataclass(frozen=True, eq=False)
class FoundOnRails:
    """The best strategy on rails.

    Attributes
    ----------
    ranked : the strategy, with its time on an ideal switch.
    ports : of each stage.
    iteration_time_s : of the step.
    bounds_s : of the fastest strategies on an ideal switch, in their order: no plan of ports has a faster step.
    limited : why no more strategies were considered; None: no other can be faster.
    """

    ranked: RankedStrategy
    ports: tuple[StagePorts, ...]
    iteration_time_s: float
    bounds_s: tuple[float, ...]
    limited: StopReason | None
    fabric: str = PHOTONIC_RAILS


def switch_mode(settings: SwitchSettings) -> SwitchMode:
    """When circuits are set."""
    return SwitchMode.PROVISIONED if settings.provisioned else SwitchMode.ON_DEMAND


def best_on_rails(problem: LlmTrainingProblem, candidates: Iterable[RankedStrategy], stop: Stop) -> FoundOnRails:
    """Search strategies and plans of ports together.

    Args:
        candidates: strategies that can stand on rails, by ascending time on an ideal switch.

    Raises:
        InfeasibleError: no plan of ports can do a step of any.
    """
    settings = problem.switching
    assert settings is not None
    mode = switch_mode(settings)
    best: tuple[RankedStrategy, SwitchedStep] | None = None
    bounds: list[float] = []
    limited = None
    for ranked in candidates:
        least = float("inf") if best is None else best[1].step_s
        if ranked.iteration_time_s >= least:
            break
        if len(bounds) == MOST_TRIED or (best is not None and stop.reason() is not None):
            limited = stop.reason() or StopReason.BUDGET
            break
        rails = RailSteps(problem, ranked.strategy, settings)
        ports = fastest_ports(rails.job, rails.known, settings.delay_s, mode, stop, cutoff_s=least)
        bounds.append(ranked.iteration_time_s if ports is None else ports.bound_s)
        if ports is not None and ports.step_s < least:
            best = ranked, rails.stepped(ports.plan, ports.bound_s, settings.delay_s, mode)
    if best is None:
        text = f"passes of {len(bounds)} strategies wait for each other with any plan of ports"
        raise InfeasibleError(f"{PHOTONIC_RAILS}: {text}")
    ranked, step = best
    return FoundOnRails(ranked, step.plan, step.step_s, tuple(min(bound, step.step_s) for bound in bounds), limited)


def rails_bound_s(
    step_s: float, bounds_s: Sequence[float], ranked: Sequence[float], shapes: Iterable[ShapeOutcome]
) -> float:
    """Seconds that no strategy of the space is below, with any plan of ports.

    Parameters
    ----------
    step_s : of the plan.
    bounds_s : of the fastest strategies on an ideal switch.
    ranked : seconds of these there.
    shapes : the certificate of these.
    """
    lines = list(shapes)
    left = [line.bound_s for line in lines if line.verdict is ShapeVerdict.LEFT]
    every = all(line.verdict in (ShapeVerdict.SEARCHED, ShapeVerdict.MEMORY) for line in lines)
    if not every or sum(line.fitting for line in lines) > len(bounds_s):
        left.append(ranked[min(len(bounds_s), len(ranked) - 1)])
    return min([step_s, *bounds_s, *left])
