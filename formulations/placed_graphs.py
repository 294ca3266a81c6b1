"""Small programs of placed graphs: cuts, favourite children, physical links, least makespan, and static rates.

block_cut
---------
The least cut around a block: what any device that holds it sends and receives at least, if its load is limited.

A set of blocks may be fractional. The prices of its rows are the proof of a bound on the load of the busiest device,
whatever sets the devices hold (`topoopt.verify.placement.bounds`).

Sets: BLOCKS b; TENSORS e with the blocks b in e that they touch.  Parameters: v, a block; work[b], cost[e], limit, ms;
    price of what is over the limit, so that there always is a solution.
Variables: 0 <= inside[b] <= 1, inside[v] = 1; 0 <= low[e], high[e] <= 1; over >= 0.
minimise sum_e cost[e] (high[e] - low[e]) + price over
1. above[e,b]:  high[e] >= inside[b]
   below[e,b]:  inside[b] >= low[e]
2. within:      sum_b work[b] inside[b] + sum_e cost[e] (high[e] - low[e]) - over <= limit

Size: |BLOCKS| + 2 |TENSORS| + 1 columns, two rows for each end of a tensor. Derived here.

favourite_children
------------------
Favourite children of the operators of a graph: small communication times, unlimited devices, relaxed.

With devices in plenty, an operator can have one consumer run right behind it without a transfer, its favourite child,
and be that of one of its producers. The program chooses them for the least makespan; its relaxation is rounded (a
tensor with remote < 1/2 goes to the favourite child, of which rows (2) and (3) leave at most one), and list scheduling
on the devices there are follows. A heuristic: memory, the number of devices and contention are not in it.

Sets: OPERATORS i, j; EDGES (i, j).  Parameters: time[i], cost[i,j] ms.
Variables: start[i] >= 0 ms; 0 <= remote[i,j] <= 1, whether i and j run apart; span.
minimise span
1. wait[i,j]:  start[j] >= start[i] + time[i] + cost[i,j] remote[i,j]
2. child[i]:   sum_j remote[i,j] >= consumers of i - 1
3. parent[j]:  sum_i remote[i,j] >= producers of j - 1
4. last[i]:    span >= start[i] + time[i]

Size: |OPERATORS| + |EDGES| + 1 columns. Reference: Hanen and Munier (1995); Jeon et al., Baechi (SoCC 2020).

link_packing
------------
Rates of pairs of servers split over their physical links.

Link l of a server and link l of another are on the same plane (network, or bridge of the hosts); a pair sends over the
planes both have.

Sets: SERVERS s, t; LINKS l; PAIRS (s, t) with rate[s,t] > 0.
Parameters: rate[s,t], capacity[s,l], Gbit/s.
Variables: share[s,t,l] >= 0, Gbit/s; scale in [0, 1]; used[s,t,l] in {0, 1} (only with `scale` given).
1. carry[s,t]:   sum_l share[s,t,l] = rate[s,t] scale
2. out[s,l]:     sum_t share[s,t,l] <= capacity[s,l]
3. into[t,l]:    sum_s share[s,t,l] <= capacity[t,l]
4. switch[s,t,l]: share[s,t,l] <= min(capacity[s,l], capacity[t,l], rate[s,t]) used[s,t,l]
maximise scale, then with that scale minimise sum used: few pairs on several links.

Size: at most 2 |PAIRS| |LINKS| + 1 columns. If the links of all servers have the same proportions, scale is 1.

placement_makespan
------------------
Least makespan of a placed graph as a mixed-integer program: a reference for tiny instances, without contention.

CP-SAT with intervals (`solvers.placement.makespan`) beats it by far; the two are held equal by a test.

Sets: OPERATORS i, j; GROUPS g of co-located operators (g(i)); DEVICES d, e; TENSORS with producer i and consumers j.
Parameters: time[i,d] ms; memory[g], room[d] bytes; send[t,d,e] ms, alone at full rate; upper, a makespan that is known
    to be possible, which serves as big M: all starts and ends lie in [0, upper].
Variables: at[g,d] in {0,1}; start[i] ms; span; before[i,j] in {0,1} for i < j that no path orders.
Short: run[i] = sum_d time[i,d] at[g(i),d]: where the operator is, so that start[i] + run[i] <= upper.
minimise span
1. place[g]:         sum_d at[g,d] = 1; at[g,d] = 0 where a member cannot run
2. fit[d]:           sum_g memory[g] at[g,d] <= room[d]
3. end[i]:           span >= start[i] + run[i]
4. follow[t,j]:      start[j] >= start[i] + run[i]
5. send[t,j,d,e]:    start[j] >= start[i] + run[i] + send[t,d,e] - (upper + send[t,d,e]) (2 - at[g(i),d] - at[g(j),e])
6. first[i,j,d]:     start[j] >= start[i] + run[i] - upper (3 - before[i,j] - at[g(i),d] - at[g(j),d])
   second[i,j,d]:    start[i] >= start[j] + run[j] - upper (2 + before[i,j] - at[g(i),d] - at[g(j),d])
7. work[d]:          span >= sum_i time[i,d] at[g(i),d]     (redundant, and essential for the relaxation)

Size: O(n^2 k + c k^2) rows, n operators, k devices, c consumers. Reference: big-M disjunctive scheduling (Manne, 1960).

placement_rates
---------------
Best static rates between servers for a placed graph whose orders are fixed.

Activities u: operators on devices and transfers between servers. A transfer of v bytes at rate b takes v / b: with the
inverse rate r = 1 / b as variable its time is linear, and the capacity rows sum_q 1 / r[q] <= K are convex, so that
they are described exactly by their tangents. The optimum of the program with all tangents is the global optimum of the
split.

Sets: ACTIVITIES u; PAIRS q = (s, t) of servers that send; SERVERS s.
Parameters: fixed_ms[u] (run time, or latency); volume[u] (ms at the unit rate); pair[u]; ARCS (u, v, lag_ms);
    capacity[s] (of the unit rate, the same out and in).
Variables: start[u] >= 0, ms; slow[q] >= 1 / min(capacity[s], capacity[t]), inverse rate; span.
minimise span
1. follow[u,v]:  start[v] >= start[u] + fixed_ms[u] + volume[u] slow[pair[u]] + lag_ms
2. span[u]:      span >= start[u] + fixed_ms[u] + volume[u] slow[pair[u]]
3. out[s], into[s], for each point r given: sum_q (2 / r[q] - slow[q] / r[q]^2) <= capacity[s]

Size: |U| + |Q| + 1 columns, |ARCS| + |U| + tangents rows. Reference: outer approximation (Kelley, 1960).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from formulations import placement_joint
from formulations.placement_joint import JointPlacement, JointTensor, Pair
from formulations.programs import LpArrays, Rows
from topoopt.core.arrays import Floats, bytes_per_ms
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.placement import Latency, PlacementProblem

if TYPE_CHECKING:
    import networkx as nx


OVER_PRICE = 1000.0
"""Of a millisecond over the limit of a load."""


@dataclass(frozen=True, eq=False)
class BlockCut:
    """See the module: float64[blocks] work, cost of tensors by the blocks they touch, limit, ms; a block."""

    work_ms: Floats
    cost_ms: Mapping[tuple[int, ...], float]
    limit_ms: float
    block: int

    @staticmethod
    def of(problem: PlacementProblem, limit_ms: float, block: int) -> BlockCut:
        """Return the program of a co-located group: least times and transfers of all devices."""
        groups, devices = problem.colocated(), range(len(problem.devices))
        group_of = {i: g for g, members in enumerate(groups) for i in members}
        work = [min(sum(problem.time_ms(i, d) for i in members) for d in devices) for members in groups]
        cost: dict[tuple[int, ...], float] = {}
        for tensor in problem.tensors:
            ends = tuple(sorted({group_of[i] for i in (tensor.producer, *tensor.consumers)}))
            if len(ends) > 1:
                sent = (problem.send_ms(tensor.size_bytes, d, e) for d in devices for e in devices if d != e)
                cost[ends] = cost.get(ends, 0.0) + min(sent, default=0.0)
        return BlockCut(np.array(work), dict(sorted(cost.items())), limit_ms, block)


def block_cut_arrays(data: BlockCut) -> LpArrays:
    """The program; rows: two for each end of a tensor, in order, then the load."""
    rows = Rows()
    for b in range(len(data.work_ms)):
        rows.column("inside", b, lower=float(b == data.block), upper=1.0)
    for e in range(len(data.cost_ms)):
        rows.column("high", e, upper=1.0)
        rows.column("low", e, upper=1.0)
    rows.column("over")
    load = [(rows.at("inside", b), work) for b, work in enumerate(data.work_ms.tolist())]
    objective: dict[tuple[object, ...], float] = {("over",): OVER_PRICE}
    for e, (ends, cost) in enumerate(data.cost_ms.items()):
        for b in ends:
            rows.row(f"above_{e}_{b}", 0.0, np.inf, [(rows.at("high", e), 1.0), (rows.at("inside", b), -1.0)])
            rows.row(f"below_{e}_{b}", 0.0, np.inf, [(rows.at("inside", b), 1.0), (rows.at("low", e), -1.0)])
        load += [(rows.at("high", e), cost), (rows.at("low", e), -cost)]
        objective |= {("high", e): cost, ("low", e): -cost}
    rows.row("within", -np.inf, data.limit_ms, [*load, (rows.at("over"), -1.0)])
    return rows.program(objective)


def block_cut_from_placement(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """The program of a block of an instance, by default within the mean work of the devices."""
    data = BlockCut.of(problem, options["limit_ms"], min(int(options["block"]), len(problem.colocated()) - 1))
    mean = max(float(data.work_ms.sum()) / len(problem.devices), float(data.work_ms.max()))
    return block_cut_arrays(replace(data, limit_ms=data.limit_ms or mean))


Edge = tuple[int, int]


@dataclass(frozen=True, eq=False)
class FavouriteChildren:
    """See the module: float64[n] times, and the cost of each edge, ms; the graph has no cycle."""

    time_ms: Floats
    cost_ms: Mapping[Edge, float]

    def children(self) -> dict[int, list[int]]:
        """Consumers of each operator that has any."""
        children: dict[int, list[int]] = defaultdict(list)
        for i, j in self.cost_ms:
            children[i].append(j)
        return children

    def parents(self) -> dict[int, list[int]]:
        """Producers of each operator that has any."""
        children: dict[int, list[int]] = defaultdict(list)
        for i, j in self.cost_ms:
            children[j].append(i)
        return children


def favourite_children_arrays(data: FavouriteChildren) -> LpArrays:
    """The program; columns: start, remote in the order of the edges, span."""
    rows = Rows()
    for i in range(len(data.time_ms)):
        rows.column("start", i)
    for edge in data.cost_ms:
        rows.column("remote", *edge, upper=1.0)
    rows.column("span")
    for (i, j), cost in data.cost_ms.items():
        terms = [(rows.at("start", j), 1.0), (rows.at("start", i), -1.0), (rows.at("remote", i, j), -cost)]
        rows.row(f"wait_{i}_{j}", float(data.time_ms[i]), np.inf, terms)
    for i, users in data.children().items():
        rows.row(f"child_{i}", len(users) - 1.0, np.inf, [(rows.at("remote", i, j), 1.0) for j in users])
    for j, makers in data.parents().items():
        rows.row(f"parent_{j}", len(makers) - 1.0, np.inf, [(rows.at("remote", i, j), 1.0) for i in makers])
    for i, time in enumerate(data.time_ms.tolist()):
        rows.row(f"last_{i}", time, np.inf, [(rows.at("span"), 1.0), (rows.at("start", i), -1.0)])
    return rows.program({("span",): 1.0})


def favourites(data: FavouriteChildren, x: Floats) -> dict[int, int]:
    """Favourite child of each operator that has one, from a solution."""
    remote = x[len(data.time_ms) : len(data.time_ms) + len(data.cost_ms)]
    return {i: j for (i, j), apart in zip(data.cost_ms, remote.tolist(), strict=True) if apart < 0.5 - 1e-6}


def favourite_children_from_placement(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """The program of an instance: fastest times, transfers at the rate of its slowest server."""
    used = sorted({device.server for device in problem.devices})
    across = len(used) > 1
    links = [problem.servers[s].network_gbps if across else problem.servers[s].inside_gbps for s in used]
    rate = bytes_per_ms(min(links)) or np.inf
    alpha = problem.transfer_latency_ms if across else problem.intra_latency_ms
    cost: dict[Edge, float] = {}
    for tensor in problem.tensors:
        for user in tensor.consumers:
            edge = (tensor.producer, user)
            cost[edge] = max(cost.get(edge, 0.0), alpha + tensor.size_bytes / rate)
    times = np.array([min(operator.times_ms) for operator in problem.operators])
    return favourite_children_arrays(FavouriteChildren(times, cost))


Share = tuple[int, int, int]


def shares(rate: Floats, capacity: Floats) -> list[Share]:
    """(s, t, l) in the order of the columns: planes that both servers of a sending pair have."""
    return [
        (int(s), int(t), link)
        for s, t in np.argwhere(rate > 0)
        for link in range(capacity.shape[1])
        if min(capacity[s, link], capacity[t, link]) > 0
    ]


def link_packing_arrays(rate: Floats, capacity: Floats, scale: float | None = None) -> LpArrays:
    """The program; columns: share in the order of `shares`, then scale, then used.

    Args:
        rate: float64[servers, servers]; capacity: float64[servers, links], 0 where a server has no such link.
        scale: of the rates, for the second objective; None: the first one.
    """
    rows = Rows()
    table = shares(rate, capacity)
    for share in table:
        rows.column("share", *share)
    rows.column("scale", lower=scale or 0.0, upper=1.0 if scale is None else scale)
    for s, t in np.argwhere(rate > 0).tolist():
        over = [(rows.at("share", *share), 1.0) for share in table if share[:2] == (s, t)]
        rows.row(f"carry_{s}_{t}", 0.0, 0.0, [*over, (rows.at("scale"), -float(rate[s, t]))])
    for name, end in (("out", 0), ("into", 1)):
        for s in range(len(rate)):
            for link in range(capacity.shape[1]):
                over = [(rows.at("share", *share), 1.0) for share in table if (share[end], share[2]) == (s, link)]
                if over:
                    rows.row(f"{name}_{s}_{link}", -np.inf, float(capacity[s, link]), over)
    if scale is not None:
        for s, t, link in table:
            most = float(min(capacity[s, link], capacity[t, link], rate[s, t]))
            rows.column("used", s, t, link, upper=1.0, integer=True)
            terms = [(rows.at("share", s, t, link), 1.0), (rows.at("used", s, t, link), -most)]
            rows.row(f"switch_{s}_{t}_{link}", -np.inf, 0.0, terms)
    if scale is None:
        return rows.program({("scale",): -1.0})
    return rows.program({("used", *share): 1.0 for share in table})


def placement_makespan_arrays(
    problem: PlacementProblem, upper_ms: float, send_ms: Callable[[int, int, int], float]
) -> LpArrays:
    """The program.

    Args:
        problem: objective latency.
        upper_ms: makespan of a known schedule.
        send_ms: (tensor, source device, target device) -> time of the transfer, 0 on the same device.
    """
    rows = Rows()
    groups = problem.colocated()
    group_of = {i: g for g, members in enumerate(groups) for i in members}
    n, k = len(problem.operators), len(problem.devices)
    devices = range(k)
    for g, members in enumerate(groups):
        for d in devices:
            able = all(problem.supports(i, d) for i in members)
            rows.column("at", g, d, upper=1.0 if able else 0.0, integer=True)
    for i in range(n):
        rows.column("start", i, upper=upper_ms)
    rows.column("span", upper=upper_ms)

    def time(i: int, d: int) -> float:
        return problem.time_ms(i, d) if problem.supports(i, d) else 0.0

    def runs(i: int) -> list[tuple[int, float]]:
        return [(rows.at("at", group_of[i], d), -time(i, d)) for d in devices]

    for g in range(len(groups)):
        rows.row(f"place_{g}", 1.0, 1.0, [(rows.at("at", g, d), 1.0) for d in devices])
    for d, device in enumerate(problem.devices):
        if device.memory_bytes is not None:
            held = [sum(problem.operators[i].memory_bytes for i in members) for members in groups]
            terms = [(rows.at("at", g, d), float(size)) for g, size in enumerate(held)]
            rows.row(f"fit_{d}", -np.inf, float(device.memory_bytes), terms)
    for i in range(n):
        rows.row(f"end_{i}", 0.0, np.inf, [(rows.at("span"), 1.0), (rows.at("start", i), -1.0), *runs(i)])
    for t, tensor in enumerate(problem.tensors):
        i = tensor.producer
        for j in tensor.consumers:
            apart = [(rows.at("start", j), 1.0), (rows.at("start", i), -1.0)]
            rows.row(f"follow_{t}_{j}", 0.0, np.inf, [*apart, *runs(i)])
            for d in devices:
                for e in devices:
                    if d != e and group_of[i] != group_of[j]:
                        sends = send_ms(t, d, e)
                        big = upper_ms + sends
                        both = [(rows.at("at", group_of[x], y), -big) for x, y in ((i, d), (j, e))]
                        rows.row(f"send_{t}_{j}_{d}_{e}", sends - 2 * big, np.inf, [*apart, *runs(i), *both])
    for i, j in unordered(problem):
        rows.column("before", i, j, upper=1.0, integer=True)
        for d in devices:
            both = [(rows.at("at", group_of[x], d), -upper_ms) for x in (i, j)]
            order = rows.at("before", i, j)
            apart = [(rows.at("start", j), 1.0), (rows.at("start", i), -1.0)]
            first = [*apart, *runs(i), *both, (order, -upper_ms)]
            rows.row(f"first_{i}_{j}_{d}", -3 * upper_ms, np.inf, first)
            back = [(column, -value) for column, value in apart]
            second = [*back, *runs(j), *both, (order, upper_ms)]
            rows.row(f"second_{i}_{j}_{d}", -2 * upper_ms, np.inf, second)
    for d in devices:
        work = [(rows.at("at", group_of[i], d), -time(i, d)) for i in range(n)]
        rows.row(f"work_{d}", 0.0, np.inf, [(rows.at("span"), 1.0), *work])
    return rows.program({("span",): 1.0})


def unordered(problem: PlacementProblem) -> list[tuple[int, int]]:
    """Pairs of operators that take time and that no path orders."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(problem.operators)))
    graph.add_edges_from((tensor.producer, user) for tensor in problem.tensors for user in tensor.consumers)
    closure = nx.transitive_closure_dag(graph)
    busy = [i for i, operator in enumerate(problem.operators) if max(operator.times_ms) > 0]
    return [(i, j) for i, j in combinations(busy, 2) if not closure.has_edge(i, j) and not closure.has_edge(j, i)]


