"""Instances of kind `shared-cluster`: what a user writes, and the problem that it states.

`SharedClusterInstance` is the file and the keyword API; `resolve` makes the problem of it, or reports all errors. Times
of a class may come from a plan of a job, jobs from a trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Len

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS
from topoopt.core.clos import fat_tree_arity
from topoopt.core.cluster import (
    Cluster,
    ComputeOrder,
    LinkDirection,
    LinkSharing,
    OpticalLayer,
    block_layer,
    staggered_layer,
)
from topoopt.core.data import MAX_SERVERS, STRICT, FileName, Gbps, Label, Scalar, SchemaVersion
from topoopt.core.errors import InputError, Problem
from topoopt.core.job import CoOptimisation, JobPlan
from topoopt.core.result import Result, SearchSettings
from topoopt.core.shared_cluster import (
    ACROSS_GROUPS,
    FAT_TREE,
    MAX_CLASSES,
    MAX_DRAWN_JOBS,
    MAX_FABRICS,
    MAX_JOBS,
    MAX_SECONDS,
    MOST_EXACT_SERVERS,
    PARTITIONED,
    ROUNDING,
    WITH_FORMULA,
    Contention,
    DrawnJobs,
    Fabric,
    JobClass,
    JobsAtOnce,
    RankOrder,
    Scheduling,
    SharedCluster,
    TracedJob,
    too_short,
)
from topoopt.files import codec
from topoopt.files.documents import Document, canonical_sha256, parse_document
from topoopt.files.issues import Issue, Path, nearest_text, value_text
from topoopt.files.reader_fields import Findings
from topoopt.kinds import kind_named
from topoopt.kinds.job.read import read_co_optimisation
from topoopt.kinds.shared_cluster.trace import MAX_ITERATIONS, read_trace

MAX_LOADS = 100
MAX_REPETITIONS = 10_000

Milliseconds = Annotated[float, Gt(0), Le(1e9)]
Seconds = Annotated[float, Ge(0), Le(MAX_SECONDS)]
Iterations = Annotated[int, Ge(1), Le(MAX_ITERATIONS)]
Gigabytes = Annotated[float, Ge(0), Le(1e9)]
LatencyUs = Annotated[float, Ge(0), Le(1e6)]
Servers = Annotated[int, Ge(1), Le(MAX_SERVERS)]
OtherFile = Annotated[str, Len(1, 1000)]
Samples = Annotated[tuple[Milliseconds, ...], Len(1, 10_000), Scalar()]
Counts = Annotated[tuple[Servers, ...], Len(1, MAX_LOADS), Scalar()]


@dataclass(frozen=True, kw_only=True)
class SharedServers:
    """The servers and their interfaces; the same for the plans of all classes, whatever their own files say."""

    __pydantic_config__ = STRICT

    servers: Servers
    """n"""
    degree: Annotated[int, Ge(1), Le(64)]
    """d, optical interfaces of a server"""
    link_gbps: Gbps
    """rate of one interface in each direction, Gbit/s"""
    links: Literal["bidirectional", "unidirectional"] = "bidirectional"
    hop_latency_us: LatencyUs = 1.0
    """latency of one hop, microseconds"""
    ring_round_latency_us: LatencyUs = 2.1
    """of one ring round on direct links, microseconds"""
    link_sharing: Literal["fair", "fifo", "transfers-first"] = "fifo"
    """with time_model: rounds: flows take turns of a segment on a link, each request is served whole, or transfers go before AllReduces"""  # noqa: E501
    rack_servers: Servers | None = None
    """servers of a rack, for rack-local placement; null: those of a fat-tree of this size"""


@dataclass(frozen=True, kw_only=True)
class OpticalSwitches:
    """The optical switches partitions are cut with; interface j of every server goes to a switch of plane j."""

    __pydantic_config__ = STRICT

    switch_ports: Annotated[int, Ge(1), Le(100_000)] | None = None
    """ports of a switch, one an interface; default: enough for all"""
    wiring: Literal["blocks", "staggered"] = "blocks"
    """servers of a switch: the same in every plane, or each plane shifted against the one before"""
    switching_time_s: Seconds = 0.0
    """time to set the circuits of a job"""
    look_ahead: bool = False
    """a second plane is set while a job waits (patch panels with 1x2 switches)"""


@dataclass(frozen=True, kw_only=True)
class FabricStatement:
    """One way to join the servers."""

    __pydantic_config__ = STRICT

    kind: Label
    """partitioned (each job on a shard of its own), ideal-switch or fat-tree; with flows also oversubscribed-fat-tree, torus-2d, hypercube, ..."""  # noqa: E501
    name: FileName | None = None
    """default: the kind"""
    server_gbps: Gbps | None = None
    """rate of a server; default: what the fabric has by itself (all interfaces together; of a fat-tree without oversubscription the rate at which it costs as much as the direct connections)"""  # noqa: E501
    oversubscription: Annotated[float, Ge(1), Le(1000)] | None = None
    """downlink over uplink bandwidth; default: 1 of a fat-tree"""
    oversubscribed_at: Literal["rack", "aggregation"] | None = None
    """the layer whose uplinks are thinned; default: rack"""
    paths: Literal["even", "hashed", "spread", "sprayed"] | None = None
    """of a fat-tree, by a formula: flows spread over all equal-cost paths (even, default) or take one each (hashed); with flows: one by chance (hashed, default), one by target (spread), or all alike (sprayed)"""  # noqa: E501
    shape: Annotated[tuple[Servers, ...], Len(1, 8)] | None = None
    """servers along each axis of a torus"""
    placement: Literal["best-fit", "first-fit", "spread", "exact", "random", "packed"] | None = None
    """servers of a job: of partitions best-fit (default) or first-fit over groups that share a switch in every plane, or spread: as many planes as the job has interfaces, or exact: so for all jobs that may start, together, up to 64 servers; else random (default) or packed"""  # noqa: E501


@dataclass(frozen=True, kw_only=True)
class JobClassStatement:
    """Jobs of one model on one number of servers."""

    __pydantic_config__ = STRICT

    name: Label
    servers: Servers | None = None
    """k; default: that of plan"""
    iteration_ms: Samples | None = None
    """time of an iteration on a shard of its own; of a list each job takes one at random"""
    compute_ms: Annotated[float, Ge(0), Le(1e9)] | None = None
    """compute time of a server in an iteration; default: what sending without overlap leaves"""
    allreduce_gbytes: Gigabytes | None = None
    """10^9 bytes a server sends around rings in an iteration; default: 0"""
    all_to_all_gbytes: Gigabytes | None = None
    """10^9 bytes a server sends evenly to all others; default: 0"""
    fabric_ms: dict[str, Milliseconds] = field(default_factory=dict)
    """time of an iteration of a job alone on the fabric of that name, where it was measured"""
    plan: OtherFile | None = None
    """co-optimisation instance, solved for times and bytes (with flows: for each fabric), or, without flows, a solution file of one; relative to the folder of this file"""  # noqa: E501
    interfaces: Annotated[int, Ge(1), Le(64)] | None = None
    """of a server that the job uses on a shard; default: all"""
    iterations: Iterations | None = None
    """of a job; or duration_s"""
    duration_s: Annotated[float, Gt(0), Le(MAX_SECONDS)] | None = None
    """time of a job on a shard of its own, in whole iterations; or iterations"""


@dataclass(frozen=True, kw_only=True)
class JobsStatement:
    """The jobs: they arrive, from a trace or drawn from a mix, or are drawn from a mix and begin at once."""

    __pydantic_config__ = STRICT

    trace: OtherFile | None = None
    """CSV file with the columns job, arrival_s, class and, if need be, servers and iterations; sorted by arrival; relative to the folder of this file"""  # noqa: E501
    count: Annotated[int, Ge(1), Le(MAX_JOBS)] | None = None
    """jobs drawn, which arrive"""
    at_once: Counts | None = None
    """numbers of jobs that begin at once and run together, each by itself"""
    mix: dict[str, Annotated[float, Gt(0), Le(1e9)]] | None = None
    """weight of each class; default: equal weights"""
    arrival: Literal["poisson", "together"] | None = None
    """one by one, or all at time 0; default: poisson"""
    rate_per_s: Annotated[float, Gt(0), Le(1e9)] | None = None
    """of the Poisson process"""
    load: Annotated[float, Gt(0), Le(100)] | None = None
    """server-seconds that arrive over those of the cluster; or rate_per_s"""
    spread: Literal["fixed", "exponential"] | None = None
    """lengths of the jobs of a class: all the same (default), or exponential"""
    repetitions: Annotated[int, Ge(1), Le(MAX_REPETITIONS)] | None = None
    """draws of jobs and servers for each number; default: 5"""
    placement: Literal["random", "rack-local"] | None = None
    """servers of a job at once, the same on all fabrics: any (default), or consecutive ones of racks in random order"""
    rank_order: Literal["random", "sorted"] | None = None
    """with flows: order of the servers of a job at once, and so of its rings: as drawn (default), or ascending"""


@dataclass(frozen=True, kw_only=True)
class SchedulingStatement:
    """Who starts when."""

    __pydantic_config__ = STRICT

    queue: Literal["fifo", "backfill", "reserve"] | None = None
    """which waiting jobs may start: the first, any that fits, any that does not delay the first; default: fifo beside defragment, else method auto takes the best of all ways of scheduling"""  # noqa: E501
    depth: Annotated[int, Ge(1), Le(MAX_JOBS)] = 100
    """waiting jobs behind the first that are looked at"""
    defragment: bool = False
    """move running jobs when that pays (partitions)"""
    checkpoint_s: Seconds = 30.0
    """time in which a job that is moved saves its state"""


@dataclass(frozen=True, kw_only=True)
class SharedClusterInstance:
    """Jobs that share a cluster: they arrive, wait and contend by a formula, or run at once, flow by flow."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["shared-cluster"] = "shared-cluster"
    name: FileName = "shared-cluster"
    cluster: SharedServers
    optical: OpticalSwitches = OpticalSwitches()
    fabrics: Annotated[tuple[FabricStatement, ...], Len(1, MAX_FABRICS)] | None = None
    """compared; the objective is that of the first; default: partitioned, fat-tree at equal cost, fat-tree oversubscribed 2:1 at the racks, ideal switch"""  # noqa: E501
    classes: Annotated[tuple[JobClassStatement, ...], Len(1, MAX_CLASSES)]
    jobs: JobsStatement
    scheduling: SchedulingStatement = SchedulingStatement()
    contention: Literal["flows", "coinciding", "interleaved"] | None = None
    """of jobs that share links: every flow is simulated (jobs at once; their default), or by formula they send all at once (default of jobs that arrive), or never needlessly at once"""  # noqa: E501
    time_model: Annotated[str, Len(1, 50)] | None = None
    """of flows: fluid (max-min fair, default) or rounds (first come)"""
    objective: Literal["mean-iteration-time", "mean-completion-time"] = "mean-iteration-time"
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


