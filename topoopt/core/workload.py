"""A training job is a graph of operators; a strategy splits and places them, and one iteration becomes tasks.

Every operator produces one output tensor of `samples x output_elements` elements. A split cuts it into
`sample_ways x channel_ways x reduce_ways` parts, part index ``(a * channel_ways + b) * reduce_ways + e``:

* part (a, b, e) computes samples [a N/s, (a+1) N/s) and output channels [b C/c, (b+1) C/c);
* with `reduce_ways` r > 1 an operator that mixes channels reads only input channels [e I/r, (e+1) I/r) and yields a
  partial sum of its region;
* an operator that `mixes_channels` (dense, attention, ...) otherwise reads all channels of its samples, one that does
  not (elementwise) reads just the channels it writes;
* each part holds 1/(c r) of every weight; the s parts with equal (b, e) share it and all-reduce its gradient.

Backward transfers mirror the forward ones (FlexNet, TopoOpt artifact).

An operator in P parts at `offset` o occupies servers o + i n/P, i = 0..P-1 (strided placement, as in FlexNet), so P
divides n and every AllReduce group is a coset of a subgroup of Z_n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.data import Shown


@dataclass(frozen=True)
class Split:
    """One legal way to spread an operator over servers, with its cost per part.

    Attributes:
        sample_ways: parts along the batch.
        channel_ways: parts along the output channels.
        reduce_ways: parts along the input channels (partial sums).
        forward_ms: forward time of one part on one server.
        backward_ms: backward time of one part on one server.
        server_memory_bytes: memory one part takes in its server (over all its GPUs).
    """

    sample_ways: int
    forward_ms: float
    backward_ms: float
    server_memory_bytes: int
    channel_ways: int = 1
    reduce_ways: int = 1

    @property
    def parts(self) -> int:
        """Number of servers the operator is spread over."""
        return self.sample_ways * self.channel_ways * self.reduce_ways

    @property
    def label(self) -> str:
        """Short text, for instance `x16`, `x4 ch4`, `x1`."""
        text = f"x{self.sample_ways}"
        if self.channel_ways > 1:
            text += f" ch{self.channel_ways}"
        if self.reduce_ways > 1:
            text += f" red{self.reduce_ways}"
        return text


@dataclass(frozen=True)
class OperatorInput:
    """An input tensor: who produces it, and which fraction of each sample's elements is read (1 except in MoE)."""

    producer: int
    fraction: float = 1.0


@dataclass(frozen=True, repr=False)
class Operator(Shown):
    """One operator of the training graph.

    Attributes:
        name: unique name in the workload.
        kind: class of the operator (`dense`, `embedding`, `conv`, `attention`, `concat`, ...).
        output_elements: elements of the output tensor per sample.
        element_bytes: bytes of one output element when it is sent to another server.
        weight_elements: elements of every weight tensor (4-byte gradients are all-reduced, one AllReduce each).
        inputs: producers, by index in the workload; every producer stands before its consumers.
        splits: candidate splits, at least one.
        mixes_channels: whether an output channel needs all input channels.
        locally_reduced: whether the gradient is first all-reduced among the GPUs of a server (False for embedding
            tables, which live on one GPU).
        pinned_offset: the offset every placement must have, None if it is free; less than n / parts of every split.
    """

    name: str
    kind: str
    output_elements: int
    element_bytes: int
    weight_elements: tuple[int, ...]
    inputs: tuple[OperatorInput, ...]
    splits: tuple[Split, ...]
    mixes_channels: bool = True
    locally_reduced: bool = True
    pinned_offset: int | None = None


GRADIENT_BYTES = 4
"""Bytes of one gradient element in an AllReduce (fp32)."""


@dataclass(frozen=True, repr=False)
class Workload(Shown):
    """A model and its global batch.

    Attributes:
        name: model name.
        samples: global batch N; every `sample_ways` divides it.
        operators: in topological order.
    """

    name: str
    samples: int
    operators: tuple[Operator, ...]

    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For every operator, the indices of the operators that read its output."""
        out: list[list[int]] = [[] for _ in self.operators]
        for index, operator in enumerate(self.operators):
            for edge in operator.inputs:
                out[edge.producer].append(index)
        return tuple(tuple(users) for users in out)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights (and of one set of gradients)."""
        return GRADIENT_BYTES * sum(sum(operator.weight_elements) for operator in self.operators)


@dataclass(frozen=True)
class Placement:
    """Index of the chosen split, and offset (0 <= offset < n / parts)."""

    split: int
    offset: int


