"""Rates that are there at once where a program decides: water-filling over the first route of every transfer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.allocation.bandwidth_allocation_data import SharedCapacities, Shares
from solvers.allocation.result import AllocationResult
from solvers.allocation.water_filling import water_fill
from solvers.stop import Stop
from topoopt.core.allocation_solution import PriceCertificate
from topoopt.core.arrays import Ints


def first_rates(network: SharedCapacities, shares: Shares, stop: Stop) -> AllocationResult | None:
    """Fair rates on the first routes; None where these alone do not carry what is guaranteed.

    What they prove costs nothing: no transfer has more than its routes would give it alone.

    Raises:
        LimitError: the limit came first.
    """
    firsts: Ints = np.flatnonzero(np.diff(network.owner, prepend=-1))
    on = np.isin(network.route, firsts)
    place = np.searchsorted(firsts, network.route[on])
    alone = replace(network, owner=network.owner[firsts], shared=network.shared[on], route=place, use=network.use[on])
    guaranteed = np.bincount(alone.shared, alone.use * shares.base[place], len(network.capacity))
    if (guaranteed > network.capacity).any():
        return None
    found = water_fill(alone, shares, stop)
    rates = np.zeros(len(network.owner))
    rates[firsts] = found.route_gbps
    every = np.arange(len(shares.base), dtype=np.int64)
    free = np.zeros(0, dtype=np.int64)
    proof = PriceCertificate(every, free, np.zeros(0), every, shares.gain)
    return replace(found, route_gbps=rates, certificates=(proof,), method=f"{found.method} of first routes")
