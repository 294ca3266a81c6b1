"""Small valid arguments of every function of the unit `search`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.network.annealing import tails_of
from solvers.network.lifts import groups
from topoopt.core.arrays import Floats, Ints
from topoopt.native import search

Draw = np.random.Generator


def random_heads(draw: Draw, *, paired: bool = False) -> Ints:
    """int64[n, d]: heads of every server's links, some ports dark; paired: each link has its opposite."""
    n, d = int(draw.integers(2, 10)), int(draw.integers(1, 4))
    if not paired:
        return np.stack([draw.permutation(n) for _ in range(d)], axis=1)
    heads = np.repeat(np.arange(n)[:, None], d, axis=1)
    for port in range(d):
        order = draw.permutation(n)[: n // 2 * 2].reshape(-1, 2)
        heads[order[:, 0], port], heads[order[:, 1], port] = order[:, 1], order[:, 0]
    return heads


def random_demand(draw: Draw, n: int) -> Floats:
    """float64[n, n], a quarter of it missing."""
    demand = draw.lognormal(0.0, 1.0, (n, n)) * (draw.random((n, n)) < 0.75)
    np.fill_diagonal(demand, 0.0)
    return demand


def _hops(draw: Draw) -> tuple[Any, ...]:
    out = random_heads(draw)
    return out, random_demand(draw, len(out))


def _cut_hops(draw: Draw) -> tuple[Any, ...]:
    out, demand = _hops(draw)
    return out, demand, int(draw.integers(0, len(out)))


def _exchanges(draw: Draw) -> tuple[Any, ...]:
    paired = bool(draw.random() < 0.5)
    out = random_heads(draw, paired=paired)
    n = len(out)
    allowed = draw.random((n, n)) < 0.9
    return out, tails_of(out), random_demand(draw, n), (allowed & allowed.T) & ~np.eye(n, dtype=np.bool_), paired


def anneal_arguments(draw: Draw) -> tuple[Any, ...]:
    """Of `anneal`."""
    out, into, demand, allowed, paired = _exchanges(draw)
    group = draw.integers(0, 2, len(out)) if draw.random() < 0.5 else np.zeros(len(out), dtype=np.int64)
    levels, parallel = int(draw.integers(1, len(out))), bool(draw.random() < 0.5)
    ahead = np.zeros((levels + 1 if draw.random() < 0.5 else 0, 3))
    return out, into, demand, allowed, group, levels, paired, parallel, 0.5, 0.01, 60, int(draw.integers(99)), ahead


def rewire_arguments(draw: Draw) -> tuple[Any, ...]:
    """Of `rewire`."""
    out, into, demand, allowed, paired = _exchanges(draw)
    kept = (out[:, :, None] == np.arange(len(out))).sum(axis=1)
    np.fill_diagonal(kept, 0)
    least, seed = search.hop_total(out, demand), int(draw.integers(99))
    return out, into, out.copy(), demand, allowed, kept, 4, paired, draw.random() < 0.5, 0.5, 0.01, 60, seed, least


def _distances(draw: Draw) -> tuple[Any, ...]:
    out = random_heads(draw)
    return out, draw.random(out.size)


def price_arguments(draw: Draw) -> tuple[Any, ...]:
    """Of `price_links`."""
    out = random_heads(draw)
    n, links = len(out), out.size
    demand = random_demand(draw, n)
    demand *= 0.5 * links / search.hop_total(out, demand) if demand.any() else 1.0
    return out, demand, 9.0, 200, 0.2, np.zeros((links, n)), np.zeros((n, n)), np.full(links, 1.0 / links)


def dual_arguments(draw: Draw) -> tuple[Any, ...]:
    """Of `RelayDual`."""
    n, d = int(draw.integers(2, 6)), int(draw.integers(1, 4))
    demand = random_demand(draw, n)
    least = (draw.random((n, n)) < 0.1).astype(np.int64)
    most = np.where(draw.random((n, n)) < 0.8, d, 1)
    split = draw.random((n * n, n)) * np.tile(demand, (n, 1))
    return d, demand, 0.1, max(0.05, float(demand.sum()) / (n * d)), least, most, split


def prices_of(draw: Draw, n: int) -> tuple[Floats, Floats, Floats]:
    """Prices of links, reliefs of pairs and shifts."""
    return 1.0 + 0.5 * draw.random((n, n)), draw.random((n, n)), 0.2 * draw.normal(size=(n, n))


def _value(draw: Draw) -> tuple[Any, ...]:
    given = dual_arguments(draw)
    return search.RelayDual(*given), *prices_of(draw, len(given[1])), given[3], 6, bool(draw.random() < 0.5)


def _dual(draw: Draw) -> tuple[Any, ...]:
    return (_value(draw)[0],)


def lift_arguments(draw: Draw) -> tuple[Any, ...]:
    """Of `lift_distances`: a dihedral, cyclic or other small group, and a random graph under it."""
    kinds = groups(int(draw.choice([1, 2, 3, 4, 6, 8])))
    group = kinds[int(draw.integers(len(kinds)))]
    orbits, degree, one_way = int(draw.integers(1, 4)), int(draw.integers(1, 4)), bool(draw.random() < 0.5)
    peer = np.arange(orbits * degree, dtype=np.int32)
    shift = np.zeros(len(peer), dtype=np.int32)
    order = draw.permutation(len(peer))
    if one_way:
        peer, shift = order.astype(np.int32), draw.integers(0, group.order, len(peer)).astype(np.int32)
    else:
        for h, i in order[: len(order) // 2 * 2].reshape(-1, 2).tolist():
            peer[h], peer[i], shift[h] = i, h, draw.integers(group.order)
            shift[i] = int(np.argmin(group.products[shift[h]]))
    return group.cyclic, group.row, group.turn, degree, one_way, peer, shift


def anneal_lift_arguments(draw: Draw) -> tuple[Any, ...]:
    """Of `anneal_lift`."""
    a, row, turn, degree, one_way, peer, shift = lift_arguments(draw)
    anew, levels = bool(draw.random() < 0.5), int(draw.integers(1, 5))
    return a, row, turn, degree, one_way, anew, peer, shift, 60, 3.0, 0.5, levels, int(draw.integers(99))


CALLS: dict[str, Callable[[Draw], tuple[Any, ...]]] = {
    "hop_total": _hops,
    "cut_hop_total": _cut_hops,
    "anneal": anneal_arguments,
    "rewire": rewire_arguments,
    "anneal_lift": anneal_lift_arguments,
    "lift_distances": lift_arguments,
    "link_distances": _distances,
    "price_links": price_arguments,
    "RelayDual": dual_arguments,
    "RelayDual.value": _value,
    "RelayDual.gradients": _dual,
    "RelayDual.uses": _dual,
    "RelayDual.forget_uses": _dual,
}
