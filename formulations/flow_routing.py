"""Splittable routing by source and arc on a fixed topology makes the largest link load least, for one or several
demands.

concurrent_flow
---------------
Splittable routing of least largest link load on a fixed topology (maximum concurrent flow).

Decided: what each source sends over each arc. Source-aggregated arc formulation: traffic of one source to all its
targets is one commodity, which is exact as any such flow splits into paths by target (Shahrokhi and Matula, J. ACM
1990; lambda = 1/theta is the largest common factor by which all demand could grow).

Sets        SERVERS s, v; ARCS a = (tail, head).
Parameters  D[s, v] >= 0: demand, in units of a link's capacity;  c[a]: parallel links of the arc;
            hop_price >= 0: time of one hop in the unit of theta (0: throughput alone counts).
Variables   flow[s, a] >= 0;  theta >= 0, largest utilisation.

    minimise    theta + hop_price / |D| * sum_sa flow[s, a],         |D| is all demand
    (1) conserve    sum_{a into v} flow[s, a] - sum_{a out of v} flow[s, a] = D[s, v]     for all s and v != s
    (2) fit         sum_s flow[s, a] - c[a] theta <= 0                                    for every arc a

Completion time: theta is the time the busiest link takes to pass a unit of time's worth of demand, and hop_price times
the mean number of hops is the latency of the mean byte; their sum is the (store-and-forward free) completion time of
the traffic, averaged over bytes for its latency part. hop_price = 0 minimises the largest link load.

Size: n m + 1 columns, n (n - 1) + m rows. Dual: lengths l[a] >= 0 of (2) with sum c l = 1 prove
theta >= sum D dist_l whatever the solver did.

orbit_flow
----------
The same where a group of permutations keeps arcs, capacities and demand, and its identity alone keeps a server.

By convexity some optimal routing is kept by the group: the mean of an optimal one over all moves. It is what the first
server of each orbit sends; the arcs of a class, which the group takes to each other, all carry what the first servers
send over the class together.

Sets        SOURCES o, one of each of k orbits; SERVERS v; ARCS a, each in a CLASS p of as many as an orbit has.
Parameters  D[o, v], c[p] as above;  usable[o, a]: arcs that a source may use, all or those near shortest paths.
Variables   flow[o, a] >= 0, where usable;  theta >= 0.

    minimise    theta
    (1) conserve    sum_{a into v} flow[o, a] - sum_{a out of v} flow[o, a] = D[o, v]     for all o and v != o
    (2) fit         sum_o sum_{a in p} flow[o, a] - c[p] theta <= 0                       for every class p

Size: at most k m + 1 columns, k (n - 1) + m k / n rows. Dual: as above, with equal lengths in a class.

concurrent_flow_hops
--------------------
Splittable routing of least link load, or least completion time, over paths of at most H hops.

The arc formulation of `concurrent_flow` on the layered graph: layer k holds what has made k hops, and a unit may leave
at its target in any layer. Decided: what each source sends over each arc as its k-th hop.

Sets        SERVERS s, v; ARCS a = (tail, head); hops k = 1..H.
Variables   flow[s, k, a] >= 0, only where tail(a) is within k - 1 hops of s, and exactly k - 1 hops can end there;
            theta >= 0.
Parameters  D, c, hop_price as in `concurrent_flow`.

    minimise    theta + hop_price / |D| * sum_ska flow[s, k, a]
    (1) arrive    sum_k sum_{a into v} flow[s,k,a] - sum_{k>1} sum_{a out of v} flow[s,k,a] = D[s, v]  for all s, v != s
    (2) onward    sum_{a out of v} flow[s,k+1,a] - sum_{a into v} flow[s,k,a] <= 0     for all s, v != s, 1 <= k < H
    (3) fit       sum_s sum_k flow[s,k,a] - c[a] theta <= 0                            for every arc a

What (2) leaves over in layer k is what ends at v there; (1) makes the layers' sum equal to the demand. Columns: at most
n m H; infeasible exactly when some demand is more than H hops away.

narrowed_flow
-------------
Routing with the least largest link utilisation, where each source may use some arcs only.

Where a source may enter a server over one arc alone, its flow there follows from what leaves, so that only entries of
servers with a choice are variables: one of them stands for the chain of single arcs before it, too.

Sets        CHOICES r, a source and a server it enters over two arcs or more; ENTRIES e, one of these arcs each; ARCS a.
Parameters  need[r] >= 0: demand at the server of r and over chains that start there;  load[a] >= 0: demand over chains
            from the source;  c[a] > 0, capacity.
Variables   x[e] >= 0, flow over an entry and its chain A(e);  theta, largest utilisation.

    minimise    theta
    (1) balance   sum_{e into r} x[e] - sum_{e whose chain starts at r} x[e] = need[r]         for every choice r
    (2) fit       (load[a] + sum_{e: a in A(e)} x[e]) / c[a] - theta <= 0                      for every arc a

Size: |ENTRIES| + 1 columns, |CHOICES| + m rows. With all arcs allowed the optimum is that of concurrent_flow. The duals
of (2) over capacities are lengths of links.

common_routing
--------------
One splittable routing for a set of demand matrices, least largest link load over all of them, on a fixed topology.

Decided: the part of each ordered pair's traffic that goes over each arc, the same for every matrix, so that routes need
not change when traffic does (oblivious over the set; Applegate and Cohen, SIGCOMM 2003, for a polytope of matrices).
Parts depend on source and target, as the mix of targets changes from matrix to matrix: aggregation by source would let
the routing know which matrix is there. A routing that is good for a set is as good for its convex hull, since the
load of an arc is linear in demand.

Sets        SERVERS v; PAIRS p = (s, t) with demand in some matrix; ARCS a = (tail, head); MATRICES k.
Parameters  D[k, p] >= 0: demand, in units of a link's capacity;  c[a]: parallel links of the arc.
Variables   split[p, a] >= 0: part of p's traffic over arc a, none into s or out of t;  theta >= 0, largest utilisation.

    minimise    theta
    (1) conserve    sum_{a into v} split[p, a] - sum_{a out of v} split[p, a] = [v = t]     for all p and v != s
    (2) fit         sum_p D[k, p] split[p, a] - c[a] theta <= 0                             for every k and a

With a cap (a worst case that is allowed) every matrix has its own theta[k] <= cap in (2), and their mean is minimised:
of the routings with the best worst case, one that is good for the other matrices too.

Size: |P| m + 1 columns (with a cap |P| m + |K|), |P| (n - 1) + |K| m rows. With one matrix its optimum is that of
`concurrent_flow`. Dual, without a cap: prices w[k, a] >= 0 of (2) with sum c[a] w[k, a] = 1 prove
theta >= sum_p least[p], the length of a shortest path of p by lengths sum_k D[k, p] w[k, a], whatever the solver did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.programs import Families, LpArrays, with_names
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import RoutingProblem


@dataclass(frozen=True, eq=False)
class ConcurrentFlow:
    """Data of the problem.

    Attributes:
        tail, head: int64[m], distinct arcs, none from a server to itself.
        capacity: float64[m], above 0.
        demand: float64[n, n], zero diagonal, not negative.
        hop_price: see above.
    """

    tail: Ints
    head: Ints
    capacity: Floats
    demand: Floats
    hop_price: float = 0.0


def concurrent_flow_arrays(data: ConcurrentFlow) -> LpArrays:
    """The linear program; column s m + a is flow[s, a], theta is last; rows are (1) by s then v, then (2)."""
    made = Families()
    add_flow(made, data, data.demand.sum(axis=1) > 0, float(data.demand.sum()))
    return made.arrays(as_given=True)


def add_flow(made: Families, data: ConcurrentFlow, sends: Bools, traffic: float) -> Ints:
    """Columns flow, theta and rows (1), (2) for bool[n] sources that send `traffic` in all.

    Returns int64[n, n]: numbers of rows (1), of meaning off the diagonal.
    """
    n, m = len(data.demand), len(data.tail)
    source, apart = np.arange(n)[:, None], ~np.eye(n, dtype=np.bool_)
    # traffic never comes back to its source, and a source without demand sends nothing
    upper = np.where((data.head != source) & sends[:, None], np.inf, 0.0)
    flow = made.columns((n, m), upper=upper, cost=data.hop_price / traffic if data.hop_price else 0.0)
    theta = made.columns(1, cost=1.0)
    conserve = np.zeros((n, n), dtype=np.int64)
    conserve[apart] = made.rows(n * (n - 1), data.demand[apart], data.demand[apart])
    fit = made.rows(m, -np.inf, 0.0)
    made.terms(conserve[:, data.tail], flow, -1.0, where=data.tail != source)
    made.terms(conserve[:, data.head], flow, 1.0, where=data.head != source)
    made.terms(fit, flow, 1.0)
    made.terms(fit, theta, -data.capacity)
    return conserve


def concurrent_flow_names(data: ConcurrentFlow) -> tuple[list[str], list[str]]:
    """Names of the columns (`flow_s_i_j`: source, tail, head; `theta`) and rows (`conserve_s_v`, `fit_i_j`)."""
    every = range(len(data.demand))
    arcs = [f"{i}_{j}" for i, j in zip(data.tail.tolist(), data.head.tolist(), strict=True)]
    columns = [f"flow_{s}_{arc}" for s in every for arc in arcs]
    rows = [f"conserve_{s}_{v}" for s in every for v in every if v != s]
    return [*columns, "theta"], rows + [f"fit_{arc}" for arc in arcs]


def concurrent_flow_data(problem: RoutingProblem, *, hop_price: float = 0.0) -> ConcurrentFlow:
    """Data of an instance; a price of hops of 0 stands for the instance's own."""
    arcs = problem.topology.arcs.astype(np.int64)
    capacity = problem.topology.capacity
    return ConcurrentFlow(
        arcs[:, 0].copy(), arcs[:, 1].copy(), capacity, problem.demand, hop_price or problem.hop_price
    )


