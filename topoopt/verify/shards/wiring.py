"""Wiring of planned jobs replayed: every circuit set once, every fibre of a panel side used by one job at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from topoopt.core.optical_layer import OpticalLayer
from topoopt.core.shard_wiring import PlannedJob, WiredJob
from topoopt.verify.laws.findings import Findings, Violation, differs
from topoopt.verify.shards.shards import PlacedJob, shard_violations

Interval = tuple[float, float, str]


def wiring_violations(
    layer: OpticalLayer,
    plan: Sequence[PlannedJob],
    wired: Sequence[WiredJob],
    panel_s: float,
    turn_s: float,
    sides: int,
) -> tuple[Violation, ...]:
    """All laws a wiring breaks; empty when it can be carried out.

    The laws: every job is wired, on a shard that realises its shape; each circuit has both ends in one wiring; a wiring
    begins when the job is known at the earliest and takes the panel's time; a job starts when it is known, its servers
    are free and its circuits are set, and the switches have turned; it runs its time; a server has one job at a time,
    and a fibre (side, plane, server) belongs to one job from the beginning of its wiring to the job's end. That the
    start is as early as can be is not a law.
    """
    findings = Findings()
    if [job.name for job in plan] != [job.name for job in wired]:
        findings.add("jobs", "the jobs wired are not those of the plan")
        return findings.violations()
    fibres: dict[tuple[int, int, int], list[Interval]] = defaultdict(list)
    servers: dict[int, list[Interval]] = defaultdict(list)
    for job, result in zip(plan, wired, strict=True):
        findings.guard(
            "job",
            f"job {job.name}",
            lambda job=job, result=result: _one(findings, layer, job, result, (panel_s, turn_s), sides),  # type: ignore[misc]
        )
        for server in job.shard.servers:
            servers[server].append((result.start_s, result.end_s, job.name))
        for wiring in result.wirings:
            for server in wiring.servers:
                fibres[wiring.side, wiring.plane, server].append((wiring.begin_s, result.end_s, job.name))
    for server, busy in sorted(servers.items()):
        _apart(findings, "server", f"server {server}", busy)
    for (side, plane, server), busy in sorted(fibres.items()):
        _apart(findings, "fibre", f"side {side}, plane {plane}, server {server}", busy)
    return findings.violations()


def _one(
    findings: Findings,
    layer: OpticalLayer,
    job: PlannedJob,
    result: WiredJob,
    times_s: tuple[float, float],
    sides: int,
) -> None:
    panel_s, turn_s = times_s
    for violation in shard_violations(layer, [PlacedJob(job.name, job.shape, job.shard)]):
        findings.add(violation.code, violation.message)
    at = {server: rank for rank, server in enumerate(job.shard.servers)}
    due = {
        (plane, job.shard.servers[rank], job.shard.servers[target])
        for plane, row in zip(job.shard.planes, job.shape.arcs.tolist(), strict=True)
        for rank, target in enumerate(row)
        if target >= 0
    }
    for wiring in result.wirings:
        inside = set(wiring.servers)
        done = {one for one in due if one[0] == wiring.plane and one[1] in inside and one[2] in inside}
        if len(done) != wiring.circuits or not inside <= at.keys():
            findings.add(
                "circuits",
                f"job {job.name}: {wiring.circuits} circuits stated on plane {wiring.plane}, {len(done)} are",
            )
        due -= done
        if not 0 <= wiring.side < sides:
            findings.add("side", f"job {job.name}: there is no side {wiring.side}")
        if wiring.begin_s < job.known_s or differs(wiring.done_s, wiring.begin_s + panel_s):
            findings.add("panel", f"job {job.name}: wired from {wiring.begin_s} to {wiring.done_s} s")
        if wiring.done_s + turn_s > result.start_s * (1 + 1e-12):
            findings.add("start", f"job {job.name} starts at {result.start_s} s, a circuit is set at {wiring.done_s} s")
    for plane, tail, head in sorted(due):
        findings.add("circuits", f"job {job.name}: plane {plane}, circuit {tail} to {head} is never set")
    if result.ready_s < job.known_s or result.ready_s + turn_s > result.start_s * (1 + 1e-12):
        findings.add(
            "start",
            f"job {job.name} is known at {job.known_s}, ready at {result.ready_s}, starts at {result.start_s} s",
        )
    if differs(result.end_s, result.start_s + job.duration_s):
        findings.add("end", f"job {job.name} runs from {result.start_s} to {result.end_s} s, not {job.duration_s} s")


def _apart(findings: Findings, code: str, what: str, busy: list[Interval]) -> None:
    ordered = sorted(busy)
    for (_, end, first), (begin, _, second) in pairwise(ordered):
        if begin < end * (1 - 1e-12):
            findings.add(code, f"{what}: job {second} from {begin} s, job {first} until {end} s")
