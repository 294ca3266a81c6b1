"""Tori in two and three dimensions, plain or with a twisted wrap: every axis takes two interfaces of a server.

Interfaces beyond two per axis become parallel links, two at a time, along the longest axes first; a single one left
over stays dark. On an axis of two servers both links lead to the same neighbour. An AllReduce over a whole torus, or
over the servers that differ along the first axes only, goes round link-disjoint Hamiltonian cycles in both directions.
Together they use every link of these axes where such cycles are found, else all but those of one pair of interfaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.core.graphs import torus_steps
from topoopt.simulate.cycle_factors import most_cycles
from topoopt.simulate.fabrics.direct_graph import graph_network
from topoopt.simulate.fabrics.options import FabricOptions, Group, ListedFabric
from topoopt.simulate.network import Network


def even_shape(servers: int, axes: int, *, uneven: bool = False) -> tuple[int, ...] | None:
    """Ascending sides of at least 2 with that product and the least sum; None if there are none.

    `uneven`: not all the same, as a twist needs.
    """
    shapes = [shape for shape in _shapes(servers, axes, 2) if not uneven or shape[0] < shape[-1]]
    return min(shapes, key=lambda shape: (sum(shape), shape), default=None)


def _shapes(servers: int, axes: int, least: int) -> Iterator[tuple[int, ...]]:
    if axes == 1:
        if servers >= least:
            yield (servers,)
        return
    side = least
    while side**axes <= servers:
        if servers % side == 0:
            for rest in _shapes(servers // side, axes - 1, side):
                yield (side, *rest)
        side += 1


def torus_shape(cluster: Cluster, options: FabricOptions, axes: int, twisted: bool) -> tuple[int, ...]:
    """Sides of the torus of a cluster.

    Raises:
        InputError: too few interfaces, no such shape for this number of servers, or the shape given does not fit.
    """
    n = cluster.servers
    problems = []
    if cluster.degree < 2 * axes:
        text = f"a torus of {axes} dimensions takes two interfaces for each"
        problems.append(Problem(text, path="degree", value=str(cluster.degree), allowed=f"at least {2 * axes}"))
    wanted = f"{axes} sides of at least 2" + (", not all the same" if twisted else "")
    shape = even_shape(n, axes, uneven=twisted) if options.shape is None else options.shape
    if shape is None:
        text = "no torus has so many servers"
        problems.append(Problem(text, path="servers", value=str(n), allowed=f"a product of {wanted}"))
    elif options.shape is not None:
        fits = len(shape) == axes and min(shape) >= 2 and prod(shape) == n and (not twisted or len(set(shape)) > 1)
        if not fits:
            allowed = f"{wanted}, with the product {n}"
            problems.append(Problem("no such torus", path="shape", value=_text(shape), allowed=allowed))
    if problems or shape is None:
        raise InputError(problems)
    return shape


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _parallel(shape: Sequence[int], degree: int) -> list[int]:
    """Links each way along every axis."""
    axes = len(shape)
    copies, spare = divmod(degree // 2, axes)
    longest_first = sorted(range(axes), key=lambda axis: (-shape[axis], axis))
    return [copies + (longest_first.index(axis) < spare) for axis in range(axes)]


def _cycles(steps: Ints, parallel: Sequence[int]) -> tuple[Group, ...]:
    """Link-disjoint Hamiltonian cycles over the links of these axes."""
    both_sides = [np.column_stack((step, np.argsort(step))) for step in steps]
    return most_cycles(np.repeat(both_sides, parallel, axis=0))


def _orders(shape: tuple[int, ...], parallel: Sequence[int], twisted: bool) -> dict[Group, list[Group]]:
    """Ring orders of the groups that span the first axes, for as many of these as there are."""
    orders: dict[Group, list[Group]] = {}
    for axes in (len(shape),) if twisted else range(1, len(shape) + 1):
        stride = prod(shape[axes:])
        cycles = _cycles(torus_steps(shape[:axes], twisted=twisted), parallel[:axes])
        for offset in range(stride) if cycles else ():
            moved = [tuple(offset + stride * place for place in cycle) for cycle in cycles]
            orders[tuple(sorted(moved[0]))] = moved
    return orders


def torus(cluster: Cluster, groups: Sequence[Group], options: FabricOptions, *, axes: int, twisted: bool) -> Network:
    """Bidirectional links; servers are numbered with the last and longest axis fastest, unless a shape is given."""
    shape = torus_shape(cluster, options, axes, twisted)
    parallel = _parallel(shape, cluster.degree)
    links = np.zeros((cluster.servers, cluster.servers), dtype=np.int32)
    here = np.arange(cluster.servers)
    for step, copies in zip(torus_steps(shape, twisted=twisted), parallel, strict=True):
        np.add.at(links, (here, step), copies)
        np.add.at(links, (step, here), copies)
    return graph_network(cluster, groups, options, links, _orders(shape, parallel, twisted), both_ways=True)


def _describe(cluster: Cluster, options: FabricOptions, *, axes: int, twisted: bool) -> str:
    shape = torus_shape(cluster, options, axes, twisted)
    parallel = _parallel(shape, cluster.degree)
    several = "" if set(parallel) == {1} else f", {' x '.join(map(str, parallel))} parallel links along its axes"
    kind = "twisted torus" if twisted else "torus"
    return f"{_text(shape)} {kind} of {cluster.link_gbps:g} Gbit/s links{several}, link-disjoint rings both ways"


def _row(axes: int, *, twisted: bool) -> ListedFabric:
    return ListedFabric(
        partial(torus, axes=axes, twisted=twisted),
        partial(_describe, axes=axes, twisted=twisted),
        ("shape",),
        kind="direct",
    )


TORUS_2D = _row(2, twisted=False)
TORUS_3D = _row(3, twisted=False)
TWISTED_TORUS_2D = _row(2, twisted=True)
TWISTED_TORUS_3D = _row(3, twisted=True)
