"""What follows from an instance alone, for the checker: transfer times, order of stages, and lower bounds.

Bounds on the load, whatever sets of operators the devices hold, from multipliers in a file (`block_cuts`). Let every
load be at most T. A device that holds block v holds a set whose work and cut tensors take at most T together, and the
least cut of a fractional such set, kappa[v], is a linear program. Devices pay for all their work and cuts,

    k T >= sum_v p[v] + sum_d cut(d) >= sum_v p[v] (1 + kappa[v] / T),

as the work of a device is at most T. A T that breaks this is below every objective. The multipliers of one block are a
price of the load, and prices of its ends for every tensor, of sum zero, positive ones at most the cost times one plus
the price of the load. By weak duality any of them bound kappa[v]; nothing is solved here.

Bounds on the makespan, from arguments a reader can follow:

* critical path: fastest times, and a transfer wherever two co-located groups fit no device together;
* work: all operators at their fastest, over all devices;
* group: the members of one group run one after another on one device, between the first head and the last tail;
* memory: with at least r devices needed, r parts of the graph have to be joined by transfers: only on a chain;
* egress, ingress: what one group must send or receive over the links of its server.

All operators of a co-located group are on one server. A tensor between two groups that no server can hold together
crosses the network, and all such tensors of one group pass the links of its server: at rate K or less together, whether
they share fairly, queue, or have rates of their own. So for any set of them

    makespan >= least end of a producer + latency + bytes / K + least path that still follows,

with ends and paths at fastest times. A tensor goes to as many other servers as it has consumers that pairwise (and with
its producer) fit no server together; such a set is found greedily. Not valid without contention (sharing `none`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.placement import Latency, PlacementProblem, Throughput
from topoopt.core.proofs import Argument, Bound, Tolerance

MOST_HEADS = 64
"""Least heads tried for one group; of more, every so many-th."""


# Pipelines.


def transfer_ms(problem: PlacementProblem, shares: list[float], size: int, source: int, target: int) -> float:
    """Return the time of a transfer between two devices of a pipeline; `shares` as of `network_shares`."""
    a, b = problem.devices[source], problem.devices[target]
    if a.server == b.server:
        server = problem.servers[a.server]
        gbps = server.intra_gbps if server.intra_gbps is not None else sum(link.gbps for link in server.links)
        return size * 8e-6 / gbps + problem.intra_latency_ms
    counted = [shares[d] for d, entry in ((source, a), (target, b)) if not entry.host]
    return size * 8e-6 / min(counted or (shares[source], shares[target])) + problem.transfer_latency_ms


def network_shares(problem: PlacementProblem) -> list[float]:
    """Gbit/s of its server's links that each device counts on."""
    paying = [0] * len(problem.servers)
    for entry in problem.devices:
        paying[entry.server] += not entry.host
    return [
        sum(link.gbps for link in problem.servers[entry.server].links) / max(1, paying[entry.server])
        for entry in problem.devices
    ]


def transfer_table(problem: PlacementProblem, size_bytes: int) -> Floats:
    """float64[devices, devices]: ms of a transfer of so many bytes; 0 on one device."""
    shares, devices = network_shares(problem), range(len(problem.devices))
    return np.array(
        [[0.0 if d == e else transfer_ms(problem, shares, size_bytes, d, e) for e in devices] for d in devices]
    )


def order_edges(problem: PlacementProblem) -> list[tuple[int, int]]:
    """Pairs of operators of which the first may not be in a later stage than the second.

    Forward tensors; and, reversed, backward tensors at operators without a forward one in their co-located group.
    """
    orphan = [False] * len(problem.operators)
    for members in problem.colocated():
        if all(problem.operators[i].backward for i in members):
            for i in members:
                orphan[i] = True
    pairs = []
    for tensor in problem.tensors:
        for user in tensor.consumers:
            backward, reader_backward = problem.operators[tensor.producer].backward, problem.operators[user].backward
            if not reader_backward:
                pairs.append((tensor.producer, user))
            elif backward and (orphan[tensor.producer] or orphan[user]):
                pairs.append((user, tensor.producer))
    return pairs


def work_bound(problem: PlacementProblem, settings: Throughput) -> float:
    """Compute that cannot be avoided: the mean over devices, and the largest co-located group, on the best classes.

    Forward and backward apart under GPipe, where the objective is the sum of their maxima.
    """
    k = len(problem.devices)
    usable = sorted({entry.class_index for entry in problem.devices})
    table = np.array([operator.times_ms for operator in problem.operators])[:, usable]
    phase = np.array([operator.backward for operator in problem.operators], dtype=bool)
    parts = [~phase, phase] if settings.schedule == "gpipe" else [np.ones(len(phase), dtype=bool)]
    total = 0.0
    for part in parts:
        mean = float(table[part].min(axis=1).sum()) / k if part.any() else 0.0
        groups = [
            float(table[[i for i in members if part[i]]].sum(axis=0).min(initial=np.inf))
            for members in problem.colocated()
            if any(part[i] for i in members)
        ]
        total += max([mean, *groups])
    return total


