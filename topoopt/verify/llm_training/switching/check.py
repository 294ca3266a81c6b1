"""The checker of steps whose circuits are set anew: ports, dark circuits, precedence, time, and bounds."""

from __future__ import annotations

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.solution import Decides
from topoopt.core.switched_step import Boundary, RailEvent, SwitchedStep, SwitchMode
from topoopt.core.switching import PortSplit, PortUse, RailJob, StagePorts
from topoopt.core.switching import SwitchSettings as Settings
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, differs
from topoopt.verify.llm_training.switching.follow import Followed, Follower
from topoopt.verify.llm_training.switching.job import check_job
from topoopt.verify.llm_training.switching.ports import fault
from topoopt.verify.llm_training.switching.ports_bound import MOST_PASSES, SLACK, check_ports_bound
from topoopt.verify.llm_training.work import within_work

KINDS = {"forward": "F", "backward": "B", "inputs": "I", "weights": "W"}


def check_switched(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: Settings, job: RailJob, step: SwitchedStep
) -> CheckFindings:
    """All figures of a step, and its events where there are any.

    Args:
        strategy: with the layers of its chunks.
    """
    findings = ViolationLog()
    findings.guard("rails", "the job", lambda: check_job(findings, problem, strategy, settings, job))
    findings.guard("step", "the step", lambda: _check_step(findings, job, step))
    return findings.findings()


def _check_step(findings: ViolationLog, job: RailJob, step: SwitchedStep) -> None:
    for rank, one in enumerate(step.plan):
        text = fault(job, rank, one)
        if text is not None:
            findings.add("ports", f"stage {rank}: {text}")
    if len(step.plan) != job.ranks:
        findings.add("ports", f"{len(step.plan)} plans of {job.ranks} stages")
    if not findings.clean:
        return
    demand = step.mode is SwitchMode.ON_DEMAND
    follower = Follower(job, step.plan, step.delay_s, demand=demand)
    due = follower.step()
    at_once = Follower(job, step.plan, 0.0, demand=demand).step().step_s
    electrical = Follower(job, [None] * job.ranks, 0.0, demand=demand).step().step_s
    for name, stated, value in (
        ("step_s", step.step_s, due.step_s),
        ("electrical_s", step.electrical_s, electrical),
        ("exposed_s", step.step_s - step.exposed_s, at_once),
    ):
        if differs(stated, value, SLACK):
            findings.add("figure", f"{name} comes to {value!r} s, not {stated!r}")
    if step.bound_s > step.step_s * (1 + SLACK):
        findings.add("bound", f"{step.step_s!r} s is better than its bound {step.bound_s!r}")
    within_work(
        findings,
        "bound_s",
        lambda: check_ports_bound(findings, job, step.bound_s, step.delay_s, MOST_PASSES, demand=demand),
        Decides.BOUND,
    )
    if step.events:
        check_events(findings, follower, step, due)


def check_events(findings: ViolationLog, follower: Follower, step: SwitchedStep, due: Followed) -> None:
    """Passes and what is sent when they are due; ports at all times; nothing on dark circuits."""
    slack = SLACK * step.step_s
    seen = 0
    for event in step.events:
        key = (KINDS.get(event.what, ""), event.micro_batch, event.stage)
        if event.what in KINDS:
            seen += 1
            if key not in due.ends or abs(due.ends[key] - event.end_s) > slack:
                findings.add("events", f"{event} is not due then")
        elif (
            (event.what == "send" and not _due_send(event, due, slack))
            or (event.what == "reduce" and not _near(due.reduces.get(event.rank), event, slack))
            or (event.what == "gather" and not _near((0.0, due.gathered.get(event.rank, 0.0)), event, slack))
        ):
            findings.add("events", f"{event} is not due then")
    sends = sum(event.what == "send" for event in step.events)
    if seen != len(due.ends) or sends != len(due.sends):
        findings.add("events", f"{seen} passes and {sends} sent, {len(due.ends)} and {len(due.sends)} are due")
    switches = [event for event in step.events if event.what == "switch"]
    if len(switches) != step.switches:
        findings.add("figure", f"ports are set {len(switches)} times, not {step.switches}")
    for rank, one in enumerate(step.plan):
        own = sorted((event for event in switches if event.rank == rank), key=lambda event: event.begin_s)
        _check_ports(findings, follower, step, one, rank, own)


