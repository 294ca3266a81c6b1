"""Branch and bound finds the fastest plan of ports for a step on switched rails, for every strategy of a space.

The bound is the step of a relaxed plan. A stage whose ports are left open has the best rate of each of its plans and
sets ports in no time; all times of a step rise with delays and fall with rates, so no plan that agrees with the
stages decided is faster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from solvers.llm_training.strategies import rows_of_shape, strategy_of, strategy_shapes
from solvers.stop import BestFirst, Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, InputError, raise_any
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    IDEAL_SWITCH,
    PHOTONIC_RAILS,
    FabricPlan,
    NetworkPlan,
    PlannedFabric,
    RankedStrategy,
    ShapeOutcome,
    ShapeVerdict,
    rails_certificate,
)
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.proofs import StopReason
from topoopt.core.result import SearchResult
from topoopt.core.switching import RailJob, StagePorts, SwitchedStep, SwitchMode, SwitchSettings
from topoopt.simulate.llm_training.strategies import stage_layers, strategy_problems
from topoopt.simulate.rail_job import rail_job
from topoopt.simulate.switching import (
    Delays,
    RailOrders,
    RailShares,
    electrical_s,
    events_of,
    final_split,
    follow,
    plans_of,
    rail_orders,
    same_delay,
    shares_of,
)

MOST_STEPS = 300
"""Steps that are followed at most; the bound is then that of the plans left."""

ROUNDING = 1e-12


PortSearch = tuple[tuple[StagePorts, ...], float, float]
"""Plan of each stage, seconds of its step, and seconds that no plan is below."""

Partial = tuple[StagePorts | None, ...]


class _Search:
    def __init__(
        self,
        job: RailJob,
        orders: RailOrders,
        delays: Delays,
        mode: SwitchMode,
        menus: list[list[StagePorts]],
        cutoff_s: float,
    ) -> None:
        self._job, self._orders, self._delays, self._mode = job, orders, delays, mode
        self._rates: list[dict[StagePorts | None, Floats]] = []
        for rank, menu in enumerate(menus):
            rates = [np.array(shares_of(job, rank, ports)) for ports in menu]
            self._rates.append({None: np.max(rates, axis=0), **dict(zip(menu, rates, strict=True))})
        self.followed, self.cutoff = 0, cutoff_s
        self.best: tuple[float, tuple[StagePorts, ...]] | None = None

    def step(self, plan: Sequence[StagePorts | None]) -> float:
        """Seconds with a plan, or a bound for all that agree with it; infinite: passes wait for each other."""
        self.followed += 1
        shares = RailShares(*np.array([rates[ports] for rates, ports in zip(self._rates, plan, strict=True)]).T)
        try:
            return follow(self._job, self._orders, shares, plan, self._delays, self._mode).step_s
        except InfeasibleError:
            return float("inf")

    def offer(self, plan: tuple[StagePorts, ...]) -> None:
        """Keep it if it is the best so far."""
        value = self.step(plan)
        if value < (float("inf") if self.best is None else self.best[0]):
            self.best = value, plan

    def improve(self, menus: list[list[StagePorts]], stop: Stop) -> None:
        """Exchange the plan of one stage after another, as long as that helps."""
        value = float("inf")
        while self.best is not None and self.best[0] < value and self.followed < MOST_STEPS // 2:
            value = self.best[0]
            for rank, menu in enumerate(menus):
                if len(menu) == 1 or stop.reason() is not None:
                    continue
                for ports in menu:
                    self.offer((*self.best[1][:rank], ports, *self.best[1][rank + 1 :]))

    def worse(self, bound: float) -> bool:
        """Whether a bound rules out anything better."""
        return self.best is not None and bound >= min(self.best[0], self.cutoff) * (1.0 - ROUNDING)


def _undominated(job: RailJob, rank: int, *, kept: bool) -> list[StagePorts]:
    """Plans of a stage but for those that another one betters: rates no less, and nothing set that it does not set."""
    front: list[tuple[tuple[float, ...], StagePorts]] = []
    for ports in plans_of(job, rank):
        if kept and not ports.kept:
            continue
        held, last = ports.data if job.reduces else final_split(job, rank, ports), final_split(job, rank, ports)
        changes = (held == ports.pipeline, held == ports.inside, ports.inside == ports.pipeline, last == ports.data)
        merits = (*shares_of(job, rank, ports), *map(float, changes))
        if any(all(a >= b for a, b in zip(other, merits, strict=True)) for other, _ in front):
            continue
        front = [row for row in front if not all(a >= b for a, b in zip(merits, row[0], strict=True))]
        front.append((merits, ports))
    return [ports for _, ports in front]


def fastest_ports(
    job: RailJob,
    orders: RailOrders,
    delay_s: float,
    mode: SwitchMode,
    stop: Stop,
    *,
    kept: bool = False,
    cutoff_s: float = float("inf"),
) -> PortSearch | None:
    """The fastest plan of ports of all stages.

    Args:
        kept: only plans that never switch.
        cutoff_s: no plan that takes as long is asked for; the one that is found may.

    Returns:
        None: there is no such plan.
    """
    menus = [_undominated(job, rank, kept=kept) for rank in range(job.ranks)]
    if not all(menus):
        return None
    search = _Search(job, orders, same_delay(delay_s), mode, menus, cutoff_s)
    for index in range(max(map(len, menus))):
        search.offer(tuple(menu[min(index, len(menu) - 1)] for menu in menus))
    root: Partial = tuple(menu[0] if len(menu) == 1 else None for menu in menus)
    tree: BestFirst[tuple[int, Partial]] = BestFirst()
    tree.add(search.step(root), (0, root), 0, root)
    if not search.worse(tree.bound):
        search.improve(menus, stop)
    several = sorted((rank for rank in range(job.ranks) if len(menus[rank]) > 1), key=lambda r: (-len(menus[r]), r))
    while len(tree) and not search.worse(tree.bound):
        if search.followed >= MOST_STEPS or stop.reason() is not None:
            break
        depth, node = tree.pop()
        if depth == len(several):
            search.offer(tuple(ports for ports in node if ports is not None))
            continue
        for ports in menus[several[depth]]:
            child = (*node[: several[depth]], ports, *node[several[depth] + 1 :])
            bound = search.step(child)
            if not search.worse(bound):
                tree.add(bound, (depth + 1, child), depth + 1, child)
    if search.best is None:
        return None
    value, plan = search.best
    return plan, value, min(value, cutoff_s, tree.bound)


class RailSteps:
    """A strategy on rails.

    Raises:
        InputError: it cannot stand on rails.
    """

    def __init__(self, problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings) -> None:
        layers = stage_layers(problem.model.layers, strategy.pipeline, strategy.chunks)
        self.problem, self.settings = problem, settings
        self.strategy = strategy if strategy.stage_layers else replace(strategy, stage_layers=layers)
        raise_any(strategy_problems(problem, self.strategy))
        self.job: RailJob = rail_job(problem, self.strategy, settings)
        self.orders: RailOrders = rail_orders(self.job)
        self.electrical_s = electrical_s(self.job, self.orders)

    def static(self, stop: Stop) -> tuple[float, str]:
        """The step on the best topology that is never switched, and what that is; infinite: there is none."""
        options = [(math.inf, "none")]
        kept = fastest_ports(self.job, self.orders, 0.0, "provisioned", stop, kept=True)
        if kept is not None:
            options.append((kept[1], "ports split for good"))
        if self.job.ports > 1:
            ring = follow(self.job, self.orders, RailShares.forwarded(self.job))
            options.append((ring.step_s, "one ring through all servers of a rail, which forward"))
        return min(options)

    def switched(self, delay_s: float, mode: SwitchMode, stop: Stop, *, events: bool = False) -> SwitchedStep:
        """The fastest plan of ports at a delay.

        Raises:
            InfeasibleError: no plan can do the step.
        """
        best = fastest_ports(self.job, self.orders, delay_s, mode, stop)
        if best is None:
            raise InfeasibleError("no plan of ports can do the step: passes wait for each other")
        plan, _, bound_s = best
        return self.stepped(plan, bound_s, delay_s, mode, events=events)

    def stepped(
        self, plan: tuple[StagePorts, ...], bound_s: float, delay_s: float, mode: SwitchMode, *, events: bool = False
    ) -> SwitchedStep:
        """With a plan of ports, whose bound is known."""
        delays, shares = same_delay(delay_s), RailShares.of(self.job, plan)
        step = follow(self.job, self.orders, shares, plan, delays, mode)
        at_once = follow(self.job, self.orders, shares, plan, same_delay(0.0), mode)
        all_events = events_of(self.job, self.orders, plan, delays, step)
        return SwitchedStep(
            mode,
            delay_s,
            plan,
            step.step_s,
            self.electrical_s,
            bound_s,
            sum(event.what == "switch" for event in all_events),
            step.step_s - at_once.step_s,
            all_events if events else (),
        )


def reasons_off_rails(problem: LlmTrainingProblem) -> tuple[int, tuple[str, ...]]:
    """How many strategies were asked, one of each shape, and what keeps them off the rails, the most common first.

    0: the space is empty without rails too.
    """
    settings, anywhere = problem.switching, replace(problem, fabrics=(IDEAL_SWITCH,), switching=None)
    assert settings is not None
    evaluated, reasons = 0, Counter[str]()
    for shape in strategy_shapes(anywhere):
        rows = rows_of_shape(anywhere, shape)
        if evaluated == 200:  # strategies that are asked why, one of a shape
            break
        if not len(rows):
            continue
        evaluated += 1
        try:
            rail_job(problem, strategy_of(anywhere, shape, rows[0]), settings)
        except InputError as error:
            reasons.update(
                {f"{issue.message} ({issue.path}: {issue.value}; allowed: {issue.allowed})" for issue in error.problems}
            )
    return evaluated, tuple(text for text, _ in reasons.most_common())


MOST_TRIED = 500
"""Strategies that get a plan of ports."""


def switch_mode(settings: SwitchSettings) -> SwitchMode:
    return "provisioned" if settings.provisioned else "on-demand"


def best_on_rails(problem: LlmTrainingProblem, candidates: Iterable[RankedStrategy], stop: Stop) -> PlannedFabric:
    """Search strategies and plans of ports together; why no more were considered, CONVERGED if no other can be faster.

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
    limited = StopReason.CONVERGED
    for ranked in candidates:
        least = float("inf") if best is None else best[1].step_s
        if ranked.iteration_time_s >= least:
            break
        if len(bounds) == MOST_TRIED or (best is not None and stop.reason() is not None):
            limited = stop.reason() or StopReason.BUDGET
            break
        rails = RailSteps(problem, ranked.strategy, settings)
        ports = fastest_ports(rails.job, rails.orders, settings.delay_s, mode, stop, cutoff_s=least)
        bounds.append(ranked.iteration_time_s if ports is None else ports[2])
        if ports is not None and ports[1] < least:
            best = ranked, rails.stepped(ports[0], ports[2], settings.delay_s, mode)
    if best is None:
        text = f"passes of {len(bounds)} strategies wait for each other with any plan of ports"
        raise InfeasibleError(f"{PHOTONIC_RAILS}: {text}")
    ranked, step = best
    return SearchResult(
        plan=FabricPlan(ranked.strategy, NetworkPlan(PHOTONIC_RAILS), ports=step.plan),
        certificates=(rails_certificate(min(bound, step.step_s) for bound in bounds),),
        stopped_by=limited,
        method="branch-and-bound",
    ), step.step_s


def rails_bound_s(
    step_s: float, bounds_s: Sequence[float], ranked: Sequence[float], shapes: Iterable[ShapeOutcome]
) -> float:
    """Seconds that no strategy of the space is below, with any plan of ports.

    Args:
        step_s: of the plan.
        bounds_s: of the fastest strategies on an ideal switch.
        ranked: seconds of these there.
        shapes: the certificate of these.
    """
    lines = list(shapes)
    left = [line.bound_s for line in lines if line.verdict is ShapeVerdict.LEFT]
    every = all(line.verdict in (ShapeVerdict.SEARCHED, ShapeVerdict.MEMORY) for line in lines)
    if not every or sum(line.fitting for line in lines) > len(bounds_s):
        left.append(ranked[min(len(bounds_s), len(ranked) - 1)])
    return min([step_s, *bounds_s, *left])
