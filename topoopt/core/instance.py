"""An instance: the problem a user states in a file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from topoopt.core.cluster import Cluster
from topoopt.core.workload import Workload


@dataclass(frozen=True)
class RobustGoal:
    """The design whose worst single failure is best.

    Attributes:
        failures: what fails, `single-link`.
        within_percent: how much worse the design may be without failure than the best known, per cent; None: any.
    """

    failures: str = "single-link"
    within_percent: float | None = None


@dataclass(frozen=True)
class SearchSettings:
    """How hard to search.

    Attributes:
        method: name in the table of methods, or `auto`.
        budget: strategy proposals simulated in all, the reproducible limit.
        time_limit_s: wall-clock limit, None for none.
        seed: of every random choice.
        robust: asked for by method `robust`; None: any price of robustness.
    """

    method: str = "auto"
    budget: int | None = None
    time_limit_s: float | None = None
    seed: int = 0
    robust: RobustGoal | None = None

    def but(
        self,
        *,
        seed: int | None = None,
        time_limit_s: float | None = None,
        method: str | None = None,
        budget: int | None = None,
    ) -> SearchSettings:
        """The same but for what is not None."""
        wishes: dict[str, Any] = {"seed": seed, "time_limit_s": time_limit_s, "method": method, "budget": budget}
        return replace(self, **{name: wish for name, wish in wishes.items() if wish is not None})


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
    """

    fabric: str
    label: str = ""
    nic_gbps: float | None = None
    oversubscription: float | None = None
    layer: str | None = None
    shape: tuple[int, ...] | None = None

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


@dataclass(frozen=True)
class CoOptimisation:
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