def _near(times: tuple[float, float] | None, event: RailEvent, slack: float) -> bool:
    return times is not None and abs(times[0] - event.begin_s) <= slack and abs(times[1] - event.end_s) <= slack


def _due_send(event: RailEvent, due: Followed, slack: float) -> bool:
    keys = [(kind, event.micro_batch, event.stage) for kind in KINDS.values()]
    return any(_near(due.sends.get(key), event, slack) for key in keys)


def _check_ports(
    findings: ViolationLog, follower: Follower, step: SwitchedStep, one: StagePorts, rank: int, own: list[RailEvent]
) -> None:
    """The ports of a stage at all times: those being set are dark, and nothing is on them."""
    slack = SLACK * step.step_s
    held: PortSplit | None = own[0].before if own else one.pipeline
    for place, event in enumerate(own):
        if event.before != held or event.after is None or abs(event.end_s - event.begin_s - step.delay_s) > slack:
            findings.add("ports", f"{event} does not follow from what the ports served, or takes another time")
        if place and event.begin_s < own[place - 1].end_s - slack:
            findings.add("ports", f"{event} begins while ports are being set")
        held = event.after
        ways = {
            Boundary.DATA_TO_PIPELINE: (one.data, (one.pipeline, one.inside)),
            Boundary.PIPELINE_TO_DATA: (None, (one.data,)),
            Boundary.INSIDE_TO_PIPELINE: (one.inside, (one.pipeline,)),
            Boundary.PIPELINE_TO_INSIDE: (one.pipeline, (one.inside,)),
        }
        before, after = ways[event.boundary] if event.boundary else (None, ())
        if event.after not in after or (before not in (None, event.before) and follower.job.reduces):
            findings.add("ports", f"{event} is not the boundary that it says")
    if own and own[-1].after != own[0].before and own[0].begin_s < 0:
        findings.add("ports", f"stage {rank} does not end a step as it begins one")
    for event in step.events:
        use, begin, end = _use(follower, event, rank)
        if use is not None and not _lit(own or one, use, begin, end, slack):
            findings.add("dark", f"{event} on circuits that are dark")


def _use(follower: Follower, event: RailEvent, rank: int) -> tuple[PortUse | None, float, float]:
    """What an event needs of the ports of a stage, and when."""
    job = follower.job
    if event.what == "send" and rank in (event.rank, event.peer):
        return PortUse.PIPELINE, event.begin_s, event.end_s
    if event.rank != rank or event.what in ("switch", "optimizer", "send", "weights"):
        return None, 0.0, 0.0
    if event.what in ("reduce", "gather"):
        return PortUse.DATA if job.reduces else None, event.begin_s, event.end_s
    kind = KINDS[event.what]
    head, tail = follower.lead(kind, event.stage)
    begun = event.end_s - follower.takes(kind, event.stage, follower.ranks[rank].rates)
    return job.inside, begun + head, event.end_s - tail


def _lit(ports: StagePorts | list[RailEvent], use: PortUse, begin: float, end: float, slack: float) -> bool:
    """Whether ports serve a use all the time."""
    if isinstance(ports, StagePorts):
        return ports.pipeline.of(use) > 0
    for event in ports:
        assert event.before is not None
        assert event.after is not None
        kept = min(event.before.of(use), event.after.of(use)) > 0
        if begin < event.end_s - slack and end > event.begin_s + slack and not kept:
            return False
    state = ports[0].before
    for event in ports:
        state = event.after if event.begin_s <= begin + slack else state
    return state is not None and state.of(use) > 0
