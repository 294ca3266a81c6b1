"""The fabrics of a shared cluster file."""

from __future__ import annotations

from collections import Counter

from topoopt.core.shared_cluster import ACROSS_GROUPS, MOST_EXACT_SERVERS, Fabric, FabricKind
from topoopt.files.faults import Fault
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


def fabrics_of(file: SharedClusterFile, findings: Findings) -> tuple[Fabric, ...]:
    """All of them, defaults filled in."""
    given = DEFAULT if file.fabrics is None else tuple(file.fabrics)
    names = Counter(one.name or one.kind for one in given)
    whole = file.cluster.degree * file.cluster.link_gbps
    fabrics = []
    for index, one in enumerate(given):
        where = ("fabrics", index)
        if names[one.name or one.kind] > 1:
            text = "a name more than once"
            findings.add([Fault(where, text, one.name or one.kind, "a name of its own for each fabric")])
        kind = FabricKind(one.kind)
        for key in ("oversubscription", "oversubscribed_at", "paths"):
            if getattr(one, key) is not None and kind is not FabricKind.FAT_TREE:
                findings.add([Fault((*where, key), f"plays no part for {one.kind}", allowed="for fat-tree")])
        if one.server_gbps is not None and kind is FabricKind.PARTITIONED:
            text = "the rate of a partition is that of the interfaces"
            findings.add([Fault((*where, "server_gbps"), text, allowed="cluster.link_gbps and cluster.degree")])
        allowed = PARTITION_PLACEMENTS if kind is FabricKind.PARTITIONED else SHARED_PLACEMENTS
        if one.placement is not None and one.placement not in allowed:
            text = f"no placement for {one.kind}"
            findings.add([Fault((*where, "placement"), text, one.placement, " or ".join(allowed))])
        if one.placement == "exact" and file.cluster.servers > MOST_EXACT_SERVERS:
            text = f"exact is for clusters of up to {MOST_EXACT_SERVERS} servers, this one has {file.cluster.servers}"
            findings.add([Fault((*where, "placement"), text, one.placement, "spread, or fewer cluster.servers")])
        if one.placement in ACROSS_GROUPS and file.scheduling.defragment:
            text = f"running jobs are not moved where the placement is {one.placement}"
            findings.add([Fault((*where, "placement"), text, one.placement, "best-fit, or no scheduling.defragment")])
        ratio = one.oversubscription or 1.0
        equal_cost = kind is FabricKind.FAT_TREE and ratio == 1.0
        rate = one.server_gbps if one.server_gbps is not None else None if equal_cost else whole
        fabrics.append(
            Fabric(
                name=one.name or one.kind,
                kind=kind,
                server_gbps=rate,
                oversubscription=ratio,
                oversubscribed_at=one.oversubscribed_at or "rack",
                paths=one.paths or "even",
                placement=one.placement or allowed[0],
            )
        )
    return tuple(fabrics)
