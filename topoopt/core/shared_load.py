"""A fixed number of jobs run together on one cluster, drawn from classes: the shared-cluster experiment of TopoOpt.

NSDI'23, section 5.6 and Fig 16: the same jobs in isolated direct-connect shards, and on fabrics they share.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from topoopt.core.cluster import Cluster
from topoopt.core.job import CoOptimisation, FabricChoice
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shown import Displayed, Shown

SHARDS = "direct-connect"
"""Name of the fabric on which every job has a topology of its own."""


class JobPlacement(StrEnum):
    """Which servers a job gets: any, without replacement, or consecutive ones of racks taken in random order."""

    RANDOM = "random"
    RACK_LOCAL = "rack-local"


class RankOrder(StrEnum):
    """Which of its servers is server i of a job, and so the order of its rings: as drawn, or ascending."""

    RANDOM = "random"
    SORTED = "sorted"


@dataclass(frozen=True, repr=False)
class JobClass(Shown):
    """A kind of job.

    Attributes:
        name: for tables.
        share: of this class among the jobs; shares of all classes sum to 1.
        servers: of one job.
        job: what it does; None: only times are known.
        times_ms: without `job`: iteration times on its own shard, one of which is drawn for each job.
    """

    name: str
    share: float
    servers: int
    job: CoOptimisation | None
    times_ms: tuple[float, ...] = ()


@dataclass(frozen=True, repr=False)
class SharedLoadProblem(Displayed):
    """Kind `shared-load`.

    Attributes:
        cluster: all servers; GPUs and their memory are those of the classes.
        classes: with shares.
        loads: numbers of jobs at once.
        repetitions: draws of jobs and servers for each load.
        fabrics: compared; the objective is the mean iteration time on the first.
        placement, rank_order: on fabrics that jobs share.
        rack_servers: of one rack, for rack-local placement.
        time_model: `fluid` (max-min fair) or `rounds`.
        search: seed of all draws; proposals of each strategy search; time limit of all.
    """

    name: str
    cluster: Cluster
    classes: tuple[JobClass, ...]
    loads: tuple[int, ...]
    repetitions: int
    fabrics: tuple[FabricChoice, ...]
    placement: JobPlacement
    rank_order: RankOrder
    rack_servers: int
    time_model: str
    search: SearchSettings
    source: str = ""
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "shared-load"
