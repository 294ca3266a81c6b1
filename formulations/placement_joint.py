"""Placement, all orders and static rates together, least makespan: a mixed-integer program with tangents.

`placement_makespan` says where operators run and when, `placement_rates` how servers split
their links for known orders; this is both at once, for graphs of a dozen operators. With the inverse rate as a variable
the time of a transfer is linear; the capacity rows are convex, and here a pair of servers that sends nothing needs no
rate: rate >= used^2 / slow, the perspective of 1 / slow, of which row (10) has tangents at (1, r). Tangents lie
outside, so with any of them the optimum is a lower bound; with more at each solution it tends to the global one.

Sets: OPERATORS i, j; GROUPS g of co-located operators (g(i)); DEVICES d, e; SERVERS s, u (s(d)); TENSORS t with
    producer i and consumers j; DELIVERIES (t, e) of tensors with bytes to devices that another group of consumers
    can use.
Parameters: time[i,d] ms; memory[g], limit[d] bytes; volume[t] ms at the unit rate; inside[t,s] ms; alpha ms;
    capacity[s] of the unit rate, out and in; upper: a makespan known to be possible; most: upper over the least volume;
    points r[s,u]; head[i], tail[i]: longest paths at fastest times.
Variables: at[g,d] in {0,1}; head[i] <= start[i] <= upper - tail[i]; 0 <= leave[t,e] <= upper; 0 <= sent[t,s,e] <= 1;
    0 <= used[s,u] <= 1; slow[s,u] in [1 / min(capacity), most]; rate[s,u] >= 0; before[i,j], ahead[t,e,v,f] in {0,1};
    span.
Short: z[g,s] = sum_{d of s} at[g,d]; run[i] = sum_d time[i,d] at[g(i),d].
minimise span
1. place[g]:          sum_d at[g,d] = 1; at[g,d] = 0 where a member cannot run
2. fit[d]:            sum_g memory[g] at[g,d] <= limit[d]
3. end[i]:            span >= start[i] + run[i]
4. follow[t,j]:       start[j] >= start[i] + run[i]
5. inside[t,j,d,e]:   start[j] >= start[i] + run[i] + inside[t,s] - (upper + inside[t,s]) (2 - at[g(i),d] - at[g(j),e])
   signal[t,j,s,e]:   the same for tensors without bytes between servers, with alpha
6. ready[t,e]:        leave[t,e] >= start[i] + run[i]
7. arrive[t,j,s,e]:   start[j] >= leave[t,e] + alpha + volume[t] slow[s,s(e)] - M[t] (2 - z[g(i),s] - at[g(j),e])
8. carry[t,j,s,e]:    sent[t,s,e] >= z[g(i),s] + at[g(j),e] - 1
9. use[t,s,e]:        used[s,s(e)] >= sent[t,s,e]
10. tangent[s,u,n]:   rate[s,u] >= 2 used[s,u] / r - slow[s,u] / r^2
11. out[s], into[u]:  sum_u rate[s,u] <= capacity[s];  sum_s rate[s,u] <= capacity[u]
12. first[i,j,d]:     start[j] >= start[i] + run[i] - upper (3 - before[i,j] - at[g(i),d] - at[g(j),d])
    second[i,j,d]:    start[i] >= start[j] + run[j] - upper (2 + before[i,j] - at[g(i),d] - at[g(j),d])
13. queue[t,e,v,f,s]: leave[v,f] >= leave[t,e] + alpha + volume[t] slow[s,s(e)]
                         - M[t] (3 - ahead[t,e,v,f] - sent[t,s,e] - sent[v,s,f])      s(e) = s(f)
    behind[t,e,v,f,s]: the same with t, e and v, f exchanged and 1 - ahead[t,e,v,f]
14. work[d]:          span >= sum_i time[i,d] at[g(i),d]                             (redundant, essential)
15. egress[s], ingress[u]: capacity[s] span >= sum_te volume[t] sent[t,s,e], out of s or into u   (redundant)
M[t] = upper + alpha + volume[t] * most: no start, and no end of a transfer that is not sent, is beyond it.
Symmetry: if all devices are alike, the group of rank r by work is on one of the first r + 1.

Size: O(W^2) rows and binaries of W deliveries.
Reference: outer approximation of perspectives (Frangioni and Gentile, 2006).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from formulations.programs import LpArrays, Rows, Term
from topoopt.core.arrays import Floats

if TYPE_CHECKING:
    import networkx as nx


Pair = tuple[int, int]
Delivery = tuple[int, int]


@dataclass(frozen=True)
class JointTensor:
    """A tensor: producer, consumers, volume in ms at the unit rate, and ms inside each server."""

    producer: int
    consumers: tuple[int, ...]
    volume: float
    inside_ms: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class JointPlacement:
    """See the module.

    Attributes:
        time: float64[n, k], inf where an operator cannot run.
        group: group of each operator, numbered from 0 on.
        memory: of each group; limit: of each device, inf: not limited.
        server: of each device.
        tensors: of the graph, which has no cycle.
        alpha_ms: latency of each transfer between servers.
        capacity: float64[servers], of the unit rate.
        upper_ms: makespan of a known schedule.
        points: inverse rates at which tangents of a pair lie.
        alike: whether any two devices can change names.
    """

    time: Floats
    group: tuple[int, ...]
    memory: tuple[float, ...]
    limit: tuple[float, ...]
    server: tuple[int, ...]
    tensors: tuple[JointTensor, ...]
    alpha_ms: float
    capacity: Floats
    upper_ms: float
    points: Mapping[Pair, tuple[float, ...]] = field(default_factory=dict)
    alike: bool = False

    @property
    def devices(self) -> range:
        return range(len(self.limit))

    def duration(self, i: int, d: int) -> float:
        """time[i,d], 0 where the operator cannot run."""
        return float(self.time[i, d]) if np.isfinite(self.time[i, d]) else 0.0

    def able(self, g: int, d: int) -> bool:
        """Whether a group may be on a device: all members run there, and the rank rule of like devices allows it."""
        runs = all(np.isfinite(self.time[i, d]) for i, mine in enumerate(self.group) if mine == g)
        return bool(runs) and (not self.alike or d <= self.ranks()[g])

    def ranks(self) -> dict[int, int]:
        """Return the rank of each group by falling work."""
        work = np.zeros(len(self.memory))
        np.add.at(work, list(self.group), self.time.min(axis=1))
        return {int(g): rank for rank, g in enumerate(np.argsort(-work, kind="stable"))}

    def on(self, s: int) -> list[int]:
        return [d for d in self.devices if self.server[d] == s]

    @property
    def servers(self) -> list[int]:
        return sorted(set(self.server))

    @property
    def pairs(self) -> list[Pair]:
        """Ordered pairs of different servers that have devices."""
        return [(s, u) for s in self.servers for u in self.servers if s != u]

    def deliveries(self) -> list[Delivery]:
        """(tensor, device) that may be sent over the network."""
        if len(self.servers) < 2:
            return []
        return [
            (t, e)
            for t, tensor in enumerate(self.tensors)
            for e in self.devices
            if tensor.volume > 0 and any(self.able(self.group[j], e) for j in self.users(t))
        ]

    def users(self, t: int) -> list[int]:
        """Consumers of a tensor in other groups than its producer's."""
        tensor = self.tensors[t]
        return [j for j in tensor.consumers if self.group[j] != self.group[tensor.producer]]

    def queues(self) -> list[tuple[Delivery, Delivery]]:
        """Pairs of ways that end at one server, so that they may share a queue."""
        return [
            (first, other)
            for first, other in combinations(self.deliveries(), 2)
            if self.server[first[1]] == self.server[other[1]]
        ]

    @property
    def most(self) -> float:
        """Largest inverse rate of a pair that sends: no transfer takes longer than the makespan."""
        return self.upper_ms / min((tensor.volume for tensor in self.tensors if tensor.volume > 0), default=1.0)

    def big(self, t: int) -> float:
        """Return M[t], which no time of a transfer of the tensor exceeds."""
        return self.upper_ms + self.alpha_ms + self.tensors[t].volume * self.most

    def graph(self) -> nx.DiGraph[int]:
        import networkx as nx

        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(len(self.group)))
        graph.add_edges_from((tensor.producer, user) for tensor in self.tensors for user in tensor.consumers)
        return graph

    def unordered(self) -> list[tuple[int, int]]:
        """Pairs of operators that take time and that no path orders."""
        import networkx as nx

        closure = nx.transitive_closure_dag(self.graph())
        busy = [i for i in range(len(self.group)) if max(self.duration(i, d) for d in self.devices) > 0]
        return [(i, j) for i, j in combinations(busy, 2) if not closure.has_edge(i, j) and not closure.has_edge(j, i)]

    def window(self, i: int) -> tuple[float, float]:
        """Return the earliest and the latest start of an operator: head[i] and upper - tail[i]."""
        import networkx as nx

        graph, fast = self.graph(), self.time.min(axis=1)
        head, tail = np.zeros(len(fast)), np.zeros(len(fast))
        order = list(nx.topological_sort(graph))
        for a in order:
            head[a] = max((head[b] + fast[b] for b in graph.predecessors(a)), default=0.0)
        for a in reversed(order):
            tail[a] = fast[a] + max((tail[b] for b in graph.successors(a)), default=0.0)
        return float(head[i]), max(float(head[i]), float(self.upper_ms - tail[i]))


