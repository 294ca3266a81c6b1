"""Axes of charts: linear, logarithmic or of names; where a value stands, and which ticks are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from topoopt.drawing.format import power_of_ten
from topoopt.drawing.svg import decade_ticks, nice_step, tick_text, ticks

MOST_DECADES = 8
"""Decades that get a tick each; beyond, every second, third, ... does."""

FEWEST_MARKS = 3
"""Fewer round ticks of a logarithmic axis are replaced by evenly spaced ones."""

LARGE = 1e6
"""From here on the title says the power of ten, and ticks of one or two decades are multiples of it."""

LEAST_SPREAD = 1e-9
"""Part of the largest value below which values differ by rounding alone."""

ROOM = 0.05
"""Part of the span left free at both ends of a linear axis."""


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        title: quantity with its unit.
        low, high: ends; for names 0 and their number.
        log: logarithmic (low above 0).
        names: categories in order; empty for numbers.
    """

    title: str
    low: float
    high: float
    log: bool = False
    names: tuple[str, ...] = ()

    def at(self, value: float) -> float:
        """Part of the way from the low end; for names `value` is the place in the list."""
        if self.names:
            return (value + 0.5) / len(self.names)
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    @property
    def power(self) -> int:
        """Of ten, by which the ticks are multiplied: a multiple of 3, 0 where they stand for themselves."""
        plain = self.names or self.high < LARGE or (self.log and len(decade_ticks(self.low, self.high)) >= 2)
        return 0 if plain else 3 * (math.floor(math.log10(self.high)) // 3)

    @property
    def heading(self) -> str:
        """The title, with the power of ten of the ticks: `10⁶ bytes`."""
        return f"{power_of_ten(self.power)} {self.title}" if self.power else self.title

    def marks(self, target: int) -> list[tuple[float, str]]:
        """Values of the ticks, with their texts."""
        if self.names:
            return [(float(place), name) for place, name in enumerate(self.names)]
        if self.log:
            return self._log_marks()
        values, unit = ticks(self.low, self.high, target), 10.0**self.power
        step = nice_step(self.high - self.low, target)
        return [(value, tick_text(value / unit + 0.0, step / unit)) for value in values]

    def _log_marks(self) -> list[tuple[float, str]]:
        decades = decade_ticks(self.low, self.high)
        if len(decades) > MOST_DECADES:
            decades = decades[:: -(-len(decades) // MOST_DECADES)]
        if len(decades) >= 2:
            return [(value, _power_text(value)) for value in decades]
        lowest, unit = 10.0 ** math.floor(math.log10(self.low)), 10.0**self.power
        fine = [factor * scale for scale in (lowest, 10 * lowest, 100 * lowest) for factor in (1, 1.5, 2, 3, 5, 7)]
        marks = [(value, f"{value / unit:,.6g}") for value in fine if self.low <= value <= self.high]
        if len(marks) >= FEWEST_MARKS:
            return marks
        return [(value, f"{value / unit:,.6g}") for value in ticks(self.low, self.high, FEWEST_MARKS) if value > 0]


def _power_text(value: float) -> str:
    return f"{value:,.10g}" if 1e-3 <= value < 1e6 else power_of_ten(round(math.log10(value)))


def number_axis(title: str, values: Iterable[float], *, log: bool = False, zero: bool = False) -> Axis:
    """An axis that holds all values; logarithmic only when all are above 0.

    `zero`: it begins at 0, as bars must (not for logarithms).
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return Axis(title, 0.0, 1.0)
    low, high = min(known), max(known)
    if log and low > 0:
        ratio = (high / low) ** ROOM if high > low else 1.5
        return Axis(title, low / ratio, high * ratio, log=True)
    spread = high - low > LEAST_SPREAD * max(abs(low), abs(high))
    room = ROOM * (high - low) if spread else max(abs(high), 1.0) * 0.1
    bottom = 0.0 if low == 0 or (zero and low > 0) or 0 < low < 0.15 * high else low - room
    return Axis(title, bottom, high + room)


def name_axis(title: str, names: Sequence[str]) -> Axis:
    """An axis of categories."""
    return Axis(title, 0.0, float(len(names)), names=tuple(names))