def resolve(document: Document) -> SharedCluster:
    """Return the problem that an instance states.

    Raises:
        InputError: all errors of the file, as far as one error does not hide another.
    """
    findings = Findings()
    file = findings.shaped(SharedClusterInstance, document)
    findings.add(_errors_of_forms(file, document.data))
    folder = FilePath(document.file).parent
    at_once = file.jobs.at_once is not None
    contention: Contention = file.contention or ("flows" if at_once else "coinciding")
    flows = contention == "flows" and at_once
    layer = _layer(file)
    fabrics = fabrics_of(file, findings, flows=flows)
    classes = _classes(file, folder, fabrics, layer, findings, flows=flows)
    jobs = jobs_of(file, folder, classes, findings, flows=flows)
    findings.refuse(document)
    values = {name: value for name, value in vars(file.cluster).items() if name != "rack_servers"}
    enumerations = {"links": LinkDirection(file.cluster.links), "link_sharing": LinkSharing(file.cluster.link_sharing)}
    return SharedCluster(
        name=file.name,
        cluster=Cluster(**{**values, **enumerations}, gpus_per_server=1),
        layer=layer,
        look_ahead=file.optical.look_ahead,
        fabrics=fabrics,
        classes=classes,
        jobs=jobs,
        scheduling=Scheduling(
            file.scheduling.queue or "fifo",
            file.scheduling.depth,
            file.scheduling.defragment,
            file.scheduling.checkpoint_s,
            open=file.scheduling.queue is None and not file.scheduling.defragment,
        ),
        contention=contention,
        time_model=file.time_model or "fluid",
        goal=file.objective,
        search=file.search,
        sha256=_identity(file, contention, classes, jobs),
        notes=tuple(f"{row.name}: {note}" for row in classes if flows and row.plan for note in row.plan.notes),
    )


