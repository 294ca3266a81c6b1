"""Shape of solution files of kind `allocation`. Long tables are rows of plain lists; comments name their columns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from topoopt.files.fields import MAX_SERVERS, FileModel
from topoopt.files.solution_head import Amount, SolutionHeadFile, Text, TitleFile
from topoopt.files.topology_families import MAX_ARCS
from topoopt.kinds.allocation.schema import MAX_PATHS, MAX_TRANSFERS
from topoopt.kinds.job.solution_schema import Server
from topoopt.kinds.network.solution_schema import NetworkTopologyFile

Index = Annotated[int, Field(ge=0, lt=MAX_ARCS + 2 * MAX_SERVERS)]
TransferIndex = Annotated[int, Field(ge=0, lt=MAX_TRANSFERS)]
HopRow = Annotated[tuple[Server, Amount], Strict(False)]  # next hop, Gbit/s
ServerRow = Annotated[
    tuple[Server, Server, Amount, Amount, list[HopRow]], Strict(False)
]  # server, destination, own Gbit/s, forwarded Gbit/s, next hops
PriceRow = Annotated[tuple[Index, Amount], Strict(False)]  # link, egress or ingress (numbered in this order), price
ValueRow = Annotated[tuple[TransferIndex, Amount], Strict(False)]  # transfer, multiplier


class TransferRateFile(FileModel):
    """What one transfer gets."""

    name: Text
    source: Server
    destination: Server
    rate_gbps: Amount
    route_gbps: Annotated[list[Amount], Field(min_length=1, max_length=MAX_PATHS)]
    completion_time_s: Amount | None
    limited_by: Annotated[list[Text], Field(max_length=MAX_ARCS)]


class CertificateFile(FileModel):
    """Prices that prove the rates of some transfers."""

    transfers: Annotated[list[TransferIndex], Field(max_length=MAX_TRANSFERS)]
    prices: Annotated[list[PriceRow], Field(max_length=MAX_ARCS + 2 * MAX_SERVERS)]
    multipliers: Annotated[list[ValueRow], Field(max_length=MAX_TRANSFERS)]


class AskedFile(TitleFile):
    """What the instance asks for."""

    goal: Literal["max-min", "weighted", "min-guarantee", "completion-time"]
    surplus: Literal["max-min", "sum"]


class AllocationSolutionFile(SolutionHeadFile, AskedFile):
    """Result of `topoopt solve` on an instance of kind `allocation`."""

    kind: Literal["allocation-solution"]
    instance_sha256: Text
    versions: dict[str, Text]
    notes: list[Text]
    topology: NetworkTopologyFile
    capacity_gbps: Annotated[list[Amount], Field(max_length=MAX_ARCS)]
    link_gbps: Annotated[list[Amount], Field(max_length=MAX_ARCS)] = Field(description="one for each arc")
    transfers: Annotated[list[TransferRateFile], Field(min_length=1, max_length=MAX_TRANSFERS)]
    servers: list[ServerRow] = Field(description="what every server sends towards each destination")
    certificates: list[CertificateFile] = Field(description="see PriceCertificate; none where every route is given")
