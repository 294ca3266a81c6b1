"""The solution of a training job: the plan found, what was computed about it, and where it came from.

Every number here was computed by `topoopt.simulate` or `topoopt.verify`, none is a solver's claim. Times are ms, sizes
bytes. Wall-clock times and dates are kept out, so that the same seed gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.bill import FabricPrices
from topoopt.core.cluster import Cluster
from topoopt.core.columns import Columns, links_of, listed
from topoopt.core.demand import Demand
from topoopt.core.link_tree import LinkTree
from topoopt.core.plan import Plan
from topoopt.core.shown import Shown
from topoopt.core.solution import SolutionHead
from topoopt.core.strategy import Strategy, StrategyCertificate
from topoopt.core.units import bytes_per_ms


@dataclass(frozen=True)
class Breakdown:
    """Iteration time along its critical path: the four terms sum to the iteration time.

    Attributes:
        compute_ms: operators on the critical path.
        model_parallel_ms: waiting for model-parallel transfers.
        allreduce_ms: waiting for AllReduces, inside servers and over the network.
        idle_ms: anything else (0 up to rounding).
    """

    compute_ms: float
    model_parallel_ms: float
    allreduce_ms: float
    idle_ms: float

    @classmethod
    def along(cls, path: Sequence[Span], total_ms: float) -> Self:
        """Of an iteration of this length, ms, with this critical path."""
        spent = dict.fromkeys(("forward", "backward", "transfer", "allreduce"), 0.0)
        for step in path:
            spent[step.kind] += step.end_ms - step.start_ms
        compute_ms = spent["forward"] + spent["backward"]
        idle_ms = total_ms - compute_ms - spent["transfer"] - spent["allreduce"]
        return cls(compute_ms, spent["transfer"], spent["allreduce"], idle_ms)

    @property
    def exposed_communication_ms(self) -> float:
        """Communication on the critical path."""
        return self.model_parallel_ms + self.allreduce_ms


@dataclass(frozen=True)
class Span:
    """A bar of the timeline, or a step of the critical path.

    `lane` is the server of a compute span, the sender of a transfer, -1 for an AllReduce; `kind` is `forward`,
    `backward`, `transfer` or `allreduce`.
    """

    lane: int
    kind: str
    label: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """Outcome of simulating one iteration of a plan.

    Attributes:
        time_model: name of the time model.
        link_bytes: float64[m], bytes carried by each arc of the topology, in its arc order.
        timeline: compute, transfers and AllReduces, in the order of their starts; where there are very many, those of
            a server that follow each other are one.
        timeline_servers_left_out: that the timeline has no room for, none of them on the critical path.
        critical_path: first to last.
    """

    time_model: str
    link_bytes: Floats
    timeline: tuple[Span, ...]
    timeline_servers_left_out: int
    critical_path: tuple[Span, ...]

    @property
    def iteration_time_ms(self) -> float:
        """When the last task ends."""
        return self.critical_path[-1].end_ms if self.critical_path else 0.0


@dataclass(frozen=True, repr=False)
class FabricGraph(Shown):
    """Direct links of a fabric, and the rings of AllReduces on it.

    Attributes:
        links: (tail, head, parallel links), every direction of its own.
        rings: orders of all groups, one or more each, of equal shares of the payload; the path of a pair is drawn with
            the seed.
    """

    links: tuple[tuple[int, int, int], ...]
    rings: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, repr=False)
class Baseline(Shown):
    """The same job on another fabric, with the best strategy found for it.

    Attributes:
        fabric: its name among the baselines of the instance.
        iteration_time_ms: by `rounds`.
        description: the fabric in words.
        strategy: that takes this time.
        graph: links and rings, where servers are linked to each other; None: switches.
    """

    fabric: str
    iteration_time_ms: float
    description: str
    strategy: Strategy
    graph: FabricGraph | None = None


@dataclass(frozen=True)
class ConvergencePoint:
    """Best iteration time known after so many simulated proposals, and the phase that found it."""

    proposals: int
    phase: str
    best_ms: float


@dataclass(frozen=True, repr=False)
class OperatorChoice(Shown):
    """What the strategy does with one operator (for people; `plan.strategy` is what counts).

    `memory_bytes` is that of one part, over all GPUs of its server.
    """

    name: str
    kind: str
    split: str
    servers: tuple[int, ...]
    forward_ms: float
    backward_ms: float
    weight_bytes: int
    memory_bytes: int


@dataclass(frozen=True, eq=False, repr=False)
class JointBound(Shown):
    """What no plan of a tiny job beats in the bulk-synchronous model (compute, then communication), with its proof.

    Attributes:
        bound_ms: C + theta of every plan is at least that.
        tree: what proves it.
    """

    bound_ms: float
    tree: LinkTree


@dataclass(frozen=True, eq=False, repr=False)
class JobSolution(SolutionHead):
    """Result of `topoopt solve` on a co-optimisation instance.

    Attributes, besides those of `SolutionHead`:
        objective: iteration time, ms.
        bound: proven lower bound over all strategies, topologies and routes.
        cluster: of the instance.
        workload_name, samples: model and global batch.
        plan: what to run.
        operators: the strategy in words.
        demand: what the plan asks of the network.
        evaluation: simulated iteration.
        initial_ms: iteration time of data parallelism on TotientPerms, before any search; None: it does not fit the
            memory, and is no plan.
        baselines: the same job on other fabrics.
        convergence: progress of the search.
        certificate: proof of the bound, where its formula needs one.
        prices: of the plan's network and of the fabrics of the baselines; None: not counted.
        joint: of method `joint`; None: none was proven.
    """

    cluster: Cluster
    workload_name: str
    samples: int
    plan: Plan
    operators: tuple[OperatorChoice, ...]
    demand: Demand
    evaluation: Evaluation
    initial_ms: float | None
    baselines: tuple[Baseline, ...]
    convergence: tuple[ConvergencePoint, ...]
    certificate: StrategyCertificate | None = None
    prices: FabricPrices | None = None
    joint: JointBound | None = None

    @property
    def gpu_memory_bytes(self) -> float:
        """Memory that a GPU of the fullest server needs, the parts of a server spread over its GPUs evenly."""
        needed = [0] * self.cluster.servers
        for operator in self.operators:
            for server in operator.servers:
                needed[server] += operator.memory_bytes
        return max(needed) / self.cluster.gpus_per_server

    @property
    def breakdown(self) -> Breakdown:
        """Of the iteration time, along the critical path."""
        return Breakdown.along(self.evaluation.critical_path, self.objective.value)

    @property
    def busiest_server_compute_ms(self) -> float:
        """Compute time of the server that computes longest."""
        spent = [0.0] * self.cluster.servers
        for operator in self.operators:
            for server in operator.servers:
                spent[server] += operator.forward_ms + operator.backward_ms
        return max(spent)

    @property
    def link_utilisation(self) -> Floats:
        """float64[m]: part of the iteration in which each arc is busy, in the arc order of the topology."""
        total_ms, carried = self.objective.value, self.evaluation.link_bytes
        rate = self.plan.topology.multiplicity * bytes_per_ms(self.cluster.link_gbps)
        with np.errstate(over="ignore"):  # of a damaged file
            return np.asarray(carried / rate / total_ms if total_ms > 0 else np.zeros(len(carried)))

    @property
    def bandwidth_tax(self) -> float:
        """Bytes carried over links by bytes demanded (TopoOpt, NSDI'23, section 5.4); 1 if nothing is demanded."""
        demanded = float(self.demand.model_parallel_bytes.sum())
        demanded += sum(2.0 * (len(group.members) - 1) * group.payload_bytes for group in self.demand.allreduce)
        return float(self.evaluation.link_bytes.sum()) / demanded if demanded > 0 else 1.0

    @property
    def diameter_bound(self) -> float:
        """d n^(1/d) of TotientPerms (NSDI'23, theorem 1), in hops."""
        degree = self.cluster.degree
        return degree * float(self.cluster.servers ** (1 / degree)) if degree else 0.0

    def columns(self) -> dict[str, Columns]:
        """As of all solutions; `figures` with the breakdown and what else follows, `links` with bytes and utilisation,
        `routes`, `rings`, `schedules` where there are any, and the `timeline`.
        """
        plan, arcs = self.plan, links_of(self.plan.topology)
        carried = {"bytes": self.evaluation.link_bytes, "utilisation": self.link_utilisation}
        follows = {
            **asdict(self.breakdown),
            "busiest_server_compute_ms": self.busiest_server_compute_ms,
            "bandwidth_tax": self.bandwidth_tax,
        }
        owner = np.repeat(np.arange(len(plan.routes.source)), np.diff(plan.routes.pair_ptr))
        routes: Columns = {
            "source": plan.routes.source[owner],
            "target": plan.routes.target[owner],
            "share": plan.routes.share,
            "path": [list(plan.routes.path(index)) for index in range(len(owner))],
        }
        schedules: dict[str, Columns] = {}
        if plan.schedules:  # below_bytes -1: any more
            stated = ("from_bytes", "method", "pieces", "steps")
            schedules["schedules"] = {
                "members": [list(one.members) for one in plan.schedules],
                **{name: [getattr(one, name) for one in plan.schedules] for name in stated},
                "below_bytes": [-1 if one.below_bytes is None else one.below_bytes for one in plan.schedules],
            }
        rings = [(group, ring) for group in plan.rings for ring in group.rings]
        known = super().columns()
        return {
            **known,
            "figures": {**known["figures"], **{name: [value] for name, value in follows.items()}},
            "links": {**arcs, **carried},
            "routes": routes,
            "rings": {
                "members": [list(group.members) for group, _ in rings],
                "order": [list(ring.order) for _, ring in rings],
                "share": [ring.share for _, ring in rings],
            },
            **schedules,
            "timeline": listed(self.evaluation.timeline),
        }
