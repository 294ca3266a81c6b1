"""The fabrics of a shared cluster file."""

from __future__ import annotations

from collections import Counter

from topoopt.core.shared_cluster import ACROSS_GROUPS, FAT_TREE, MOST_EXACT_SERVERS, PARTITIONED, WITH_FORMULA, Fabric
from topoopt.files.faults import Fault, Path
from topoopt.files.findings import Findings
from topoopt.kinds.shared_cluster.schema import FabricFile, SharedClusterFile

DEFAULT = (
    FabricFile(kind="partitioned"),
    FabricFile(kind="fat-tree"),
    FabricFile(kind="fat-tree", name="oversubscribed-fat-tree", oversubscription=2.0),
    FabricFile(kind="ideal-switch"),
)
PARTITION_PLACEMENTS = ("best-fit", "first-fit", *ACROSS_GROUPS)
SHARED_PLACEMENTS = ("random", "packed")


def fabrics_of(file: SharedClusterFile, findings: Findings, *, flows: bool) -> tuple[Fabric, ...]:
    """All of them, defaults filled in; `flows`: every flow is simulated."""
    given = DEFAULT if file.fabrics is None else tuple(file.fabrics)
    names = Counter(one.name or one.kind for one in given)
    fabrics = []
    for index, one in enumerate(given):
        where = ("fabrics", index)
        if names[one.name or one.kind] > 1:
            text = "a name more than once"
            findings.add([Fault(where, text, one.name or one.kind, "a name of its own for each fabric")])
        if one.server_gbps is not None and one.kind == PARTITIONED:
            text = "the rate of a partition is that of the interfaces"
            findings.add([Fault((*where, "server_gbps"), text, allowed="cluster.link_gbps and cluster.degree")])
        if one.placement is not None and file.jobs.at_once is not None:
            text, allowed = "jobs at once have the same servers on all fabrics", "jobs.placement"
            findings.add([Fault((*where, "placement"), text, one.placement, allowed)])
        fabrics.append((_with_flows if flows else _with_formula)(file, one, where, findings))
    return tuple(fabrics)


def _whole(file: SharedClusterFile) -> float:
    """All interfaces of a server together, Gbit/s."""
    return file.cluster.degree * file.cluster.link_gbps


def _with_flows(file: SharedClusterFile, one: FabricFile, where: Path, findings: Findings) -> Fabric:
    """A fabric whose flows are simulated; what the table has is known where the simulator is."""
    if one.kind == PARTITIONED:
        for key in ("oversubscription", "oversubscribed_at", "paths", "shape"):
            if getattr(one, key) is not None:
                findings.add([Fault((*where, key), "plays no part for partitioned")])
    if one.paths == "even":
        text = "flows are simulated on their paths"
        findings.add([Fault((*where, "paths"), text, one.paths, "hashed, spread or sprayed")])
    thinned = one.kind == FAT_TREE and (one.oversubscription or 1.0) > 1.0
    return Fabric(
        name=one.name or one.kind,
        kind=one.kind,
        server_gbps=_whole(file) if one.server_gbps is None and thinned else one.server_gbps,
        oversubscription=one.oversubscription,
        oversubscribed_at=one.oversubscribed_at,
        paths=one.paths or "hashed",
        shape=None if one.shape is None else tuple(one.shape),
        placement=file.jobs.placement or "random",
    )


def _with_formula(file: SharedClusterFile, one: FabricFile, where: Path, findings: Findings) -> Fabric:
    """A fabric on which contention has a formula."""
    if one.kind not in WITH_FORMULA:
        allowed = ", ".join(WITH_FORMULA) + "; others with contention: flows"
        findings.add([Fault((*where, "kind"), "contention has no formula on such a fabric", one.kind, allowed)])
    for key in ("oversubscription", "oversubscribed_at", "paths"):
        if getattr(one, key) is not None and one.kind != FAT_TREE:
            findings.add([Fault((*where, key), f"plays no part for {one.kind}", allowed="for fat-tree")])
    if one.paths in ("spread", "sprayed"):
        text = "contention by a formula knows no such paths"
        findings.add([Fault((*where, "paths"), text, one.paths, "even or hashed; others with contention: flows")])
    if one.shape is not None:
        findings.add([Fault((*where, "shape"), f"plays no part for {one.kind}", allowed="for a torus")])
    placements = PARTITION_PLACEMENTS if one.kind == PARTITIONED else SHARED_PLACEMENTS
    if one.placement is not None and one.placement not in placements:
        text = f"no placement for {one.kind}"
        findings.add([Fault((*where, "placement"), text, one.placement, " or ".join(placements))])
    if one.placement == "exact" and file.cluster.servers > MOST_EXACT_SERVERS:
        text = f"exact is for clusters of up to {MOST_EXACT_SERVERS} servers, this one has {file.cluster.servers}"
        findings.add([Fault((*where, "placement"), text, one.placement, "spread, or fewer cluster.servers")])
    if one.placement in ACROSS_GROUPS and file.scheduling.defragment:
        text = f"running jobs are not moved where the placement is {one.placement}"
        findings.add([Fault((*where, "placement"), text, one.placement, "best-fit, or no scheduling.defragment")])
    ratio = one.oversubscription or 1.0
    equal_cost = one.kind == FAT_TREE and ratio == 1.0
    return Fabric(
        name=one.name or one.kind,
        kind=one.kind,
        server_gbps=one.server_gbps if one.server_gbps is not None else None if equal_cost else _whole(file),
        oversubscription=ratio,
        oversubscribed_at=one.oversubscribed_at or "rack",
        paths=one.paths or "even",
        placement=one.placement or file.jobs.placement or placements[0],
    )
