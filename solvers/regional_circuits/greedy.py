"""Circuits dealt out one by one, in turn or by demand, and exchanges of circuits at what is slowest."""

from __future__ import annotations

import numpy as np

from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.regional.transfer_time import RegionTraffic

SERVED = 100.0
"""By so much a pair counts less once it has a circuit (Liao et al., MixNet, SIGCOMM 2025, arXiv:2501.03905)."""

SAME = 1e-12
"""Part of a time that is no gain."""


def free_ports(traffic: RegionTraffic, circuits: Ints) -> Ints:
    """int64[n], ports that no circuit ends at."""
    ends, n = traffic.ends, traffic.problem.servers
    used = np.bincount(ends[:, 0], circuits, n) + np.bincount(ends[:, 1], circuits, n)
    return np.array(traffic.problem.ports, dtype=np.int64) - used.astype(np.int64)


def largest_first(traffic: RegionTraffic) -> Ints:
    """MixNet's: each circuit goes to the pair with most demand, which counts a hundredth for each circuit it has."""
    return _dealt(traffic, np.zeros(len(traffic.out), dtype=np.int64), SERVED)


def in_turn(traffic: RegionTraffic) -> Ints:
    """Whatever the demand: in each round every server is joined to the one so many places on, while ports are free."""
    n, left = traffic.problem.servers, list(traffic.problem.ports)
    number = {tuple(pair): k for k, pair in enumerate(traffic.ends.tolist())}
    circuits = np.zeros(len(traffic.out), dtype=np.int64)
    before = -1
    while circuits.sum() != before:
        before = circuits.sum()
        for distance in range(1, n // 2 + 1):
            for server in range(n if 2 * distance < n else distance):
                pair = tuple(sorted((server, (server + distance) % n)))
                if pair in number and all(left[end] for end in pair):
                    circuits[number[pair]] += 1
                    for end in pair:
                        left[end] -= 1
    return circuits


def _dealt(traffic: RegionTraffic, circuits: Ints, served: float = 1.0) -> Ints:
    """Circuits for the pair that has most bytes for each, over and over, while both ends have ports."""
    circuits, left, ends = circuits.copy(), free_ports(traffic, circuits), traffic.ends
    weight = traffic.larger / np.where(circuits > 0, served * circuits, 1.0)
    while True:
        weight[(left[ends] <= 0).any(axis=1)] = 0.0
        pair = int(np.argmax(weight)) if len(weight) else -1
        if pair < 0 or weight[pair] <= 0:
            return circuits
        circuits[pair] += 1
        left[ends[pair]] -= 1
        weight[pair] = traffic.larger[pair] / (served * circuits[pair])


def within_ports(traffic: RegionTraffic, circuits: Ints, order: Floats) -> Ints:
    """Circuits of the pairs that count most, as far as ports allow, then what is left by demand."""
    kept, left = np.zeros_like(circuits), np.array(traffic.problem.ports, dtype=np.int64)
    for pair in np.argsort(-order, kind="stable").tolist():
        count = int(circuits[pair])
        if count and (left[traffic.ends[pair]] >= count).all():
            kept[pair] = count
            left[traffic.ends[pair]] -= count
    return _filled(traffic, kept)


def _filled(traffic: RegionTraffic, circuits: Ints) -> Ints:
    """Free ports in use: a pair that has no circuit may take as many as it needs to be no slower than the others."""
    best, time = circuits, traffic.seconds(circuits)
    for served in (1.0, SERVED):
        tried = _dealt(traffic, circuits, served)
        if traffic.seconds(tried) < time:
            best, time = tried, traffic.seconds(tried)
    return best


def exchanged(traffic: RegionTraffic, circuits: Ints, stop: Stop) -> tuple[float, Ints]:
    """Time and circuits after exchanges at what is slowest, until none helps."""
    best, time = circuits, traffic.seconds(circuits)
    while stop.reason() is None:
        listed = _exchanges(traffic, best, time)
        if not listed:
            break
        tried = _filled(traffic, min(listed, key=traffic.seconds))
        if traffic.seconds(tried) >= time * (1.0 - SAME):
            break
        best, time = tried, traffic.seconds(tried)
    return time, best


def _exchanges(traffic: RegionTraffic, circuits: Ints, time: float) -> list[Ints]:
    """A pair at a slowest place gets the circuits it needs; pairs that can best do without lose theirs."""
    problem, ends = traffic.problem, traffic.ends
    need = np.ceil(traffic.larger / (problem.circuit_rate * time) * (1.0 + 1e-9)).astype(np.int64)
    served = problem.circuit_rate * circuits * time
    carried = served if problem.split else np.where(circuits > 0, np.inf, 0.0)
    left = traffic.by_server(np.maximum(traffic.out - carried, 0.0), np.maximum(traffic.back - carried, 0.0))
    full = left >= problem.electrical_rate * time * (1.0 - 1e-9)
    servers = np.flatnonzero(full.reshape(2, -1).any(axis=0))
    chosen = np.isin(ends, servers).any(axis=1) & (circuits < need)
    if not problem.split:
        chosen |= (circuits > 0) & (circuits < need)
    found = []
    for pair in np.flatnonzero(chosen).tolist():
        wanted = {int(need[pair])} if not problem.split else {int(circuits[pair]) + 1, int(need[pair])}
        found += [tried for count in wanted if (tried := _given(traffic, circuits, pair, count)) is not None]
    return found


def _given(traffic: RegionTraffic, circuits: Ints, pair: int, count: int) -> Ints | None:
    """The same with so many circuits of a pair; others at its ends lose theirs, those with least demand first."""
    tried, ends = circuits.copy(), traffic.ends
    tried[pair] = count
    left = free_ports(traffic, tried)
    for end in ends[pair].tolist():
        beside = np.flatnonzero((ends == end).any(axis=1) & (tried > 0))
        for other in sorted(beside.tolist(), key=lambda k: traffic.larger[k]):
            if left[end] >= 0:
                break
            if other != pair:
                less = min(int(tried[other]), int(-left[end])) if traffic.problem.split else int(tried[other])
                tried[other] -= less
                left[ends[other]] += less
        if left[end] < 0:
            return None
    return tried
