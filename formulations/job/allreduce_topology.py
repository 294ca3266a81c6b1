r"""Links, ring orders and routing together: the network that carries most when AllReduce may choose its rings (MILP).

Decided: how many links join every ordered pair of servers, which share of every group's AllReduce runs on which ring
order, and how ring steps and model-parallel traffic flow. It is `joint_topology` with the mutable traffic of
`allreduce_mix`; all options of the former (kept links, hop limit, forbidden links, symmetry rules) hold here too.

All sets, parameters and variables of both modules, and

Variables   y[g, r] >= 0, lambda times the share of order r;  for groups without orders, instead of y,
            z[g, i, j] >= 0, lambda times the share of the orders in which j follows i (i != j members).

    maximise    lambda
    all rows of `joint_topology` but (5)
    (5') deliver    sum_i f[s, i, v] - sum_j f[s, v, j]
                        - sum_{g, r: next_r(s) = v} V[g] y[g, r] - sum_g V[g] z[g, s, v] = lambda D[s, v]
    (18) mix        sum_{r in ORDERS[g]} y[g, r] = lambda                           for every group with orders
    (19) next_member      sum_j z[g, i, j] = lambda                                 for groups without, each i
    (20) previous_member  sum_i z[g, i, j] = lambda                                 for groups without, each j
    (21) no_pair    z[g, i, j] + z[g, j, i] <= lambda                               i < j, three or more members

With every order of every group, (18) is exact. (19) to (21) hold for every mix of rings (an order visits each member
once, and of three or more members no two follow each other both ways), so a group without orders is a relaxation: its
optimum bounds every network and every order from above in lambda, and it is exact for two and three members.

Symmetry: renaming two servers that are in the same groups leaves the program as it is when groups have all orders or
none, so that the rules of `joint_topology` hold for tables D and, per group, V[g] on the pairs of its members
(`group_tables`). With some orders only, no rule may be used.

Size: that of `joint_topology` with all members as sources, and |ORDERS| columns (k (k - 1) for a group without).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from formulations.job.allreduce_mix import RingGroup
from formulations.network.joint_topology import JointTopology, Symmetry, data_of, find_symmetry
from formulations.network.joint_topology_arrays import joint_rows
from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Term
from topoopt.core.arrays import Floats
from topoopt.core.network import TopologyProblem

ALL_ORDERS_SIZE = 6
"""Groups of up to so many servers are given every order: 120 of them."""


@dataclass(frozen=True, eq=False)
class AllReduceTopology:
    """Data of the program.

    Attributes:
        joint: everything but the AllReduce; `senders` must hold all members of the groups.
        groups: with orders, or without: relaxed.
    """

    joint: JointTopology
    groups: tuple[RingGroup, ...]


def group_tables(servers: int, groups: tuple[RingGroup, ...]) -> list[Floats]:
    """For each group float64[n, n], V between its members: what symmetry must preserve."""
    tables = []
    for group in groups:
        table = np.zeros((servers, servers))
        table[np.ix_(group.members, group.members)] = group.volume
        np.fill_diagonal(table, 0.0)
        tables.append(table)
    return tables


def build_arrays(data: AllReduceTopology) -> LpArrays:
    """The program as a minimisation of -lambda; columns of `joint_topology` first, then y and z by group."""
    rows = joint_rows(data.joint)
    load = rows.at("lambda")
    sent: dict[tuple[int, int], list[Term]] = defaultdict(list)
    for g, group in enumerate(data.groups):
        for order in group.orders:
            rows.column("y", g, *order)
            for step in group.steps(order):
                sent[step].append((rows.at("y", g, *order), -group.volume))
        if group.orders:
            rows.row(f"mix_{g}", 0, 0, [*((rows.at("y", g, *order), 1.0) for order in group.orders), (load, -1.0)])
            continue
        members = sorted(group.members)
        pairs = [(i, j) for i in members for j in members if i != j]
        for i, j in pairs:
            rows.column("z", g, i, j)
            sent[i, j].append((rows.at("z", g, i, j), -group.volume))
        for i in members:
            after = [(rows.at("z", g, i, j), 1.0) for j in members if j != i]
            before = [(rows.at("z", g, j, i), 1.0) for j in members if j != i]
            rows.row(f"next_member_{g}_{i}", 0, 0, [*after, (load, -1.0)])
            rows.row(f"previous_member_{g}_{i}", 0, 0, [*before, (load, -1.0)])
        if len(members) > 2:
            for i, j in pairs:
                if i < j:
                    both = [(rows.at("z", g, i, j), 1.0), (rows.at("z", g, j, i), 1.0)]
                    rows.row(f"no_pair_{g}_{i}_{j}", -np.inf, 0, [*both, (load, -1.0)])
    for (s, v), terms in sent.items():
        rows.extend(f"deliver_{s}_{v}", terms)
    return rows.program({("lambda",): -1.0})


def from_topology(problem: TopologyProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance with an AllReduce of all servers besides its demand; every order up to
    `ALL_ORDERS_SIZE` servers, the relaxation beyond; option `symmetry`: 1 with the rules that break symmetry."""
    n, volume = problem.servers, options["volume"]
    orders = tuple((0, *rest) for rest in permutations(range(1, n))) if n <= ALL_ORDERS_SIZE else ()
    group = RingGroup(tuple(range(n)), volume, orders)
    joint = data_of(problem, symmetry=False)
    busiest = problem.degree / joint.upper + volume
    symmetry = find_symmetry(joint.demand, joint.allowed, joint.kept, group_tables(n, (group,)))
    joint = replace(
        joint,
        lower=(1 - 1e-6) / (float(joint.demand.sum()) + n * volume),
        upper=problem.degree / busiest,
        symmetry=symmetry if options["symmetry"] else Symmetry(),
        senders=tuple(range(n)),
    )
    return build_arrays(AllReduceTopology(joint, (group,)))
