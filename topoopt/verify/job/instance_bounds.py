"""Lower bounds on the iteration time over all strategies, topologies, routes, and rings or schedules of AllReduces.

Same assumptions on the time model as `topoopt.verify.job.plan_bounds`.
"""

from __future__ import annotations

from math import inf

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.proofs import Argument, Bound
from topoopt.core.workload import Workload
from topoopt.verify.job.least_times import (
    Between,
    Chains,
    Choices,
    Costs,
    between_all,
    chains_of,
    choices_of,
    largest_of_least,
    memory_need,
    spanning_forest,
)
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS
from topoopt.verify.laws.rounding import MARGIN

WINDOWS = 8
"""Release times tried for the bound on traffic, and as many tails."""


def compute_bounds(cluster: Cluster, workload: Workload) -> tuple[Bound, ...]:
    """Bounds that hold whatever the network: they bind the baselines, too.

    * `compute work`: every operator costs at least its cheapest split; n servers share the sum.
    * `compute critical path`: longest chain forward and back, every operator at its fastest split (`chains_of`).
    * `whole operators on one server`: see `_pigeonhole`.
    * `pinned operators of one server`: what stands on a server whatever the strategy.
    * `no legal split`, `memory`: no plan exists, so every bound holds; infinite.
    """
    choices = choices_of(cluster, workload)
    impossible = _impossible(cluster, workload, choices)
    if impossible:
        return impossible
    chains = chains_of(workload, choices, reductions=False)
    return (
        _bound(sum(float(choice.work_ms.min()) for choice in choices) / cluster.servers, Argument.COMPUTE_WORK),
        _bound(chains.longest, Argument.COMPUTE_CHAIN),
        _bound(_pigeonhole(cluster.servers, choices), Argument.WHOLE_OPERATORS),
        _bound(_pinned(cluster.servers, workload, choices), Argument.PINNED_OPERATORS),
    )


def instance_bounds(cluster: Cluster, workload: Workload) -> tuple[Bound, ...]:
    """All strategy-free bounds: `compute_bounds`, and with the network

    * `critical path with AllReduce`: a chain that ends with the AllReduce of one of its operators.
    * `work and wire bytes`: see `_work_and_wire`.
    """
    bounds = compute_bounds(cluster, workload)
    choices = choices_of(cluster, workload)
    if _impossible(cluster, workload, choices):
        return bounds
    chains = chains_of(workload, choices, reductions=True)
    return (
        *bounds,
        _bound(chains.longest, Argument.ALLREDUCE_CHAIN),
        _bound(_work_and_wire(cluster, workload, choices, chains), Argument.WORK_AND_WIRE),
    )


def _bound(total: float, argument: Argument) -> Bound:
    """A sum of times, none negative, less its rounding."""
    return Bound(total * (1.0 - MARGIN), argument)


def best_bound(cluster: Cluster, workload: Workload) -> Bound:
    """The largest of `instance_bounds`: no plan for this instance is faster."""
    return max(instance_bounds(cluster, workload), key=lambda bound: bound.value)


def _impossible(cluster: Cluster, workload: Workload, choices: tuple[Choices, ...]) -> tuple[Bound, ...]:
    if not all(choice.splits for choice in choices):
        return (Bound(inf, Argument.NO_LEGAL_SPLIT),)
    if cluster.gpu_memory_bytes is not None:
        room = cluster.gpu_memory_bytes * cluster.gpus_per_server * cluster.servers
        if memory_need(workload, choices) > room:
            return (Bound(inf, Argument.TOO_LITTLE_MEMORY),)
    return ()


