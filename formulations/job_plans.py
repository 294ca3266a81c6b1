"""Mixed-integer programs choose a split for every operator, alone or with the network of a tiny cluster.

joint_plan
----------
Strategy, topology, ring orders and routing of a tiny cluster in one mixed-integer program.

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

strategy_choice
---------------
Choice of a split for every operator that makes the longest path of an event graph least (mixed-integer program).

Decided: one split per operator. What a choice costs is given as quantities of single operators or of pairs of operators
joined by an edge (times, bytes over rate), and as laws between events: the head of a law comes no earlier than its tail
plus a constant plus a sum of quantities. The same program serves two models of an iteration, by its data:

* a lower bound on every strategy (`topoopt.verify.job.strategy_laws`): laws that hold on every placement and network;
* a bulk-synchronous estimate to start a search from (`solvers.job.strategy_program`): compute, traffic.

Sets        OPERATORS o; SPLITS[o]; PAIRS e = (u, v), the edges of the workload; EVENTS k = 0..K, LAWS a = (tail, head).
Parameters  w[q, s] value of quantity q of an operator for its split s, w[q, s, t] of one of a pair, ms;
            c[a] constant, n[a, q] coefficients of the laws, ms and 1;  room[o, s] share of all memory.
Variables   z[o, s] in {0, 1}: the split chosen;  p[e, s, t] >= 0: both splits of a pair (linearised product);
            y[q] value of a quantity;  x[k]: time of an event, x[0] = 0, ms (every event is
            the head of some law).

    minimise    x[K]
    (1) choose    sum_s z[o, s] = 1                                            for every operator
    (2) producer  sum_t p[e, s, t] = z[u, s]                                   for every pair, split s of u
    (3) consumer  sum_s p[e, s, t] = z[v, t]                                   for every pair, split t of v
    (4) measure   y[q] = sum_s w[q, s] z[o, s], or sum_st w[q, s, t] p[e, s, t]   for every quantity
    (5) law       x[head] - x[tail] - sum_q n[a, q] y[q] >= c[a]               for every law
    (6) memory    sum_os room[o, s] z[o, s] <= 1                               if memory is limited

For whole z, (2) and (3) leave p[e, s, t] = z[u, s] z[v, t] only. The relaxation (z in [0, 1]) is the local polytope of
the pairwise costs: its duals of (5), a unit flow of events, of (2) and (3), prices of splits at the ends of pairs, and
of (6) are a proof of its value that needs no solver to check (Wainwright and Jordan, 2008, chapter 8; weak duality).

Size: sum S_o + sum_e S_u S_v + |quantities| + K columns, sum_e (S_u + S_v) + |OPERATORS| + |quantities| + |LAWS| rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from formulations.programs import Families, LpArrays, Rows, Term
from topoopt.core.arrays import Bools, Floats, Ints, offsets

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
        every = range(self.servers)
        return [(i, j) for i in every for j in every if i < j or (i != j and not self.bidirectional)]

    @property
    def arcs(self) -> list[Arc]:
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


def joint_plan_arrays(data: JointPlan) -> LpArrays:
    """The program; columns by family in the order of the module text, rows by number."""
    rows = Rows()
    for o, options in enumerate(data.options):
        for a in range(len(options)):
            rows.column("y", o, a, upper=1.0, integer=True)
    for e, (u, v) in enumerate(data.pairs):
        for a in range(len(data.options[u])):
            for c in range(len(data.options[v])):
                rows.column("p", e, a, c, upper=1.0)
    for i, j in data.bundles:
        for m in range(data.degree + 1):
            rows.column("links", i, j, m, upper=1.0, integer=True)
            rows.column("part", i, j, m)
    for g, orders in enumerate(data.rings):
        for r in range(len(orders)):
            rows.column("ring", g, r)
    for s in range(data.servers):
        for i, j in data.arcs:
            if j != s:
                rows.column("flow", s, i, j)
    for o in range(len(data.options)):
        rows.column("first", o)
        rows.column("turned", o)
    rows.column("C")
    rows.column("theta", upper=data.theta_most)
    _strategy(rows, data)
    _compute(rows, data)
    _links(rows, data)
    _traffic(rows, data)
    _connected(rows, data, "reach", 1.0)
    if not data.bidirectional:
        _connected(rows, data, "back", -1.0)
    return rows.program({("C",): 1.0, ("theta",): 1.0})


def _strategy(rows: Rows, data: JointPlan) -> None:
    for o, options in enumerate(data.options):
        rows.row(f"choose_{o}", 1, 1, [(rows.at("y", o, a), 1.0) for a in range(len(options))])
    for e, (u, v) in enumerate(data.pairs):
        first, second = range(len(data.options[u])), range(len(data.options[v]))
        for a in first:
            both = [(rows.at("p", e, a, c), 1.0) for c in second]
            rows.row(f"producer_{e}_{a}", 0, 0, [*both, (rows.at("y", u, a), -1.0)])
        for c in second:
            both = [(rows.at("p", e, a, c), 1.0) for a in first]
            rows.row(f"consumer_{e}_{c}", 0, 0, [*both, (rows.at("y", v, c), -1.0)])


def _weighed(rows: Rows, data: JointPlan, o: int, values: list[float], sign: float = 1.0) -> list[Term]:
    return [(rows.at("y", o, a), sign * value) for a, value in enumerate(values)]


def _compute(rows: Rows, data: JointPlan) -> None:
    compute = rows.at("C")
    for i in range(data.servers):
        used: list[Term] = []
        busy: list[Term] = [(compute, -1.0)]
        for o, options in enumerate(data.options):
            used += _weighed(rows, data, o, [float(option.memory[i]) for option in options])
            busy += _weighed(rows, data, o, [float(option.load[i]) for option in options])
        if data.memory_limited:
            rows.row(f"memory_{i}", -np.inf, 1, used)
        rows.row(f"load_{i}", -np.inf, 0, busy)
    forward = [[option.forward_ms for option in options] for options in data.options]
    backward = [[option.backward_ms for option in options] for options in data.options]
    for u, v in data.pairs:
        ends = [(rows.at("first", v), 1.0), (rows.at("first", u), -1.0)]
        rows.row(f"forward_{u}_{v}", 0, np.inf, [*ends, *_weighed(rows, data, u, forward[u], -1.0)])
        ends = [(rows.at("turned", u), 1.0), (rows.at("turned", v), -1.0)]
        rows.row(f"backward_{v}_{u}", 0, np.inf, [*ends, *_weighed(rows, data, v, backward[v], -1.0)])
    for o in range(len(data.options)):
        ends = [(rows.at("turned", o), 1.0), (rows.at("first", o), -1.0)]
        rows.row(f"turn_{o}", 0, np.inf, [*ends, *_weighed(rows, data, o, forward[o], -1.0)])
        ends = [(compute, 1.0), (rows.at("turned", o), -1.0)]
        rows.row(f"chain_{o}", 0, np.inf, [*ends, *_weighed(rows, data, o, backward[o], -1.0)])


def _count(rows: Rows, data: JointPlan, i: int, j: int, family: str, weight: float) -> list[Term]:
    """weight * sum_m m * family[bundle of i -> j, m]."""
    return [(rows.at(family, *data.bundle(i, j), m), weight * m) for m in range(1, data.degree + 1)]


def _links(rows: Rows, data: JointPlan) -> None:
    every = range(data.servers)
    for i, j in data.bundles:
        rows.row(f"bundle_{i}_{j}", 1, 1, [(rows.at("links", i, j, m), 1.0) for m in range(data.degree + 1)])
    for i in every:
        out = [term for j in every if j != i for term in _count(rows, data, i, j, "links", 1.0)]
        rows.row(f"out_degree_{i}", 0, data.degree, out)
        if not data.bidirectional:
            into = [term for j in every if j != i for term in _count(rows, data, j, i, "links", 1.0)]
            rows.row(f"in_degree_{i}", 0, data.degree, into)
    theta = rows.at("theta")
    most: list[Term] = [(theta, -float(data.degree))]
    for i in every:
        out = [term for j in every if j != i for term in _count(rows, data, i, j, "part", 1.0)]
        rows.row(f"cut_out_{i}", -np.inf, 0, [*out, *most])
        if not data.bidirectional:
            into = [term for j in every if j != i for term in _count(rows, data, j, i, "part", 1.0)]
            rows.row(f"cut_in_{i}", -np.inf, 0, [*into, *most])
    for i, j in data.bundles:
        parts = [(rows.at("part", i, j, m), 1.0) for m in range(data.degree + 1)]
        rows.row(f"split_{i}_{j}", 0, 0, [*parts, (theta, -1.0)])
        for m in range(data.degree + 1):
            terms = [(rows.at("part", i, j, m), 1.0), (rows.at("links", i, j, m), -data.theta_most)]
            rows.row(f"only_{i}_{j}_{m}", -np.inf, 0, terms)


def _traffic(rows: Rows, data: JointPlan) -> None:
    for g, orders in enumerate(data.rings):
        terms: list[Term] = [(rows.at("ring", g, r), 1.0) for r in range(len(orders))]
        for o, options in enumerate(data.options):
            terms += _weighed(rows, data, o, [option.reduced.get(g, 0.0) for option in options], -1.0)
        rows.row(f"reduce_{g}", 0, 0, terms)
    for s, v in data.arcs:
        terms = [(rows.at("flow", s, i, v), 1.0) for i in range(data.servers) if i != v]
        terms += [(rows.at("flow", s, v, j), -1.0) for j in range(data.servers) if j not in (v, s)]
        for e, table in enumerate(data.demand):
            terms += [(rows.at("p", e, a, c), -float(table[a, c, s, v])) for a, c in np.argwhere(table[:, :, s, v])]
        terms += [(rows.at("ring", g, r), -1.0) for g, r in data.hops(s, v)]
        rows.row(f"deliver_{s}_{v}", 0, 0, terms)
    for i, j in data.arcs:
        flows = [(rows.at("flow", s, i, j), 1.0) for s in range(data.servers) if s != j]
        rows.row(f"fit_{i}_{j}", -np.inf, 0, [*flows, *_count(rows, data, i, j, "part", -1.0)])


def _connected(rows: Rows, data: JointPlan, family: str, sign: float) -> None:
    most = data.servers - 1
    for i, j in data.arcs:
        rows.column(family, i, j)
        links = _count(rows, data, i, j, "links", -float(most))
        rows.row(f"{family}_fit_{i}_{j}", -np.inf, 0, [(rows.at(family, i, j), 1.0), *links])
    for v in range(1, data.servers):
        terms = [(rows.at(family, i, v), sign) for i in range(data.servers) if i != v]
        terms += [(rows.at(family, v, j), -sign) for j in range(data.servers) if j != v]
        rows.row(f"{family}_{v}", 1, 1, terms)


def chosen(
    data: JointPlan, program: LpArrays, x: Floats
) -> tuple[tuple[int, ...], Ints, tuple[tuple[float, ...], ...]]:
    """What a solution vector says: option per operator, int64[n, n] links, ms of each ring of every group."""
    assert program.column_names is not None
    at = {name: index for index, name in enumerate(program.column_names)}
    counts = np.zeros((data.servers, data.servers), dtype=np.int64)
    for i, j in data.arcs:
        a, b = data.bundle(i, j)
        counts[i, j] = max(range(data.degree + 1), key=lambda m: x[at[f"links_{a}_{b}_{m}"]])
    options = tuple(max(range(len(of)), key=lambda a: x[at[f"y_{o}_{a}"]]) for o, of in enumerate(data.options))
    ring_ms = tuple(
        tuple(max(0.0, float(x[at[f"ring_{g}_{r}"]])) for r in range(len(orders)))
        for g, orders in enumerate(data.rings)
    )
    return options, counts, ring_ms


def fixed(data: JointPlan, program: LpArrays, options: tuple[int, ...] | None, counts: Ints) -> LpArrays:
    """The program with given links, and given options where there are any."""
    assert program.column_names is not None
    at = {name: index for index, name in enumerate(program.column_names)}
    lower, upper = program.lower.copy(), program.upper.copy()
    for i, j in data.bundles:
        for m in range(data.degree + 1):
            lower[at[f"links_{i}_{j}_{m}"]] = upper[at[f"links_{i}_{j}_{m}"]] = float(counts[i, j] == m)
    for o, option in enumerate(options or ()):
        for a in range(len(data.options[o])):
            lower[at[f"y_{o}_{a}"]] = upper[at[f"y_{o}_{a}"]] = float(a == option)
    return replace(program, lower=lower, upper=upper)


Values = Floats


Quantity = tuple[int, Values]
"""What a choice costs: float64[splits] of the operator of that index, or float64[S_u, S_v] of the pair."""


@dataclass(frozen=True)
class EventLaw:
    """x[head] >= x[tail] + constant + sum of coefficient * y[quantity]."""

    name: str
    tail: int
    head: int
    constant: float
    terms: tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class StrategyChoice:
    """Data of the program.

    Attributes:
        splits: number of splits per operator.
        pairs: (u, v), distinct.
        quantities: see above.
        laws: tails before heads.
        events: K + 1; event 0 is the start, the last one the end.
        memory_share: float64[splits] per operator; None: memory is not limited.
        allowed: bool[splits] per operator, the splits that may be chosen; None: all.
    """

    splits: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    quantities: tuple[Quantity, ...]
    laws: tuple[EventLaw, ...]
    events: int
    memory_share: tuple[Values, ...] | None = None
    allowed: tuple[Bools, ...] | None = None

    @property
    def split_start(self) -> Ints:
        """int64[operators + 1]: columns of z by operator."""
        return offsets(self.splits)

    @property
    def pair_start(self) -> Ints:
        """int64[pairs + 1]: columns of p by pair."""
        first = int(self.split_start[-1])
        return first + offsets([self.splits[u] * self.splits[v] for u, v in self.pairs])

    @property
    def rows_of_pairs(self) -> Ints:
        """int64[pairs + 1]: rows (2), then (3), by pair."""
        return len(self.splits) + offsets([self.splits[u] + self.splits[v] for u, v in self.pairs])


def strategy_choice_arrays(data: StrategyChoice) -> LpArrays:
    """Columns z by operator, p by pair (splits of u first), y, x[1..K]; rows (1), (2, 3) by pair, (4), (5), (6)."""
    split_names, pair_names, row_names = _names(data)
    made = Families()
    # no bounds on times: only then do the duals of (5) conserve their flow
    free = {"lower": -np.inf, "upper": np.inf}
    allowed = 1.0 if data.allowed is None else np.concatenate(data.allowed)
    z = made.columns(len(split_names), upper=allowed, integer=True, names=split_names)
    p = made.columns(len(pair_names), upper=1.0, names=pair_names)
    y = made.columns(len(data.quantities), **free, names=[f"y_{q}" for q in range(len(data.quantities))])
    last = data.events - 1
    x = made.columns(last, **free, cost=np.arange(last) == last - 1, names=[f"x_{k + 1}" for k in range(last)])
    operators = [z[start:end] for start, end in pairwise(data.split_start)]
    pairs = [p[start:end] for start, end in pairwise(data.pair_start - len(z))]
    for choose, own in zip(made.rows(len(operators), 1.0, 1.0, row_names[: len(operators)]), operators, strict=True):
        made.terms(choose, own, 1.0)
    coupled = made.rows(len(row_names) - len(operators), 0.0, 0.0, row_names[len(operators) :])
    at = 0
    for (u, v), both in zip(data.pairs, pairs, strict=True):
        first, second = data.splits[u], data.splits[v]
        producer, consumer = coupled[at : at + first], coupled[at + first : at + first + second]
        at += first + second
        grid = both.reshape(first, second)
        made.terms(producer[:, None], grid, 1.0)
        made.terms(producer, operators[u], -1.0)
        made.terms(consumer, grid, 1.0)
        made.terms(consumer, operators[v], -1.0)
    measures = made.rows(len(y), 0.0, 0.0, [f"measure_{q}" for q in range(len(y))])
    made.terms(measures, y, 1.0)
    for measure, (index, values) in zip(measures, data.quantities, strict=True):
        made.terms(measure, (pairs if values.ndim == 2 else operators)[index], -values.ravel())
    constants = [law.constant for law in data.laws]
    laws = made.rows(len(constants), constants, np.inf, [f"law_{a}" for a in range(len(constants))])
    for row, law in zip(laws, data.laws, strict=True):
        ends = [(x[law.head - 1], 1.0)] + ([(x[law.tail - 1], -1.0)] if law.tail > 0 else [])
        made.terms(row, *zip(*ends, *((y[q], -coefficient) for q, coefficient in law.terms), strict=True))
    if data.memory_share is not None:
        made.terms(made.rows(1, -np.inf, 1.0, ["memory"]), z, np.concatenate(data.memory_share))
    return made.arrays()


def _names(data: StrategyChoice) -> tuple[list[str], list[str], list[str]]:
    """Of columns z, of columns p, of rows (1) to (3)."""
    splits = [f"z_{o}_{s}" for o, count in enumerate(data.splits) for s in range(count)]
    rows = [f"choose_{o}" for o in range(len(data.splits))]
    pairs = []
    for e, (u, v) in enumerate(data.pairs):
        pairs += [f"p_{e}_{s}_{t}" for s in range(data.splits[u]) for t in range(data.splits[v])]
        rows += [f"producer_{e}_{s}" for s in range(data.splits[u])]
        rows += [f"consumer_{e}_{t}" for t in range(data.splits[v])]
    return splits, pairs, rows


def chosen_splits(data: StrategyChoice, x: Values) -> tuple[int, ...]:
    """The split of every operator in a solution vector (of the relaxation: the largest share of each)."""
    start = data.split_start
    return tuple(int(np.argmax(x[start[o] : start[o + 1]])) for o in range(len(data.splits)))


def longest_path(data: StrategyChoice, splits: tuple[int, ...]) -> float:
    """x[K] of a choice: the longest path of its event graph, ms."""
    times = [0.0] * data.events
    amount = [
        float(values[tuple(splits[o] for o in data.pairs[index])] if values.ndim == 2 else values[splits[index]])
        for index, values in data.quantities
    ]
    for law in sorted(data.laws, key=lambda law: law.tail):
        cost = law.constant + sum(coefficient * amount[q] for q, coefficient in law.terms)
        times[law.head] = max(times[law.head], times[law.tail] + cost)
    return times[-1]
