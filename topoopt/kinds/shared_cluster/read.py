"""Instance files of kind `shared-cluster` to domain objects: all checks, then the build."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from topoopt.core.optical_layer import OpticalLayer, block_layer, staggered_layer
from topoopt.core.shared_cluster import (
    ACROSS_GROUPS,
    Contention,
    DrawnJobs,
    Fabric,
    FabricKind,
    Goal,
    JobClass,
    Queue,
    Scheduling,
    SharedCluster,
    TracedJob,
)
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.faults import Fault, nearest_text
from topoopt.files.findings import Findings
from topoopt.kinds.shared_cluster.classes import job_class
from topoopt.kinds.shared_cluster.fabrics import fabrics_of
from topoopt.kinds.shared_cluster.schema import JobsFile, SharedClusterFile
from topoopt.kinds.shared_cluster.trace import read_trace


def read_shared_cluster(document: Document) -> SharedCluster:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    findings = Findings()
    file = findings.shaped(SharedClusterFile, document)
    folder = FilePath(document.file).parent
    cluster, optical = file.cluster, file.optical
    ports = cluster.servers if optical.switch_ports is None else optical.switch_ports
    wired = staggered_layer if optical.wiring == "staggered" else block_layer
    layer = wired(cluster.servers, cluster.degree, ports, optical.switching_time_s)
    fabrics = fabrics_of(file, findings)
    classes = _classes(file, folder, fabrics, layer, findings)
    jobs = _jobs(file.jobs, folder, classes, findings)
    findings.refuse(document)
    return SharedCluster(
        name=file.name,
        degree=cluster.degree,
        link_gbps=cluster.link_gbps,
        layer=layer,
        look_ahead=optical.look_ahead,
        fabrics=fabrics,
        classes=classes,
        jobs=jobs,
        scheduling=Scheduling(
            Queue(file.scheduling.queue),
            file.scheduling.depth,
            file.scheduling.defragment,
            file.scheduling.checkpoint_s,
        ),
        contention=Contention(file.contention),
        goal=Goal(file.objective),
        search=file.search.build(),
        sha256=_identity(file.model_dump(mode="json"), classes, jobs),
    )


def _classes(
    file: SharedClusterFile, folder: FilePath, fabrics: tuple[Fabric, ...], layer: OpticalLayer, findings: Findings
) -> tuple[JobClass, ...]:
    """All classes, none larger than any shard that can be cut."""
    names = Counter(one.name for one in file.classes)
    classes = []
    placements = {fabric.placement for fabric in fabrics if fabric.kind is FabricKind.PARTITIONED}
    for index, one in enumerate(file.classes):
        where = ("classes", index)
        if names[one.name] > 1:
            findings.add([Fault((*where, "name"), "a name more than once", one.name, "each class once")])
        for name in one.fabric_ms:
            if name not in {fabric.name for fabric in fabrics}:
                allowed = nearest_text(name, [fabric.name for fabric in fabrics])
                findings.add([Fault((*where, "fabric_ms", name), "no such fabric", name, allowed)])
        made = job_class(one, file.cluster, fabrics, folder, where, findings)
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


def _jobs(
    file: JobsFile, folder: FilePath, classes: tuple[JobClass, ...], findings: Findings
) -> tuple[TracedJob, ...] | DrawnJobs:
    """The trace, or how to draw jobs."""
    if (file.trace is None) == (file.count is None):
        findings.add([Fault(("jobs",), "one of trace and count is needed", allowed="one of them, not both")])
        return ()
    if file.trace is not None:
        for key in ("mix", "arrival", "rate_per_s", "load", "spread"):
            if getattr(file, key) is not None:
                findings.add([Fault(("jobs", key), "plays no part with a trace", allowed="with count")])
        path = str(folder / file.trace)
        return findings.attempt(lambda: read_trace(path, classes), ("jobs", "trace")) or ()
    index = {one.name: place for place, one in enumerate(classes)}
    mix = {one.name: 1.0 for one in classes} if file.mix is None else file.mix
    if not mix:
        findings.add([Fault(("jobs", "mix"), "no classes", allowed="at least one class with its weight")])
    drawn = []
    for name, weight in mix.items():
        if name not in index:
            findings.add([Fault(("jobs", "mix", name), "unknown class", name, nearest_text(name, index))])
            continue
        drawn.append((index[name], weight))
        one = classes[index[name]]
        if one.iterations is None and one.duration_s is None:
            where = ("classes", index[name])
            findings.add([Fault(where, "how long its jobs are is missing", allowed="iterations or duration_s")])
    together = file.arrival == "together"
    given = [key for key in ("rate_per_s", "load") if getattr(file, key) is not None]
    if together and given:
        findings.add([Fault(("jobs", given[0]), "plays no part for jobs that arrive together")])
    elif not together and len(given) != 1:
        findings.add([Fault(("jobs",), "one of rate_per_s and load is needed", allowed="one of them, not both")])
    return DrawnJobs(file.count or 0, tuple(drawn), file.rate_per_s, file.load, file.spread or "fixed")


def _identity(document: dict[str, Any], classes: tuple[JobClass, ...], jobs: tuple[TracedJob, ...] | DrawnJobs) -> str:
    """Hash of the instance with defaults written out; files count by their content, not by their names."""
    for entry, one in zip(document["classes"], classes, strict=True):
        if one.plan is not None:
            entry["plan"] = one.plan.sha256
        elif entry["plan"] is not None:
            entry["plan"] = [one.iteration_ms, one.compute_ms, one.allreduce_bytes, one.all_to_all_bytes]
    if not isinstance(jobs, DrawnJobs):
        document["jobs"]["trace"] = [(job.name, job.arrival_s, job.class_index, job.iterations) for job in jobs]
    return canonical_sha256(document)
