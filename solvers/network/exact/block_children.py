"""What prices prove of a node of the tree over links, and of all nodes into which any server divides it, compiled."""

from __future__ import annotations

import numpy as np

from solvers.network.exact.block_kernels import NOTHING, blocks, choices, ends_of, far_lengths, relayed, set_bar
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel


@kernel
def children(
    demand: Floats, state: Floats, bar: float, theta: float, rows: Ints, into: Ints
) -> tuple[float, float, Ints, Ints, Floats]:
    """What is proven of a node, and of those that some choice of one server's links makes of it.

    Returns:
        Dual function of the node; sum of demand times far, to compare with; int64[n, q, 2], heads that each server may
        choose, and how many choices, int64[n]; float64[n, q], dual function of every choice of every server that has
        not chosen (infinite where no network is left).
    """
    n = len(demand)
    ins, many_in, outs, many_out, absent = choices(rows, into)
    price = state[0].copy()
    set_bar(price, absent, bar)
    far, last = np.empty((n, n)), np.zeros((n, n), dtype=np.int64)
    far_lengths(price, far, last)
    ends, gains = np.zeros((2, 2, n)), np.zeros((n, n))
    most = ins.shape[1]
    by_in, by_out = np.full((n, most), NOTHING), np.full((n, most), NOTHING)
    worth = np.empty((most, most))
    owed = total = 0.0
    for i in range(n):
        for j in range(n):
            total += demand[i, j] * far[i, j]
            owed += demand[i, j] * (far[i, j] - state[1, i, j])
    node = owed
    for k in range(n):
        ends_of(k, demand, price, state[1], state[2], far, theta, ends)
        relayed(k, price, state[1], far, gains)
        blocks(k, ins, many_in[k], outs, many_out[k], ends, gains, demand, theta, worth)
        for p in range(many_in[k]):
            for q in range(many_out[k]):
                by_in[k, p] = max(by_in[k, p], worth[p, q])
                by_out[k, q] = max(by_out[k, q], worth[p, q])
        node -= by_in[k].max()
    values = np.full((n, most), np.inf)
    for s in range(n):
        if rows[s, 0] >= 0:
            continue
        times = np.full((3, n), NOTHING)  # worth of every block by how many links of s lead into it
        for k in range(n):
            for p in range(many_in[k]):
                links = (ins[k, p, 0] == s) + (ins[k, p, 1] == s)
                times[links, k] = max(times[links, k], by_in[k, p])
        for q in range(many_out[s]):
            left = owed - by_out[s, q]
            for k in range(n):
                if k != s:
                    links = (outs[s, q, 0] == k) + (outs[s, q, 1] == k)
                    left = np.inf if times[links, k] == NOTHING else left - times[links, k]
            values[s, q] = left
    return node, total, outs, many_out, values
