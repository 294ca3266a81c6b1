"""A search starts from data parallelism and structured strategies, and tries less on clusters of many servers.

Measured: from data parallelism simulated annealing finds nothing on CANDLE; branches of the graph on cosets of the
servers win.

In `stages` nothing works at once but the parts of one stage, so the compute takes as many times longer as there are
stages. But a server reduces the gradients of one stage only: where links are slow and layers large, two stages take
less.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from solvers.job.strategy_program import program_start
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Operator, Placement, Split, Strategy, Workload


class SizeEffort(NamedTuple):
    """How much is tried on clusters of up to so many servers.

    Attributes:
        servers: of the largest of them.
        topologies: for each strategy of the loop.
        annealed: annealed random graphs beside them, where there is model-parallel traffic.
        starts: that are simulated: data parallelism, and those of least estimate.
        by_rounds: topologies of a strategy, the best by `hop`, that are simulated by `rounds`.
        on_fabrics: strategies, the best by `hop`, that are simulated by `rounds` on every other fabric, which takes up
            to ten seconds each.
    """

    servers: int
    topologies: int
    annealed: int
    starts: int
    by_rounds: int
    on_fabrics: int


ALL = 1000
"""More than there are."""

EFFORTS = (
    SizeEffort(20, 48, 4, ALL, 5, ALL),
    SizeEffort(40, 24, 4, ALL, 5, ALL),
    SizeEffort(160, 8, 2, 12, 5, ALL),
    SizeEffort(256, 4, 1, 12, 5, ALL),
    SizeEffort(512, 4, 1, 12, 2, 2),
    SizeEffort(1024, 4, 1, 6, 2, 2),
    SizeEffort(4096, 2, 0, 3, 1, 2),
)

ROUTED_SERVERS = range(21, 161)
"""Servers of clusters that try each topology with routes split for the demand as well: a few servers try 48 topologies,
and do so for demands in blocks alone; many have too many routes."""

LARGE_SERVERS = 160
"""Above, a task takes longer, as rings have more rounds and paths more hops: the default budget is a quarter, and
strategies of too many tasks are passed over."""

MOST_TASKS, ANY_TASKS = 2_000_000, 2**63 - 1
"""Tasks of the strategies that are looked at above `LARGE_SERVERS` and up to there: a graph takes some 300 bytes a task
where it is simulated, and n servers that all send to each other make n (n - 1) tasks of every edge of the workload."""

THREADED_SERVERS = 40
"""One thread scores proposals up to here, and above `LARGE_SERVERS`, where each thread would keep a large graph."""

ALL_PAIRS_SERVERS = 256
"""Up to so many servers every candidate has routes for all pairs; above, for those of its demand: the paths of all
pairs of 1024 servers take 180 MB, of 4096 some 4 GB."""

ANNEALED_SERVERS = 1024
"""Servers up to which strategies are annealed: that needs routes of all pairs, gigabytes of them beyond."""


def most_tasks(servers: int) -> int:
    """Tasks of the strategies that are looked at on so many servers."""
    return MOST_TASKS if servers > LARGE_SERVERS else ANY_TASKS


def annealing_threads(servers: int) -> int:
    """Threads that score proposals: two where there are cores, a simulation takes milliseconds and a graph is small."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 2) if THREADED_SERVERS < servers <= LARGE_SERVERS else 1


def effort_for(servers: int) -> SizeEffort:
    return next((row for row in EFFORTS if servers <= row.servers), EFFORTS[-1])


def branches(workload: Workload) -> list[list[int]]:
    """Parallel branches: connected components of the operators that some other operator can run beside."""
    count = len(workload.operators)
    before = [0] * count
    for index, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            before[index] |= before[edge.producer] | 1 << edge.producer
    after = [0] * count
    for index in reversed(range(count)):
        for edge in workload.operators[index].inputs:
            after[edge.producer] |= after[index] | 1 << index
    trunk = {index for index in range(count) if (before[index] | after[index] | 1 << index) == (1 << count) - 1}
    component: dict[int, list[int]] = {}
    for index in range(count):
        if index in trunk:
            continue
        merged = [index]
        for edge in workload.operators[index].inputs:
            other = component.get(edge.producer)
            if other is not None and other[0] != merged[0]:
                merged = sorted({*merged, *other})
        for member in merged:
            component[member] = merged
    return [list(group) for group in {tuple(group): None for group in component.values()}]


