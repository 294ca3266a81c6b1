"""Collectives whose circuits are set anew, again: every transfer sent hop by hop, and no schedule faster."""

from __future__ import annotations

from collections import defaultdict

from topoopt.core.switched_collective import CircuitSchedule, SteppedCollective, SwitchedCollective
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, differs

ROUNDING = 1e-9


def check_circuits(asked: SwitchedCollective, found: CircuitSchedule) -> CheckFindings:
    """Steps, time, and that no schedule of circuits is faster (backwards from the last step)."""
    log = ViolationLog()
    steps = _steps(asked)
    same = len(steps) == len(found.steps) and all(
        a[0] == b[0] and not differs(a[1], b[1], ROUNDING) for a, b in zip(steps, found.steps, strict=True)
    )
    if not same or len(found.circuits) != len(steps):
        log.add("steps", "the steps are not those of the collective")
        return log.findings()
    known = {1, *(distance for distance, _ in steps)}
    if not set(found.circuits) <= known:
        log.add("circuits", "circuits of distances that no step has")
        return log.findings()
    table = [{one: _seconds(asked, *step, one) for one in known} for step in steps]
    due, before = 0.0, 1
    for row, circuits in zip(table, found.circuits, strict=True):
        due += row[circuits] + (found.delay_s if circuits != before else 0.0)
        before = circuits
    least = dict.fromkeys(known, 0.0)
    for row in reversed(table):
        behind = {one: row[one] + least[one] for one in known}
        best = min(behind.values()) + found.delay_s
        least = {one: min(behind[one], best) for one in known}
    never = sum(row[1] for row in table)
    for name, stated, value in (("time_s", found.time_s, due), ("never_s", found.never_s, never)):
        if differs(stated, value, ROUNDING):
            log.add("figure", f"{name} comes to {value!r}, not {stated!r}")
    if differs(found.time_s, least[1], ROUNDING):
        log.add("optimum", f"{least[1]!r} s can be reached, not {found.time_s!r}")
    return log.findings()


def _steps(asked: SwitchedCollective) -> list[tuple[int, float]]:
    n, size = asked.ranks, asked.vector_bytes
    if asked.collective is SteppedCollective.RING:
        return [(1, 0.5 * size / n) for _ in range(2 * n - 2)]
    if asked.collective is SteppedCollective.ALL_TO_ALL:
        return [(s, size / n) for s in range(1, n) if 2 * s <= n]
    found, part, distance = [], size, 1
    while distance < n:
        part /= 2
        found.append((-distance, part))
        distance *= 2
    return found + found[::-1]


def _seconds(asked: SwitchedCollective, distance: int, size: float, circuits: int) -> float:
    """Of a step: the fullest circuit, every rank's bytes passed on the shorter way, half each where both are alike."""
    n, load = asked.ranks, defaultdict[tuple[int, int], float](float)
    if circuits < 0:
        if distance != circuits:
            return float("inf")
        return asked.step_s + size / (asked.ports * asked.bytes_per_s)
    for rank in range(n):
        targets = [rank ^ -distance] if distance < 0 else [(rank + distance) % n, (rank - distance) % n]
        part = size / 2 if len(set(targets)) < len(targets) else size
        for target in targets:
            if not _pass_on(load, rank, target, part, circuits, n):
                return float("inf")
    return asked.step_s + max(load.values()) / (asked.ports / 2 * asked.bytes_per_s)


def _pass_on(load: dict[tuple[int, int], float], rank: int, target: int, size: float, circuits: int, n: int) -> bool:
    """Send bytes along the shorter way; False: there is none."""
    ways = []
    for step in (circuits, -circuits):
        at = rank
        way: list[tuple[int, int]] = []
        while at != target and len(way) < n:
            way.append((at, step))
            at = (at + step) % n
        if at != target:
            return False
        ways.append(way)
    least = min(map(len, ways))
    short = [way for way in ways if len(way) == least]
    for way in short:
        for arc in way:
            load[arc] += size / len(short)
    return True
