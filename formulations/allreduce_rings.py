"""The ring orders of AllReduces are chosen together with the routing of all traffic, or with the links as well.

allreduce_mix
-------------
Which ring orders carry each group's AllReduce, jointly with the routing of all traffic, on a fixed topology.

Decided: what share of the AllReduce of every group runs on which ring order (traffic is mutable: any cyclic order of
the members is as good as any other; TopoOpt, NSDI'23, section 4), and how the steps of the rings and the model-parallel
traffic flow. A step between members without a direct link is demand like any other and is routed here, so every order
of the members is allowed. Traffic is aggregated by source, which is exact (see `concurrent_flow`).

Sets        SERVERS s, v; ARCS a = (tail, head); GROUPS g of k_g servers; ORDERS[g]: cyclic orders r of its members,
            next_r(s) the member after s.
Parameters  D[s, v] >= 0: model-parallel demand, in units of a link's capacity;  c[a]: parallel links of the arc;
            V[g] = 2 (k_g - 1)/k_g * payload: what every member sends to the next one in a ring AllReduce, same unit;
            hop_price >= 0: charge per unit of traffic and hop, relative to all traffic, that breaks ties.
Variables   flow[s, a] >= 0;  theta >= 0, largest utilisation;  share[g, r] >= 0.

    minimise    theta + hop_price / W * sum_sa flow[s, a],      W = sum D + sum_g k_g V[g]
    (1) conserve    sum_{a into v} flow[s, a] - sum_{a out of v} flow[s, a] - sum_{g, r: next_r(s) = v} V[g] share[g, r]
                        = D[s, v]                                                         for all s and v != s
    (2) fit         sum_s flow[s, a] - c[a] theta <= 0                                    for every arc a
    (3) mix         sum_{r in ORDERS[g]} share[g, r] = 1                                  for every group g

Columns of orders are few of the (k - 1)! there are: given lengths l[a] >= 0 from (2), with sum c l = 1, the column of r
prices out by V[g] times its length sum_i dist_l(s_i, next_r(s_i)) less the price of (3), so that the best new column is
a shortest Hamiltonian cycle of the group (column generation: solvers/job/allreduce_mix.py). Any l prove

    theta >= sum D dist_l + sum_g V[g] ring_l(g),      ring_l(g) the length of the shortest ring of g under dist_l.

Size: n m + 1 + |ORDERS| columns, n (n - 1) + m + |GROUPS| rows. Restricted to one order per group it is
`concurrent_flow` with the steps added to the demand; with links as variables it is `allreduce_topology`.

allreduce_topology
------------------
Links, ring orders and routing together: the network that carries most when AllReduce may choose its rings (MILP).

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
from math import gcd

import numpy as np

from formulations.flow_routing import ConcurrentFlow, add_flow, concurrent_flow_data, concurrent_flow_names
from formulations.joint_topology import JointTopology, Symmetry, find_symmetry, joint_rows, joint_topology_data
from formulations.programs import Families, LpArrays, Term, with_names
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import RoutingProblem, TopologyProblem

Order = tuple[int, ...]


@dataclass(frozen=True)
class RingGroup:
    """An AllReduce group.

    Attributes:
        members: the servers, two or more.
        volume: V, what each member sends, in units of a link's capacity.
        orders: cyclic orders of the members it may run on; no two are rotations of each other.
    """

    members: Order
    volume: float
    orders: tuple[Order, ...]

    def steps(self, order: Order) -> list[tuple[int, int]]:
        """(member, next member) once round."""
        return list(zip(order, (*order[1:], order[0]), strict=True))


@dataclass(frozen=True, eq=False)
class AllReduceMix:
    """Data of the problem.

    Attributes:
        tail, head: int64[m], distinct arcs, none from a server to itself.
        capacity: float64[m], above 0.
        demand: float64[n, n], zero diagonal, not negative.
        groups: with one order each at least.
        hop_price: see above.
    """

    tail: Ints
    head: Ints
    capacity: Floats
    demand: Floats
    groups: tuple[RingGroup, ...]
    hop_price: float = 0.0

    @property
    def traffic(self) -> float:
        """W: everything sent, at one hop."""
        return float(self.demand.sum()) + sum(len(group.members) * group.volume for group in self.groups)

    @property
    def sends(self) -> Bools:
        """bool[n]: servers with traffic of their own."""
        sends = self.demand.sum(axis=1) > 0
        for group in self.groups:
            sends[list(group.members)] |= group.volume > 0
        return np.asarray(sends)


def allreduce_mix_arrays(data: AllReduceMix) -> LpArrays:
    """The linear program; columns: flow[s, a] at s m + a, theta, share by group and order; rows (1), (2), (3)."""
    flow = ConcurrentFlow(data.tail, data.head, data.capacity, data.demand, data.hop_price)
    made = Families()
    conserve = add_flow(made, flow, data.sends, data.traffic)
    column_names, row_names = concurrent_flow_names(flow)
    for g, group in enumerate(data.groups):
        share, mix = made.columns(len(group.orders)), made.rows(1, 1.0, 1.0)
        made.terms(mix, share, 1.0)
        orders = np.array(group.orders)
        made.terms(conserve[orders, np.roll(orders, -1, axis=1)], share[:, None], -group.volume)
        column_names += [f"share_{g}_{'_'.join(map(str, order))}" for order in group.orders]
        row_names.append(f"mix_{g}")
    return with_names(made.arrays(), column_names, row_names)


def whole_group(servers: int, volume: float, orders: int) -> RingGroup:
    """The group of all servers, on the first few orders of coprime steps (TotientPerms), at most `orders` of them."""
    steps = [q for q in range(1, max(servers, 2)) if gcd(q, servers) == 1][:orders]
    return RingGroup(
        tuple(range(servers)), volume, tuple(tuple(q * i % servers for i in range(servers)) for q in steps)
    )


def allreduce_mix_from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance with an AllReduce of all servers besides its demand.

    Raises:
        InputError: a hop limit, which these columns cannot state.
    """
    if problem.max_hops is not None:
        text = "this formulation knows no hop limit"
        raise InputError([Problem(text, path="max_hops", value=str(problem.max_hops), allowed="none")])
    flow = concurrent_flow_data(problem, hop_price=0.0)
    group = whole_group(len(flow.demand), options["volume"], int(options["orders"]))
    return allreduce_mix_arrays(
        AllReduceMix(flow.tail, flow.head, flow.capacity, flow.demand, (group,), options["hop_price"])
    )


