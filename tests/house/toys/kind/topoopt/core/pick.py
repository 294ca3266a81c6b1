"""Kind `pick`: some of a list of numbers, with the largest sum."""

from __future__ import annotations

from dataclasses import dataclass, field

from topoopt.core.search_settings import SearchSettings
from topoopt.core.solution import SolutionHead
from topoopt.core.stated import Stated


@dataclass(frozen=True, eq=False, repr=False)
class PickProblem(Stated):
    """Pick `count` of `values`."""

    name: str
    values: tuple[float, ...]
    count: int
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "pick"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PickSolution(SolutionHead):
    """The places of what was picked."""

    kind: str = "pick"
    picked: tuple[int, ...]