@dataclass(frozen=True, repr=False)
class Strategy(Shown):
    """One placement per operator, in workload order."""

    placements: tuple[Placement, ...]

    def servers(self, workload: Workload, operator: int, n: int) -> tuple[int, ...]:
        """Servers of an operator's parts, by part index."""
        placement = self.placements[operator]
        parts = workload.operators[operator].splits[placement.split].parts
        return tuple(placement.offset + part * (n // parts) for part in range(parts))

    def server_memory_bytes(self, workload: Workload, n: int) -> list[int]:
        needed = [0] * n
        for index, (operator, placement) in enumerate(zip(workload.operators, self.placements, strict=True)):
            for server in self.servers(workload, index, n):
                needed[server] += operator.splits[placement.split].server_memory_bytes
        return needed


@dataclass(frozen=True, repr=False)
class StrategyCase(Shown):
    """Multipliers that prove a bound for the strategies of one case.

    Attributes:
        laws: (name of a law, weight of it), weights above 0; a law that is not named has weight 0.
        memory: price of the memory of all servers, ms.
        prices: per pair of operators joined by edges, the price of each state of the producer and of the consumer, ms.
    """

    laws: tuple[tuple[str, float], ...]
    memory: float
    prices: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]


@dataclass(frozen=True, repr=False)
class StrategyCut(Shown):
    """Strategies divided in two by the state of one operator: `inside` for those in `states`, else `outside`.

    `inside` and `outside` are positions of nodes in the certificate, after that of the cut.
    """

    operator: int
    states: tuple[int, ...]
    inside: int
    outside: int


@dataclass(frozen=True, repr=False)
class StrategyCertificate(Shown):
    """Proof of a bound over all strategies: a tree of cuts whose leaves are cases, the root first.

    Attributes:
        nodes: the tree.
        classes: of servers by their number modulo it. The state of an operator is a usable split with, for each, the
            residues that its offset has modulo the gcd of its stride and the classes, ascending.
        fixed: operator whose offset is taken to be even, where the two classes may be exchanged; None: none.
    """

    nodes: tuple[StrategyCut | StrategyCase, ...]
    classes: int = 1
    fixed: int | None = None


def strided_groups(n: int) -> tuple[tuple[int, ...], ...]:
    """All cosets of subgroups of Z_n with at least two members: for each divisor k >= 2 ascending, offsets ascending.

    Coset (k, o) has members o + i n/k. There are sum over k of n/k of them.
    """
    return tuple(
        tuple(range(offset, n, n // size)) for size in range(2, n + 1) if n % size == 0 for offset in range(n // size)
    )


class TaskKind(IntEnum):
    """What a task occupies."""

    FORWARD = 0
    BACKWARD = 1
    TRANSFER = 2
    ALLREDUCE = 3


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """T tasks with their successors.

    Attributes:
        servers: n.
        kind: int8[T], a `TaskKind`.
        source: int32[T]; the server of a compute task, the sender of a transfer, -1 for an AllReduce.
        target: int32[T]; the receiver of a transfer, -1 otherwise.
        group: int32[T]; index in `groups` of an AllReduce over two or more servers, -1 otherwise (an AllReduce with
            group -1 costs its local time only).
        duration_ms: float64[T]; run time of a compute task, local (inside a server) time of an AllReduce, 0 otherwise.
        bytes: int64[T]; bytes of a transfer, payload of an AllReduce, 0 otherwise.
        operator: int32[T]; index of the operator the task belongs to (of the consumer for a transfer), or -1.
        successor_ptr: int64[T+1] and successor: int32[E]; tasks released by task t are
            successor[successor_ptr[t]:successor_ptr[t+1]].
        groups: AllReduce groups, members in ring order.
        operator_names: names for `operator`, may be empty.
    """

    servers: int
    kind: NDArray[np.int8]
    source: Int32s
    target: Int32s
    group: Int32s
    duration_ms: Floats
    bytes: Ints
    operator: Int32s
    successor_ptr: Ints
    successor: Int32s
    groups: tuple[tuple[int, ...], ...]
    operator_names: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, eq=False, repr=False)
class PathTable(Shown):
    """Paths between ordered pairs of nodes, traffic of a pair split over its paths.

    Attributes:
        nodes_total: number of nodes (servers, and switches where the fabric has any).
        source, target: int32[m], the ordered pairs, sorted by (source, target), distinct.
        pair_ptr: int64[m+1]; paths of pair i are pair_ptr[i]..pair_ptr[i+1].
        share: float64[P]; fraction of the pair's bytes on the path; sums to 1 per pair.
        path_ptr: int64[P+1]; nodes of path p are node[path_ptr[p]:path_ptr[p+1]], both ends included.
        node: int32[...].
    """

    nodes_total: int
    source: Int32s
    target: Int32s
    pair_ptr: Ints
    share: Floats
    path_ptr: Ints
    node: Int32s

    def path(self, index: int) -> tuple[int, ...]:
        """Nodes of path `index`."""
        return tuple(int(v) for v in self.node[self.path_ptr[index] : self.path_ptr[index + 1]])


@dataclass(frozen=True, repr=False)
class Ring(Shown):
    """One ring order of a group: member order[i] sends to order[i+1] (cyclically) along paths[i].

    Attributes:
        order: the members, each once.
        share: fraction of the group's AllReduce payload carried by this ring.
        paths: k node paths, paths[i] from order[i] to order[(i+1) % k], ends included.
    """

    order: tuple[int, ...]
    share: float
    paths: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, repr=False)
class GroupRings(Shown):
    """The rings that share the AllReduce of one group; shares sum to 1.

    `members` lists the servers of the group; AllReduce tasks refer to it by this exact tuple.
    """

    members: tuple[int, ...]
    rings: tuple[Ring, ...]


@dataclass(frozen=True, repr=False)
class AllReduceDemand(Shown):
    """Total payload (bytes of gradients) all-reduced by one group of servers in an iteration."""

    members: tuple[int, ...]
    payload_bytes: float

    @property
    def wire_bytes_per_member(self) -> float:
        """Bytes each member sends in a ring AllReduce: 2 (k-1)/k * payload."""
        k = len(self.members)
        return 2.0 * (k - 1) / k * self.payload_bytes if k > 1 else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Demand(Shown):
    """What the network must carry.

    Attributes:
        model_parallel_bytes: float64[n, n], bytes i -> j, forward plus backward; zero diagonal.
        allreduce: one entry per distinct group of two or more servers.
    """

    model_parallel_bytes: Floats
    allreduce: tuple[AllReduceDemand, ...]

    @property
    def servers(self) -> int:
        return int(self.model_parallel_bytes.shape[0])

    @property
    def allreduce_wire_bytes(self) -> float:
        """Bytes sent by all members of all ring AllReduces at one hop."""
        return sum(len(group.members) * group.wire_bytes_per_member for group in self.allreduce)


def ring_pair_bytes(demand: Demand, rings: Sequence[GroupRings], servers: int) -> Floats:
    """float64[n, n]: bytes each ring member sends to the next one, whatever servers forward them on the way.

    A member of a group of k sends 2 (k-1)/k of the payload in all, split over the rings by their shares; groups without
    rings send nothing here.
    """
    matrix = np.zeros((servers, servers))
    rings_of = {group.members: group.rings for group in rings}
    for wanted in demand.allreduce:
        for ring in rings_of.get(wanted.members, ()):
            order = np.array(ring.order, dtype=np.int64)
            np.add.at(matrix, (order, np.roll(order, -1)), wanted.wire_bytes_per_member * ring.share)
    return matrix


@dataclass(frozen=True, eq=False)
class TrafficFigures:
    """Traffic of one iteration on a topology with its routes and rings (TopoOpt, NSDI'23, section 5.4).

    Attributes:
        name: of the job.
        plan: what strategy on which topology, for people.
        servers, degree: of the cluster.
        allreduce_bytes, model_parallel_bytes: demanded, as sent by the members of the rings, and between servers.
        allreduce_link_bytes, model_parallel_link_bytes: float64[L], carried by each link; parallel links are links of
            their own that carry the same.
        byte_hops: float64[h + 1], part of the model-parallel bytes whose path has so many hops; empty without any.
        pair_hops: float64[h + 1], part of the routed ordered pairs whose path (each by its share) has so many hops.
        pair_bytes: float64[n, n], sent from row to column: by AllReduce from a ring member to the next, and
            model-parallel.
    """

    name: str
    plan: str
    servers: int
    degree: int
    allreduce_bytes: float
    model_parallel_bytes: float
    allreduce_link_bytes: Floats
    model_parallel_link_bytes: Floats
    byte_hops: Floats
    pair_hops: Floats
    pair_bytes: Floats

    @property
    def demanded_bytes(self) -> float:
        """Everything the network is asked to deliver."""
        return self.allreduce_bytes + self.model_parallel_bytes

    @property
    def link_bytes(self) -> Floats:
        """float64[L], carried by each link."""
        return self.allreduce_link_bytes + self.model_parallel_link_bytes

    @property
    def bandwidth_tax(self) -> float:
        """Bytes carried over links by bytes demanded; 1 if nothing is demanded."""
        return float(self.link_bytes.sum()) / self.demanded_bytes if self.demanded_bytes > 0 else 1.0

    @property
    def model_parallel_to_allreduce(self) -> float | None:
        """Q / A; None without AllReduce."""
        return self.model_parallel_bytes / self.allreduce_bytes if self.allreduce_bytes > 0 else None

    @property
    def mean_byte_hops(self) -> float | None:
        """Mean hops of a model-parallel byte; None without any."""
        return float(np.arange(len(self.byte_hops)) @ self.byte_hops) if len(self.byte_hops) else None
