r"""Which ring orders carry each group's AllReduce, jointly with the routing of all traffic, on a fixed topology.

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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np

from formulations.network.concurrent_flow import ConcurrentFlow, add_flow, data_of, names_of
from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import RoutingProblem

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


def build_arrays(data: AllReduceMix) -> LpArrays:
    """The linear program; columns: flow[s, a] at s m + a, theta, share by group and order; rows (1), (2), (3)."""
    flow = ConcurrentFlow(data.tail, data.head, data.capacity, data.demand, data.hop_price)
    made = Families()
    conserve = add_flow(made, flow, data.sends, data.traffic)
    column_names, row_names = names_of(flow)
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


def from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance with an AllReduce of all servers besides its demand.

    Raises:
        InputError: a hop limit, which these columns cannot state.
    """
    if problem.max_hops is not None:
        text = "this formulation knows no hop limit"
        raise InputError([Problem(text, path="max_hops", value=str(problem.max_hops), allowed="none")])
    flow = data_of(problem, hop_price=0.0)
    group = whole_group(len(flow.demand), options["volume"], int(options["orders"]))
    return build_arrays(AllReduceMix(flow.tail, flow.head, flow.capacity, flow.demand, (group,), options["hop_price"]))


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


def flow_of(data: AllReduceMix, x: Floats) -> Floats:
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