def _errors_of_forms(file: SharedClusterInstance, data: Any) -> list[Issue]:
    """What plays no part for jobs that arrive, or for jobs at once."""
    errors = []
    if file.jobs.at_once is None:
        if file.contention == "flows":
            text = "flows are simulated for jobs at once; jobs that arrive contend by a formula"
            errors.append(Issue(("contention",), text, "flows", "coinciding or interleaved, or jobs.at_once"))
        if file.cluster.rack_servers is not None:
            text = "plays no part for jobs that arrive"
            errors.append(Issue(("cluster", "rack_servers"), text, allowed="with jobs.at_once"))
    else:
        text, allowed = "plays no part for jobs at once, which neither wait nor end", "with jobs.count or jobs.trace"
        for key in ("optical", "scheduling", "objective"):
            if key in data:
                errors.append(Issue((key,), text, allowed=allowed))
        for index, entry in enumerate(file.classes):
            for key in ("iterations", "duration_s"):
                if getattr(entry, key) is not None:
                    errors.append(Issue(("classes", index, key), text, allowed=allowed))
    if file.time_model is not None and (file.jobs.at_once is None or file.contention in ("coinciding", "interleaved")):
        errors.append(Issue(("time_model",), "plays no part without flows", allowed="with contention: flows"))
    return errors