def free_blocks(problem: PlacementProblem) -> tuple[Floats, dict[tuple[int, ...], float]]:
    """Return the least work of every co-located group, ms, and the least cost of tensors by the groups they touch.

    Raises:
        ValueError: Loads are no sums of work and transfers of all devices: `overlapped`, or CPUs of the pool, which pay
            nothing.
    """
    settings = problem.objective
    hosts = any(entry.host for entry in problem.devices)
    if not isinstance(settings, Throughput) or settings.communication != "added" or hosts or len(problem.devices) < 2:
        raise ValueError("not sums of work and transfers on several devices that all pay")
    table = np.array([operator.times_ms for operator in problem.operators])
    usable = sorted({entry.class_index for entry in problem.devices})
    groups = problem.colocated()
    work = np.array([table[list(members)][:, usable].sum(axis=0).min() for members in groups])
    if not np.isfinite(work).all():
        raise ValueError("a group that no device can run")
    group_of = {i: g for g, members in enumerate(groups) for i in members}
    apart = ~np.eye(len(problem.devices), dtype=bool)
    nets: dict[tuple[int, ...], float] = {}
    for tensor in problem.tensors:
        touched = tuple(sorted({group_of[tensor.producer], *(group_of[user] for user in tensor.consumers)}))
        if len(touched) > 1:
            least = float(transfer_table(problem, tensor.size_bytes)[apart].min())
            nets[touched] = nets.get(touched, 0.0) + least
    return work, dict(sorted(nets.items()))


def least_cuts(problem: PlacementProblem, limit_ms: float, load_price: Floats, end_price: Floats) -> Floats:
    """Return float64[groups], ms of transfers that a set of each group has at least, see the module text.

    Args:
        limit_ms: of work and transfers of a set.
        load_price: float64[groups], of any size.
        end_price: float64[groups, ends], of the ends of all tensors in order of `free_blocks`, of any size.
    """
    work, nets = free_blocks(problem)
    price = np.maximum(load_price, 0.0)
    value = price[:, None] * work
    begin = 0
    for touched, cost in nets.items():
        ends = end_price[:, begin : begin + len(touched)]
        begin += len(touched)
        ends = ends - ends.mean(axis=1, keepdims=True)
        paid = np.maximum(np.maximum(ends, 0.0).sum(axis=1), np.maximum(-ends, 0.0).sum(axis=1))
        allowed = (1.0 + price) * cost
        value[:, list(touched)] += ends * np.minimum(1.0, allowed / np.maximum(paid, 1e-300))[:, None]
    own = np.diagonal(value)
    cuts = own - price * limit_ms + np.minimum(value, 0.0).sum(axis=1) - np.minimum(own, 0.0)
    return np.asarray(np.maximum(cuts, 0.0))


def block_cuts(problem: PlacementProblem, limit_ms: float, load_price: Floats, end_price: Floats) -> float:
    """Return the limit, if the least cuts show that no placement has all loads within it, and 0 otherwise.

    Arguments as of `least_cuts`.

    Raises:
        ValueError: Prices are not finite or of other sizes, the limit is not positive, or see `free_blocks`.
    """
    work, nets = free_blocks(problem)
    sizes = load_price.shape == (len(work),) and end_price.shape == (len(work), sum(map(len, nets)))
    if not (sizes and np.isfinite(load_price).all() and np.isfinite(end_price).all() and 0 < limit_ms < np.inf):
        raise ValueError("prices of other sizes, or numbers that are not finite")
    cuts = least_cuts(problem, limit_ms, load_price, end_price)
    needed = float((work * (1.0 + cuts / limit_ms)).sum()) * (1 - Tolerance.ROUNDING.relative)
    return limit_ms if needed > len(problem.devices) * limit_ms else 0.0


# Makespans.


def _fastest(problem: PlacementProblem) -> list[float]:
    used = sorted({device.class_index for device in problem.devices})
    return [min(operator.times_ms[index] for index in used) for operator in problem.operators]


