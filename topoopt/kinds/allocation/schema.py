"""Shape of instance files of kind `allocation`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from topoopt.files.fields import MAX_BYTES, MAX_SERVERS, FileModel, FileName, Label, Rate, SchemaVersion
from topoopt.files.network_sections import MAX_LINKS, DemandSection, Server, TopologySection
from topoopt.files.search_section import SearchFile

MAX_TRANSFERS = 100_000
MAX_PATHS = 64

ServerPath = Annotated[list[Server], Field(min_length=2, max_length=MAX_SERVERS)]
Share = Annotated[float, Field(gt=0, le=1)]
CapacityRow = Annotated[tuple[Server, Server, Rate], Strict(False)]


def _listed(value: object) -> object:
    """One number stands for all servers."""
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else value


_RATE = {"type": "number", "minimum": 0.001, "maximum": 1e6}
ServerRates = Annotated[
    list[Rate],
    Field(min_length=1, max_length=MAX_SERVERS),
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _RATE, "minItems": 1, "maxItems": MAX_SERVERS}, _RATE]}),
]


class TransferFile(FileModel):
    """Traffic from one server to another; without path and paths over all hop-shortest paths, split evenly."""

    name: Label | None = Field(default=None, description="default: source->destination, numbered where that repeats")
    source: Server
    destination: Server
    path: ServerPath | None = Field(default=None, description="the servers of the one path, both ends included")
    paths: Annotated[list[ServerPath], Field(min_length=1, max_length=MAX_PATHS)] | None = Field(
        default=None, description="several paths; how traffic is split among them is chosen, or given by shares"
    )
    shares: Annotated[list[Share], Field(min_length=1, max_length=MAX_PATHS)] | None = Field(
        default=None, description="part of the traffic on each of paths; they sum to 1"
    )
    routing: Literal["shortest"] | None = Field(
        default=None, description="every server splits evenly among its links on hop-shortest paths (ECMP)"
    )
    weight: float | None = Field(default=None, gt=0, le=1e9, description="of the fair share; default: 1")
    min_gbps: float | None = Field(default=None, ge=0, le=1e6, description="guaranteed rate; default: 0")
    max_gbps: Rate | None = Field(default=None, description="largest useful rate; default: any")
    bytes: int | None = Field(default=None, ge=1, le=MAX_BYTES, description="size of the transfer")
    gbytes: float | None = Field(default=None, gt=0, le=MAX_BYTES / 1e9, description="the same in 10^9 bytes")


class TransferSource(FileModel):
    """Transfers made of a matrix, or of a routing: one for every ordered pair with something to send."""

    demand: DemandSection | None = Field(
        default=None, description="a mapping with one of family, matrix and file; routes are hop-shortest"
    )
    solution: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="solution.json of kind routing or topology: its demand and its routes"
    )
    entry: Literal["weight", "gbytes", "min_gbps", "max_gbps"] | None = Field(
        default=None,
        description="what an entry is; rates count in links unless the demand says gbps; default: max_gbps for "
        "max-min, weight for weighted, min_gbps for min-guarantee, gbytes for completion-time",
    )


class AllocationFile(FileModel):
    """Rates of transfers over given links and routes."""

    schema_version: SchemaVersion
    kind: Literal["allocation"]
    name: FileName
    topology: TopologySection | None = Field(
        default=None,
        description="a mapping with one of family, links and file; default: that of transfers_from.solution",
    )
    link_gbps: Rate | None = Field(
        default=None,
        description="rate of one link, or of one unit of capacities, Gbit/s; left out where links have rates in Gbit/s",
    )
    capacities: Annotated[list[CapacityRow], Field(max_length=MAX_LINKS)] = Field(
        default=[], description="[tail, head, Gbit/s] for links of another rate, all parallel links together"
    )
    egress_gbps: ServerRates | None = Field(
        default=None, description="most a server sends of its own, one number or one a server; default: no limit"
    )
    ingress_gbps: ServerRates | None = Field(
        default=None, description="most a server receives for itself, one number or one a server; default: no limit"
    )
    transfers: Annotated[list[TransferFile], Field(min_length=1, max_length=MAX_TRANSFERS)] | None = Field(
        default=None, description="one by one; or transfers_from"
    )
    transfers_from: TransferSource | None = Field(default=None, description="a mapping with demand or solution")
    objective: Literal["max-min", "weighted", "min-guarantee", "completion-time"] = "max-min"
    surplus: Literal["max-min", "sum"] = Field(
        default="max-min", description="how min-guarantee shares what is left: fairly by weight, or for the largest sum"
    )
    search: SearchFile = SearchFile()
