"""Demands split over given alternatives (paths, rings, routings) so that the largest load is least; ring orders of
AllReduces are such alternatives, chosen with the routing of all traffic, or with the links as well.

path_split
----------
How demands split over given alternatives (paths, rings) so that the largest load is least.

Decided: which share of each demand goes over each of its alternatives. Path formulation of minimum congestion routing
(multi-commodity flow over given paths; TopoOpt, NSDI'23, routes model-parallel traffic over k shortest paths).

Sets        DEMANDS k; ALTERNATIVES a, each of one demand k(a); RESOURCES r (links), each in one family f(r).
Parameters  use[r, a] >= 0: amount on resource r per unit share of alternative a (bytes times traversals, divided by
            the parallel links of r);  price[a] >= 0: a small charge that breaks ties;  weight[f] > 0 of a family.
Variables   share[a] in [0, 1];  peak[f] >= 0, largest load in family f.

    minimise    sum_f weight[f] peak[f] + sum_a price[a] share[a]
    (1) split       sum_{a of k} share[a] = 1                          for every demand k
    (2) fit_peak    sum_a use[r, a] share[a] - peak[f(r)] <= 0          for every resource r

Size: |ALTERNATIVES| + |FAMILIES| columns, |DEMANDS| + |RESOURCES| rows. One family of all links gives the routing
problem; rings use two (all groups of a size at work, and one alone). With every alternative of a demand present the
optimum equals the arc formulation's; with shortest paths alone it is an upper bound on it.

circulant_flow
--------------
Routing of least load on a circulant (Cayley graph of Z_n) whose demand depends on the displacement alone.

Decided: which mixture of routings, each the same seen from every server, carries the demand. Averaging an optimal flow
over all rotations leaves it optimal, so that one load per class of arcs is enough (the n m columns of the arc
formulation collapse), and a displacement may use its arcs in any order because Z_n is abelian: only how many arcs of
each class it uses matters.

Sets        CLASSES c of arcs v -> v + p_c; ROUTINGS k, generated as needed.
Parameters  load[c, k] = sum_j w[j] steps_k[c, j]: arcs of class c that routing k uses, weighted by the demand w[j] of
            displacement j: the load of every arc of the class;  capacity[c] > 0: parallel links.
Variables   share[k] >= 0;  theta >= 0.

    minimise    theta
    (1) mix    sum_k share[k] = 1
    (2) fit    sum_k load[c, k] share[k] - capacity[c] theta <= 0        for every class c

Dual: theta = max_l sum_j w[j] dist_l(j) over l >= 0 with sum_c capacity[c] l[c] = 1; a routing of least length for l
is a column.

mixture
-------
The mixture of given routings with the least largest link utilisation.

Any convex combination of routings of one demand is a routing of it, with the same combination of loads; so the
routings of a method need not be kept, only their loads.

Sets        ROUTINGS k; ARCS a.
Parameters  u[k, a] >= 0: utilisation of an arc by a routing.
Variables   part[k] >= 0, of the traffic that follows routing k;  theta, largest utilisation.

    minimise    theta
    (1) whole   sum_k part[k] = 1
    (2) fit     sum_k u[k, a] part[k] - theta <= 0          for every a

Size: K + 1 columns, m + 1 rows, dense. The duals of (2) are lengths of links times capacity: none of the routings is
shorter by them than theta, and a routing that is improves the mixture (a master of column generation).

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, pairwise, permutations
from math import comb, gcd
from typing import Any

import numpy as np

from formulations.flow_routing import ConcurrentFlow, add_flow, concurrent_flow_data, concurrent_flow_names
from formulations.joint_topology import JointTopology, Symmetry, find_symmetry, joint_rows, joint_topology_data
from formulations.programs import Families, LpArrays, Term, with_names
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem, raise_any
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


def ring_shares_of(data: AllReduceMix, x: Floats) -> list[Floats]:
    """For each group float64[orders]: shares of a solution vector, dust dropped, summing to 1."""
    at = len(data.demand) * len(data.tail) + 1
    shares = []
    for group in data.groups:
        share = np.maximum(x[at : at + len(group.orders)], 0.0)
        share[share < 1e-9] = 0.0
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


@dataclass(frozen=True, eq=False)
class PathSplit:
    """Data of the problem.

    Attributes:
        demand: int64[A], demand of each alternative, 0..K-1; every demand has one at least.
        resource, alternative, use: the non-zero use[r, a], equally long arrays; repeated entries add up.
        resources: number of resources.
        family: int64[R], family of each resource, 0..F-1; None: one family.
        family_weight: float64[F].
        price: float64[A]; None: no charge.
    """

    demand: Ints
    resource: Ints
    alternative: Ints
    use: Floats
    resources: int
    family: Ints | None = None
    family_weight: tuple[float, ...] = (1.0,)
    price: Floats | None = None


def path_split_arrays(data: PathSplit) -> LpArrays:
    """The linear program; columns are the shares, then the peaks; rows are (1), then (2)."""
    made = Families()
    family = np.zeros(data.resources, dtype=np.int64) if data.family is None else data.family
    share = made.columns(len(data.demand), upper=1.0, cost=0.0 if data.price is None else data.price)
    peak = made.columns(len(data.family_weight), cost=data.family_weight)
    split = made.rows(int(data.demand.max(initial=-1)) + 1, 1.0, 1.0)
    fit_peak = made.rows(data.resources, -np.inf, 0.0)
    made.terms(split[data.demand], share, 1.0)
    made.terms(fit_peak[data.resource], share[data.alternative], data.use)
    made.terms(fit_peak, peak[family], -1.0)
    return made.arrays()


def shares_of(data: PathSplit, x: Floats, *, drop_below: float = 1e-7) -> Floats:
    """float64[A]: shares of a solution vector, dust dropped, summing to 1 for each demand."""
    share = np.clip(x[: len(data.demand)], 0.0, 1.0)
    share[share < drop_below] = 0.0
    total = np.bincount(data.demand, weights=share)
    return np.asarray(share / total[data.demand], dtype=np.float64)


def path_split_names(data: PathSplit) -> tuple[list[str], list[str]]:
    """Names by number: columns `share_k_a`, `peak_f`; rows `split_k`, `fit_peak_r`."""
    shares = [f"share_{k}_{a}" for a, k in enumerate(data.demand.tolist())]
    demands = int(data.demand.max(initial=-1)) + 1
    rows = [f"split_{k}" for k in range(demands)] + [f"fit_peak_{r}" for r in range(data.resources)]
    return shares + [f"peak_{f}" for f in range(len(data.family_weight))], rows


def path_split_from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The program of an instance over the k shortest simple paths of every demand (option `paths`: k).

    Columns are named by the servers of the path (`share_0_3_1`), rows by pair (`split_0_1`) and arc (`fit_peak_0_3`).

    Raises:
        InfeasibleError: a demand without any path within the hop limit.
    """
    import networkx as nx

    arcs = [(int(i), int(j)) for i, j in problem.topology.arcs]
    number = {arc: a for a, arc in enumerate(arcs)}
    graph = nx.DiGraph(sorted(arcs))
    demand: list[int] = []
    entries: list[tuple[int, int, float]] = []
    shares: list[str] = []
    pairs = [(int(s), int(t)) for s, t in np.argwhere(problem.demand > 0)]
    for k, (s, t) in enumerate(pairs):
        for path in _shortest_paths(graph, s, t, int(options["paths"]), problem.max_hops):
            for arc in pairwise(path):
                links = int(problem.topology.multiplicity[number[arc]])
                entries.append((number[arc], len(demand), float(problem.demand[s, t]) / links))
            shares.append("share_" + "_".join(map(str, path)))
            demand.append(k)
    resource, alternative, use = zip(*entries, strict=True)
    data = PathSplit(np.array(demand), np.array(resource), np.array(alternative), np.array(use), len(arcs))
    rows = [f"split_{s}_{t}" for s, t in pairs] + [f"fit_peak_{i}_{j}" for i, j in arcs]
    return with_names(path_split_arrays(data), [*shares, "peak"], rows)


