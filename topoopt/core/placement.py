"""Device placement: which operator of a graph runs on which device, when, and at which rates servers send.

Times are ms, sizes bytes, rates Gbit/s (decimal). A tensor is a hyperedge: it is sent once to every other device that
has a consumer, however many consumers that device has.

Objective throughput is the least load of the busiest device, the time per micro-batch of a full pipeline; every tensor
that is cut costs the producing device once, and each other device with a consumer once. Objective latency is the least
time from the first start to the last end (makespan), with contention at the links of the servers.

A plan holds decisions alone. What follows from it: ends of operators (start plus time), stages, loads, and every
transfer. A transfer begins when its producer ends, but for those that queue at the links of a server.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field
from typing import Annotated, Literal, get_args

import numpy as np
from annotated_types import Ge, Gt, Le, Len, Lt

from topoopt.core.arrays import Floats, Int32s, bytes_per_ms
from topoopt.core.data import MAX_SERVERS, STRICT, Array, FileName, Gbps, Names, Shown
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate, ProblemBase, SearchSettings

MAX_OPERATORS = 20_000
MAX_TENSORS = 4 * MAX_OPERATORS
MAX_DEVICES = 1024
"""Devices of one server."""
MAX_LINKS = 64
"""Physical links of one server."""

Millisecond = Annotated[float, Ge(0), Le(1e30)]


Schedule = Literal["1f1b", "gpipe"]
"""How micro-batches fill the pipeline, objective throughput.

`1f1b`: forward and backward of a stage alternate, so the time per micro-batch is the largest sum of both
(PipeDream). `gpipe`: all forward passes, then all backward ones: largest forward plus largest backward load."""


Communication = Literal["added", "overlapped"]
"""Load of a device from its compute and its communication: their sum, or the larger of the two."""


StageShape = Literal["contiguous", "interleaved", "free"]
"""Which sets of operators a device may hold, objective throughput.

`contiguous`: the devices can be ordered so that every forward tensor goes to the same or a later one.
`interleaved`: the same of stages, of which device d (in file order, k devices) has those of number d, d + k, ...
`free`: any set."""


Sharing = Literal["fair", "fifo", "static", "none"]
"""What transfers that leave (or enter) a server at the same time do to each other, objective latency.

