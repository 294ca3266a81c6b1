"""Collectives: what every rank holds before and after, schedules that bring it about, and bounds on their time.

A program of chunks orders actions on cells of memory. A message is a cell too: one action fills it, another empties it.
So one executor serves the schedules of all formats.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge, Le, Len, Lt

from topoopt.core.arrays import Bools, Int32s, Ints, stable_order
from topoopt.core.clos import ClosStatement
from topoopt.core.data import STRICT, Array, Label, Shown
from topoopt.core.proofs import Argument
from topoopt.core.rated_network import MOST_UNITS, RatedNetwork
from topoopt.core.result import AllReduceChoice, Certificate, ProblemBase, Result, SearchSettings

MAX_NODES = 8192
MAX_BLOCKS = 2_000_000
MAX_SENDS = 4_000_000
MAX_HOPS = 1024
MAX_FRONT = 10_000
MAX_TIME_US = 1e30

Node = Annotated[int, Ge(0), Lt(MAX_NODES)]

Path = tuple[int, ...]

SwitchGroup = tuple[tuple[int, int], ...]
"""Switches and whole weights, over which a message is divided in proportion."""


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


def bus_factor(collective: CollectiveOp, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth, as nccl-tests states both: what a rank sends of the vector."""
    if collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE):
        return 1.0
    return (2 if collective is CollectiveOp.ALLREDUCE else 1) * (ranks - 1) / ranks


CollectiveObjective = Literal["time", "throughput", "latency", "pareto"]
"""What is sought: least time of a given size, most bytes a second, fewest steps, or the best for every size."""


