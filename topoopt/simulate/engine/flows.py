"""Traffic of tasks as flows: one per path of a transfer, one per ring of an AllReduce, or one for its schedule."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.simulate.jit import piece
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, GraphArrays
from topoopt.simulate.network import NetworkArrays
from topoopt.simulate.schedule_rounds import schedule_of


@piece
def first_flows(g: GraphArrays, w: NetworkArrays) -> Ints:
    """int64[T+1]; the flows of task t are first_flows[t]..first_flows[t+1]."""
    tasks = len(g.kind)
    first = np.empty(tasks + 1, dtype=np.int64)
    flows = 0
    for t in range(tasks):
        first[t] = flows
        if g.kind[t] == TRANSFER:
            pair = np.int64(g.source[t]) * w.servers + g.target[t]
            flows += w.pair_ptr[pair + 1] - w.pair_ptr[pair]
        elif g.kind[t] == ALLREDUCE and g.group[t] >= 0:
            if schedule_of(w.schedules, g.group[t], g.size[t]) >= 0:
                flows += 1
            else:
                flows += w.group_ptr[g.group[t] + 1] - w.group_ptr[g.group[t]]
    first[tasks] = flows
    return first


@piece
def first_path(g: GraphArrays, w: NetworkArrays, t: int) -> int:
    """The path of the first flow of a transfer; the next flows have the next paths."""
    return int(w.pair_ptr[np.int64(g.source[t]) * w.servers + g.target[t]])


@piece
def ring_bytes(g: GraphArrays, w: NetworkArrays, t: int, ring: int) -> float:
    """Bytes that each member of an AllReduce sends on a ring in all rounds."""
    k = w.group_size[g.group[t]]
    return float(2.0 * (k - 1) / k * g.size[t] * w.ring_share[ring])


@piece
def rounds_ms(g: GraphArrays, w: NetworkArrays, t: int) -> float:
    """Fixed costs of all ring rounds of an AllReduce."""
    return float(2.0 * (w.group_size[g.group[t]] - 1) * w.round_latency)
