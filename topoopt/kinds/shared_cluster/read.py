"""Instance files of kind `shared-cluster` to domain objects: all checks, then the build."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from topoopt.core.cluster import Cluster, LinkDirection, LinkSharing
from topoopt.core.optical_layer import OpticalLayer, block_layer, staggered_layer
from topoopt.core.shared_cluster import (
    ACROSS_GROUPS,
    PARTITIONED,
    Contention,
    Fabric,
    Goal,
    QueueOrder,
    Scheduling,
    SharedCluster,
)
from topoopt.core.shared_cluster_jobs import DrawnJobs, JobClass, JobsAtOnce, TracedJob
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.faults import Fault, nearest_text
from topoopt.files.findings import Findings
from topoopt.kinds.shared_cluster.classes import class_with_flows, job_class
from topoopt.kinds.shared_cluster.fabrics import fabrics_of
from topoopt.kinds.shared_cluster.jobs import jobs_of
from topoopt.kinds.shared_cluster.schema import SharedClusterFile, SharedClusterSection


def read_shared_cluster(document: Document) -> SharedCluster:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    findings = Findings()
    file = findings.shaped(SharedClusterFile, document)
    findings.add(_faults_of_forms(file))
    folder = FilePath(document.file).parent
    at_once = file.jobs.at_once is not None
    contention = Contention(file.contention or ("flows" if at_once else "coinciding"))
    flows = contention is Contention.FLOWS and at_once
    layer = _layer(file)
    fabrics = fabrics_of(file, findings, flows=flows)
    classes = _classes(file, folder, fabrics, layer, findings, flows=flows)
    jobs = jobs_of(file, folder, classes, findings, flows=flows)
    findings.refuse(document)
    return SharedCluster(
        name=file.name,
        cluster=_cluster(file.cluster),
        layer=layer,
        look_ahead=file.optical.look_ahead,
        fabrics=fabrics,
        classes=classes,
        jobs=jobs,
        scheduling=Scheduling(
            QueueOrder(file.scheduling.queue or "fifo"),
            file.scheduling.depth,
            file.scheduling.defragment,
            file.scheduling.checkpoint_s,
            open=file.scheduling.queue is None and not file.scheduling.defragment,
        ),
        contention=contention,
        time_model=file.time_model or "fluid",
        goal=Goal(file.objective),
        search=file.search.build(),
        sha256=_identity(file, contention, classes, jobs),
        notes=tuple(f"{one.name}: {note}" for one in classes if flows and one.plan for note in one.plan.notes),
    )


def _faults_of_forms(file: SharedClusterFile) -> list[Fault]:
    """What plays no part for jobs that arrive, or for jobs at once."""
    faults = []
    if file.jobs.at_once is None:
        if file.contention == "flows":
            text = "flows are simulated for jobs at once; jobs that arrive contend by a formula"
            faults.append(Fault(("contention",), text, "flows", "coinciding or interleaved, or jobs.at_once"))
        if file.cluster.rack_servers is not None:
            text = "plays no part for jobs that arrive"
            faults.append(Fault(("cluster", "rack_servers"), text, allowed="with jobs.at_once"))
    else:
        text, allowed = "plays no part for jobs at once, which neither wait nor end", "with jobs.count or jobs.trace"
        for key in ("optical", "scheduling", "objective"):
            if key in file.model_fields_set:
                faults.append(Fault((key,), text, allowed=allowed))
        for place, one in enumerate(file.classes):
            for key in ("iterations", "duration_s"):
                if getattr(one, key) is not None:
                    faults.append(Fault(("classes", place, key), text, allowed=allowed))
    if file.time_model is not None and (file.jobs.at_once is None or file.contention in ("coinciding", "interleaved")):
        faults.append(Fault(("time_model",), "plays no part without flows", allowed="with contention: flows"))
    return faults


def _layer(file: SharedClusterFile) -> OpticalLayer:
    cluster, optical = file.cluster, file.optical
    ports = cluster.servers if optical.switch_ports is None else optical.switch_ports
    wired = staggered_layer if optical.wiring == "staggered" else block_layer
    return wired(cluster.servers, cluster.degree, ports, optical.switching_time_s)


def _cluster(file: SharedClusterSection) -> Cluster:
    return Cluster(
        servers=file.servers,
        gpus_per_server=1,
        degree=file.degree,
        link_gbps=file.link_gbps,
        links=LinkDirection(file.links),
        hop_latency_us=file.hop_latency_us,
        ring_round_latency_us=file.ring_round_latency_us,
        link_sharing=LinkSharing(file.link_sharing),
    )


def _classes(
    file: SharedClusterFile,
    folder: FilePath,
    fabrics: tuple[Fabric, ...],
    layer: OpticalLayer,
    findings: Findings,
    *,
    flows: bool,
) -> tuple[JobClass, ...]:
    """All classes, none larger than any shard that can be cut."""
    names = Counter(one.name for one in file.classes)
    classes = []
    at_once = file.jobs.at_once is not None
    made_of = class_with_flows if flows else job_class
    placements = {fabric.placement for fabric in fabrics if fabric.kind == PARTITIONED and not at_once}
    for index, one in enumerate(file.classes):
        where = ("classes", index)
        if names[one.name] > 1:
            findings.add([Fault((*where, "name"), "a name more than once", one.name, "each class once")])
        for name in one.fabric_ms:
            if name not in {fabric.name for fabric in fabrics}:
                allowed = nearest_text(name, [fabric.name for fabric in fabrics])
                findings.add([Fault((*where, "fabric_ms", name), "no such fabric", name, allowed)])
        made = made_of(one, file.cluster, fabrics, folder, where, findings)
        n = file.cluster.servers
        if made.servers > n:
            findings.add([Fault((*where, "servers"), "a job larger than the cluster", str(made.servers), f"1 to {n}")])
            made = replace(made, servers=n)
        largest = min((_largest_shard(layer, made, placement in ACROSS_GROUPS) for placement in placements), default=n)
        if made.servers > largest:
            text = "no shard this large can be cut: its servers would not share an optical switch in enough planes"
            allowed = f"1 to {largest}, or more optical.switch_ports"
            findings.add([Fault((*where, "servers"), text, str(made.servers), allowed)])
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
    file: SharedClusterFile,
    contention: Contention,
    classes: tuple[JobClass, ...],
    jobs: tuple[TracedJob, ...] | DrawnJobs | JobsAtOnce,
) -> str:
    """Hash of the instance with defaults written out; files count by their content, not by their names."""
    document: dict[str, Any] = {**file.model_dump(mode="json"), "contention": contention.value}
    for entry, one in zip(document["classes"], classes, strict=True):
        if one.plan is not None:
            entry["plan"] = one.plan.sha256
        elif entry["plan"] is not None:
            entry["plan"] = [one.iteration_ms, one.compute_ms, one.allreduce_bytes, one.all_to_all_bytes]
    if isinstance(jobs, tuple):
        document["jobs"]["trace"] = [(job.name, job.arrival_s, job.class_index, job.iterations) for job in jobs]
    return canonical_sha256(document)
