"""Lower bounds on the makespan from the links of one server: what must leave it, and what must enter it.

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
from dataclasses import dataclass

from topoopt.core.placement import Latency, PlacementProblem, Sharing
from topoopt.core.proofs import Argument

MOST_HEADS = 64
"""Least heads tried for one group; of more, every so many-th."""


@dataclass(frozen=True)
class Forced:
    """Bytes that pass a port: not before `head_ms`, and with a path of `tail_ms` behind them."""

    size_bytes: int
    head_ms: float
    tail_ms: float


class Rooms:
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
    """The bound of the module text, best over all sets that are cut off by a least head and a least tail."""
    best = 0.0
    by_tail = sorted(forced, key=lambda one: -one.tail_ms)
    heads = sorted({one.head_ms for one in forced})
    for least in heads[:: 1 + len(heads) // MOST_HEADS]:
        total = 0
        for one in by_tail:
            if one.head_ms >= least:
                total += one.size_bytes
                best = max(best, least + latency_ms + total / bytes_per_ms + one.tail_ms)
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
    if not isinstance(settings, Latency) or settings.sharing is Sharing.NONE:
        return {}
    group_of = {i: g for g, members in enumerate(groups) for i in members}
    rooms = Rooms(problem, groups, memory)
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
        apart = [group for group in behind if not rooms.together(home, group)]
        for group in apart:
            entering[group].append(Forced(tensor.size_bytes, head, behind[group]))
        goals: list[int] = []
        for group in sorted(apart, key=lambda group: -behind[group]):
            if not any(rooms.together(group, other) for other in goals):
                goals.append(group)
        leaving[home] += [Forced(tensor.size_bytes, head, behind[group]) for group in goals]
    found = {}
    for argument, table in ((Argument.GROUP_EGRESS, leaving), (Argument.GROUP_INGRESS, entering)):
        value = 0.0
        for group, forced in table.items():
            rate = max((_links(problem, s) for s in rooms.servers_of(group)), default=0.0)
            if forced and rate > 0:
                value = max(value, _crossing(forced, rate, problem.transfer_latency_ms))
        if value > 0:
            found[argument] = value
    return found


def _links(problem: PlacementProblem, server: int) -> float:
    """Bytes per ms of all links of a server."""
    return sum(link.gbps for link in problem.servers[server].links) * 1e9 / 8 / 1e3