def layers(workload: Workload) -> list[list[list[int]]]:
    """Branches that read the same operators, such as the experts of a bank, together; in order of their first one."""
    by_ends: dict[frozenset[int], list[list[int]]] = {}
    for branch in branches(workload):
        sources = {edge.producer for index in branch for edge in workload.operators[index].inputs}
        by_ends.setdefault(frozenset(sources - {*branch}), []).append(branch)
    return list(by_ends.values())


def chains(workload: Workload) -> list[list[int]]:
    """The operators as chains of producers and consumers: the longest of the graph, then of what is left, and so on.

    An operator is as long as the compute of all its parts where that is least.
    """
    own = [
        min(split.parts * (split.forward_ms + split.backward_ms) for split in operator.splits)
        for operator in workload.operators
    ]
    left, runs = {*range(len(own))}, []
    while left:
        length, before = dict.fromkeys(left, 0.0), dict.fromkeys(left, -1)
        for index in sorted(left):
            for edge in workload.operators[index].inputs:
                if edge.producer in left and length[edge.producer] > length[index]:
                    length[index], before[index] = length[edge.producer], edge.producer
            length[index] += own[index]
        chain = [max(left, key=lambda index: (length[index], -index))]
        while before[chain[-1]] >= 0:
            chain.append(before[chain[-1]])
        runs.append(chain[::-1])
        left.difference_update(chain)
    return runs


def widest(operator: Operator, limit: int) -> int:
    """Index of the split with most sample parts up to `limit` and no other cut (else the one with fewest parts)."""

    def rank(split: Split) -> tuple[bool, int]:
        plain = split.channel_ways == split.reduce_ways == 1 and split.sample_ways <= limit
        return plain, split.sample_ways if plain else -split.parts

    return max(range(len(operator.splits)), key=lambda index: rank(operator.splits[index]))


