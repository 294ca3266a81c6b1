"""What a counting rule takes and gives: the parts of a network, its rate left open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from topoopt.core.errors import InputError, Problem
from topoopt.core.price_book import FIBRE, NIC, TRANSCEIVER, PriceBook


class Counting(StrEnum):
    """What of a switch is paid.

    `ports`: the ports in use, the rule of the paper, the same for every server. `devices`: whole devices, so that the
    cost of a server depends on how well the cluster fills them.
    """

    PORTS = "ports"
    DEVICES = "devices"


@dataclass(frozen=True)
class NetworkSize:
    """What a rule needs to know of a cluster.

    Attributes:
        servers: n.
        degree: d, interfaces of a server on direct-connect networks.
        oversubscription: downlinks over uplinks, for the networks that are oversubscribed.
        optical_interfaces: of the d, those on the optical switch of a region; 0: none.
        rail_ports: of a server on the optical switches of its rails together; 0: two for each interface.
    """

    servers: int
    degree: int
    oversubscription: float = 2.0
    optical_interfaces: int = 0
    rail_ports: int = 0


@dataclass(frozen=True)
class PartCount:
    """So many pieces of a part, and what they are for."""

    part: str
    where: str
    count: float


@dataclass(frozen=True)
class Count:
    """The parts of a network.

    Attributes:
        server_ports: ports of a server, all of one rate.
        parts: of the whole network.
        notes: how it was counted.
    """

    server_ports: int
    parts: tuple[PartCount, ...]
    notes: tuple[str, ...] = ()


class CountingRule(Protocol):
    """Counts the parts of a network.

    Raises:
        InputError: the network does not exist for the cluster.
    """

    def __call__(self, size: NetworkSize, book: PriceBook, counting: Counting) -> Count: ...


def interfaces(size: NetworkSize, ports: int) -> tuple[PartCount, ...]:
    """NICs and transceivers of servers with so many ports."""
    number = float(size.servers * ports)
    return (PartCount(NIC, "servers", number), PartCount(TRANSCEIVER, "servers", number))


def fibres(number: float, where: str) -> PartCount:
    """Fibre pairs of mean length."""
    return PartCount(FIBRE, where, number)


def impossible(fabric: str, why: str, allowed: str) -> InputError:
    """There is no such network for the cluster."""
    return InputError([Problem(f"{fabric}: {why}", allowed=allowed)])


def devices_needed(servers: int, planes: int, ports: int) -> int:
    """Optical devices for planes of `servers` ports: several planes share one where they fit whole."""
    if servers > ports:
        return planes * -(-servers // ports)
    return -(-planes // (ports // servers))


def together(*groups: Sequence[PartCount]) -> tuple[PartCount, ...]:
    """All parts, in order."""
    return tuple(part for group in groups for part in group)