def _layer(file: SharedClusterInstance) -> OpticalLayer:
    cluster, optical = file.cluster, file.optical
    ports = cluster.servers if optical.switch_ports is None else optical.switch_ports
    wired = staggered_layer if optical.wiring == "staggered" else block_layer
    return wired(cluster.servers, cluster.degree, ports, optical.switching_time_s)


def _classes(
    file: SharedClusterInstance,
    folder: FilePath,
    fabrics: tuple[Fabric, ...],
    layer: OpticalLayer,
    findings: Findings,
    *,
    flows: bool,
) -> tuple[JobClass, ...]:
    """All classes, none larger than any shard that can be cut."""
    names = Counter(entry.name for entry in file.classes)
    classes = []
    at_once = file.jobs.at_once is not None
    made_of = class_with_flows if flows else job_class
    placements = {fabric.placement for fabric in fabrics if fabric.kind == PARTITIONED and not at_once}
    for index, entry in enumerate(file.classes):
        where = ("classes", index)
        if names[entry.name] > 1:
            findings.add([Issue((*where, "name"), "a name more than once", entry.name, "each class once")])
        for name in entry.fabric_ms:
            if name not in {fabric.name for fabric in fabrics}:
                allowed = nearest_text(name, [fabric.name for fabric in fabrics])
                findings.add([Issue((*where, "fabric_ms", name), "no such fabric", name, allowed)])
        made = made_of(entry, file.cluster, fabrics, folder, where, findings)
        n = file.cluster.servers
        if made.servers > n:
            findings.add([Issue((*where, "servers"), "a job larger than the cluster", str(made.servers), f"1 to {n}")])
            made = replace(made, servers=n)
        largest = min((_largest_shard(layer, made, placement in ACROSS_GROUPS) for placement in placements), default=n)
        if made.servers > largest:
            text = "no shard this large can be cut: its servers would not share an optical switch in enough planes"
            allowed = f"1 to {largest}, or more optical.switch_ports"
            findings.add([Issue((*where, "servers"), text, str(made.servers), allowed)])
        classes.append(made)
    return tuple(classes)


def _largest_shard(layer: OpticalLayer, job_class: JobClass, spread: bool) -> int:
    """Most servers that share a switch in all planes, or in as many neighbouring ones as the job has interfaces.

    The shift between planes grows with their distance, so neighbouring planes have most servers in common.
    """
    d = layer.planes
    used = min(job_class.interfaces or d, d) if spread else d
    windows = [layer.switch_of[first : first + used] for first in range(d - used + 1)]
    return max(int(np.unique(rows, axis=1, return_counts=True)[1].max()) for rows in windows)


def _identity(
    file: SharedClusterInstance,
    contention: Contention,
    classes: tuple[JobClass, ...],
    jobs: tuple[TracedJob, ...] | DrawnJobs | JobsAtOnce,
) -> str:
    """Return the hash of an instance with defaults written out; files count by their content, not by their names."""
    document: dict[str, Any] = {**codec.plain(file), "contention": contention}
    for entry, row in zip(document["classes"], classes, strict=True):
        if row.plan is not None:
            entry["plan"] = row.plan.sha256
        elif entry["plan"] is not None:
            entry["plan"] = [row.iteration_ms, row.compute_ms, row.allreduce_bytes, row.all_to_all_bytes]
    if isinstance(jobs, tuple):
        document["jobs"]["trace"] = [(job.name, job.arrival_s, job.class_index, job.iterations) for job in jobs]
    return canonical_sha256(document)


# Classes.


SOLUTION_KIND = "co-optimisation-solution"

OWN_KEYS = ("degree", "link_gbps", "links", "hop_latency_us", "ring_round_latency_us", "link_sharing")
"""What the cluster says instead of the plans of the classes."""

OF_THE_FORMULA = (
    "compute_ms", "allreduce_gbytes", "all_to_all_gbytes", "interfaces", "iterations", "duration_s",
)  # fmt: skip
"""Keys that play no part where flows are simulated, nor does `fabric_ms`."""


