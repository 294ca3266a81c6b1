"""Shape of solution files of kind `allocation`. Long tables are rows of plain lists; comments name their columns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict

from topoopt.core.allocation_solution import AllocationSolution, DestinationRate, PriceCertificate, TransferRate
from topoopt.core.arrays import Floats, Ints
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.file_part import ArrayOf, FilePart, Listed, RowOf, column, table
from topoopt.files.solution_head import Amount, Notes, Sha256, SolutionHeadFile, Text, TitleFile, Versions
from topoopt.files.topology_families import MAX_ARCS
from topoopt.files.topology_part import Server, TopologyPart
from topoopt.kinds.allocation.schema import MAX_PATHS, MAX_TRANSFERS

Index = Annotated[int, Field(ge=0, lt=MAX_ARCS + 2 * MAX_SERVERS)]
TransferIndex = Annotated[int, Field(ge=0, lt=MAX_TRANSFERS)]
HopRow = Annotated[tuple[Server, Amount], Strict(False)]  # next hop, Gbit/s
ServerRow = Annotated[
    DestinationRate, RowOf(DestinationRate, tuple[Server, Server, Listed[HopRow]])
]  # server, destination, next hops
PriceRow = Annotated[tuple[Index, Amount], Strict(False)]  # link, egress or ingress (numbered in this order), price
ValueRow = Annotated[tuple[TransferIndex, Amount], Strict(False)]  # transfer, multiplier
ArcRates = Annotated[Floats, ArrayOf(Amount, np.float64, most=MAX_ARCS)]


class TransferRatePart(FilePart):
    """What one transfer gets."""

    core = TransferRate

    name: Text
    source: Server
    destination: Server
    route_gbps: Annotated[Listed[Amount], Field(min_length=1, max_length=MAX_PATHS)]
    completion_time_s: Amount | None
    limited_by: Annotated[Listed[Text], Field(max_length=MAX_ARCS)]


class PriceCertificatePart(FilePart):
    """Prices that prove the rates of some transfers."""

    core = PriceCertificate

    transfers: Annotated[Ints, ArrayOf(TransferIndex, np.int64, most=MAX_TRANSFERS)]
    prices: Annotated[Listed[PriceRow], Field(max_length=MAX_ARCS + 2 * MAX_SERVERS)]
    multipliers: Annotated[Listed[ValueRow], Field(max_length=MAX_TRANSFERS)]

    @classmethod
    def attributes(cls, value: PriceCertificate) -> dict[str, Any]:
        """An index with each price and each multiplier."""
        prices, multipliers = table(value.shared, value.price), table(value.valued, value.multiplier)
        return {"transfers": value.transfers, "prices": prices, "multipliers": multipliers}

    def arguments(self) -> dict[str, Any]:
        """Arrays of indices and of values."""
        return {
            "transfers": self.transfers,
            "shared": column(self.prices, 0, np.int64),
            "price": column(self.prices, 1, np.float64),
            "valued": column(self.multipliers, 0, np.int64),
            "multiplier": column(self.multipliers, 1, np.float64),
        }


class AskedFile(TitleFile):
    """What the instance asks for."""

    goal: Literal["max-min", "weighted", "min-guarantee", "completion-time"]
    surplus: Literal["max-min", "sum"]


class AllocationSolutionFile(SolutionHeadFile, AskedFile):
    """Result of `topoopt solve` on an instance of kind `allocation`."""

    core = AllocationSolution

    kind: Literal["allocation-solution"]
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    topology: TopologyPart
    capacity_gbps: ArcRates
    transfers: Annotated[Listed[TransferRatePart], Field(min_length=1, max_length=MAX_TRANSFERS)]
    servers: Listed[ServerRow] = Field(description="what every server sends towards each destination")
    certificates: Listed[PriceCertificatePart] = Field(
        description="see PriceCertificate; none where every route is given"
    )