def shares_of(data: AllReduceMix, x: Floats, *, drop_below: float = 1e-9) -> list[Floats]:
    """For each group float64[orders]: shares of a solution vector, dust dropped, summing to 1."""
    at = len(data.demand) * len(data.tail) + 1
    shares = []
    for group in data.groups:
        share = np.maximum(x[at : at + len(group.orders)], 0.0)
        share[share < drop_below] = 0.0
        total = float(share.sum())
        shares.append(share / total if total > 0 else np.full(len(share), 1.0 / len(share)))
        at += len(group.orders)
    return shares


def allreduce_mix_flow(data: AllReduceMix, x: Floats) -> Floats:
    """float64[n, m]: the flows of a solution vector, clipped at 0 (they need a repair before they count)."""
    n, m = len(data.demand), len(data.tail)
    return np.maximum(x[: n * m], 0.0).reshape(n, m)


def lengths_of(data: AllReduceMix, row_dual: Floats) -> Floats:
    """float64[m]: lengths from the dual values of rows (2), which are <= 0 in a minimisation, clipped at 0."""
    n, m = len(data.demand), len(data.tail)
    return np.maximum(-row_dual[n * (n - 1) : n * (n - 1) + m], 0.0)


def total_demand(data: AllReduceMix, shares: list[Floats]) -> Floats:
    """float64[n, n]: model-parallel demand and the steps of rings with these shares."""
    total = data.demand.copy()
    for group, share in zip(data.groups, shares, strict=True):
        for order, part in zip(group.orders, share.tolist(), strict=True):
            for here, there in group.steps(order):
                total[here, there] += part * group.volume
    return total


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


def allreduce_topology_arrays(data: AllReduceTopology) -> LpArrays:
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


def allreduce_topology_from_topology(problem: TopologyProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance with an AllReduce of all servers besides its demand; every order up to
    `ALL_ORDERS_SIZE` servers, the relaxation beyond; option `symmetry`: 1 with the rules that break symmetry."""
    n, volume = problem.servers, options["volume"]
    orders = tuple((0, *rest) for rest in permutations(range(1, n))) if n <= ALL_ORDERS_SIZE else ()
    group = RingGroup(tuple(range(n)), volume, orders)
    joint = joint_topology_data(problem, symmetry=False)
    busiest = problem.degree / joint.upper + volume
    symmetry = find_symmetry(joint.demand, joint.allowed, joint.kept, group_tables(n, (group,)))
    joint = replace(
        joint,
        lower=(1 - 1e-6) / (float(joint.demand.sum()) + n * volume),
        upper=problem.degree / busiest,
        symmetry=symmetry if options["symmetry"] else Symmetry(),
        senders=tuple(range(n)),
    )
    return allreduce_topology_arrays(AllReduceTopology(joint, (group,)))