def _least_transfer(problem: PlacementProblem, size_bytes: int) -> float:
    per_ms = 1e9 / 8 / 1e3
    servers: dict[int, int] = {}
    for device in problem.devices:
        servers[device.server] = servers.get(device.server, 0) + 1
    times = []
    rates = sorted((sum(link.gbps for link in problem.servers[s].links) for s in servers), reverse=True)
    if len(rates) > 1 and rates[1] > 0:
        times.append(problem.transfer_latency_ms + size_bytes / (rates[1] * per_ms))
    for s, count in servers.items():
        if count > 1:
            server = problem.servers[s]
            links = sum(link.gbps for link in server.links)
            gbps = links if server.intra_gbps is None else server.intra_gbps
            times.append(problem.intra_latency_ms + (size_bytes / (gbps * per_ms) if size_bytes else 0.0))
    return min(times, default=0.0)


def topological_order(problem: PlacementProblem) -> list[int]:
    """Operators, each after those that it reads from."""
    users: list[list[int]] = [[] for _ in problem.operators]
    waiting = [0] * len(users)
    for tensor in problem.tensors:
        for user in tensor.consumers:
            users[tensor.producer].append(user)
            waiting[user] += 1
    ready = [i for i, count in enumerate(waiting) if not count]
    for i in ready:  # grows while it is read
        for user in users[i]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return ready


def latency_bounds(problem: PlacementProblem) -> dict[Argument, float]:
    """Each bound by its argument, ms."""
    fast = _fastest(problem)
    groups = problem.colocated()
    group_of = {i: number for number, members in enumerate(groups) for i in members}
    memory = [sum(problem.operators[i].memory_bytes for i in members) for members in groups]
    rooms = [device.memory_bytes for device in problem.devices]
    largest = None if any(limit is None for limit in rooms) else max(limit for limit in rooms if limit is not None)
    users: list[list[tuple[int, float]]] = [[] for _ in fast]
    for tensor in problem.tensors:
        least: float | None = None
        for user in tensor.consumers:
            home, other = group_of[tensor.producer], group_of[user]
            cost = 0.0
            if home != other and largest is not None and memory[home] + memory[other] > largest:
                least = _least_transfer(problem, tensor.size_bytes) if least is None else least
                cost = least
            users[tensor.producer].append((user, cost))
    order = topological_order(problem)
    head, tail = [0.0] * len(fast), [0.0] * len(fast)
    for i in order:
        for user, cost in users[i]:
            head[user] = max(head[user], head[i] + fast[i] + cost)
    for i in reversed(order):
        tail[i] = fast[i] + max((cost + tail[user] for user, cost in users[i]), default=0.0)
    bounds = {Argument.OPERATOR_CHAIN: max(tail), Argument.DEVICE_WORK: sum(fast) / len(problem.devices)}
    for members in groups:
        if len(members) > 1:
            work = sum(fast[i] for i in members)
            value = min(head[i] for i in members) + work + min(tail[i] - fast[i] for i in members)
            bounds[Argument.COLOCATED_GROUP] = max(value, bounds.get(Argument.COLOCATED_GROUP, 0.0))
    bounds |= port_bounds(problem, groups, memory, [at + time for at, time in zip(head, fast, strict=True)], tail)
    chain = _chain_cuts(problem, order, users, memory, rooms)
    if chain > 0:
        bounds[Argument.MEMORY_CUTS] = sum(fast) + chain
    return bounds


def _chain_cuts(
    problem: PlacementProblem,
    order: list[int],
    users: list[list[tuple[int, float]]],
    memory: list[int],
    rooms: list[int | None],
) -> float:
    """Transfers that memory forces on a graph where every operator waits for the one before; 0 for other graphs."""
    follows = all(any(user == after for user, _ in users[before]) for before, after in pairwise(order))
    if not follows or len(memory) < len(order) or any(limit is None for limit in rooms):
        return 0.0
    limited = sorted((limit for limit in rooms if limit is not None), reverse=True)
    total, needed = sum(memory), 0
    while needed < len(limited) and sum(limited[:needed]) < total:
        needed += 1
    costs = []
    position = {i: at for at, i in enumerate(order)}
    for tensor in problem.tensors:
        # a tensor to the next operator is what a cut at that place delays at least
        if any(position[user] == position[tensor.producer] + 1 for user in tensor.consumers):
            costs.append((position[tensor.producer], _least_transfer(problem, tensor.size_bytes)))
    by_place: dict[int, float] = {}
    for index, cost in costs:
        by_place[index] = max(cost, by_place.get(index, 0.0))
    return sum(sorted(by_place.values())[: max(0, needed - 1)])


def latency_floor(problem: PlacementProblem) -> Bound:
    """Return the largest of the bounds on the makespan, with its argument."""
    bounds = latency_bounds(problem)
    argument = max(bounds, key=lambda key: bounds[key])
    return Bound(bounds[argument], argument)