def concurrent_flow_from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance.

    Raises:
        InputError: a hop limit, which these columns cannot state.
    """
    if problem.max_hops is not None:
        text = "this formulation knows no hop limit"
        value = str(problem.max_hops)
        raise InputError([Problem(text, path="max_hops", value=value, allowed="--formulation concurrent_flow_hops")])
    data = concurrent_flow_data(problem, hop_price=options["hop_price"])
    return with_names(concurrent_flow_arrays(data), *concurrent_flow_names(data))


def concurrent_flow_pyomo(data: ConcurrentFlow) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    import pyomo.environ as pyo

    n, m = len(data.demand), len(data.tail)
    demand, tail, head = data.demand.tolist(), data.tail.tolist(), data.head.tolist()
    into = {v: [a for a in range(m) if head[a] == v] for v in range(n)}
    out_of = {v: [a for a in range(m) if tail[a] == v] for v in range(n)}
    price = data.hop_price / float(data.demand.sum())

    model = pyo.ConcreteModel("concurrent flow")
    model.servers = pyo.RangeSet(0, n - 1)
    model.arcs = pyo.RangeSet(0, m - 1)

    def sendable(_: Any, s: int, a: int) -> tuple[float, float | None]:
        return (0.0, None) if head[a] != s and sum(demand[s]) > 0 else (0.0, 0.0)

    def balance(block: Any, s: int, v: int) -> Any:
        if s == v:
            return pyo.Constraint.Skip
        arriving = sum(block.flow[s, a] for a in into[v])
        leaving = sum(block.flow[s, a] for a in out_of[v])
        # a server without any arc has no term at all, so the rule would be a plain comparison of numbers
        return pyo.inequality(demand[s][v], arriving - leaving + 0.0 * block.theta, demand[s][v])

    def fits(block: Any, a: int) -> Any:
        return sum(block.flow[s, a] for s in range(n)) - float(data.capacity[a]) * block.theta <= 0.0

    model.flow = pyo.Var(model.servers, model.arcs, bounds=sendable)
    model.theta = pyo.Var(bounds=(0.0, None))
    model.conserve = pyo.Constraint(model.servers, model.servers, rule=balance)
    model.fit = pyo.Constraint(model.arcs, rule=fits)
    hops = sum(model.flow[s, a] for s in range(n) for a in range(m))
    model.least_load = pyo.Objective(expr=model.theta + price * hops, sense=pyo.minimize)
    return model


def concurrent_flow_flow(data: ConcurrentFlow, x: Floats) -> Floats:
    """float64[n, m]: the flows of a solution vector, clipped at 0 (they need a repair before they count)."""
    return np.maximum(x[:-1], 0.0).reshape(len(data.demand), len(data.tail))


def lengths_of(data: ConcurrentFlow, row_dual: Floats) -> Floats:
    """float64[m]: lengths from the dual values of a minimisation (rows (2) have duals <= 0), clipped at 0."""
    return np.maximum(-row_dual[-len(data.tail) :], 0.0)


@dataclass(frozen=True, eq=False)
class OrbitFlow:
    """Data of the problem.

    Attributes:
        tail, head, capacity: of the arcs, as in `ConcurrentFlow`.
        label: int64[m], class of each arc.
        sources: int64[k], first server of each orbit.
        demand: float64[k, n], of the sources.
        usable: bool[k, m], arcs that each source may use.
    """

    tail: Ints
    head: Ints
    capacity: Floats
    label: Ints
    sources: Ints
    demand: Floats
    usable: Bools


def orbit_flow_arrays(data: OrbitFlow) -> LpArrays:
    """The linear program; columns are the usable flow[o, a] by o, a, then theta; rows are (1) by o, v, then (2)."""
    count, n = data.demand.shape
    classes = int(data.label.max()) + 1
    width = np.zeros(classes)
    width[data.label] = data.capacity
    apart = np.arange(n) != data.sources[:, None]
    orbit, arc = np.nonzero(data.usable)
    source, tail, head = data.sources[orbit], data.tail[arc], data.head[arc]
    made = Families()
    flow, theta = made.columns(len(arc)), made.columns(1, cost=1.0)
    conserve = np.zeros((count, n), dtype=np.int64)
    conserve[apart] = made.rows(count * (n - 1), data.demand[apart], data.demand[apart])
    fit = made.rows(classes, -np.inf, 0.0)
    made.terms(conserve[orbit, tail], flow, -1.0, where=tail != source)
    made.terms(conserve[orbit, head], flow, 1.0, where=head != source)
    made.terms(fit[data.label[arc]], flow, 1.0)
    made.terms(fit, theta, -width)
    return made.arrays(as_given=True)


def hop_columns(data: ConcurrentFlow, max_hops: int) -> tuple[Ints, Ints, Ints]:
    """Source, hop (1..H) and arc of each flow variable that can be used, int64; no traffic comes back to its source."""
    n = len(data.demand)
    at = np.eye(n, dtype=bool)
    sources, hops, arcs = [], [], []
    for k in range(1, max_hops + 1):
        s, a = np.nonzero(at[:, data.tail] & (data.head != np.arange(n)[:, None]))
        sources.append(s)
        arcs.append(a)
        hops.append(np.full(len(s), k))
        at = np.zeros((n, n), dtype=bool)
        at[s, data.head[a]] = True
    source, hop, arc = (np.concatenate(part).astype(np.int64) for part in (sources, hops, arcs))
    order = np.lexsort((arc, hop, source))
    return source[order], hop[order], arc[order]


def concurrent_flow_hops_arrays(data: ConcurrentFlow, max_hops: int) -> LpArrays:
    """The linear program; columns as `hop_columns`, then theta; rows are (1) by s, v; (2) by k, s, v; (3)."""
    n, m = len(data.demand), len(data.tail)
    source, hop, arc = hop_columns(data, max_hops)
    apart = ~np.eye(n, dtype=np.bool_)
    pair = np.cumsum(apart).reshape(n, n) - 1
    head, tail = pair[source, data.head[arc]], pair[source, data.tail[arc]]
    later, going_on = hop > 1, hop < max_hops
    made = Families()
    flow = made.columns(len(source), cost=data.hop_price / data.demand.sum() if data.hop_price else 0.0)
    theta = made.columns(1, cost=1.0)
    arrive = made.rows(n * (n - 1), data.demand[apart], data.demand[apart])
    onward = made.rows((max_hops - 1, n * (n - 1)), -np.inf, 0.0)
    fit = made.rows(m, -np.inf, 0.0)
    made.terms(arrive[head], flow, 1.0)
    made.terms(arrive[tail[later]], flow[later], -1.0)
    made.terms(onward[hop[later] - 2, tail[later]], flow[later], 1.0)
    made.terms(onward[hop[going_on] - 1, head[going_on]], flow[going_on], -1.0)
    made.terms(fit[arc], flow, 1.0)
    made.terms(fit, theta, -data.capacity)
    return made.arrays()


def concurrent_flow_hops_names(data: ConcurrentFlow, max_hops: int) -> tuple[list[str], list[str]]:
    """Names: columns `flow_s_k_i_j`, `theta`; rows `arrive_s_v`, `onward_k_s_v`, `fit_i_j`."""
    n = len(data.demand)
    arcs = [f"{i}_{j}" for i, j in zip(data.tail.tolist(), data.head.tolist(), strict=True)]
    keys = zip(*(part.tolist() for part in hop_columns(data, max_hops)), strict=True)
    pairs = [f"{s}_{v}" for s in range(n) for v in range(n) if v != s]
    onward = [f"onward_{k}_{pair}" for k in range(1, max_hops) for pair in pairs]
    rows = [f"arrive_{pair}" for pair in pairs] + onward + [f"fit_{arc}" for arc in arcs]
    return [*(f"flow_{s}_{k}_{arcs[a]}" for s, k, a in keys), "theta"], rows


def concurrent_flow_hops_from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance; option `max_hops`: 0 takes the instance's, or n - 1 (no limit)."""
    most = problem.topology.servers - 1
    limit = min(int(options["max_hops"]) or problem.max_hops or most, most)
    data = concurrent_flow_data(problem)
    return with_names(concurrent_flow_hops_arrays(data, limit), *concurrent_flow_hops_names(data, limit))


