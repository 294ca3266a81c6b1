r"""What every strategy must take at least, as a graph of events joined by laws that are linear in the choice of splits.

An event stands for a time; a law `head >= tail + cost` holds in the simulated iteration of every strategy, on every
topology, with all routes, rings and schedules. A cost is a sum over operators of a number that depends on the split of
each, and over pairs of operators of one that depends on both splits. The longest path from `start` to `end` therefore
bounds the iteration time of a strategy, and its minimum over the splits bounds that of all (`strategy_certificate`).

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
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Workload
from topoopt.verify.job.chains import binds
from topoopt.verify.job.choices import Choices
from topoopt.verify.job.event_graph import EventGraph, bits
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS
from topoopt.verify.job.wire import between_all

Tables = Mapping[str, tuple[Floats, ...]]
Terms = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Law:
    """head >= tail + constant + sum of table[index][chosen splits] over the terms (table, indices)."""

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
        splits: usable splits per operator.
        operators: tables of float64[splits], ms, one array per operator.
        pairs: (producer, consumer) of every pair joined by edges.
        between: tables of float64[splits of producer, splits of consumer], ms, one array per pair.
        room: float64[splits] per operator, share of the memory of all servers that the operator takes; the shares of a
            strategy add up to 1 at most. None: memory is not limited.
    """

    events: tuple[str, ...]
    laws: tuple[Law, ...]
    splits: tuple[int, ...]
    operators: Tables
    pairs: tuple[tuple[int, int], ...]
    between: Tables
    room: tuple[Floats, ...] | None


def strategy_laws(cluster: Cluster, workload: Workload, choices: tuple[Choices, ...]) -> StrategyLaws:
    """The laws of a workload every operator of which has a usable split, on two servers or more."""
    n, count = cluster.servers, len(choices)
    one = cluster.degree * cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    edges = between_all(cluster, workload, choices)
    parts = [
        np.array([s.sample_ways * s.channel_ways * s.reduce_ways for s in c.splits], dtype=np.float64) for c in choices
    ]
    cut = [np.array([s.channel_ways * s.reduce_ways > 1 for s in c.splits]) for c in choices]
    wire = tuple(c.wire_bytes / (n * one) for c in choices)
    tables: Tables = {
        "forward": tuple(c.forward_ms for c in choices),
        "backward": tuple(c.backward_ms for c in choices),
        "forward work": tuple(c.forward_ms * p / n for c, p in zip(choices, parts, strict=True)),
        "backward work": tuple(c.backward_ms * p / n for c, p in zip(choices, parts, strict=True)),
        "allreduce": wire,
        "whole allreduce": tuple(np.where(c, 0.0, w) for c, w in zip(cut, wire, strict=True)),
        "reduction": tuple(c.reduction_ms for c in choices),
    }
    between: Tables = {
        "bytes": tuple(e.byte_hops / (n * one) for e in edges),
        "received": tuple(e.received / one for e in edges),
        "sent": tuple(e.sent / one for e in edges),
    }
    pairs = tuple((e.producer, e.consumer) for e in edges)
    bound = [binds(workload, choices, u, v) and _reads(workload, u, v) for u, v in pairs]
    room = None
    if cluster.gpu_memory_bytes is not None:
        total = float(cluster.gpu_memory_bytes) * cluster.gpus_per_server * n
        room = tuple(
            p * np.array([s.server_memory_bytes for s in c.splits], dtype=np.float64) / total
            for c, p in zip(choices, parts, strict=True)
        )
    graph = EventGraph(count, pairs, tuple(bound))
    return StrategyLaws(
        events=graph.events(),
        laws=tuple(_laws(graph, choices)),
        splits=tuple(len(c.splits) for c in choices),
        operators=tables,
        pairs=pairs,
        between=between,
        room=room,
    )


def _reads(workload: Workload, producer: int, consumer: int) -> bool:
    return any(e.producer == producer and e.fraction > 0 for e in workload.operators[consumer].inputs)


def _laws(graph: EventGraph, choices: tuple[Choices, ...]) -> Iterable[Law]:
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
    yield Law("all work", 0, end, 0.0, (("forward work", everyone), ("backward work", everyone)))
    moved = (("bytes", all_pairs), ("bytes", all_pairs))
    early = min(float(choice.forward_ms.min()) for choice in choices)
    yield Law("all bytes", 0, end, early, (("allreduce", everyone),), moved)
    for o in graph.anchors():
        yield from _wide(graph, choices, o, head_ms)


def _wide(graph: EventGraph, choices: tuple[Choices, ...], o: int, head_ms: float) -> Iterable[Law]:
    """Laws (7) to (10) of one operator."""
    at, end = graph.at, graph.end
    before, after, around = bits(graph.before[o]), bits(graph.after[o]), bits(graph.around[o])
    strictly_before, strictly_after = tuple(x for x in before if x != o), tuple(x for x in after if x != o)
    into_before, into_around = graph.into(graph.before[o]), graph.into(graph.around[o])
    out_of_after = graph.out_of(graph.after[o])
    yield Law(f"work before {o}", 0, at("last", o), 0.0, (("forward work", strictly_before),))
    yield Law(f"work until {o}", 0, at("turned", o), 0.0, (("forward work", around), ("backward work", strictly_after)))
    yield Law(f"work after {o}", at("back", o), end, 0.0, (("backward work", before),))
    yield Law(f"work from {o}", at("first", o), end, 0.0, (("forward work", after), ("backward work", around)))
    if into_before:
        yield Law(f"bytes before {o}", 0, at("last", o), head_ms, (), (("bytes", into_before),))
    if into_around or out_of_after:
        moved = (("bytes", into_around), ("bytes", out_of_after))
        yield Law(f"bytes until {o}", 0, at("turned", o), head_ms, (), moved)
    own = ("backward", (o,))
    yield Law(f"bytes after {o}", at("back", o), end, 0.0, (own, ("allreduce", before)), (("bytes", into_before),))
    local = min((choices[x].least_local_ms for x in before if (choices[x].reduction_ms > 0).any()), default=0.0)
    yield Law(f"reductions after {o}", at("turned", o), end, local, (own, ("whole allreduce", before)))
    yield Law(
        f"bytes from {o}",
        at("first", o),
        end,
        0.0,
        (("forward", (o,)), ("allreduce", around)),
        (("bytes", out_of_after), ("bytes", into_around)),
    )
