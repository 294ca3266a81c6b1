"""A price book: what the parts of a network cost and draw, and how many ports optical devices have.

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
        port_part: the part that prices a port (`patch_panel_port`, `ocs_port`); None: the book has no price.
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

    @property
    def mean_m(self) -> float:
        """Mean length, metres."""
        return (self.least_m + self.most_m) / 2


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
        """Rates with prices, ascending."""
        return self.part(NIC).rates_gbps

    @property
    def sha256(self) -> str:
        """Of all that the book says, whatever its classes are called."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def part(self, name: str) -> Part:
        """A part by its name."""
        return next(part for part in self.parts if part.name == name)

    def quote(self, name: str, gbps: float) -> Quote:
        """One piece at a rate within the listed ones; of fibre, one of mean length."""
        found = self.part(name).quote(gbps)
        if name != FIBRE:
            return found
        metres = self.length.mean_m
        return Quote(found.usd * metres, None if found.watts is None else found.watts * metres)

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