@dataclass(frozen=True, eq=False, repr=False)
class CollectiveProblem(ProblemBase):
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
        groups: process groups that run the collective at once, each on a vector of its own, nodes of each; empty: all
            ranks are one. What is no member of a group forwards for it, as switches do.
        shares: of every process group, how many times `vector_bytes` its vector has; empty: once.
        trees_per_root: most trees of each root; None: as many as the best rate needs.
        steps: most steps; None: any number.
        fabric: Clos fabric that the network is made of; None: another network.
        server_gbytes_per_s: with it, rate of a rank into the switch of its server; None: there is none.
    """

    name: str
    network: RatedNetwork
    collective: CollectiveOp
    vector_bytes: int
    root: int = 0
    message_us: float = 0.0
    multicast: bool = False
    relaying: bool = True
    objective: CollectiveObjective = "time"
    groups: tuple[tuple[int, ...], ...] = ()
    shares: tuple[int, ...] = ()
    trees_per_root: int | None = None
    steps: int | None = None
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()
    fabric: ClosStatement | None = None
    server_gbytes_per_s: float | None = None

    kind = "collective"

    @property
    def members(self) -> tuple[Ints, ...]:
        """Nodes of the members of every process group, ascending."""
        return tuple(np.array(group, dtype=np.int64) for group in self.groups) or (self.network.ranks,)

    @property
    def vectors(self) -> tuple[int, ...]:
        """Times that the vector of every process group has `vector_bytes`."""
        return self.shares or (1,) * len(self.members)


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
        """Units of the vector, all blocks together."""
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
        blocks, steps = (int(own.max(initial=0)) + 1 for own in (self.block, self.step))
        ahead = (self.head - self.tail) % most
        if steps * blocks * most**2 < 1 << 62:  # one sort in place of four
            key = self.step.astype(np.int64) * most + ahead
            order = stable_order((key * blocks + self.block) * most + self.tail)
        else:
            order = np.lexsort((self.tail, self.block, ahead, self.step))
        return Sends(*(getattr(self, name)[order] for name in self.__dataclass_fields__))


BlockRow = tuple[int, int, int]
"""Units, owner, and target or -1."""

SendRow = tuple[int, int, int, int]
"""Step, block, route, and 1 where the receiver adds."""


@dataclass(frozen=True, eq=False, repr=False)
class CollectiveSchedule(Shown):
    """Blocks, and the messages that carry them.

    Attributes:
        blocks: of the vector.
        sends: messages.
        routes: nodes from tail to head, switches between; every one in use. Node V + k is the k-th group of switches.
        groups: switches over which a message is divided, in proportion to their weights.
    """

    blocks: VectorBlocks
    sends: Sends
    routes: tuple[Path, ...]
    groups: tuple[SwitchGroup, ...] = ()

    @classmethod
    def of_rows(cls, blocks: Sequence[BlockRow], routes: tuple[Path, ...], sends: Sequence[SendRow]) -> Self:
        """Return the schedule of its rows; the ends of a message are those of its route.

        Raises:
            IndexError: a message takes a route that does not exist.
        """
        table = np.array(blocks, dtype=np.int64).reshape(-1, 3)
        step, block, route, adds = np.array(sends, dtype=np.int64).reshape(-1, 4).T
        endpoints = np.array([(path[0], path[-1]) for path in routes], dtype=np.int32).reshape(-1, 2)
        narrow = (block.astype(np.int32), endpoints[route, 0], endpoints[route, 1], step.astype(np.int32))
        return cls(
            VectorBlocks(table[:, 0], table[:, 1].astype(np.int32), table[:, 2].astype(np.int32)),
            Sends(*narrow, adds > 0, route.astype(np.int32)),
            routes,
        )

    def rows(self) -> tuple[tuple[BlockRow, ...], tuple[SendRow, ...]]:
        """Return blocks and messages as rows, the inverse of `of_rows`."""
        blocks, sends = self.blocks, self.sends
        columns = (sends.step, sends.block, sends.route, sends.reduce.astype(np.int64))
        return (
            tuple(zip(blocks.units.tolist(), blocks.owner.tolist(), blocks.target.tolist(), strict=True)),
            tuple(zip(*(column.tolist() for column in columns), strict=True)),
        )

    @property
    def steps(self) -> int:
        return int(self.sends.step.max(initial=-1)) + 1


@dataclass(frozen=True)
class TimeLine:
    """Time of a schedule over the size of the vector: latency_us + us_per_mbyte * bytes / 1e6."""

    __pydantic_config__ = STRICT

    method: Label
    """that makes the schedule"""
    pieces: Annotated[int, Ge(1), Le(MAX_SENDS)]
    """of each block"""
    steps: Annotated[int, Ge(1), Le(MAX_SENDS)]
    """synchronous rounds"""
    latency_us: Annotated[float, Ge(0), Le(MAX_TIME_US)]
    """of all steps, besides bytes"""
    us_per_mbyte: Annotated[float, Ge(0), Le(MAX_TIME_US)]
    """us of 1e6 bytes of the vector"""

    def time_us(self, vector_bytes: float) -> float:
        """Return the time of all steps, one after the other."""
        return self.latency_us + self.us_per_mbyte * vector_bytes / 1e6

    def best_from(self, from_bytes: int) -> BestBySize:
        """Return the line as the best one for vectors of so many bytes and more."""
        return BestBySize(self.method, self.pieces, self.steps, self.latency_us, self.us_per_mbyte, from_bytes)


@dataclass(frozen=True)
class BestBySize(TimeLine):
    """A schedule that is best for vectors of `from_bytes` and more, up to where the next one takes over."""

    from_bytes: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class CollectivePlan(Shown):
    """The decisions of a collective: blocks of the vector, and the messages that carry them.

    The columns of blocks, and those of sends, have one entry for each block and for each send.
    """

    __pydantic_config__ = STRICT

    block_units: Annotated[Ints, Array(Annotated[int, Ge(1), Le(MOST_UNITS)], np.int64, MAX_BLOCKS)]
    """size of each block; together they are the whole vector, in order"""
    block_owner: Annotated[Int32s, Array(Node, np.int32, MAX_BLOCKS)]
    """node that has the block at first, or its sum at the end; in an AllReduce both"""
    block_target: Annotated[Int32s, Array(Annotated[int, Ge(-1), Lt(MAX_NODES)], np.int32, MAX_BLOCKS)]
    """node to which an All-to-All takes the block; -1 for all, or for the owner"""
    routes: Annotated[tuple[Annotated[tuple[Node, ...], Len(2, MAX_HOPS)], ...], Len(0, MAX_SENDS)]
    """nodes of a message, from sender to receiver, switches between"""
    send_step: Annotated[Int32s, Array(Annotated[int, Ge(0), Lt(MAX_SENDS)], np.int32, MAX_SENDS)]
    """in ascending order; what is sent in a step was at its sender before the step"""
    send_block: Annotated[Int32s, Array(Annotated[int, Ge(0), Lt(MAX_BLOCKS)], np.int32, MAX_SENDS)]
    """index of the block that is sent"""
    send_route: Annotated[Int32s, Array(Annotated[int, Ge(0), Lt(MAX_SENDS)], np.int32, MAX_SENDS)]
    """index of the route that it takes"""
    send_reduce: Annotated[Int32s, Array(Annotated[int, Ge(0), Le(1)], np.int32, MAX_SENDS)]
    """1 where the receiver adds the block to its own, 0 where it copies the block"""
    front: Annotated[tuple[TimeLine, ...], Len(0, MAX_FRONT)] = ()
    """for objective pareto: schedules that are best for some size of the vector, from small to large vectors"""
    switch_groups: Annotated[
        tuple[Annotated[tuple[tuple[Node, Annotated[int, Ge(1), Le(MOST_UNITS)]], ...], Len(2, MAX_NODES)], ...],
        Len(0, MAX_NODES),
    ] = ()
    """switches and weights; a route over node V + k is divided over the k-th of them in proportion"""

    @classmethod
    def of(cls, schedule: CollectiveSchedule, front: Iterable[TimeLine] = ()) -> CollectivePlan:
        """Return the plan that a schedule is."""
        blocks, sends = schedule.blocks, schedule.sends
        columns = (blocks.units, blocks.owner, blocks.target)
        reduce = sends.reduce.astype(np.int32)
        ordered = (sends.step, sends.block, sends.route, reduce)
        return cls(*columns, schedule.routes, *ordered, tuple(front), schedule.groups)

    @cached_property
    def schedule(self) -> CollectiveSchedule:
        """The schedule, senders and receivers by their routes.

        Raises:
            IndexError: a route does not exist.
        """
        first = np.array([route[0] for route in self.routes], dtype=np.int32)
        last = np.array([route[-1] for route in self.routes], dtype=np.int32)
        block, step, route = (np.ascontiguousarray(row) for row in (self.send_block, self.send_step, self.send_route))
        sends = Sends(block, first[route], last[route], step, self.send_reduce > 0, route)
        columns = (self.block_units, self.block_owner, self.block_target)
        return CollectiveSchedule(
            VectorBlocks(*map(np.ascontiguousarray, columns)), sends, self.routes, self.switch_groups
        )

    def thinned(self, factor: int) -> CollectivePlan:
        """Return one block, route and send of `factor`: no schedule, but written as fast as that part of the plan."""
        columns = {name: value[::factor] for name, value in vars(self).items() if name.startswith(("block_", "send_"))}
        return CollectivePlan(
            **columns, routes=self.routes[::factor], front=self.front, switch_groups=self.switch_groups
        )


CollectiveResult = Result[CollectiveProblem, CollectivePlan]


def bytes_per_unit(problem: CollectiveProblem, units: int) -> float:
    """Return the bytes of a unit of a schedule's blocks.

    Every process group has a vector; in an All-to-All every rank has one.
    """
    own = [len(ranks) if problem.collective is CollectiveOp.ALL_TO_ALL else 1 for ranks in problem.members]
    vectors = sum(count * share for count, share in zip(own, problem.vectors, strict=True))
    return vectors * problem.vector_bytes / units


# What limits any schedule.


def cut_certificate(nodes: Sequence[int]) -> Certificate:
    """Return the proof that a set of nodes limits the rate.

    Its ranks must send out more than its links carry any faster, or must receive it where something is reduced.
    """
    return Certificate(Argument.NETWORK_CUT, {"nodes": np.array(nodes, dtype=np.int64)})


def lengths_certificate(lengths: Ints) -> Certificate:
    """Return the proof by lengths of links: rate <= sum of units times lengths / sum of distances between ranks."""
    return Certificate(Argument.PAIR_LENGTHS, {"lengths": lengths})


def tree_certificate(lengths: Ints, symmetries: Sequence[Ints] = ()) -> Certificate:
    """Return the proof by lengths of links: rate <= sum of units times lengths / least arborescences of ranks.

    An AllReduce costs the least arborescence from a root and the least one to it, of the root where both are least.

    Args:
        lengths: int64[m], of links.
        symmetries: int64[V] each, permutations of nodes that keep ranks, process groups, units and lengths.
    """
    moved = np.concatenate([np.zeros(0, dtype=np.int64), *symmetries]).astype(np.int64)
    return Certificate(Argument.TREE_LENGTHS, {"lengths": lengths, "symmetries": moved})


# Collectives on circuits that are reconfigured between steps.


SteppedCollective = Literal["ring", "halving-doubling", "all-to-all"]
"""A collective in steps, in each of which every rank sends as much over the same distance.

