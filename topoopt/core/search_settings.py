"""How hard a search of any kind works, as an instance states it and a call may change it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from topoopt.core.cluster import LinkSharing


@dataclass(frozen=True)
class RobustGoal:
    """The design whose worst single failure is best.

    Attributes:
        failures: what fails, `single-link`.
        within_percent: how much worse the design may be without failure than the best known, per cent; None: any.
    """

    failures: str = "single-link"
    within_percent: float | None = None


class AllReduceChoice(StrEnum):
    """What AllReduces of a job may run on: its rings, trees, breadth-first broadcasts, or the best of all by size."""

    RINGS = "rings"
    TREES = "trees"
    BFB = "bfb"
    BEST = "best"


@dataclass(frozen=True)
class SearchSettings:
    """How hard to search.

    Attributes:
        method: name in the table of methods, or `auto`.
        budget: strategy proposals simulated in all, or swaps of links proposed; the reproducible limit.
        time_limit_s: wall-clock limit, None for none.
        seed: of every random choice.
        robust: asked for by method `robust`; None: any price of robustness.
        allreduce: what the AllReduces of a job may run on.
        bound_programs: linear programs that the proof of a job's bound may take; None: some seconds' worth.
        link_sharing: how the plan of a job may have links shared; empty: as the cluster says.
    """

    method: str = "auto"
    budget: int | None = None
    time_limit_s: float | None = None
    seed: int = 0
    robust: RobustGoal | None = None
    allreduce: AllReduceChoice = AllReduceChoice.RINGS
    bound_programs: int | None = None
    link_sharing: tuple[LinkSharing, ...] = ()

    def but(
        self,
        *,
        seed: int | None = None,
        time_limit_s: float | None = None,
        method: str | None = None,
        budget: int | None = None,
    ) -> SearchSettings:
        """The same but for what is not None."""
        wishes: dict[str, Any] = {"seed": seed, "time_limit_s": time_limit_s, "method": method, "budget": budget}
        return replace(self, **{name: wish for name, wish in wishes.items() if wish is not None})
