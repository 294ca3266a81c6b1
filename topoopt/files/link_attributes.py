"""Attributes of nodes and links in network files: what each means, by kind of problem, and rates with their units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from topoopt.core.errors import InputError
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldLog, FieldTable, noted, refused, used
from topoopt.files.untrusted import refusal

LINK = "attribute of links"
NODE = "attribute of nodes"
MAX_PARALLEL = 4096
MIN_RATE, MAX_RATE = Fraction(1, 10**9), Fraction(10**15)
SHOWN = 5

LinkEntry = tuple[str, str, Mapping[str, object]]
"""Tail and head by name, attributes as the file has them."""


NetworkUse = Literal["links", "rates"]
"""Which kinds read a network: links that carry a demand, or links on which collectives run."""


GBPS = "Gbit/s"
UNITLESS = ("capacity", "bandwidth", "rate", "speed", "LinkSpeed")
WITH_UNIT: Mapping[str, Fraction] = {
    **{f"{prefix}gbps": Fraction(1) for prefix in ("", "link_", "bandwidth_", "capacity_", "rate_", "speed_")},
    **{f"{prefix}mbps": Fraction(1, 1000) for prefix in ("", "link_", "bandwidth_", "capacity_", "rate_", "speed_")},
    **{f"{prefix}gbytes_per_s": Fraction(8) for prefix in ("", "link_", "bandwidth_", "rate_")},
    "LinkSpeedRaw": Fraction(1, 10**9),
}
"""Names of rates that state their unit, in Gbit/s."""

RATE_NAMES = (*UNITLESS, *WITH_UNIT)
LETTERS: Mapping[str, Fraction] = {letter: Fraction(1000) ** (power - 2) for power, letter in enumerate("KMGT")}
"""Values of `LinkSpeedUnits`, bits a second, in Gbit/s."""

LATENCIES: Mapping[str, float] = {"latency_us": 1.0, "latency_ns": 1e-3, "latency_ms": 1e3}
ROLES: Mapping[str, bool] = {"switch": True, **dict.fromkeys(("rank", "server", "host", "gpu", "compute"), False)}

_WEIGHT = "it may be a length or a capacity; `rate_attribute: weight` takes it for the capacity"
_NO_UNIT = "a latency with a unit in its name: latency_us, latency_ns or latency_ms"
_SHARED: FieldTable = {
    "multiplicity": used("number of parallel links, each of the rate of the link; default 1"),
    "LinkSpeedUnits": used("unit of LinkSpeed: K, M, G or T bits a second"),
    "weight": noted(_WEIGHT),
    **{name: used(f"rate of a link; one is {float(unit):g} Gbit/s") for name, unit in WITH_UNIT.items()},
}

LINK_FIELDS: Mapping[NetworkUse, FieldTable] = {
    "links": {
        **_SHARED,
        **{name: used("capacity of a link, in the unit of the demand") for name in UNITLESS},
        **{name: noted("latencies play no part here") for name in (*LATENCIES, "latency", "delay")},
    },
    "rates": {
        **_SHARED,
        "rate": used("rate of a link, GB/s"),
        **{
            name: refused("a rate with a unit: rate (GB/s), bandwidth_gbps (Gbit/s), or rate_attribute, in GB/s")
            for name in UNITLESS
            if name not in ("rate", "LinkSpeed")
        },
        "LinkSpeed": used("rate of a link in the unit that LinkSpeedUnits states"),
        **{name: used(f"latency of a link; one is {unit:g} us") for name, unit in LATENCIES.items()},
        **{name: refused(_NO_UNIT) for name in ("latency", "delay")},
    },
}

NODE_FIELDS: Mapping[NetworkUse, FieldTable] = {
    "links": {"role": noted("every node counts as a server here, switches too")},
    "rates": {"role": used(f"switch, or what computes ({', '.join(list(ROLES)[1:])}), which is the default")},
}


def fields_of(use: NetworkUse, rate_attribute: str | None) -> dict[str, FieldTable]:
    """Levels of attributes, the one that `rate_attribute` names among those that are used."""
    links = dict(LINK_FIELDS[use])
    if rate_attribute is not None:
        links[rate_attribute] = used("rate of a link, as rate_attribute says")
        unit = () if rate_attribute == "LinkSpeed" else ("LinkSpeedUnits",)
        for name in (*RATE_NAMES, *unit):
            if name != rate_attribute:
                links[name] = noted(f"rate_attribute names {value_text(rate_attribute)}")
    return {LINK: links, NODE: dict(NODE_FIELDS[use])}


def parallel_of(link: LinkEntry, file: str) -> int:
    """Number of parallel links.

    Raises:
        InputError: it is none.
    """
    value = link[2].get("multiplicity", 1)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole or (isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", value, re.ASCII)):
        count = int(value)  # type: ignore[call-overload]
        if 1 <= count <= MAX_PARALLEL:
            return int(count)
    allowed = f"a whole number 1 to {MAX_PARALLEL}; a header or attribute that says `capacity` takes any rate"
    raise refusal(f"{link[0]} -> {link[1]}: not a number of parallel links", file, value=value, allowed=allowed)


def rate_of(value: object) -> Fraction | None:
    """A rate above 0 as it is written, exactly; None for anything else."""
    number = number_of(value)
    return number if number is not None and MIN_RATE <= number <= MAX_RATE else None


def number_of(value: object) -> Fraction | None:
    """A number as it is written, exactly; None for anything else, and beyond 10^18."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    try:
        size = abs(float(text))
        if len(text) > 60 or not size <= 1e18 or (0 < size < 1e-18):
            return None
        return Fraction(text) if size else Fraction(0)  # not by the text: 1e-99999999 would take minutes
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


