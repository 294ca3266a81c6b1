"""What every host of a cluster sends to every other one over each of its network interfaces, for configuration.

Rates are whole bit/s, so that what is written into a host is what was compared. Links join either through a switch
that all hosts share (one subnet a switch) or two hosts directly (one subnet a cable); nothing here depends on which.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

DEFAULT_QUEUE_BPS = 12_000
"""Least a class of traffic is given: 1500 bytes a second, below which Open vSwitch rounds up."""


@dataclass(frozen=True)
class HostLink:
    """A network interface.

    Attributes:
        interface: its name on the host.
        bridge: Open vSwitch bridge that holds it and its address.
        address: IPv4 address and prefix length, `10.1.0.1/24`.
        rate_bps: in each direction.
    """

    interface: str
    bridge: str
    address: str
    rate_bps: int


@dataclass(frozen=True)
class Host:
    """A server: its name, the IPv4 address that is reached over all its links, and those."""

    name: str
    address: str
    links: tuple[HostLink, ...]


@dataclass(frozen=True)
class LinkRate:
    """Part of one link of a host for the traffic to one destination.

    Attributes:
        source, link: index of the host, and of the link among its links.
        destination: host, by index.
        next_host, next_link: where the link leads: the destination itself, or a host that forwards.
        rate_bps: guaranteed; 0: a route without a guarantee.
    """

    source: int
    link: int
    destination: int
    next_host: int
    next_link: int
    rate_bps: int


@dataclass(frozen=True)
class HostRates:
    """Rates of all hosts, ascending by source, link and destination.

    Attributes:
        name: of the solution.
        hosts, rates: see there.
        notes: what was assumed, for people.
    """

    name: str
    hosts: tuple[Host, ...]
    rates: tuple[LinkRate, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def forwards(self) -> bool:
        """Whether some host passes traffic of others on."""
        return any(rate.next_host != rate.destination for rate in self.rates)


@dataclass(frozen=True)
class LinkSetting:
    """What a user says about one link of a server; None: the default."""

    interface: str | None = None
    bridge: str | None = None
    address: str | None = None


@dataclass(frozen=True)
class HostSetting:
    """What a user says about one server of a solution; None: the default.

    Attributes:
        server: its name in the solution.
        name: of the host.
        address: reached over all its links.
        links: in the order of the solution; empty: all by default.
    """

    server: str
    name: str | None = None
    address: str | None = None
    links: tuple[LinkSetting, ...] = ()