`fair`: they share its links equally (max-min), as in an unconfigured NIC. `fifo`: one at a time at full rate, in
order of priority. `static`: each destination server has its own rate, and its transfers are sent one by one.
`none`: nothing, each has the full rate of its two servers (the cost model of Tarnawski et al., NeurIPS 2020).
Devices of one server have a link of their own for each pair, in all modes."""


@dataclass(frozen=True, repr=False)
class GraphOperator(Shown):
    """One operator.

    Attributes:
        name: unique in the graph.
        times_ms: time on each device class, in the order of `PlacementProblem.classes`; inf where it cannot run.
        memory_bytes: what stays on its device: weights, optimizer state, stashed activations.
        colocation: operators with equal labels share a device (a forward and a backward operator, shared weights);
            None: free.
        backward: whether it belongs to the backward pass.
    """

    name: str
    times_ms: tuple[float, ...]
    memory_bytes: int = 0
    colocation: str | None = None
    backward: bool = False


@dataclass(frozen=True, repr=False)
class Tensor(Shown):
    """What an operator makes, by index, and all operators that read it; one operator may make several."""

    producer: int
    consumers: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class Link:
    """A physical link of a server."""

    __pydantic_config__ = STRICT

    name: FileName
    """of the network interface"""
    gbps: Gbps
    """rate in each direction, Gbit/s"""


@dataclass(frozen=True, repr=False)
class Server(Shown):
    """A host.

    Attributes:
        name: unique.
        links: to the network, at least one if there are other servers.
        intra_gbps: rate between its devices (NVLink, PCIe) in each direction; None: as of its links together.
    """

    name: str
    links: tuple[Link, ...]
    intra_gbps: float | None = None

    @property
    def network_gbps(self) -> float:
        return sum(link.gbps for link in self.links)

    @property
    def inside_gbps(self) -> float:
        return self.network_gbps if self.intra_gbps is None else self.intra_gbps


@dataclass(frozen=True)
class Device:
    """Something operators run on, one at a time.

    Attributes:
        name: unique.
        server: index.
        class_index: into `PlacementProblem.classes`.
        memory_bytes: None: not limited.
        host: a CPU of the pool: what runs there pays for no transfer itself, the device at the other end does
            (objective throughput; as in Tarnawski et al., NeurIPS 2020).
    """

    name: str
    server: int
    class_index: int
    memory_bytes: int | None = None
    host: bool = False


@dataclass(frozen=True)
class Throughput:
    """Options of objective throughput."""

    __pydantic_config__ = STRICT

    schedule: Annotated[Schedule, Names(get_args(Schedule))] = "1f1b"
    """largest sum of forward and backward load, or largest forward plus largest backward load"""
    communication: Annotated[Communication, Names(get_args(Communication))] = "added"
    """load of a device: compute plus communication, or the larger of the two"""
    stages: Annotated[StageShape, Names(get_args(StageShape))] = "contiguous"
    """operators of a device form one stage of the pipeline, several (devices in file order, again and again), or any set"""  # noqa: E501
    stages_per_device: Annotated[int, Ge(1), Le(16)] = 1
    """q, of interleaved stages"""

    name = "throughput"


@dataclass(frozen=True)
class Latency:
    """Options of objective latency."""

    __pydantic_config__ = STRICT

    sharing: Annotated[Sharing, Names(get_args(Sharing))] = "fair"
    """what transfers of one server do to each other: share equally, queue, have own rates, or nothing; published examples of list scheduling mostly mean `none`"""  # noqa: E501
    rates: Literal["uniform", "optimised"] = "optimised"
    """static rates of each pair of servers: all the same, or chosen with the placement"""

    name = "latency"


@dataclass(frozen=True, eq=False, repr=False)
class PlacementProblem(ProblemBase):
    """Kind `placement`.

    Attributes:
        name: of the instance.
        classes: names of the device classes.
        operators: the graph has no cycle.
        tensors: ascending by producer; those nobody reads are left out.
        servers, devices: where to place.
        objective: what is minimised.
        transfer_latency_ms: alpha, fixed time of each transfer, between servers.
        intra_latency_ms: the same between devices of a server.
    """

    name: str
    classes: tuple[str, ...]
    operators: tuple[GraphOperator, ...]
    tensors: tuple[Tensor, ...]
    servers: tuple[Server, ...]
    devices: tuple[Device, ...]
    objective: Throughput | Latency
    transfer_latency_ms: float = 0.0
    intra_latency_ms: float = 0.0
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "placement"

    def time_ms(self, operator: int, device: int) -> float:
        """Time of an operator on a device; inf where it cannot run."""
        return self.operators[operator].times_ms[self.devices[device].class_index]

    def network_share_gbps(self, device: int) -> float:
        """Part of its server's links that a device can count on, objective throughput: an equal one.

        CPUs of the pool take none, unless the server has no other devices.
        """
        server = self.devices[device].server
        paying = sum(other.server == server and not other.host for other in self.devices)
        return self.servers[server].network_gbps / max(1, paying)

    def send_ms(self, size_bytes: int, source: int, target: int) -> float:
        """Time of a transfer between two devices, objective throughput; 0 on the same device.

        Between servers it runs at the smaller of the two devices' parts of the network; CPUs of the pool set no limit.
        """
        if source == target:
            return 0.0
        first, other = self.devices[source], self.devices[target]
        if first.server == other.server:
            return size_bytes / bytes_per_ms(self.servers[first.server].inside_gbps) + self.intra_latency_ms
        ends = [device for device in (source, target) if not self.devices[device].host] or [source, target]
        rate = min(self.network_share_gbps(device) for device in ends)
        return size_bytes / bytes_per_ms(rate) + self.transfer_latency_ms

    def colocated(self) -> tuple[tuple[int, ...], ...]:
        """Operators that must share a device, as groups in order of their first member; free ones stand alone."""
        groups: dict[str | int, list[int]] = {}
        for index, operator in enumerate(self.operators):
            key = index if operator.colocation is None else operator.colocation
            groups.setdefault(key, []).append(index)
        return tuple(tuple(members) for members in groups.values())

    def supports(self, operator: int, device: int) -> bool:
        """Whether an operator can run on a device at all."""
        return math.isfinite(self.time_ms(operator, device))

    @property
    def queueing(self) -> bool:
        """Whether transfers between servers wait for each other, so that their starts are decided."""
        settings = self.objective
        return isinstance(settings, Latency) and settings.sharing in ("fifo", "static")


@dataclass(frozen=True)
class LinkShare:
    """Rate of one physical link of a server that goes to one destination server."""

    __pydantic_config__ = STRICT

    source: Annotated[int, Ge(0), Lt(MAX_SERVERS)]
    target: Annotated[int, Ge(0), Lt(MAX_SERVERS)]
    link: Annotated[int, Ge(0), Lt(MAX_LINKS)]
    """of the source, and the link of the same number of the target"""
    gbps: Annotated[float, Gt(0), Le(1e30)]


def _no_times() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlacementPlan(Shown):
    """The decisions of a placement; those of a schedule only with objective latency."""

    __pydantic_config__ = STRICT

    device: Annotated[Int32s, Array(Annotated[int, Ge(0), Lt(MAX_SERVERS * MAX_DEVICES)], np.int32, MAX_OPERATORS)]
    """of every operator"""
    start_ms: Annotated[Floats, Array(Millisecond, np.float64, MAX_OPERATORS)] = field(default_factory=_no_times)
    """of every operator; empty with objective throughput"""
    send_ms: Annotated[Floats, Array(Millisecond, np.float64, 64 * MAX_TENSORS)] = field(default_factory=_no_times)
    """start of every transfer of `queued_transfers`, in that order"""
    link_shares: Annotated[tuple[LinkShare, ...], Len(0, MAX_SERVERS * MAX_LINKS)] = ()
    """rates of pairs of servers where sharing is static, ascending by source, target and link"""


@dataclass(frozen=True)
class TensorTransfer:
    """A tensor, by index, on its way to one device, from when to when."""

    tensor: int
    target: int
    start_ms: float
    end_ms: float


def transfers_of(problem: PlacementProblem, device: Int32s) -> list[tuple[int, int]]:
    """Return (tensor, target device) of every transfer that a placement makes, ascending."""
    at = device.tolist()
    return [
        (index, target)
        for index, tensor in enumerate(problem.tensors)
        for target in sorted({at[user] for user in tensor.consumers} - {at[tensor.producer]})
    ]


def queued_transfers(problem: PlacementProblem, device: Int32s) -> list[tuple[int, int]]:
    """Return the transfers whose starts a plan states: between servers, with bytes, sharing `fifo` or `static`."""
    if not problem.queueing:
        return []
    server = [problem.devices[d].server for d in device.tolist()]
    return [
        (index, target)
        for index, target in transfers_of(problem, device)
        if problem.tensors[index].size_bytes
        and server[problem.tensors[index].producer] != problem.devices[target].server
    ]


def exhaustive_certificate(argument: Argument, limit_ms: float) -> Certificate:
    """Return the proof that a search through everything finds nothing below a limit.

    Args:
        argument: what is searched through: `ALL_PIPELINES` or `ALL_ASSIGNMENTS`.
        limit_ms: what is not below it is cut off; the objective of the plan.
    """
    return Certificate(argument, {"limit_ms": np.array([limit_ms], dtype=np.float64)})


@dataclass(frozen=True)
class WalkSize:
    """How far a walk over partial schedules goes.

    Attributes:
        backwards: whether time runs backwards.
        rows: of a level, at most.
        doll_tasks, doll_rows: operators that follow another one whose makespan is derived first, and rows of its
            levels.
    """

    backwards: bool = False
    rows: int = 200_000
    doll_tasks: int = 0
    doll_rows: int = 0


def schedule_certificate(argument: Argument, limit_ms: float, size: WalkSize) -> Certificate:
    """Return the proof that a walk over all schedules finds nothing below a limit.

    Args:
        argument: `ALL_SCHEDULES` without contention, or `QUEUED_SCHEDULES`.
        limit_ms: what is not below it is cut off; the objective of the plan, or less.
        size: of the walk.
    """
    walk = np.array(astuple(size), dtype=np.int64)
    return Certificate(argument, {"limit_ms": np.array([limit_ms]), "walk": walk})


def cut_certificate(limit_ms: float, load_price: Floats, end_price: Floats) -> Certificate:
    """Return the proof that no placement has all loads within a limit.

    Args:
        limit_ms: of every load.
        load_price: float64[groups], of the load of a set around each co-located group.
        end_price: float64[groups, ends], of the ends of tensors between groups.
    """
    arrays = {"limit_ms": np.array([limit_ms]), "load_price": load_price, "end_price": end_price.ravel()}
    return Certificate(Argument.BLOCK_CUTS, arrays)