@dataclass(frozen=True)
class LinkRates:
    """The rates of all links of a file.

    Attributes:
        name: of the attribute.
        unit: `Gbit/s`, or empty where the file does not say it.
        values: in the order of the links.
    """

    name: str
    unit: str
    values: tuple[Fraction, ...]


def link_rates(
    links: Sequence[LinkEntry], log: FieldLog, use: NetworkUse, rate_attribute: str | None
) -> LinkRates | None:
    """The rates that a file states; None where it states none.

    Raises:
        InputError: links without one or with none that is proper, two attributes that both may be meant, no link with
            the attribute that is asked for.
    """
    present = {name for _, _, data in links for name in data}
    if rate_attribute is not None:
        if rate_attribute not in present:
            allowed = ", ".join(sorted(map(value_text, present))[:20]) or "links with attributes"
            raise refusal("no link has this attribute", log.file, value=rate_attribute, allowed=allowed)
        return _read(rate_attribute, links, log.file, use)
    if "LinkSpeedUnits" in present and "LinkSpeed" not in present:
        raise refusal("LinkSpeedUnits, and no LinkSpeed", log.file, allowed="both, or neither")
    candidates = [name for name in RATE_NAMES if name in present]
    read: list[LinkRates] = []
    first: InputError | None = None
    for name in candidates:
        try:
            read.append(_read(name, links, log.file, use))
        except InputError as error:
            first = first or error
    same = all(table.unit == GBPS and table.values == read[0].values for table in read)
    if len(candidates) > 1 and (first is not None or not same):
        allowed = "one of them, or `rate_attribute: NAME` beside `file`"
        raise refusal("several attributes may be the rate", log.file, value=" and ".join(candidates), allowed=allowed)
    if first is not None:
        raise first
    return read[0] if read else None


