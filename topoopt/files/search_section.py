"""The section `search` of instance files of all kinds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from topoopt.core.search_settings import RobustGoal, SearchSettings
from topoopt.files.fields import (
    FileModel,
    Seed,
)


class SearchFile(FileModel):
    """How hard to search."""

    method: str = Field(default="auto", min_length=1, max_length=50, description="search method, or auto")
    budget: int | None = Field(
        default=None, ge=0, le=10**12, description="strategy proposals simulated; null: the default"
    )
    time_limit_s: float | None = Field(default=None, gt=0, le=1e7, description="wall-clock limit; null: none")
    seed: Seed = 0


class RobustFile(FileModel):
    """Ask for the design whose worst single failure is best."""

    failures: Literal["single-link"] = Field(default="single-link", description="what fails")
    within_percent: float | None = Field(
        default=None, ge=0, le=1e6, description="how much worse it may be without failure than the best; null: any"
    )


class RobustSearchFile(SearchFile):
    """How hard to search, and whether for a robust design."""

    robust: RobustFile | None = Field(default=None, description="stand single failures; null: not looked at")


def search_settings(file: SearchFile) -> SearchSettings:
    """The settings a section states."""
    fields = file.model_dump()
    goal = fields.pop("robust", None)
    return SearchSettings(**fields, robust=None if goal is None else RobustGoal(**goal))


def without_robust(document: dict[str, Any]) -> dict[str, Any]:
    """An instance with defaults written out, less the robust design where none is asked for: its hash stays."""
    search = document["search"]
    if search.get("robust") is None:
        document["search"] = {key: value for key, value in search.items() if key != "robust"}
    return document
