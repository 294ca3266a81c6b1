r"""The best rate of All-to-All: every rank sends the same to every other, split over paths, within the rates of links.

    maximise  lambda
    s.t.      inflow - outflow of f_s at v = lambda       every source s, every rank v other than s
              inflow - outflow of f_s at w = 0            every switch w
              sum_s f_s,e <= c_e                          every link e
              f >= 0

f_s is what rank s sends, aggregated over destinations. Where ranks do not relay, f_s leaves no rank but s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints
from topoopt.core.rated_network import RatedNetwork


@dataclass(frozen=True, eq=False)
class AllToAllProgram:
    """The program, minimising -lambda; the last column is lambda, the first rows are the links.

    Attributes:
        arrays: of the program.
        flow: int64[N, m], column of what each rank (row) sends over each arc; -1 where it may not.
    """

    arrays: LpArrays
    flow: Ints


def allowed_arcs(network: RatedNetwork, rank: int, *, relaying: bool) -> Ints:
    """int64, arcs that what a rank sends may use: none back to it, and none out of other ranks that do not relay."""
    tails, heads = network.arcs[:, 0], network.arcs[:, 1]
    usable = heads != rank
    if not relaying:
        usable &= network.is_switch[tails] | (tails == rank)
    return np.flatnonzero(usable)


def build(network: RatedNetwork, capacity: Floats, *, relaying: bool = True) -> AllToAllProgram:
    """Build the program.

    Args:
        network: whose arcs and switches count.
        capacity: float64[m], in any unit.
        relaying: whether ranks pass on what others send.
    """
    m, ranks = len(network.arcs), network.ranks
    program = Families()
    links = program.rows(m, -np.inf, capacity)
    flow = np.full((len(ranks), m), -1, dtype=np.int64)
    arrivals = []
    for place, rank in enumerate(ranks.tolist()):
        usable = allowed_arcs(network, rank, relaying=relaying)
        columns = program.columns(len(usable))
        flow[place, usable] = columns
        program.terms(links[usable], columns, 1.0)
        balance = program.rows(network.nodes - 1, 0.0, 0.0)
        row = np.insert(balance, rank, -1)
        program.terms(row[network.arcs[usable, 1]], columns, 1.0)
        leaving = network.arcs[usable, 0] != rank
        program.terms(row[network.arcs[usable[leaving], 0]], columns[leaving], -1.0)
        arrivals.append(row[np.setdiff1d(ranks, [rank])])
    rate = program.columns(1, cost=-1.0)
    program.terms(np.concatenate(arrivals), rate[0], -1.0)
    return AllToAllProgram(program.arrays(), flow)
