"""Kind `pick`: some of a list of numbers, with the largest sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from topoopt.core.search_settings import SearchSettings
from topoopt.core.solution import SolutionHead


@dataclass(frozen=True)
class PickProblem:
    """Pick `count` of `values`."""

    name: str
    values: tuple[float, ...]
    count: int
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()
    document: Mapping[str, Any] | None = None

    kind = "pick"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PickSolution(SolutionHead):
    """The places of what was picked."""

    kind: str = "pick"
    picked: tuple[int, ...]