@dataclass(frozen=True, eq=False)
class RateProblem:
    """See the module.

    Attributes:
        fixed_ms, volume: float64[U]; pair: for each activity, None for operators.
        arcs: (u, v, lag_ms), without cycle.
        capacity: float64[servers].
    """

    fixed_ms: Floats
    volume: Floats
    pair: tuple[Pair | None, ...]
    arcs: tuple[tuple[int, int, float], ...]
    capacity: Floats

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Pairs of servers that send, ascending."""
        return tuple(sorted({pair for pair in self.pair if pair is not None}))

    def ports(self) -> dict[tuple[str, int], tuple[Pair, ...]]:
        """Pairs that share a server's links out, and in."""
        table: dict[tuple[str, int], list[Pair]] = {}
        for s, t in self.pairs:
            table.setdefault(("out", s), []).append((s, t))
            table.setdefault(("into", t), []).append((s, t))
        return {port: tuple(pairs) for port, pairs in table.items()}


def tangent(problem: RateProblem, port: tuple[str, int], slow: Mapping[Pair, float]) -> tuple[dict[Pair, float], float]:
    """Row (3) at a point, as coefficients of `slow` and lower side: sum coefficient slow >= side."""
    pairs = problem.ports()[port]
    side = sum(2 / slow[pair] for pair in pairs) - float(problem.capacity[port[1]])
    return {pair: 1 / slow[pair] ** 2 for pair in pairs}, side


