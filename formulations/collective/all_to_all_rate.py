"""The best rate of All-to-All: every rank sends the same to every other, split over paths, within the rates of
links.

    maximise  lambda
    (1) fit        sum_s flow[s,e] <= c[e]                                        every link e
    (2) conserve   sum_{e into v} flow[s,e] - sum_{e out of v} flow[s,e] = lambda    every source s, every rank v but s
                   sum_{e into w} flow[s,e] - sum_{e out of w} flow[s,e] = 0         every switch w
    flow >= 0

flow[s,.] is what rank s sends, aggregated over destinations; none comes back to s, and where ranks do not relay it
leaves no rank but s. Columns: flow by source and link, then lambda; rows: (1) by link, (2) by source and node. With one
source alone the same is the best rate of a broadcast to ranks that each get a message of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints
from topoopt.core.collective import CollectiveProblem
from topoopt.core.rated_network import RatedNetwork

Arc = tuple[int, int]


def network_model(network: RatedNetwork) -> tuple[Any, list[Arc], list[int]]:
    """An empty model, the links and the ranks of a network."""
    import pyomo.environ as pyo

    arcs = [(tail, head) for tail, head in network.arcs.tolist()]
    return pyo.ConcreteModel(network.origin or "network"), arcs, network.ranks.tolist()


def balance(flow: Mapping[Arc, Any], node: int) -> Any:
    """Inflow less outflow."""
    into = sum(amount for (_, head), amount in flow.items() if head == node)
    return into - sum(amount for (tail, _), amount in flow.items() if tail == node)


@dataclass(frozen=True, eq=False)
class AllToAllProgram:
    """The program, minimising -lambda; the last column is lambda, the first rows are the links.

    Attributes:
        arrays: of the program.
        flow: int64[sources, m], column of what each source (row) sends over each arc; -1 where it may not.
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


def build(
    network: RatedNetwork, capacity: Floats, *, relaying: bool = True, source: int | None = None
) -> AllToAllProgram:
    """Build the program.

    Args:
        network: whose arcs and switches count.
        capacity: float64[m], in any unit.
        relaying: whether ranks pass on what others send.
        source: the only rank that sends; None: all do.
    """
    program = Families()
    links = program.rows(len(network.arcs), -np.inf, capacity)
    sources = network.ranks.tolist() if source is None else [source]
    sent = [_source_flow(program, links, network, rank, relaying=relaying) for rank in sources]
    rate = program.columns(1, cost=-1.0)
    for rank, (_, arrival) in zip(sources, sent, strict=True):
        program.terms(arrival[np.setdiff1d(network.ranks, [rank])], rate[0], -1.0)
    return AllToAllProgram(program.arrays(), np.array([columns for columns, _ in sent]))


def names_of(network: RatedNetwork, *, relaying: bool = True) -> tuple[list[str], list[str]]:
    """Names: columns `flow_s_i_j`, `lambda`; rows `fit_i_j`, `conserve_s_v`."""
    arcs = [f"{tail}_{head}" for tail, head in network.arcs.tolist()]
    ranks = network.ranks.tolist()
    usable = {rank: allowed_arcs(network, rank, relaying=relaying).tolist() for rank in ranks}
    columns = [f"flow_{rank}_{arcs[arc]}" for rank in ranks for arc in usable[rank]]
    rows = [f"conserve_{rank}_{node}" for rank in ranks for node in range(network.nodes) if node != rank]
    return [*columns, "lambda"], [f"fit_{arc}" for arc in arcs] + rows


def from_collective(problem: CollectiveProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of the network of an instance, capacities in GB/s, whatever its collective."""
    program = build(problem.network, problem.network.gbytes_per_s, relaying=problem.relaying)
    return with_names(program.arrays, *names_of(problem.network, relaying=problem.relaying))


def build_pyomo(network: RatedNetwork, capacity: Floats, *, relaying: bool = True) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    import pyomo.environ as pyo

    model, arcs, ranks = network_model(network)
    switches = set(np.flatnonzero(network.is_switch).tolist())
    keys = [
        (rank, tail, head)
        for rank in ranks
        for tail, head in arcs
        if head != rank and (relaying or tail == rank or tail in switches)
    ]
    model.flow = pyo.Var(keys, domain=pyo.NonNegativeReals)
    model.throughput = pyo.Var(domain=pyo.NonNegativeReals)
    limit = dict(zip(arcs, capacity.tolist(), strict=True))

    @model.Constraint(arcs)  # type: ignore[untyped-decorator]
    def fit(block: Any, tail: int, head: int) -> Any:
        return sum(block.flow[key] for key in keys if key[1:] == (tail, head)) <= limit[tail, head]

    @model.Constraint([(rank, node) for rank in ranks for node in range(network.nodes) if node != rank])  # type: ignore[untyped-decorator]
    def conserve(block: Any, rank: int, node: int) -> Any:
        own = {key[1:]: block.flow[key] for key in keys if key[0] == rank}
        return balance(own, node) - (block.throughput if node in ranks else 0.0) == 0.0

    model.largest = pyo.Objective(expr=-model.throughput, sense=pyo.minimize)
    return model


def build_straight_allreduce(network: RatedNetwork, capacity: Floats) -> LpArrays:
    """The best rate of AllReduce where ranks do not relay: what is rooted at a rank comes straight to it and goes back.

        maximise  sum_v x_v
        s.t.      inflow - outflow of f_s at v = x_v     what s sends to be summed at v
                  inflow - outflow of g_s at v = x_s     what s has summed
                  both 0 at switches,  sum_s (f_s,e + g_s,e) <= c_e

    The first rows are the links; arguments as of `build`.
    """
    program = Families()
    links = program.rows(len(network.arcs), -np.inf, capacity)
    rooted = np.full(network.nodes, -1)
    rooted[network.ranks] = program.columns(len(network.ranks), cost=-1.0)
    for rank in network.ranks.tolist():
        others = np.setdiff1d(network.ranks, [rank])
        for at in (rooted[others], rooted[[rank]]):
            _, arrival = _source_flow(program, links, network, rank, relaying=False)
            program.terms(arrival[others], at, -1.0)
    return program.arrays()


def _source_flow(
    program: Families, links: Ints, network: RatedNetwork, rank: int, *, relaying: bool
) -> tuple[Ints, Ints]:
    """What a rank sends: its columns, int64[m], -1 where it may not; its rows of balance, int64[V], -1 at the rank."""
    usable = allowed_arcs(network, rank, relaying=relaying)
    columns = program.columns(len(usable))
    program.terms(links[usable], columns, 1.0)
    row = np.insert(program.rows(network.nodes - 1, 0.0, 0.0), rank, -1)
    program.terms(row[network.arcs[usable, 1]], columns, 1.0)
    leaving = network.arcs[usable, 0] != rank
    program.terms(row[network.arcs[usable[leaving], 0]], columns[leaving], -1.0)
    flow = np.full(len(network.arcs), -1, dtype=np.int64)
    flow[usable] = columns
    return flow, row
