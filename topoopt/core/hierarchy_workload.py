"""Workloads of hierarchical networks: compute times and collectives of one training iteration, per NPU.

Times are nanoseconds and sizes bytes, so that bytes / (GB/s) is nanoseconds (1 GB/s = 10^9 bytes/s).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from topoopt.core.shown import Shown


class Collective(StrEnum):
    """What is communicated. Sizes: the buffer every rank holds; of an all-gather the shard a rank starts with."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    POINT_TO_POINT = "point-to-point"  # to the next rank of the communicator: each dimension it spans passes the whole


class Loop(StrEnum):
    """How compute and communication of an iteration follow each other.

    - `no-overlap`: all phases of all layers one after the other.
    - `dp-overlap`: the weight gradient of a layer, computed and communicated, runs beside the communication of its
      input gradient: sum fwd (compute + comm) + sum (ig compute + max(ig comm, wg compute + wg comm)).
    - `dag`: tasks with predecessors; the iteration is the longest path.
    """

    NO_OVERLAP = "no-overlap"
    DP_OVERLAP = "dp-overlap"
    DAG = "dag"


@dataclass(frozen=True)
class Communicator:
    """Groups of ranks that communicate with each other.

    Attributes:
        name: of the parallelism, for people.
        ranks: ranks of a group in each dimension; 1 where the groups do not extend.
    """

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class CollectiveCall(Shown):
    """One collective.

    Attributes:
        collective: what is done.
        size_bytes: see `Collective`.
        communicator: position in the communicators of the workload.
    """

    collective: Collective
    size_bytes: float
    communicator: int


@dataclass(frozen=True, repr=False)
class LayerPhase(Shown):
    """Compute, then collectives one after the other."""

    compute_ns: float = 0.0
    communications: tuple[CollectiveCall, ...] = ()


@dataclass(frozen=True, repr=False)
class Layer(Shown):
    """A layer with its three phases; `repeat` stands for so many equal layers."""

    name: str
    forward: LayerPhase = LayerPhase()
    input_gradient: LayerPhase = LayerPhase()
    weight_gradient: LayerPhase = LayerPhase()
    repeat: int = 1


@dataclass(frozen=True)
class Task:
    """A node of a dependency graph; `after` are positions of tasks before it, all smaller than its own."""

    name: str
    phase: LayerPhase
    after: tuple[int, ...] = ()


@dataclass(frozen=True, repr=False)
class HierarchicalWorkload(Shown):
    """One training job.

    Attributes:
        name: of the job.
        loop: see `Loop`; `dag` uses `tasks`, the others `layers`.
        communicators: groups its collectives run in.
        layers, tasks: what an iteration consists of.
        weight: of its iteration time in the objective.
        strategy: degrees of parallelism it was made with, by name; empty if it was given layer by layer.
    """

    name: str
    loop: Loop
    communicators: tuple[Communicator, ...]
    layers: tuple[Layer, ...] = ()
    tasks: tuple[Task, ...] = ()
    weight: float = 1.0
    strategy: tuple[tuple[str, int], ...] = ()
