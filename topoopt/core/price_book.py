"""A price book states what parts of a network cost and draw; a bill lists the parts of one network.

Transceivers, NICs and ports of electrical switches are priced by rate, all at the same rates. Between two listed rates
a price is interpolated. A faster link is a multiple of links of the fastest listed rate, side by side, with all their
parts (TopoOpt, NSDI'23, prices of higher rates); nothing slower than the slowest listed rate can be bought.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from topoopt.core.clos import ClosFabric

TRANSCEIVER, NIC, SWITCH_PORT = "transceiver", "nic", "switch_port"
PATCH_PANEL_PORT, OCS_PORT, ONE_BY_TWO_SWITCH, FIBRE = "patch_panel_port", "ocs_port", "one_by_two_switch", "fibre"

RATED_PARTS = (TRANSCEIVER, NIC, SWITCH_PORT)
"""Parts with a price for each rate."""

FLAT_PARTS = (PATCH_PANEL_PORT, OCS_PORT, ONE_BY_TWO_SWITCH)
"""Parts with one price, whatever the rate."""

PARTS = (*RATED_PARTS, *FLAT_PARTS, FIBRE)

UNITS: Mapping[str, str] = {
    TRANSCEIVER: "each",
    NIC: "each",
    SWITCH_PORT: "port",
    PATCH_PANEL_PORT: "port",
    OCS_PORT: "port",
    ONE_BY_TWO_SWITCH: "each",
    FIBRE: "metre",
}
"""What the price of a part is for."""


@dataclass(frozen=True)
class Quote:
    """Price of one piece, USD, and its power, W (None: not known)."""

    usd: float
    watts: float | None


@dataclass(frozen=True)
class Part:
    """A part of the book.

    Attributes:
        name: one of PARTS.
        source, power_source: where the figures come from.
        rates_gbps: rates it is listed at, ascending; empty: one price for all rates.
        quotes: one for each rate, or the only one.
    """

    name: str
    source: str
    power_source: str
    rates_gbps: tuple[float, ...]
    quotes: tuple[Quote, ...]

    def quote(self, gbps: float) -> Quote:
        """At a rate within the listed ones, else at the nearest; power is known where it is at both neighbours."""
        if not self.rates_gbps:
            return self.quotes[0]
        above = min(bisect_left(self.rates_gbps, gbps), len(self.rates_gbps) - 1)
        if above == 0 or gbps >= self.rates_gbps[above]:
            return self.quotes[above]
        low, high = self.quotes[above - 1], self.quotes[above]
        part = (gbps - self.rates_gbps[above - 1]) / (self.rates_gbps[above] - self.rates_gbps[above - 1])
        watts = None if low.watts is None or high.watts is None else low.watts + part * (high.watts - low.watts)
        return Quote(low.usd + part * (high.usd - low.usd), watts)


@dataclass(frozen=True)
class PricedDevice:
    """A device whose ports circuits are set between.

    Attributes:
        name: of the kind of device.
        ports: of one device; an interface takes one, transmit and receive fibre together.
        switching_time_s: to set circuits; None where only the order of magnitude is known, see `note`.
        port_part: the part that prices a port (`patch_panel_port`, `ocs_port`, `switch_port`); None: the book has no
            price.
        note, source: for people.
    """

    name: str
    ports: int
    switching_time_s: float | None
    port_part: str | None
    note: str
    source: str


@dataclass(frozen=True)
class Length:
    """Fibre lengths, uniform between two ends, metres; only the mean matters for the expected price."""

    least_m: float
    most_m: float


@dataclass(frozen=True)
class PriceBook:
    """Prices of all parts, in US dollars.

    Attributes:
        name, dated: for people; the date prices were of.
        parts: one of each of PARTS; that of the fibre is for one metre.
        length: of a fibre.
        devices: optical devices.
    """

    name: str
    dated: str
    parts: tuple[Part, ...]
    length: Length
    devices: tuple[PricedDevice, ...]

    @property
    def rates_gbps(self) -> tuple[float, ...]:
        return self.part(NIC).rates_gbps

    @property
    def sha256(self) -> str:
        """Of all that the book says, whatever its classes are called."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def part(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    def quote(self, name: str, gbps: float) -> Quote:
        """One piece at a rate within the listed ones; of fibre, one of mean length."""
        quote = self.part(name).quote(gbps)
        if name != FIBRE:
            return quote
        metres = (self.length.least_m + self.length.most_m) / 2
        return Quote(quote.usd * metres, None if quote.watts is None else quote.watts * metres)

    def priced_as(self, gbps: float) -> tuple[float, float]:
        """A listed rate, or one between two listed ones, and how many links of it stand for one of `gbps`."""
        lowest, highest = self.rates_gbps[0], self.rates_gbps[-1]
        return (highest, gbps / highest) if gbps > highest else (max(gbps, lowest), 1.0)

    def device(self, port_part: str) -> PricedDevice | None:
        """The device whose ports this part prices, the largest if there are several."""
        fitting = [device for device in self.devices if device.port_part == port_part]
        return max(fitting, key=lambda device: device.ports, default=None)


def price_book(data: Mapping[str, Any]) -> PriceBook:
    """The book that a valid price-book document states (`topoopt.files.price_book_file` is what validates)."""
    parts = []
    for name in PARTS:
        entry = data["parts"][name]
        rows = entry.get("by_rate") or ()
        quotes = [_quote(row) for row in rows] or [_quote(entry)]
        rates = [float(row["gbps"]) for row in rows]
        order = sorted(range(len(rates)), key=rates.__getitem__) or [0]
        parts.append(
            Part(
                name,
                entry["source"],
                entry.get("power_source") or "",
                tuple(rates[i] for i in order) if rates else (),
                tuple(quotes[i] for i in order),
            )
        )
    length = data["parts"][FIBRE]["length_m"]
    devices = []
    for name, entry in data["devices"].items():
        seconds = entry.get("switching_time_s")
        devices.append(
            PricedDevice(
                name,
                int(entry["ports"]),
                None if seconds is None else float(seconds),
                entry.get("port_part"),
                entry.get("note") or "",
                entry["source"],
            )
        )
    span = Length(float(length["least"]), float(length["most"]))
    return PriceBook(data["name"], data["dated"], tuple(parts), span, tuple(devices))


def _quote(row: Mapping[str, Any]) -> Quote:
    watts = row.get("watts")
    return Quote(float(row["usd"]), None if watts is None else float(watts))


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
        return self.count * self.unit_usd

    @property
    def watts(self) -> float | None:
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
        switches: its electrical switches, where they are counted whole.
    """

    fabric: str
    title: str
    servers: int
    server_ports: int
    link_gbps: float
    lines: tuple[BillLine, ...]
    notes: tuple[str, ...] = ()
    switches: ClosFabric | None = None

    @property
    def usd(self) -> float:
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
    def listed_watts(self) -> float:
        """Power of the parts whose power is known."""
        return sum(line.watts or 0.0 for line in self.lines)

    @property
    def power_missing(self) -> tuple[str, ...]:
        """Parts whose power is not known."""
        return tuple(dict.fromkeys(line.part for line in self.lines if line.unit_watts is None and line.count))

    @property
    def watts(self) -> float | None:
        """Power of the network; None if that of some part is not known."""
        return None if self.power_missing else self.listed_watts


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