`ring`: AllReduce: 2 (n - 1) steps to the neighbours, both ways round; `halving-doubling`: AllReduce: recursive
halving, then doubling: partners i xor 2^k; `all-to-all`: to the ranks s before and behind at once, s = 1, 2, ....
"""


@dataclass(frozen=True)
class SwitchedCollective:
    """A collective on circuits.

    A circuit takes a port at both ends and carries the rate each way. Circuits of distance s join rank i to i + s and
    i - s, half of the ports each; partners i xor 2^k are joined by all ports.

    Attributes:
        ranks: n; a power of two for halving and doubling.
        ports: d of a rank, an even number.
        vector_bytes: of the vector that each rank holds.
        bytes_per_s: rate of a circuit in each direction.
        step_s: latency of a step.
    """

    collective: SteppedCollective
    ranks: int
    ports: int
    vector_bytes: float
    bytes_per_s: float
    step_s: float


@dataclass(frozen=True)
class CircuitSchedule:
    """Which circuits each step has.

    Attributes:
        delay_s: to set circuits; all are dark meanwhile.
        steps: distance and bytes that a rank sends, of every step (of all-to-all to either side).
        circuits: for each step what is set: s > 0: circuits of distance s; -2^k: partners i xor 2^k.
        time_s: of all; the first circuits join neighbours.
        never_s: with these all the time.
        every_s: with circuits set for every step whose distance is another one.
        break_even_s: the longest delay with which setting any is faster than never; 0: none is.
    """

    delay_s: float
    steps: tuple[tuple[int, float], ...]
    circuits: tuple[int, ...]
    time_s: float
    never_s: float
    every_s: float
    break_even_s: float

    @property
    def times_set(self) -> int:
        """How often circuits are set during the collective."""
        return sum(a != b for a, b in zip((1, *self.circuits), self.circuits, strict=False))


RINGS, TREES, BREADTH_FIRST, FEWEST_STEPS = "rings", "trees", "bfb", "fewest-steps"
METHODS_OF = {
    AllReduceChoice.RINGS: frozenset[str](),
    AllReduceChoice.TREES: frozenset({TREES}),
    AllReduceChoice.BFB: frozenset({BREADTH_FIRST, FEWEST_STEPS}),
    AllReduceChoice.BEST: frozenset({TREES, BREADTH_FIRST, FEWEST_STEPS}),
}
"""Methods that make schedules, by what is chosen; only the best of all leaves some payloads on rings."""


@dataclass(frozen=True, eq=False, repr=False)
class GroupSchedule(Shown):
    """How AllReduces of a group run whose payloads are of some sizes.

    Servers outside the group pass on what they get, as switches do; they neither add nor copy.

    Attributes:
        members: servers of the group, ascending.
        from_bytes, below_bytes: payloads of at least, and of fewer bytes than that; None: any more.
        method: that made it.
        pieces: every block goes in so many equal pieces, each a step behind the one before.
        schedule: of whole blocks; its nodes are servers.
    """

    members: tuple[int, ...]
    from_bytes: int
    below_bytes: int | None
    method: str
    pieces: int
    schedule: CollectiveSchedule

    @property
    def steps(self) -> int:
        return self.schedule.steps + self.pieces - 1

    def covers(self, payload_bytes: int) -> bool:
        """Whether an AllReduce of so many bytes runs on it."""
        return self.from_bytes <= payload_bytes and (self.below_bytes is None or payload_bytes < self.below_bytes)


def schedule_for(
    schedules: Sequence[GroupSchedule], members: Sequence[int], payload_bytes: int
) -> GroupSchedule | None:
    """The schedule of an AllReduce; None: it runs on rings."""
    own = tuple(sorted(members))
    covering = (schedule for schedule in schedules if schedule.members == own and schedule.covers(payload_bytes))
    return next(covering, None)


ALL_RANKS = -1
"""In `expected`: the sum over all ranks, each once."""

UNKNOWN = -1
"""No epoch, no stated route."""


CellRange = tuple[int, str, int, int]
"""A named part of the memory of a rank: rank, name, first cell, number of cells."""


@dataclass(frozen=True)
class Defect:
    """What makes a schedule wrong: which law it breaks, and where."""

    law: str
    message: str


@dataclass(frozen=True)
class DeclaredFigures:
    """What a file or its user says of a schedule; None: nothing.

    Attributes:
        vector_bytes: M.
        time_us, algbw_gbytes_per_s: of the whole collective, and M over it.
        epoch_us: length of an epoch of the messages.
    """

    vector_bytes: float | None = None
    time_us: float | None = None
    algbw_gbytes_per_s: float | None = None
    epoch_us: float | None = None


NOTHING_DECLARED = DeclaredFigures()


@dataclass(frozen=True, eq=False, repr=False)
class Messages(Shown):
    """What goes over the network, in columns of equal length.

    Attributes:
        action: int64[k], the action that sends it.
        tail, head: int32[k], ranks at the ends.
        units: int64[k], size, in units of which the vector has `vector_units`.
        epoch: int32[k], when it starts; UNKNOWN: when its action may.
        piece: int64[k], what it is: equal ones are the same bytes, which a switch could copy.
        via: int32[k], index into `vias`; UNKNOWN: not stated.
    """

    action: Ints
    tail: Int32s
    head: Int32s
    units: Ints
    epoch: Int32s
    piece: Ints
    via: Int32s

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True, eq=False, repr=False)
class ChunkProgram(Shown):
    """A schedule that can be executed.

    Attributes:
        name: of the schedule.
        collective: what it is to do.
        ranks: names of the ranks, as the file has them.
        vector_units: size of the whole vector (in an All-to-All of that of each rank); 0: units are bytes.
        per_share: whether the vector has a share of each rank, so that ranks which a file forgets count.
        buffers: of all ranks, in the order of their cells.
        start: int64[s, 3], rows (cell, label, rank): what is there before: the part with that label of that rank.
        expected: int64[d, 3], rows (cell, label, rank or ALL_RANKS): what is to be there after.
        place_words: what the columns of `places` are.
        places: int32[a, p], where each action stands in the file.
        chain: int64[a], the thread block of each action; those of one are executed in their order.
        home: int32[a], the rank that executes it.
        moves: int64[m, 3], rows (action, to, from) sorted by action; cells that come to one cell are added up.
        after: int64[e, 2], rows (action, an earlier one).
        messages: over the network.
        vias: switches that a message passes, by their names in the file.
        declared: figures of the file.
        defects: found on reading.
        notes: what was assumed, and what runtimes are known to do.
        topology: network that the file states.
        exact: whether the file says which bytes are sent; if not, only who can know of whom is known.
    """

    name: str
    collective: CollectiveOp
    ranks: tuple[str, ...]
    vector_units: int
    per_share: bool
    buffers: tuple[CellRange, ...]
    start: Ints
    expected: Ints
    place_words: tuple[str, ...]
    places: Int32s
    chain: Ints
    home: Int32s
    moves: Ints
    after: Ints
    messages: Messages
    vias: tuple[tuple[str, ...], ...] = ()
    declared: DeclaredFigures = NOTHING_DECLARED
    defects: tuple[Defect, ...] = ()
    notes: tuple[str, ...] = ()
    topology: RatedNetwork | None = None
    exact: bool = True

    @property
    def cells(self) -> int:
        return self.buffers[-1][2] + self.buffers[-1][3] if self.buffers else 0

    def place(self, action: int) -> str:
        """Where an action stands in the file."""
        numbers = self.places[action].tolist()
        return ", ".join(f"{word} {number}" for word, number in zip(self.place_words, numbers, strict=True))

    def cell(self, cell: int) -> str:
        rank, name, first, _ = self.buffers[bisect_right(self.buffers, cell, key=lambda buffer: buffer[2]) - 1]
        return f"{name} {cell - first} of rank {self.ranks[rank]}"
