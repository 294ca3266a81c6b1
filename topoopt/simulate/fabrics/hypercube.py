"""Hypercube: servers whose numbers differ in one bit are linked, so 2^q servers take q interfaces.

Interfaces beyond q become parallel links, one bit after the other from the lowest on. An AllReduce over all servers, or
over a subcube of the higher bits, goes round link-disjoint Hamiltonian cycles in both directions: two interfaces make a
cycle factor each, of the squares of two bits; with an odd number of interfaces the last three make one, of the Gray
cycles of three bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.simulate.cycle_factors import most_cycles
from topoopt.simulate.fabrics.direct_graph import graph_network
from topoopt.simulate.fabrics.options import FabricOptions, Group, ListedFabric
from topoopt.simulate.network import Network


def hypercube_dimension(cluster: Cluster) -> int:
    """q.

    Raises:
        InputError: the number of servers is no power of two, or there are fewer than q interfaces.
    """
    n = cluster.servers
    dimension = n.bit_length() - 1
    if n != 1 << dimension or n < 2:
        raise InputError([Problem("no hypercube has so many servers", path="servers", value=str(n), allowed="2^q")])
    if cluster.degree < dimension:
        text = f"a hypercube of {n} servers takes an interface for each dimension"
        value = str(cluster.degree)
        raise InputError([Problem(text, path="degree", value=value, allowed=f"at least {dimension}")])
    return dimension


def _parallel(dimension: int, degree: int) -> list[int]:
    """Links along every bit."""
    copies, spare = divmod(degree, dimension)
    return [copies + (bit < spare) for bit in range(dimension)]


def _gray_factor(bits: Sequence[int], servers: int) -> Ints:
    """int64[n, 2]: both neighbours on the Gray cycle through these two or three bits; one bit twice: parallel links."""
    here = np.arange(servers, dtype=np.int64)
    if bits[0] == bits[-1]:
        return np.column_stack((here ^ 1 << bits[0], here ^ 1 << bits[0]))
    code = [i ^ i >> 1 for i in range(1 << len(bits))]
    place = np.argsort(code)[sum(((here >> bit & 1) << k) for k, bit in enumerate(bits))]
    sides = []
    for turn in (1, -1):
        after = np.array(code)[(place + turn) % len(code)]
        moved = here.copy()
        for k, bit in enumerate(bits):
            moved = moved & ~(1 << bit) | (after >> k & 1) << bit
        sides.append(moved)
    return np.column_stack(sides)


def _cycles(parallel: Sequence[int]) -> tuple[Group, ...]:
    """Link-disjoint Hamiltonian cycles of the cube with so many links along each bit."""
    units = [bit for copy in range(max(parallel)) for bit, copies in enumerate(parallel) if copy < copies]
    sets = [units[i : i + 2] for i in range(0, len(units) - 1, 2)]
    if len(units) % 2 and len(set(units[-3:])) == 3:
        sets[-1] = units[-3:]
    return most_cycles(np.array([_gray_factor(bits, 1 << len(parallel)) for bits in sets])) if sets else ()


def hypercube(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Bidirectional links."""
    dimension = hypercube_dimension(cluster)
    parallel = _parallel(dimension, cluster.degree)
    here = np.arange(cluster.servers)
    links = np.zeros((cluster.servers, cluster.servers), dtype=np.int32)
    for bit, copies in enumerate(parallel):
        links[here, here ^ 1 << bit] = copies
    orders: dict[Group, list[Group]] = {}
    for low in range(dimension):
        cycles = _cycles(parallel[low:])
        for offset in range(1 << low) if cycles else ():
            moved = [tuple(offset + (place << low) for place in cycle) for cycle in cycles]
            orders[tuple(sorted(moved[0]))] = moved
    return graph_network(cluster, groups, options, links, orders, both_ways=True)


def _describe(cluster: Cluster, options: FabricOptions) -> str:
    dimension = hypercube_dimension(cluster)
    spare = "" if cluster.degree == dimension else ", spare interfaces parallel from the lowest bit on"
    return f"hypercube of {dimension} dimensions, {cluster.link_gbps:g} Gbit/s links{spare}, rings along Gray cycles"


HYPERCUBE = ListedFabric(hypercube, _describe, kind="direct")