def concurrent_flow_hops_flow(data: ConcurrentFlow, max_hops: int, x: Floats) -> Floats:
    """float64[H, n, m]: the flows of a solution vector by hop, clipped at 0 (they need a repair before they count)."""
    source, hop, arc = hop_columns(data, max_hops)
    flow = np.zeros((max_hops, len(data.demand), len(data.tail)))
    flow[hop - 1, source, arc] = np.maximum(x[:-1], 0.0)
    return flow


def narrowed_flow_arrays(
    need: Floats, into: Ints, start: Ints, entry: Ints, arc: Ints, load: Floats, capacity: Floats
) -> LpArrays:
    """The program; columns are x, then theta; rows (1), then (2).

    Args:
        need: float64[R].
        into, start: int64[E], the choice that an entry enters, and that at the start of its chain; -1: its source.
        entry, arc: int64[k] each, the pairs of an entry and an arc of its chain or itself.
        load, capacity: float64[m].
    """
    made = Families()
    x = made.columns(len(into))
    theta = made.columns((1, 1), cost=1.0)
    balance = made.rows(len(need), need, need)
    fit = made.rows(len(capacity), -np.inf, -load / capacity)
    made.terms(balance[into], x, 1.0)
    drawn = np.flatnonzero(start >= 0)
    made.terms(balance[start[drawn]], x[drawn], -1.0)
    made.terms(fit[arc], x[entry], 1.0 / capacity[arc])
    made.terms(fit, theta, -1.0)
    return made.arrays()