def placed(n: int, workload: Workload, wanted: Sequence[tuple[int, int | None]]) -> Strategy:
    """Fix open offsets (None): longest operators first, each on the coset with least compute time so far."""
    load = [0.0] * n
    placements: list[Placement | None] = [None] * len(wanted)

    def occupy(index: int, offset: int) -> None:
        pinned = workload.operators[index].pinned_offset
        offset = offset if pinned is None else pinned
        split = workload.operators[index].splits[wanted[index][0]]
        placements[index] = Placement(wanted[index][0], offset)
        for server in range(offset, n, n // split.parts):
            load[server] += split.forward_ms + split.backward_ms

    for index, (_, offset) in enumerate(wanted):
        if offset is not None:
            occupy(index, offset)

    def span(index: int) -> float:
        split = workload.operators[index].splits[wanted[index][0]]
        return split.forward_ms + split.backward_ms

    still_open = [index for index, (_, offset) in enumerate(wanted) if offset is None]
    for index in sorted(still_open, key=lambda index: (-span(index), index)):
        stride = n // workload.operators[index].splits[wanted[index][0]].parts
        occupy(index, min(range(stride), key=lambda offset: (max(load[offset::stride]), offset)))
    return Strategy(tuple(placement for placement in placements if placement is not None))


def work_of(n: int, workload: Workload) -> list[float]:
    """Server-milliseconds of each operator, by its cheapest split."""
    return [
        min(split.parts * (split.forward_ms + split.backward_ms) for split in operator.splits)
        for operator in workload.operators
    ]


def reduced_of(n: int, workload: Workload) -> list[float]:
    """Weights of each operator that all servers would reduce; 0 where it cannot be on all, as tables of one server."""
    return [
        float(sum(operator.weight_elements)) if operator.splits[widest(operator, n)].parts == n else 0.0
        for operator in workload.operators
    ]


WORK = "work"

MEASURES: Mapping[str, Callable[[int, Workload], list[float]]] = {WORK: work_of, "gradients": reduced_of}
"""What stages have alike."""


def stages(n: int, workload: Workload, k: int, sizes: Sequence[float]) -> Strategy:
    """Operators in order, cut into n/k stages of like size, stage i on coset i; those of one server where there is
    least to do."""
    total = sum(sizes) or 1.0
    wanted: list[tuple[int, int | None]] = []
    done = 0.0
    for operator, own in zip(workload.operators, sizes, strict=True):
        stage = min(n // k - 1, int((done + own / 2) / total * (n // k)))
        done += own
        split = widest(operator, k)
        parts = operator.splits[split].parts
        wanted.append((split, stage if parts == k or 1 < parts < k else None))
    return placed(n, workload, wanted)


BESIDE, ON_COSETS = 0.1, 0.75
"""Chains are put side by side where a second one has this part of the work, and as far as this part of the work goes:
towards the end the chains that others wait for are through, and whoever goes on alone is faster on all servers."""


@dataclass(frozen=True)
class Start:
    """A named starting strategy.

    Attributes:
        rough: its own time says little of what a search from it reaches, so it is searched from even where it is slow.
    """

    name: str
    strategy: Strategy
    rough: bool = False


def _exact(operator: Operator, sample_parts: int, channel_parts: int, reduce_parts: int) -> int | None:
    for index, split in enumerate(operator.splits):
        if (split.sample_ways, split.channel_ways, split.reduce_ways) == (sample_parts, channel_parts, reduce_parts):
            return index
    return None


def data_parallel(n: int, workload: Workload) -> Strategy:
    """Every operator over all servers where it can be; single-server operators spread evenly (FlexNet's start)."""
    wanted: list[tuple[int, int | None]] = []
    for operator in workload.operators:
        index = widest(operator, n)
        wanted.append((index, 0 if operator.splits[index].parts == n else None))
    return placed(n, workload, wanted)


def _branch_work(workload: Workload, branch: Sequence[int], k: int) -> float:
    total = 0.0
    for index in branch:
        operator = workload.operators[index]
        split = operator.splits[widest(operator, k)]
        total += (split.forward_ms + split.backward_ms) * split.parts / k
    return total


def on_cosets(n: int, workload: Workload, k: int, count: int | None) -> Strategy | None:
    """The `count` heaviest branches on cosets of k servers, balanced; the rest data parallel.

    None if there are fewer than two branches to place or no operator of them can be split k ways.
    """
    groups = [
        branch
        for branch in branches(workload)
        if any(_exact(workload.operators[index], k, 1, 1) is not None for index in branch)
    ]
    if len(groups) < 2:
        return None
    groups.sort(key=lambda branch: (-_branch_work(workload, branch, k), branch[0]))
    base = data_parallel(n, workload)
    wanted: list[tuple[int, int | None]] = [(p.split, p.offset) for p in base.placements]
    load = [0.0] * (n // k)
    for branch in groups[:count]:
        coset = min(range(n // k), key=lambda offset: (load[offset], offset))
        load[coset] += _branch_work(workload, branch, k)
        for index in branch:
            operator = workload.operators[index]
            split = widest(operator, k)
            if operator.splits[split].parts == k:
                wanted[index] = (split, coset)
    return placed(n, workload, wanted)


HEAVY = 0.3
"""Branches with this part of the work of the heaviest one are heavy."""


def left_over_on_halves(n: int, workload: Workload, first: int) -> Strategy | None:
    """Heavy branches on a coset each, those left over on the even servers and then on the odd ones; the rest data
    parallel.

    A branch on half of the servers loads half of them with its gradients, and changes halves once, where both have
    reduced as much: that costs a single move of activations. None where heavy branches can all be on cosets.

    Args:
        first: 0: the first branch left over starts on even servers, 1: on odd ones; the next the other way round.
    """
    work = {tuple(branch): _branch_work(workload, branch, n) for branch in branches(workload)}
    heavy = [list(b) for b in sorted(work, key=lambda b: (-work[b], b)) if work[b] > HEAVY * max(work.values())]
    cosets = max((count for count in range(2, len(heavy) + 1, 2) if n % count == 0), default=0)
    if not cosets or not 0 < len(heavy) - cosets <= cosets // 2:
        return None
    reduced = reduced_of(n, workload)
    wanted: list[tuple[int, int | None]] = [(p.split, p.offset) for p in data_parallel(n, workload).placements]
    for position, branch in enumerate(heavy):
        total, done = sum(reduced[index] for index in branch), 0.0
        for index in branch:
            done += reduced[index]
            whole = position < cosets
            split = _exact(workload.operators[index], n // cosets if whole else n // 2, 1, 1)
            if split is not None:
                wanted[index] = (split, position if whole else (first + position - cosets + int(2 * done > total)) % 2)
    return placed(n, workload, wanted)


def layers_on_cosets(n: int, workload: Workload, k: int, whole: int) -> Strategy | None:
    """Of the branches of each layer that stand side by side, such as experts, the first `whole` data parallel, the
    others in turn on the cosets of k servers; the rest data parallel.

    None if fewer than two layers have branches to place, or no operator of these can be split k ways.
    """
    chosen = [layer[whole:] for layer in layers(workload) if len(layer) > max(1, whole)]
    if len(chosen) < 2:
        return None
    base = data_parallel(n, workload)
    wanted: list[tuple[int, int | None]] = [(p.split, p.offset) for p in base.placements]
    moved = False
    for layer in chosen:
        for position, branch in enumerate(layer):
            for index in branch:
                split = _exact(workload.operators[index], k, 1, 1)
                if split is not None:
                    wanted[index], moved = (split, position % (n // k)), True
    return placed(n, workload, wanted) if moved else None


def chains_on_cosets(n: int, workload: Workload, k: int) -> Strategy | None:
    """Chains of one branch, such as an encoder and the decoder that reads each of its layers, on cosets of k servers.

    The longest first, each where there is least work; the last operators (`ON_COSETS`) data parallel.
    None if branches stand apart, which other starts are for, or there is no second chain.
    """
    runs = chains(workload)
    work = [_branch_work(workload, chain, k) for chain in runs]
    if len(branches(workload)) != 1 or len(runs) < 2 or work[1] < BESIDE * sum(work):
        return None
    base = data_parallel(n, workload)
    wanted: list[tuple[int, int | None]] = [(p.split, p.offset) for p in base.placements]
    load, coset_of = [0.0] * (n // k), [0] * len(wanted)
    for chain, own in zip(runs, work, strict=True):
        coset = min(range(n // k), key=lambda offset: (load[offset], offset))
        load[coset] += own
        for index in chain:
            coset_of[index] = coset
    left = ON_COSETS * sum(work)
    for index, coset in enumerate(coset_of):
        left -= _branch_work(workload, [index], k)
        split = _exact(workload.operators[index], k, 1, 1)
        if left >= 0 and split is not None:
            wanted[index] = (split, coset)
    return placed(n, workload, wanted)


def tensor_parallel(n: int, workload: Workload, t: int) -> Strategy | None:
    """Column-parallel operators followed by row-parallel ones (Megatron-LM, arXiv 1909.08053), t ways.

    None if no operator can be cut t ways along its channels.
    """
    base = data_parallel(n, workload)
    wanted: list[tuple[int, int | None]] = [(p.split, p.offset) for p in base.placements]
    sliced: set[int] = set()
    any_split = False
    for index, operator in enumerate(workload.operators):
        column, row = _exact(operator, n // t, t, 1), _exact(operator, n // t, 1, t)
        fed_by_slices = any(edge.producer in sliced for edge in operator.inputs)
        if operator.mixes_channels and fed_by_slices and row is not None:
            wanted[index], any_split = (row, 0), True
        elif column is not None and (operator.mixes_channels or fed_by_slices):
            wanted[index], any_split = (column, 0), True
            sliced.add(index)
    return placed(n, workload, wanted) if any_split else None


def starting_strategies(cluster: Cluster, workload: Workload) -> tuple[Start, ...]:
    n = cluster.servers
    name_of: dict[Strategy, str] = {data_parallel(n, workload): "data parallel"}
    divisors = [k for k in range(1, n) if n % k == 0]
    for k in reversed(divisors):
        for count in (None, n // k, 2 * (n // k)):
            strategy = on_cosets(n, workload, k, count)
            if strategy is not None:
                label = "all" if count is None else f"{count} heaviest"
                name_of.setdefault(strategy, f"{label} branches on cosets of {k}")
    for first, half in enumerate(("even", "odd")):
        strategy = left_over_on_halves(n, workload, first)
        if strategy is not None:
            name_of.setdefault(strategy, f"branches on cosets, those left over on halves, {half} servers first")
    for k in reversed(divisors[1:]):
        for whole in (0, 2, 4, 8):  # branches of each layer that stay data parallel
            strategy = layers_on_cosets(n, workload, k, whole)
            if strategy is not None:
                name_of.setdefault(strategy, f"branches of each layer but {whole} on cosets of {k}")
    beside = chains_on_cosets(n, workload, divisors[-1]) if len(divisors) > 1 else None
    if beside is not None:
        name_of.setdefault(beside, f"chains on cosets of {divisors[-1]}")
    for t in [*divisors[1:], n]:
        tensor = tensor_parallel(n, workload, t)
        if tensor is not None:
            name_of.setdefault(tensor, f"tensor parallel {t} ways")
    few = divisors[-2:]  # many leave most servers idle
    for measure, sizes in MEASURES.items():
        for k in divisors if measure == WORK and cluster.server_memory_bytes is not None else few:
            name_of.setdefault(stages(n, workload, k, sizes(n, workload)), f"{n // k} stages of like {measure}")
    program = program_start(cluster, workload)
    if program is not None:
        name_of.setdefault(program, "strategy program")
    return tuple(Start(name, strategy, strategy == beside) for strategy, name in name_of.items())
