"""Collectives: what every rank has before and after, and schedules of sends that bring it about."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from topoopt.core.arrays import Bools, Int32s, Ints
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shown import Shown
from topoopt.core.stated import Stated

Path = tuple[int, ...]


class CollectiveOp(StrEnum):
    """What is done with a vector; its size is that of the whole vector at one rank."""

    ALLREDUCE = "allreduce"
    ALLGATHER = "allgather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"


REDUCING = frozenset({CollectiveOp.ALLREDUCE, CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE})
"""Those that add up what ranks hold."""


class CollectiveObjective(StrEnum):
    """What is sought: least time of a given size, most bytes a second, fewest steps, or the best for every size."""

    TIME = "time"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    PARETO = "pareto"


@dataclass(frozen=True, eq=False, repr=False)
class CollectiveProblem(Stated):
    """Kind `collective`: a schedule for one collective on one network.

    Attributes:
        name: of the instance.
        network: ranks, switches, links, and the latency of each link.
        collective: which one.
        vector_bytes: M, the whole vector; in an All-to-All each rank sends M / N bytes to each other one.
        root: rank of a broadcast or a reduction, from 0.
        message_us: time of a message besides its bytes and the latencies of its links.
        multicast: whether switches copy.
        relaying: whether ranks pass on what is not for them.
        objective: what is sought.
        trees_per_root: most trees of each root; None: as many as the best rate needs.
        steps: most steps; None: any number.
    """

    name: str
    network: RatedNetwork
    collective: CollectiveOp
    vector_bytes: int
    root: int = 0
    message_us: float = 0.0
    multicast: bool = False
    relaying: bool = True
    objective: CollectiveObjective = CollectiveObjective.TIME
    trees_per_root: int | None = None
    steps: int | None = None
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "collective"


@dataclass(frozen=True, eq=False, repr=False)
class VectorBlocks(Shown):
    """Contiguous pieces of the vector, which are sent whole; together they are all of it, in order.

    Attributes:
        units: int64[b], size of each; their sum is the whole vector.
        owner: int32[b], the rank (node) that has the block at the beginning (gather, broadcast, All-to-All) or is
            due it at the end (reductions); in an AllReduce where its reduction ends and its broadcast begins.
        target: int32[b], the rank an All-to-All takes it to; -1: all, or the owner.
    """

    units: Ints
    owner: Int32s
    target: Int32s

    @property
    def total(self) -> int:
        """Units of the whole vector."""
        return int(self.units.sum())


@dataclass(frozen=True, eq=False, repr=False)
class Sends(Shown):
    """Messages, in columns of equal length, sorted by step.

    Attributes:
        block: int32[k], what is sent.
        tail, head: int32[k], ranks (nodes) at the ends.
        step: int32[k], from 0; what is sent in a step was there before it.
        reduce: bool[k], whether the head adds it to what it has.
        route: int32[k], index into the routes of the schedule.
    """

    block: Int32s
    tail: Int32s
    head: Int32s
    step: Int32s
    reduce: Bools
    route: Int32s

    def __len__(self) -> int:
        return len(self.block)

    def sorted(self) -> Sends:
        """By step; then those first whose head comes next after their tail, so that not all begin with one head."""
        most = int(max(self.tail.max(initial=0), self.head.max(initial=0))) + 1
        order = np.lexsort((self.tail, self.block, (self.head - self.tail) % most, self.step))
        return Sends(*(getattr(self, name)[order] for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False, repr=False)
class CollectiveSchedule(Shown):
    """Blocks, and the messages that carry them.

    Attributes:
        blocks: of the vector.
        sends: messages.
        routes: nodes from tail to head, switches between; every one in use.
    """

    blocks: VectorBlocks
    sends: Sends
    routes: tuple[Path, ...]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.sends.step.max(initial=-1)) + 1

    def one_in(self, parts: int) -> CollectiveSchedule:
        """One block, message and route of so many, which makes no schedule but is as quick to write as a part of it."""
        blocks = VectorBlocks(*(column[::parts] for column in vars(self.blocks).values()))
        sends = Sends(*(column[::parts] for column in vars(self.sends).values()))
        return CollectiveSchedule(blocks, sends, self.routes[::parts])