@dataclass(frozen=True, eq=False)
class CommonRoutingProgram:
    """Data of the problem.

    Attributes:
        tail, head: int64[m], distinct arcs, none from a server to itself.
        capacity: float64[m], above 0.
        demands: float64[k, n, n], zero diagonals, not negative.
        cap: see above; None: the worst theta is minimised.
    """

    tail: Ints
    head: Ints
    capacity: Floats
    demands: Floats
    cap: float | None = None

    @property
    def pairs(self) -> Ints:
        """int64[P, 2]: source and target of pairs with demand in some matrix, sorted."""
        return np.argwhere(self.demands.max(axis=0) > 0)


def common_routing_arrays(data: CommonRoutingProgram) -> LpArrays:
    """The linear program; column p m + a is split[p, a], theta is last; rows are (1) by p then v, then (2) by k, a."""
    count, m, n = len(data.pairs), len(data.tail), data.demands.shape[1]
    source, target = data.pairs[:, :1], data.pairs[:, 1:]
    steps, servers = len(data.demands), np.arange(n)
    thetas, most = (1, np.inf) if data.cap is None else (steps, data.cap)
    made = Families()
    closed = (data.head == source) | (data.tail == target)
    split = made.columns((count, m), upper=np.where(closed, 0.0, np.inf))
    theta = made.columns((thetas, 1), upper=most, cost=1.0 / thetas)
    arrive = (servers == target)[servers != source]
    conserve = np.zeros((count, n), dtype=np.int64)
    conserve[servers != source] = made.rows(len(arrive), arrive, arrive)
    fit = made.rows((steps, m), -np.inf, 0.0)
    made.terms(conserve[:, data.tail], split, -1.0, where=data.tail != source)
    made.terms(conserve[:, data.head], split, 1.0, where=data.head != source)
    for k, demand in enumerate(data.demands):
        made.terms(fit[k], split, demand[source, target])
    made.terms(fit, theta, -data.capacity)
    return made.arrays()


