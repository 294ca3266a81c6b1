"""Lower bounds on the iteration time hold for one strategy, or for all strategies, topologies, routes and rings."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import inf, prod

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Argument, Bound
from topoopt.core.workload import Placement, Workload
from topoopt.verify.checker import ROUNDING_MARGIN
from topoopt.verify.job.least_times import (
    Chains,
    Choices,
    EarliestStarts,
    Rates,
    between_all,
    chains_of,
    choices_of,
    largest_of_least,
    least_byte_hops,
    least_schedule,
    memory_need,
    spanning_forest,
    window_bound,
    windows_by,
)
from topoopt.verify.job.plan import BYTES_PER_MS_OF_ONE_GBPS, Parts, Traffic, place, recompute_traffic
from topoopt.verify.job.strategy_laws import StrategyLaws, strategy_laws
from topoopt.verify.laws.networks import hop_counts

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
    return Bound(total * (1.0 - ROUNDING_MARGIN), argument)


def _impossible(cluster: Cluster, workload: Workload, choices: tuple[Choices, ...]) -> tuple[Bound, ...]:
    if not all(choice.splits for choice in choices):
        return (Bound(inf, Argument.NO_LEGAL_SPLIT),)
    if cluster.gpu_memory_bytes is not None:
        capacity = cluster.gpu_memory_bytes * cluster.gpus_per_server * cluster.servers
        if memory_need(workload, choices) > capacity:
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
            count = split.parts
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
    pairs, hops = tuple(between), [table[..., 0] for table in between.values()]
    forest = spanning_forest(len(choices), pairs, hops)
    work = tuple(choice.work_ms / n for choice in choices)
    backward_end = [start + turn for start, turn in zip(chains.forward_start, chains.turn, strict=True)]
    released = [end + choice.least_local_ms for end, choice in zip(backward_end, choices, strict=True)]
    forward_end = [
        start + float(choice.forward_ms.min()) for start, choice in zip(chains.forward_start, choices, strict=True)
    ]

    def bound(opens: float, closes: float) -> float:
        reduced = tuple(
            choice.wire_bytes / capacity * float(released[o] >= opens and closes <= 0)
            for o, choice in enumerate(choices)
        )
        moved = tuple(
            byte_hops / capacity * float(_inside(*pair, opens, closes))
            for pair, byte_hops in zip(pairs, hops, strict=True)
        )
        return largest_of_least(forest, pairs, (work, reduced, moved), min(opens + closes, chains.longest))

    def _inside(u: int, v: int, opens: float, closes: float) -> int:
        """Directions (0, 1 or 2) of a pair's traffic that stay in the window."""
        forth = forward_end[u] >= opens and chains.forward_tail[v] >= closes
        back = backward_end[v] >= opens and chains.backward_tail[u] >= closes
        return int(forth) + int(back)

    opens = _levels([0.0, *released, *forward_end])
    closes = _levels([0.0, *(chains.forward_tail[consumer] for _, consumer in pairs)])
    windows = [(t, 0.0) for t in opens] + [(t, q) for t in opens[:2] for q in closes[1:]]
    return max(bound(t, q) for t, q in windows)


def _levels(times: list[float]) -> list[float]:
    """At most `WINDOWS` of the times, ascending and spread evenly, the first and the last among them."""
    distinct: Floats = np.unique(np.array(times, dtype=np.float64))
    chosen = np.unique(np.linspace(0, len(distinct) - 1, WINDOWS).round().astype(np.int64))
    return [float(distinct[index]) for index in chosen]


Columns = list[Floats]