def build_arrays(data: JointPlacement) -> LpArrays:
    """The program, named as in the algebra."""
    builder = _Builder(data)
    builder.columns()
    builder.places()
    builder.precedence()
    builder.transfers()
    builder.rates()
    builder.operator_orders()
    builder.queue_orders()
    builder.bounds()
    return builder.rows.program({("span",): 1.0})


class _Builder:
    def __init__(self, data: JointPlacement) -> None:
        self.data, self.rows = data, Rows()
        self.deliveries, self.queues, self.unordered = data.deliveries(), data.queues(), data.unordered()

    def columns(self) -> None:
        data, column = self.data, self.rows.column
        for g in range(len(data.memory)):
            for d in data.devices:
                column("at", g, d, upper=float(data.able(g, d)), integer=True)
        for i in range(len(data.group)):
            low, high = data.window(i)
            column("start", i, lower=low, upper=high)
        for t, e in self.deliveries:
            column("leave", t, e, upper=data.upper_ms)
        for t, s, e in self._sendings():
            column("sent", t, s, e, upper=1.0)
        for s, u in data.pairs:
            least = 1.0 / min(data.capacity[s], data.capacity[u])
            column("used", s, u, upper=1.0)
            column("slow", s, u, lower=least, upper=max(least, data.most))
            column("rate", s, u)
        for i, j in self.unordered:
            column("before", i, j, upper=1.0, integer=True)
        for first, other in self.queues:
            column("ahead", *first, *other, upper=1.0, integer=True)
        column("span", upper=data.upper_ms)

    def _sendings(self) -> list[tuple[int, int, int]]:
        data = self.data
        return [(t, s, e) for t, e in self.deliveries for s in data.servers if s != data.server[e]]

    def _at(self, i: int, d: int, factor: float) -> Term:
        return self.rows.at("at", self.data.group[i], d), factor

    def _on(self, i: int, s: int, factor: float) -> list[Term]:
        return [self._at(i, d, factor) for d in self.data.on(s)]

    def _run(self, i: int, factor: float) -> list[Term]:
        return [self._at(i, d, factor * self.data.duration(i, d)) for d in self.data.devices]

    def _var(self, *key: object, factor: float = 1.0) -> Term:
        return self.rows.at(*key), factor

    def _at_least(self, name: str, side: float, terms: list[Term]) -> None:
        self.rows.row(name, side, np.inf, terms)

    def places(self) -> None:
        """Rows (1) and (2)."""
        data, groups = self.data, range(len(self.data.memory))
        for g in groups:
            self.rows.row(f"place_{g}", 1.0, 1.0, [self._var("at", g, d) for d in data.devices])
        for d in data.devices:
            if np.isfinite(data.limit[d]):
                terms = [self._var("at", g, d, factor=data.memory[g]) for g in groups]
                self.rows.row(f"fit_{d}", -np.inf, data.limit[d], terms)

    def precedence(self) -> None:
        """Rows (3) to (5)."""
        data = self.data
        for i in range(len(data.group)):
            self._at_least(
                f"end_{i}", 0.0, [self._var("span"), self._var("start", i, factor=-1.0), *self._run(i, -1.0)]
            )
        for t, tensor in enumerate(data.tensors):
            i = tensor.producer
            for j in tensor.consumers:
                apart = [self._var("start", j), self._var("start", i, factor=-1.0), *self._run(i, -1.0)]
                self._at_least(f"follow_{t}_{j}", 0.0, apart)
                if data.group[i] == data.group[j]:
                    continue
                for e in data.devices:
                    for d in data.on(data.server[e]):
                        time = tensor.inside_ms[data.server[e]]
                        if d != e and time > 0:
                            big = data.upper_ms + time
                            both = [self._at(i, d, -big), self._at(j, e, -big)]
                            self._at_least(f"inside_{t}_{j}_{d}_{e}", time - 2 * big, [*apart, *both])
                    for s in data.servers:
                        if s != data.server[e] and tensor.volume <= 0 < data.alpha_ms:
                            big = data.upper_ms + data.alpha_ms
                            both = [*self._on(i, s, -big), self._at(j, e, -big)]
                            self._at_least(f"signal_{t}_{j}_{s}_{e}", data.alpha_ms - 2 * big, [*apart, *both])

    def transfers(self) -> None:
        """Rows (6) to (9)."""
        data = self.data
        for t, e in self.deliveries:
            i, u = data.tensors[t].producer, data.server[e]
            leave = [self._var("leave", t, e), self._var("start", i, factor=-1.0), *self._run(i, -1.0)]
            self._at_least(f"ready_{t}_{e}", 0.0, leave)
            for s in data.servers:
                if s == u:
                    continue
                for j in data.users(t):
                    big = data.big(t)
                    took = [self._var("leave", t, e, factor=-1.0), self._slow(t, s, u, -1.0)]
                    both = [*self._on(i, s, -big), self._at(j, e, -big)]
                    side = data.alpha_ms - 2 * big
                    self._at_least(f"arrive_{t}_{j}_{s}_{e}", side, [self._var("start", j), *took, *both])
                    away = [self._var("sent", t, s, e), *self._on(i, s, -1.0), self._at(j, e, -1.0)]
                    self._at_least(f"carry_{t}_{j}_{s}_{e}", -1.0, away)
                use = [self._var("used", s, u), self._var("sent", t, s, e, factor=-1.0)]
                self._at_least(f"use_{t}_{s}_{e}", 0.0, use)

    def _slow(self, t: int, s: int, u: int, factor: float) -> Term:
        return self._var("slow", s, u, factor=factor * self.data.tensors[t].volume)

    def rates(self) -> None:
        """Rows (10) and (11)."""
        data = self.data
        for s, u in data.pairs:
            for n, r in enumerate(data.points.get((s, u), ())):
                terms = [
                    self._var("rate", s, u),
                    self._var("used", s, u, factor=-2.0 / r),
                    self._var("slow", s, u, factor=1.0 / r**2),
                ]
                self._at_least(f"tangent_{s}_{u}_{n}", 0.0, terms)
        for name, end in (("out", 0), ("into", 1)):
            for s in data.servers:
                terms = [self._var("rate", *pair) for pair in data.pairs if pair[end] == s]
                if terms:
                    self.rows.row(f"{name}_{s}", -np.inf, float(data.capacity[s]), terms)

    def operator_orders(self) -> None:
        """Rows (12)."""
        data, upper = self.data, self.data.upper_ms
        for i, j in self.unordered:
            order = self.rows.at("before", i, j)
            for d in data.devices:
                both = [self._at(i, d, -upper), self._at(j, d, -upper)]
                apart = [self._var("start", j), self._var("start", i, factor=-1.0)]
                back = [(column, -value) for column, value in apart]
                name = f"{i}_{j}_{d}"
                first = [*apart, *self._run(i, -1.0), *both, (order, -upper)]
                self._at_least(f"first_{name}", -3 * upper, first)
                second = [*back, *self._run(j, -1.0), *both, (order, upper)]
                self._at_least(f"second_{name}", -2 * upper, second)

    def queue_orders(self) -> None:
        """Rows (13)."""
        for first, other in self.queues:
            u = self.data.server[first[1]]
            order = self.rows.at("ahead", *first, *other)
            for s in self.data.servers:
                if s != u:
                    name = "_".join(map(str, (*first, *other, s)))
                    self._behind(f"queue_{name}", first, other, s, order, forward=True)
                    self._behind(f"behind_{name}", other, first, s, order, forward=False)

    def _behind(self, name: str, first: Delivery, second: Delivery, s: int, order: int, *, forward: bool) -> None:
        data, big = self.data, self.data.big(first[0])
        apart = [self._var("leave", *second), self._var("leave", *first, factor=-1.0)]
        both = [self._var("sent", t, s, e, factor=-big) for t, e in (first, second)]
        took = self._slow(first[0], s, data.server[first[1]], -1.0)
        side = data.alpha_ms - (3 if forward else 2) * big
        self._at_least(name, side, [*apart, took, *both, (order, -big if forward else big)])

    def bounds(self) -> None:
        """Rows (14) and (15)."""
        data = self.data
        for d in data.devices:
            work = [self._at(i, d, -data.duration(i, d)) for i in range(len(data.group))]
            self._at_least(f"work_{d}", 0.0, [self._var("span"), *work])
        for name, end in (("egress", 0), ("ingress", 1)):
            for s in data.servers:
                terms = [
                    self._var("sent", t, a, e, factor=-data.tensors[t].volume)
                    for t, a, e in self._sendings()
                    if (a, data.server[e])[end] == s
                ]
                if terms:
                    span = self._var("span", factor=float(data.capacity[s]))
                    self._at_least(f"{name}_{s}", 0.0, [span, *terms])
