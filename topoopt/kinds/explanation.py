"""What an explanation of a solution is asked, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Question:
    """What an explanation is asked.

    Attributes:
        added_links: capacity to add, in links; None: 100 Gbit/s where the rate of a link is known, else one link.
        checks: positions of one more link that are solved again.
        time_limit_s: for all that is solved again.
    """

    added_links: Fraction | None = None
    checks: int = 8
    time_limit_s: float = 60.0


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
