r"""Strategy, topology, ring orders and routing of a tiny cluster in one mixed-integer program.

Decided: the split and place of every operator, the links between servers, which share of each AllReduce runs in which
ring order, and how all traffic flows. Time model, bulk-synchronous: an iteration computes, then communicates, so that
its time is T = C + theta:

* C is the larger of the compute time of the busiest server and of the longest chain of forward and backward tasks.
* theta is the time the busiest link takes for all it carries: every byte of forward and backward transfers, and for an
  AllReduce of S bytes over k servers 2 (k-1)/k S bytes from every member to the next in ring order. A hop of a ring is
  routed like any other traffic; all traffic may be split over any paths. Latencies, the fixed cost of rounds and the
  AllReduce inside a server are left out.

Everything is linear but theta times the number of links of a pair, which is linearised exactly: one binary per number
of links, and theta split over them.

Sets        OPERATORS o; OPTIONS[o], pairs (split, offset); PAIRS e = (u, v), edges of the workload; servers i, j, s, v;
            BUNDLES (i, j): i < j for bidirectional links, i != j for directed ones; m = 0..d links of a bundle;
            GROUPS g of servers that all-reduce together; RINGS[g], directed cyclic orders of the members.
Parameters  load[o, a, i], memory[o, a, i]: compute time (ms), memory (share of a server) of option a, on server i;
            f[o, a], b[o, a] forward and backward time of one part, ms;  D[e, a, c, i, j], W[o, a, g]: ms that one link
            takes for the transfers i -> j of a pair, and for what each member of g sends in the AllReduces of o;
            Theta: theta of some plan is no larger, or no plan with a larger one is of interest.
Variables   y[o, a] in {0, 1}; p[e, a, c] >= 0: both options of a pair; links[i, j, m] in {0, 1}: bundle of m links;
            part[i, j, m] >= 0: theta if it has, else 0;  ring[g, r] >= 0: ms that a hop of ring r takes on one link;
            flow[s, i, j] >= 0: traffic of source s over i -> j, ms of one link;  reach[i, j], back[i, j] >= 0;
            first[o], turned[o], C, theta >= 0.

    minimise    C + theta
    (1) choose    sum_a y[o, a] = 1                                                    for every operator
    (2) producer  sum_c p[e, a, c] = y[u, a];   (3) consumer  sum_a p[e, a, c] = y[v, c]
    (4) memory    sum_oa memory[o, a, i] y[o, a] <= 1                                  for every server, if limited
    (5) load      sum_oa load[o, a, i] y[o, a] <= C                                    for every server
    (6) forward   first[v] >= first[u] + sum_a f[u, a] y[u, a]                         for every pair
    (7) turn      turned[o] >= first[o] + sum_a f[o, a] y[o, a]
    (8) backward  turned[u] >= turned[v] + sum_c b[v, c] y[v, c]                       for every pair
    (9) chain     C >= turned[o] + sum_a b[o, a] y[o, a]
    (10) bundle   sum_m links[i, j, m] = 1
    (11) degree   sum_j sum_m m links[i, j, m] <= d, out of and (directed) into every server
    (12) split    sum_m part[i, j, m] = theta;   (13) only  part[i, j, m] <= Theta links[i, j, m]
    (19) cut      sum_j sum_m m part[i, j, m] <= d theta, out of and (directed) into every server
    (14) reduce   sum_r ring[g, r] = sum_oa W[o, a, g] y[o, a]                         for every group
    (15) deliver  sum_i flow[s, i, v] - sum_j flow[s, v, j]
                      = sum_eac D[e, a, c, s, v] p[e, a, c] + sum_{g, r: s -> v} ring[g, r]
    (16) fit      sum_s flow[s, i, j] <= sum_m m part[i, j, m]                         for every direction of a bundle
    (17) reached  one unit of reach flows from server 0 to every other, reach[i, j] <= (n-1) sum_m m links[i, j, m]
    (18) returns  the same from every server to 0 by back[i, j], directed links only: the network is connected

For whole y and links, (2), (3), (12), (13) leave p = y y and part = theta links only, so T is exact for the plan. (19)
is (11) times theta: implied for whole links, it gives the relaxation the node cuts.

Size: a few thousand columns for four servers and six operators; not meant for more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topoopt.core.arrays import Floats, Ints

Arc = tuple[int, int]


@dataclass(frozen=True, eq=False)
class PlanOption:
    """One (split, offset) of an operator.

    Attributes:
        forward_ms, backward_ms: of one part.
        load: float64[n], compute ms on every server.
        memory: float64[n], share of the memory of every server.
        reduced: group -> ms of one link that each member sends in AllReduces.
    """

    forward_ms: float
    backward_ms: float
    load: Floats
    memory: Floats
    reduced: Mapping[int, float]


@dataclass(frozen=True, eq=False)
class JointPlan:
    """Data of the program.

    Attributes:
        servers, degree, bidirectional: of the cluster.
        options: per operator.
        pairs: (u, v), distinct.
        demand: per pair float64[options of u, options of v, n, n], ms of one link, both directions.
        rings: per group its candidate orders; all of the same members.
        theta_most: Theta.
        memory_limited: whether (4) is there.
    """

    servers: int
    degree: int
    bidirectional: bool
    options: tuple[tuple[PlanOption, ...], ...]
    pairs: tuple[Arc, ...]
    demand: tuple[Floats, ...]
    rings: tuple[tuple[tuple[int, ...], ...], ...]
    theta_most: float
    memory_limited: bool

    @property
    def bundles(self) -> list[Arc]:
        """BUNDLES in order."""
        every = range(self.servers)
        return [(i, j) for i in every for j in every if i < j or (i != j and not self.bidirectional)]

    @property
    def arcs(self) -> list[Arc]:
        """All ordered pairs of servers."""
        return [(i, j) for i in range(self.servers) for j in range(self.servers) if i != j]

    def bundle(self, i: int, j: int) -> Arc:
        """The bundle that carries i -> j."""
        return (min(i, j), max(i, j)) if self.bidirectional else (i, j)

    def hops(self, s: int, v: int) -> list[tuple[int, int]]:
        """(group, ring) of all rings in which s sends to v."""
        return [
            (g, r)
            for g, orders in enumerate(self.rings)
            for r, order in enumerate(orders)
            if (s, v) in zip(order, (*order[1:], order[0]), strict=True)
        ]


@dataclass(frozen=True, eq=False)
class JointChoice:
    """What a solution vector says: option per operator, int64[n, n] links, share of each ring of every group."""

    options: tuple[int, ...]
    counts: Ints
    ring_ms: tuple[tuple[float, ...], ...]