def placement_rates_arrays(problem: RateProblem, points: Sequence[Mapping[Pair, float]]) -> LpArrays:
    """The program with tangents at some points; columns: start, then slow in the order of `pairs`, then span."""
    rows = Rows()
    for u in range(len(problem.fixed_ms)):
        rows.column("start", u)
    for s, t in problem.pairs:
        rows.column("slow", s, t, lower=1 / min(problem.capacity[s], problem.capacity[t]))
    rows.column("span")

    def ends(u: int) -> list[tuple[int, float]]:
        pair = problem.pair[u]
        terms = [(rows.at("start", u), -1.0)]
        return terms if pair is None else [*terms, (rows.at("slow", *pair), -float(problem.volume[u]))]

    for u, v, lag in problem.arcs:
        side = float(problem.fixed_ms[u]) + lag
        rows.row(f"follow_{u}_{v}", side, np.inf, [(rows.at("start", v), 1.0), *ends(u)])
    for u in range(len(problem.fixed_ms)):
        rows.row(f"span_{u}", float(problem.fixed_ms[u]), np.inf, [(rows.at("span"), 1.0), *ends(u)])
    for number, point in enumerate(points):
        for port in problem.ports():
            coefficients, side = tangent(problem, port, point)
            terms = [(rows.at("slow", *pair), value) for pair, value in coefficients.items()]
            rows.row(f"{port[0]}_{port[1]}_{number}", side, np.inf, terms)
    return rows.program({("span",): 1.0})


