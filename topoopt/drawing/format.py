"""Numbers, sizes and server sets as text, with units and as many digits as a reader can use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

SIGNIFICANT_DIGITS = 4
MAX_DECIMALS = 4
USUAL_DECIMALS = 3
"""Decimals at most for values of 0.01 and more."""
ROUNDING = 1e-9
"""Fractions below are rounding."""
HUGE = 1e15
"""From here on a value has a power of ten."""
LISTED_SERVERS = 6
"""Longer server sets are shown as a range, a progression or their first members."""

_BYTE_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def number(value: float) -> str:
    """Four significant digits, three decimals (four below 0.01), thousands separated: 12,346; 20.31; 0.840; 0.0042.

    From 10¹⁵ on with a power of ten: 4.319 × 10¹⁶.
    """
    if math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = abs(value)
    smallest = 10.0**-MAX_DECIMALS
    if size < smallest / 2:
        return f"<{smallest:.{MAX_DECIMALS}f}" if value > 0 else "0"
    if size >= HUGE:
        return scientific(value, SIGNIFICANT_DIGITS)
    most = USUAL_DECIMALS if size >= 0.01 else MAX_DECIMALS
    decimals = min(most, max(0, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(size))))
    return f"{value:,.{decimals}f}".replace("-", "−")


def power_of_ten(exponent: int) -> str:
    """`10⁶`."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def precise(value: float) -> str:
    """Six significant digits, for where a figure comes from: 1234.57; 4.31942 × 10¹⁶; rounding of 0 as 0."""
    if not math.isfinite(value):
        return number(value)
    return "0" if abs(value) < 1e-12 else scientific(value, 6)


def scientific(value: float, digits: int) -> str:
    """So many significant digits, with a power of ten where plain digits would be more."""
    shown, _, power = f"{value:.{digits}g}".partition("e")
    return (f"{shown} × {power_of_ten(int(power))}" if power else shown).replace("-", "−")


def milliseconds(value: float) -> str:
    """Time with its unit: `20.31 ms`."""
    return f"{number(value)} ms"


def byte_size(value: float) -> str:
    """Size in decimal units: `33.55 MB`."""
    if not math.isfinite(value):
        return f"{number(value)} B"
    for scale, unit in _BYTE_UNITS:
        if abs(value) >= scale:
            return f"{number(value / scale)} {unit}"
    return f"{value:.0f} B"


def percent(fraction: float) -> str:
    """Fraction as a percentage with one decimal; tiny ones as `<0.1 %`."""
    if not math.isfinite(fraction):
        return "n/a"
    if ROUNDING < fraction < 0.0005:
        return "<0.1 %"
    return f"{100 * fraction + 0.0:.1f} %".replace("-", "−").replace("−0.0 ", "0.0 ")


def ratio(value: float) -> str:
    """Quotient of two times: `1.31×`; `6.84 × 10¹⁹⁸ times`."""
    if not math.isfinite(value):
        return "n/a"
    if value >= HUGE:
        return f"{scientific(value, 3)} times"
    return f"{value:.2f}×" if value < 10 else f"{value:,.1f}×"


def quotient(numerator: float, denominator: float) -> float:
    """numerator / denominator, NaN when the denominator is 0."""
    return numerator / denominator if denominator else math.nan


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 server`, `16 servers`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def server_set(servers: Sequence[int], n: int) -> str:
    """Compact text of a set of servers: `all 16`, `0,4,8,12`, `0–63`, `0,2,…,126 (64)`, `0,3,4,… (12)`."""
    members = sorted(set(servers))
    count = len(members)
    if count == 0:
        return "none"
    if count == n and n > 1:
        return f"all {n}"
    if count <= LISTED_SERVERS:
        return ",".join(str(v) for v in members)
    step = members[1] - members[0]
    if all(b - a == step for a, b in itertools.pairwise(members)):
        return f"{members[0]}–{members[-1]}" if step == 1 else f"{members[0]},{members[1]},…,{members[-1]} ({count})"
    return f"{members[0]},{members[1]},{members[2]},… ({count})"


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, the middle left out: names differ at both ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :] if tail else ''}"
