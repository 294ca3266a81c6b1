"""Tables of an allocation that follow from the rates of its routes: loads, what limits a transfer, rates of servers."""

from __future__ import annotations

import numpy as np

from topoopt.core.allocation import AllocationProblem
from topoopt.core.allocation_solution import AllocationSolution
from topoopt.core.arrays import Floats
from topoopt.core.verdict import Tolerance
from topoopt.verify.allocation.bounds import parts_of
from topoopt.verify.laws.findings import ViolationLog

RELATIVE = Tolerance.ROUNDING.relative
FULL = Tolerance.LINEAR_PROGRAM.relative
"""Part of a capacity that may be free on what is called full; it must be called so below half of that."""

OWN_LIMIT = "its own limit"


def loads_of(problem: AllocationProblem, solution: AllocationSolution) -> Floats:
    """float64[m+2n], rate on everything that is shared (numbering of the problem)."""
    load = np.zeros(len(problem.shared_gbps()))
    for transfer, got in zip(problem.transfers, solution.transfers, strict=True):
        for route, rate in zip(transfer.routes, got.route_gbps, strict=True):
            numbers, parts = parts_of(problem, transfer, route)
            load[numbers] += parts * rate
    return load


def check_limits(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    """`limited_by` names what is full on the routes of a transfer, in the order of the problem, and its own limit."""
    shared, load = problem.shared_gbps(), loads_of(problem, solution)
    surely, maybe = (load >= shared * (1 - part * FULL) for part in (0.5, 2.0))
    for transfer, got in zip(problem.transfers, solution.transfers, strict=True):
        used = sorted({int(r) for route in transfer.routes for r in parts_of(problem, transfer, route)[0]})
        due = [problem.shared_name(r) for r in used if surely[r]]
        known = [problem.shared_name(r) for r in used if maybe[r]]
        if got.rate_gbps >= transfer.max_gbps * (1 - 2.0 * FULL):
            known.append(OWN_LIMIT)
            due += [OWN_LIMIT] if got.rate_gbps >= transfer.max_gbps * (1 - 0.5 * FULL) else []
        stated = list(got.limited_by)
        if stated != [name for name in known if name in stated] or not set(due) <= set(stated):
            findings.add("limits", f"{transfer.name} is limited by {due}, the solution says {stated}")


def check_servers(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    """The table of the servers says the same as the routes, and no transfer is lost or made on the way."""
    arcs, n = problem.topology.arcs, problem.topology.servers
    noise = RELATIVE * float(problem.capacity_gbps.max())
    out: dict[tuple[int, int], dict[int, float]] = {}
    for transfer, got in zip(problem.transfers, solution.transfers, strict=True):
        stays = np.zeros(n)
        for route, rate in zip(transfer.routes, got.route_gbps, strict=True):
            for arc, part in zip(route.arcs.tolist(), route.fraction.tolist(), strict=True):
                tail, head = int(arcs[arc, 0]), int(arcs[arc, 1])
                stays[tail] -= part * rate
                stays[head] += part * rate
                hops = out.setdefault((tail, transfer.destination), {})
                hops[head] = hops.get(head, 0.0) + part * rate
        stays[transfer.source] += got.rate_gbps
        stays[transfer.destination] -= got.rate_gbps
        if not (np.abs(stays) <= noise).all():
            findings.add("conservation", f"{transfer.name}: what leaves its source does not all arrive")
    stated = {(row.server, row.destination): row for row in solution.servers}
    if list(stated) != sorted(stated) or len(stated) < len(solution.servers):
        findings.add("servers", "not one row for each server and destination, ascending")
    for pair in sorted(stated.keys() | out.keys()):
        hops = out.get(pair, {})
        row = stated.get(pair)
        if row is None:
            if sum(hops.values()) > noise:
                findings.add("servers", f"server {pair[0]} has no rate for destination {pair[1]}")
            continue
        given = dict(row.next_hops)
        ordered = list(given) == sorted(given) and len(given) == len(row.next_hops)
        if not ordered or any(
            not abs(given.get(head, 0.0) - hops.get(head, 0.0)) <= noise for head in given.keys() | hops.keys()
        ):
            findings.add("servers", f"server {pair[0]} to {pair[1]}: next hops {given}, the routes say {hops}")
