"""Tiny jobs, and the least time of all their strategies on all topologies in the bulk-synchronous model, by programs of
their own."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.workload import Operator, OperatorInput, Split, Workload

BI, UNI = LinkDirection.BIDIRECTIONAL, LinkDirection.UNIDIRECTIONAL


def job(n, ways, widths=(3000, 2000), weights=(50_000, 20_000), work=(1.0, 2.0), memory=0):
    """Layers in a chain, cut along the samples; 1/P of the time in P parts."""
    operators = []
    for index, (width, weight, ms) in enumerate(zip(widths, weights, work, strict=True)):
        splits = tuple(Split(p, ms / p, 2 * ms / p, memory) for p in ways)
        inputs = (OperatorInput(index - 1),) if index else ()
        operators.append(Operator(f"layer{index}", "dense", width, 4, (weight,), inputs, splits))
    return Workload("chain", 12 * n, tuple(operators))


def tables(n, degree, links):
    """All connected tables of link counts, by plain enumeration."""
    pairs = [(i, j) for i in range(n) for j in range(n) if i < j or (i != j and links is UNI)]
    for counts in itertools.product(range(degree + 1), repeat=len(pairs)):
        table = np.zeros((n, n), dtype=np.int64)
        for (i, j), number in zip(pairs, counts, strict=True):
            table[i, j] += number
            if links is BI:
                table[j, i] += number
        fits = table.sum(axis=1).max() <= degree and table.sum(axis=0).max() <= degree
        if fits and connected_components(table, connection="strong", return_labels=False) == 1:
            yield table


def plain_phases(cluster, workload, placements):
    """(C, demand bytes n x n, {members: wire bytes per member}) of a strategy of sample splits, from its meaning."""
    n = cluster.servers
    load, demand, groups = np.zeros(n), np.zeros((n, n)), {}
    held = []
    forward = backward = 0.0
    for operator, (index, offset) in zip(workload.operators, placements, strict=True):
        split = operator.splits[index]
        p = split.sample_ways
        servers = [offset + q * (n // p) for q in range(p)]
        size = workload.samples // p
        held.append([(server, q * size, (q + 1) * size) for q, server in enumerate(servers)])
        load[servers] += split.forward_ms + split.backward_ms
        forward, backward = forward + split.forward_ms, backward + split.backward_ms
        if p > 1:
            wire = 2 * (p - 1) / p * 4 * sum(operator.weight_elements)
            groups[tuple(servers)] = groups.get(tuple(servers), 0.0) + wire
    for v in range(1, len(held)):
        for (i, low, high), (j, start, end) in itertools.product(held[v - 1], held[v]):
            both = max(0, min(high, end) - max(low, start)) * workload.operators[v - 1].output_elements * 4
            if i != j:
                demand[i, j] += both
                demand[j, i] += both
    return max(load.max(), forward + backward), demand, groups


def plain_theta(counts, demand, groups, rate):
    """Least largest link time with free ring shares and routes, by scipy on a program written down here."""
    n = len(counts)
    arcs = [(i, j) for i in range(n) for j in range(n) if counts[i, j] > 0]
    rings = [(members, (members[0], *rest)) for members in groups for rest in itertools.permutations(members[1:])]
    flow, ring, theta = {}, {}, len(arcs) * n + len(rings)
    for k, (s, arc) in enumerate(itertools.product(range(n), arcs)):
        flow[s, arc] = k
    for k, key in enumerate(rings):
        ring[key] = len(arcs) * n + k
    equal, right, under = [], [], []
    for s, v in itertools.permutations(range(n), 2):
        row = np.zeros(theta + 1)
        for i, j in arcs:
            row[flow[s, (i, j)]] += (j == v) - (i == v)
        for members, order in rings:
            if order[(order.index(s) + 1) % len(order)] == v if s in order else False:
                row[ring[members, order]] -= 1
        equal.append(row)
        right.append(demand[s, v])
    for members, wire in groups.items():
        row = np.zeros(theta + 1)
        for key, column in ring.items():
            row[column] = key[0] == members
        equal.append(row)
        right.append(wire)
    for i, j in arcs:
        row = np.zeros(theta + 1)
        for s in range(n):
            row[flow[s, (i, j)]] = 1
        row[theta] = -counts[i, j] * rate
        under.append(row)
    cost = np.zeros(theta + 1)
    cost[theta] = 1
    found = linprog(cost, A_ub=under, b_ub=np.zeros(len(under)), A_eq=equal, b_eq=right)
    return found.fun


def strategies(n, workload):
    """All (split, offset) of every operator."""
    each = [
        [
            (index, offset)
            for index, split in enumerate(op.splits)
            for offset in range(n // split.parts)
            if op.pinned_offset in (None, offset)
        ]
        for op in workload.operators
    ]
    return itertools.product(*each)


def pinned(n):
    """A table pinned on server n - 1 and a layer that must be on all servers, or on server 0."""
    table = Operator("table", "embedding", 3000, 4, (), (), (Split(1, 1.0, 2.0, 0),), pinned_offset=n - 1)
    splits = (Split(1, 4.0, 8.0, 0), Split(n, 4.0 / n, 8.0 / n, 0))
    layer = Operator("layer", "dense", 10, 4, (40_000,), (OperatorInput(0),), splits, pinned_offset=0)
    return Workload("pinned", 12 * n, (table, layer))


CASES = {
    "three-pairs": (Cluster(3, 1, 2, 1.0, BI), job(3, (1, 3))),
    "three-chain-of-three": (
        Cluster(3, 1, 1, 0.2, UNI),
        job(3, (1, 3), (3000, 100, 2000), (5000, 90_000, 100), (1, 1, 1)),
    ),
    "three-directed": (Cluster(3, 1, 2, 2.0, UNI), job(3, (1, 3), weights=(900, 60_000))),
    "three-pinned": (Cluster(3, 1, 2, 0.3, BI), pinned(3)),
    "four-pairs": (Cluster(4, 1, 2, 1.0, BI), job(4, (1, 4))),
    "four-directed": (Cluster(4, 1, 1, 1.0, UNI), job(4, (1, 2, 4), (30, 40))),
    "four-pinned": (Cluster(4, 1, 2, 0.5, BI), pinned(4)),
    "four-pinned-three-links": (Cluster(4, 1, 3, 0.2, BI), pinned(4)),
    "four-traffic-free": (Cluster(4, 1, 1, 0.001, UNI), job(4, (1, 4))),
}


def mesh(n, widths, free=0):
    """An operator pinned to each server, which reads all before it; the last `free` stand anywhere, or on all."""
    operators = []
    for k, width in enumerate(widths):
        pinned_to = k if k < n - free else None
        splits = (Split(1, 1.0, 2.0, 0), Split(n, 0.3, 0.6, 0))[: 1 if k < n - free else 2]
        inputs = tuple(OperatorInput(j) for j in range(k))
        operators.append(Operator(f"op{k}", "dense", width, 4, (2000,), inputs, splits, pinned_offset=pinned_to))
    return Workload("mesh", 12 * n, tuple(operators))


def least_time(cluster, workload):
    """The best of all strategies on all connected topologies, ms."""
    rate = cluster.link_gbps * 125_000.0
    networks = list(tables(cluster.servers, cluster.degree, cluster.links))
    least = np.inf
    for placements in strategies(cluster.servers, workload):
        compute, demand, groups = plain_phases(cluster, workload, placements)
        if compute >= least:
            continue
        if not demand.any() and not groups:
            least = compute
            continue
        for counts in networks:
            least = min(least, compute + plain_theta(counts, demand, groups, rate))
    return least
