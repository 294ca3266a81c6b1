"""Events of an iteration, numbered so that every law leads on, and who comes before and after whom, as bit sets. What
an operator may choose where servers are told apart by their number modulo G, and least traffic class by class. What
a choice of states costs, as tables of single operators and of pairs of operators: the data of the laws. Whether
even and odd servers may be exchanged: all tables of the laws stay as they are. What every strategy must take at
least, as a graph of events joined by laws that are linear in the choice of states.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.verify.job.least_times import Choices, PairTables, between_all, binds, least_byte_hops, summed_by_pair
from topoopt.verify.job.plan import BYTES_PER_MS_OF_ONE_GBPS, channels_read, overlap, slices

ANCHORS = 48
"""Operators with laws (7) to (10), which have a term per operator: at most about so many, spread over the graph."""

KINDS = (("first", True), ("mid", True), ("last", True), ("back", False), ("midback", False), ("turned", False))
"""Events of an operator, and whether those of a kind come in the order of the operators. Starts of its forward parts:
the earliest, the mean over slices of the samples (`_of_slices`) and the latest; the same of its backward parts."""


class EventGraph:
    """Who comes before and after whom over binding edges, as bit sets, and the numbers of the events."""

    def __init__(self, count: int, pairs: tuple[tuple[int, int], ...], bound: tuple[bool, ...]) -> None:
        self.count, self.pairs, self.bound = count, pairs, bound
        self.before = [1 << o for o in range(count)]
        self.after = [1 << o for o in range(count)]
        binding = [pair for pair, holds in zip(pairs, bound, strict=True) if holds]
        for u, v in sorted(binding, key=lambda pair: pair[1]):
            self.before[v] |= self.before[u]
        for u, v in sorted(binding, key=lambda pair: -pair[0]):
            self.after[u] |= self.after[v]
        self.around = list(self.before)
        for u, v in sorted(binding, key=lambda pair: -pair[0]):
            self.around[u] |= self.around[v]

    def events(self) -> tuple[str, ...]:
        rising, falling = range(self.count), range(self.count - 1, -1, -1)
        names = [f"{kind}({o})" for kind, order in KINDS for o in (rising if order else falling)]
        return ("start", *names, "end")

    def at(self, kind: str, o: int) -> int:
        index = [name for name, _ in KINDS].index(kind)
        return 1 + index * self.count + (o if KINDS[index][1] else self.count - 1 - o)

    @property
    def end(self) -> int:
        return 1 + len(KINDS) * self.count

    def into(self, members: int) -> tuple[int, ...]:
        """Pairs whose consumer is a member."""
        return tuple(e for e, (_, v) in enumerate(self.pairs) if members >> v & 1)

    def out_of(self, members: int) -> tuple[int, ...]:
        """Pairs whose producer is a member."""
        return tuple(e for e, (u, _) in enumerate(self.pairs) if members >> u & 1)

    def joins(self) -> list[tuple[int, int]]:
        """(u, o): an operator of several binding producers, and the last one that comes before all of these.

        Only where at least two others lie between them.
        """
        joins = []
        for o in range(self.count):
            producers = [u for (u, v), holds in zip(self.pairs, self.bound, strict=True) if v == o and holds]
            if len(producers) < 2:
                continue
            common = -1
            for u in producers:
                common &= self.before[u]
            if common:
                u = common.bit_length() - 1
                if (self.after[u] & self.before[o]).bit_count() >= 4:
                    joins.append((u, o))
        return joins

    def anchors(self, alike: tuple[object, ...]) -> list[int]:
        """Operators with laws on all they come before or after: the first of those that are alike, then some others.

        Where unlike ones are too many, some spread over the graph, those with unlike surroundings first.
        """
        if self.count <= ANCHORS:
            return list(range(self.count))
        unlike = sorted({kind: o for o, kind in reversed(list(enumerate(alike)))}.values())
        if len(unlike) <= ANCHORS:
            rest = sorted({*range(self.count)} - {*unlike})
            more = np.linspace(0, len(rest) - 1, ANCHORS - len(unlike)).astype(int).tolist()
            return sorted({*unlike, *(rest[i] for i in more)})
        fan = [0] * self.count
        for u, v in self.pairs:
            fan[v] += 1
            fan[u] += 1
        ends = [o for o in unlike if self.after[o] == 1 << o or fan[o] > 2]
        if len(ends) > ANCHORS // 2:
            ends = [ends[i] for i in np.linspace(0, len(ends) - 1, ANCHORS // 2).astype(int)]
        spread = np.linspace(0, len(unlike) - 1, ANCHORS - len(ends)).astype(int).tolist()
        return sorted({*ends, *(unlike[i] for i in spread)})


def alike(workload: Workload, pairs: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
    """Of every operator what makes it the like of another: same neighbours, weights, outputs and splits."""
    beside: list[set[tuple[bool, int]]] = [set() for _ in workload.operators]
    for u, v in pairs:
        beside[u].add((True, v))
        beside[v].add((False, u))
    return tuple(
        (frozenset(neighbours), operator.weight_elements, operator.output_elements, operator.splits)
        for neighbours, operator in zip(beside, workload.operators, strict=True)
    )


def bits(members: int) -> tuple[int, ...]:
    """Members of a bit set, ascending."""
    return tuple(o for o in range(members.bit_length()) if members >> o & 1)


@dataclass(frozen=True, eq=False)
class States:
    """What one operator may choose.

    Attributes:
        split: int64[states], the usable split.
        residue: int64[states], its offset modulo `period`.
        period: int64[states], gcd of its stride and the number of classes.
        parts: int64[states], parts of the split.
    """

    split: Ints
    residue: Ints
    period: Ints
    parts: Ints

    def on_a_server(self, servers: int, of_class: int | None) -> Floats:
        """float64[states]: parts on a server, in the mean over a class, or over all where it is None."""
        if of_class is None:
            return self.parts / servers
        mean: Floats = (of_class % self.period == self.residue) * (self.parts * self.period / servers)
        return mean


def states_of(cluster: Cluster, workload: Workload, choices: tuple[Choices, ...], classes: int) -> tuple[States, ...]:
    """Usable splits with every class of offset that they may have."""
    return tuple(
        _states(cluster.servers, operator, choice.splits, classes)
        for operator, choice in zip(workload.operators, choices, strict=True)
    )


def _states(servers: int, operator: Operator, splits: tuple[Split, ...], classes: int) -> States:
    rows = []
    for index, split in enumerate(splits):
        parts = split.parts
        period = math.gcd(servers // parts, classes)
        residues = range(period) if operator.pinned_offset is None else (operator.pinned_offset % period,)
        rows += [(index, residue, period, parts) for residue in residues]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return States(table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def class_traffic(
    cluster: Cluster, workload: Workload, choices: tuple[Choices, ...], states: tuple[States, ...], classes: int
) -> PairTables:
    """Least traffic between operators by their states, each figure least over the offsets of the two, bytes.

    Bytes times links crossed; what any part of the consumer has from other servers; what any part of the producer sends
    to others; of each class what its servers send together, then what they receive together.
    """

    def figures(u: int, v: int, edge: OperatorInput) -> Floats:
        producer, consumer = workload.operators[u], workload.operators[v]
        pins = (producer.pinned_offset, consumer.pinned_offset)
        sizes = (
            (_sizes(workload, producer, consumer, edge, first, second) for second in choices[v].splits)
            for first in choices[u].splits
        )
        return _class_table(cluster, sizes, pins, (states[u], states[v]), classes)

    return summed_by_pair(workload, choices, figures, by_pins=True)


def _class_table(
    cluster: Cluster,
    sizes: Iterable[Iterable[Floats]],
    pins: tuple[int | None, int | None],
    states: tuple[States, States],
    classes: int,
) -> Floats:
    """float64[states of producer, states of consumer, 3 + 2 classes], of the sizes of transfers by splits."""
    first, second = states
    table = np.full((len(first.split), len(second.split), 3 + 2 * classes), np.inf)
    for s, row in enumerate(sizes):
        for t, moved in enumerate(row):
            o, p = _offsets(cluster.servers, moved.shape, pins, classes)
            figures = _figures(cluster, moved, o, p, classes)
            for a in np.flatnonzero(first.split == s):
                of_first = o % first.period[a] == first.residue[a]
                for b in np.flatnonzero(second.split == t):
                    both = of_first & (p % second.period[b] == second.residue[b])
                    table[a, b] = figures[both].min(axis=0, initial=np.inf)
    return table


def _offsets(
    servers: int, parts: tuple[int, ...], pins: tuple[int | None, int | None], classes: int
) -> tuple[Ints, Ints]:
    """int64[pairs] each: offsets of the two operators; they matter by their difference and the class of the first."""
    own = [
        np.arange(servers // count) if pin is None else np.array([pin]) for count, pin in zip(parts, pins, strict=True)
    ]
    o, p = (grid.ravel() for grid in np.meshgrid(*own, indexing="ij"))
    _, kept = np.unique((p - o) * classes + o % classes, return_index=True)
    return o[kept], p[kept]


def _sizes(
    workload: Workload, producer: Operator, consumer: Operator, edge: OperatorInput, first: Split, second: Split
) -> Floats:
    """float64[parts of producer, parts of consumer], bytes of each transfer, rounded down where edges are parts."""
    rows = overlap(slices(workload.samples, first.sample_ways), slices(workload.samples, second.sample_ways))
    columns = channels_read(
        producer.output_elements,
        consumer.mixes_channels,
        (second.channel_ways, second.reduce_ways),
        (first.channel_ways, first.reduce_ways),
    ).T
    sizes: Floats = np.kron(rows, columns).astype(np.float64) * float(producer.element_bytes)
    if edge.fraction != 1.0:
        sizes = np.floor(sizes * edge.fraction * (1 - 1e-12))  # never above the exact size rounded down
    return sizes


def _figures(cluster: Cluster, sizes: Floats, o: Ints, p: Ints, classes: int) -> Floats:
    """float64[pairs, 3 + 2 classes] of pairs of offsets."""
    n = cluster.servers
    source, target = (
        at[:, None] + n // parts * np.arange(parts) for at, parts in zip((o, p), sizes.shape, strict=True)
    )
    moved = np.where(source[:, :, None] == target[:, None, :], 0.0, sizes)
    sent, received = moved.sum(axis=2), moved.sum(axis=1)
    by_class = [
        np.where(servers % classes == residue, amount, 0.0).sum(axis=1)
        for servers, amount in ((source, sent), (target, received))
        for residue in range(classes)
    ]
    return np.stack((least_byte_hops(moved, cluster), received.min(axis=1), sent.min(axis=1), *by_class), axis=1)


Tables = Mapping[str, tuple[Floats, ...]]


@dataclass(frozen=True)
class View:
    """Whose busiest server a law speaks of: all servers, or a class; and by which tables.

    Attributes:
        servers: the class; None: all servers.
        name: after the name of a law.
        load: of the tables of work and of AllReduces.
        works: whether it has laws on work.
        directions: (name, table of forward bytes, table of backward bytes).
    """

    servers: int | None
    name: str
    load: str
    works: bool
    directions: tuple[tuple[str, str, str], ...]


def views_of(classes: int) -> tuple[View, ...]:
    """All servers, and each class where there are several."""
    everyone = View(None, "", "", classes == 1, (("", "bytes", "bytes"),))
    if classes == 1:
        return (everyone,)
    alone = []
    for p in range(classes):
        out, into = f"out of class {p}", f"into class {p}"
        alone.append(View(p, f" in class {p}", f" {p}", True, ((f" {out}", out, into), (f" {into}", into, out))))
    return (everyone, *alone)


def operator_tables(
    cluster: Cluster, choices: tuple[Choices, ...], states: tuple[States, ...], views: tuple[View, ...]
) -> Tables:
    """Tables of float64[states], ms, by name, an array per operator."""
    server_rate = cluster.degree * cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    own = tuple(zip(choices, states, strict=True))
    tables = {
        "forward": tuple(c.forward_ms[s.split] for c, s in own),
        "backward": tuple(c.backward_ms[s.split] for c, s in own),
        "reduction": tuple(c.reduction_ms[s.split] for c, s in own),
    }
    whole = tuple(
        np.array([float(s.channel_ways * s.reduce_ways == 1) for s in c.splits], dtype=np.float64)[s.split]
        for c, s in own
    )
    for view in views:
        held = tuple(s.on_a_server(cluster.servers, view.servers) for s in states)
        sent = tuple(c.wire_bytes[s.split] / (s.parts * server_rate) * h for (c, s), h in zip(own, held, strict=True))
        for direction in ("forward", "backward"):
            tables[f"{direction} work{view.load}"] = tuple(t * h for t, h in zip(tables[direction], held, strict=True))
        tables[f"allreduce{view.load}"] = sent
        tables[f"whole allreduce{view.load}"] = tuple(w * u for w, u in zip(sent, whole, strict=True))
    return tables


def pair_tables(
    cluster: Cluster, workload: Workload, choices: tuple[Choices, ...], states: tuple[States, ...], classes: int
) -> tuple[tuple[tuple[int, int], ...], Tables]:
    """Pairs of operators in order of consumer and producer; tables of float64[states, states], ms, an array each."""
    server_rate = cluster.degree * cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    everyone = cluster.servers * server_rate
    traffic = (
        between_all(cluster, workload, choices)
        if classes == 1
        else class_traffic(cluster, workload, choices, states, classes)
    )
    units = {"bytes": everyone, "received": server_rate, "sent": server_rate}
    tables = {
        name: tuple(table[..., column] / unit for table in traffic.values())
        for column, (name, unit) in enumerate(units.items())
    }
    for p in range(classes if classes > 1 else 0):
        for column, name in ((3 + p, f"out of class {p}"), (3 + classes + p, f"into class {p}")):
            tables[name] = tuple(table[..., column] * classes / everyone for table in traffic.values())
    return tuple(traffic), tables


def memory_shares(
    cluster: Cluster, choices: tuple[Choices, ...], states: tuple[States, ...]
) -> tuple[Floats, ...] | None:
    """float64[states] per operator, its share of the memory of all servers; None where memory is not limited."""
    if cluster.gpu_memory_bytes is None:
        return None
    total = float(cluster.gpu_memory_bytes) * cluster.gpus_per_server * cluster.servers
    return tuple(
        s.parts * np.array([split.server_memory_bytes for split in c.splits], dtype=np.float64)[s.split] / total
        for c, s in zip(choices, states, strict=True)
    )


SAME = 1e-12
"""Two sums of the same terms in another order; far below what a certificate takes off its bound for rounding."""


def mirrored(laws: StrategyLaws) -> bool:
    """Whether the laws of every choice of states are those of the choice with all residues exchanged.

    A table of one of the two classes ends in its number.
    """
    places = [_swapped(states) for states in laws.states]
    if any(order is None for order in places):
        return False
    orders = [order for order in places if order is not None]
    nodes = [(order,) for order in orders]
    grids = [(orders[u], orders[v]) for u, v in laws.pairs]
    return _same(laws.operators, nodes) and _same(laws.between, grids)


def _swapped(states: States) -> Ints | None:
    """int64[states]: where each one stands with its residue exchanged; None if there is no such state."""
    rows = list(zip(states.split.tolist(), states.residue.tolist(), strict=True))
    other = [(split, 1 - r if g == 2 else r) for (split, r), g in zip(rows, states.period.tolist(), strict=True)]
    if set(other) != set(rows):
        return None
    return np.array([rows.index(row) for row in other], dtype=np.int64)


def _same(tables: Tables, places: Iterable[tuple[Ints, ...]]) -> bool:
    listed = list(places)
    return all(
        np.allclose(values[np.ix_(*index)], other, rtol=SAME, atol=0.0)
        for name, arrays in tables.items()
        for values, other, index in zip(arrays, tables[_exchanged(name)], listed, strict=True)
    )


def _exchanged(name: str) -> str:
    return f"{name[:-1]}{1 - int(name[-1])}" if name[-1] in "01" else name


Terms = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Law:
    """head >= tail + constant + sum of table[index][chosen states] over the terms (table, indices)."""

    name: str
    tail: int
    head: int
    constant: float = 0.0
    operators: Terms = ()
    pairs: Terms = ()


@dataclass(frozen=True, eq=False)
class StrategyLaws:
    """Events 0 (start) to the last one (end) in an order in which every law leads on, and the laws.

    Attributes:
        events: names.
        laws: see the module text.
        states: what every operator may choose.
        operators: tables of float64[states], ms, one array per operator.
        pairs: (producer, consumer) of every pair joined by edges.
        between: tables of float64[states of producer, states of consumer], ms, one array per pair.
        memory: float64[states] per operator, share of the memory of all servers that the operator takes; those of a
            strategy add up to 1 at most. None: memory is not limited.
    """

    events: tuple[str, ...]
    laws: tuple[Law, ...]
    states: tuple[States, ...]
    operators: Tables
    pairs: tuple[tuple[int, int], ...]
    between: Tables
    memory: tuple[Floats, ...] | None

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(len(states.split) for states in self.states)


def strategy_laws(cluster: Cluster, workload: Workload, choices: tuple[Choices, ...], classes: int = 1) -> StrategyLaws:
    """The laws of a workload every operator of which has a usable split, on two servers or more.

    Args:
        classes: of servers by their number modulo it; divides the servers.
    """
    states = states_of(cluster, workload, choices, classes)
    views = views_of(classes)
    pairs, between = pair_tables(cluster, workload, choices, states, classes)
    bound = [binds(workload, choices, u, v) and _reads(workload, u, v) for u, v in pairs]
    graph, sliced = EventGraph(len(choices), pairs, tuple(bound)), in_slices(cluster.servers, workload, choices)
    anchors = graph.anchors(alike(workload, pairs))
    if sliced:
        between = {**between, "of a slice": _waits(states, pairs, between)}
    return StrategyLaws(
        events=graph.events(),
        laws=(*_laws(graph, choices, views, anchors), *(_of_slices(graph, anchors) if sliced else ())),
        states=states,
        operators=operator_tables(cluster, choices, states, views),
        pairs=pairs,
        between=between,
        memory=memory_shares(cluster, choices, states),
    )


def _reads(workload: Workload, producer: int, consumer: int) -> bool:
    return any(e.producer == producer and e.fraction > 0 for e in workload.operators[consumer].inputs)


def _laws(
    graph: EventGraph, choices: tuple[Choices, ...], views: tuple[View, ...], anchors: list[int]
) -> Iterable[Law]:
    at, end, count = graph.at, graph.end, graph.count
    for e, (u, v) in enumerate(graph.pairs):
        if not graph.bound[e]:
            continue
        here, there = ("forward", (u,)), ("backward", (v,))
        yield Law(f"first {u}>{v}", at("first", u), at("first", v), 0.0, (here,), (("received", (e,)),))
        yield Law(f"last {u}>{v}", at("last", u), at("last", v), 0.0, (here,), (("sent", (e,)),))
        yield Law(f"back {v}>{u}", at("back", v), at("back", u), 0.0, (there,), (("sent", (e,)),))
        yield Law(f"turned {v}>{u}", at("turned", v), at("turned", u), 0.0, (there,), (("received", (e,)),))
    for o in range(count):
        yield Law(f"begin {o}", 0, at("first", o))
        yield Law(f"first-last {o}", at("first", o), at("last", o))
        yield Law(f"back-turned {o}", at("back", o), at("turned", o))
        yield Law(f"first-back {o}", at("first", o), at("back", o), 0.0, (("forward", (o,)),))
        yield Law(f"last-turned {o}", at("last", o), at("turned", o), 0.0, (("forward", (o,)),))
        yield Law(f"reduce {o}", at("turned", o), end, 0.0, (("backward", (o,)), ("reduction", (o,))))
    everyone, all_pairs = tuple(range(count)), tuple(range(len(graph.pairs)))
    read = sorted({u for u, _ in graph.pairs})
    head_ms = min((float(choices[u].forward_ms.min()) for u in read), default=0.0)
    early = min(float(choice.forward_ms.min()) for choice in choices)
    joins = graph.joins()
    for view in views:
        if view.works:
            both = ((f"forward work{view.load}", everyone), (f"backward work{view.load}", everyone))
            yield Law(f"all work{view.name}", 0, end, 0.0, both)
        for suffix, forth, back in view.directions:
            moved = ((forth, all_pairs), (back, all_pairs))
            yield Law(f"all bytes{suffix}", 0, end, early, ((f"allreduce{view.load}", everyone),), moved)
        for o in anchors:
            yield from _wide(graph, choices, o, head_ms, view)
        for u, o in joins:
            yield from _between(graph, u, o, view)
        for u in sorted({u for u, _ in joins}):
            yield from _around(graph, u, view)


def _wide(graph: EventGraph, choices: tuple[Choices, ...], o: int, head_ms: float, view: View) -> Iterable[Law]:
    """Laws (7) to (10) of one operator."""
    at, end = graph.at, graph.end
    before, after, around = bits(graph.before[o]), bits(graph.after[o]), bits(graph.around[o])
    strictly_before, strictly_after = tuple(x for x in before if x != o), tuple(x for x in after if x != o)
    into_before, into_around = graph.into(graph.before[o]), graph.into(graph.around[o])
    out_of_after = graph.out_of(graph.after[o])
    fw, bw, reduced = f"forward work{view.load}", f"backward work{view.load}", f"allreduce{view.load}"
    own = ("backward", (o,))
    if view.works:
        yield Law(f"work before {o}{view.name}", 0, at("last", o), 0.0, ((fw, strictly_before),))
        yield Law(f"work until {o}{view.name}", 0, at("turned", o), 0.0, ((fw, around), (bw, strictly_after)))
        yield Law(f"work after {o}{view.name}", at("back", o), end, 0.0, ((bw, before),))
        yield Law(f"work from {o}{view.name}", at("first", o), end, 0.0, ((fw, after), (bw, around)))
        local = min((choices[x].least_local_ms for x in before if (choices[x].reduction_ms > 0).any()), default=0.0)
        whole = (own, (f"whole {reduced}", before))
        yield Law(f"reductions after {o}{view.name}", at("turned", o), end, local, whole)
    for suffix, forth, back in view.directions:
        if into_before:
            yield Law(f"bytes before {o}{suffix}", 0, at("last", o), head_ms, (), ((forth, into_before),))
        if into_around or out_of_after:
            moved = ((forth, into_around), (back, out_of_after))
            yield Law(f"bytes until {o}{suffix}", 0, at("turned", o), head_ms, (), moved)
        returned = (own, (reduced, before))
        yield Law(f"bytes after {o}{suffix}", at("back", o), end, 0.0, returned, ((back, into_before),))
        yield Law(
            f"bytes from {o}{suffix}",
            at("first", o),
            end,
            0.0,
            (("forward", (o,)), (reduced, around)),
            ((forth, out_of_after), (back, into_around)),
        )


def _around(graph: EventGraph, o: int, view: View) -> Iterable[Law]:
    below = tuple(x for x in bits(graph.after[o]) if x != o)
    out_of = graph.out_of(graph.after[o])
    ends, own = (graph.at("first", o), graph.at("turned", o)), ("forward", (o,))
    if view.works and below:
        both = ((f"forward work{view.load}", below), (f"backward work{view.load}", below))
        yield Law(f"work around {o}{view.name}", *ends, 0.0, (own, *both))
    for suffix, forth, back in view.directions if out_of else ():
        yield Law(f"bytes around {o}{suffix}", *ends, 0.0, (own,), ((forth, out_of), (back, out_of)))


def _between(graph: EventGraph, u: int, o: int, view: View) -> Iterable[Law]:
    members = graph.after[u] & graph.before[o]
    inner = tuple(x for x in bits(members) if x not in (u, o))
    moved = tuple(sorted({*graph.out_of(graph.after[u])} & {*graph.into(graph.before[o])}))
    forth_ends = graph.at("first", u), graph.at("last", o)
    back_ends = graph.at("back", o), graph.at("turned", u)
    own, returned = ("forward", (u,)), ("backward", (o,))
    name = f"{u} and {o}"
    if view.works:
        yield Law(f"work between {name}{view.name}", *forth_ends, 0.0, (own, (f"forward work{view.load}", inner)))
        work_back = (returned, (f"backward work{view.load}", inner))
        yield Law(f"work back between {name}{view.name}", *back_ends, 0.0, work_back)
    for suffix, forth, back in view.directions:
        yield Law(f"bytes between {name}{suffix}", *forth_ends, 0.0, (own,), ((forth, moved),))
        yield Law(f"bytes back between {name}{suffix}", *back_ends, 0.0, (returned,), ((back, moved),))


OF_SLICES = "slice "
"""What names of the laws of slices begin with."""


def in_slices(servers: int, workload: Workload, choices: tuple[Choices, ...]) -> bool:
    """Whether every usable split cuts samples only, and all of them are unions of equal slices, one per server."""
    splits = [split for choice in choices for split in choice.splits]
    return workload.samples % servers == 0 and all(split.channel_ways * split.reduce_ways == 1 for split in splits)


def _waits(states: tuple[States, ...], pairs: tuple[tuple[int, int], ...], between: Tables) -> tuple[Floats, ...]:
    """float64[states, states] per pair: how long a slice waits for transfers on an edge at least, in the mean, ms.

    A part of the consumer that reads m equal transfers, one of which may be local, starts after the i-th latest of its
    sources and then the i - 1 transfers of later ones: in the mean over sources (m - 1) / 2 transfers, half of what it
    receives at least. A part of the producer that sends m equal transfers: likewise. Between equal splits m is 1, and
    the transfer counts in full. Where neither number of parts divides the other, transfers differ, and nothing counts.
    """
    tables = []
    for (u, v), received, sent in zip(pairs, between["received"], between["sent"], strict=True):
        first, second = states[u].parts[:, None], states[v].parts[None, :]
        nested = (first % second == 0) | (second % first == 0)
        tables.append(np.where(first == second, 1.0, np.where(nested, 0.5, 0.0)) * np.maximum(received, sent))
    return tuple(tables)


def _of_slices(graph: EventGraph, anchors: list[int]) -> Iterable[Law]:
    """Laws of mean starts over slices; all splits are of samples (`in_slices`).

    Cut the samples into n equal slices. Part i of k stands on server offset + i n / k, offset < n / k, and has slices
    i n / k to (i + 1) n / k - 1. So one part of every operator covers a slice, and every part on server j covers slice
    j. The parts that cover a slice wait for each other along binding edges. So the parts on server j of all operators
    between two others run one after another between the parts of these two that cover slice j. In the mean over slices
    that is the work of all parts over n; means of starts lie between the earliest and the latest one.
    """
    at, forward, backward = graph.at, "forward work", "backward work"

    def law(
        name: str, tail: int, head: int, *operators: tuple[str, tuple[int, ...]], waits: tuple[int, ...] = ()
    ) -> Law:
        return Law(OF_SLICES + name, tail, head, 0.0, operators, (("of a slice", tuple(waits)),) if waits else ())

    for o in range(graph.count):
        for kind, later in (("first", "mid"), ("mid", "last"), ("back", "midback"), ("midback", "turned")):
            yield law(f"{kind}-{later} {o}", at(kind, o), at(later, o))
        yield law(f"mid-midback {o}", at("mid", o), at("midback", o), ("forward", (o,)))
    for e, (u, v) in enumerate(graph.pairs):
        if graph.bound[e]:
            yield law(f"mid {u}>{v}", at("mid", u), at("mid", v), ("forward", (u,)), waits=(e,))
            yield law(f"midback {v}>{u}", at("midback", v), at("midback", u), ("backward", (v,)), waits=(e,))
    for u, o in graph.joins():
        inner = tuple(x for x in bits(graph.after[u] & graph.before[o]) if x not in (u, o))
        yield law(f"between {u} and {o}", at("mid", u), at("mid", o), ("forward", (u,)), (forward, inner))
        back_ends = at("midback", o), at("midback", u)
        yield law(f"back between {u} and {o}", *back_ends, ("backward", (o,)), (backward, inner))
    for o in anchors:
        ahead, behind = (tuple(x for x in bits(of[o]) if x != o) for of in (graph.before, graph.after))
        yield law(f"before {o}", 0, at("mid", o), (forward, ahead))
        yield law(f"until {o}", 0, at("midback", o), (forward, bits(graph.around[o])), (backward, behind))
        yield law(f"after {o}", at("midback", o), graph.end, (backward, (*ahead, o)))
        both = ("forward", (o,)), (forward, behind), (backward, behind)
        yield law(f"around {o}", at("mid", o), at("midback", o), *both)
