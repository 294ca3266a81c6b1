"""Steps of a strategy on rails: with the fastest plan of ports, and on one topology that is never switched."""

from __future__ import annotations

import math
from dataclasses import replace

from solvers.stop import Stop
from solvers.switching.search import fastest_ports
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.switched_step import SwitchedStep, SwitchMode
from topoopt.core.switching import RailJob, StagePorts, SwitchSettings
from topoopt.simulate.llm_training.rules import strategy_problems
from topoopt.simulate.llm_training.strategies import stage_layers
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