def class_with_flows(
    file: JobClassStatement,
    cluster: SharedServers,
    fabrics: Sequence[Fabric],
    folder: FilePath,
    where: Path,
    findings: Findings,
) -> JobClass:
    """A class whose flows are simulated: a plan, or times measured on shards of their own."""
    for key in (*OF_THE_FORMULA, "fabric_ms"):
        if getattr(file, key):
            findings.add([Issue((*where, key), "plays no part where flows are simulated")])
    blank = JobClass(file.name, file.servers or 1, tuple(file.iteration_ms or ()))
    if (file.plan is None) == (file.iteration_ms is None):
        findings.add([Issue(where, "one of iteration_ms and plan is needed", allowed="one of them, not both")])
        return blank
    if file.plan is not None:
        return _with_plan(file, blank, cluster, folder / file.plan, where, findings, solved=False)
    if file.servers is None:
        findings.add([Issue((*where, "servers"), "missing", allowed=f"1 to {cluster.servers}")])
    shared = [fabric.name for fabric in fabrics if fabric.kind != PARTITIONED]
    if shared:
        message = f"times of a shard say nothing about {', '.join(shared)}"
        findings.add([Issue((*where, "iteration_ms"), message, allowed=f"plan, or {PARTITIONED} as the only fabric")])
    return blank


def _with_plan(
    file: JobClassStatement,
    blank: JobClass,
    cluster: SharedServers,
    path: FilePath,
    where: Path,
    findings: Findings,
    *,
    solved: bool,
) -> JobClass:
    made = findings.attempt(lambda: _planned(blank, path, cluster, solved=solved), (*where, "plan"))
    if made is None:
        return replace(blank, servers=max(1, blank.servers), iteration_ms=blank.iteration_ms or (1.0,))
    if file.servers is not None and file.servers != made.servers:
        findings.add([Issue((*where, "servers"), "not those of the plan", str(file.servers), str(made.servers))])
    return made


def job_class(
    file: JobClassStatement,
    cluster: SharedServers,
    fabrics: Sequence[Fabric],
    folder: FilePath,
    where: Path,
    findings: Findings,
) -> JobClass:
    """One class; what is wrong with it is added to the findings."""
    if file.iterations is not None and file.duration_s is not None:
        findings.add([Issue((*where, "duration_s"), "both iterations and duration_s", allowed="one of them")])
    if (file.plan is None) == (file.iteration_ms is None):
        findings.add([Issue(where, "one of iteration_ms and plan is needed", allowed="one of them, not both")])
        return JobClass(file.name, file.servers or 1, (1.0,), iterations=file.iterations, duration_s=file.duration_s)
    fabric_ms = tuple(sorted(file.fabric_ms.items()))
    if file.interfaces is not None and file.interfaces > cluster.degree:
        findings.add(
            [Issue((*where, "interfaces"), "more than a server has", str(file.interfaces), f"1 to {cluster.degree}")]
        )
    blank = JobClass(
        name=file.name,
        servers=file.servers or 0,
        iteration_ms=(),
        fabric_ms=fabric_ms,
        iterations=file.iterations,
        duration_s=file.duration_s,
        interfaces=file.interfaces,
    )
    if file.plan is not None:
        for key in ("compute_ms", "allreduce_gbytes", "all_to_all_gbytes"):
            if getattr(file, key) is not None:
                findings.add([Issue((*where, key), "the plan says this", allowed="without plan")])
        return _with_plan(file, blank, cluster, folder / file.plan, where, findings, solved=True)
    if file.servers is None:
        findings.add([Issue((*where, "servers"), "missing", allowed=f"1 to {cluster.servers}")])
    return _given(file, replace(blank, servers=file.servers or 1), cluster, fabrics, where, findings)


