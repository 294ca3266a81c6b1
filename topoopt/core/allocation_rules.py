"""What makes an allocation problem sound, whoever built it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from topoopt.core.allocation import AllocationGoal, AllocationProblem, Transfer

MOST = 1e18
"""Largest number of bytes, weight or rate that means anything."""


@dataclass(frozen=True)
class TransferFault:
    """One thing wrong with a transfer: its place in the list, the field, what stands there, what is allowed."""

    place: int
    field: str | None
    message: str
    value: str
    allowed: str | None = None


def transfer_faults(transfers: tuple[Transfer, ...], goal: AllocationGoal, servers: int) -> list[TransferFault]:
    """Everything wrong with transfers but their routes."""
    faults = []
    names = Counter(transfer.name for transfer in transfers)
    for place, transfer in enumerate(transfers):
        for key, message, value, allowed in _faults(transfer, goal, servers):
            faults.append(TransferFault(place, key, message, value, allowed))
        if names[transfer.name] > 1:
            faults.append(TransferFault(place, "name", "the name of another transfer too", repr(transfer.name)))
    return faults


def _faults(transfer: Transfer, goal: AllocationGoal, servers: int) -> list[tuple[str | None, str, str, str | None]]:
    ends = (("source", transfer.source), ("destination", transfer.destination))
    found: list[tuple[str | None, str, str, str | None]] = [
        (key, "unknown server", str(server), f"0 to {servers - 1}") for key, server in ends if not 0 <= server < servers
    ]
    if transfer.source == transfer.destination:
        found.append(("destination", "a transfer from a server to itself", str(transfer.source), "another server"))
    weight, least, most, size = transfer.weight, transfer.min_gbps, transfer.max_gbps, transfer.size_bytes
    if not 0 < weight <= MOST:
        found.append(("weight", "out of range", f"{weight:g}", f"more than 0, at most {MOST:g}"))
    elif weight != 1 and goal in (AllocationGoal.MAX_MIN, AllocationGoal.COMPLETION_TIME):
        found.append(("weight", f"plays no part for objective {goal}", f"{weight:g}", "with weighted or min-guarantee"))
    if not 0 <= least <= MOST:
        found.append(("min_gbps", "out of range", f"{least:g}", f"0 to {MOST:g}"))
    elif least > 0 and goal is not AllocationGoal.MIN_GUARANTEE:
        found.append(("min_gbps", f"plays no part for objective {goal}", f"{least:g}", "with min-guarantee"))
    if not most > 0:
        found.append(("max_gbps", "out of range", f"{most:g}", "more than 0"))
    elif least > most:
        found.append(("min_gbps", "more than max_gbps", f"{least:g}", f"at most {most:g}"))
    if size is None and goal is AllocationGoal.COMPLETION_TIME:
        found.append(("bytes", "missing", "nothing", "a size for every transfer, in bytes or gbytes"))
    elif size is not None and not (math.isfinite(size) and 0 < size <= MOST):
        found.append(("bytes", "out of range", f"{size:g}", f"more than 0, at most {MOST:g}"))
    return found


def problem_faults(problem: AllocationProblem) -> list[str]:
    """Everything wrong with a problem, routes and capacities included; empty for a sound one."""
    servers, arcs = problem.topology.servers, len(problem.topology.arcs)
    found = [
        f"transfer {fault.place}: {fault.field}: {fault.message} ({fault.value})"
        for fault in transfer_faults(problem.transfers, problem.goal, servers)
    ]
    if not problem.transfers:
        found.append("there is no transfer at all")
    if problem.capacity_gbps.shape != (arcs,) or not (
        np.isfinite(problem.capacity_gbps).all() and (problem.capacity_gbps > 0).all()
    ):
        found.append(f"capacity_gbps must be {arcs} finite numbers above 0")
    for name, limits in (("egress_gbps", problem.egress_gbps), ("ingress_gbps", problem.ingress_gbps)):
        if limits is not None and (limits.shape != (servers,) or not (limits > 0).all()):
            found.append(f"{name} must be {servers} numbers above 0")
    for place, transfer in enumerate(problem.transfers):
        if not transfer.routes:
            found.append(f"transfer {place}: it has no route")
        for route in transfer.routes:
            fits = len(route.arcs) == len(route.fraction) > 0 and len(set(route.arcs.tolist())) == len(route.arcs)
            if not fits or not (0 <= route.arcs.min() <= route.arcs.max() < arcs and (route.fraction > 0).all()):
                found.append(f"transfer {place}: a route that does not fit the topology")
            elif not _brings(problem, transfer, route.arcs, route.fraction):
                found.append(f"transfer {place}: a route that does not lead from its source to its destination")
    return found


def _brings(problem: AllocationProblem, transfer: Transfer, arcs: np.ndarray, fraction: np.ndarray) -> bool:
    """Whether one unit leaves the source and arrives, nothing lost."""
    n = problem.topology.servers
    if not (0 <= transfer.source < n and 0 <= transfer.destination < n):
        return True  # said already
    stays = np.zeros(n)
    np.add.at(stays, problem.topology.arcs[arcs, 1], fraction)
    np.subtract.at(stays, problem.topology.arcs[arcs, 0], fraction)
    stays[transfer.source] += 1.0
    stays[transfer.destination] -= 1.0
    return bool((np.abs(stays) <= 1e-9).all())
