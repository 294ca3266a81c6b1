"""Annealing of a running network on its demand-weighted hop total, giving up no more of its links than allowed.

Few networks are within reach of a few changes, so that each is evaluated afresh; `anneal` is the search without such a
limit.
"""

from __future__ import annotations

import numpy as np

from solvers.network.search.anneal_kernels import exact_hop_total, may_swap, swap
from solvers.network.search.links import LinkTable
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.simulate.jit import kernel

PIECES = 20
"""Between two pieces the clock is read."""

HOT, COLD = 2e-3, 1e-5
"""Temperatures at start and end, against the hop total."""

_CONNECT = 1e-6  # extra demand of every pair, against its mean: pairs without demand should be joined, too


def default_proposals(n: int, d: int) -> int:
    """A few seconds of work."""
    return int(min(200_000, 1.5e9 / (n * n * d)))


def rewire(
    table: LinkTable,
    demand: Floats,
    allowed: Bools,
    kept: Ints,
    most_changed: int,
    *,
    proposals: int,
    parallel: bool = True,
    seed: int = 0,
    stop: Stop | None = None,
) -> Ints:
    """int64[n, d]: heads of the best topology met that gives up at most so many links of `kept`.

    Args:
        table: where to start; within the limit.
        allowed: bool[n, n], arcs that may be made.
        kept: int64[n, n], links of the network as it stands.
        most_changed: of these; a fibre pair counts once.
    """
    n = len(demand)
    out, into, best = table.out.copy(), table.into.copy(), table.out.copy()
    demand = demand + _CONNECT * float(demand.mean()) * (1.0 - np.eye(n))
    links = np.zeros((n, n), dtype=np.int64)
    np.add.at(links, (np.repeat(np.arange(n), out.shape[1]), out.ravel()), 1)
    np.fill_diagonal(links, 0)
    limit = most_changed * (2 if table.paired else 1)
    scale = exact_hop_total(out, demand)
    seeds = np.random.default_rng(seed).integers(0, 2**31 - 1, PIECES)
    least = scale
    for piece in range(PIECES):
        if stop is not None and stop.reason() is not None:
            break
        hot, cold = (scale * HOT * (COLD / HOT) ** ((piece + part) / PIECES) for part in (0, 1))
        least = _anneal_kept(
            out, into, links, kept, limit, demand, allowed, table.paired, parallel, hot, cold,
            max(1, proposals // PIECES), int(seeds[piece]), least, best,
        )  # fmt: skip
    return best


@kernel
def _exchange(
    links: Ints,
    kept: Ints,
    i: int,
    j: int,
    k: int,
    l: int,  # noqa: E741
) -> int:
    """Count i -> j and k -> l out, i -> l and k -> j in; returns by how much the links given up grow."""
    grown = 0
    for u, v in ((i, j), (k, l)):
        if u != v:
            if links[u, v] <= kept[u, v]:
                grown += 1
            links[u, v] -= 1
    for u, v in ((i, l), (k, j)):
        if u != v:
            if links[u, v] < kept[u, v]:
                grown -= 1
            links[u, v] += 1
    return grown


@kernel
def _dark(into: Ints, server: int) -> bool:
    """Whether the server has a free receiver, too: a free sender alone cannot take part in an exchange."""
    return bool((into[server] == server).any())


@kernel
def _anneal_kept(
    out: Ints,
    into: Ints,
    links: Ints,
    kept: Ints,
    limit: int,
    demand: Floats,
    allowed: Bools,
    paired: bool,
    parallel: bool,
    hot: float,
    cold: float,
    proposals: int,
    seed: int,
    least: float,
    best: Ints,
) -> float:
    """Exchanges of link ends at a falling temperature; the least hop total so far, its heads in `best`."""
    np.random.seed(seed)
    n, d = out.shape
    lost = 0
    for i in range(n):
        for j in range(n):
            lost += max(0, kept[i, j] - links[i, j])
    total = exact_hop_total(out, demand)
    ratio = (cold / hot) ** (1.0 / proposals)
    heat = hot
    for _ in range(proposals):
        heat *= ratio
        i, k = np.random.randint(n), np.random.randint(n)
        j, l = out[i, np.random.randint(d)], out[k, np.random.randint(d)]  # noqa: E741
        if not may_swap(allowed, i, j, k, l, paired):
            continue
        if (i == j and not _dark(into, i)) or (k == l and not _dark(into, k)):
            continue
        if not parallel and (links[i, l] > 0 or links[k, j] > 0):
            continue
        grown = _exchange(links, kept, i, j, k, l)
        if paired:
            grown += _exchange(links, kept, j, i, l, k)
        new = total
        if lost + grown <= limit:
            swap(out, into, i, j, k, l, paired)
            new = exact_hop_total(out, demand)
            if new <= total or new - total <= -heat * np.log(np.random.random()):
                lost += grown
                total = new
                if total < least * (1.0 - 1e-9):
                    least = total
                    best[:] = out
                continue
            swap(out, into, i, l, k, j, paired)
        _exchange(links, kept, i, l, k, j)
        if paired:
            _exchange(links, kept, l, i, j, k)
    return least