def _given(
    file: JobClassStatement,
    blank: JobClass,
    cluster: SharedServers,
    fabrics: Sequence[Fabric],
    where: Path,
    findings: Findings,
) -> JobClass:
    samples = tuple(file.iteration_ms or ())
    ring, pairs = (file.allreduce_gbytes or 0.0) * 1e9, (file.all_to_all_gbytes or 0.0) * 1e9
    shortest = min((*samples, *file.fabric_ms.values()))
    used = cluster.degree if file.interfaces is None else file.interfaces
    wire_ms = (ring + pairs) / (used * cluster.link_gbps * BYTES_PER_MS_PER_GBPS)
    compute = max(0.0, shortest - wire_ms) if file.compute_ms is None else file.compute_ms
    if compute > shortest * (1 + ROUNDING):
        text = "more compute than the shortest iteration is long"
        findings.add([Issue((*where, "compute_ms"), text, f"{compute:g}", f"0 to {shortest:g}")])
    if blank.servers == 1 and ring + pairs > 0:
        key = "allreduce_gbytes" if ring > 0 else "all_to_all_gbytes"
        findings.add([Issue((*where, key), "a job of one server sends nothing", allowed="0, or more servers")])
    made = replace(blank, iteration_ms=samples, compute_ms=compute, allreduce_bytes=ring, all_to_all_bytes=pairs)
    text = "shorter than sending the bytes of an iteration takes"
    for key, time, least in too_short(made, used * cluster.link_gbps, fabrics):
        path = (*where, *key.split(".", 1))
        findings.add([Issue(path, text, f"{time:g}", f"at least {least:g}")])
    return made


def _planned(blank: JobClass, path: FilePath, cluster: SharedServers, *, solved: bool) -> JobClass:
    """A class whose times are those of a plan, or come from solving an instance with the interfaces of this cluster."""
    document = parse_document(path)
    given: dict[str, Any] = document.data if isinstance(document.data, dict) else {}
    kind = given.get("kind")
    if kind == SOLUTION_KIND and solved:
        solution = kind_named("co-optimisation").files.solutions.read(path)
        _same_interfaces(solution.figures.cluster, blank, cluster, path)
        return class_of_plan(blank, solution)
    if kind == "co-optimisation":
        if isinstance(given.get("cluster"), dict):
            own = {key: getattr(cluster, key) for key in OWN_KEYS}
            own["degree"] = blank.interfaces or cluster.degree
            given = {**given, "cluster": {**given["cluster"], **own}}
        instance = read_co_optimisation(replace(document, data=given))
        order = instance.cluster.compute_order
        if order is not ComputeOrder.ARRIVAL:
            text, allowed = "servers of a shared cluster compute in order of arrival", ComputeOrder.ARRIVAL.value
            where = "cluster.compute_order"
            raise InputError([Problem(text, file=str(path), path=where, value=order.value, allowed=allowed)])
        return replace(blank, servers=instance.cluster.servers, plan=instance)
    allowed = f"co-optimisation or {SOLUTION_KIND}" if solved else "co-optimisation"
    raise InputError(
        [Problem("no plan of a job", file=str(path), path="kind", value=value_text(kind), allowed=allowed)]
    )


def _same_interfaces(plan: Cluster, blank: JobClass, cluster: SharedServers, path: FilePath) -> None:
    used = cluster.degree if blank.interfaces is None else blank.interfaces
    if (plan.degree, plan.link_gbps) != (used, cluster.link_gbps):
        text = "the plan is for servers with other interfaces"
        value = f"degree {plan.degree}, link_gbps {plan.link_gbps:g}"
        allowed = f"degree {used}, link_gbps {cluster.link_gbps:g}"
        raise InputError([Problem(text, file=str(path), path="cluster", value=value, allowed=allowed)])


def class_of_plan(job_class: JobClass, solution: Result[CoOptimisation, JobPlan]) -> JobClass:
    """Return the class with the times and bytes of a plan that is solved: as `figures.timed_class` has them."""
    demand = solution.figures.demand
    n = demand.servers
    return replace(
        job_class,
        servers=n,
        iteration_ms=(solution.objective.value,),
        compute_ms=solution.figures.busiest_server_compute_ms,
        allreduce_bytes=demand.allreduce_wire_bytes / n,
        all_to_all_bytes=float(demand.model_parallel_bytes.sum()) / n,
    )


# Fabrics.


DEFAULT = (
    FabricStatement(kind="partitioned"),
    FabricStatement(kind="fat-tree"),
    FabricStatement(kind="fat-tree", name="oversubscribed-fat-tree", oversubscription=2.0),
    FabricStatement(kind="ideal-switch"),
)
PARTITION_PLACEMENTS = ("best-fit", "first-fit", *ACROSS_GROUPS)
SHARED_PLACEMENTS = ("random", "packed")