def common_routing_names(data: CommonRoutingProgram) -> tuple[list[str], list[str]]:
    """Names: columns `split_s_t_i_j`, `theta` (with a cap `theta_k`); rows `conserve_s_t_v`, `fit_k_i_j`."""
    arcs = [f"{i}_{j}" for i, j in zip(data.tail.tolist(), data.head.tolist(), strict=True)]
    pairs = data.pairs.tolist()
    columns = [f"split_{s}_{t}_{arc}" for s, t in pairs for arc in arcs]
    rows = [f"conserve_{s}_{t}_{v}" for s, t in pairs for v in range(data.demands.shape[1]) if v != s]
    columns += ["theta"] if data.cap is None else [f"theta_{k}" for k in range(len(data.demands))]
    return columns, rows + [f"fit_{k}_{arc}" for k in range(len(data.demands)) for arc in arcs]


def common_routing_from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance, whose one matrix is the whole set.

    Raises:
        InputError: a limit or price of hops, which these columns cannot state.
    """
    if problem.max_hops is not None or problem.hop_price:
        text, path = "this formulation knows no limit and no price of hops", "max_hops"
        raise InputError(
            [Problem(text, path=path if problem.max_hops else "hop_price", allowed="concurrent_flow_hops")]
        )
    arcs = problem.topology.arcs.astype(np.int64)
    capacity = problem.topology.capacity
    data = CommonRoutingProgram(arcs[:, 0].copy(), arcs[:, 1].copy(), capacity, problem.demands)
    return with_names(common_routing_arrays(data), *common_routing_names(data))


def split_of(data: CommonRoutingProgram, x: Floats) -> Floats:
    """float64[P, m]: the parts of a solution vector, clipped to [0, 1] (they need a repair before they count)."""
    count = len(data.pairs) * len(data.tail)
    return np.clip(x[:count], 0.0, 1.0).reshape(-1, len(data.tail))


def prices_of(data: CommonRoutingProgram, row_dual: Floats) -> Floats:
    """float64[k, m]: prices w from the dual values of a minimisation (rows (2) have duals <= 0), clipped at 0."""
    steps, m = len(data.demands), len(data.tail)
    return np.maximum(-row_dual[-steps * m :], 0.0).reshape(steps, m)
