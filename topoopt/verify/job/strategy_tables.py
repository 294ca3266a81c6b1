"""What a choice of states costs, as tables of single operators and of pairs of operators: the data of the laws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Workload
from topoopt.verify.job.choices import Choices
from topoopt.verify.job.offset_classes import States, class_traffic
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS
from topoopt.verify.job.wire import between_all

Tables = Mapping[str, tuple[Floats, ...]]


@dataclass(frozen=True)
class View:
    """Whose busiest server a law speaks of: all servers, or a class; and by which tables.

    Attributes:
        servers: the class; None: all servers.
        name: after the name of a law.
        load: of the tables of work and of AllReduces.
        works: whether it has laws on work.
        ways: (name, table of forward bytes, table of backward bytes).
    """

    servers: int | None
    name: str
    load: str
    works: bool
    ways: tuple[tuple[str, str, str], ...]


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
    one = cluster.degree * cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    own = tuple(zip(choices, states, strict=True))
    tables = {
        "forward": tuple(c.forward_ms[s.split] for c, s in own),
        "backward": tuple(c.backward_ms[s.split] for c, s in own),
        "reduction": tuple(c.reduction_ms[s.split] for c, s in own),
    }
    whole = tuple(_uncut(c)[s.split] for c, s in own)
    for view in views:
        held = tuple(s.on_a_server(cluster.servers, view.servers) for s in states)
        sent = tuple(c.wire_bytes[s.split] / (s.parts * one) * h for (c, s), h in zip(own, held, strict=True))
        for way in ("forward", "backward"):
            tables[f"{way} work{view.load}"] = tuple(t * h for t, h in zip(tables[way], held, strict=True))
        tables[f"allreduce{view.load}"] = sent
        tables[f"whole allreduce{view.load}"] = tuple(w * u for w, u in zip(sent, whole, strict=True))
    return tables


def _uncut(choice: Choices) -> Floats:
    """1 for splits that do not cut the weights, else 0."""
    return np.array([float(s.channel_ways * s.reduce_ways == 1) for s in choice.splits], dtype=np.float64)


def pair_tables(
    cluster: Cluster, workload: Workload, choices: tuple[Choices, ...], states: tuple[States, ...], classes: int
) -> tuple[tuple[tuple[int, int], ...], Tables]:
    """Pairs of operators in order of consumer and producer; tables of float64[states, states], ms, an array each."""
    one = cluster.degree * cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    everyone = cluster.servers * one
    if classes == 1:
        edges = between_all(cluster, workload, choices)
        return tuple((e.producer, e.consumer) for e in edges), {
            "bytes": tuple(e.byte_hops / everyone for e in edges),
            "received": tuple(e.received / one for e in edges),
            "sent": tuple(e.sent / one for e in edges),
        }
    known = class_traffic(cluster, workload, choices, states, classes)
    pairs = tuple(sorted(known, key=lambda pair: pair[::-1]))
    found = [known[pair] for pair in pairs]
    tables = {
        "bytes": tuple(t.byte_hops / everyone for t in found),
        "received": tuple(t.received / one for t in found),
        "sent": tuple(t.sent / one for t in found),
    }
    for p in range(classes):
        tables[f"out of class {p}"] = tuple(t.out[p] * classes / everyone for t in found)
        tables[f"into class {p}"] = tuple(t.into[p] * classes / everyone for t in found)
    return pairs, tables


def room_of(cluster: Cluster, choices: tuple[Choices, ...], states: tuple[States, ...]) -> tuple[Floats, ...] | None:
    """float64[states] per operator, its share of the memory of all servers; None where memory is not limited."""
    if cluster.gpu_memory_bytes is None:
        return None
    total = float(cluster.gpu_memory_bytes) * cluster.gpus_per_server * cluster.servers
    return tuple(
        s.parts * np.array([split.server_memory_bytes for split in c.splits], dtype=np.float64)[s.split] / total
        for c, s in zip(choices, states, strict=True)
    )