def _pigeonhole(servers: int, choices: tuple[Choices, ...]) -> float:
    """Least compute of the fullest server when some operators cannot be divided.

    Proof: of any j n + 1 operators that stay in one part, j + 1 share a server; taking the longest ones, that server
    computes for at least the j + 1 shortest of them. Operators that must have a part on every server add theirs.
    """
    whole = sorted((float((c.forward_ms + c.backward_ms).min()) for c in choices if c.whole_server_only), reverse=True)
    spread = 0.0
    if servers > 1:
        spread = sum(float((c.forward_ms + c.backward_ms).min()) for c in choices if c.all_servers_only(servers))
    fullest = max((sum(whole[top - top // servers : top + 1]) for top in range(0, len(whole), servers)), default=0.0)
    return fullest + spread


def _pinned(servers: int, workload: Workload, choices: tuple[Choices, ...]) -> float:
    """Largest compute that no strategy can move off a server: pinned operators, and those with a part everywhere."""
    fixed = np.zeros(servers)
    for operator, choice in zip(workload.operators, choices, strict=True):
        offset = operator.pinned_offset
        least = np.full(servers, np.inf)
        for split, own in zip(choice.splits, choice.forward_ms + choice.backward_ms, strict=True):
            load = np.zeros(servers)
            count = split.sample_ways * split.channel_ways * split.reduce_ways
            if offset is not None:
                load[offset + np.arange(count) * (servers // count)] = own
            elif count == servers:
                load[:] = own
            least = np.minimum(least, load)
        fixed += least
    return float(fixed.max())


def _work_and_wire(cluster: Cluster, workload: Workload, choices: tuple[Choices, ...], chains: Chains) -> float:
    """Splitting more saves compute on each server and costs traffic: no strategy is good at both.

    For a window that opens at t and closes q before the end, let A be the bytes times links of all traffic that can
    neither start before t nor end within q of the end: T >= t + q + A / (n d B), as n servers have d interfaces of
    rate B each. A strategy without such traffic need not take t + q, so the window counts for no more than the longest
    chain L, which binds them all: T >= min(t + q, L) + A / (n d B). Also T >= W / n with W the compute of all servers.
    So for any 0 <= w <= 1

        T >= w W / n + (1 - w) (min(t + q, L) + A / (n d B)),

    and the right side, linear in the choice of splits and in their pairs along edges, is minimised by dynamic
    programming over a forest (`least_labelling`). Any w and any window is valid; the best of several is returned.
    """
    n = cluster.servers
    if n == 1:
        return 0.0
    capacity = n * cluster.degree * cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    between = between_all(cluster, workload, choices)
    forest = spanning_forest(len(choices), between)
    work = tuple(choice.work_ms / n for choice in choices)
    backward_end = [start + turn for start, turn in zip(chains.forward_start, chains.turn, strict=True)]
    released = [end + choice.least_local_ms for end, choice in zip(backward_end, choices, strict=True)]
    forward_end = [
        start + float(choice.forward_ms.min()) for start, choice in zip(chains.forward_start, choices, strict=True)
    ]

    def bound(opens: float, closes: float) -> float:
        """Value for one window; what is not sure to flow inside it is left out."""
        reduced = tuple(
            choice.wire_bytes / capacity * float(released[o] >= opens and closes <= 0)
            for o, choice in enumerate(choices)
        )
        moved = tuple(pair.byte_hops / capacity * float(_inside(pair, opens, closes)) for pair in between)
        return largest_of_least(forest, between, Costs(work, reduced, moved), min(opens + closes, chains.longest))

    def _inside(pair: Between, opens: float, closes: float) -> int:
        """Directions (0, 1 or 2) of a pair's traffic that stay in the window."""
        u, v = pair.producer, pair.consumer
        forth = forward_end[u] >= opens and chains.forward_tail[v] >= closes
        back = backward_end[v] >= opens and chains.backward_tail[u] >= closes
        return int(forth) + int(back)

    opens = _levels([0.0, *released, *forward_end])
    closes = _levels([0.0, *(chains.forward_tail[p.consumer] for p in between)])
    windows = [(t, 0.0) for t in opens] + [(t, q) for t in opens[:2] for q in closes[1:]]
    return max(bound(t, q) for t, q in windows)


def _levels(times: list[float]) -> list[float]:
    """At most `WINDOWS` of the times, ascending and spread evenly, the first and the last among them."""
    distinct: Floats = np.unique(np.array(times, dtype=np.float64))
    chosen = np.unique(np.linspace(0, len(distinct) - 1, WINDOWS).round().astype(np.int64))
    return [float(distinct[index]) for index in chosen]
