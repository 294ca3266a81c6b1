"""Whether optical devices of so many ports can hold the circuits of a topology.

A circuit joins two ports of one device. Interface j of every server is patched to plane j; where a plane has more
servers than a device has ports, it has several, filled with consecutive servers (`block_layer`), and no circuit may
join servers of two of them. Another order of the servers helps only where every ring or chain of circuits of a plane
fits on one device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Int32s
from topoopt.core.cluster import block_layer
from topoopt.core.price_book import PricedDevice
from topoopt.costs.rules import devices_needed

SHOWN = 3


@dataclass(frozen=True)
class Cabling:
    """Devices of a direct-connect network, and whether its circuits can be set.

    Attributes:
        device, ports: kind of device, and the ports of one.
        planes: d, or 2 d with look-ahead.
        devices_per_plane: so many hold the servers of a plane.
        devices: in all, planes that fit whole sharing one.
        crossing: circuits between servers of different devices; None: the circuits are not known.
        longest: servers of the longest ring or chain of circuits in one plane; None: not known.
        reordered: devices that hold a plane when each plane is patched in an order of its own (first fit); None: no
            order helps, or not known.
        cabled: whether all circuits can be set; None: not known, it depends on the topology.
        reason: why not, or why it is not known; empty if all can.
    """

    device: str
    ports: int
    planes: int
    devices_per_plane: int
    devices: int
    crossing: int | None
    longest: int | None
    reordered: int | None
    cabled: bool | None
    reason: str


def cabling_of(device: PricedDevice, servers: int, planes: int, switches: Int32s | None) -> Cabling:
    """Servers are patched to the devices of every plane in the same order.

    Args:
        device: of all planes.
        servers, planes: n, and all planes.
        switches: int32[d, n], server that interface j of server i sends to, -1 if dark; None: not known.
    """
    layer = block_layer(servers, planes, device.ports, device.switching_time_s or 0.0)
    per_plane = int(layer.switch_of.max()) + 1
    devices = devices_needed(servers, planes, device.ports)
    if per_plane == 1:
        return Cabling(device.name, device.ports, planes, 1, devices, 0, None, 1, True, "")
    too_many = f"{servers} servers take {per_plane} devices of {device.ports} ports ({device.name}) in every plane"
    if switches is None:
        reason = (
            f"{too_many}; a circuit joins ports of one device, so servers patched in order fall into {per_plane} "
            "clusters that no circuit joins"
        )
        return Cabling(device.name, device.ports, planes, per_plane, devices, None, None, None, None, reason)
    rows, tails = np.nonzero((switches >= 0) & (switches != np.arange(servers)))
    heads = switches[rows, tails]
    apart = np.flatnonzero(layer.switch_of[rows, tails] != layer.switch_of[rows, heads])
    hanging = [_hanging(row) for row in switches]
    longest = max(sizes[0] for sizes in hanging)
    reordered = max(_packed(sizes, device.ports) for sizes in hanging) if longest <= device.ports else None
    reason = ""
    if len(apart):
        named = ", ".join(f"plane {rows[i]}: {tails[i]} to {heads[i]}" for i in apart[:SHOWN])
        more = f" and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
        hope = (
            f"no order of the servers helps: {longest} of them hang together in one plane"
            if reordered is None
            else f"patched in another order, plane by plane, they fit on {reordered} devices a plane"
        )
        reason = f"{too_many}; {len(apart)} circuits join servers of different devices ({named}{more}); {hope}"
    return Cabling(
        device.name, device.ports, planes, per_plane, devices, len(apart), longest, reordered, not len(apart), reason
    )


def _hanging(row: Int32s) -> list[int]:
    """Servers of each ring or chain of a partial permutation, largest first."""
    n = len(row)
    target = row.tolist()
    sent_to = np.zeros(n, dtype=bool)
    sent_to[row[row >= 0]] = True
    seen = [False] * n
    sizes = []
    for first in (*np.flatnonzero(~sent_to).tolist(), *range(n)):  # chains from their starts, then rings
        length, server = 0, first
        while server >= 0 and not seen[server]:
            seen[server] = True
            length, server = length + 1, target[server]
        sizes.append(length)
    return sorted(filter(None, sizes), reverse=True)


def _packed(sizes: list[int], ports: int) -> int:
    """Devices that hold all of them whole: first fit, largest first."""
    free: list[int] = []
    for size in sizes:
        index = next((index for index, left in enumerate(free) if left >= size), None)
        if index is None:
            free.append(ports - size)
        else:
            free[index] -= size
    return len(free)
