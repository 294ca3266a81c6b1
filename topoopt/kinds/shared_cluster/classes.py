"""The job classes of a shared cluster file; their times may come from a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.core.shared_cluster import PARTITIONED, Fabric, too_short
from topoopt.core.shared_cluster_jobs import JobClass
from topoopt.core.shared_plan import class_of_plan
from topoopt.core.units import BYTES_PER_MS_PER_GBPS
from topoopt.files.documents import parse_document
from topoopt.files.faults import Fault, Path, value_text
from topoopt.files.findings import Findings
from topoopt.kinds.job.read import read_co_optimisation
from topoopt.kinds.job.solution_file import SOLUTION_FILE
from topoopt.kinds.job.solution_schema import KIND as SOLUTION_KIND
from topoopt.kinds.shared_cluster.schema import JobClassFile, SharedClusterSection

ROUNDING = 1e-9


OWN_KEYS = ("degree", "link_gbps", "links", "hop_latency_us", "ring_round_latency_us", "link_sharing")
"""What the cluster says instead of the plans of the classes."""

OF_THE_FORMULA = (
    "compute_ms", "allreduce_gbytes", "all_to_all_gbytes", "interfaces", "iterations", "duration_s",
)  # fmt: skip
"""Keys that play no part where flows are simulated, nor does `fabric_ms`."""


def class_with_flows(
    file: JobClassFile,
    cluster: SharedClusterSection,
    fabrics: Sequence[Fabric],
    folder: FilePath,
    where: Path,
    findings: Findings,
) -> JobClass:
    """A class whose flows are simulated: a plan, or times measured on shards of their own."""
    for key in (*OF_THE_FORMULA, "fabric_ms"):
        if getattr(file, key):
            findings.add([Fault((*where, key), "plays no part where flows are simulated")])
    blank = JobClass(file.name, file.servers or 1, tuple(file.iteration_ms or ()))
    if (file.plan is None) == (file.iteration_ms is None):
        findings.add([Fault(where, "one of iteration_ms and plan is needed", allowed="one of them, not both")])
        return blank
    if file.plan is not None:
        return _with_plan(file, blank, cluster, folder / file.plan, where, findings, solved=False)
    if file.servers is None:
        findings.add([Fault((*where, "servers"), "missing", allowed=f"1 to {cluster.servers}")])
    shared = [fabric.name for fabric in fabrics if fabric.kind != PARTITIONED]
    if shared:
        message = f"times of a shard say nothing about {', '.join(shared)}"
        allowed = f"plan, or {PARTITIONED} as the only fabric"
        findings.add([Fault((*where, "iteration_ms"), message, allowed=allowed)])
    return blank


def _with_plan(
    file: JobClassFile,
    blank: JobClass,
    cluster: SharedClusterSection,
    path: FilePath,
    where: Path,
    findings: Findings,
    *,
    solved: bool,
) -> JobClass:
    """The class with its plan; `solved`: the plan may be a solution."""
    made = findings.attempt(lambda: _planned(blank, path, cluster, solved=solved), (*where, "plan"))
    if made is None:
        return replace(blank, servers=max(1, blank.servers), iteration_ms=blank.iteration_ms or (1.0,))
    if file.servers is not None and file.servers != made.servers:
        findings.add([Fault((*where, "servers"), "not those of the plan", str(file.servers), str(made.servers))])
    return made


def job_class(
    file: JobClassFile,
    cluster: SharedClusterSection,
    fabrics: Sequence[Fabric],
    folder: FilePath,
    where: Path,
    findings: Findings,
) -> JobClass:
    """One class; what is wrong with it is added to the findings."""
    if file.iterations is not None and file.duration_s is not None:
        findings.add([Fault((*where, "duration_s"), "both iterations and duration_s", allowed="one of them")])
    if (file.plan is None) == (file.iteration_ms is None):
        findings.add([Fault(where, "one of iteration_ms and plan is needed", allowed="one of them, not both")])
        return JobClass(file.name, file.servers or 1, (1.0,), iterations=file.iterations, duration_s=file.duration_s)
    fabric_ms = tuple(sorted(file.fabric_ms.items()))
    if file.interfaces is not None and file.interfaces > cluster.degree:
        findings.add(
            [Fault((*where, "interfaces"), "more than a server has", str(file.interfaces), f"1 to {cluster.degree}")]
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
                findings.add([Fault((*where, key), "the plan says this", allowed="without plan")])
        return _with_plan(file, blank, cluster, folder / file.plan, where, findings, solved=True)
    if file.servers is None:
        findings.add([Fault((*where, "servers"), "missing", allowed=f"1 to {cluster.servers}")])
    return _given(file, replace(blank, servers=file.servers or 1), cluster, fabrics, where, findings)


def _given(
    file: JobClassFile,
    blank: JobClass,
    cluster: SharedClusterSection,
    fabrics: Sequence[Fabric],
    where: Path,
    findings: Findings,
) -> JobClass:
    """A class whose times stand in the file."""
    samples = tuple(file.iteration_ms or ())
    ring, pairs = (file.allreduce_gbytes or 0.0) * 1e9, (file.all_to_all_gbytes or 0.0) * 1e9
    shortest = min((*samples, *file.fabric_ms.values()))
    used = cluster.degree if file.interfaces is None else file.interfaces
    wire_ms = (ring + pairs) / (used * cluster.link_gbps * BYTES_PER_MS_PER_GBPS)
    compute = max(0.0, shortest - wire_ms) if file.compute_ms is None else file.compute_ms
    if compute > shortest * (1 + ROUNDING):
        text = "more compute than the shortest iteration is long"
        findings.add([Fault((*where, "compute_ms"), text, f"{compute:g}", f"0 to {shortest:g}")])
    if blank.servers == 1 and ring + pairs > 0:
        key = "allreduce_gbytes" if ring > 0 else "all_to_all_gbytes"
        findings.add([Fault((*where, key), "a job of one server sends nothing", allowed="0, or more servers")])
    made = replace(blank, iteration_ms=samples, compute_ms=compute, allreduce_bytes=ring, all_to_all_bytes=pairs)
    text = "shorter than sending the bytes of an iteration takes"
    for key, time, least in too_short(made, used * cluster.link_gbps, fabrics):
        place = (*where, *key.split(".", 1))
        findings.add([Fault(place, text, f"{time:g}", f"at least {least:g}")])
    return made


def _planned(blank: JobClass, path: FilePath, cluster: SharedClusterSection, *, solved: bool) -> JobClass:
    """A class whose times are those of a plan, or come from solving an instance with the interfaces of this cluster."""
    document = parse_document(path)
    given: dict[str, Any] = document.data if isinstance(document.data, dict) else {}
    kind = given.get("kind")
    if kind == SOLUTION_KIND and solved:
        solution = SOLUTION_FILE.read(path)
        _same_interfaces(solution.cluster, blank, cluster, path)
        return class_of_plan(blank, solution)
    if kind == "co-optimisation":
        if isinstance(given.get("cluster"), dict):
            own = {key: getattr(cluster, key) for key in OWN_KEYS}
            own["degree"] = blank.interfaces or cluster.degree
            given = {**given, "cluster": {**given["cluster"], **own}}
        instance = read_co_optimisation(replace(document, data=given))
        return replace(blank, servers=instance.cluster.servers, plan=instance)
    allowed = f"co-optimisation or {SOLUTION_KIND}" if solved else "co-optimisation"
    raise InputError(
        [Problem("no plan of a job", file=str(path), path="kind", value=value_text(kind), allowed=allowed)]
    )


def _same_interfaces(plan: Cluster, blank: JobClass, cluster: SharedClusterSection, path: FilePath) -> None:
    used = cluster.degree if blank.interfaces is None else blank.interfaces
    if (plan.degree, plan.link_gbps) != (used, cluster.link_gbps):
        text = "the plan is for servers with other interfaces"
        value = f"degree {plan.degree}, link_gbps {plan.link_gbps:g}"
        allowed = f"degree {used}, link_gbps {cluster.link_gbps:g}"
        raise InputError([Problem(text, file=str(path), path="cluster", value=value, allowed=allowed)])
