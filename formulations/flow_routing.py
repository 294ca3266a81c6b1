"""Splittable routing by source and arc on a fixed topology makes the largest link load least, for one or several
demands.

Below: the best rates of All-to-All and AllReduce, and schedules of whole chunks in given steps.

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

all_to_all_rate
---------------
The best rate of All-to-All: every rank sends the same to every other, split over paths, within the rates of
links.

    maximise  lambda
    (1) fit        sum_s flow[s,e] <= c[e]                                        every link e
    (2) conserve   sum_{e into v} flow[s,e] - sum_{e out of v} flow[s,e] = lambda    every source s, every rank v but s
                   sum_{e into w} flow[s,e] - sum_{e out of w} flow[s,e] = 0         every switch w
    flow >= 0

flow[s,.] is what rank s sends, aggregated over destinations; none comes back to s, and where ranks do not relay it
leaves no rank but s. Columns: flow by source and link, then lambda; rows: (1) by link, (2) by source and node. With one
source alone the same is the best rate of a broadcast to ranks that each get a message of their own.

allreduce_roots
---------------
The best rate of AllReduce: pieces go up in-trees to roots and down from them, roots used unequally.

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

step_schedule
-------------
A schedule in a given number of steps, as a mixed-integer program: whole chunks, the fullest link of each step.

    minimise  sum_t load[t]
    (1) full    sum_c sent[c,e,t] - rate[e] load[t] <= 0                 every link e, every step t
    (2) there   sent[c,ij,t] - most[ij] has[c,i,t] <= 0                  i a rank: it has the chunk before the step
    (3) pass    sum_j sent[c,wj,t] - sum_i sent[c,iw,t] = 0              w a switch: it holds nothing
    (4) copy    sent[c,wj,t] - sum_i sent[c,iw,t] <= 0                   instead of (3), where switches copy
    (5) gain    has[c,j,t+1] - has[c,j,t] - sum_i sent[c,ij,t] <= 0      every node j
    has[c,i,0] = 1 at the owner alone, has[c,i,S] = 1 at all ranks, 0 at switches
    has in {0, 1}, sent in {0, .., most}, load >= 0

most is 1, but N - 1 into switches that do not copy. Time-expanded in the steps of a synchronous schedule (the variables
of SCCL and TE-CCL); exact, and for small cases only. Columns: sent by chunk, link, step; has by chunk, node, step; load
by step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.programs import Families, LpArrays, with_names
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.collective import CollectiveProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import RoutingProblem
from topoopt.core.rated_network import RatedNetwork


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


Arc = tuple[int, int]


def allowed_arcs(network: RatedNetwork, rank: int, *, relaying: bool) -> Ints:
    """int64, arcs that what a rank sends may use: none back to it, and none out of other ranks that do not relay."""
    tails, heads = network.arcs[:, 0], network.arcs[:, 1]
    usable = heads != rank
    if not relaying:
        usable &= network.is_switch[tails] | (tails == rank)
    return np.flatnonzero(usable)


def all_to_all_rate_arrays(
    network: RatedNetwork, capacity: Floats, *, relaying: bool = True, source: int | None = None
) -> tuple[LpArrays, Ints]:
    """The program, minimising -lambda; the last column is lambda, the first rows are the links.

    Args:
        network: whose arcs and switches count.
        capacity: float64[m], in any unit.
        relaying: whether ranks pass on what others send.
        source: the only rank that sends; None: all do.

    Returns:
        The program, and int64[sources, m], the column of what each source (row) sends over each arc; -1 where it
        may not.
    """
    program = Families()
    links = program.rows(len(network.arcs), -np.inf, capacity)
    sources = network.ranks.tolist() if source is None else [source]
    sent = [_source_flow(program, links, network, rank, relaying=relaying) for rank in sources]
    rate = program.columns(1, cost=-1.0)
    for rank, (_, arrival) in zip(sources, sent, strict=True):
        program.terms(arrival[np.setdiff1d(network.ranks, [rank])], rate[0], -1.0)
    return program.arrays(), np.array([columns for columns, _ in sent])


def all_to_all_rate_names(network: RatedNetwork, *, relaying: bool = True) -> tuple[list[str], list[str]]:
    """Names: columns `flow_s_i_j`, `lambda`; rows `fit_i_j`, `conserve_s_v`."""
    arcs = [f"{tail}_{head}" for tail, head in network.arcs.tolist()]
    ranks = network.ranks.tolist()
    usable = {rank: allowed_arcs(network, rank, relaying=relaying).tolist() for rank in ranks}
    columns = [f"flow_{rank}_{arcs[arc]}" for rank in ranks for arc in usable[rank]]
    rows = [f"conserve_{rank}_{node}" for rank in ranks for node in range(network.nodes) if node != rank]
    return [*columns, "lambda"], [f"fit_{arc}" for arc in arcs] + rows


def all_to_all_rate_from_collective(problem: CollectiveProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of the network of an instance, capacities in GB/s, whatever its collective."""
    program, _ = all_to_all_rate_arrays(problem.network, problem.network.gbytes_per_s, relaying=problem.relaying)
    return with_names(program, *all_to_all_rate_names(problem.network, relaying=problem.relaying))


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