def _shortest_paths(graph: Any, source: int, target: int, most: int, max_hops: int | None) -> list[list[int]]:
    import networkx as nx

    try:
        paths = list(islice(nx.shortest_simple_paths(graph, source, target), most))
    except (nx.NetworkXNoPath, nx.NodeNotFound):
        paths = []
    within = [path for path in paths if max_hops is None or len(path) - 1 <= max_hops]
    if not within:
        limit = "" if max_hops is None else f" within {max_hops} hops"
        raise InfeasibleError(f"no path from server {source} to server {target}{limit}, which have demand")
    return within


MOST_ROUTINGS = 20_000
"""Most columns that `from_routing` generates."""


def circulant_flow_arrays(load: Floats, capacity: Floats) -> LpArrays:
    """The linear program for the routings known so far: load float64[c, k], capacity float64[c].

    Columns are the shares, then theta; rows are (1), then (2) by class.
    """
    classes, routings = load.shape
    made = Families()
    share, theta = made.columns(routings), made.columns(1, cost=1.0)
    mix, fit = made.rows(1, 1.0, 1.0), made.rows(classes, -np.inf, 0.0)
    made.terms(mix, share, 1.0)
    made.terms(fit[:, None], share, load)
    made.terms(fit, theta, -capacity)
    return made.arrays()


