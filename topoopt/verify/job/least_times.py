"""Least times and bytes of the operators of a job hold whatever the topology, the routes and the queues do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.process import end_if_left
from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.verify.job.plan import (
    BYTES_PER_MS_OF_ONE_GBPS,
    Parts,
    PlanTransfers,
    Reduction,
    Traffic,
    channels_read,
    local_allreduce_ms,
    meetings,
    shard_bytes,
    slices,
    split_problems,
)


def window_bound(release: Floats, work: Floats, tail: Floats) -> float:
    """Lower bound on the end of everything.

    Job j needs `work[j]` ms of a resource that does one thing at a time, not before `release[j]`, and at least
    `tail[j]` ms pass between its end and the end of everything. (Transfers that share a wire are such jobs.)

    Proof: for any set J of jobs the resource is busy for sum(work) ms after min(release), and the job of J that ends
    last is followed by at least min(tail). So T >= min release(J) + sum work(J) + min tail(J). Evaluated for the sets
    of all jobs released no earlier than one of them, of all jobs with no shorter tail than one of them, and of one job.
    """
    if not len(work):
        return 0.0
    best = float((release + work + tail).max())
    for first, second in ((release, tail), (tail, release)):
        order = np.argsort(-first, kind="stable")
        bound = first[order] + np.cumsum(work[order]) + np.minimum.accumulate(second[order])
        best = max(best, float(bound.max()))
    return best


def windows_by(resource: Ints, resources: int, release: Floats, work: Floats, tail: Floats) -> tuple[float, int]:
    """Largest `window_bound` over resources 0..resources-1, and the resource that gives it."""
    order = np.argsort(resource, kind="stable")
    cut = np.searchsorted(resource[order], np.arange(resources + 1))
    best, where = 0.0, 0
    for index in range(resources):
        chosen = order[cut[index] : cut[index + 1]]
        bound = window_bound(release[chosen], work[chosen], tail[chosen])
        if bound > best:
            best, where = bound, index
    return best, where


def latest_by(owner: Ints, owners: int, level: Floats, work: Floats) -> Floats:
    """float64[owners]: for each owner the largest level + sum of the work of its items of at least that level.

    With `level` the release of what an owner waits for and `work` its time on the owner's wire, this is the earliest
    the owner can have everything (`window_bound` without tails); with `level` what follows an item, it is the least
    time from the owner's end to the end of everything, the same argument read backwards. 0 for an owner of nothing.
    """
    latest = np.zeros(owners, dtype=np.float64)
    if not len(owner):
        return latest
    order = np.lexsort((-level, owner))
    who, total = owner[order], np.cumsum(work[order])
    first = np.searchsorted(who, who)
    before = np.where(first > 0, total[first - 1], 0.0)
    np.maximum.at(latest, who, level[order] + total - before)
    return latest


Times = list[Floats]


@dataclass(frozen=True, eq=False)
class Rates:
    """Bytes per ms that a server can send and receive at most, float64[n] each; infinite: transfers take no time."""

    send: Floats
    receive: Floats


@dataclass(frozen=True, eq=False)
class EarliestStarts:
    """Per operator, float64[P] by part.

    Attributes:
        forward_start, backward_start: no earlier can the task start.
        forward_end, backward_end: no earlier can it end.
        forward_tail, backward_tail: no sooner after the start of the task can the iteration end.
    """

    forward_start: Times
    backward_start: Times
    forward_end: Times
    backward_end: Times
    forward_tail: Times
    backward_tail: Times

    @property
    def end_ms(self) -> float:
        """Lower bound on the iteration time: the longest chain through any task."""
        chains = [*zip(self.forward_start, self.forward_tail, strict=True)]
        chains += zip(self.backward_start, self.backward_tail, strict=True)
        return max((float((start + tail).max()) for start, tail in chains), default=0.0)


def _wire_ms(edge: PlanTransfers, rates: Rates, back: bool) -> tuple[Floats, Floats]:
    sender, receiver = (edge.target, edge.source) if back else (edge.source, edge.target)
    return edge.bytes / rates.send[sender], edge.bytes / rates.receive[receiver]


def _merge(count: int, inputs: list[tuple[Ints, Floats, Floats, Floats]]) -> Floats:
    """Latest over everything an owner waits for; items are (owner, level, work on the owner's wire, least time)."""
    if not inputs:
        return np.zeros(count, dtype=np.float64)
    owner, level, work, alone = (np.concatenate(column) for column in zip(*inputs, strict=True))
    latest = latest_by(owner, count, level, work)
    np.maximum.at(latest, owner, level + alone)
    return latest


def least_reduction_ms(local: list[float], network: list[float]) -> float:
    """Least time to all-reduce tensors released together, from their times inside a server and on a member's wire.

    Proof: each tensor takes its local and then its network time; and the members' wires carry nothing before the
    shortest local time and everything after it.
    """
    if not local:
        return 0.0
    return max(*(a + b for a, b in zip(local, network, strict=True)), min(local) + sum(network))


def least_schedule(
    workload: Workload,
    parts: tuple[Parts, ...],
    traffic: Traffic,
    rates: Rates,
    *,
    reductions: bool = True,
    on_rings: bool = True,
) -> EarliestStarts:
    """Least times of all tasks; of AllReduces on any rings, or on any schedule.

    A part starts when everything it reads has come, all of it over its server's own interfaces (`latest_by`), and no
    transfer is faster than the interfaces of its two ends. Tails are the same argument read from the end. Waiting for
    other tasks on the server, for other traffic, hop counts and latencies are left out: they only add time.
    """
    count = len(parts)
    durations = [(p.split.forward_ms, p.split.backward_ms) for p in parts]
    sizes = [len(p.server) for p in parts]
    inputs: list[list[PlanTransfers]] = [[] for _ in range(count)]
    outputs: list[list[PlanTransfers]] = [[] for _ in range(count)]
    for edge in traffic.edges:
        inputs[edge.consumer].append(edge)
        outputs[edge.producer].append(edge)
    if reductions:
        reduced = _reduction_times(parts, traffic, rates, on_rings=on_rings)
    else:
        reduced = [np.zeros(size, dtype=np.float64) for size in sizes]

    forward_start: Times = [np.zeros(0)] * count
    backward_start: Times = [np.zeros(0)] * count
    forward_end: Times = [np.zeros(0)] * count
    backward_end: Times = [np.zeros(0)] * count
    forward_tail: Times = [np.zeros(0)] * count
    backward_tail: Times = [np.zeros(0)] * count
    for v in range(count):  # producers stand before their consumers
        waits, follows = [], []
        for edge in inputs[v]:
            sent, received = _wire_ms(edge, rates, back=False)
            level = forward_end[edge.producer][edge.source_part]
            waits.append((edge.target_part, level, received, np.maximum(sent, received)))
            sent, received = _wire_ms(edge, rates, back=True)
            level = backward_tail[edge.producer][edge.source_part]
            follows.append((edge.target_part, level, sent, np.maximum(sent, received)))
        forward_start[v] = _merge(sizes[v], waits)
        forward_end[v] = forward_start[v] + durations[v][0]
        backward_tail[v] = np.maximum(_merge(sizes[v], follows), reduced[v]) + durations[v][1]
    for u in reversed(range(count)):
        waits, follows = [], []
        for edge in outputs[u]:
            sent, received = _wire_ms(edge, rates, back=True)
            level = backward_end[edge.consumer][edge.target_part]
            waits.append((edge.source_part, level, received, np.maximum(sent, received)))
            sent, received = _wire_ms(edge, rates, back=False)
            level = forward_tail[edge.consumer][edge.target_part]
            follows.append((edge.source_part, level, sent, np.maximum(sent, received)))
        backward_start[u] = np.maximum(_merge(sizes[u], waits), forward_end[u])
        backward_end[u] = backward_start[u] + durations[u][1]
        forward_tail[u] = np.maximum(_merge(sizes[u], follows), backward_tail[u]) + durations[u][0]
    return EarliestStarts(forward_start, backward_start, forward_end, backward_end, forward_tail, backward_tail)


def _reduction_times(parts: tuple[Parts, ...], traffic: Traffic, rates: Rates, *, on_rings: bool) -> Times:
    shards: dict[tuple[int, tuple[int, ...]], list[Reduction]] = {}
    for reduction in traffic.reductions:
        shards.setdefault((reduction.operator, reduction.parts), []).append(reduction)
    least_wire_ms = slowest_wire_ms if on_rings else shared_wire_ms
    after = [np.zeros(len(p.server), dtype=np.float64) for p in parts]
    for (operator, held), together in shards.items():
        after[operator][list(held)] = least_reduction_ms(
            [reduction.local_ms for reduction in together],
            [least_wire_ms(reduction, rates) for reduction in together],
        )
    return after


def slowest_wire_ms(reduction: Reduction, rates: Rates) -> float:
    """Time the slowest member needs to send, or to receive, its bytes of a ring AllReduce."""
    members = list(reduction.members)
    slowest = min(float(rates.send[members].min()), float(rates.receive[members].min()))
    return reduction.wire_bytes / slowest if reduction.wire_bytes else 0.0


def shared_wire_ms(reduction: Reduction, rates: Rates) -> float:
    """Time in which all members together can send, and receive, 2 (k-1) payloads, and the slowest of them one.

    Linear in the payload, so that a sum over tensors of the same members is a least time, too.
    """
    if not reduction.wire_bytes:
        return 0.0
    members = list(reduction.members)
    own = (rates.send[members], rates.receive[members])
    together, slowest = (min(float(rate.sum()) for rate in own), min(float(rate.min()) for rate in own))
    return max(len(members) * reduction.wire_bytes / together, reduction.payload_bytes / slowest)


@dataclass(frozen=True, eq=False)
class Choices:
    """The usable splits of one operator; float64 arrays over them.

    Attributes:
        splits: legal on the cluster, and a part fits the memory of a server.
        forward_ms, backward_ms: of one part.
        work_ms: of all parts, over all servers.
        reduction_ms: least time from the end of the backward tasks to the end of the AllReduces, at rate d B.
        wire_bytes: sent by all members in the AllReduces of all shards.
        least_local_ms: least time an AllReduce of the operator spends inside the servers before it uses the network.
    """

    splits: tuple[Split, ...]
    forward_ms: Floats
    backward_ms: Floats
    work_ms: Floats
    reduction_ms: Floats
    wire_bytes: Floats
    least_local_ms: float

    @property
    def whole_server_only(self) -> bool:
        """Every usable split keeps the operator in one part."""
        return all(split.parts == 1 for split in self.splits)

    def all_servers_only(self, servers: int) -> bool:
        """Every usable split puts a part on every server."""
        return all(split.parts == servers for split in self.splits)


def choices_of(cluster: Cluster, workload: Workload) -> tuple[Choices, ...]:
    """Usable splits of every operator (maybe none), in workload order."""
    return tuple(_choices(cluster, workload, operator) for operator in workload.operators)


def _choices(cluster: Cluster, workload: Workload, operator: Operator) -> Choices:
    memory = None if cluster.gpu_memory_bytes is None else cluster.gpu_memory_bytes * cluster.gpus_per_server
    splits = tuple(
        split
        for split in operator.splits
        if not split_problems(cluster, workload, operator, split)
        and (memory is None or split.server_memory_bytes <= memory)
    )
    interfaces = cluster.degree * cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    reduction_ms, wire_bytes, least_local = [], [], []
    for split in splits:
        blocks, k = split.channel_ways * split.reduce_ways, split.sample_ways
        payloads = [shard_bytes(weight, blocks) for weight in operator.weight_elements]
        local = [local_allreduce_ms(cluster, payload) if operator.locally_reduced else 0.0 for payload in payloads]
        sent = [2.0 * (k - 1) / k * payload for payload in payloads]
        reduction_ms.append(least_reduction_ms(local, [size / interfaces if size else 0.0 for size in sent]))
        wire_bytes.append(k * blocks * sum(sent))
        least_local.append(min(local, default=0.0))
    forward = np.array([split.forward_ms for split in splits], dtype=np.float64)
    backward = np.array([split.backward_ms for split in splits], dtype=np.float64)
    return Choices(
        splits=splits,
        forward_ms=forward,
        backward_ms=backward,
        work_ms=(forward + backward) * np.array([split.parts for split in splits], dtype=np.float64),
        reduction_ms=np.array(reduction_ms, dtype=np.float64),
        wire_bytes=np.array(wire_bytes, dtype=np.float64),
        least_local_ms=min(least_local, default=0.0),
    )


def memory_need(workload: Workload, choices: tuple[Choices, ...]) -> int:
    """Least memory all parts of the job take together, bytes."""
    return sum(
        min(split.parts * split.server_memory_bytes for split in choice.splits) for choice in choices if choice.splits
    )


@dataclass(frozen=True)
class Chains:
    """Least times over all strategies, ms; one entry per operator, valid for each of its parts.

    Attributes:
        forward_start: before the forward task can start.
        turn: from its start to the end of the backward task of the same part.
        forward_tail: from its start to the end of the iteration.
        backward_tail: from the start of the backward task to the end of the iteration.
        critical: length of the longest chain through the operator.
    """

    forward_start: tuple[float, ...]
    turn: tuple[float, ...]
    forward_tail: tuple[float, ...]
    backward_tail: tuple[float, ...]
    critical: tuple[float, ...]

    @property
    def longest(self) -> float:
        """No iteration is shorter than the longest chain, ms."""
        return max(self.critical, default=0.0)


def binds(workload: Workload, choices: tuple[Choices, ...], producer: int, consumer: int) -> bool:
    """Whether every part of the consumer shares elements with a part of the producer and the other way round.

    Samples always do, since all sample slices are non-empty; channels do when neither cuts them in more slices than
    there are channels.
    """
    channels = workload.operators[producer].output_elements
    mixes = workload.operators[consumer].mixes_channels
    cuts = [split.channel_ways for split in choices[producer].splits]
    cuts += [split.reduce_ways if mixes else split.channel_ways for split in choices[consumer].splits]
    return max(cuts, default=1) <= channels


def chains_of(workload: Workload, choices: tuple[Choices, ...], *, reductions: bool) -> Chains:
    """Chains with or without AllReduces at their ends; every operator has a usable split."""
    count = len(workload.operators)
    producers: list[list[int]] = [[] for _ in range(count)]
    consumers: list[list[int]] = [[] for _ in range(count)]
    for v, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            if edge.fraction > 0 and binds(workload, choices, edge.producer, v):
                producers[v].append(edge.producer)
                consumers[edge.producer].append(v)

    after = [choice.reduction_ms if reductions else 0.0 * choice.reduction_ms for choice in choices]
    both = [float((choice.forward_ms + choice.backward_ms).min()) for choice in choices]
    turn = [0.0] * count  # same part, forward start to backward end: a consumer's turn lies between
    for v in reversed(range(count)):
        turn[v] = both[v] + max((turn[w] for w in consumers[v]), default=0.0)
    start = [0.0] * count
    end_tail = [0.0] * count  # after the backward task: the backward tasks of the producers
    backward_tail = [0.0] * count
    for v in range(count):
        start[v] = max((start[u] + float(choices[u].forward_ms.min()) for u in producers[v]), default=0.0)
        end_tail[v] = max((backward_tail[u] for u in producers[v]), default=0.0)
        backward_tail[v] = float((choices[v].backward_ms + after[v].clip(min=end_tail[v])).min())
    around = [0.0] * count  # before the forward task plus after the backward task, one chain walked both ways
    below = [0.0] * count  # the same with the operator's own tasks, or with its AllReduce as the end
    critical, forward_tail = [0.0] * count, [0.0] * count
    for v in range(count):
        own = choices[v].forward_ms + choices[v].backward_ms
        above = max((turn[w] for w in consumers[v]), default=0.0)
        around[v] = max((below[u] for u in producers[v]), default=0.0)
        below[v] = max(around[v] + both[v], start[v] + float((own + after[v]).min()))
        critical[v] = below[v] + above
        forward_tail[v] = float((own + after[v].clip(min=end_tail[v])).min()) + above
    return Chains(tuple(start), tuple(turn), tuple(forward_tail), tuple(backward_tail), tuple(critical))


Pairs = tuple[tuple[int, int], ...]
"""(producer, consumer) of operators joined by edges."""

Forest = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Spanning forest of the edges between operators: of each operator its parent (itself for a root); the operators,
children before parents; of each operator the index of the edge to its parent (-1 for a root); the edges outside."""

Costs = tuple[tuple[Floats, ...], tuple[Floats, ...], tuple[Floats, ...]]
"""Two costs of a labelling: arrays by split of each operator for the first and for the second cost, and
float64[producer splits, consumer splits] of each edge, which add to the second."""


def spanning_forest(count: int, edges: Pairs, costs: Sequence[Floats]) -> Forest:
    """Forest of the edges that can cost most (Kruskal); the others are left loose."""
    root = list(range(count))

    def find(x: int) -> int:
        while root[x] != x:
            root[x] = root[root[x]]
            x = root[x]
        return x

    near: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    loose = []
    heaviest_first = sorted(range(len(edges)), key=lambda e: (-float(costs[e].max()), e))
    for e in heaviest_first:
        u, v = edges[e]
        a, b = find(u), find(v)
        if a == b:
            loose.append(e)
            continue
        root[a] = b
        near[u].append((v, e))
        near[v].append((u, e))
    parent, edge, seen, order = list(range(count)), [-1] * count, [False] * count, []
    for start in range(count):
        if seen[start]:
            continue
        seen[start] = True
        stack = [start]
        while stack:
            here = stack.pop()
            order.append(here)
            for there, e in near[here]:
                if not seen[there]:
                    seen[there] = True
                    parent[there], edge[there] = here, e
                    stack.append(there)
    return tuple(parent), tuple(order[::-1]), tuple(edge), tuple(sorted(loose))


def least_labelling(forest: Forest, edges: Pairs, costs: Costs, weight: float) -> tuple[float, float]:
    """(first, second) of a labelling of least weight * first + (1 - weight) * second over the forest.

    Loose edges are charged to their consumer at the least over the producer's splits, so the least weighted sum is a
    lower bound on that of every labelling of the whole graph.
    """
    (parent, order, edge, loose), of_edges = forest, costs[2]
    first, second = ([cost.copy() for cost in of_operators] for of_operators in costs[:2])
    for e in loose:
        second[edges[e][1]] += of_edges[e].min(axis=0)
    total_first = total_second = 0.0
    for here in order:
        above = parent[here]
        if above == here:
            best = int(np.argmin(weight * first[here] + (1 - weight) * second[here]))
            total_first += float(first[here][best])
            total_second += float(second[here][best])
            continue
        e = edge[here]
        step = of_edges[e] if edges[e][0] == here else of_edges[e].T  # [here, above]
        mixed = weight * first[here][:, None] + (1 - weight) * (second[here][:, None] + step)
        best_here = np.argmin(mixed, axis=0)
        first[above] += first[here][best_here]
        second[above] += second[here][best_here] + step[best_here, np.arange(step.shape[1])]
    return total_first, total_second


def largest_of_least(forest: Forest, edges: Pairs, costs: Costs, offset: float, *, steps: int = 30) -> float:
    """max over w in [0, 1] of min over labellings of w * first + (1 - w) * (offset + second).

    The inner minimum is concave and piecewise linear in w, so cutting planes find its maximum: every labelling gives a
    line above it; the next w is where the best rising and the best falling line cross. Every value met is a valid
    lower bound on max(first, offset + second) of any labelling, so stopping early is safe.
    """

    def line(weight: float) -> tuple[float, float]:
        a, b = least_labelling(forest, edges, costs, weight)
        return a, offset + b

    low, high = line(0.0), line(1.0)  # (value at w = 1, value at w = 0)
    best = max(low[1], high[0])
    for _ in range(steps):
        # Lines at low w rise if first > second there, and fall at high w; otherwise an end point is the maximum.
        rise, fall = low[0] - low[1], high[1] - high[0]
        if rise <= 0 or fall <= 0:
            break
        weight = (high[1] - low[1]) / (rise + fall)
        crossing = low[1] + weight * rise
        middle = line(weight)
        value = weight * middle[0] + (1 - weight) * middle[1]
        best = max(best, value)
        if value >= crossing * (1 - 1e-12):
            break
        if middle[0] > middle[1]:
            low = middle
        else:
            high = middle
    return best


def nearest_hops(cluster: Cluster) -> Ints:
    """int64[n - 1], ascending: least hops to the nearest, second nearest, ... other server on any topology.

    Proof: at most d servers are one hop away; those at h + 1 hops are next to those at h hops, each of which has at
    most d interfaces, one of them facing back where links are fibre pairs.
    """
    n, degree = cluster.servers, cluster.degree
    onward = degree - 1 if cluster.links is LinkDirection.BIDIRECTIONAL else degree
    hops: list[int] = []
    layer, distance = degree, 1
    while len(hops) < n - 1:
        hops.extend([distance] * min(layer, n - 1 - len(hops)))
        # Where links cannot lead on, the remaining servers cannot be reached: one hop more is still a lower bound.
        layer, distance = layer * onward or n, distance + 1
    return np.array(hops, dtype=np.int64)


def least_byte_hops(matrices: Floats, cluster: Cluster) -> Floats:
    """float64[...]: least sum of bytes times hops of demands float64[..., senders, receivers]: the larger of the sums
    over senders and over receivers."""
    hops = nearest_hops(cluster)
    sums = []
    for rows in (matrices, np.swapaxes(matrices, -1, -2)):
        largest_first = -np.sort(-rows, axis=-1)[..., : len(hops)]
        sums.append((largest_first * hops[: largest_first.shape[-1]]).sum(axis=(-2, -1)))
    least: Floats = np.maximum(*sums)
    return least


PairTables = dict[tuple[int, int], Floats]
"""By producer and consumer, in order of consumer and producer: float64[choices of the two, figures]."""


def summed_by_pair(
    workload: Workload,
    choices: tuple[Choices, ...],
    figures: Callable[[int, int, OperatorInput], Floats],
    *,
    by_pins: bool = False,
) -> PairTables:
    """Figures of the traffic between operators that input edges join; several edges between the same two add up.

    Each edge counts its largest transfer as the local one, so that the sum is no more than what the parts exchange.
    Edges of the same tensors and splits have one table, and of the same pinned offsets with `by_pins`.
    """
    cached: dict[object, Floats] = {}
    tables: PairTables = {}
    for v, consumer in enumerate(workload.operators):
        for edge in consumer.inputs:
            u, producer = edge.producer, workload.operators[edge.producer]
            shapes = tuple(tuple(shape_of(split) for split in choices[o].splits) for o in (u, v))
            pins = (producer.pinned_offset, consumer.pinned_offset) if by_pins else None
            tensor = (producer.output_elements, producer.element_bytes, edge.fraction, consumer.mixes_channels)
            key = (tensor, shapes, pins)
            if key not in cached:
                cached[key] = figures(u, v, edge)
            tables[u, v] = tables[u, v] + cached[key] if (u, v) in tables else cached[key]
    return dict(sorted(tables.items(), key=lambda item: item[0][::-1]))


def between_all(cluster: Cluster, workload: Workload, choices: tuple[Choices, ...]) -> PairTables:
    """Traffic between operators by their splits, as three figures.

    Least bytes times links crossed, forward (as much again flows backward); least bytes any part of the consumer has
    from other servers (and returns backward); least bytes any part of the producer sends to others (and has back).
    """
    hops = np.concatenate(([0], nearest_hops(cluster))).astype(np.float64)

    def figures(u: int, v: int, edge: OperatorInput) -> Floats:
        producer, consumer = workload.operators[u], workload.operators[v]
        return np.array(
            [
                [
                    _least(workload, producer, consumer, (first, second), edge.fraction, hops)
                    for second in choices[v].splits
                ]
                for first in choices[u].splits
            ],
            dtype=np.float64,
        )

    return summed_by_pair(workload, choices, figures)


def shape_of(split: Split) -> tuple[int, int, int]:
    """Parts along samples, output channels and input channels."""
    return split.sample_ways, split.channel_ways, split.reduce_ways


def _least(
    workload: Workload,
    producer: Operator,
    consumer: Operator,
    splits: tuple[Split, Split],
    fraction: float,
    hops: Floats,
) -> tuple[float, float, float]:
    """Least forward bytes times hops; least bytes received by a consumer part; least sent by a producer part.

    Proof: the producer parts a consumer part reads stand on different servers, at most one of them on its own (0
    hops), the others no nearer than `nearest_hops`; the sum is least with the largest on the nearest (rearrangement
    inequality). The same holds for the consumer parts that read a producer part. Both sums bound the total. A part has
    all but its largest transfer from (or to) other servers at least.
    """
    first, second = splits
    into, out_of, rows = meetings(
        slices(workload.samples, second.sample_ways), slices(workload.samples, first.sample_ways)
    )
    columns = channels_read(
        producer.output_elements,
        consumer.mixes_channels,
        (second.channel_ways, second.reduce_ways),
        (first.channel_ways, first.reduce_ways),
    )
    sums, moved = [], []
    for row, parts, read in ((into, second.sample_ways, columns), (out_of, first.sample_ways, columns.T)):
        least = np.inf
        patterns_a, times_a = _patterns(row, rows, parts)
        block, other = np.nonzero(read)
        patterns_b, times_b = _patterns(block, read[block, other], len(read))
        total = 0.0
        for x, often_x in zip(patterns_a, times_a, strict=True):
            end_if_left()
            for y, often_y in zip(patterns_b, times_b, strict=True):
                size = np.outer(x[x > 0], y[y > 0]).ravel() * float(producer.element_bytes)
                if fraction != 1.0:
                    size = np.floor(size * fraction * (1 - 1e-12))  # never above the exact size rounded down
                largest_first = -np.sort(-size)
                total += float(often_x * often_y) * float(largest_first @ hops[: len(size)])
                least = min(least, float(largest_first[1:].sum()))
        sums.append(total)
        moved.append(least)
    return max(sums), moved[0], moved[1]


def _patterns(row: Ints, common: Ints, rows: int) -> tuple[Ints, Ints]:
    """Of a table of so many rows, what stands in them, by row: each sorted with the largest first, each distinct one
    once and how often it comes."""
    count = np.bincount(row, minlength=rows)
    met = np.zeros((rows, max(1, int(count.max(initial=0)))), dtype=np.int64)
    met[row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)] = common
    rows_met, times = np.unique(-np.sort(-met, axis=1), axis=0, return_counts=True)
    return rows_met, times