MOST_NODES = 12
"""Nodes of a network up to which the rows of all sets are written out."""


def allreduce_roots_arrays(network: RatedNetwork, capacity: Floats) -> LpArrays:
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
    made = Families.extending(with_names(allreduce_roots_arrays(network, capacity), *allreduce_roots_names(network)))
    for nodes in sets_of(network):
        side = np.isin(np.arange(network.nodes), nodes)
        text = "_".join(map(str, nodes))
        for name, reduce in (("leave", False), ("reach", True)):
            columns, values = set_row(network, side, reduce=reduce)
            made.terms(made.rows(1, 0.0, np.inf, names=[f"{name}_{text}"]), columns.astype(np.int64), values)
    return made.arrays()


def allreduce_roots_names(network: RatedNetwork) -> tuple[list[str], list[str]]:
    """Names of the program without rows of sets."""
    arcs = [f"{tail}_{head}" for tail, head in network.arcs.tolist()]
    kinds = ("broadcast", "reduce")
    columns = [f"{kind}_{arc}" for kind in kinds for arc in arcs] + [f"root_{rank}" for rank in network.ranks]
    switches = np.flatnonzero(network.is_switch).tolist()
    return columns, [f"fit_{arc}" for arc in arcs] + [f"{kind}_balance_{w}" for kind in kinds for w in switches]