def fabrics_of(file: SharedClusterInstance, findings: Findings, *, flows: bool) -> tuple[Fabric, ...]:
    """All of them, defaults filled in; `flows`: every flow is simulated."""
    given = DEFAULT if file.fabrics is None else tuple(file.fabrics)
    names = Counter(entry.name or entry.kind for entry in given)
    fabrics = []
    for index, entry in enumerate(given):
        where = ("fabrics", index)
        if names[entry.name or entry.kind] > 1:
            text = "a name more than once"
            findings.add([Issue(where, text, entry.name or entry.kind, "a name of its own for each fabric")])
        if entry.server_gbps is not None and entry.kind == PARTITIONED:
            text = "the rate of a partition is that of the interfaces"
            findings.add([Issue((*where, "server_gbps"), text, allowed="cluster.link_gbps and cluster.degree")])
        if entry.placement is not None and file.jobs.at_once is not None:
            text, allowed = "jobs at once have the same servers on all fabrics", "jobs.placement"
            findings.add([Issue((*where, "placement"), text, entry.placement, allowed)])
        fabrics.append((_with_flows if flows else _with_formula)(file, entry, where, findings))
    return tuple(fabrics)


def _whole(file: SharedClusterInstance) -> float:
    """All interfaces of a server together, Gbit/s."""
    return file.cluster.degree * file.cluster.link_gbps


def _with_flows(file: SharedClusterInstance, entry: FabricStatement, where: Path, findings: Findings) -> Fabric:
    if entry.kind == PARTITIONED:
        for key in ("oversubscription", "oversubscribed_at", "paths", "shape"):
            if getattr(entry, key) is not None:
                findings.add([Issue((*where, key), "plays no part for partitioned")])
    if entry.paths == "even":
        text = "flows are simulated on their paths"
        findings.add([Issue((*where, "paths"), text, entry.paths, "hashed, spread or sprayed")])
    thinned = entry.kind == FAT_TREE and (entry.oversubscription or 1.0) > 1.0
    return Fabric(
        name=entry.name or entry.kind,
        kind=entry.kind,
        server_gbps=_whole(file) if entry.server_gbps is None and thinned else entry.server_gbps,
        oversubscription=entry.oversubscription,
        oversubscribed_at=entry.oversubscribed_at,
        paths=entry.paths or "hashed",
        shape=None if entry.shape is None else tuple(entry.shape),
        placement=file.jobs.placement or "random",
    )


def _with_formula(file: SharedClusterInstance, entry: FabricStatement, where: Path, findings: Findings) -> Fabric:
    if entry.kind not in WITH_FORMULA:
        allowed = ", ".join(WITH_FORMULA) + "; others with contention: flows"
        findings.add([Issue((*where, "kind"), "contention has no formula on such a fabric", entry.kind, allowed)])
    for key in ("oversubscription", "oversubscribed_at", "paths"):
        if getattr(entry, key) is not None and entry.kind != FAT_TREE:
            findings.add([Issue((*where, key), f"plays no part for {entry.kind}", allowed="for fat-tree")])
    if entry.paths in ("spread", "sprayed"):
        text = "contention by a formula knows no such paths"
        findings.add([Issue((*where, "paths"), text, entry.paths, "even or hashed; others with contention: flows")])
    if entry.shape is not None:
        findings.add([Issue((*where, "shape"), f"plays no part for {entry.kind}", allowed="for a torus")])
    placements = PARTITION_PLACEMENTS if entry.kind == PARTITIONED else SHARED_PLACEMENTS
    if entry.placement is not None and entry.placement not in placements:
        text = f"no placement for {entry.kind}"
        findings.add([Issue((*where, "placement"), text, entry.placement, " or ".join(placements))])
    if entry.placement == "exact" and file.cluster.servers > MOST_EXACT_SERVERS:
        text = f"exact is for clusters of up to {MOST_EXACT_SERVERS} servers, this one has {file.cluster.servers}"
        findings.add([Issue((*where, "placement"), text, entry.placement, "spread, or fewer cluster.servers")])
    if entry.placement in ACROSS_GROUPS and file.scheduling.defragment:
        text = f"running jobs are not moved where the placement is {entry.placement}"
        findings.add([Issue((*where, "placement"), text, entry.placement, "best-fit, or no scheduling.defragment")])
    ratio = entry.oversubscription or 1.0
    equal_cost = entry.kind == FAT_TREE and ratio == 1.0
    return Fabric(
        name=entry.name or entry.kind,
        kind=entry.kind,
        server_gbps=entry.server_gbps if entry.server_gbps is not None else None if equal_cost else _whole(file),
        oversubscription=ratio,
        oversubscribed_at=entry.oversubscribed_at or "rack",
        paths=entry.paths or "even",
        placement=entry.placement or file.jobs.placement or placements[0],
    )


# Jobs.


OF_ARRIVALS = ("arrival", "rate_per_s", "load", "spread")
OF_JOBS_AT_ONCE = ("repetitions", "placement", "rank_order")
REPETITIONS = 5