def circulant_flow_names(classes: list[int], routings: int) -> tuple[list[str], list[str]]:
    """Names: columns `share_k`, `theta`; rows `mix`, `fit_p` by the offset p of the class."""
    return [*(f"share_{k}" for k in range(routings)), "theta"], ["mix", *(f"fit_{p}" for p in classes)]


def circulant_flow_from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance over routings of least length for a grid of lengths.

    Option `grid`: lengths are 1 + g[c] with whole g >= 0 of sum `grid`, so that the optimum is an upper bound on theta
    that falls as the grid is refined; a solver generates its columns for the lengths it needs instead.

    Raises:
        InputError: topology or demand that do not look the same from every server, or too fine a grid.
        InfeasibleError: a displacement with demand out of reach.
    """
    n, arcs = problem.topology.servers, problem.topology.arcs
    links = np.zeros((n, n))
    links[arcs[:, 0], arcs[:, 1]] = problem.topology.capacity
    errors = []
    for path, table in (("topology", links), ("demand", problem.demand)):
        if not np.array_equal(table, np.roll(table, (1, 1), axis=(0, 1))):
            errors.append(Problem("does not look the same from every server", path=path, allowed="a circulant"))
    if problem.max_hops is not None:
        errors.append(Problem("this formulation knows no hop limit", path="max_hops", value=str(problem.max_hops)))
    offsets, grid = np.flatnonzero(links[0]), int(options["grid"])
    routings = comb(grid + len(offsets) - 1, grid)
    if routings > MOST_ROUTINGS:
        errors.append(Problem(f"{routings} routings", path="grid", value=str(grid), allowed=f"at most {MOST_ROUTINGS}"))
    raise_any(errors)
    lengths = _compositions(grid, len(offsets))
    load = np.unique([_load(problem.demand[0], offsets, 1.0 + np.array(g)) for g in lengths], axis=0).T
    return with_names(
        circulant_flow_arrays(load, links[0, offsets]), *circulant_flow_names(offsets.tolist(), load.shape[1])
    )


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def _load(weight: Floats, offsets: Ints, lengths: Floats) -> Floats:
    """float64[classes]: weighted arcs of each class that shortest paths for these lengths use."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    n = len(weight)
    tail = np.repeat(np.arange(n), len(offsets))
    head = (tail + np.tile(offsets, n)) % n
    graph = csr_array((np.tile(lengths, n), (tail, head)), shape=(n, n))
    distance, before = dijkstra(graph, indices=0, return_predecessors=True)
    if np.isinf(distance[weight > 0]).any():
        raise InfeasibleError("a displacement with demand is out of reach")
    carried = np.where(np.isfinite(distance), weight, 0.0)
    load = np.zeros(len(offsets))
    for v in np.argsort(-distance, kind="stable"):
        if v and np.isfinite(distance[v]):
            load[np.searchsorted(offsets, (v - before[v]) % n)] += carried[v]
            carried[before[v]] += carried[v]
    return load


def mixture_arrays(utilisation: Floats) -> LpArrays:
    """The program of `utilisation`, float64[K, m]; columns part[k], then theta; row (1), then (2) by a."""
    count, m = utilisation.shape
    made = Families()
    part = made.columns((count, 1))
    theta = made.columns((1, 1), cost=1.0)
    whole = made.rows(1, 1.0, 1.0)
    fit = made.rows(m, -np.inf, 0.0)
    made.terms(whole, part, 1.0)
    made.terms(fit, part, utilisation)
    made.terms(fit, theta, -1.0)
    return made.arrays()
