"""What follows from the plan of a training job, and what its search notes on its way. Times are ms, sizes bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from topoopt.core.arrays import Floats
from topoopt.core.link_tree import LinkTree
from topoopt.core.shown import Shown
from topoopt.core.strategy import Strategy


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
    """The same job on another fabric.

    Attributes:
        fabric: its name among the baselines of the instance.
        iteration_time_ms: by `rounds`.
        description: the fabric in words.
        strategy: that takes this time.
    """

    fabric: str
    iteration_time_ms: float
    description: str
    strategy: Strategy


@dataclass(frozen=True)
class ConvergencePoint:
    """Best iteration time known after so many simulated proposals, and the phase that found it."""

    proposals: int
    phase: str
    best_ms: float


@dataclass(frozen=True)
class SearchLog:
    """What a search notes on its way; the page of the same run draws it, and no file holds it.

    Attributes:
        initial_ms: iteration time of data parallelism on TotientPerms, before any search; None: it does not fit the
            memory, and is no plan.
        points: progress of the search.
    """

    initial_ms: float | None
    points: tuple[ConvergencePoint, ...]


@dataclass(frozen=True, repr=False)
class OperatorChoice(Shown):
    """What the strategy does with one operator.

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
