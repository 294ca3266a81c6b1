"""The section `search` of instance files of all kinds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.core.search_settings import AllReduceChoice, RobustGoal, SearchSettings
from topoopt.files.fields import Seed
from topoopt.files.file_part import FilePart, NameOf, is_none


def _is_rings(value: object) -> bool:
    return value is AllReduceChoice.RINGS


# Not written where it is rings, so that the hash of an instance is the same as without.
AllReduceField = Annotated[
    AllReduceChoice,
    NameOf(AllReduceChoice),
    Field(
        exclude_if=_is_rings,
        description="what AllReduces run on: rings, trees, bfb (breadth-first broadcasts), or the best by size",
    ),
]


class SearchFile(FilePart):
    """How hard to search."""

    core = SearchSettings

    method: str = Field(default="auto", min_length=1, max_length=50, description="search method, or auto")
    budget: int | None = Field(default=None, ge=0, le=10**12, description="proposals of the search; null: the default")
    time_limit_s: float | None = Field(default=None, gt=0, le=1e7, description="wall-clock limit; null: none")
    seed: Seed = 0


class RobustGoalPart(FilePart):
    """Ask for the design whose worst single failure is best."""

    core = RobustGoal

    failures: Literal["single-link"] = Field(default="single-link", description="what fails")
    within_percent: float | None = Field(
        default=None, ge=0, le=1e6, description="how much worse it may be without failure than the best; null: any"
    )


class RobustSearchFile(SearchFile):
    """How hard to search, and whether for a robust design."""

    # Not written where none is asked for, so that the hash of an instance is the same with and without null.
    robust: RobustGoalPart | None = Field(
        default=None, exclude_if=is_none, description="stand single failures; null: not looked at"
    )