def jobs_of(
    file: SharedClusterInstance, folder: FilePath, classes: tuple[JobClass, ...], findings: Findings, *, flows: bool
) -> tuple[TracedJob, ...] | DrawnJobs | JobsAtOnce:
    """The trace, or how to draw jobs; `flows`: every flow is simulated."""
    jobs = file.jobs
    given = [key for key in ("trace", "count", "at_once") if getattr(jobs, key) is not None]
    if len(given) != 1:
        findings.add([Issue(("jobs",), "one of trace, count and at_once is needed", allowed="one of them, no more")])
        return ()
    if jobs.at_once is not None:
        _refuse(jobs, OF_ARRIVALS, "plays no part for jobs at once", "with count", findings)
        if not flows:
            _refuse(jobs, ("rank_order",), "the rings of the formula ascend", "with contention: flows", findings)
        return _at_once(file, classes, jobs.rank_order or ("random" if flows else "sorted"), findings)
    _refuse(jobs, OF_JOBS_AT_ONCE, "plays no part for jobs that arrive", "with at_once", findings)
    if jobs.trace is not None:
        _refuse(jobs, ("mix", *OF_ARRIVALS), "plays no part with a trace", "with count", findings)
        path = str(folder / jobs.trace)
        return findings.attempt(lambda: read_trace(path, classes), ("jobs", "trace")) or ()
    mix = _mix(jobs, classes, findings)
    for index, _ in mix:
        if classes[index].iterations is None and classes[index].duration_s is None:
            text, allowed = "how long its jobs are is missing", "iterations or duration_s"
            findings.add([Issue(("classes", index), text, allowed=allowed)])
    rates = [key for key in ("rate_per_s", "load") if getattr(jobs, key) is not None]
    if jobs.arrival == "together":
        if rates:
            findings.add([Issue(("jobs", rates[0]), "plays no part for jobs that arrive together")])
    elif len(rates) != 1:
        findings.add([Issue(("jobs",), "one of rate_per_s and load is needed", allowed="one of them, not both")])
    return DrawnJobs(jobs.count or 0, mix, jobs.rate_per_s, jobs.load, jobs.spread or "fixed")


def _refuse(jobs: JobsStatement, keys: tuple[str, ...], message: str, allowed: str, findings: Findings) -> None:
    for key in keys:
        if getattr(jobs, key) is not None:
            findings.add([Issue(("jobs", key), message, allowed=allowed)])


def _mix(jobs: JobsStatement, classes: tuple[JobClass, ...], findings: Findings) -> tuple[tuple[int, float], ...]:
    """(class index, weight) of each class of the mix."""
    index = {row.name: number for number, row in enumerate(classes)}
    mix = {row.name: 1.0 for row in classes} if jobs.mix is None else jobs.mix
    if not mix:
        findings.add([Issue(("jobs", "mix"), "no classes", allowed="at least one class with its weight")])
    for name in mix:
        if name not in index:
            findings.add([Issue(("jobs", "mix", name), "unknown class", name, nearest_text(name, index))])
    return tuple((index[name], weight) for name, weight in mix.items() if name in index)


def _at_once(
    file: SharedClusterInstance, classes: tuple[JobClass, ...], rank_order: RankOrder, findings: Findings
) -> JobsAtOnce:
    """Loads that fit when all jobs are of the largest class, each once, and not too many in all."""
    jobs, n = file.jobs, file.cluster.servers
    loads, repetitions = tuple(jobs.at_once or ()), jobs.repetitions or REPETITIONS
    mix = _mix(jobs, classes, findings)
    largest = max((classes[index].servers for index, _ in mix), default=1)
    for number, load in enumerate(loads):
        where = ("jobs", "at_once", number)
        if load in loads[:number]:
            findings.add([Issue(where, "load given twice", str(load))])
        if load > n // largest:
            allowed = f"at most {n // largest} jobs of {largest} servers"
            findings.add([Issue(where, "more jobs than fit", str(load), allowed)])
    total = sum(loads) * repetitions
    if total > MAX_DRAWN_JOBS:
        findings.add([Issue(("jobs", "repetitions"), "too many jobs in all", str(total), f"at most {MAX_DRAWN_JOBS}")])
    return JobsAtOnce(
        loads=loads,
        repetitions=repetitions,
        mix=mix,
        placement=jobs.placement or "random",
        rank_order=rank_order,
        rack_servers=file.cluster.rack_servers or max(1, fat_tree_arity(n) // 2),
    )