# Programs of an instance of objective latency as `topoopt export` writes them: data from the instance alone. Solvers
# build the same programs from better data: a makespan they know, orders of a schedule they found. Here the makespan is
# that of everything run one after another, and the placement, where one is needed, cuts the operators in topological
# order into parts of equal work.

FACTORS = (0.5, 1.0, 2.0)
"""Tangents lie at these multiples of an equal split."""


def alone_ms(problem: PlacementProblem, tensor: int, source: int, target: int) -> float:
    """Time of a transfer between two devices at the full rate of their servers, 0 on the same device."""
    if source == target:
        return 0.0
    size = problem.tensors[tensor].size_bytes
    s, t = problem.devices[source].server, problem.devices[target].server
    if s == t:
        inside = size / bytes_per_ms(problem.servers[s].inside_gbps) if size else 0.0
        return problem.intra_latency_ms + inside
    rate = min(problem.servers[s].network_gbps, problem.servers[t].network_gbps)
    return problem.transfer_latency_ms + (size / bytes_per_ms(rate) if size else 0.0)


def serial_ms(problem: PlacementProblem, slower: float = 1.0) -> float:
    """A makespan that some order of every placement reaches: all operators and transfers one after another.

    Args:
        slower: how much slower than alone a transfer may be.
    """
    devices = range(len(problem.devices))
    work = sum(max(time for time in operator.times_ms if np.isfinite(time)) for operator in problem.operators)
    sent = 0.0
    for t, tensor in enumerate(problem.tensors):
        worst = max(alone_ms(problem, t, d, e) for d in devices for e in devices)
        sent += worst * min(len(tensor.consumers), len(problem.devices))
    return work + slower * sent


