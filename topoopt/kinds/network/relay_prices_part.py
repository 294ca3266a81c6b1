"""Prices that a bound by relay blocks rests on, as a part of solution files."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from topoopt.core.network import RelayPrices
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.file_part import FilePart
from topoopt.files.solution_head import Amount, Number

Table = Annotated[list[Annotated[list[Number], Field(max_length=MAX_SERVERS)]], Field(max_length=MAX_SERVERS)]


class RelayPricesPart(FilePart):
    """What a bound by relay blocks rests on; rows are servers that links and demands come from."""

    core = RelayPrices

    theta: Amount = Field(description="what is proven of every topology")
    price: Table = Field(description="of a unit of flow over each link")
    relief: Table = Field(description="what a unit of each demand is excused for going over one link or two")
    shift: Table = Field(description="of the worth of each link from its tail to its head")
    most: Annotated[list[Number], Field(max_length=MAX_SERVERS)] = Field(
        description="the most that the links around each server are worth"
    )

    @classmethod
    def attributes(cls, value: RelayPrices) -> dict[str, Any]:
        """Rows of tables."""
        tables = {name: getattr(value, name).tolist() for name in ("price", "relief", "shift", "most")}
        return {"theta": value.theta, **tables}

    def arguments(self) -> dict[str, Any]:
        """Tables."""
        tables = {
            name: np.array(getattr(self, name), dtype=np.float64) for name in ("price", "relief", "shift", "most")
        }
        return {"theta": self.theta, **tables}
