"""How promising a circulant is for a demand, without routing it; and which relabellings leave a demand unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from solvers.network.constructions.degree_split import traffic_by_size
from solvers.network.constructions.selection import coins_of, interfaces_of
from solvers.network.constructions.totient_perms import hop_table
from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.process import end_if_left
from topoopt.core.routing import Demand


class BusyEstimate:
    """Mean time, ms, that a link is busy with a demand on ring distances when all is spread evenly.

    Model-parallel bytes count their hops. AllReduce bytes count the hops of the shortest ring of their group; and a
    one-hop ring whose links inside the group are few counts as if only those (and two-hop detours) worked. The demand
    is added up by displacement once, so that each set of distances costs O(n) and not O(n^2).
    """

    def __init__(self, cluster: Cluster, demand: Demand) -> None:
        n = cluster.servers
        self.cluster = cluster
        self._wire = traffic_by_size(n, demand)
        self._sent = by_displacement(demand.model_parallel_bytes)
        self._units = {
            size: np.flatnonzero(np.gcd(np.arange(size), size) == 1) * (n // size) for size in self._wire if size > 1
        }

    def __call__(self, distances: Sequence[int]) -> float:
        """Of one set of ring distances."""
        end_if_left()
        n, links = self.cluster.servers, self.cluster.links
        hops = hop_table(n, coins_of(n, distances, links))
        byte_hops = float((self._sent * hops).sum())
        used = sum(interfaces_of(n, p, links) for p in distances)
        for size, wire in self._wire.items():
            step = n // size
            fewest = int(hops[self._units[size] % n].min()) if size > 1 else 1
            if fewest == 1:
                inside = sum(interfaces_of(n, p, links) for p in distances if p % step == 0)
                # Water filling between `inside` one-hop interfaces and detours of two hops on the others.
                byte_hops += wire * used / (inside + (used - inside) / 2)
            else:
                byte_hops += wire * fewest
        return byte_hops / (n * max(used, 1) * self.cluster.link_bytes_per_ms)


def by_displacement(amount: Floats) -> Floats:
    """float64[n]: sum over i of amount[i, i + j mod n], entry j."""
    n = len(amount)
    out = np.zeros(n)
    for i in np.flatnonzero(amount.any(axis=1)).tolist():
        out[: n - i] += amount[i, i:]
        out[n - i :] += amount[i, :i]
    return out


def invariant_units(n: int, demand: Demand) -> tuple[int, ...]:
    """Units u of Z_n such that renaming server i to u i mod n leaves the demand as it is (1 always does).

    Every unit does when there is no model-parallel traffic and AllReduce groups of one size carry equal payloads. They
    are a group under multiplication: what leaves the demand as it is, does so in products, and what does not, does not
    in products with what does. So few of the units are held against the demand.
    """
    payload: dict[frozenset[int], float] = {}
    for group in demand.allreduce:
        key = frozenset(group.members)
        payload[key] = payload.get(key, 0.0) + group.payload_bytes
    transfers = demand.model_parallel_bytes
    busy = np.flatnonzero(transfers.any(axis=1)).tolist()
    found, refuted = {1 % n}, set[int]()
    for u in range(1, n):
        end_if_left()
        if gcd(u, n) != 1 or u in found or u in refuted:
            continue
        image = u * np.arange(n) % n
        # Row by row: most units that do not fit differ in the first.
        fits = all(np.array_equal(transfers[image[i], image], transfers[i]) for i in busy) and all(
            payload.get(frozenset(image[list(key)].tolist())) == value for key, value in payload.items()
        )
        if fits:
            found = _generated(n, found, u)
            refuted = {x * y % n for x in refuted for y in found}
        else:
            refuted |= {u * y % n for y in found}
    return tuple(sorted(found)) if n > 1 else (1,)


def _generated(n: int, group: set[int], u: int) -> set[int]:
    """The group of units of Z_n made by a group and one unit more."""
    power, out = u, set(group)
    while power not in group:
        out |= {power * x % n for x in group}
        power = power * u % n
    return out
