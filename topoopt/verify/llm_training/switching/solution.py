"""Rails in a solution: the step of the plan, and what proves that no other strategy has a faster one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from functools import partial

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import PHOTONIC_RAILS, FabricOutcome, ShapeOutcome, ShapeVerdict, StrategyFigures
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.solution import Decides
from topoopt.core.switched_step import Boundary, RailPlan, SwitchMode
from topoopt.core.switching import PortSplit, PortUse, RailJob, StagePorts, SwitchSettings
from topoopt.core.verdict import Tolerance, beats
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.switching.follow import Followed, Follower
from topoopt.verify.llm_training.switching.job import derived_job
from topoopt.verify.llm_training.switching.ports import PortRates, crowded_ring, fault, ring
from topoopt.verify.llm_training.switching.ports_bound import (
    EVENTS_OF_PASS,
    MOST_PASSES,
    SLACK,
    PortsTree,
    check_ports_bound,
    passes_of,
    passes_within,
)
from topoopt.verify.llm_training.work import BeyondWorkError, WorkBudget, within_work


def check_rails(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    solution: LlmTrainingSolution,
    one: FabricOutcome,
    budget: WorkBudget,
) -> None:
    """All figures of a plan on rails."""
    rails, settings, network = one.rails, problem.switching, one.plan.network
    if rails is None or settings is None:
        findings.add("rails", "a plan on rails has ports, and the instance says how long they take to set")
        return
    if any(getattr(network, part.name) for part in fields(network) if part.name != "fabric") or one.note or one.next:
        findings.add("rails", f"{PHOTONIC_RAILS} has no links of its own")
    mode = SwitchMode.PROVISIONED if settings.provisioned else SwitchMode.ON_DEMAND
    findings.hold(
        "rails",
        ("mode", rails.mode, mode),
        ("delay_s", rails.delay_s, settings.delay_s),
        ("tried", one.tried, len(rails.bounds_s)),
    )
    job = derived_job(problem, one.plan.strategy, settings)
    within_work(findings, "step_s", lambda: _check_step(findings, job, rails, settings, budget), Decides.VALUE)
    others = partial(_check_others, findings, problem, solution, rails, settings, budget)
    within_work(findings, "bounds_s", others, Decides.BOUND)
    within_work(findings, "one_shot_s", lambda: _check_one_shot(findings, job, rails.one_shot_s, budget))


def _check_step(
    findings: ViolationLog, job: RailJob, rails: RailPlan, settings: SwitchSettings, budget: WorkBudget
) -> None:
    """Ports, and the step on them, without delay too."""
    if len(rails.stages) != job.ranks:
        findings.add("ports", f"{len(rails.stages)} plans of {job.ranks} stages")
        return
    for rank, ports in enumerate(rails.stages):
        if (text := fault(job, rank, ports)) is not None:
            findings.add("ports", f"stage {rank}: {text}")
            return
    budget.take(2 * EVENTS_OF_PASS * passes_of(job))
    demand = not settings.provisioned
    followed = Follower(job, rails.stages, settings.delay_s, demand=demand).step()
    at_once = Follower(job, rails.stages, 0.0, demand=demand).step().step_s
    for name, stated, value in (
        ("step_s", rails.step_s, followed.step_s),
        ("stall_s", rails.step_s - rails.stall_s, at_once),
    ):
        if differs(stated, value, SLACK):
            findings.add("figure", f"{name} comes to {value!r} s, not {stated!r}")
    check_changes(findings, rails, followed)


def check_changes(findings: ViolationLog, rails: RailPlan, followed: Followed) -> None:
    """Ports are set when they are due, and at no other times."""
    stated, due = (defaultdict[tuple[int, Boundary, PortSplit], list[float]](list) for _ in range(2))
    for one in rails.changes:
        stated[one.rank, one.boundary, one.after].append(one.begin_s)
    for rank, boundary, after, begin in followed.changes:
        due[rank, boundary, after].append(begin)
    if list(rails.changes) != sorted(rails.changes, key=lambda one: (one.rank, one.begin_s)):
        findings.add("ports", "changes are not in the order of ranks and times")
    slack = SLACK * followed.step_s
    for key in sorted({*stated, *due}):
        pairs = list(zip(sorted(stated[key]), sorted(due[key]), strict=False))
        if len(stated[key]) != len(due[key]) or any(abs(a - b) > slack for a, b in pairs):
            findings.add("ports", f"stage {key[0]}, {key[1]}: set {len(due[key])} times, at other times")


def _check_one_shot(findings: ViolationLog, job: RailJob, stated: float | None, budget: WorkBudget) -> None:
    """The ring that forwards, or plans of ports that keep all: none is faster, and one is as fast."""
    room = passes_within(job, MOST_PASSES, budget)
    forwarded = float("inf")
    if job.ports > 1:
        every: list[StagePorts | None] = [None] * job.ranks
        forwarded = Follower(job, every, 0.0, demand=False, rates=[_forwarding(job)] * job.ranks).step().step_s
    value = float("inf") if stated is None else stated
    kept = PortsTree(job, 0.0, room, demand=False, kept=True)
    faster, as_fast = (kept.beaten(value * (1 + slack)) for slack in (0.0, 4 * SLACK))
    budget.left -= EVENTS_OF_PASS * (room - kept.room)
    if faster is None or as_fast is None:
        raise BeyondWorkError("too many ways to split ports for good")
    if faster or beats(forwarded, value, Tolerance.LONG_SUMS):
        findings.add("figure", f"a topology that is never switched is faster than {stated!r} s")
    elif stated is not None and not as_fast and differs(value, forwarded, SLACK):
        findings.add("figure", f"no topology that is never switched takes {stated!r} s")


def _forwarding(job: RailJob) -> PortRates:
    """One ring through all servers of a rail: rings of all stages share its arcs, and so do chunks that go back."""
    share = job.circuit_share / job.ranks
    lap = ring(max(3, job.data_servers), job.ports, share)
    tokens = crowded_ring(max(3, job.expert_servers), job.ports, share)
    hop = min(1.0, job.ports // 2 * job.circuit_share) / (1 if job.chunks == 1 else 2)
    return PortRates(hop, lap, tokens if job.inside is PortUse.EXPERT else lap)


def _check_others(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    solution: LlmTrainingSolution,
    rails: RailPlan,
    settings: SwitchSettings,
    budget: WorkBudget,
) -> None:
    """Of each of the fastest strategies: no plan of ports is faster than its bound."""
    if len(rails.bounds_s) > len(solution.ranked):
        findings.add("certificate", f"bounds of {len(rails.bounds_s)} strategies, {len(solution.ranked)} are ranked")
        return
    needless = solution.ranked[len(rails.bounds_s) - 1].iteration_time_s > rails.step_s * (1 + SLACK)
    if needless:
        findings.add("certificate", "a bound of a strategy whose time on an ideal switch says enough")
        return
    room = MOST_PASSES
    for place, (bound, one) in enumerate(zip(rails.bounds_s, solution.ranked, strict=False)):
        if bound <= one.iteration_time_s * (1 + SLACK):
            continue
        if beats(rails.step_s, bound, Tolerance.LONG_SUMS):
            findings.add("certificate", f"the bound of strategy {place}, {bound!r} s, is above the step")
        job = derived_job(problem, one.strategy, settings)
        before = passes_within(job, room, budget)
        room = check_ports_bound(findings, job, bound, settings.delay_s, before, demand=not settings.provisioned)
        budget.left -= EVENTS_OF_PASS * (before - room)


def rails_bound(rails: RailPlan, ranked: tuple[StrategyFigures, ...], shapes: tuple[ShapeOutcome, ...]) -> float:
    """Seconds that no strategy of the space is below on rails: those ranked by their bounds, all others by the first
    time on an ideal switch that has none, or by their lines."""
    count = len(rails.bounds_s)
    found = [rails.step_s, *rails.bounds_s]
    found += [line.bound_s for line in shapes if line.verdict is ShapeVerdict.LEFT]
    searched = all(line.verdict is ShapeVerdict.SEARCHED or line.verdict is ShapeVerdict.MEMORY for line in shapes)
    if not searched or sum(line.fitting for line in shapes) != count:
        found.append(ranked[min(count, len(ranked) - 1)].iteration_time_s)
    return min(found)
