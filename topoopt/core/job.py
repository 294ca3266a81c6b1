"""Kind `co-optimisation`: a training job on a cluster, and the fabrics its plan is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.search_settings import SearchSettings
from topoopt.core.stated import Stated
from topoopt.core.workload import Workload


@dataclass(frozen=True)
class FabricChoice:
    """A fabric to compare with; what is None is as the fabric has it by itself.

    Attributes:
        fabric: name in the table of fabrics.
        label: what it is called in results; empty: the name of the fabric.
        nic_gbps: rate of the one NIC of a server on a switched fabric, Gbit/s.
        oversubscription: downlink over uplink bandwidth, at least 1.
        layer: switches that are oversubscribed, `rack` or `aggregation`.
        shape: servers along each axis of a torus.
        ecmp: how a fat-tree takes a pair over its equal-cost paths: `hashed`, `spread` or `sprayed`.
    """

    fabric: str
    label: str = ""
    nic_gbps: float | None = None
    oversubscription: float | None = None
    layer: str | None = None
    shape: tuple[int, ...] | None = None
    ecmp: str | None = None

    @property
    def name(self) -> str:
        """What it is called in results."""
        return self.label or self.fabric


DEFAULT_FABRICS = tuple(map(FabricChoice, ("ideal-switch", "fat-tree", "full-fat-tree", "random-regular")))


@dataclass(frozen=True)
class BaselineSettings:
    """Fabrics the plan is compared with.

    Attributes:
        fat_tree_gbps: rate of the one NIC of a server on the fat-tree, Gbit/s; None: the rate at which the fat-tree
            costs as much as the direct-connect network (price table of the TopoOpt paper).
        fat_tree_oversubscription: downlink over uplink bandwidth at the top-of-rack switches, at least 1.
        fabrics: which, in order.
    """

    fat_tree_gbps: float | None = None
    fat_tree_oversubscription: float = 1.0
    fabrics: tuple[FabricChoice, ...] = DEFAULT_FABRICS


@dataclass(frozen=True, repr=False)
class CoOptimisation(Stated):
    """Kind `co-optimisation`: find strategy, topology and routes of least iteration time."""

    name: str
    cluster: Cluster
    workload: Workload
    search: SearchSettings = field(default_factory=SearchSettings)
    baselines: BaselineSettings = field(default_factory=BaselineSettings)
    source: str = ""
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "co-optimisation"

    @property
    def sharings(self) -> tuple[LinkSharing, ...]:
        """How a plan may have links shared, at least one way."""
        return self.search.link_sharing or (self.cluster.link_sharing,)

    def shared_as(self, cluster: Cluster) -> CoOptimisation:
        """The problem of a plan that is made: links are shared as on `cluster`."""
        return replace(self, cluster=replace(self.cluster, link_sharing=cluster.link_sharing))
