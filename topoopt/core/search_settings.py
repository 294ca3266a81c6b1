"""What an instance of any kind states besides its problem: its name, and how hard a search works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Len

from topoopt.core.cluster import LinkSharing
from topoopt.core.data import STRICT, Displayed, Meaning, Names, Stored, omitting


@dataclass(frozen=True, eq=False, repr=False)
class ProblemBase(Displayed):
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
    """Ask for the design whose worst single failure is best."""

    __pydantic_config__ = STRICT

    failures: Literal["single-link"] = "single-link"
    """what fails"""
    within_percent: Annotated[float, Ge(0), Le(1e6)] | None = None
    """how much worse it may be without failure than the best; null: any"""


class AllReduceChoice(StrEnum):
    """What AllReduces of a job may run on: its rings, trees, breadth-first broadcasts, or the best of all by size."""

    RINGS = "rings"
    TREES = "trees"
    BFB = "bfb"
    BEST = "best"


Budget = Annotated[int, Ge(0), Le(10**12)]
Seconds = Annotated[float, Gt(0), Le(1e7)]


@dataclass(frozen=True)
class SearchSettings:
    """How hard to search."""

    __pydantic_config__ = STRICT

    method: Annotated[str, Len(1, 50), Meaning("search method, or auto")] = "auto"
    budget: Annotated[Budget | None, Meaning("proposals of the search; null: the default")] = None
    time_limit_s: Annotated[Seconds | None, Meaning("wall-clock limit; null: none")] = None
    seed: Annotated[int, Ge(0), Le(2**63 - 1)] = 0

    OMITTED: ClassVar[Mapping[str, Any]] = {}
    """Fields that are not written where they have this value, so that the hash of an instance is as without them."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Add the rule on what is written to the schema of the fields."""
        return omitting(handler(source), cls.OMITTED)

    def but(
        self,
        *,
        seed: int | None = None,
        time_limit_s: float | None = None,
        method: str | None = None,
        budget: int | None = None,
    ) -> Self:
        """Return the same settings but for what is not None."""
        changes: dict[str, Any] = {"seed": seed, "time_limit_s": time_limit_s, "method": method, "budget": budget}
        return replace(self, **{name: value for name, value in changes.items() if value is not None})


@dataclass(frozen=True)
class RobustSearchSettings(SearchSettings):
    """How hard to search, and whether for a robust design."""

    robust: Annotated[RobustGoal | None, Meaning("stand single failures; null: not looked at")] = None

    OMITTED: ClassVar[Mapping[str, Any]] = {"robust": None}


Sharings = tuple[Annotated[LinkSharing, Names(LinkSharing)], ...]


def _each_once(sharings: tuple[LinkSharing, ...]) -> tuple[LinkSharing, ...]:
    if len(set(sharings)) < max(1, len(sharings)):
        raise ValueError("a way to share links is listed twice" if sharings else "no way to share links is listed")
    return sharings


@dataclass(frozen=True)
class JobSearchSettings(RobustSearchSettings):
    """How hard to search, and what AllReduces may run on."""

    allreduce: Annotated[AllReduceChoice, Names(AllReduceChoice)] = AllReduceChoice.RINGS
    """what AllReduces run on: rings, trees, bfb (breadth-first broadcasts), or the best by size"""
    bound_programs: Annotated[int, Ge(1), Le(100_000)] | None = None
    """linear programs that the proof of the bound may take; null: some seconds' worth"""
    link_sharing: Annotated[Sharings, Stored(Sharings, tuple, _each_once)] | None = None
    """how the plan may have links shared, whatever `cluster.link_sharing` says: the best of these; null: as the cluster says"""  # noqa: E501

    OMITTED: ClassVar[Mapping[str, Any]] = {
        "robust": None,
        "allreduce": AllReduceChoice.RINGS,
        "bound_programs": None,
        "link_sharing": None,
    }
