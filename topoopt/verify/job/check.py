"""The checker of jobs: the laws of a plan, its simulated iteration, and the proof of its bound, without a solver.

The iteration is simulated by code of its own. Everything else that a page shows follows from plan and instance, stands
in no file, and is not looked at here; so do the times of the same job on other fabrics, which are compared, not
checked: their strategies alone are decisions, and must be legal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from topoopt.core.cluster import Cluster
from topoopt.core.job import CoOptimisation, JobPlan
from topoopt.core.proofs import Argument, Bound, Tolerance, beats
from topoopt.core.result import Certificate, Result
from topoopt.core.workload import Workload
from topoopt.verify.checker import Checker, Derivation
from topoopt.verify.job.events import EventBudget
from topoopt.verify.job.instance_bounds import instance_bounds
from topoopt.verify.job.joint_bound import check_joint
from topoopt.verify.job.parts import check_strategy
from topoopt.verify.job.plan import Inspection, inspect_plan
from topoopt.verify.job.plan_bounds import bounds_of
from topoopt.verify.job.simulation import iteration_times
from topoopt.verify.job.strategy_certificate import certified_bound
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import BRIEF, CheckDepth, CheckFindings, ViolationLog, as_float, differs
from topoopt.verify.laws.schedules import check_choice

JobResult = Result[CoOptimisation, JobPlan]

SIMULATED = Tolerance.EVENTS.relative
"""Rounding forgiven in sums that a simulator makes over many events."""

SUPPLEMENTS = (Argument.STRATEGY_PROGRAM, Argument.LINK_TREE)
"""Arguments of certificates: of the bound, and of what no plan of a tiny job beats in the bulk-synchronous model."""


@lru_cache(maxsize=4)
def _free_bounds(cluster: Cluster, workload: Workload) -> tuple[Bound, ...]:
    """Return the bounds that need no certificate."""
    return instance_bounds(cluster, workload)


def _certified(problem: CoOptimisation, certificates: Sequence[Certificate]) -> float:
    """Return what the strategy program proves.

    Raises
    ------
    ValueError
        There is no certificate of it, or it proves nothing.
    """
    own = [certificate for certificate in certificates if certificate.argument is Argument.STRATEGY_PROGRAM]
    if not own:
        raise ValueError("there is no certificate")
    return certified_bound(problem.cluster, problem.workload, own[0])


def _fixed(value: float) -> Derivation:
    return lambda *_: value


def arguments(problem: CoOptimisation) -> Mapping[Argument, Derivation]:
    """Return the arguments that count for a job: formulas of the instance, and the strategy program."""
    formulas = {bound.argument: _fixed(bound.value) for bound in _free_bounds(problem.cluster, problem.workload)}
    return {**formulas, Argument.STRATEGY_PROGRAM: _certified}


def iteration_ms(problem: CoOptimisation, plan: JobPlan) -> float:
    """Return the iteration time of a plan, simulated whatever that takes.

    Raises
    ------
    ValueError
        The plan breaks a law.
    """
    log, shared = ViolationLog(), problem.shared_as(plan.link_sharing)
    seen = inspect_plan(log, shared.cluster, shared.workload, plan)
    times = iteration_times(log, shared, plan, seen, EventBudget.of(CheckDepth(events=1 << 62))) if log.clean else None
    if times is None:
        raise ValueError("; ".join(str(violation) for violation in log.violations()))
    return times.total_ms


@dataclass(frozen=True, kw_only=True)
class JobChecker(Checker):
    """The checker of plans, which names every broken law and simulates no more than a depth allows."""

    def __call__(self, problem: Any, result: JobResult, depth: CheckDepth = BRIEF) -> CheckFindings:
        """Check a result of any content; never raises. See `Checker`."""
        log, seen, plan = ViolationLog(), Inspection(), result.plan
        log.guard("identity", "the head", lambda: self._identity(log, problem, result))
        allowed, sharing = problem.sharings, getattr(plan, "link_sharing", None)
        if sharing not in allowed:
            names = ", ".join(own.value for own in allowed)
            log.add("link-sharing", f"links are shared as {sharing!s}, allowed: {names}")
        shared = problem.shared_as(sharing if sharing in allowed else allowed[0])
        before = sum(log.counts.values())

        def inspect() -> None:
            nonlocal seen
            seen = inspect_plan(log, shared.cluster, shared.workload, plan)

        log.guard("plan-shape", "the plan", inspect)
        log.guard("allreduce", "what AllReduces run on", partial(check_choice, log, problem.search.allreduce, plan))
        lawful = sum(log.counts.values()) == before
        if lawful and seen.parts is not None:
            simulated = partial(self._simulated, log, shared, result, seen, EventBudget.of(depth))
            log.guard("iteration-time", "the iteration", simulated)
        log.guard("comparison", "the other fabrics", partial(check_comparison, log, problem, plan))
        log.guard("bound", "the bound", partial(self._all_bounds, log, shared, result, seen, lawful))
        log.guard("certificate", "the certificates", partial(self._certificates, log, shared, result))
        log.guard("status", "the status", lambda: self._status(log, problem, result))
        return log.findings()

    def _simulated(
        self, log: ViolationLog, problem: CoOptimisation, result: JobResult, seen: Inspection, budget: EventBudget
    ) -> None:
        times = iteration_times(log, problem, result.plan, seen, budget)
        if times is not None and differs(as_float(result.objective.value), times.total_ms, SIMULATED):
            text = f"the iteration takes {result.objective.value!r} ms, {times.total_ms!r} simulated"
            log.add("iteration-time", text)

    def _all_bounds(
        self, log: ViolationLog, problem: CoOptimisation, result: JobResult, seen: Inspection, lawful: bool
    ) -> None:
        """Hold the objective against every bound of instance and plan, and the bound against its proof."""
        value, proven = as_float(result.objective.value), _free_bounds(problem.cluster, problem.workload)
        if seen.parts is not None and seen.traffic is not None:
            on_rings, links = not result.plan.schedules, seen.links if lawful else None
            of_plan = bounds_of(problem.cluster, problem.workload, seen.parts, seen.traffic, links, on_rings=on_rings)
            proven = (*proven, *of_plan)
        for bound in proven:
            if beats(value, bound.value, self.tolerance):
                log.add("bound", f"the objective {value!r} beats the lower bound {bound.value!r} ({bound.proved_by})")
        if not as_float(result.bound.value) >= 0 or beats(value, as_float(result.bound.value), self.tolerance):
            log.add("bound", f"the bound {result.bound.value!r} is not between 0 and the objective {value!r}")
        derivations = {
            argument: partial(derive, problem, result.certificates)
            for argument, derive in self.arguments(problem).items()
        }
        check_stated(log, result.bound, derivations, value)
        check_claim(log, result, self.claims)

    @staticmethod
    def _certificates(log: ViolationLog, problem: CoOptimisation, result: JobResult) -> None:
        """Each proves something, whether the bound rests on it or not."""
        counts = Counter(certificate.argument for certificate in result.certificates)
        for argument, count in counts.items():
            if argument not in SUPPLEMENTS or count > 1:
                log.add("certificate", f"{count} certificates for {argument}")
        for certificate in result.certificates:
            if certificate.argument is Argument.LINK_TREE:
                check_joint(log, problem, certificate)
            elif result.bound.argument is not Argument.STRATEGY_PROGRAM:
                try:
                    proven = certified_bound(problem.cluster, problem.workload, certificate)
                except ValueError as error:
                    log.add("certificate", str(error))
                    continue
                if beats(as_float(result.objective.value), proven, Tolerance.ROUNDING):
                    log.add("bound", f"the objective beats {proven!r} of the strategy program")


def check_comparison(log: ViolationLog, problem: CoOptimisation, plan: JobPlan) -> None:
    """Every fabric is one of the instance, in its order, and has a legal strategy; its time is not checked."""
    if plan.comparison is None:
        return
    names = [row.fabric for row in plan.comparison.strategies]
    if names != [choice.name for choice in problem.baselines.fabrics if choice.name in names]:
        log.add("comparison", f"the fabrics {names} are not those of the instance, in its order")
    for row in plan.comparison.strategies:
        own = ViolationLog()
        check_strategy(own, problem.cluster, problem.workload, row.strategy)
        for violation in own.violations():
            log.add("comparison", f"{row.fabric}: {violation.message}")


CHECKER = JobChecker(
    objective=lambda _: ("iteration_time", "ms"),
    constraints=(),
    value=iteration_ms,
    arguments=arguments,
    optimal=Tolerance.ROUNDING,
)
