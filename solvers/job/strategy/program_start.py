r"""A starting strategy from the strategy program (`strategy_choice`) with a bulk-synchronous cost model.

An iteration is taken as a compute phase and then a communication phase, all servers equally loaded (n servers, degree
d, link rate B):

    T = C + N,   C = max(work, chain),   N = (reduced + moved * h) / (n d B)

work: time of all parts over n; chain: longest path of forward tasks and back; reduced: 2 (k-1) S bytes of every
AllReduce of S bytes over k servers; moved: forward and backward bytes between operators that are joined by an edge,
both at offset 0 (none between equal splits, whose parts meet on the same servers); h: the least mean number of hops
that d interfaces allow (Moore). Chosen splits are placed as the model assumes: operators of equal split joined by
edges form a block and share an offset, blocks are spread over the servers, the longest first.

The estimate is no bound (`strategy_laws` has those): it leaves out overlap, which makes it too high, and
imbalance, which makes it too low. It only offers a strategy; the search keeps what it simulates to be better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from formulations.job.strategy_choice import EventLaw, Quantity, StrategyChoice
from solvers.job.strategy_program import choose_splits
from solvers.network.exact.bounds import layer_sizes
from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.workload import GRADIENT_BYTES, Operator, OperatorInput, Placement, Strategy, TaskKind, Workload
from topoopt.simulate.lower import build_task_graph

MOST_PAIR_SPLITS = 1_000
"""No start is looked for where the pairs of operators have more pairs of splits in all: branch and bound takes some
2 s there. DLRM on 16 servers has 655, CANDLE 1 750; the jobs of a few operators in `instances` have 33 to 200."""

NODES = 20
"""Nodes of the branch and bound: a count, so that the same instance gives the same start."""


def program_start(cluster: Cluster, workload: Workload) -> Strategy | None:
    """The placed strategy of least estimated time that few nodes of branch and bound find; None: too large, or none."""
    n, operators = cluster.servers, workload.operators
    pairs = sorted({(edge.producer, v) for v, operator in enumerate(operators) for edge in operator.inputs})
    sizes = [len(operators[u].splits) * len(operators[v].splits) for u, v in pairs]
    if n < 2 or sum(sizes) > MOST_PAIR_SPLITS:
        return None
    chosen = choose_splits(bulk_synchronous(cluster, workload), NODES)
    return None if chosen is None else place_blocks(n, workload, chosen)


def bulk_synchronous(cluster: Cluster, workload: Workload) -> StrategyChoice:
    """The program of the cost model in the module text; event 1 + o: forward of o may start, then backward, C, T."""
    n, operators = cluster.servers, workload.operators
    count = len(operators)
    rate = n * cluster.degree * cluster.link_bytes_per_ms
    pairs = sorted({(edge.producer, v) for v, operator in enumerate(operators) for edge in operator.inputs})
    parts = [np.array([split.parts for split in operator.splits], dtype=np.float64) for operator in operators]
    forward = [np.array([split.forward_ms for split in operator.splits]) for operator in operators]
    backward = [np.array([split.backward_ms for split in operator.splits]) for operator in operators]
    quantities = [Quantity(o, forward[o]) for o in range(count)]
    quantities += [Quantity(o, backward[o]) for o in range(count)]
    quantities += [Quantity(o, (forward[o] + backward[o]) * parts[o] / n) for o in range(count)]
    quantities += [Quantity(o, _reduced(operator) / rate) for o, operator in enumerate(operators)]
    hops = mean_hops(cluster)
    known: dict[object, Floats] = {}
    for e, (u, v) in enumerate(pairs):
        quantities.append(Quantity(e, moved_bytes(cluster, workload, u, v, known) * hops / rate))
    back, done, end = 2 * count, 2 * count + 1, 2 * count + 2
    laws = []
    for o in range(count):
        laws.append(EventLaw(f"begin {o}", 0, 1 + o, 0.0, ()))
        laws.append(EventLaw(f"turn {o}", 1 + o, back - o, 0.0, ((o, 1.0),)))
        laws.append(EventLaw(f"finish {o}", back - o, done, 0.0, ((count + o, 1.0),)))
    for u, v in pairs:
        laws.append(EventLaw(f"forward {u}>{v}", 1 + u, 1 + v, 0.0, ((u, 1.0),)))
        laws.append(EventLaw(f"backward {v}>{u}", back - v, back - u, 0.0, ((count + v, 1.0),)))
    laws.append(EventLaw("work", 0, done, 0.0, tuple((2 * count + o, 1.0) for o in range(count))))
    traffic = [(3 * count + o, 1.0) for o in range(count)] + [(4 * count + e, 1.0) for e in range(len(pairs))]
    laws.append(EventLaw("traffic", done, end, 0.0, tuple(traffic)))
    room = None
    memory = cluster.server_memory_bytes
    if memory is not None:
        room = tuple(
            np.array([split.parts * split.server_memory_bytes / (n * memory) for split in operator.splits])
            for operator in operators
        )
    return StrategyChoice(
        tuple(len(operator.splits) for operator in operators),
        tuple(pairs),
        tuple(quantities),
        tuple(laws),
        end + 1,
        room,
    )


def mean_hops(cluster: Cluster) -> float:
    """Least mean distance between servers that the degree allows (Moore)."""
    within = [0, *layer_sizes(cluster.servers, cluster.degree, cluster.links)]
    reached = np.diff(within)
    left = cluster.servers - 1 - within[-1]  # out of reach: one hop more is as good a guess as any
    total = float((reached * np.arange(1, len(reached) + 1)).sum()) + left * (len(reached) + 1)
    return total / (cluster.servers - 1)


def _reduced(operator: Operator) -> Floats:
    """float64[splits]: bytes all members send in the AllReduces of an operator."""
    return np.array(
        [
            sum(
                2.0 * (split.sample_ways - 1) * blocks * (GRADIENT_BYTES * elements // blocks)
                for elements in operator.weight_elements
            )
            for split in operator.splits
            for blocks in (split.channel_ways * split.reduce_ways,)
        ]
    )


def moved_bytes(
    cluster: Cluster, workload: Workload, producer: int, consumer: int, known: dict[object, Floats]
) -> Floats:
    """float64[splits of producer, splits of consumer]: bytes moved both ways, parts from offset 0; kept in `known`."""
    job = pair_job(workload, producer, consumer)
    first, second = job.operators
    key = first.output_elements, first.element_bytes, first.splits, second.inputs, second.mixes_channels, second.splits
    if key not in known:
        table = np.zeros((len(first.splits), len(second.splits)))
        for s in range(len(first.splits)):
            for t in range(len(second.splits)):
                graph = build_task_graph(cluster, job, Strategy((Placement(s, 0), Placement(t, 0))))
                table[s, t] = float(graph.bytes[graph.kind == TaskKind.TRANSFER].sum())
        known[key] = table
    return known[key]


def pair_job(workload: Workload, producer: int, consumer: int) -> Workload:
    """A job of two operators joined by an edge, without weights: what it transfers is what the two exchange."""
    second = workload.operators[consumer]
    reads = tuple(OperatorInput(0, edge.fraction) for edge in second.inputs if edge.producer == producer)
    pair = (
        replace(workload.operators[producer], name="", inputs=(), weight_elements=(), pinned_offset=None),
        replace(second, name="", inputs=reads, weight_elements=(), pinned_offset=None),
    )
    return Workload("pair", workload.samples, pair)


def place_blocks(n: int, workload: Workload, chosen: Sequence[int]) -> Strategy:
    """Operators of equal split joined by edges on one offset, blocks on the least loaded cosets, the longest first."""
    splits = [operator.splits[index] for operator, index in zip(workload.operators, chosen, strict=True)]
    block = list(range(len(splits)))

    def root(o: int) -> int:
        while block[o] != o:
            block[o] = block[block[o]]
            o = block[o]
        return o

    for v, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            same = splits[edge.producer].label == splits[v].label
            if same and workload.operators[edge.producer].pinned_offset == operator.pinned_offset:
                block[root(v)] = root(edge.producer)
    members: dict[int, list[int]] = {}
    for o in range(len(splits)):
        members.setdefault(root(o), []).append(o)
    load = [0.0] * n
    offset = [0] * len(splits)
    spans = {b: sum(splits[o].forward_ms + splits[o].backward_ms for o in of) for b, of in members.items()}
    pinned = {b for b, of in members.items() if workload.operators[of[0]].pinned_offset is not None}
    for b in sorted(members, key=lambda b: (b not in pinned, -spans[b], b)):
        stride = n // splits[b].parts
        fixed = workload.operators[members[b][0]].pinned_offset
        place = min(range(stride), key=lambda at: (max(load[at::stride]), at)) if fixed is None else fixed
        for o in members[b]:
            offset[o] = place
        for server in range(place, n, stride):
            load[server] += spans[b]
    return Strategy(tuple(Placement(s, at) for s, at in zip(chosen, offset, strict=True)))
