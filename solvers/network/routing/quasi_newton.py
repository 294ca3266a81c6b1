"""Directions of descent from the last steps (L-BFGS; Nocedal, Mathematics of Computation 35, 1980)."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats

_PAIRS = 20
_BENT = 1e-10
"""Cosine between a step and its change of slope from which on the pair says anything."""


class Curvature:
    """The last steps and how each changed the slope."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Floats, Floats]] = []

    def add(self, step: Floats, change: Floats) -> None:
        """A step and its change of slope, float64[m] each; left out where the function is not convex along it."""
        if step @ change > _BENT * np.linalg.norm(step) * np.linalg.norm(change):
            self.pairs = [*self.pairs[1 - _PAIRS :], (step, change)]

    def scale(self, factor: float) -> None:
        """The function bends so many times as much from now on."""
        self.pairs = [(step, change * factor) for step, change in self.pairs]

    def forget(self) -> None:
        """Nothing is known of the function any more."""
        self.pairs = []

    def direction(self, slope: Floats, first: float) -> Floats:
        """-H slope, float64[m]; `first` stands for H as long as there is no pair."""
        d, parts = -slope, []
        for step, change in reversed(self.pairs):
            part = (step @ d) / (step @ change)
            d = d - part * change
            parts.append(part)
        if self.pairs:
            step, change = self.pairs[-1]
            first = float((step @ change) / (change @ change))
        d = d * first
        for (step, change), part in zip(self.pairs, reversed(parts), strict=True):
            d = d + (part - (change @ d) / (step @ change)) * step
        return np.asarray(d)
