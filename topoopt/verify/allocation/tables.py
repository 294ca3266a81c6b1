"""Tables of an allocation that follow from the rates of its routes: loads, what limits a transfer, rates of servers."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from topoopt.core.allocation import AllocationProblem
from topoopt.core.allocation_solution import AllocationSolution
from topoopt.core.arrays import Floats, Ints
from topoopt.core.verdict import Tolerance
from topoopt.verify.allocation.bounds import parts_of
from topoopt.verify.laws.findings import ViolationLog, int_array

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
        used = np.unique(np.concatenate([parts_of(problem, transfer, route)[0] for route in transfer.routes]))
        due = [problem.shared_name(r) for r in used[surely[used]].tolist()]
        known = [problem.shared_name(r) for r in used[maybe[used]].tolist()]
        if got.rate_gbps >= transfer.max_gbps * (1 - 2.0 * FULL):
            known.append(OWN_LIMIT)
            due += [OWN_LIMIT] if got.rate_gbps >= transfer.max_gbps * (1 - 0.5 * FULL) else []
        stated = list(got.limited_by)
        if stated != [name for name in known if name in stated] or not set(due) <= set(stated):
            findings.add("limits", f"{transfer.name} is limited by {due}, the solution says {stated}")


@dataclass(frozen=True, eq=False)
class _HopRates:
    """Rates by server, destination and next hop, as one number: (server * n + destination) * n + hop.

    Attributes:
        hop: int64[k], ascending, each once; gbps: float64[k].
    """

    hop: Ints
    gbps: Floats

    def at(self, hops: Ints) -> Floats:
        """float64: the rates of some, 0 of those that are not there."""
        place = np.minimum(np.searchsorted(self.hop, hops), max(len(self.hop) - 1, 0))
        return np.where(self.hop[place] == hops, self.gbps[place], 0.0) if len(self.hop) else np.zeros(len(hops))


def check_servers(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    """The table of the servers says the same as the routes, and no transfer is lost or made on the way."""
    n, noise = problem.topology.servers, RELATIVE * float(problem.capacity_gbps.max())
    due = _of_routes(findings, problem, solution, noise)
    read = _stated(solution, n)
    if read is None:
        findings.add("servers", "not one row for each server and destination, ascending, with its next hops ascending")
        return
    pairs, stated = read
    hops = np.union1d(due.hop, stated.hop)
    of_routes, given = due.at(hops), stated.at(hops)
    there = np.isin(hops // n, pairs)
    wrong = np.unique(hops[there & ~(np.abs(given - of_routes) <= noise)] // n)
    left, place = np.unique(hops[~there] // n, return_inverse=True)
    left = left[np.bincount(place, of_routes[~there], len(left)) > noise]

    def both(pair: int) -> str:
        own = hops // n == pair
        rows = (dict(zip((hops[own] % n).tolist(), table[own].tolist(), strict=True)) for table in (given, of_routes))
        return "server {} to {}: next hops {}, the routes say {}".format(*divmod(pair, n), *rows)

    findings.add_each("servers", wrong, both)
    findings.add_each("servers", left, lambda p: f"server {p // n} has no rate for destination {p % n}")


def _of_routes(
    findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution, noise: float
) -> _HopRates:
    """What the rates of the routes make every server send; reports what is lost on the way."""
    n, (tail, head) = problem.topology.servers, problem.topology.arcs.astype(np.int64).T
    hops: list[Ints] = []
    rates: list[Floats] = []
    for transfer, got in zip(problem.transfers, solution.transfers, strict=True):
        used = np.concatenate([route.arcs for route in transfer.routes])
        ways = zip(transfer.routes, got.route_gbps, strict=True)
        gbps = np.concatenate([route.fraction * rate for route, rate in ways])
        stays = np.bincount(head[used], gbps, n) - np.bincount(tail[used], gbps, n)
        stays[transfer.source] += got.rate_gbps
        stays[transfer.destination] -= got.rate_gbps
        if not (np.abs(stays) <= noise).all():
            findings.add("conservation", f"{transfer.name}: what leaves its source does not all arrive")
        hops.append((tail[used] * n + transfer.destination) * n + head[used])
        rates.append(gbps)
    each, place = np.unique(np.concatenate(hops), return_inverse=True)
    return _HopRates(each, np.asarray(np.bincount(place, np.concatenate(rates)), dtype=np.float64))


def _stated(solution: AllocationSolution, n: int) -> tuple[Ints, _HopRates] | None:
    """The pairs server * n + destination of the rows, and their rates; None where they are no table in order."""
    rows = solution.servers
    ends = [int_array(list(map(attrgetter(name), rows)), 1) for name in ("server", "destination")]
    long = [len(row.next_hops) for row in rows]
    flat = [hop for row in rows for hop in row.next_hops]
    heads, gbps = int_array([head for head, _ in flat], 1), np.array([rate for _, rate in flat], dtype=np.float64)
    if ends[0] is None or ends[1] is None or heads is None:
        return None
    if any(len(names) and not 0 <= names.min() <= names.max() < n for names in (*ends, heads) if names is not None):
        return None
    pairs = ends[0] * n + ends[1]
    hops = np.repeat(pairs, long) * n + heads
    return (pairs, _HopRates(hops, gbps)) if (np.diff(pairs) > 0).all() and (np.diff(hops) > 0).all() else None
