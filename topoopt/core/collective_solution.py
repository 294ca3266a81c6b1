"""The solution of a collective: a schedule, its times, and the cut, multipliers or lengths that bound any other."""

from __future__ import annotations

from dataclasses import dataclass, field

from topoopt.core.allreduce_bound import AllReduceProof
from topoopt.core.arrays import Ints
from topoopt.core.collective import CollectiveOp, CollectiveSchedule
from topoopt.core.columns import Columns
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.shown import Shown
from topoopt.core.solution import SolutionHead


@dataclass(frozen=True, eq=False, repr=False)
class CollectiveProof(Shown):
    """What limits the rate of a collective on a network.

    Attributes:
        cut: nodes of a set whose ranks must send out (of which all must receive what is outside, where something is
            reduced) more than its links carry any faster; empty for an All-to-All.
        allreduce: of an AllReduce, multipliers of the program over roots.
        lengths: int64[m], of an All-to-All: lambda <= sum of units times lengths / sum of distances between ranks.
    """

    cut: tuple[int, ...] = ()
    allreduce: AllReduceProof | None = None
    lengths: Ints | None = None


@dataclass(frozen=True, repr=False)
class CollectiveTimes(Shown):
    """What a schedule takes, us, beside the objective.

    Attributes:
        makespan_us: without barriers: every message goes when its block is there and its links are free.
        step_us: all steps one after the other, a barrier between them; None where that is the objective.
        busy_us: bytes of the link that carries most, over its rate; None where the objective, algbw, says it.
    """

    makespan_us: float
    step_us: float | None = None
    busy_us: float | None = None


@dataclass(frozen=True)
class BestBySize:
    """A schedule that is best for vectors of some sizes: time = latency_us + us_per_mbyte bytes / 1e6.

    Attributes:
        from_bytes: least vector for which it is; up to the next point.
        method: that makes it.
        pieces: of each block.
        steps: synchronous rounds.
        latency_us: of all steps, besides bytes.
        us_per_mbyte: us of 1e6 bytes of the vector.
    """

    from_bytes: int
    method: str
    pieces: int
    steps: int
    latency_us: float
    us_per_mbyte: float

    @property
    def figures(self) -> tuple[str, int, int, float, float]:
        """All but the size."""
        return self.method, self.pieces, self.steps, self.latency_us, self.us_per_mbyte

    def time_us(self, vector_bytes: float) -> float:
        """All steps, one after the other."""
        return self.latency_us + self.us_per_mbyte * vector_bytes / 1e6


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CollectiveSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `collective`.

    Attributes, besides those of `SolutionHead`:
        objective: `time`, us, all steps one after the other; `algbw`, GB/s without latencies (more is better); `steps`.
        network, collective, vector_bytes, root, message_us, multicast, relaying: of the instance.
        schedule: blocks and sends.
        times: of the schedule, those that the objective does not say.
        proof: what limits any schedule.
        front: with objective `pareto`, what is best for which size of the vector, in ascending order; else empty.
    """

    network: RatedNetwork
    collective: CollectiveOp
    vector_bytes: int
    root: int
    message_us: float
    multicast: bool
    relaying: bool
    schedule: CollectiveSchedule
    times: CollectiveTimes
    proof: CollectiveProof
    front: tuple[BestBySize, ...] = ()

    kind: str = field(default="collective", init=False)

    @property
    def steps(self) -> int:
        """Synchronous rounds."""
        return self.schedule.steps

    @property
    def time_us(self) -> float:
        """All steps one after the other, a barrier between them."""
        return self.objective.value if self.times.step_us is None else self.times.step_us

    @property
    def makespan_us(self) -> float:
        """Without barriers: every message goes when its block is there and its links are free."""
        return self.times.makespan_us

    @property
    def busy_us(self) -> float:
        """Bytes of the link that carries most, over its rate."""
        if self.times.busy_us is None:
            return self.vector_bytes / self.objective.value / 1e3
        return self.times.busy_us

    @property
    def algbw_gbytes_per_s(self) -> float:
        """Bytes of the vector over the time."""
        return self.vector_bytes / self.time_us / 1e3

    @property
    def busbw_gbytes_per_s(self) -> float:
        """The same times what a rank must send and receive of the vector at least (as benchmarks state it)."""
        n = len(self.network.ranks)
        if self.collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE):
            return self.algbw_gbytes_per_s
        return self.algbw_gbytes_per_s * (n - 1) / n * (2 if self.collective is CollectiveOp.ALLREDUCE else 1)

    def columns(self) -> dict[str, Columns]:
        """As of all solutions; `links`, and `sends` with the bytes of each message."""
        network, sends, blocks = self.network, self.schedule.sends, self.schedule.blocks
        links: Columns = {
            "tail": network.arcs[:, 0],
            "head": network.arcs[:, 1],
            "gbytes_per_s": network.gbytes_per_s,
            "latency_us": network.latency_us,
        }
        rows: Columns = {
            "step": sends.step,
            "block": sends.block,
            "tail": sends.tail,
            "head": sends.head,
            "reduce": sends.reduce,
            "bytes": blocks.units[sends.block]
            * bytes_per_unit(self.collective, self.vector_bytes, network, blocks.total),
            "route": [list(self.schedule.routes[route]) for route in sends.route],
        }
        return {**super().columns(), "links": links, "sends": rows}


def bytes_per_unit(collective: CollectiveOp, vector_bytes: int, network: RatedNetwork, units: int) -> float:
    """Bytes of a unit of a schedule's blocks: in an All-to-All every rank has a vector of its own."""
    vectors = len(network.ranks) if collective is CollectiveOp.ALL_TO_ALL else 1
    return vectors * vector_bytes / units
