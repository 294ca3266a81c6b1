"""Networks of the interfaces of a cluster: switches and tori, all with the same rate for a server."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from topoopt.core.llm_training import GpuCluster
from topoopt.core.regular_graphs import torus_steps
from topoopt.simulate.llm_training.network.links import LinkGraph, Rails

CUBE = 4
"""Servers along each side of the cubes that optical switches join to a larger torus."""


def star(cluster: GpuCluster, rails: Rails) -> LinkGraph:
    """All interfaces on switches that no traffic fills: node n."""
    n = cluster.servers
    hosts, hub = np.arange(n), np.full(n, n)
    return LinkGraph(
        servers=n,
        nodes=n + 1,
        tail=np.concatenate([hosts, hub]),
        head=np.concatenate([hub, hosts]),
        parallel=np.full(2 * n, cluster.degree),
        link_gbps=cluster.link_gbps,
        rails=rails,
    )


def cube_shapes(servers: int) -> Iterator[tuple[int, int, int]]:
    """Sides of tori, ascending: multiples of 4 where there are so many servers, else parts of one cube or more."""
    side = CUBE if servers % CUBE**3 == 0 else 1
    for a in range(side, servers + 1, side):
        if a**3 > servers:
            break
        for b in range(a, servers // a + 1, side):
            if b**2 * a > servers:
                break
            if servers % (a * b) == 0 and (servers // (a * b)) % side == 0:
                yield a, b, servers // (a * b)


def may_twist(shape: tuple[int, int, int]) -> bool:
    """Twists are defined for sides n, n, 2n and n, 2n, 2n (Camara et al., IEEE TPDS 2010)."""
    a, b, c = shape
    return a > 1 and c == 2 * a and b in (a, c)


def torus(cluster: GpuCluster, shape: tuple[int, ...], *, twisted: bool) -> tuple[LinkGraph, np.ndarray]:
    """A torus whose axes share the rate of a server equally, and int64[axes, n], the step along each axis.

    The last axis is numbered fastest; axes of one server have no links, those of two join the same two servers twice.
    """
    n = prod(shape)
    steps = torus_steps(tuple(side for side in shape if side > 1), twisted=twisted)
    here = np.arange(n)
    tail = np.concatenate([side for step in steps for side in (here, step)])
    head = np.concatenate([side for step in steps for side in (step, here)])
    keys, parallel = np.unique(tail * n + head, return_counts=True)
    rate = cluster.degree * cluster.link_gbps / (2 * len(steps))
    graph = LinkGraph(n, n, keys // n, keys % n, parallel, rate)
    return graph, steps
