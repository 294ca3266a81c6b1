"""Best splittable routing of a small network, with a proof: linear program, repaired flow, lengths from the prices.

Nothing is taken from the solver on trust: the flow is rebuilt as paths that deliver the demand exactly, theta is its
largest load, and the lower bound is theta >= sum D dist_l / sum capacity l for the lengths l read from the prices.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from formulations.parts.rows import Families
from solvers.backends.highs import highs_model
from topoopt.core.arrays import Floats, Ints

Counts = Ints

DUST = 1e-12
"""Part of a source's demand below which flow on an arc is what a solver left by rounding."""

EXACT = 1e-9
"""Part of one entry of a demand by which a flow may miss it."""

ROUNDING = 2.0**-50
"""Part of what passes a server that sums of doubles may be off there."""


@dataclass(frozen=True, eq=False)
class Routed:
    """Routing of a demand over a network.

    Attributes:
        arcs: int64[m, 2], pairs with links, in order.
        flow: float64[n, m], what each source sends over each arc.
        theta: largest load over links of an arc.
        lengths: float64[m]; bound: what they prove of theta.
    """

    arcs: Counts
    flow: Floats
    theta: float
    lengths: Floats
    bound: float


def distances(lengths: Floats) -> Floats:
    """float64[n, n]: shortest distances from arc lengths float64[n, n], infinite where there is no arc."""
    best = lengths.copy()
    np.fill_diagonal(best, 0.0)
    for k in range(len(best)):
        np.minimum(best, best[:, k, None] + best[None, k], out=best)
    return best


def hop_distances(counts: Counts) -> Floats:
    """float64[n, n]: hops between servers, infinite where there is no path."""
    return distances(np.where(counts > 0, 1.0, np.inf))


def length_bound(demand: Floats, counts: Counts, lengths: Floats) -> float:
    """Lower bound on theta proven by arc lengths float64[n, n] (only those of arcs matter); 0 without lengths."""
    room = float((counts * np.where(counts > 0, lengths, 0.0)).sum())
    if room <= 0.0:
        return 0.0
    far = distances(np.where(counts > 0, lengths, np.inf))
    return float((demand[demand > 0] * far[demand > 0]).sum()) / room


def unit_of(demand: Floats) -> float:
    """A power of two near the largest entry, at most: dividing by it rounds nothing. 1 where there is no demand."""
    largest = float(demand.max(initial=0.0))
    return 2.0 ** np.floor(np.log2(largest)) if largest > 0 else 1.0


def relaxed_theta(demand: Floats, counts: Counts) -> tuple[float, Floats, Floats] | None:
    """Solver's theta, flow float64[n, m] and arc lengths float64[n, n] of a network; None if a demand has no path.

    The program is in units of the demand, as the tolerances of the solver are absolute.
    """
    import highspy

    unit = unit_of(demand)
    demand = demand / unit
    n = len(demand)
    tails, heads = np.nonzero(counts)
    if np.isinf(hop_distances(counts)[demand > 0]).any():
        return None
    arcs = len(tails)
    sources = np.flatnonzero(demand.sum(axis=1) > 0)
    lengths = np.zeros((n, n))
    flow = np.zeros((n, arcs))
    if not len(sources):
        return 0.0, flow, lengths
    made = Families()
    theta, sent = made.columns(1, cost=1.0), made.columns((len(sources), arcs))
    due = demand[sources].copy()
    due[np.arange(len(sources)), sources] = 0.0
    fit, deliver = made.rows(arcs, -np.inf, 0.0), made.rows(due.shape, due, due)
    for ends, sign in ((heads, 1.0), (tails, -1.0)):
        made.terms(deliver[:, ends], sent, sign, where=ends != sources[:, None])
    made.terms(fit, sent, 1.0)
    made.terms(fit, theta, -counts[tails, heads])
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(highs_model(made.arrays()))
    solver.run()
    solution = solver.getSolution()
    x, price = np.array(solution.col_value), np.array(solution.row_dual)
    flow[sources] = np.maximum(x[1:], 0.0).reshape(len(sources), arcs)
    lengths[tails, heads] = np.maximum(-price[:arcs], 0.0)
    return float(x[0]) * unit, flow * unit, lengths


def route(demand: Floats, counts: Counts) -> Routed | None:
    """Best routing, repaired and certified; None if a demand has no path."""
    relaxed = relaxed_theta(demand, counts)
    if relaxed is None:
        return None
    arcs = np.argwhere(counts > 0)
    flow = repaired(demand, arcs, relaxed[1])
    return Routed(
        arcs=arcs,
        flow=flow,
        theta=checked_theta(demand, counts, flow),
        lengths=relaxed[2][arcs[:, 0], arcs[:, 1]],
        bound=length_bound(demand, counts, relaxed[2]),
    )


def checked_theta(demand: Floats, counts: Counts, flow: Floats) -> float:
    """Largest load of a flow that delivers the demand.

    Raises:
        AssertionError: the flow is negative somewhere or does not deliver the demand (a bug of ours).
    """
    arcs = np.argwhere(counts > 0)
    n = len(demand)
    net = np.zeros((n, n))
    np.add.at(net.T, arcs[:, 1], flow.T)
    np.subtract.at(net.T, arcs[:, 0], flow.T)
    off = ~np.eye(n, dtype=np.bool_)
    passing = np.zeros((n, n))
    np.add.at(passing.T, arcs[:, 1], flow.T)
    np.add.at(passing.T, arcs[:, 0], flow.T)
    slack = EXACT * demand + ROUNDING * passing
    if (flow < 0.0).any() or (np.abs(net - demand) > slack)[off].any():
        raise AssertionError("a flow does not deliver its demand")
    return float((flow.sum(axis=0) / counts[arcs[:, 0], arcs[:, 1]]).max(initial=0.0))


def repaired(demand: Floats, arcs: Counts, flow: Floats) -> Floats:
    """float64[n, m]: the flow taken apart into paths, each demand met exactly; what is missing takes few hops."""
    result = np.zeros_like(flow)
    n = len(demand)
    leaving: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for a, (i, j) in enumerate(arcs.tolist()):
        leaving[i].append((a, j))
    for s in range(n):
        dust = DUST * demand[s].sum()
        left = np.where(flow[s] > dust, flow[s], 0.0)
        for t in np.flatnonzero(demand[s] > 0).tolist():
            need = float(demand[s, t])
            while need > 0.0:
                path = _path(leaving, s, t, left)
                amount = min(need, float(left[path].min())) if path else need
                for a in path or _path(leaving, s, t, None):
                    result[s, a] += amount
                    left[a] = left[a] - amount if left[a] - amount > dust else 0.0
                need -= amount
    return result


def _path(leaving: list[list[tuple[int, int]]], source: int, target: int, left: Floats | None) -> list[int]:
    """Arcs of a path of fewest hops, over arcs with flow left if given; empty if there is none."""
    reached: dict[int, tuple[int, int]] = {source: (-1, -1)}
    queue = deque([source])
    while queue and target not in reached:
        node = queue.popleft()
        for a, head in leaving[node]:
            if head not in reached and (left is None or left[a] > 0.0):
                reached[head] = (node, a)
                queue.append(head)
    if target not in reached:
        return []
    path = []
    node = target
    while node != source:
        node, a = reached[node]
        path.append(a)
    return path
