"""Lower bounds on theta that hold for every topology: node cut and layered Moore distances."""

from __future__ import annotations

import numpy as np

from solvers.network.routing.circulant import shift_invariant
from topoopt.core.arrays import Bools, Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import LayerPrices, TopologyProblem
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Argument, Bound

LARGEST_PROGRAM = 100_000
"""Entries of a demand up to which b-matchings are solved, in seconds; beyond, rows or columns alone count."""


def layer_sizes(servers: int, degree: int, links: LinkDirection) -> list[int]:
    """Most servers within 1, 2, ... hops of one server, up to all n - 1 others (Moore).

    Directed: d + d^2 + ...; bidirectional: d + d (d-1) + ..., since one link leads back. With d = 1 (or 2 for fibre
    pairs) layers do not grow, and with d = 1 fibre pairs nobody but the partner is reached: the list then ends early.
    """
    within: list[int] = []
    layer, total = degree, 0
    while total < servers - 1 and layer > 0:
        total = min(servers - 1, total + layer)
        within.append(total)
        layer *= degree if links is LinkDirection.UNIDIRECTIONAL else degree - 1
    return within


def moore_hops(servers: int, degree: int, links: LinkDirection) -> int | None:
    """Smallest diameter the Moore bound allows; None if no such network is connected."""
    within = layer_sizes(servers, degree, links)
    return len(within) if not within or within[-1] == servers - 1 else None


def source_distances(demand: Floats, within: list[int]) -> Floats:
    """float64[n]: least sum_v D[s, v] dist(s, v) of each source: its largest demands are nearest."""
    sorted_rows = -np.sort(-demand, axis=1)
    total = demand.sum(axis=1)
    result = total.copy()
    for reach in within[:-1]:
        result += total - sorted_rows[:, :reach].sum(axis=1)
    return np.asarray(result, dtype=np.float64)


def total_distance(demand: Floats, within: list[int]) -> float:
    """Least sum D dist, see `priced_distance`."""
    return priced_distance(demand, within)[0]


def priced_distance(demand: Floats, within: list[int]) -> tuple[float, LayerPrices]:
    """Least sum D dist: at most within[k] pairs per row and per column are so near (b-matchings, one per layer)."""
    n, total = len(demand), float(demand.sum())
    layers = [most_within(demand, reach) for reach in within if reach < n - 1]
    by_layer = total + sum(total - most for most, _ in layers)
    rows = float(source_distances(demand, within).sum())
    columns = float(source_distances(demand.T, within).sum())
    prices = np.array([price for _, price in layers]).reshape(-1, 2 * n)
    return max(by_layer, rows, columns), LayerPrices(prices[:, :n], prices[:, n:])


def most_within(demand: Floats, reach: int) -> tuple[float, Floats]:
    """Upper bound on the demand of pairs of which every row and column has at most `reach`, and float64[2n] its prices.

    Whatever alpha, beta >= 0 are: reach * sum(alpha + beta) + sum (D - alpha - beta)^+ is one; the solver only
    suggests them.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    end_if_left()
    n = len(demand)
    rows, columns = np.nonzero(demand > 0)
    if not len(rows) or reach >= n - 1:
        return float(demand.sum()), np.zeros(2 * n)
    if len(rows) > LARGEST_PROGRAM or shift_invariant(demand):
        return _nearest(demand, reach)
    every = np.arange(len(rows))
    ends = csr_array(
        (np.ones(2 * len(rows)), (np.concatenate((rows, n + columns)), np.concatenate((every, every)))),
        shape=(2 * n, len(rows)),
    )
    unit = float(demand.max())  # as the tolerances of the solver are absolute
    found = linprog(
        -demand[rows, columns] / unit, A_ub=ends, b_ub=np.full(2 * n, float(reach)), bounds=(0, 1), method="highs"
    )
    price = np.maximum(-found.ineqlin.marginals, 0.0) * unit if found.status == 0 else np.zeros(2 * n)
    over = demand - price[:n, None] - price[None, n:]
    return float(reach * price.sum() + np.maximum(over, 0.0)[demand > 0].sum()), price


def _nearest(demand: Floats, reach: int) -> tuple[float, Floats]:
    """The same by the `reach` largest entries of every row alone, or of every column alone, whichever says more.

    Exact where demand depends on the displacement alone: the largest ones are as many of every column as of every row.
    """
    place = len(demand) - reach
    nothing = np.zeros(len(demand))
    found = []
    for first, table in enumerate((demand, demand.T)):
        end_if_left()
        largest = np.partition(table, place, axis=1)
        price = largest[:, place].copy()
        found.append((float(largest[:, place:].sum()), (price, nothing) if first == 0 else (nothing, price)))
    most, prices = min(found, key=lambda each: each[0])
    return most, np.concatenate(prices)


def capacity(problem: TopologyProblem) -> int:
    """Most links a topology has, counting both directions of fibre pairs."""
    ends = problem.servers * problem.degree
    return ends if problem.links is LinkDirection.UNIDIRECTIONAL else ends - ends % 2


def node_cut(problem: TopologyProblem, allowed: Bools) -> float:
    """Largest traffic of a server over its links, no more of them than interfaces or, without parallel links, peers."""
    result = 0.0
    for demand, peers in ((problem.demand, allowed), (problem.demand.T, allowed.T)):
        most = np.full(problem.servers, problem.degree)
        if not problem.parallel_links:
            most = np.minimum(most, peers.sum(axis=1))
        traffic = demand.sum(axis=1)
        used = traffic > 0
        result = max(result, float((traffic[used] / np.maximum(most[used], 1)).max(initial=0.0)))
    return result


def best_bound(problem: TopologyProblem, allowed: Bools) -> tuple[Bound, LayerPrices]:
    """The larger of node cut and layered Moore bound, in units of theta, and the prices of the latter.

    A cut that counts peers where parallel links are forbidden is an argument of its own, as it needs more than d.
    """
    within = layer_sizes(problem.servers, problem.degree, problem.links)
    cut = node_cut(problem, allowed)
    links = capacity(problem)
    far, prices = priced_distance(problem.demand, within)
    moore = far / links if links and within else 0.0
    if moore > cut:
        return Bound(moore, Argument.LAYERED_MOORE), prices
    traffic = max(float(problem.demand.sum(axis=1).max()), float(problem.demand.sum(axis=0).max()))
    peers = cut > traffic / problem.degree * (1 + 1e-12)
    return Bound(cut, Argument.PEER_CUT if peers else Argument.NODE_CUT), prices
