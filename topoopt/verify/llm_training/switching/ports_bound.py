"""That no plan of ports is faster than a bound: plans gone through stage by stage."""

from __future__ import annotations

from topoopt.core.switching import RailJob, StagePorts
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.switching.follow import Follower, orders_of
from topoopt.verify.llm_training.switching.ports import WHOLE, PortRates, carried, rates_of, undominated
from topoopt.verify.llm_training.work import BeyondWorkError, WorkBudget

MOST_PASSES = 400_000
"""Passes that are followed to show that no plan is faster; a bound that takes more is left out."""

EVENTS_OF_PASS = 5.0
"""Events of a check that following one pass takes."""

SLACK = Tolerance.LONG_SUMS.relative


class PortsTree:
    """Plans of the ports of all stages, gone through stage by stage.

    Args:
        room: passes that may be followed.
        kept: only plans that never switch.
    """

    def __init__(self, job: RailJob, delay_s: float, room: int, *, demand: bool, kept: bool = False) -> None:
        self.job, self.delay, self.room, self.demand = job, delay_s, room, demand
        self.menus = [[one for one in undominated(job, rank) if one.kept or not kept] for rank in range(job.ranks)]
        self.orders = orders_of(job)
        self.best = []
        for rank, menu in enumerate(self.menus):
            rows = [rates_of(job, rank, one) for one in menu] or [WHOLE]
            self.best.append(
                PortRates(max(r.hop for r in rows), max(r.ring for r in rows), max(r.inside for r in rows))
            )

    def beaten(self, bound_s: float) -> bool | None:
        """Whether some plan is faster than a bound; None: not found out."""
        return all(self.menus) and self._beaten(bound_s, [None] * self.job.ranks)

    def _least(self, plan: list[StagePorts | None]) -> float:
        """Seconds of the step with these ports, stages left open at the best rates of their plans, set in no time."""
        self.room -= sum(map(len, self.orders))
        rates = [rate if one is None else None for one, rate in zip(plan, self.best, strict=True)]
        try:
            follower = Follower(self.job, plan, self.delay, demand=self.demand, rates=rates, orders=self.orders)
            return follower.step().step_s
        except ValueError:
            return float("inf")

    def _beaten(self, bound_s: float, plan: list[StagePorts | None]) -> bool | None:
        """The same of plans that agree with this one."""
        if self.room <= 0:
            return None
        if self._least(plan) >= bound_s * (1 - SLACK):
            return False
        if None not in plan:
            return True
        rank = max((r for r, one in enumerate(plan) if one is None), key=lambda r: (len(self.menus[r]), -r))
        unsure: bool | None = False
        for one in self.menus[rank]:
            answer = self._beaten(bound_s, [*plan[:rank], one, *plan[rank + 1 :]])
            if answer:
                return True
            unsure = None if answer is None else unsure
        return unsure


def check_ports_bound(
    findings: ViolationLog, job: RailJob, bound_s: float, delay_s: float, room: int, *, demand: bool
) -> int:
    """No plan of ports is faster than the bound.

    Args:
        room: passes that may be followed.

    Returns:
        what is left of it.

    Raises:
        BeyondWorkError: more passes would have to be followed.
    """
    tree = PortsTree(job, delay_s, room, demand=demand)
    answer = tree.beaten(bound_s)
    if answer:
        findings.add("bound", f"a plan of ports is faster than {bound_s!r} s")
    elif answer is None:
        raise BeyondWorkError("too many plans of ports to go through again")
    return tree.room


def passes_of(job: RailJob) -> int:
    """Passes of a step: of a micro-batch in a stage forward, backward for inputs, for weights."""
    return 3 * job.micro_batches * job.ranks * job.chunks


def passes_within(job: RailJob, room: int, budget: WorkBudget) -> int:
    """Passes that may be followed in plans of ports.

    Args:
        room: at most.

    Raises:
        BeyondWorkError: plans of a stage are too many to list, or not one step may be followed.
    """
    phases = 1 + (job.inside is not None and job.ranks > 1) + job.reduces
    splits = [(job.ports + 1) ** max(len(carried(job, rank)) - 1, 0) for rank in range(job.ranks)]
    budget.take(sum(float(count) ** phases for count in splits))
    if room <= 0 or budget.left < EVENTS_OF_PASS * passes_of(job):
        raise BeyondWorkError("too many plans of ports to go through again")
    return int(min(room, budget.left / EVENTS_OF_PASS))