def _latency(problem: PlacementProblem, *, shared: bool) -> Latency:
    """The objective.

    Raises:
        InputError: another one; with `shared`, transfers without rates of their own; servers without links.
    """
    settings = problem.objective
    problems = []
    if not isinstance(settings, Latency):
        problems.append(Problem("this formulation is of objective latency", path="objective", value=settings.name))
    elif shared and settings.sharing != "static":
        text = "this formulation is of rates for pairs of servers"
        problems.append(Problem(text, path="latency.sharing", value=settings.sharing, allowed="static"))
    used = sorted({device.server for device in problem.devices})
    bare = [problem.servers[s].name for s in used if problem.servers[s].network_gbps <= 0]
    if len(used) > 1 and bare:
        problems.append(Problem("no link to the other servers", path="servers", value=", ".join(bare)))
    raise_any(problems)
    assert isinstance(settings, Latency)
    return settings


def makespan_program(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """Rows of `placement_makespan`.

    Raises:
        InputError: see `_latency`; or transfers that contend (then it is a relaxation, unless option `relax` is 1).
    """
    settings = _latency(problem, shared=False)
    if settings.sharing != "none" and not options["relax"]:
        text = "this formulation has no contention; --option relax=1 takes it as a relaxation"
        raise InputError([Problem(text, path="latency.sharing", value=settings.sharing, allowed="none")])

    def send(t: int, d: int, e: int) -> float:
        return alone_ms(problem, t, d, e)

    return placement_makespan_arrays(problem, serial_ms(problem), send)


def equal_split(problem: PlacementProblem, unit: float) -> dict[Pair, float]:
    """Inverse rates of pairs of servers with devices, when each shares its links equally."""
    used = sorted({device.server for device in problem.devices})
    links = {s: bytes_per_ms(problem.servers[s].network_gbps) / unit for s in used}
    return {(s, u): (len(used) - 1) / min(links[s], links[u]) for s in used for u in used if s != u}


def joint_data(
    problem: PlacementProblem, upper_ms: float, points: Mapping[Pair, tuple[float, ...]], *, least: float = 0.0
) -> JointPlacement:
    """Data of `placement_joint`; the unit of rates is the fastest server's links.

    Args:
        points: inverse rates, in that unit; none: tangents about an equal split.
        least: tensors of no more bytes count as empty, which leaves a relaxation.
    """
    groups = problem.colocated()
    of = {i: g for g, members in enumerate(groups) for i in members}
    links = np.array([bytes_per_ms(server.network_gbps) for server in problem.servers])
    unit = float(links.max()) or 1.0
    split = equal_split(problem, unit) if len({device.server for device in problem.devices}) > 1 else {}

    def inside(size: int, s: int) -> float:
        rate = bytes_per_ms(problem.servers[s].inside_gbps)
        return problem.intra_latency_ms + (size / rate if size and rate > 0 else 0.0)

    tensors = tuple(
        JointTensor(
            tensor.producer,
            tensor.consumers,
            tensor.size_bytes / unit if tensor.size_bytes > least else 0.0,
            tuple(inside(tensor.size_bytes, s) for s in range(len(problem.servers))),
        )
        for tensor in problem.tensors
    )
    kinds = {(device.class_index, device.memory_bytes) for device in problem.devices}
    homes = {
        (problem.servers[device.server].network_gbps, problem.servers[device.server].inside_gbps)
        for device in problem.devices
    }
    own = len({device.server for device in problem.devices}) in (1, len(problem.devices))
    return JointPlacement(
        time=np.array([[problem.time_ms(i, d) for d in range(len(problem.devices))] for i in range(len(of))]),
        group=tuple(of[i] for i in range(len(of))),
        memory=tuple(float(sum(problem.operators[i].memory_bytes for i in members)) for members in groups),
        limit=tuple(np.inf if d.memory_bytes is None else float(d.memory_bytes) for d in problem.devices),
        server=tuple(device.server for device in problem.devices),
        tensors=tensors,
        alpha_ms=problem.transfer_latency_ms,
        capacity=links / unit,
        upper_ms=upper_ms,
        points={pair: points.get(pair) or tuple(f * r for f in FACTORS) for pair, r in split.items()},
        alike=len(kinds) == 1 and len(homes) == 1 and own,
    )


def joint_program(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """Rows of `placement_joint`.

    Raises:
        InputError: see `_latency`; or rates that are given.
    """
    settings = _latency(problem, shared=True)
    if settings.rates != "optimised":
        text = "this formulation chooses the rates"
        raise InputError([Problem(text, path="latency.rates", value=settings.rates, allowed="optimised")])
    servers = len({device.server for device in problem.devices})
    upper = serial_ms(problem, max(1.0, servers - 1.0))
    return placement_joint.build_arrays(joint_data(problem, upper, {}))


def sliced(problem: PlacementProblem) -> tuple[list[int], list[int]]:
    """A topological order, and devices that cut it into parts of equal work, co-located operators together.

    Where a device cannot run its part, the next one that can does. Memory is not looked at.

    Raises:
        InputError: operators that together run nowhere.
    """
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(problem.operators)))
    graph.add_edges_from((tensor.producer, user) for tensor in problem.tensors for user in tensor.consumers)
    order = list(nx.lexicographical_topological_sort(graph))
    work = [min(operator.times_ms) for operator in problem.operators]
    total, done = sum(work) or 1.0, 0.0
    home: dict[int, int] = {}
    groups, k = problem.colocated(), len(problem.devices)
    of = {i: g for g, members in enumerate(groups) for i in members}
    for i in order:
        part = min(k - 1, int(done / total * k))
        able = [d for d in (*range(part, k), *range(part)) if all(problem.supports(j, d) for j in groups[of[i]])]
        if not able:
            name = problem.operators[i].name
            raise InputError([Problem("no device runs all of its co-located group", path="operators", value=name)])
        home.setdefault(of[i], able[0])
        done += work[i]
    return order, [home[of[i]] for i in range(len(problem.operators))]


