"""Networks and transfers for the tests of bandwidth allocation, and plain solvers that share no code with ours."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from topoopt.core.allocation import AllocationGoal, AllocationProblem, Transfer
from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import Topology
from topoopt.core.verdict import Status
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.workloads.transfer_routes import ShortestRoutes, path_route


def network(n: int, pairs: Sequence[tuple[int, int]]) -> Topology:
    """One link for each ordered pair; repeated pairs are parallel links."""
    distinct = sorted(set(pairs))
    return Topology(
        servers=n,
        degree=n,
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=np.array(distinct, dtype=np.int32).reshape(-1, 2),
        multiplicity=np.array([list(pairs).count(pair) for pair in distinct], dtype=np.int32),
        switches=np.zeros((0, n), dtype=np.int32),
    )


def line(n: int) -> Topology:
    """0 -> 1 -> ... -> n-1."""
    return network(n, [(i, i + 1) for i in range(n - 1)])


def problem(
    topology: Topology, transfers: Sequence[Transfer], capacity: float = 100.0, **fields: object
) -> AllocationProblem:
    """A problem with links of one rate."""
    return AllocationProblem(
        "case",
        topology,
        topology.multiplicity * capacity,
        tuple(transfers),
        **fields,  # type: ignore[arg-type]
    )


def along(topology: Topology, name: str, *paths: Sequence[int], **fields: float) -> Transfer:
    """A transfer with a choice of paths."""
    routes = tuple(path_route(topology, path) for path in paths)
    return Transfer(name, paths[0][0], paths[0][-1], routes, **fields)


def shortest(topology: Topology, name: str, source: int, destination: int, **fields: float) -> Transfer:
    """A transfer over hop-shortest paths."""
    return Transfer(name, source, destination, (ShortestRoutes(topology).route(source, destination),), **fields)


def plain_filling(case: AllocationProblem) -> list[Fraction]:
    """Max-min rates by progressive filling in exact rationals, written as in the textbook; single routes."""
    shared = [None if not np.isfinite(c) else Fraction(float(c)) for c in case.shared_gbps()]
    m, n = len(case.topology.arcs), case.topology.servers
    uses = []
    for transfer in case.transfers:
        route = transfer.routes[0]
        use = {int(a): Fraction(float(f)) for a, f in zip(route.arcs, route.fraction, strict=True)}
        uses.append({**use, m + transfer.source: Fraction(1), m + n + transfer.destination: Fraction(1)})
    timed = case.goal is AllocationGoal.COMPLETION_TIME
    gain = [Fraction(t.size_bytes or 0) if timed else Fraction(t.weight) for t in case.transfers]
    rates = [Fraction(t.min_gbps) for t in case.transfers]
    rising = set(range(len(rates)))
    while rising:
        steps = []
        for r, capacity in enumerate(shared):
            speed = sum((uses[t].get(r, Fraction(0)) * gain[t] for t in rising), Fraction(0))
            if capacity is not None and speed > 0:
                load = sum((uses[t].get(r, Fraction(0)) * rates[t] for t in range(len(rates))), Fraction(0))
                steps.append(((capacity - load) / speed, {t for t in rising if r in uses[t]}))
        steps += [
            ((Fraction(case.transfers[t].max_gbps) - rates[t]) / gain[t], {t})
            for t in rising
            if np.isfinite(case.transfers[t].max_gbps)
        ]
        least = min(step for step, _ in steps)
        for t in rising:
            rates[t] += gain[t] * least
        for step, who in steps:
            if step == least:
                rising -= who
    return rates


def plain_levels(case: AllocationProblem) -> list[float]:
    """Max-min rates with a choice of routes: a dense program for the level, then one for each that may rise."""
    shared = case.shared_gbps()
    m, n = len(case.topology.arcs), case.topology.servers
    owner = [t for t, transfer in enumerate(case.transfers) for _ in transfer.routes]
    routes = [(t, route) for t in case.transfers for route in t.routes]
    use = np.zeros((len(shared), len(routes)))
    for k, (transfer, route) in enumerate(routes):
        use[route.arcs, k] = route.fraction
        use[[m + transfer.source, m + n + transfer.destination], k] = 1
    finite = np.isfinite(shared)
    of = np.array([[float(owner[k] == t) for k in range(len(routes))] for t in range(len(case.transfers))])
    base = np.array([t.min_gbps for t in case.transfers])
    gain = np.array([t.weight for t in case.transfers])
    most = np.array([t.max_gbps for t in case.transfers])
    limited = np.isfinite(most)
    held = np.full(len(base), np.nan)

    def best(cost: np.ndarray, floor: np.ndarray, rise: np.ndarray) -> np.ndarray:
        fixed = np.vstack((use[finite], of[limited]))
        rows = np.vstack((np.c_[fixed, np.zeros(len(fixed))], np.c_[-of, rise]))
        bounds = np.concatenate((shared[finite], most[limited], -floor))
        found = linprog(cost, A_ub=rows, b_ub=bounds)
        assert found.status == 0
        return np.asarray(found.x)

    while np.isnan(held).any():
        rising = np.isnan(held)
        floor = np.where(rising, base, held - 1e-9)
        level = best(np.r_[np.zeros(len(routes)), -1.0], floor, np.where(rising, gain, 0.0))[-1]
        reached = base + gain * level
        stuck = []
        for t in np.flatnonzero(rising):
            x = best(np.r_[-of[t], 0.0], np.where(rising, reached, held) - 1e-9, np.zeros(len(base)))
            if of[t] @ x[:-1] <= reached[t] + 1e-6:
                stuck.append(t)
        held[stuck] = reached[stuck]
    return held.tolist()


def rates(case: AllocationProblem, method: str = "auto") -> list[float]:
    """Rates of a solution that is optimal and passes its check."""
    solution = solve(case, SolveOptions(method=method))
    assert solution.check.ok, solution.check.violations
    assert solution.status is Status.OPTIMAL
    return solution.rates_gbps.tolist()
