"""An instance file of kind `shared-load` to the domain object: all checks, the classes read from files of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.fat_tree import fat_tree_arity
from topoopt.core.job import CoOptimisation
from topoopt.core.shared_load import SHARDS, JobClass, JobPlacement, RankOrder, SharedLoadProblem
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document, parse_document
from topoopt.files.faults import Fault, Path, value_text
from topoopt.files.findings import Findings
from topoopt.kinds.job.read import read_co_optimisation
from topoopt.kinds.shared_cluster.flows_schema import MAX_JOBS, JobClassFile, SharedClusterFile, SharedLoadFile

OWN_KEYS = ("degree", "link_gbps", "links", "hop_latency_us", "ring_round_latency_us")
"""What the cluster says instead of the instances of the classes."""


def read_shared_load(document: Document) -> SharedLoadProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, and with those of its classes.
    """
    findings = Findings()
    file = findings.shape(SharedLoadFile, document)
    classes: list[JobClass] = []
    if file is not None:
        findings.add(_faults(file))
        classes = _classes(file, document, findings)
        findings.add(_size_faults(file, classes))
    findings.refuse(document)
    if file is None:
        raise AssertionError("an instance file was neither built nor refused")
    cluster = file.cluster
    return SharedLoadProblem(
        name=file.name,
        cluster=_cluster(cluster),
        classes=tuple(classes),
        loads=tuple(file.loads),
        repetitions=file.repetitions,
        fabrics=tuple(each.build() for each in file.fabrics),
        placement=JobPlacement(file.placement),
        rank_order=RankOrder(file.rank_order),
        rack_servers=cluster.rack_servers or fat_tree_arity(cluster.servers) // 2,
        time_model=file.time_model,
        search=file.search.build(),
        source=document.file,
        sha256=_identity(file, classes),
        notes=tuple(f"{one.name}: {note}" for one in classes if one.job for note in one.job.notes),
    )


def _cluster(file: SharedClusterFile) -> Cluster:
    return Cluster(
        servers=file.servers,
        gpus_per_server=1,
        degree=file.degree,
        link_gbps=file.link_gbps,
        links=LinkDirection(file.links),
        hop_latency_us=file.hop_latency_us,
        ring_round_latency_us=file.ring_round_latency_us,
    )


def _faults(file: SharedLoadFile) -> list[Fault]:
    faults = []
    for key, names in (
        ("classes", [one.name for one in file.classes]),
        ("fabrics", [each.build().name for each in file.fabrics]),
    ):
        for place, name in enumerate(names):
            if name in names[:place]:
                faults.append(Fault((key, place, "name"), "name used twice", value_text(name), "a name of its own"))
    for place, load in enumerate(file.loads):
        if load in file.loads[:place]:
            faults.append(Fault(("loads", place), "load given twice", str(load)))
    jobs = sum(file.loads) * file.repetitions
    if jobs > MAX_JOBS:
        faults.append(Fault(("repetitions",), "too many jobs in all", str(jobs), f"at most {MAX_JOBS}"))
    for place, each in enumerate(file.fabrics):
        if each.fabric == SHARDS:
            faults += [
                Fault(("fabrics", place, key), "a shard has no such setting", str(getattr(each, key)))
                for key in ("nic_gbps", "oversubscription", "layer", "shape")
                if getattr(each, key) is not None
            ]
    for place, one in enumerate(file.classes):
        faults += _class_faults(file, one, ("classes", place))
    return faults


def _class_faults(file: SharedLoadFile, one: JobClassFile, where: Path) -> list[Fault]:
    if (one.file is None) == (one.times_ms is None):
        return [Fault(where, "exactly one source of iteration times", allowed="either file or times_ms")]
    if one.file is not None:
        message, allowed = "the file says how many servers a job has", "only beside times_ms"
        return [] if one.servers is None else [Fault((*where, "servers"), message, str(one.servers), allowed)]
    faults = []
    if one.servers is None:
        faults.append(Fault((*where, "servers"), "missing", allowed="servers of one job"))
    shared = [each.build().name for each in file.fabrics if each.fabric != SHARDS]
    if shared:
        message = f"times of a shard say nothing about {', '.join(shared)}"
        faults.append(Fault((*where, "times_ms"), message, allowed=f"file, or {SHARDS} as the only fabric"))
    return faults


def _classes(file: SharedLoadFile, document: Document, findings: Findings) -> list[JobClass]:
    total = sum(one.share for one in file.classes)
    classes = []
    for place, one in enumerate(file.classes):
        job: CoOptimisation | None = None
        servers = one.servers or 0
        if one.file is not None:
            name = one.file
            job = findings.attempt(lambda name=name: _job(name, file, document), ("classes", place, "file"))  # type: ignore[misc]
            if job is None:
                continue
            servers = job.cluster.servers
        classes.append(JobClass(one.name, one.share / total, servers, job, tuple(one.times_ms or ())))
    return classes


def _job(name: str, file: SharedLoadFile, document: Document) -> CoOptimisation:
    """The instance of a class, with the interfaces of this cluster.

    Raises:
        InputError: everything wrong with its file.
    """
    found = parse_document(FilePath(document.file).parent / name)
    data = found.data
    if not isinstance(data, dict) or data.get("kind") != "co-optimisation":
        kind = data.get("kind") if isinstance(data, dict) else data
        found.refuse([Fault(("kind",), "not a job", value_text(kind), "co-optimisation")])
    return read_co_optimisation(Document(found.file, _with_cluster(data, file.cluster), found.locate, found.faults))


def _with_cluster(data: Any, cluster: SharedClusterFile) -> Any:
    if not isinstance(data, Mapping) or not isinstance(data.get("cluster"), Mapping):
        return data
    return {**data, "cluster": {**data["cluster"], **{key: getattr(cluster, key) for key in OWN_KEYS}}}


def _size_faults(file: SharedLoadFile, classes: list[JobClass]) -> list[Fault]:
    """Loads that do not fit when all jobs are of the largest class."""
    largest = max((one.servers for one in classes), default=0)
    most = file.cluster.servers // largest if largest else file.cluster.servers
    return [
        Fault(("loads", place), "more jobs than fit", str(load), f"at most {most} jobs of {largest} servers")
        for place, load in enumerate(file.loads)
        if load > most
    ]


def _identity(file: SharedLoadFile, classes: list[JobClass]) -> str:
    """Hash with defaults written out; the instances of the classes count by their content."""
    content = file.model_dump(mode="json")
    for entry, one in zip(content["classes"], classes, strict=True):
        if one.job is not None:
            entry["file"] = one.job.sha256
    return canonical_sha256(content)
