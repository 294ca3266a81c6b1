"""Prices that a bound by relay blocks rests on, as a part of solution files."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from topoopt.core.arrays import Ints
from topoopt.core.network import RelayPrices
from topoopt.core.relay_cases import MOST_CASES, RelayCases
from topoopt.files.faults import Fault, Path, table_faults
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.file_part import ArrayOf, FilePart, Listed
from topoopt.files.solution_head import Amount, Number

Table = Annotated[list[Annotated[list[Number], Field(max_length=MAX_SERVERS)]], Field(max_length=MAX_SERVERS)]

Whole = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
Split = Annotated[list[Whole], Field(min_length=3, max_length=3)]


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

    def faults(self, servers: int, path: Path) -> list[Fault]:
        """What the shape cannot state: tables that fit the servers."""
        faults = table_faults((*path, "most"), [self.most], 1, servers)
        for name in ("price", "relief", "shift"):
            faults += table_faults((*path, name), getattr(self, name), servers, servers)
        return faults


class RelayCasesPart(FilePart):
    """Cases by the number of links between two servers, every node of their tree before those below it."""

    core = RelayCases

    splits: Annotated[Ints, ArrayOf(Split, np.int64, most=2 * MOST_CASES)] = Field(
        description="i, j, count of every node: first what has fewer links i -> j, then the rest; 0, 0, 0: prices"
    )
    prices: Listed[RelayPricesPart] = Field(
        max_length=MOST_CASES, description="of the nodes that are not split, in order"
    )

    def faults(self, servers: int, path: Path) -> list[Fault]:
        """What the shape cannot state: servers that there are, tables that fit them."""
        faults = [
            fault for place, each in enumerate(self.prices) for fault in each.faults(servers, (*path, "prices", place))
        ]
        if (self.splits[:, :2] >= servers).any():
            faults.append(Fault((*path, "splits"), "no such server", allowed=f"0 to {servers - 1}"))
        return faults