def bounds_of(
    cluster: Cluster,
    workload: Workload,
    parts: tuple[Parts, ...],
    traffic: Traffic,
    links: Ints | None,
    *,
    on_rings: bool = True,
) -> tuple[Bound, ...]:
    """Lower bounds for a strategy, for any routes: on int64[n, n] parallel `links`; None: on any topology.

    With `on_rings` for AllReduces on any rings, else for those on any schedules, rings among them.

    * `compute of one server`: `window_bound` over the tasks of each server.
    * `compute critical path`: longest chain of forward and backward tasks, no communication.
    * `critical path with traffic`: the same with least transfer and AllReduce times (`least_schedule`).
    * `bytes sent by one server`, `bytes received by one server`: `window_bound` over a server's own traffic on its
      interfaces.
    * `bytes times hops`: all traffic, each byte counted once per link it must cross, on all links together. On a given
      topology a transfer crosses at least its hop count and what a member sends at least the hops to the nearest other
      member; on a schedule each sends the payload at least, and the rest goes where that is least. Without one, a
      server has at most d others at one hop, at most d^2 (d (d-1) for fibre pairs) at two and so on, so its largest
      transfers are taken to go to the nearest.
    """
    n = cluster.servers
    link_rate = cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    free = np.full(n, np.inf)
    compute_only = least_schedule(workload, parts, traffic, Rates(free, free), reductions=False)
    bounds = [Bound(compute_only.end_ms, Argument.COMPUTE_CHAIN)]
    if n == 1:
        local = least_schedule(workload, parts, traffic, Rates(free, free))
        return (*bounds, _compute_bound(cluster, parts, local))
    if links is None:
        interfaces = np.full(n, float(cluster.degree))
        rates = Rates(interfaces * link_rate, interfaces * link_rate)
    else:
        rates = Rates(links.sum(axis=1) * link_rate, links.sum(axis=0) * link_rate)
    schedule = least_schedule(workload, parts, traffic, rates, on_rings=on_rings)
    bounds.append(Bound(schedule.end_ms, Argument.TRAFFIC_CHAIN))
    bounds.append(_compute_bound(cluster, parts, schedule))
    bounds.extend(_network_bounds(cluster, traffic, schedule, rates, links, on_rings=on_rings))
    return tuple(bounds)


def _compute_bound(cluster: Cluster, parts: tuple[Parts, ...], schedule: EarliestStarts) -> Bound:
    server, release, work, tail = [], [], [], []
    for index, part in enumerate(parts):
        for starts, tails, duration in (
            (schedule.forward_start, schedule.forward_tail, part.split.forward_ms),
            (schedule.backward_start, schedule.backward_tail, part.split.backward_ms),
        ):
            server.append(part.server)
            release.append(starts[index])
            work.append(np.full(len(part.server), duration))
            tail.append(tails[index] - duration)
    value, _ = windows_by(
        np.concatenate(server), cluster.servers, np.concatenate(release), np.concatenate(work), np.concatenate(tail)
    )
    return Bound(value, Argument.SERVER_COMPUTE)


def _network_bounds(
    cluster: Cluster, traffic: Traffic, schedule: EarliestStarts, rates: Rates, links: Ints | None, *, on_rings: bool
) -> list[Bound]:
    """Windows on the traffic of each server and of all; one row per transfer or per member of an AllReduce."""
    n = cluster.servers
    hops = None if links is None else hop_counts(links > 0)
    sender, receiver = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    columns: tuple[Columns, Columns, Columns, Columns] = ([np.zeros(0)], [np.zeros(0)], [np.zeros(0)], [np.zeros(0)])

    @cache
    def nearest(members: tuple[int, ...]) -> Floats:
        if hops is None:
            return np.ones(len(members))
        among = hops[np.ix_(members, members)]
        np.fill_diagonal(among, n)
        least: Floats = among.min(axis=1).astype(np.float64)
        return least

    def add(start: Ints, end: Ints, *values: Floats) -> None:
        sender.append(start)
        receiver.append(end)
        for column, value in zip(columns, values, strict=True):
            column.append(value)

    for edge in traffic.edges:
        sent = edge.source != edge.target
        out_of, into = edge.source_part[sent], edge.target_part[sent]
        source, target, size = edge.source[sent], edge.target[sent], edge.bytes[sent].astype(np.float64)
        far = np.ones(len(size)) if hops is None else hops[source, target].astype(np.float64)
        back = far if hops is None else hops[target, source].astype(np.float64)
        ended, follows = schedule.forward_end[edge.producer][out_of], schedule.forward_tail[edge.consumer][into]
        add(source, target, ended, follows, size, size * far)
        ended, follows = schedule.backward_end[edge.consumer][into], schedule.backward_tail[edge.producer][out_of]
        add(target, source, ended, follows, size, size * back)
    for reduction in traffic.reductions:
        k = len(reduction.members)
        if k < 2 or not reduction.wire_bytes:
            continue
        members = np.array(reduction.members, dtype=np.int64)
        ended = schedule.backward_end[reduction.operator][list(reduction.parts)]
        release = np.full(k, float(ended.max()) + reduction.local_ms)
        far = nearest(reduction.members)
        # Only the sender's hops are counted.
        sent_by = np.full(k, reduction.wire_bytes if on_rings else float(reduction.payload_bytes))
        crossed = sent_by * far
        if (
            not on_rings
        ):  # 2 (k - 1) payloads in all: beyond one from each, those of the member that is nearest to another
            crossed[np.argmin(far)] += (k - 2) * reduction.payload_bytes * far.min()
        add(members, members, release, np.zeros(k), sent_by, crossed)

    start, end = np.concatenate(sender), np.concatenate(receiver)
    release, tail, size, byte_hops = (np.concatenate(column) for column in columns)
    if not len(size):
        return []
    sent_ms, _ = windows_by(start, n, release, size / rates.send[start], tail)
    received_ms, _ = windows_by(end, n, release, size / rates.receive[end], tail)
    capacity = float(rates.send.sum())
    pooled = window_bound(release, byte_hops / capacity, tail)
    if hops is None:
        reduced = sum(2.0 * (len(members) - 1) * payload for members, payload in traffic.payload_bytes.items())
        byte_links = float(least_byte_hops(traffic.matrix, cluster)) + reduced
        pooled = max(pooled, float(release.min() + tail.min()) + byte_links / capacity)
    return [
        Bound(sent_ms, Argument.BYTES_SENT),
        Bound(received_ms, Argument.BYTES_RECEIVED),
        Bound(pooled, Argument.BYTE_HOPS),
    ]


