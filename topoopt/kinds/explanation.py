"""What an explanation of a solution is asked, and what it says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from solvers.stop import Stop
from solvers.timing import Timing
from topoopt.kinds.kind import SolveOptions

DEFAULT_LIMIT_S = 60.0
"""Of an explanation without a limit of its own."""


@dataclass(frozen=True)
class Question:
    """What an explanation is asked.

    Attributes:
        added_links: capacity to add, in links; None: 100 Gbit/s where the rate of a link is known, else one link.
        checks: positions of one more link that are solved again.
        stop: of all that is solved again; what is known then is said.
    """

    added_links: Fraction | None = None
    checks: int = 8
    stop: Stop = field(default_factory=lambda: Stop().within(DEFAULT_LIMIT_S))

    def left_s(self) -> float:
        """Seconds that are left; 0 once it is time to end."""
        left = self.stop.remaining_s()
        return 0.0 if self.stop.reason() is not None else math.inf if left is None else left

    def options(self, method: str | None = None) -> SolveOptions:
        """For something that is solved again in the time left."""
        return options_within(self.stop, method)


def options_within(stop: Stop, method: str | None = None) -> SolveOptions:
    """For a solve that is a part of something larger, ended by its signals and in its time."""
    left = stop.remaining_s()
    return SolveOptions(time_limit_s=left, method=method, timing=Timing(stop.within(left), left))


@dataclass(frozen=True)
class Explanation:
    """What limits a solution.

    Attributes:
        words: sentences for people.
        figures: the same for programs.
        notes: what was assumed.
        late: whether the time limit left something unchecked.
    """

    words: tuple[str, ...]
    figures: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    late: bool = False

    def __str__(self) -> str:
        return "\n".join(self.words)
