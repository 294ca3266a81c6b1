"""The checker of a timetable of circuits: ports at most once, dark for the delay, all that a step sends on light."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.rail_circuits import RailTimetable
from topoopt.core.switching import PortUse, RailJob, StagePorts
from topoopt.core.units import NS_PER_S
from topoopt.verify.laws.findings import CheckFindings, ViolationLog
from topoopt.verify.llm_training.groups import rank_places
from topoopt.verify.llm_training.switching.follow import Followed, Follower
from topoopt.verify.llm_training.switching.job import derived_job
from topoopt.verify.llm_training.switching.ports import crowded_ring, rates_of, ring

SLACK_NS = 2
"""Both ends of a time are rounded."""

ENOUGH = 1.0 - 1e-9

Joined = Counter[tuple[int, int]]
"""Circuits between two servers of a rail that are lit for a use, both ways counted."""


def check_timetable(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    stages: tuple[StagePorts, ...],
    timetable: RailTimetable,
) -> CheckFindings:
    """Circuits of all rails over the step of a plan, which is followed again.

    Args:
        stages: ports of each.
    """
    findings = ViolationLog()
    settings = problem.switching
    assert settings is not None
    job = derived_job(problem, strategy, settings)
    follower = Follower(job, stages, settings.delay_s, demand=not settings.provisioned)
    due = follower.step()
    findings.hold(
        "timetable",
        ("rails", timetable.rails, problem.cluster.gpus_per_server),
        ("servers", timetable.servers, problem.cluster.servers),
        ("ports", timetable.ports, settings.ports),
        ("delay_ns", timetable.delay_ns, round(settings.delay_s * NS_PER_S)),
    )
    if abs(timetable.step_ns - due.step_s * NS_PER_S) > SLACK_NS:
        findings.add("timetable", f"the step takes {due.step_s!r} s, not {timetable.step_ns} ns")
    findings.guard("timetable", "phases", lambda: _check_phases(findings, timetable))
    if findings.clean:
        _Lights(job, strategy, stages, timetable).check(findings, follower, due)
    return findings.findings()


def _check_phases(findings: ViolationLog, timetable: RailTimetable) -> None:
    """They follow each other; no port is taken twice; what is lit was dark for the delay."""
    at, most = 0, timetable.servers * timetable.ports
    for one in timetable.phases:
        if one.begin_ns != at or one.end_ns <= one.begin_ns:
            findings.add("timetable", f"a phase begins at {one.begin_ns} ns, the last one ends at {at}")
        at, taken = one.end_ns, set()
        for group in (*one.lit, *one.dark):
            for circuit in timetable.groups[group].circuits:
                for port in (circuit.port, circuit.peer):
                    if (circuit.rail, port) in taken or not (0 <= port < most and 0 <= circuit.rail < timetable.rails):
                        findings.add("ports", f"port {port} of rail {circuit.rail} is taken twice at {one.begin_ns} ns")
                    taken.add((circuit.rail, port))
    if at != timetable.step_ns:
        findings.add("timetable", f"phases end at {at} ns, the step at {timetable.step_ns}")
    for group in range(len(timetable.groups)):
        _check_dark(findings, timetable, group)


def _check_dark(findings: ViolationLog, timetable: RailTimetable, group: int) -> None:
    """Each time that a group is set: dark for the delay, then lit."""
    phases = timetable.phases
    cut = next((k for k, one in enumerate(phases) if group not in (*one.lit, *one.dark)), None)
    if cut is None:
        if any(group in one.dark for one in phases):
            findings.add("dark", f"group {group} is being set while it is lit")
        return
    dark: int | None = None
    for one in (*phases[cut:], *phases[:cut]):
        if group in one.dark:
            if dark is not None and dark < 0:
                findings.add("dark", f"group {group} is being set while it is lit")
            dark = (dark or 0) + one.end_ns - one.begin_ns
        elif group in one.lit:
            if dark != -1 and (dark or 0) < timetable.delay_ns - SLACK_NS:
                findings.add("dark", f"group {group} is lit at {one.begin_ns} ns, before it is set")
            dark = -1
        else:
            dark = None


class _Lights:
    """Which exchanges have their circuits, by phase."""

    def __init__(
        self, job: RailJob, strategy: ParallelStrategy, stages: tuple[StagePorts, ...], timetable: RailTimetable
    ) -> None:
        self.job, self.timetable = job, timetable
        self.rates = [rates_of(job, rank, one) for rank, one in enumerate(stages)]
        self.begins = [one.begin_ns for one in timetable.phases]
        self.rings: dict[tuple[PortUse, int], set[tuple[int, tuple[int, ...]]]] = defaultdict(set)
        self.rows: dict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
        rings: dict[tuple[PortUse, int], dict[tuple[int, ...], set[int]]] = defaultdict(lambda: defaultdict(set))
        for rank, at in enumerate(rank_places(strategy)):
            server, rail = divmod(rank, timetable.rails)
            t, c, d, p = at[D.TENSOR], at[D.CONTEXT], at[D.DATA], at[D.PIPELINE]
            group = (t + strategy.tensor * (c + strategy.context * d)) // (strategy.expert * strategy.expert_tensor)
            rings[PortUse.DATA, p][rail, t].add(server)
            rings[PortUse.EXPERT, p][rail, group].add(server)
            self.rows[rail, t, c, d][p] = server
        for key, groups in rings.items():
            self.rings[key] = {(one[0], tuple(sorted(servers))) for one, servers in groups.items()}
        self._lit: dict[tuple[int, PortUse], list[Joined]] = {}
        self._known: dict[tuple[int, PortUse, tuple[int, ...]], bool] = {}

    def check(self, findings: ViolationLog, follower: Follower, due: Followed) -> None:
        """All that the step exchanges."""
        for use, stages, begin, end in self._exchanges(follower, due):
            first = bisect_right(self.begins, begin * NS_PER_S + SLACK_NS) - 1
            last = max(first + 1, bisect_left(self.begins, end * NS_PER_S - SLACK_NS))
            if not all(self._has(phase, use, stages) for phase in range(max(first, 0), last)):
                where = " and ".join(map(str, stages))
                findings.add("dark", f"{use.value} of stage {where}, {begin!r} to {end!r} s, has no circuits")

    def _exchanges(self, follower: Follower, due: Followed) -> Iterator[tuple[PortUse, tuple[int, ...], float, float]]:
        """Use, stages, begin and end in seconds."""
        job, p = self.job, self.job.ranks
        for (kind, _, stage), (begin, end) in due.sends.items():
            after = stage + 1 if kind == "F" else stage - 1
            yield PortUse.PIPELINE, (stage % p, after % p), begin, end
        if job.reduces:
            for rank, (begin, end) in due.reduces.items():
                if end > begin:
                    yield PortUse.DATA, (rank,), begin, end
            for rank, came in due.gathered.items():
                yield PortUse.DATA, (rank,), 0.0, came
        if job.inside is not None:
            for (kind, _, stage), end in due.ends.items():
                if kind != "W":
                    head, tail = follower.lead(kind, stage)
                    begin = end - follower.takes(kind, stage, self.rates[stage % p])
                    yield job.inside, (stage % p,), begin + head, end - tail

    def _has(self, phase: int, use: PortUse, stages: tuple[int, ...]) -> bool:
        """Whether all that belongs together is joined on every rail, at the rate that the step is followed with."""
        key = phase, use, stages
        if key not in self._known:
            joined = self._joined(phase, use)
            if use is PortUse.PIPELINE:
                self._known[key] = self._between(joined, stages)
            else:
                self._known[key] = all(
                    self._round(joined[rail], use, stages[0], servers) for rail, servers in self.rings[use, stages[0]]
                )
        return self._known[key]

    def _joined(self, phase: int, use: PortUse) -> list[Joined]:
        """By rail."""
        if (phase, use) not in self._lit:
            found: list[Joined] = [Counter() for _ in range(self.timetable.rails)]
            groups = (self.timetable.groups[number] for number in self.timetable.phases[phase].lit)
            for group in (one for one in groups if one.use is use):
                for circuit in group.circuits:
                    ends = circuit.port // self.timetable.ports, circuit.peer // self.timetable.ports
                    found[circuit.rail][ends] += 1
                    found[circuit.rail][ends[::-1]] += 1
            self._lit[phase, use] = found
        return self._lit[phase, use]

    def _between(self, joined: list[Joined], stages: tuple[int, ...]) -> bool:
        here, there = stages
        rate = min(self.rates[here].hop, self.rates[there].hop) * ENOUGH
        lit = ((joined[key[0]][row[here], row[there]]) for key, row in self.rows.items())
        return all(min(1.0, count * self.job.circuit_share) >= rate and count for count in lit)

    def _round(self, joined: Joined, use: PortUse, stage: int, servers: tuple[int, ...]) -> bool:
        """Whether lit circuits make a ring through all, as often as the rate needs."""
        if len(servers) < 2:
            return True
        rate = self.rates[stage].inside if use is self.job.inside else self.rates[stage].ring
        way = crowded_ring if use is PortUse.EXPERT else ring
        peers = {one: {other: joined[one, other] for other in servers if joined[one, other]} for one in servers}
        lanes = {count for row in peers.values() for count in row.values()}
        if len(lanes) != 1 or any(len(row) != min(2, len(servers) - 1) for row in peers.values()):
            return False
        (lane,) = lanes
        if way(len(servers), lane if len(servers) == 2 else 2 * lane, self.job.circuit_share) < rate * ENOUGH:
            return False
        seen, at = {servers[0]}, servers[0]
        while (step := next((one for one in peers[at] if one not in seen), None)) is not None:
            seen.add(step)
            at = step
        return len(seen) == len(servers)
