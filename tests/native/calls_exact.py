"""Small valid arguments of every function of the unit `exact`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.network.enumeration import moore_sum
from tests.native.calls_search import prices_of, random_demand
from topoopt.core.arrays import Ints
from topoopt.native import exact

Draw = np.random.Generator


def _maximal(draw: Draw) -> tuple[Any, ...]:
    n, mirrored = int(draw.integers(2, 5)), bool(draw.random() < 0.5)
    allowed = (draw.random((n, n)) < 0.8) & ~np.eye(n, dtype=np.bool_)
    tails, heads = map(np.ascontiguousarray, np.nonzero(np.triu(allowed) if mirrored else allowed))
    return n, int(draw.integers(1, 3)), int(draw.integers(1, 3)), mirrored, tails, heads, 1000


def _regular(draw: Draw) -> tuple[Any, ...]:
    n, degree = int(draw.integers(2, 6)), int(draw.integers(1, 3))
    return n, degree, moore_sum(n, degree), 0, int(draw.integers(0, 12))


def _walk(draw: Draw) -> exact.RegularNetworks:
    return exact.RegularNetworks(*_regular(draw))


def random_node(draw: Draw, n: int) -> tuple[Ints, Ints]:
    """Rows and into of a node: some servers have chosen their two links."""
    rows, into = np.full((n, 2), -1), np.full((n, 2), -1)
    for server in draw.permutation(n)[: draw.integers(0, n)].tolist():
        free = [head for head in range(n) if head != server for _ in range(int((into[head] < 0).sum()))]
        if len(free) < 2:
            continue
        rows[server] = np.sort(draw.choice(free, 2, replace=False))
        for head in rows[server].tolist():
            into[head] = (server, -1) if into[head, 0] < 0 else sorted((int(into[head, 0]), server))
    return rows, into


def node_arguments(draw: Draw) -> tuple[Any, ...]:
    """Demand, prices, theta, and rows and into of a node."""
    n = int(draw.integers(3, 7))
    demand = random_demand(draw, n)
    demand *= n * (n - 1) / max(1.0, demand.sum())
    return demand, *prices_of(draw, n), n * draw.uniform(0.2, 1.0), *random_node(draw, n)


def _children(draw: Draw) -> tuple[Any, ...]:
    *given, theta, rows, into = node_arguments(draw)
    return *given, 9.0, theta, rows, into


CALLS: dict[str, Callable[[Draw], tuple[Any, ...]]] = {
    "maximal_networks": _maximal,
    "RegularNetworks": _regular,
    "RegularNetworks.over": lambda draw: (_walk(draw),),
    "RegularNetworks.next": lambda draw: (_walk(draw), 500, 20),
    "ascend": lambda draw: (*node_arguments(draw), 30),
    "children": _children,
    "far_lengths": lambda draw: (1.0 + draw.random((5, 5)),),
}
