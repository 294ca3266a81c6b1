"""Shape of instance files of kind `regional-circuits`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from topoopt.files.fields import FileModel, FileName, Rate, SchemaVersion, Seed, TimeMs
from topoopt.files.search_section import SearchFile
from topoopt.workloads.demand_traces import LAWS

MAX_SERVERS = 128
MAX_PORTS = 1024
MAX_STEPS = 200

Ports = Annotated[int, Field(ge=0, le=MAX_PORTS)]
Bytes = Annotated[float, Field(ge=0, le=1e18)]
Scale = Annotated[float, Field(gt=0, le=1e18)]
Row = Annotated[list[Bytes], Field(max_length=MAX_SERVERS)]


class MatrixTraffic(FileModel):
    """One step, in the file."""

    matrix: Annotated[list[Row], Field(max_length=MAX_SERVERS)] = Field(
        description="row i, column j: bytes that server i sends to server j"
    )


class FileTraffic(FileModel):
    """Steps from a file of one's own: .csv and .parquet hold one matrix, .npy and .npz one or a stack of them."""

    file: str = Field(min_length=1, max_length=1000, description="relative to the folder of this file")
    scale: Scale = Field(default=1.0, description="bytes of a unit in the file, e.g. those of a token")


class HotExpertsTraffic(FileModel):
    """Generated: all-to-all traffic of a mixture of experts whose hot experts move from step to step."""

    family: Literal["hot-experts"]
    steps: int = Field(ge=1, le=MAX_STEPS)
    seed: Seed = Field(default=0, description="of the generator; nothing to do with the seed of the search")
    experts_per_server: int = Field(default=1, ge=1, le=1024)
    law: str = Field(default="zipf", json_schema_extra={"enum": [*LAWS]}, description="popularity of experts")
    skew: float = Field(default=1.0, gt=0, le=1000, description="exponent of Zipf, concentration of Dirichlet")
    affinity: float = Field(default=0.0, ge=0, le=1, description="part of a server's tokens with a law of their own")
    scale: Scale = Field(description="mean bytes of an ordered pair in a step")


def traffic_shape(value: object) -> str:
    """Which shape of an entry is meant; the answer names the class."""
    if isinstance(value, MatrixTraffic | FileTraffic | HotExpertsTraffic):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    if "family" in keys:
        return "HotExpertsTraffic"
    return "FileTraffic" if "file" in keys else "MatrixTraffic"


TrafficEntry = Annotated[
    Annotated[MatrixTraffic, Tag("MatrixTraffic")]
    | Annotated[FileTraffic, Tag("FileTraffic")]
    | Annotated[HotExpertsTraffic, Tag("HotExpertsTraffic")],
    Discriminator(traffic_shape),
]


class SwitchingFile(FileModel):
    """What it takes to set circuits anew."""

    delay_ms: TimeMs = Field(default=0.0, description="of the optical switch")
    window_ms: TimeMs | Annotated[list[TimeMs], Field(max_length=MAX_STEPS)] = Field(
        default=0.0, description="time before a step that hides the delay: one number, or one for each step"
    )


class RegionalCircuitsFile(FileModel):
    """Circuits of an optical switch for the all-to-all traffic of a region, beside an electrical network."""

    schema_version: SchemaVersion
    kind: Literal["regional-circuits"]
    name: FileName
    servers: int = Field(ge=2, le=MAX_SERVERS, description="n, of the region")
    ports: Ports | Annotated[list[Ports], Field(max_length=MAX_SERVERS)] = Field(
        description="interfaces of a server on the optical switch: one number, or one for each server"
    )
    circuit_gbps: Rate = Field(description="Gbit/s of a circuit, in each direction")
    electrical_gbps: Rate = Field(
        description="Gbit/s of a server into the electrical network, all interfaces there together, in each direction"
    )
    demands: list[TrafficEntry] = Field(
        min_length=1,
        max_length=MAX_STEPS,
        description="steps that follow each other: a mapping with one of matrix, file and family",
    )
    split: bool = Field(
        default=False,
        description="what the circuits of a pair cannot carry in time goes over the electrical network; false: a pair "
        "with circuits uses these alone",
    )
    switching: SwitchingFile = SwitchingFile()
    search: SearchFile = SearchFile()
