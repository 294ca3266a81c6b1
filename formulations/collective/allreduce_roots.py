r"""The best rate of AllReduce: pieces go up in-trees to roots and down from them, roots used unequally.

    maximise  sum_v x_v
    s.t.      g_e + h_e <= c_e                                       every link
              sum_{e out of A} g_e >= sum_{v in A} x_v               every set A without some rank
              sum_{e into A} h_e >= sum_{v in A} x_v                 every set A without some rank
              g and h balanced at switches

x_v is the rate rooted at rank v, g what broadcasts put on a link, h what reductions do. By Edmonds' theorem trees exist
for any such g and h; at switches they are split off first. Rows of sets are added when they are violated.
"""

from __future__ import annotations

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from topoopt.core.arrays import Bools, Floats
from topoopt.core.rated_network import RatedNetwork


def build_arrays(network: RatedNetwork, capacity: Floats) -> LpArrays:
    """The program without rows of sets, minimising -sum x; columns g, h [m each], x [N].

    Args:
        network: whose arcs and switches count.
        capacity: float64[m], in any unit.
    """
    m = len(network.arcs)
    program = Families()
    broadcast, reduced = program.columns(m), program.columns(m)
    program.columns(len(network.ranks), cost=-1.0)
    rows = program.rows(m, -np.inf, capacity)
    for column in (broadcast, reduced):
        program.terms(rows, column, 1.0)
    number = np.full(network.nodes, -1)
    number[network.is_switch] = np.arange(int(network.is_switch.sum()))
    for column in (broadcast, reduced):
        balance = program.rows(int(network.is_switch.sum()), 0.0, 0.0)
        for end, sign in ((0, 1.0), (1, -1.0)):
            at = number[network.arcs[:, end]]
            program.terms(balance[at[at >= 0]], column[at >= 0], sign)
    return program.arrays()


def set_row(network: RatedNetwork, side: Bools, *, reduce: bool) -> tuple[Floats, Floats]:
    """Columns and coefficients of the row >= 0 of a set of nodes, bool[V]."""
    tail, head = side[network.arcs[:, 0]], side[network.arcs[:, 1]]
    crossing = np.flatnonzero(~tail & head) + len(network.arcs) if reduce else np.flatnonzero(tail & ~head)
    inside = np.flatnonzero(side[network.ranks]) + 2 * len(network.arcs)
    return np.concatenate((crossing, inside)), np.concatenate((np.ones(len(crossing)), -np.ones(len(inside))))