MOST_SERVERS_IN_TURN = 5

MOST_IN_TURN = 20_000
"""Strategies that are bounded in turn at most: some 3 ms each. Of `instances/tiny-4.yaml` the laws leave 4992."""

MOST_SPLITS_IN_TURN = 200_000
"""Choices of splits, whose laws are all evaluated before."""


def strategies_in_turn(cluster: Cluster, workload: Workload, *, on_rings: bool) -> Bound | None:
    """Least bound of a strategy, ms, over all strategies: in the order of what the laws say of their splits, each is
    bounded by `bounds_of` on any network, until the laws of all others exceed the least.

    Args:
        cluster, workload: of the job.
        on_rings: whether all AllReduces run on rings.

    Returns:
        None where there are more servers or strategies than are looked at, or an operator without a legal split.
    """
    choices, n = choices_of(cluster, workload), cluster.servers
    if not 2 <= n <= MOST_SERVERS_IN_TURN or not all(choice.splits for choice in choices):
        return None
    laws = strategy_laws(cluster, workload, choices)
    if prod(laws.counts) > MOST_SPLITS_IN_TURN:
        return None
    chosen = np.indices(laws.counts).reshape(len(choices), -1)
    lengths = longest_paths(laws, chosen)
    options: dict[tuple[int, int], list[Parts]] = {}
    for o, (operator, choice) in enumerate(zip(workload.operators, choices, strict=True)):
        for s, split in enumerate(choice.splits):
            offsets = range(n // split.parts) if operator.pinned_offset is None else (operator.pinned_offset,)
            at = operator.splits.index(split)
            options[o, s] = [place(o, operator, Placement(at, offset), n) for offset in offsets]
    least, left = inf, MOST_IN_TURN
    for row in np.argsort(lengths, kind="stable").tolist():
        if lengths[row] >= least:
            break
        own = [options[o, s] for o, s in enumerate(chosen[:, row].tolist())]
        left -= prod(map(len, own))
        if left < 0:
            return None
        for parts in product(*own):
            end_if_left()
            traffic = recompute_traffic(cluster, workload, parts)
            bounds = bounds_of(cluster, workload, parts, traffic, None, on_rings=on_rings)
            least = min(least, max(bound.value for bound in bounds))
    return _bound(least, Argument.STRATEGIES_IN_TURN)


def longest_paths(laws: StrategyLaws, chosen: Ints) -> Floats:
    """float64[choices]: longest path of the laws, ms, for each column of states, int64[operators, choices]."""
    times = np.zeros((len(laws.events), chosen.shape[1]))
    for law in sorted(laws.laws, key=lambda law: law.tail):
        reached = times[law.tail] + law.constant
        for table, operators in law.operators:
            for o in operators:
                reached = reached + laws.operators[table][o][chosen[o]]
        for table, pairs in law.pairs:
            for e in pairs:
                u, v = laws.pairs[e]
                reached = reached + laws.between[table][e][chosen[u], chosen[v]]
        times[law.head] = np.maximum(times[law.head], reached)
    return np.asarray(times[-1])