# Makespans: the links of one server.


Forced = tuple[int, float, float]
"""Bytes that pass a port, ms before which they do not, and ms of the path behind them."""


class SharedServers:
    """Which groups can be on which server, alone and in pairs."""

    def __init__(self, problem: PlacementProblem, groups: Sequence[Sequence[int]], memory: Sequence[int]) -> None:
        self._memory = memory
        self._able = [
            frozenset(
                c
                for c in range(len(problem.classes))
                if all(problem.operators[i].times_ms[c] < float("inf") for i in members)
            )
            for members in groups
        ]
        kinds: dict[int, list[tuple[int, int | None]]] = defaultdict(list)
        for device in problem.devices:
            kinds[device.server].append((device.class_index, device.memory_bytes))
        self._servers = dict(sorted(kinds.items()))
        self._pairs: dict[tuple[int, int], bool] = {}

    def _holds(self, group: int, kind: tuple[int, int | None], other: int = 0) -> bool:
        return kind[0] in self._able[group] and (kind[1] is None or self._memory[group] + other <= kind[1])

    def servers_of(self, group: int) -> list[int]:
        """Servers with a device that holds the group."""
        return [s for s, kinds in self._servers.items() if any(self._holds(group, kind) for kind in kinds)]

    def together(self, g: int, h: int) -> bool:
        """Whether some server holds both, on one device or on two."""
        if g == h:
            return True
        key = (min(g, h), max(g, h))
        if key not in self._pairs:
            self._pairs[key] = any(self._on_server(g, h, kinds) for kinds in self._servers.values())
        return self._pairs[key]

    def _on_server(self, g: int, h: int, kinds: list[tuple[int, int | None]]) -> bool:
        for x, kind in enumerate(kinds):
            if not self._holds(g, kind):
                continue
            if self._holds(h, kind, self._memory[g]):
                return True
            if any(y != x and self._holds(h, other) for y, other in enumerate(kinds)):
                return True
        return False


def _crossing(forced: list[Forced], bytes_per_ms: float, latency_ms: float) -> float:
    best = 0.0
    by_tail = sorted(forced, key=lambda row: -row[2])
    heads = sorted({head_ms for _, head_ms, _ in forced})
    for least in heads[:: 1 + len(heads) // MOST_HEADS]:
        total = 0
        for size_bytes, head_ms, tail_ms in by_tail:
            if head_ms >= least:
                total += size_bytes
                best = max(best, least + latency_ms + total / bytes_per_ms + tail_ms)
    return best


def port_bounds(
    problem: PlacementProblem,
    groups: Sequence[Sequence[int]],
    memory: Sequence[int],
    ends_ms: Sequence[float],
    tails_ms: Sequence[float],
) -> dict[Argument, float]:
    """Egress and ingress bounds in ms, where anything is forced over the network.

    Args:
        groups, memory: co-located groups and the bytes of each.
        ends_ms: earliest end of each operator; tails_ms: least time from its start to the end of the step.
    """
    settings = problem.objective
    if not isinstance(settings, Latency) or settings.sharing == "none":
        return {}
    group_of = {i: g for g, members in enumerate(groups) for i in members}
    servers = SharedServers(problem, groups, memory)
    leaving: dict[int, list[Forced]] = defaultdict(list)
    entering: dict[int, list[Forced]] = defaultdict(list)
    for tensor in problem.tensors:
        if not tensor.size_bytes:
            continue
        home, head = group_of[tensor.producer], ends_ms[tensor.producer]
        behind: dict[int, float] = {}
        for user in tensor.consumers:
            group = group_of[user]
            behind[group] = max(behind.get(group, 0.0), tails_ms[user])
        apart = [group for group in behind if not servers.together(home, group)]
        for group in apart:
            entering[group].append((tensor.size_bytes, head, behind[group]))
        goals: list[int] = []
        for group in sorted(apart, key=lambda group: -behind[group]):
            if not any(servers.together(group, other) for other in goals):
                goals.append(group)
        leaving[home] += [(tensor.size_bytes, head, behind[group]) for group in goals]
    bounds = {}
    for argument, table in ((Argument.GROUP_EGRESS, leaving), (Argument.GROUP_INGRESS, entering)):
        value = 0.0
        for group, forced in table.items():
            rate = max((_links(problem, s) for s in servers.servers_of(group)), default=0.0)
            if forced and rate > 0:
                value = max(value, _crossing(forced, rate, problem.transfer_latency_ms))
        if value > 0:
            bounds[argument] = value
    return bounds


def _links(problem: PlacementProblem, server: int) -> float:
    return sum(link.gbps for link in problem.servers[server].links) * 1e9 / 8 / 1e3
