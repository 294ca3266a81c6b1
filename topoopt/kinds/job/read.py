"""An instance file of kind `co-optimisation` to the domain object: all checks, then the build."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path as FilePath

from topoopt.core.cluster import Cluster
from topoopt.core.job import CoOptimisation
from topoopt.core.units import GIB
from topoopt.core.workload import Workload
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.faults import Fault, Path, nearest_text, value_text
from topoopt.files.fields import MAX_OPERATORS, MAX_SERVERS
from topoopt.files.findings import Findings, fitting
from topoopt.files.profile_file import read_profile
from topoopt.kinds.job.operator_graph import graph_faults, to_workload
from topoopt.kinds.job.schema import (
    ClusterFile,
    CoOptimisationFile,
    GraphWorkload,
    ModelWorkload,
    OperatorTimes,
    workload_shape,
)
from topoopt.kinds.job.workload_limits import memory_faults, size_faults
from topoopt.workloads.devices import DEVICES
from topoopt.workloads.models import build_workload, find_model
from topoopt.workloads.parameters import complete_sizes
from topoopt.workloads.profile_costs import Profile, ProfileCosts
from topoopt.workloads.spec import CostModel

UNCHECKED_GIB = 1 << 40
"""Memory of a GPU when it is not to be checked."""

_TIMES: Path = ("workload", "operator_times")
_PROFILE: Path = (*_TIMES, "profile")


def _known_servers(raw: object) -> int | None:
    """n, if only that much of the cluster is right."""
    servers = raw.get("servers") if isinstance(raw, dict) else None
    right = isinstance(servers, int) and not isinstance(servers, bool) and 2 <= servers <= MAX_SERVERS
    return servers if right else None


def _check_model(raw: Mapping[str, object], findings: Findings) -> None:
    """Model name and sizes, also when the rest of the workload is wrong."""
    name, sizes = raw.get("model"), raw.get("sizes", {})
    if not isinstance(name, str):
        return
    try_name = findings.attempt(lambda: find_model(name), ("workload", "model"))
    if try_name is not None and isinstance(sizes, dict):
        findings.attempt(lambda: complete_sizes(try_name, sizes), ("workload", "sizes"))


def _check_times(times: OperatorTimes, folder: FilePath, findings: Findings) -> Profile | None:
    """Exactly one known source of operator times; the profile, if it is one."""
    if (times.device is None) == (times.profile is None):
        findings.add([Fault(_TIMES, "exactly one source of operator times", allowed="either device or profile")])
        return None
    if times.device is not None and times.device not in DEVICES:
        where = (*_TIMES, "device")
        findings.add([Fault(where, "no such device", value_text(times.device), nearest_text(times.device, DEVICES))])
    if times.profile is None:
        return None
    file = folder / times.profile
    try:
        regular = file.is_file()
    except (OSError, ValueError):
        regular = False
    if not regular:
        allowed = "a profile file, relative to the folder of the instance file"
        findings.add([Fault(_PROFILE, "no such file", value_text(times.profile), allowed)])
        return None
    return findings.attempt(lambda: read_profile(file), _PROFILE)


def _cluster(file: ClusterFile, device: str | None) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster, its GPU memory filled in from the device when the file does not speak of it."""
    memory_gib = file.gpu_memory_gib
    notes: tuple[str, ...] = ()
    if device is not None and "gpu_memory_gib" not in file.model_fields_set:
        memory_gib = float(DEVICES[device].memory_gib)
        notes = (f"memory of a GPU taken as {memory_gib:g} GiB, that of {device}",)
    memory = None if memory_gib is None else int(memory_gib * GIB)
    return dataclasses.replace(file.build(), gpu_memory_bytes=memory), notes


def _costs(times: OperatorTimes, profile: Profile | None, cluster: Cluster) -> CostModel:
    if profile is not None:
        return ProfileCosts(profile)
    device = DEVICES[str(times.device)]
    memory = cluster.gpu_memory_bytes
    # The device leaves out splits beyond its memory: it must know the memory the user states, not the catalogue's.
    return dataclasses.replace(device, memory_gib=UNCHECKED_GIB if memory is None else math.ceil(memory / GIB))


def _identity(file: CoOptimisationFile, profile: Profile | None) -> str:
    """Hash of the instance with defaults written out; a profile counts by its content, not by its name."""
    document = file.model_dump(mode="json")
    if "gpu_memory_gib" not in file.cluster.model_fields_set:
        del document["cluster"]["gpu_memory_gib"]
    if profile is not None:
        document["workload"]["operator_times"]["profile"] = {
            "servers": profile.servers,
            "samples": profile.samples,
            "operators": {
                key: {str(parts): dataclasses.asdict(entry) for parts, entry in table.items()}
                for key, table in profile.operators.items()
            },
        }
    return canonical_sha256(document)


def read_co_optimisation(document: Document) -> CoOptimisation:
    """Check and build.

    Args:
        document: its data are a mapping of this kind.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    raw = document.data if isinstance(document.data, dict) else {}
    findings = Findings()
    file = findings.shape(CoOptimisationFile, document)
    cluster_file = file.cluster if file else fitting(ClusterFile, raw.get("cluster"))
    raw_workload = raw.get("workload")
    workload_file: GraphWorkload | ModelWorkload | None = None
    profile: Profile | None = None
    if isinstance(raw_workload, dict) and workload_shape(raw_workload) == "GraphWorkload":
        listed = raw_workload.get("operators")
        if isinstance(listed, list) and len(listed) <= MAX_OPERATORS:
            servers = cluster_file.servers if cluster_file else _known_servers(raw.get("cluster"))
            findings.add(graph_faults(raw_workload, servers))
        workload_file = file.workload if file else fitting(GraphWorkload, raw_workload)
    elif isinstance(raw_workload, dict):
        _check_model(raw_workload, findings)
        times = fitting(OperatorTimes, raw_workload.get("operator_times"))
        if times is not None:
            profile = _check_times(times, FilePath(document.file).parent, findings)
        workload_file = file.workload if file else fitting(ModelWorkload, raw_workload)
    instance = None
    if cluster_file and workload_file and not document.faults and findings.clear_of("cluster", "workload"):
        device = workload_file.operator_times.device if isinstance(workload_file, ModelWorkload) else None
        cluster, notes = _cluster(cluster_file, device)
        workload = _build(workload_file, cluster, profile, findings)
        if workload and file:
            instance = CoOptimisation(
                name=file.name,
                cluster=cluster,
                workload=workload,
                search=file.search.build(),
                baselines=file.baselines.build(),
                source=document.file,
                sha256=_identity(file, profile),
                notes=notes,
            )
    return findings.settled(document, instance)


def _build(
    file: GraphWorkload | ModelWorkload, cluster: Cluster, profile: Profile | None, findings: Findings
) -> Workload | None:
    """The workload, its size and memory checked."""
    if isinstance(file, GraphWorkload):
        workload, positions = to_workload(file)

        def at(index: int) -> Path:
            return ("workload", "operators", positions[index])
    else:
        model = file
        built = findings.attempt(
            lambda: build_workload(
                model.model,
                model.sizes,
                servers=cluster.servers,
                gpus_per_server=cluster.gpus_per_server,
                costs=_costs(model.operator_times, profile, cluster),
                element_sizes=model.element_sizes,
            ),
            ("workload",) if profile is None else _PROFILE,
            source=profile.source if profile else None,
        )
        if built is None:
            return None
        workload = built

        def at(index: int) -> Path:
            return ("workload", "sizes")

    sizes = size_faults(workload, at)
    findings.add(sizes)
    findings.add(memory_faults(workload, cluster, at))
    return workload
