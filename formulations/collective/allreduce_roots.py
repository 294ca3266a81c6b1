r"""The best rate of AllReduce: pieces go up in-trees to roots and down from them, roots used unequally.

    maximise  sum_v root[v]
    (1) fit                broadcast[e] + reduce[e] <= c[e]                        every link e
    (2) broadcast_balance  sum_{e out of w} broadcast[e] - sum_{e into w} broadcast[e] = 0    every switch w
    (3) reduce_balance     sum_{e out of w} reduce[e] - sum_{e into w} reduce[e] = 0          every switch w
    (4) leave              sum_{e out of A} broadcast[e] - sum_{v in A} root[v] >= 0      every set A that holds some
    (5) reach              sum_{e into A} reduce[e] - sum_{v in A} root[v] >= 0           ranks and not all
    all >= 0

root[v] is the rate rooted at rank v, broadcast[e] what broadcasts put on a link, reduce[e] what reductions do. By
Edmonds' theorem trees exist for any such loads; at switches they are split off first. Columns: broadcast and reduce by
link, root by rank. Solvers add rows (4) and (5) where they are violated; written out, there are two a set.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from formulations.collective.all_to_all_rate import balance, network_model
from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Bools, Floats
from topoopt.core.collective import CollectiveProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.rated_network import RatedNetwork

MOST_NODES = 12
"""Nodes of a network up to which the rows of all sets are written out."""


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


def sets_of(network: RatedNetwork) -> Iterator[tuple[int, ...]]:
    """All sets of nodes that hold some ranks and not all, small ones first."""
    ranks = set(network.ranks.tolist())
    for size in range(1, network.nodes):
        for nodes in itertools.combinations(range(network.nodes), size):
            if 0 < len(ranks.intersection(nodes)) < len(ranks):
                yield nodes


def build_whole(network: RatedNetwork, capacity: Floats) -> LpArrays:
    """The named program with the rows of all sets; of small networks."""
    made = Families.extending(with_names(build_arrays(network, capacity), *names_of(network)))
    for nodes in sets_of(network):
        side = np.isin(np.arange(network.nodes), nodes)
        text = "_".join(map(str, nodes))
        for name, reduce in (("leave", False), ("reach", True)):
            columns, values = set_row(network, side, reduce=reduce)
            row = made.rows(1, 0.0, np.inf, names=[f"{name}_{text}"])
            made.terms(row, columns.astype(np.int64), values)
    return made.arrays()


def names_of(network: RatedNetwork) -> tuple[list[str], list[str]]:
    """Names of the program without rows of sets."""
    arcs = [f"{tail}_{head}" for tail, head in network.arcs.tolist()]
    kinds = ("broadcast", "reduce")
    columns = [f"{kind}_{arc}" for kind in kinds for arc in arcs] + [f"root_{rank}" for rank in network.ranks]
    switches = np.flatnonzero(network.is_switch).tolist()
    return columns, [f"fit_{arc}" for arc in arcs] + [f"{kind}_balance_{w}" for kind in kinds for w in switches]


def from_collective(problem: CollectiveProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of the network of an instance, capacities in GB/s, whatever its collective.

    Raises:
        InputError: more nodes than sets can be written out for.
    """
    network = problem.network
    if network.nodes > MOST_NODES:
        text = "too many nodes to write out the rows of all sets"
        raise InputError([Problem(text, path="topology", value=str(network.nodes), allowed=f"2 to {MOST_NODES}")])
    return build_whole(network, network.gbytes_per_s)


def build_pyomo(network: RatedNetwork, capacity: Floats) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    import pyomo.environ as pyo

    model, arcs, ranks = network_model(network)
    switches = np.flatnonzero(network.is_switch).tolist()
    sets = list(sets_of(network))
    limit = dict(zip(arcs, capacity.tolist(), strict=True))
    model.broadcast = pyo.Var(arcs, domain=pyo.NonNegativeReals)
    model.reduce = pyo.Var(arcs, domain=pyo.NonNegativeReals)
    model.root = pyo.Var(ranks, domain=pyo.NonNegativeReals)

    @model.Constraint(arcs)  # type: ignore[untyped-decorator]
    def fit(block: Any, tail: int, head: int) -> Any:
        return block.broadcast[tail, head] + block.reduce[tail, head] <= limit[tail, head]

    @model.Constraint(switches)  # type: ignore[untyped-decorator]
    def broadcast_balance(block: Any, switch: int) -> Any:
        return -balance({arc: block.broadcast[arc] for arc in arcs}, switch) == 0.0

    @model.Constraint(switches)  # type: ignore[untyped-decorator]
    def reduce_balance(block: Any, switch: int) -> Any:
        return -balance({arc: block.reduce[arc] for arc in arcs}, switch) == 0.0

    model.leave = pyo.Constraint(pyo.Any)
    model.reach = pyo.Constraint(pyo.Any)
    for nodes in sets:
        inside = set(nodes)
        rooted = sum(model.root[rank] for rank in ranks if rank in inside)
        leaving = sum(model.broadcast[i, j] for i, j in arcs if i in inside and j not in inside)
        entering = sum(model.reduce[i, j] for i, j in arcs if i not in inside and j in inside)
        model.leave.add("_".join(map(str, nodes)), leaving - rooted >= 0.0)
        model.reach.add("_".join(map(str, nodes)), entering - rooted >= 0.0)
    model.largest = pyo.Objective(expr=-sum(model.root[rank] for rank in ranks), sense=pyo.minimize)
    return model
