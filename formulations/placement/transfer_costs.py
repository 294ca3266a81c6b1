"""What a transfer between two devices costs, objective throughput, and which devices are alike in that.

Time of a transfer is a slope times its bytes, and something fixed. Devices are alike if exchanging them changes
nothing: same class, memory and pool, and either one server, or servers of one device each with links as fast; where all
transfers that somebody pays for cost the same, links tell no devices apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.placement import PlacementProblem
from topoopt.core.units import bytes_per_ms


@dataclass(frozen=True)
class Net:
    """A tensor (or several with the same ends) between blocks: bytes, number of tensors, pass it belongs to."""

    source: int
    targets: tuple[int, ...]
    size_bytes: int
    phase: int
    tensors: int = 1


@dataclass(frozen=True)
class DeviceGroup:
    """Devices that are alike: class, memory, and whether they are CPUs of the pool."""

    devices: tuple[int, ...]
    class_index: int
    memory_bytes: int | None
    host: bool


@dataclass(frozen=True, eq=False)
class TransferCosts:
    """Costs between devices of two groups, or between two devices of one group.

    Attributes:
        ms_per_byte, fixed_ms: float64[groups, groups], symmetric; inf where there are no two such devices.
        uniform: whether all transfers that somebody pays for cost the same.
    """

    ms_per_byte: Floats
    fixed_ms: Floats
    uniform: bool

    def between(self, net: Net) -> Floats:
        """float64[groups, groups]: ms of sending a net once."""
        sent = np.where(np.isfinite(self.ms_per_byte), self.ms_per_byte, 0.0) * net.size_bytes
        return np.asarray(sent + self.fixed_ms * net.tensors)

    def least(self, nets: Iterable[Net]) -> Floats:
        """float64[nets, groups]: ms that a device of a group pays at least for sending or receiving each net."""
        rows = [np.where(np.isfinite(cost := self.between(net)), cost, np.inf).min(axis=1) for net in nets]
        table = np.array(rows).reshape(len(rows), len(self.ms_per_byte))
        return np.where(np.isfinite(table), table, 0.0)

    def mean(self, nets: Iterable[Net]) -> Floats:
        """float64[nets, groups]: the same on average over the groups at the other end."""
        rows = [self.between(net) for net in nets]
        table = np.array(rows).reshape(len(rows), *self.ms_per_byte.shape)
        known = np.isfinite(table)
        return np.asarray(np.where(known, table, 0.0).sum(axis=2) / np.maximum(known.sum(axis=2), 1))


@dataclass(frozen=True)
class _Place:
    """Where a device stands in the network: its server, or the rate of a server that it has for itself."""

    host: bool
    server: int | None
    share_gbps: float


def _places(problem: PlacementProblem) -> list[_Place]:
    """Of each device."""
    crowd, paying = [0] * len(problem.servers), [0] * len(problem.servers)
    for entry in problem.devices:
        crowd[entry.server] += 1
        paying[entry.server] += not entry.host
    found = []
    for entry in problem.devices:
        share = problem.servers[entry.server].network_gbps / max(1, paying[entry.server])
        found.append(_Place(entry.host, entry.server if crowd[entry.server] > 1 else None, share))
    return found


def _costs(problem: PlacementProblem, places: list[_Place], single: list[bool]) -> tuple[Floats, Floats]:
    """float64[places, places] ms per byte and fixed ms; inf for the two ends of a place of a single device."""
    host = np.array([place.host for place in places])
    server = np.array([-1 if place.server is None else place.server for place in places])
    share = np.array([place.share_gbps for place in places])
    limit = np.where(host, np.inf, share)  # CPUs of the pool set no limit, unless both ends are such
    across = np.minimum.outer(limit, limit)
    across = np.where(np.isfinite(across), across, np.minimum.outer(share, share))
    inside = np.array([0.0 if s < 0 else problem.servers[s].inside_gbps for s in server.tolist()])
    same = (server[:, None] == server[None, :]) & (server >= 0)
    with np.errstate(divide="ignore"):
        slope = 1.0 / (np.where(same, inside[:, None], across) * bytes_per_ms(1.0))
    fixed = np.where(same, problem.intra_latency_ms, problem.transfer_latency_ms)
    alone = np.flatnonzero(single)
    slope[alone, alone] = fixed[alone, alone] = np.inf
    return slope, fixed


def grouped_devices(problem: PlacementProblem) -> tuple[tuple[DeviceGroup, ...], TransferCosts]:
    """Devices that are alike, in order of their first member, and what transfers between the groups cost."""
    places = _places(problem)
    counts = Counter(places)
    kinds = list(counts)
    slope, fixed = _costs(problem, kinds, [count == 1 for count in counts.values()])
    host = np.array([place.host for place in kinds])
    paid = np.isfinite(fixed) & ~(host[:, None] & host[None, :])
    pairs = {*zip(slope[paid].tolist(), fixed[paid].tolist(), strict=True)}
    uniform = len(pairs) <= 1
    found: dict[tuple[object, ...], list[int]] = {}
    for index, entry in enumerate(problem.devices):
        key = (entry.class_index, entry.memory_bytes, entry.host, None if uniform else places[index])
        found.setdefault(key, []).append(index)
    groups, own = [], []
    for members in found.values():
        first = problem.devices[members[0]]
        groups.append(DeviceGroup(tuple(members), first.class_index, first.memory_bytes, first.host))
        own.append(kinds.index(places[members[0]]))
    if uniform:
        one_ms, one_fixed = pairs.pop() if pairs else (0.0, 0.0)
        size = (len(groups), len(groups))
        return tuple(groups), TransferCosts(np.full(size, one_ms), np.full(size, one_fixed), uniform)
    slope, fixed = slope[np.ix_(own, own)], fixed[np.ix_(own, own)]
    alone = [q for q, group in enumerate(groups) if len(group.devices) == 1]
    slope[alone, alone] = fixed[alone, alone] = np.inf
    return tuple(groups), TransferCosts(slope, fixed, uniform)


def merged_nets(nets: Iterable[Net], costs: TransferCosts) -> tuple[Net, ...]:
    """Nets without those within a block or without cost; where links are alike, equal ends and pass make one.

    Where they are not, a device pays for the slowest copy of each tensor, which may go different ways for two of them.
    """
    free = not (costs.fixed_ms[np.isfinite(costs.fixed_ms)] > 0).any()
    kept: list[Net] = []
    place: dict[tuple[int, tuple[int, ...], int], int] = {}
    for net in nets:
        targets = tuple(sorted({target for target in net.targets if target != net.source}))
        if not targets or (free and not net.size_bytes):
            continue
        key = (net.source, targets, net.phase)
        if costs.uniform and key in place:
            at = place[key]
            one = kept[at]
            kept[at] = Net(*key[:2], one.size_bytes + net.size_bytes, net.phase, one.tensors + net.tensors)
            continue
        place[key] = len(kept)
        kept.append(Net(net.source, targets, net.size_bytes, net.phase, net.tensors))
    return tuple(kept)
