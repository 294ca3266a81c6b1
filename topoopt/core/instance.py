"""An instance: the problem a user states in a file."""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class BaselineSettings:
    """Fabrics the plan is compared with.

    Attributes:
        fat_tree_gbps: rate of the one NIC of a server on the fat-tree, Gbit/s; None: the rate at which the fat-tree
            costs as much as the direct-connect network (price table of the TopoOpt paper).
        fat_tree_oversubscription: downlink over uplink bandwidth at the top-of-rack switches, at least 1.
    """

    fat_tree_gbps: float | None = None
    fat_tree_oversubscription: float = 1.0


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