def allreduce_roots_from_collective(problem: CollectiveProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of the network of an instance, capacities in GB/s, whatever its collective.

    Raises:
        InputError: more nodes than sets can be written out for.
    """
    network = problem.network
    if network.nodes > MOST_NODES:
        text = "too many nodes to write out the rows of all sets"
        raise InputError([Problem(text, path="topology", value=str(network.nodes), allowed=f"2 to {MOST_NODES}")])
    return build_whole(network, network.gbytes_per_s)


def step_schedule_arrays(
    network: RatedNetwork, owners: Ints, rate: Floats, steps: int, *, multicast: bool = False
) -> tuple[LpArrays, Ints, Ints]:
    """The program, its columns F, int64[chunks, m, steps], and its columns U, int64[steps].

    Args:
        owners: int64[chunks], the rank that has each chunk at the beginning.
        rate: float64[m], of links, chunks a unit of load.
        steps: S.
        multicast: whether switches copy.
    """
    m, chunks, ranks = len(network.arcs), len(owners), network.ranks
    program = Families()
    tails, heads = network.arcs.T.astype(np.int64)
    most = np.where(network.is_switch[heads] & (not multicast), len(ranks) - 1.0, 1.0)
    sent = program.columns((chunks, m, steps), upper=most[:, None], integer=True)
    lower = np.zeros((chunks, network.nodes, steps + 1))
    upper = np.ones((chunks, network.nodes, steps + 1))
    upper[:, network.is_switch] = 0.0
    upper[:, :, 0] = 0.0
    upper[np.arange(chunks), owners, 0] = 1.0
    lower[np.arange(chunks), owners] = 1.0
    lower[:, ranks, steps] = 1.0
    has = program.columns((chunks, network.nodes, steps + 1), lower=lower, upper=upper, integer=True)
    load = program.columns(steps, cost=1.0)
    rows = program.rows((m, steps), -np.inf, 0.0)
    program.terms(rows[None], sent, 1.0)
    program.terms(rows, load[None, :], -rate[:, None])
    from_rank = np.flatnonzero(~network.is_switch[tails])
    rows = program.rows((chunks, len(from_rank), steps), -np.inf, 0.0)
    program.terms(rows, sent[:, from_rank], 1.0)
    program.terms(rows, has[:, tails[from_rank], :-1], -most[from_rank, None])
    for switch in np.flatnonzero(network.is_switch).tolist():
        into, out = np.flatnonzero(heads == switch), np.flatnonzero(tails == switch)
        if multicast:
            rows = program.rows((chunks, len(out), steps), -np.inf, 0.0)
            program.terms(rows, sent[:, out], 1.0)
            program.terms(rows[:, :, None], sent[:, None, into], -1.0)
        else:
            rows = program.rows((chunks, steps), 0.0, 0.0)
            program.terms(rows[:, None], sent[:, out], 1.0)
            program.terms(rows[:, None], sent[:, into], -1.0)
    rows = program.rows((chunks, network.nodes, steps), -np.inf, 0.0)
    program.terms(rows, has[:, :, 1:], 1.0)
    program.terms(rows, has[:, :, :-1], -1.0)
    program.terms(rows[:, heads], sent, -1.0)
    return program.arrays(), sent, load


def step_schedule_names(
    network: RatedNetwork, chunks: int, steps: int, *, multicast: bool = False
) -> tuple[list[str], list[str]]:
    """Names: columns `sent_c_i_j_t`, `has_c_v_t`, `load_t`; rows `full_i_j_t`, `there_c_i_j_t`, `pass_c_w_t` or
    `copy_c_w_j_t`, `gain_c_v_t`."""
    links = network.arcs.tolist()
    arcs = [f"{tail}_{head}" for tail, head in links]
    all_chunks, nodes, times = range(chunks), range(network.nodes), range(steps)
    columns = [f"sent_{c}_{arc}_{t}" for c in all_chunks for arc in arcs for t in times]
    columns += [f"has_{c}_{v}_{t}" for c in all_chunks for v in nodes for t in range(steps + 1)]
    columns += [f"load_{t}" for t in times]
    rows = [f"full_{arc}_{t}" for arc in arcs for t in times]
    own = [arc for arc, (tail, _) in zip(arcs, links, strict=True) if not network.is_switch[tail]]
    rows += [f"there_{c}_{arc}_{t}" for c in all_chunks for arc in own for t in times]
    for switch in np.flatnonzero(network.is_switch).tolist():
        if multicast:
            out = [head for tail, head in links if tail == switch]
            rows += [f"copy_{c}_{switch}_{head}_{t}" for c in all_chunks for head in out for t in times]
        else:
            rows += [f"pass_{c}_{switch}_{t}" for c in all_chunks for t in times]
    return columns, rows + [f"gain_{c}_{v}_{t}" for c in all_chunks for v in nodes for t in times]


def step_schedule_from_collective(problem: CollectiveProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an AllGather of one chunk a rank on the network of an instance, rates in GB/s."""
    network, steps = problem.network, int(options["steps"])
    program, *_ = step_schedule_arrays(network, network.ranks, network.gbytes_per_s, steps, multicast=problem.multicast)
    return with_names(program, *step_schedule_names(network, len(network.ranks), steps, multicast=problem.multicast))
