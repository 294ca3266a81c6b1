"""One measured figure, and how time is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the table: a measured value with its unit, the goal, and the plain way's value if there is one."""

    name: str
    value: float
    unit: str
    goal: float
    plain: float | None = None
    higher_is_better: bool = False

    @property
    def reached(self) -> bool:
        """Whether the goal is met."""
        return self.value >= self.goal if self.higher_is_better else self.value <= self.goal


def best_of(
    run: Callable[[], object], repeats: int = 7, inner: int = 1, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Least time of one call, seconds, after one call to warm up; by `time.process_time` of the processor alone."""
    run()
    times = []
    for _ in range(repeats):
        began = clock()
        for _ in range(inner):
            run()
        times.append((clock() - began) / inner)
    return min(times)
