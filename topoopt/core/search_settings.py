"""What an instance of any kind states besides its problem: its name, and how hard a search works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from topoopt.core.cluster import LinkSharing
from topoopt.core.data import Displayed


@dataclass(frozen=True, eq=False, repr=False)
class Stated(Displayed):
    """A problem.

    Attributes:
        document: what its file says, plain data; None for a problem made otherwise.
        folder: where its file stands.
        beside: the other files that were read for the problem.
    """

    document: Mapping[str, Any] | None = field(default=None, kw_only=True, compare=False, repr=False)
    folder: str = field(default="", kw_only=True, compare=False, repr=False)
    beside: tuple[str, ...] = field(default=(), kw_only=True, compare=False, repr=False)


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
