"""Placement, all orders and static rates together, least makespan: a mixed-integer program with tangents.

`placement_makespan` says where operators run and when, `placement_rates` how servers split
their links for known orders; this is both at once, for graphs of a dozen operators. With the inverse rate as a variable
the time of a transfer is linear; the capacity rows are convex, and here a pair of servers that sends nothing needs no
rate: rate >= used^2 / slow, the perspective of 1 / slow, of which row (10) has tangents at (1, r). Tangents lie
outside, so with any of them the optimum is a lower bound; with more at each solution it tends to the global one.

Sets: OPERATORS i, j; GROUPS g of co-located operators (g(i)); DEVICES d, e; SERVERS s, u (s(d)); TENSORS t with
    producer i and consumers j, WAYS (t, e) of tensors with bytes to devices that another group of consumers can use.
Parameters: time[i,d] ms; memory[g], room[d] bytes; volume[t] ms at the unit rate; inside[t,s] ms; alpha ms;
    capacity[s] of the unit rate, out and in; upper: a makespan known to be possible; most: upper over the least volume;
    points r[s,u]; head[i], tail[i]: longest paths at fastest times.
Variables: at[g,d] in {0,1}; head[i] <= start[i] <= upper - tail[i]; 0 <= leave[t,e] <= upper; 0 <= sent[t,s,e] <= 1;
    0 <= used[s,u] <= 1; slow[s,u] in [1 / min(capacity), most]; rate[s,u] >= 0; before[i,j], ahead[t,e,v,f] in {0,1};
    span.
Short: z[g,s] = sum_{d of s} at[g,d]; run[i] = sum_d time[i,d] at[g(i),d].
minimise span
1. place[g]:          sum_d at[g,d] = 1; at[g,d] = 0 where a member cannot run
2. fit[d]:            sum_g memory[g] at[g,d] <= room[d]
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

Size: O(W^2) rows and binaries of W ways. Reference: outer approximation of perspectives (Frangioni and Gentile, 2006).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from topoopt.core.arrays import Floats

if TYPE_CHECKING:
    import networkx as nx

Pair = tuple[int, int]
Way = tuple[int, int]


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
        memory: of each group; room: of each device, inf: not limited.
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
    room: tuple[float, ...]
    server: tuple[int, ...]
    tensors: tuple[JointTensor, ...]
    alpha_ms: float
    capacity: Floats
    upper_ms: float
    points: Mapping[Pair, tuple[float, ...]] = field(default_factory=dict)
    alike: bool = False

    @property
    def devices(self) -> range:
        """Numbers of devices."""
        return range(len(self.room))

    def duration(self, i: int, d: int) -> float:
        """time[i,d], 0 where the operator cannot run."""
        return float(self.time[i, d]) if np.isfinite(self.time[i, d]) else 0.0

    def able(self, g: int, d: int) -> bool:
        """Whether a group may be on a device: all members run there, and the rank rule of like devices allows it."""
        runs = all(np.isfinite(self.time[i, d]) for i, mine in enumerate(self.group) if mine == g)
        return bool(runs) and (not self.alike or d <= self.ranks()[g])

    def ranks(self) -> dict[int, int]:
        """Groups by falling work."""
        work = np.zeros(len(self.memory))
        np.add.at(work, list(self.group), self.time.min(axis=1))
        return {int(g): rank for rank, g in enumerate(np.argsort(-work, kind="stable"))}

    def on(self, s: int) -> list[int]:
        """Devices of a server."""
        return [d for d in self.devices if self.server[d] == s]

    @property
    def servers(self) -> list[int]:
        """Servers that have devices, ascending."""
        return sorted(set(self.server))

    @property
    def pairs(self) -> list[Pair]:
        """Ordered pairs of them."""
        return [(s, u) for s in self.servers for u in self.servers if s != u]

    def ways(self) -> list[Way]:
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

    def queues(self) -> list[tuple[Way, Way]]:
        """Pairs of ways that end at one server, so that they may share a queue."""
        return [
            (one, other) for one, other in combinations(self.ways(), 2) if self.server[one[1]] == self.server[other[1]]
        ]

    @property
    def most(self) -> float:
        """Largest inverse rate of a pair that sends: no transfer takes longer than the makespan."""
        return self.upper_ms / min((tensor.volume for tensor in self.tensors if tensor.volume > 0), default=1.0)

    def big(self, t: int) -> float:
        """M[t]."""
        return self.upper_ms + self.alpha_ms + self.tensors[t].volume * self.most

    def graph(self) -> nx.DiGraph[int]:
        """Operators and who waits for whom."""
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
        """head[i] and upper - tail[i]."""
        import networkx as nx

        graph, fast = self.graph(), self.time.min(axis=1)
        head, tail = np.zeros(len(fast)), np.zeros(len(fast))
        order = list(nx.topological_sort(graph))
        for a in order:
            head[a] = max((head[b] + fast[b] for b in graph.predecessors(a)), default=0.0)
        for a in reversed(order):
            tail[a] = fast[a] + max((tail[b] for b in graph.successors(a)), default=0.0)
        return float(head[i]), max(float(head[i]), float(self.upper_ms - tail[i]))
