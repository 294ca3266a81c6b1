"""Shape of instance files of kind `dag-topology`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.files.fields import FileModel, Label, SchemaVersion
from topoopt.files.fields import FileName as Name
from topoopt.files.search_section import SearchFile

MAX_PODS = 1024
MAX_STEPS = 200_000
MAX_PORTS = 4096

Pod = Annotated[int, Field(ge=0, lt=MAX_PODS)]
Ports = Annotated[int, Field(ge=1, le=MAX_PORTS)]
Size = Annotated[float, Field(gt=0, le=1e18)]
Before = Annotated[list[Label], Field(max_length=MAX_STEPS)]


class DagTransferFile(FileModel):
    """A volume that moves from one pod to another."""

    name: Label
    source: Pod
    target: Pod
    volume: Size = Field(description="bytes with circuit_gbps, or the unit of circuit_rate")
    after: Before = Field(default=[], description="names of the transfers and tasks it waits for")


class DagTaskFile(FileModel):
    """Work that takes a fixed time."""

    name: Label
    duration: float = Field(ge=0, le=1e12, description="seconds with circuit_gbps, or the unit of circuit_rate")
    after: Before = Field(default=[], description="names of the transfers and tasks it waits for")


class DagTopologyFile(FileModel):
    """Circuits between pods, fixed for a job, from the graph of its computation and transfers."""

    schema_version: SchemaVersion
    kind: Literal["dag-topology"]
    name: Name
    pods: int = Field(ge=2, le=MAX_PODS)
    ports: Ports | list[Ports] = Field(description="circuits that may end at a pod: one number, or one for each pod")
    circuit_gbps: float | None = Field(
        default=None, gt=0, le=1e9, description="Gbit/s of a circuit in each direction; volumes are bytes, times s"
    )
    circuit_rate: Size | None = Field(
        default=None,
        description="volume a circuit carries in a unit of time, in each direction; instead of circuit_gbps",
    )
    transfers: list[DagTransferFile] = Field(min_length=1, max_length=MAX_STEPS)
    tasks: list[DagTaskFile] = Field(default=[], max_length=MAX_STEPS)
    objective: Literal["makespan"] = Field(default="makespan", description="when the last step ends")
    slack_percent: float = Field(
        default=0.0, ge=0, le=1000, description="how much longer the job may take where that saves circuits"
    )
    search: SearchFile = SearchFile()