def rates_program(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """Rows of `placement_rates` for `sliced`, all orders topological.

    Raises:
        InputError: see `_latency` and `sliced`; or nothing is sent between servers.
    """
    _latency(problem, shared=True)
    order, device = sliced(problem)
    position = {i: at for at, i in enumerate(order)}
    links = np.array([bytes_per_ms(server.network_gbps) for server in problem.servers])
    unit = float(links.max()) or 1.0
    fixed = [problem.time_ms(i, d) for i, d in enumerate(device)]
    volume, pair = [0.0] * len(fixed), [None] * len(fixed)
    pairs: list[Pair | None] = [*pair]
    arcs: dict[tuple[int, int], float] = {}
    lines: dict[object, list[int]] = {}
    for i in order:
        lines.setdefault(device[i], []).append(i)
    for t, tensor in sorted(enumerate(problem.tensors), key=lambda entry: position[entry[1].producer]):
        i = tensor.producer
        for e in sorted({device[j] for j in tensor.consumers}):
            s, u = problem.devices[device[i]].server, problem.devices[e].server
            readers = [j for j in tensor.consumers if device[j] == e]
            if s == u or not tensor.size_bytes:
                arcs |= {(i, j): max(arcs.get((i, j), 0.0), alone_ms(problem, t, device[i], e)) for j in readers}
                continue
            activity = len(fixed)
            fixed.append(problem.transfer_latency_ms)
            volume.append(tensor.size_bytes / unit)
            pairs.append((s, u))
            lines.setdefault((s, u), []).append(activity)
            arcs |= {(i, activity): 0.0, **{(activity, j): 0.0 for j in readers}}
    for line in lines.values():
        arcs |= {(a, b): arcs.get((a, b), 0.0) for a, b in pairwise(line)}
    data = RateProblem(
        np.array(fixed), np.array(volume), tuple(pairs), tuple((*ends, lag) for ends, lag in arcs.items()), links / unit
    )
    if not data.pairs:
        raise InputError([Problem("nothing is sent between servers by the placement of this formulation")])
    split = equal_split(problem, unit)
    return placement_rates_arrays(data, [{q: f * split[q] for q in data.pairs} for f in FACTORS])


def packing_program(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """Rows of `link_packing` for an equal split of each server's links.

    Raises:
        InputError: see `_latency`; or one server only.
    """
    _latency(problem, shared=True)
    if len({device.server for device in problem.devices}) < 2:
        raise InputError([Problem("one server has no rates to others", path="servers")])
    size, most = len(problem.servers), max(len(server.links) for server in problem.servers)
    rate, capacity = np.zeros((size, size)), np.zeros((size, most))
    for (s, u), slow in equal_split(problem, bytes_per_ms(1.0)).items():
        rate[s, u] = 1.0 / slow
    for s, server in enumerate(problem.servers):
        capacity[s, : len(server.links)] = [link.gbps for link in server.links]
    return link_packing_arrays(rate, capacity, options["scale"] or None)
