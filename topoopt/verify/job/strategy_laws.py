r"""What every strategy must take at least, as a graph of events joined by laws that are linear in the choice of states.

An event stands for a time; a law `head >= tail + cost` holds in the simulated iteration of every strategy, on every
topology, with all routes, rings and schedules. The state of an operator is its split and, with two classes of servers
(even and odd ones), the class of its offset (`offset_classes`); with one class it is the split. A cost is a sum over
operators of a number that depends on the state of each, and over pairs of operators of one that depends on both. The
longest path from `start` to `end` therefore bounds the iteration time of a strategy, and its minimum over the states
bounds that of all (`strategy_certificate`).

Notation: n servers, R = n d B bytes a ms that all links carry, r = d B that one server sends or receives at most; f, b
forward and backward time of one part, P parts; FW(S), BW(S): time of all forward (backward) parts of the operators S,
over n; FB(E), BB(E): least forward (backward) bytes times hops of the pairs E, over R (`wire`); AR(S): bytes sent in
the AllReduces of S, over R, and AR1(S) the same without the splits that cut weights. An edge u -> v *binds*
(`chains.binds`) if every part of v reads some part of u and every part of u is read by some part of v. Anc(o), Desc(o):
reached over binding edges, o included; Up(o) = union of Anc(x) over x in Desc(o).

Events     first(o), back(o): every forward (backward) part of o starts no earlier.
           last(o), turned(o): the forward (backward) part of o that starts last starts no earlier.

Assumed of the time model, as in `bounds_of`: the tasks of a server run one at a time; a task waits for its inputs, a
backward part also for its own forward part; backward transfers mirror the forward ones; AllReduces of a shard start
after all backward parts that hold it, first inside the servers and then over at least one link per message; on rings as
on any schedule its k members send, and receive, at least 2 (k-1) payloads together, over their own interfaces.

Laws, each with its proof
 (1) first(v) >= first(u) + f_u + received_uv / r, for a binding edge. A part of v reads parts of u on different
     servers: all but one transfer come over its interfaces, none before f_u is over.
 (2) last(v) >= last(u) + f_u + sent_uv / r. The last part of u is read by parts of v on different servers: all but one
     transfer leave over its interfaces, and the part of v they reach last starts after that.
 (3) back(u) >= back(v) + b_v + sent_uv / r;  (4) turned(u) >= turned(v) + b_v + received_uv / r: (1), (2) backwards.
 (5) last(o) >= first(o), turned(o) >= back(o), back(o) >= first(o) + f_o, turned(o) >= last(o) + f_o.
 (6) end >= turned(o) + b_o + reduction_o: the part that turns last has its shard reduced after it.
 (7) last(o) >= FW(Anc(o) - o): every part of an ancestor is, over binding edges, waited for by some part of o.
     turned(o) >= FW(Up(o)) + BW(Desc(o) - o): every backward part of a descendant x is waited for by a backward part of
     o; it waits for its own forward part, and every forward part of an ancestor of x is waited for by one of x.
 (8) end >= back(o) + BW(Anc(o)): every backward part of an ancestor waits for some backward part of o.
     end >= first(o) + FW(Desc(o)) + BW(Up(o)): every forward part of a descendant x waits for some part of o, every
     backward part of x for its forward part, every backward part of an ancestor of x for one of x.
 (9) last(o) >= h + FB(pairs into Anc(o)), h the least f of an operator that is read: the transfers into a part precede
     it, and none starts before h.  turned(o) >= h + FB(pairs into Up(o)) + BB(pairs out of Desc(o)), as in (7).
(10) end >= back(o) + b_o + BB(pairs into Anc(o)) + AR(Anc(o)): an AllReduce, or a backward transfer out of x in
     Anc(o), waits for a backward part of x, which is o or waits for one of o.
     end >= turned(o) + b_o + l + AR1(Anc(o)): where weights are not cut, an AllReduce of x waits for all parts of x, so
     for the last, which does not start before turned(o) + b_o if x is not o (by (4) each step up only adds); l is the
     least time that any AllReduce of Anc(o) spends inside the servers first, whatever the splits; where none has a
     weight, l = 0.
     end >= first(o) + f_o + FB(pairs out of Desc(o)) + BB(pairs into Up(o)) + AR(Up(o)): as in the second line of (8).
(11) end >= FW(all) + BW(all), and end >= h + FB(all) + BB(all) + AR(all).
(12) Between two events, u in Anc(o): with D = Desc(u), all that waits for a part of u, hence for first(u) + f_u,
     last(o) >= first(u) + f_u + FW(D and Anc(o) - u - o), and with FB(pairs out of D into Anc(o)), as in (7) and (9);
     turned(u) >= back(o) + b_o + BW(D and Anc(o) - u - o), and with BB(pairs out of D into Anc(o)): a backward part
     between the two waits for one of o, and one of u for it;
     turned(u) >= first(u) + f_u + FW(D - u) + BW(D - u), and with FB(pairs out of D) + BB(pairs out of D): a backward
     part of a descendant waits for its own forward part, which waits for some part of u, and one of u waits for it; so
     for the transfers out of D, there and back.
     Stated for joins o of several operators and the last u that comes before all of these.
(13) With several classes, (7) to (12) for the servers of each class p alone: FW, BW are times on them over their
     number, FB, BB what leaves them, or what enters them, over what they send or receive at most, AR what AllReduces
     make them send. The proofs are the same with the busiest server of the class in the place of the busiest of all: a
     member of an AllReduce sends and receives its 2 (k-1) payloads over k itself, what it forwards for others only
     adds, and a transfer leaves its source and enters its target on whatever route; backward the two swap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Workload
from topoopt.verify.job.chains import binds
from topoopt.verify.job.choices import Choices
from topoopt.verify.job.event_graph import EventGraph, alike, bits
from topoopt.verify.job.offset_classes import States, states_of
from topoopt.verify.job.strategy_tables import Tables, View, operator_tables, pair_tables, room_of, views_of

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
        room: float64[states] per operator, share of the memory of all servers that the operator takes; the shares of a
            strategy add up to 1 at most. None: memory is not limited.
    """

    events: tuple[str, ...]
    laws: tuple[Law, ...]
    states: tuple[States, ...]
    operators: Tables
    pairs: tuple[tuple[int, int], ...]
    between: Tables
    room: tuple[Floats, ...] | None

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of states per operator."""
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
    graph = EventGraph(len(choices), pairs, tuple(bound))
    return StrategyLaws(
        events=graph.events(),
        laws=tuple(_laws(graph, choices, views, graph.anchors(alike(workload, pairs)))),
        states=states,
        operators=operator_tables(cluster, choices, states, views),
        pairs=pairs,
        between=between,
        room=room_of(cluster, choices, states),
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
        for way, forth, back in view.ways:
            moved = ((forth, all_pairs), (back, all_pairs))
            yield Law(f"all bytes{way}", 0, end, early, ((f"allreduce{view.load}", everyone),), moved)
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
    for way, forth, back in view.ways:
        if into_before:
            yield Law(f"bytes before {o}{way}", 0, at("last", o), head_ms, (), ((forth, into_before),))
        if into_around or out_of_after:
            moved = ((forth, into_around), (back, out_of_after))
            yield Law(f"bytes until {o}{way}", 0, at("turned", o), head_ms, (), moved)
        returned = (own, (reduced, before))
        yield Law(f"bytes after {o}{way}", at("back", o), end, 0.0, returned, ((back, into_before),))
        yield Law(
            f"bytes from {o}{way}",
            at("first", o),
            end,
            0.0,
            (("forward", (o,)), (reduced, around)),
            ((forth, out_of_after), (back, into_around)),
        )


def _around(graph: EventGraph, o: int, view: View) -> Iterable[Law]:
    """Laws (12) from an operator back to itself."""
    below = tuple(x for x in bits(graph.after[o]) if x != o)
    out_of = graph.out_of(graph.after[o])
    ends, own = (graph.at("first", o), graph.at("turned", o)), ("forward", (o,))
    if view.works and below:
        both = ((f"forward work{view.load}", below), (f"backward work{view.load}", below))
        yield Law(f"work around {o}{view.name}", *ends, 0.0, (own, *both))
    for way, forth, back in view.ways if out_of else ():
        yield Law(f"bytes around {o}{way}", *ends, 0.0, (own,), ((forth, out_of), (back, out_of)))


def _between(graph: EventGraph, u: int, o: int, view: View) -> Iterable[Law]:
    """Laws (12) of an operator and one before it."""
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
    for way, forth, back in view.ways:
        yield Law(f"bytes between {name}{way}", *forth_ends, 0.0, (own,), ((forth, moved),))
        yield Law(f"bytes back between {name}{way}", *back_ends, 0.0, (returned,), ((back, moved),))
