"""How promising a circulant is for a demand, without routing it; and which relabellings leave a demand unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from solvers.network.constructions.degree_split import traffic_by_size
from solvers.network.constructions.selection import coins_of, interfaces_of
from solvers.network.constructions.totient_perms import hop_table
from topoopt.core.cluster import Cluster
from topoopt.core.demand import Demand
from topoopt.core.leaving import end_if_left


def busy_estimate(cluster: Cluster, demand: Demand, distances: Sequence[int]) -> float:
    """Mean time, ms, that a link is busy with the demand on these ring distances when all is spread evenly.

    Model-parallel bytes count their hops. AllReduce bytes count the hops of the shortest ring of their group; and a
    one-hop ring whose links inside the group are few counts as if only those (and two-hop detours) worked.
    """
    end_if_left()
    n, links = cluster.servers, cluster.links
    hops = hop_table(n, coins_of(n, distances, links))
    transfers = demand.model_parallel_bytes
    shift = (np.arange(n)[None, :] - np.arange(n)[:, None]) % n
    byte_hops = float((transfers * hops[shift]).sum())
    used = sum(interfaces_of(n, p, links) for p in distances)
    for size, wire in traffic_by_size(n, demand).items():
        step = n // size
        units = np.flatnonzero(np.gcd(np.arange(size), size) == 1) * step if size > 1 else np.zeros(0, dtype=np.int64)
        fewest = int(hops[units % n].min()) if len(units) else 1
        if fewest == 1:
            inside = sum(interfaces_of(n, p, links) for p in distances if p % step == 0)
            # Water filling between `inside` one-hop interfaces and detours of two hops on the others.
            byte_hops += wire * used / (inside + (used - inside) / 2)
        else:
            byte_hops += wire * fewest
    return byte_hops / (n * max(used, 1) * cluster.link_bytes_per_ms)


def invariant_units(n: int, demand: Demand) -> tuple[int, ...]:
    """Units u of Z_n such that renaming server i to u i mod n leaves the demand as it is (1 always does).

    Every unit does when there is no model-parallel traffic and AllReduce groups of one size carry equal payloads.
    """
    payload: dict[frozenset[int], float] = {}
    for group in demand.allreduce:
        key = frozenset(group.members)
        payload[key] = payload.get(key, 0.0) + group.payload_bytes
    transfers = demand.model_parallel_bytes
    servers = np.arange(n)
    found = []
    for u in range(1, n):
        end_if_left()
        if gcd(u, n) != 1:
            continue
        image = u * servers % n
        if not np.array_equal(transfers[np.ix_(image, image)], transfers):
            continue
        if all(payload.get(frozenset(int(image[i]) for i in key)) == value for key, value in payload.items()):
            found.append(u)
    return tuple(found) or (1,)
