"""Steps on rails outside solutions: events of a step, slow stages, dead interfaces, timetables of circuits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from functools import cache

import numpy as np

from topoopt.core.arrays import NS_PER_S
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.result import Decides
from topoopt.core.switching import (
    EVERY_STAGE,
    ImpairedStep,
    PortUse,
    RailExchange,
    RailJob,
    RailTimetable,
    StagePorts,
    SwitchedStep,
    SwitchSettings,
)
from topoopt.verify.checker import CheckFindings, ViolationLog, differs
from topoopt.verify.llm_training import rails
from topoopt.verify.llm_training.iteration import Orders, within_work
from topoopt.verify.llm_training.layers import rank_positions

KINDS = {"forward": "F", "backward": "B", "inputs": "I", "weights": "W"}

SLACK_NS = 2
"""Both ends of a time are rounded."""

ENOUGH = 1.0 - 1e-9

Joined = Counter[tuple[int, int]]
"""Circuits between two servers of a rail that are lit for a use, both directions counted."""


def _compare(findings: ViolationLog, where: str, rows: Iterable[tuple[str, float, float]]) -> None:
    for name, figure, value in rows:
        if differs(figure, value, rails.SLACK):
            findings.add("figure", f"{where}{name} comes to {value!r} s, not {figure!r}")


def check_switched(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings, job: RailJob, step: SwitchedStep
) -> CheckFindings:
    """Return what is wrong with the job of a strategy, and with all figures and events of a step of it."""
    findings = ViolationLog()
    findings.guard("rails", "the job", lambda: _check_job(findings, problem, strategy, settings, job))
    findings.guard("step", "the step", lambda: check_step(findings, job, step))
    return findings.findings()


def _check_job(
    findings: ViolationLog, problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings,
    job: RailJob,
) -> None:  # fmt: skip
    if text := rails.refusal(problem, strategy, settings):
        findings.add("pods", text)
        return
    expected = rails.derived_job(problem, strategy, settings)
    for part in fields(job):
        figure, value = getattr(job, part.name), getattr(expected, part.name)
        rows = [figure], [value]
        if part.name == "exchange" and figure and value:
            rows = [_exchanged(row) for row in figure], [_exchanged(row) for row in value]
        for a, b in zip(*rows, strict=True):
            if not _near(a, b):
                findings.add("rails", f"{part.name} is {a!r}, not {b!r}")


def _exchanged(row: RailExchange) -> tuple[float, ...]:
    return (*row.crossing_s, row.within_s, row.fixed_s, row.head_s, row.tail_s, row.hidden)


def _near(figure: object, value: object) -> bool:
    if not isinstance(value, tuple | float) or not isinstance(figure, tuple | float):
        return figure == value
    a, b = np.ravel(figure), np.ravel(value)
    return a.shape == b.shape and bool((abs(a - b) <= rails.SLACK * np.max(abs(b), initial=0.0)).all())


def check_step(findings: ViolationLog, job: RailJob, step: SwitchedStep) -> None:
    """Check ports, figures, bound and events of a step."""
    if not rails.check_ports(findings, job, step.plan):
        return
    demand = step.mode == "on-demand"
    follower = rails.Follower(job, step.plan, step.delay_s, demand=demand)
    step_s = follower.step()
    at_once = rails.Follower(job, step.plan, 0.0, demand=demand).step()
    electrical = rails.Follower(job, [None] * job.ranks, 0.0, demand=demand).step()
    rows = (
        ("step_s", step.step_s, step_s),
        ("electrical_s", step.electrical_s, electrical),
        ("exposed_s", step.step_s - step.exposed_s, at_once),
    )
    _compare(findings, "", rows)
    if step.bound_s > step.step_s * (1 + rails.SLACK):
        findings.add("bound", f"{step.step_s!r} s is better than its bound {step.bound_s!r}")

    def bound() -> None:
        rails.check_ports_bound(findings, job, step.bound_s, step.delay_s, rails.MAX_PASSES, demand=demand)

    within_work(findings, "bound_s", bound, Decides.BOUND)
    if step.events:
        _check_events(findings, follower, step)


def _check_events(findings: ViolationLog, follower: rails.Follower, step: SwitchedStep) -> None:
    """Check that all passes, sends and switches are at the times of the step followed, each once.

    In the step followed nothing begins before its circuits are lit, and no circuits are cut in use.
    """
    slack = rails.SLACK * step.step_s
    expected: dict[object, list[tuple[float, float]]] = defaultdict(list)
    p = follower.job.ranks
    for (kind, i, stage), end in follower.ends.items():
        expected[kind, i, stage, stage % p, -1].append((np.nan, end))
    for (kind, i, stage), times in follower.sends.items():
        expected["send", i, stage, stage % p, (stage + 1 if kind == "F" else stage - 1) % p].append(times)
    for rank, boundary, after, begin in follower.changes:
        expected[rank, boundary, after].append((begin, begin + step.delay_s))
    needed = sum(map(len, expected.values()))
    for rank, times in follower.reduces.items():
        expected["reduce", rank].append(times)
    for rank in range(p):
        expected["gather", rank].append((0.0, follower.gathered.get(rank, 0.0)))
    held, switches = {state.rank: state.held for state in follower.ranks}, 0
    for event in step.events:
        key: object = (KINDS.get(event.what, event.what), event.micro_batch, event.stage, event.rank, event.peer)
        if event.what in ("reduce", "gather"):
            key = event.what, event.rank
        elif event.what == "switch":
            key, switches = (event.rank, event.boundary, event.after), switches + 1
            if event.before != held.get(event.rank):
                findings.add("ports", f"{event} does not follow from what the ports served")
            held[event.rank] = event.after
        elif event.what == "optimizer":
            continue
        times_of = expected[key]
        near = [
            times
            for times in times_of
            if not abs(times[0] - event.begin_s) > slack and abs(times[1] - event.end_s) <= slack
        ]
        if near:
            times_of.remove(near[0])
            needed -= event.what not in ("reduce", "gather")
        else:
            findings.add("dark" if event.what == "switch" else "events", f"{event} is not of the step at this time")
    if needed:
        findings.add("events", f"{needed} passes, sends or switches of the step are missing")
    if switches != step.switches:
        findings.add("figure", f"ports are set {switches} times, not {step.switches}")


def _exchange(follower: rails.Follower, kind: str, stage: int, rank: int, end: float) -> tuple[float, float]:
    head, tail = follower.lead(kind, stage)
    return end - follower.takes(kind, stage, follower.ranks[rank].rates) + head, end - tail


def check_failed(
    job: RailJob, step: SwitchedStep, gpus_per_server: int, failed: int, figures: ImpairedStep
) -> tuple[str, ...]:
    """Return what is wrong with the figures of one failure of so many interfaces of a server."""

    def rates(whole: list[rails.PortRates]) -> list[rails.PortRates]:
        left = [figures.rank in (rank, EVERY_STAGE) for rank in range(job.ranks)]
        parts = [(gpus_per_server - failed * lost) / gpus_per_server for lost in left]
        return [rails.PortRates(r.hop * k, r.ring * k, r.inside * k) for r, k in zip(whole, parts, strict=True)]

    local = rates([rails.rates_of(job, rank, ports) for rank, ports in enumerate(step.plan)])
    return _disturbed(job, step, figures, rails.orders_of(job), local, rates([rails.WHOLE] * job.ranks))


def check_straggler(job: RailJob, step: SwitchedStep, slowdown: float, figures: ImpairedStep) -> tuple[str, ...]:
    """Return what is wrong with the figures of one slow stage; passes keep the order that they have without it."""
    longer = [slowdown if k % job.ranks == figures.rank else 1.0 for k in range(job.ranks * job.chunks)]
    pairs = zip(job.exchange or (), longer, strict=False)
    exchange = tuple(replace(e, head_s=e.head_s * by, tail_s=e.tail_s * by) for e, by in pairs)
    forward, inputs, weights = (
        tuple(value * by for value, by in zip(times, longer, strict=True))
        for times in (job.forward_s, job.inputs_s, job.weights_s)
    )
    slow = replace(job, exchange=exchange or None, forward_s=forward, inputs_s=inputs, weights_s=weights)
    return _disturbed(slow, step, figures, rails.orders_of(job), [], [])


def _disturbed(
    job: RailJob, step: SwitchedStep, figures: ImpairedStep, orders: Orders,
    rates: list[rails.PortRates], network: list[rails.PortRates],
) -> tuple[str, ...]:  # fmt: skip
    findings, demand = ViolationLog(), step.mode == "on-demand"
    on_ports = rails.Follower(job, step.plan, step.delay_s, demand=demand, rates=rates, orders=orders)
    electrical = rails.Follower(job, [None] * job.ranks, 0.0, demand=demand, rates=network, orders=orders)
    rows = (
        ("step_s", figures.step_s, on_ports.step()),
        ("electrical_s", figures.electrical_s, electrical.step()),
    )
    _compare(findings, f"stage {figures.rank}: ", rows)
    return tuple(map(str, findings.findings().violations))


def check_timetable(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, stages: tuple[StagePorts, ...], timetable: RailTimetable
) -> CheckFindings:
    """Return what is wrong with the circuits of all rails over the step of a plan of ports, which is followed."""
    findings, settings = ViolationLog(), problem.switching
    assert settings is not None
    job = rails.derived_job(problem, strategy, settings)
    follower = rails.Follower(job, stages, settings.delay_s, demand=not settings.provisioned)
    step_s = follower.step()
    findings.hold(
        "timetable",
        ("rails", timetable.rails, problem.cluster.gpus_per_server),
        ("servers", timetable.servers, problem.cluster.servers),
        ("ports", timetable.ports, settings.ports),
        ("delay_ns", timetable.delay_ns, round(settings.delay_s * NS_PER_S)),
    )
    if abs(timetable.step_ns - step_s * NS_PER_S) > SLACK_NS:
        findings.add("timetable", f"the step takes {step_s!r} s, not {timetable.step_ns} ns")
    findings.guard("timetable", "phases", lambda: _check_phases(findings, timetable))
    if findings.clean:
        _Lights(strategy, timetable, follower).check(findings)
    return findings.findings()


def _check_phases(findings: ViolationLog, timetable: RailTimetable) -> None:
    """Check that phases follow each other, no port is taken twice, and what is lit was dark for the delay."""
    at, ports = 0, timetable.servers * timetable.ports
    for phase in timetable.phases:
        if phase.begin_ns != at or phase.end_ns <= phase.begin_ns:
            findings.add("timetable", f"a phase begins at {phase.begin_ns} ns, the last one ends at {at}")
        at, taken = phase.end_ns, set()
        for rail, *ends in (c for group in (*phase.lit, *phase.dark) for c in timetable.groups[group].circuits):
            for port in ends:
                if (rail, port) in taken or not (0 <= port < ports and 0 <= rail < timetable.rails):
                    findings.add("ports", f"port {port} of rail {rail} is taken twice at {phase.begin_ns} ns")
                taken.add((rail, port))
    if at != timetable.step_ns:
        findings.add("timetable", f"phases end at {at} ns, the step at {timetable.step_ns}")
    for group in range(len(timetable.groups)):
        _check_dark(findings, timetable, group)


def _check_dark(findings: ViolationLog, timetable: RailTimetable, group: int) -> None:
    """Check of each time that a group is set that it is dark for the delay, then lit."""
    phases, lit = timetable.phases, -1
    cut = next((k for k, phase in enumerate(phases) if group not in (*phase.lit, *phase.dark)), None)
    if cut is None:
        if any(group in phase.dark for phase in phases):
            findings.add("dark", f"group {group} is being set while it is lit")
        return
    dark = 0
    for phase in (*phases[cut:], *phases[:cut]):
        if group in phase.dark:
            if dark == lit:
                findings.add("dark", f"group {group} is being set while it is lit")
            dark = max(dark, 0) + phase.end_ns - phase.begin_ns
        elif group in phase.lit:
            if dark != lit and dark < timetable.delay_ns - SLACK_NS:
                findings.add("dark", f"group {group} is lit at {phase.begin_ns} ns, before it is set")
            dark = lit
        else:
            dark = 0


class _Lights:
    """Which exchanges have their circuits, by phase."""

    def __init__(self, strategy: ParallelStrategy, timetable: RailTimetable, follower: rails.Follower) -> None:
        self.job, self.timetable, self.follower = follower.job, timetable, follower
        self.rates = [state.rates for state in follower.ranks]
        self.rows: dict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
        rings: dict[tuple[PortUse, int, int, int], set[int]] = defaultdict(set)
        for rank, at in enumerate(rank_positions(strategy)):
            server, rail = divmod(rank, timetable.rails)
            t, c, d, p = at[D.TENSOR], at[D.CONTEXT], at[D.DATA], at[D.PIPELINE]
            group = (t + strategy.tensor * (c + strategy.context * d)) // (strategy.expert * strategy.expert_tensor)
            rings[PortUse.DATA, p, rail, t].add(server)
            rings[PortUse.EXPERT, p, rail, group].add(server)
            self.rows[rail, t, c, d][p] = server
        self.rings: dict[tuple[PortUse, int], set[tuple[int, tuple[int, ...]]]] = defaultdict(set)
        for (use, p, rail, _), servers in rings.items():
            self.rings[use, p].add((rail, tuple(sorted(servers))))
        self.joined, self.has = cache(self._joined), cache(self._has)

    def check(self, findings: ViolationLog) -> None:
        begins = [phase.begin_ns for phase in self.timetable.phases]
        for use, stages, begin, end in self._exchanges():
            first = bisect_right(begins, begin * NS_PER_S + SLACK_NS) - 1
            last = max(first + 1, bisect_left(begins, end * NS_PER_S - SLACK_NS))
            if not all(self.has(phase, use, stages) for phase in range(max(first, 0), last)):
                where = " and ".join(map(str, stages))
                findings.add("dark", f"{use.value} of stage {where}, {begin!r} to {end!r} s, has no circuits")

    def _exchanges(self) -> Iterator[tuple[PortUse, tuple[int, ...], float, float]]:
        job, p, followed = self.job, self.job.ranks, self.follower
        for (kind, _, stage), times in followed.sends.items():
            yield PortUse.PIPELINE, (stage % p, (stage + 1 if kind == "F" else stage - 1) % p), *times
        if job.reduces:
            for rank, (begin, end) in followed.reduces.items():
                if end > begin:
                    yield PortUse.DATA, (rank,), begin, end
            for rank, came in followed.gathered.items():
                yield PortUse.DATA, (rank,), 0.0, came
        for (kind, _, stage), end in followed.ends.items() if job.inside is not None else ():
            if kind != "W" and job.inside is not None:
                yield job.inside, (stage % p,), *_exchange(self.follower, kind, stage, stage % p, end)

    def _has(self, phase: int, use: PortUse, stages: tuple[int, ...]) -> bool:
        """Return whether all that belongs together is joined on every rail, at the rate of the step."""
        joined = self.joined(phase, use)
        if use is not PortUse.PIPELINE:
            rings = self.rings[use, stages[0]]
            return all(self._round(joined[rail], use, stages[0], servers) for rail, servers in rings)
        source, target = stages
        rate = min(self.rates[source].hop, self.rates[target].hop) * ENOUGH
        lit = ((joined[key[0]][row[source], row[target]]) for key, row in self.rows.items())
        return all(min(1.0, count * self.job.circuit_share) >= rate and count for count in lit)

    def _joined(self, phase: int, use: PortUse) -> list[Joined]:
        joined, ports = [Joined() for _ in range(self.timetable.rails)], self.timetable.ports
        for group in (self.timetable.groups[number] for number in self.timetable.phases[phase].lit):
            for rail, port, peer in group.circuits if group.use is use else ():
                servers = port // ports, peer // ports
                joined[rail].update((servers, servers[::-1]))
        return joined

    def _round(self, joined: Joined, use: PortUse, stage: int, servers: tuple[int, ...]) -> bool:
        if len(servers) < 2:
            return True
        rate = self.rates[stage].inside if use is self.job.inside else self.rates[stage].ring
        share = rails.crowded_ring if use is PortUse.EXPERT else rails.ring
        peers = {a: {b: joined[a, b] for b in servers if joined[a, b]} for a in servers}
        lanes = {count for row in peers.values() for count in row.values()}
        if len(lanes) != 1 or any(len(row) != min(2, len(servers) - 1) for row in peers.values()):
            return False
        (lane,) = lanes
        if share(len(servers), lane if len(servers) == 2 else 2 * lane, self.job.circuit_share) < rate * ENOUGH:
            return False
        seen, at = {servers[0]}, servers[0]
        while (step := next((peer for peer in peers[at] if peer not in seen), None)) is not None:
            seen.add(step)
            at = step
        return len(seen) == len(servers)
