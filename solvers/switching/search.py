"""The fastest plan of ports: branch and bound over the stages, with the step of a relaxed plan as bound.

A stage whose ports are left open has the best rate of each of its plans and sets ports in no time; all times of a step
rise with delays and fall with rates, so no plan that agrees with the stages decided is faster.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError
from topoopt.core.switching import RailJob, StagePorts, SwitchMode
from topoopt.simulate.switching import Delays, RailShares, follow, plans_of
from topoopt.simulate.switching.shares import shares_of
from topoopt.simulate.switching.step import RailOrders, final_split

MOST_STEPS = 300
"""Steps that are followed at most; the bound is then that of the plans left."""

ROUNDING = 1e-12


@dataclass(frozen=True)
class FoundPorts:
    """The fastest plan found.

    Attributes:
        plan: of each stage.
        step_s: seconds of the step.
        bound_s: no plan is faster.
        followed: steps that were simulated.
    """

    plan: tuple[StagePorts, ...]
    step_s: float
    bound_s: float
    followed: int


Partial = tuple[StagePorts | None, ...]


class _Search:
    def __init__(
        self,
        job: RailJob,
        known: RailOrders,
        delays: Delays,
        mode: SwitchMode,
        menus: list[list[StagePorts]],
        cutoff_s: float,
    ) -> None:
        self._job, self._known, self._delays, self._mode = job, known, delays, mode
        self._rates: list[dict[StagePorts | None, Floats]] = []
        for rank, menu in enumerate(menus):
            rates = [np.array(shares_of(job, rank, one)) for one in menu]
            self._rates.append({None: np.max(rates, axis=0), **dict(zip(menu, rates, strict=True))})
        self.followed, self.cutoff = 0, cutoff_s
        self.best: tuple[float, tuple[StagePorts, ...]] | None = None

    def step(self, plan: Sequence[StagePorts | None]) -> float:
        """Seconds with a plan, or a bound for all that agree with it; infinite: passes wait for each other."""
        self.followed += 1
        shares = RailShares(*np.array([rates[one] for rates, one in zip(self._rates, plan, strict=True)]).T)
        try:
            return follow(self._job, self._known, shares, plan, self._delays, self._mode).step_s
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
                for one in menu:
                    self.offer((*self.best[1][:rank], one, *self.best[1][rank + 1 :]))

    def worse(self, bound: float) -> bool:
        """Whether a bound rules out anything better."""
        return self.best is not None and bound >= min(self.best[0], self.cutoff) * (1.0 - ROUNDING)


def _worth_trying(job: RailJob, rank: int, *, kept: bool) -> list[StagePorts]:
    """Plans of a stage but for those that another one betters: rates no less, and nothing set that it does not set."""
    found: list[tuple[tuple[float, ...], StagePorts]] = []
    for one in plans_of(job, rank):
        if kept and not one.kept:
            continue
        held, last = one.data if job.reduces else final_split(job, rank, one), final_split(job, rank, one)
        changes = (held == one.pipeline, held == one.inside, one.inside == one.pipeline, last == one.data)
        merits = (*shares_of(job, rank, one), *map(float, changes))
        if any(all(a >= b for a, b in zip(other, merits, strict=True)) for other, _ in found):
            continue
        found = [row for row in found if not all(a >= b for a, b in zip(merits, row[0], strict=True))]
        found.append((merits, one))
    return [one for _, one in found]


def fastest_ports(
    job: RailJob,
    known: RailOrders,
    delay_s: float,
    mode: SwitchMode,
    stop: Stop,
    *,
    kept: bool = False,
    cutoff_s: float = float("inf"),
) -> FoundPorts | None:
    """The fastest plan of ports of all stages.

    Args:
        kept: only plans that never switch.
        cutoff_s: no plan that takes as long is asked for; the one that is found may.

    Returns:
        None: there is no such plan.
    """
    menus = [_worth_trying(job, rank, kept=kept) for rank in range(job.ranks)]
    if not all(menus):
        return None
    search = _Search(job, known, Delays.same(delay_s), mode, menus, cutoff_s)
    for place in range(max(map(len, menus))):
        search.offer(tuple(menu[min(place, len(menu) - 1)] for menu in menus))
    root: Partial = tuple(menu[0] if len(menu) == 1 else None for menu in menus)
    open_nodes = [(search.step(root), 0, root)]
    if not search.worse(open_nodes[0][0]):
        search.improve(menus, stop)
    several = sorted((rank for rank in range(job.ranks) if len(menus[rank]) > 1), key=lambda r: (-len(menus[r]), r))
    while open_nodes and not search.worse(open_nodes[0][0]):
        if search.followed >= MOST_STEPS or stop.reason() is not None:
            break
        _, depth, node = heapq.heappop(open_nodes)
        if depth == len(several):
            search.offer(tuple(one for one in node if one is not None))
            continue
        for one in menus[several[depth]]:
            child = (*node[: several[depth]], one, *node[several[depth] + 1 :])
            bound = search.step(child)
            if not search.worse(bound):
                heapq.heappush(open_nodes, (bound, depth + 1, child))
    if search.best is None:
        return None
    value, plan = search.best
    bound = min([value, cutoff_s, *(node[0] for node in open_nodes)])
    return FoundPorts(plan, value, bound, search.followed)
