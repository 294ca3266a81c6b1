"""Starting strategies: data parallelism and structured ones, which a local search does not find from there.

Measured: from data parallelism simulated annealing finds nothing on CANDLE; branches of the graph on cosets of the
servers win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solvers.job.strategy.branches import branches, chains, layers
from solvers.job.strategy.placing import placed, widest
from solvers.job.strategy.program_start import program_start
from solvers.job.strategy.stages import MEASURES, WORK, stages
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Operator, Strategy, Workload

WHOLE_BRANCHES = (0, 2, 4, 8)
"""How many branches of each layer stay data parallel while the others go to cosets."""

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


def _exact(operator: Operator, sample_ways: int, channel_ways: int, reduce_ways: int) -> int | None:
    for index, split in enumerate(operator.splits):
        if (split.sample_ways, split.channel_ways, split.reduce_ways) == (sample_ways, channel_ways, reduce_ways):
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
    found = False
    for layer in chosen:
        for place, branch in enumerate(layer):
            for index in branch:
                split = _exact(workload.operators[index], k, 1, 1)
                if split is not None:
                    wanted[index], found = (split, place % (n // k)), True
    return placed(n, workload, wanted) if found else None


def chains_on_cosets(n: int, workload: Workload, k: int) -> Strategy | None:
    """Chains of one branch, such as an encoder and the decoder that reads each of its layers, on cosets of k servers.

    The longest first, each where there is least work; the last operators (`ON_COSETS`) data parallel.
    None if branches stand apart, which other starts are for, or there is no second chain.
    """
    found = chains(workload)
    work = [_branch_work(workload, chain, k) for chain in found]
    if len(branches(workload)) != 1 or len(found) < 2 or work[1] < BESIDE * sum(work):
        return None
    base = data_parallel(n, workload)
    wanted: list[tuple[int, int | None]] = [(p.split, p.offset) for p in base.placements]
    load, coset_of = [0.0] * (n // k), [0] * len(wanted)
    for chain, own in zip(found, work, strict=True):
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
    found = False
    for index, operator in enumerate(workload.operators):
        column, row = _exact(operator, n // t, t, 1), _exact(operator, n // t, 1, t)
        fed_by_slices = any(edge.producer in sliced for edge in operator.inputs)
        if operator.mixes_channels and fed_by_slices and row is not None:
            wanted[index], found = (row, 0), True
        elif column is not None and (operator.mixes_channels or fed_by_slices):
            wanted[index], found = (column, 0), True
            sliced.add(index)
    return placed(n, workload, wanted) if found else None


FEW_STAGES = 2
"""Numbers of stages that are tried of any model; many leave most servers idle, but for models that fit no other way."""


def starting_strategies(cluster: Cluster, workload: Workload) -> tuple[Start, ...]:
    """Distinct starts, data parallelism first."""
    n = cluster.servers
    found: dict[Strategy, str] = {data_parallel(n, workload): "data parallel"}
    divisors = [k for k in range(1, n) if n % k == 0]
    for k in reversed(divisors):
        for count in (None, n // k, 2 * (n // k)):
            strategy = on_cosets(n, workload, k, count)
            if strategy is not None:
                label = "all" if count is None else f"{count} heaviest"
                found.setdefault(strategy, f"{label} branches on cosets of {k}")
    for k in reversed(divisors[1:]):
        for whole in WHOLE_BRANCHES:
            strategy = layers_on_cosets(n, workload, k, whole)
            if strategy is not None:
                found.setdefault(strategy, f"branches of each layer but {whole} on cosets of {k}")
    beside = chains_on_cosets(n, workload, divisors[-1]) if len(divisors) > 1 else None
    if beside is not None:
        found.setdefault(beside, f"chains on cosets of {divisors[-1]}")
    for t in [*divisors[1:], n]:
        tensor = tensor_parallel(n, workload, t)
        if tensor is not None:
            found.setdefault(tensor, f"tensor parallel {t} ways")
    few = divisors[-FEW_STAGES:]
    for measure, sizes in MEASURES.items():
        for k in divisors if measure == WORK and cluster.server_memory_bytes is not None else few:
            found.setdefault(stages(n, workload, k, sizes(n, workload)), f"{n // k} stages of like {measure}")
    program = program_start(cluster, workload)
    if program is not None:
        found.setdefault(program, "strategy program")
    return tuple(Start(name, strategy, strategy == beside) for strategy, name in found.items())
