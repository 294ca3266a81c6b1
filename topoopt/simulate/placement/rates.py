"""Rates of transfers between servers: max-min fair ones, and static splits in closed form."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.placement.arrays import PlacementArrays

FILL_ROUNDS = 8


@piece
def share_fairly(out: Ints, into: Ints, flows: int, capacity: Floats, rate: Floats) -> None:
    """Max-min fair rates of the first `flows` flows, by progressive filling, into `rate`.

    A server carries its capacity out and the same in.
    """
    servers = len(capacity)
    room, count = np.empty(2 * servers), np.zeros(2 * servers, dtype=np.int64)
    for s in range(servers):
        room[s] = room[servers + s] = capacity[s]
    for f in range(flows):
        rate[f] = -1.0
        count[out[f]] += 1
        count[servers + into[f]] += 1
    open_flows = flows
    while open_flows > 0:
        level = np.inf
        for port in range(2 * servers):
            if count[port] > 0:
                level = min(level, room[port] / count[port])
        full = np.zeros(2 * servers, dtype=np.bool_)
        for port in range(2 * servers):
            full[port] = count[port] > 0 and room[port] / count[port] <= level * (1 + 1e-12)
        for f in range(flows):
            if rate[f] < 0 and (full[out[f]] or full[servers + into[f]]):
                rate[f] = level
                open_flows -= 1
                for port in (out[f], servers + into[f]):
                    room[port] -= level
                    count[port] -= 1


@kernel
def uniform_rates(a: PlacementArrays) -> Floats:
    """float64[S, S]: every server the same part of its links for each other one that has devices."""
    servers = len(a.network)
    used = np.zeros(servers, dtype=np.bool_)
    for d in range(len(a.server)):
        used[a.server[d]] = True
    others = max(1, used.sum() - 1)
    rates = np.zeros((servers, servers))
    for s in range(servers):
        for t in range(servers):
            if s != t and used[s] and used[t]:
                rates[s, t] = min(a.network[s], a.network[t]) / others
    return rates


@kernel
def volumes(a: PlacementArrays, device: Ints) -> Floats:
    """float64[S, S], bytes each server sends to each other."""
    servers = len(a.network)
    volume = np.zeros((servers, servers))
    stamp = np.full(len(a.room), -1, dtype=np.int64)
    for i in range(len(device)):
        s = a.server[device[i]]
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            for u in range(a.user_ptr[tensor], a.user_ptr[tensor + 1]):
                e = device[a.user[u]]
                if e != device[i] and stamp[e] != tensor:
                    stamp[e] = tensor
                    if a.server[e] != s:
                        volume[s, a.server[e]] += a.tensor_size[tensor]
    return volume


@kernel
def rates_by_volume(a: PlacementArrays, volume: Floats, power: float) -> Floats:
    """float64[S, S], rates proportional to volume**power, out and in within the links, then filled up.

    Power 1 ends simultaneous transfers together; 1/2 is the best split for transfers one after another.
    """
    servers = len(volume)
    weight = volume**power
    for s in range(servers):
        for t in range(servers):
            if volume[s, t] <= 0:
                weight[s, t] = 0.0
    out, into = weight.sum(axis=1), weight.sum(axis=0)
    rates = np.zeros((servers, servers))
    for s in range(servers):
        for t in range(servers):
            if weight[s, t] > 0:
                rates[s, t] = min(a.network[s] * weight[s, t] / out[s], a.network[t] * weight[s, t] / into[t])
    for _ in range(FILL_ROUNDS):
        out, into = rates.sum(axis=1), rates.sum(axis=0)
        for s in range(servers):
            for t in range(servers):
                if rates[s, t] > 0:
                    rates[s, t] *= max(1.0, min(a.network[s] / out[s], a.network[t] / into[t]))
    return rates


@kernel
def within_links(a: PlacementArrays, rates: Floats) -> Floats:
    """The rates, scaled down where rounding put a server above its links."""
    over = np.maximum(rates.sum(axis=1) / np.maximum(a.network, 1e-300), 1.0)
    scaled = rates / over.reshape((-1, 1))
    over = np.maximum(scaled.sum(axis=0) / np.maximum(a.network, 1e-300), 1.0)
    return np.asarray(scaled / over)