def _read(name: str, links: Sequence[LinkEntry], file: str, use: NetworkUse) -> LinkRates:
    lettered = name == "LinkSpeed" and any("LinkSpeedUnits" in data for _, _, data in links)
    unit = Fraction(1) if lettered else unit_of(name)
    if unit is None and use == "rates":
        unit = Fraction(8)  # GB/s, where nothing else is said
    values: list[Fraction] = []
    wrong: list[str] = []
    for tail, head, data in links:
        rate = rate_of(data.get(name))
        if lettered and rate is not None:
            letter = LETTERS.get(str(data.get("LinkSpeedUnits")).strip())
            rate = None if letter is None else rate * letter
        if rate is None:
            wrong.append(f"{tail} -> {head}")
        else:
            values.append(rate * (unit or 1))
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        text = f"links without a proper {name}: {', '.join(wrong[:SHOWN])}{more}"
        raise refusal(text, file, allowed=f"a number above 0 at every link, {float(MIN_RATE):g} to {float(MAX_RATE):g}")
    return LinkRates(name, "" if unit is None else GBPS, tuple(values))


def unit_of(name: str) -> Fraction | None:
    """Gbit/s of one, by the name of an attribute; None where it does not say."""
    if name in WITH_UNIT:
        return WITH_UNIT[name]
    for pattern, unit in (
        (r"[gG]bps", Fraction(1)),
        (r"[mM]bps", Fraction(1, 1000)),
        (r"GBps|gbytes_per_s", Fraction(8)),
    ):
        if re.search(rf"({pattern})$", name):
            return unit
    return None


def link_latencies(links: Sequence[LinkEntry], log: FieldLog, default: float | None) -> tuple[float, ...] | None:
    """us of each link; None where the file states none.

    Args:
        default: of links without one; None: there is none.

    Raises:
        InputError: two attributes, values that are none, links without one.
    """
    names = [name for name in LATENCIES if any(name in data for _, _, data in links)]
    if not names:
        return None
    if len(names) > 1:
        raise refusal("several attributes state latencies", log.file, value=" and ".join(names), allowed="one of them")
    name, latencies = names[0], []
    for tail, head, data in links:
        if name not in data and default is not None:
            latencies.append(default)
            continue
        value = number_of(data.get(name))
        latency = math.nan if value is None else float(value) * LATENCIES[name]
        if not 0 <= latency <= 1e6:
            text = f"the link {tail} -> {head} has no proper {name}"
            allowed = "0 to 1e6 us at every link, a <default>, or latency_us.link in the instance for those without"
            raise refusal(text, log.file, value=data.get(name), allowed=allowed)
        latencies.append(latency)
    return tuple(latencies)


def is_switch(name: str, data: Mapping[str, object], file: str) -> bool:
    """Whether a node is a switch, by its role.

    Raises:
        InputError: a role that is not known.
    """
    role = data.get("role")
    if role is None:
        return False
    if not isinstance(role, str) or role not in ROLES:
        raise refusal(f"an unknown role of node {value_text(name)}", file, value=role, allowed=", ".join(ROLES))
    return ROLES[role]


USUAL_GBYTES_AS_GBPS = frozenset(map(Fraction, ("12.5", "25", "50", "300", "450", "900", "1800")))
"""Gbit/s that are usual as GB/s: ports of 100 to 400 Gbit/s, and what NVLinks of a GPU carry each way."""

USUAL_GBPS_AS_GBYTES = frozenset(map(Fraction, (200, 400, 800, 1600)))
"""GB/s that are usual as Gbit/s: ports."""


def unit_notes(rates: Iterable[tuple[str, Fraction]], unit: str) -> tuple[str, ...]:
    """Notes of rates that look like the other unit, each rate once.

    Args:
        rates: what has the rate, and the rate in `unit`.
        unit: Gbit/s or GB/s.
    """
    usual, other = (USUAL_GBYTES_AS_GBPS, "GB/s") if unit == "Gbit/s" else (USUAL_GBPS_AS_GBYTES, "Gbit/s")
    first: dict[Fraction, str] = {}
    for what, rate in rates:
        if rate in usual:
            first.setdefault(rate, what)
    return tuple(
        f"{what}: {float(rate):g} {unit} is a usual rate in {other}: look whether the file means {other}"
        for rate, what in first.items()
    )
