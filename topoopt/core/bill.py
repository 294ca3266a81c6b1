"""Bills of material: the parts of a network with their number, price and power, and what performance costs."""

from __future__ import annotations

from dataclasses import dataclass

US_DOLLARS_PER_MILLION = 1e6
MS_PER_S = 1e3


@dataclass(frozen=True)
class BillLine:
    """One part in one place of the network.

    Attributes:
        part: name in the price book.
        where: what it is there for.
        rate_gbps: rate it is priced at; None for parts whose price does not depend on it.
        count: pieces; not whole where a rate is a multiple of a listed one, or a rule counts shares.
        unit_usd, unit_watts: of one piece; None: its power is not known.
    """

    part: str
    where: str
    rate_gbps: float | None
    count: float
    unit_usd: float
    unit_watts: float | None

    @property
    def usd(self) -> float:
        """Price of all pieces."""
        return self.count * self.unit_usd

    @property
    def watts(self) -> float | None:
        """Power of all pieces."""
        return None if self.unit_watts is None else self.count * self.unit_watts


@dataclass(frozen=True)
class Bill:
    """What a network of n servers is made of.

    Attributes:
        fabric, title: which network.
        servers: n.
        server_ports: ports of a server.
        link_gbps: rate of one of them.
        lines: the parts.
        notes: how it was counted, for people.
    """

    fabric: str
    title: str
    servers: int
    server_ports: int
    link_gbps: float
    lines: tuple[BillLine, ...]
    notes: tuple[str, ...] = ()

    @property
    def usd(self) -> float:
        """Price of the network."""
        return sum(line.usd for line in self.lines)

    @property
    def usd_per_server(self) -> float:
        """Price of the network over its servers."""
        return self.usd / self.servers

    @property
    def server_gbps(self) -> float:
        """All ports of a server together."""
        return self.server_ports * self.link_gbps

    @property
    def known_watts(self) -> float:
        """Power of the parts whose power is known."""
        return sum(line.watts or 0.0 for line in self.lines)

    @property
    def power_missing(self) -> tuple[str, ...]:
        """Parts whose power is not known."""
        return tuple(dict.fromkeys(line.part for line in self.lines if line.unit_watts is None and line.count))

    @property
    def watts(self) -> float | None:
        """Power of the network; None if that of some part is not known."""
        return None if self.power_missing else self.known_watts


PLAN_FABRIC = "direct-connect"
"""The network of a plan: patch panels with a look-ahead plane."""


@dataclass(frozen=True)
class FabricPrices:
    """Prices of the networks a solution compares.

    Attributes:
        book, book_sha256: the price book.
        usd: (network, price), the plan's own first, under the name PLAN_FABRIC.
    """

    book: str
    book_sha256: str
    usd: tuple[tuple[str, float], ...]

    def of(self, fabric: str) -> float | None:
        """Price of a network; None if it has none."""
        return dict(self.usd).get(fabric)


def iterations_per_s_per_million_usd(iteration_time_ms: float, usd: float | None) -> float | None:
    """Training iterations a second that a million dollars of network buy; None without a price or a time."""
    if usd is None or not usd > 0 or not 0 < iteration_time_ms < float("inf"):
        return None
    return MS_PER_S / iteration_time_ms / (usd / US_DOLLARS_PER_MILLION)
