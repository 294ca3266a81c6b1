"""Shape of instance files of kind `shared-cluster`; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from topoopt.files.fields import MAX_SERVERS, FileModel, FileName, Label, LatencyUs, Rate, SchemaVersion
from topoopt.files.search_section import SearchFile

MAX_JOBS = 100_000
MAX_CLASSES = 1000
MAX_FABRICS = 16
MAX_SECONDS = 1e10
MAX_ITERATIONS = 10**12
MAX_LOADS = 100
MAX_REPETITIONS = 10_000
MAX_DRAWN_JOBS = 1_000_000
"""Of jobs at once, in all draws."""

Milliseconds = Annotated[float, Field(gt=0, le=1e9)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
Iterations = Annotated[int, Field(ge=1, le=MAX_ITERATIONS)]


def _listed(value: object) -> object:
    """One number is a list of one."""
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else value


_TIME = {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9}
Samples = Annotated[
    list[Milliseconds],
    Field(min_length=1, max_length=10_000),
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _TIME, "minItems": 1, "maxItems": 10_000}, _TIME]}),
]


class SharedClusterSection(FileModel):
    """The servers and their interfaces; the same for the plans of all classes, whatever their own files say."""

    servers: int = Field(ge=1, le=MAX_SERVERS, description="n")
    degree: int = Field(ge=1, le=64, description="d, optical interfaces of a server")
    link_gbps: Rate = Field(description="rate of one interface in each direction, Gbit/s")
    links: Literal["bidirectional", "unidirectional"] = "bidirectional"
    hop_latency_us: LatencyUs = Field(default=1.0, description="latency of one hop, microseconds")
    ring_round_latency_us: LatencyUs = Field(default=2.1, description="of one ring round on direct links, microseconds")
    link_sharing: Literal["fair", "fifo", "transfers-first"] = Field(
        default="fifo",
        description="with time_model: rounds: flows take turns of a segment on a link, each request is served whole, "
        "or transfers go before AllReduces",
    )
    rack_servers: Annotated[int, Field(ge=1, le=MAX_SERVERS)] | None = Field(
        default=None, description="servers of a rack, for rack-local placement; null: those of a fat-tree of this size"
    )


class OpticalSection(FileModel):
    """The optical switches partitions are cut with; interface j of every server goes to a switch of plane j."""

    switch_ports: int | None = Field(
        default=None, ge=1, le=100_000, description="ports of a switch, one an interface; default: enough for all"
    )
    wiring: Literal["blocks", "staggered"] = Field(
        default="blocks",
        description="servers of a switch: the same in every plane, or each plane shifted against the one before",
    )
    switching_time_s: Seconds = Field(default=0.0, description="time to set the circuits of a job")
    look_ahead: bool = Field(
        default=False, description="a second plane is set while a job waits (patch panels with 1x2 switches)"
    )


class FabricFile(FileModel):
    """One way to join the servers."""

    kind: Label = Field(
        description="partitioned (each job on a shard of its own), ideal-switch or fat-tree; with flows also "
        "oversubscribed-fat-tree, torus-2d, hypercube, ..."
    )
    name: FileName | None = Field(default=None, description="default: the kind")
    server_gbps: Rate | None = Field(
        default=None,
        description="rate of a server; default: what the fabric has by itself (all interfaces together; of a fat-tree "
        "without oversubscription the rate at which it costs as much as the direct connections)",
    )
    oversubscription: float | None = Field(
        default=None, ge=1, le=1000, description="downlink over uplink bandwidth; default: 1 of a fat-tree"
    )
    oversubscribed_at: Literal["rack", "aggregation"] | None = Field(
        default=None, description="the layer whose uplinks are thinned; default: rack"
    )
    paths: Literal["even", "hashed", "spread", "sprayed"] | None = Field(
        default=None,
        description="of a fat-tree, by a formula: flows spread over all equal-cost paths (even, default) or take one "
        "each (hashed); with flows: one by chance (hashed, default), one by target (spread), or all alike (sprayed)",
    )
    shape: Annotated[list[Annotated[int, Field(ge=1, le=MAX_SERVERS)]], Field(min_length=1, max_length=8)] | None = (
        Field(default=None, description="servers along each axis of a torus")
    )
    placement: Literal["best-fit", "first-fit", "spread", "exact", "random", "packed"] | None = Field(
        default=None,
        description="servers of a job: of partitions best-fit (default) or first-fit over groups that share a switch "
        "in every plane, or spread: as many planes as the job has interfaces, or exact: so for all "
        "jobs that may start, together, up to 64 servers; else random (default) or packed",
    )


class JobClassFile(FileModel):
    """Jobs of one model on one number of servers."""

    name: Label
    servers: int | None = Field(default=None, ge=1, le=MAX_SERVERS, description="k; default: that of plan")
    iteration_ms: Samples | None = Field(
        default=None, description="time of an iteration on a shard of its own; of a list each job takes one at random"
    )
    compute_ms: float | None = Field(
        default=None,
        ge=0,
        le=1e9,
        description="compute time of a server in an iteration; default: what sending without overlap leaves",
    )
    allreduce_gbytes: float | None = Field(
        default=None, ge=0, le=1e9, description="10^9 bytes a server sends around rings in an iteration; default: 0"
    )
    all_to_all_gbytes: float | None = Field(
        default=None, ge=0, le=1e9, description="10^9 bytes a server sends evenly to all others; default: 0"
    )
    fabric_ms: dict[str, Milliseconds] = Field(
        default={}, description="time of an iteration of a job alone on the fabric of that name, where it was measured"
    )
    plan: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None,
        description="co-optimisation instance, solved for times and bytes (with flows: for each fabric), or, without "
        "flows, a solution file of one; relative to the folder of this file",
    )
    interfaces: int | None = Field(
        default=None, ge=1, le=64, description="of a server that the job uses on a shard; default: all"
    )
    iterations: Iterations | None = Field(default=None, description="of a job; or duration_s")
    duration_s: Annotated[float, Field(gt=0, le=MAX_SECONDS)] | None = Field(
        default=None, description="time of a job on a shard of its own, in whole iterations; or iterations"
    )


Counts = Annotated[list[Annotated[int, Field(ge=1, le=MAX_SERVERS)]], Field(min_length=1, max_length=MAX_LOADS)]


class JobsFile(FileModel):
    """The jobs: they arrive, from a trace or drawn from a mix, or are drawn from a mix and begin at once."""

    trace: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None,
        description="CSV file with the columns job, arrival_s, class and, if need be, servers and iterations; sorted "
        "by arrival; relative to the folder of this file",
    )
    count: int | None = Field(default=None, ge=1, le=MAX_JOBS, description="jobs drawn, which arrive")
    at_once: Annotated[Counts, BeforeValidator(_listed, json_schema_input_type=Counts | int)] | None = Field(
        default=None, description="numbers of jobs that begin at once and run together, each by itself"
    )
    mix: dict[str, Annotated[float, Field(gt=0, le=1e9)]] | None = Field(
        default=None, description="weight of each class; default: equal weights"
    )
    arrival: Literal["poisson", "together"] | None = Field(
        default=None, description="one by one, or all at time 0; default: poisson"
    )
    rate_per_s: Annotated[float, Field(gt=0, le=1e9)] | None = Field(default=None, description="of the Poisson process")
    load: Annotated[float, Field(gt=0, le=100)] | None = Field(
        default=None, description="server-seconds that arrive over those of the cluster; or rate_per_s"
    )
    spread: Literal["fixed", "exponential"] | None = Field(
        default=None, description="lengths of the jobs of a class: all the same (default), or exponential"
    )
    repetitions: int | None = Field(
        default=None, ge=1, le=MAX_REPETITIONS, description="draws of jobs and servers for each number; default: 5"
    )
    placement: Literal["random", "rack-local"] | None = Field(
        default=None,
        description="servers of a job at once, the same on all fabrics: any (default), or consecutive ones of racks in "
        "random order",
    )
    rank_order: Literal["random", "sorted"] | None = Field(
        default=None,
        description="with flows: order of the servers of a job at once, and so of its rings: as drawn (default), or "
        "ascending",
    )


class SchedulingFile(FileModel):
    """Who starts when."""

    queue: Literal["fifo", "backfill", "reserve"] | None = Field(
        default=None,
        description="which waiting jobs may start: the first, any that fits, any that does not delay the first; "
        "default: fifo beside defragment, else method auto takes the best of all ways of scheduling",
    )
    depth: int = Field(default=100, ge=1, le=MAX_JOBS, description="waiting jobs behind the first that are looked at")
    defragment: bool = Field(default=False, description="move running jobs when that pays (partitions)")
    checkpoint_s: Seconds = Field(default=30.0, description="time in which a job that is moved saves its state")


class SharedClusterFile(FileModel):
    """Jobs that share a cluster: they arrive, wait and contend by a formula, or run at once, flow by flow."""

    schema_version: SchemaVersion
    kind: Literal["shared-cluster"]
    name: FileName
    cluster: SharedClusterSection
    optical: OpticalSection = OpticalSection()
    fabrics: Annotated[list[FabricFile], Field(min_length=1, max_length=MAX_FABRICS)] | None = Field(
        default=None,
        description="compared; the objective is that of the first; default: partitioned, fat-tree at equal cost, "
        "fat-tree oversubscribed 2:1 at the racks, ideal switch",
    )
    classes: Annotated[list[JobClassFile], Field(min_length=1, max_length=MAX_CLASSES)]
    jobs: JobsFile
    scheduling: SchedulingFile = SchedulingFile()
    contention: Literal["flows", "coinciding", "interleaved"] | None = Field(
        default=None,
        description="of jobs that share links: every flow is simulated (jobs at once; their default), or by formula "
        "they send all at once (default of jobs that arrive), or never needlessly at once",
    )
    time_model: Annotated[str, Field(min_length=1, max_length=50)] | None = Field(
        default=None, description="of flows: fluid (max-min fair, default) or rounds (first come)"
    )
    objective: Literal["mean-iteration-time", "mean-completion-time"] = "mean-iteration-time"
    search: SearchFile = SearchFile()
