"""A step on given ports, followed again pass by pass: a rank goes on as soon as what it waits for is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from topoopt.core.pipeline import PipelineSchedule
from topoopt.core.switched_step import Boundary
from topoopt.core.switching import PortSplit, PortUse, RailJob, StagePorts
from topoopt.verify.llm_training.greedy_rounds import planned_order
from topoopt.verify.llm_training.pass_orders import Pass, rank_order
from topoopt.verify.llm_training.switching.ports import WHOLE, PortRates, rates_of

NEVER = float("-inf")


def orders_of(job: RailJob) -> list[list[Pass]]:
    """Passes of every rank in order; ZB-2P is planned with times at the full rate of a GPU."""
    if job.schedule is not PipelineSchedule.ZB_2P:
        return [rank_order(job.schedule, rank, job.ranks, job.chunks, job.micro_batches) for rank in range(job.ranks)]
    times = {"F": list(job.forward_s), "I": list(job.inputs_s), "W": list(job.weights_s)}
    for stage, one in enumerate(job.exchange or () if job.inside is PortUse.EXPERT else ()):
        for kind, crossing in zip("FI", one.crossing_s, strict=True):
            times[kind][stage] += one.fixed_s + max(one.within_s, crossing)
    return planned_order(times, sum(job.hop_s), job.micro_batches)


@dataclass
class _Rank:
    """What is known of a stage so far."""

    rank: int
    order: list[Pass]
    ports: StagePorts | None
    rates: PortRates
    idle: float
    held: PortSplit | None
    at: int = 0
    free: float = 0.0
    passed: float = NEVER
    lit: float | None = None
    waiting: Pass | None = None
    last_sent: float = NEVER

    @property
    def apart(self) -> bool:
        return self.ports is not None and self.ports.inside != self.ports.pipeline


@dataclass
class Followed:
    """Times of a step.

    Attributes:
        begins, ends: of passes.
        sends: begin and end of what passes send.
        reduces: begin and end, by rank.
        gathered: when a rank has its weights.
        step_s: all of it.
        changes: since when ports are set anew: stage, boundary, what they serve then, begin.
    """

    begins: dict[Pass, float] = field(default_factory=dict)
    ends: dict[Pass, float] = field(default_factory=dict)
    sends: dict[Pass, tuple[float, float]] = field(default_factory=dict)
    reduces: dict[int, tuple[float, float]] = field(default_factory=dict)
    gathered: dict[int, float] = field(default_factory=dict)
    step_s: float = float("inf")
    changes: set[tuple[int, Boundary, PortSplit, float]] = field(default_factory=set)


class Follower:
    """Follows steps of one job.

    Args:
        ports: of each stage; None: left open, set in no time at `rates`.
        rates: of each stage; None: those of its ports.
        orders: of the passes of all ranks; None: found out.
    """

    def __init__(
        self,
        job: RailJob,
        ports: Sequence[StagePorts | None],
        delay_s: float,
        *,
        demand: bool,
        rates: Sequence[PortRates | None] = (),
        orders: list[list[Pass]] | None = None,
    ) -> None:
        self.job, self.delay, self.demand, self.found = job, delay_s, demand, Followed()
        self.last: dict[tuple[int, int], float] = {}
        self.needed = [0.0] * (job.ranks * job.chunks)
        self.ranks = []
        orders = orders_of(job) if orders is None else orders
        for rank, one in enumerate(ports):
            given = rates[rank] if rates else None
            rate = given or (WHOLE if one is None else rates_of(job, rank, one))
            held = None if one is None else one.data if job.reduces else self._final(rank, one)
            self.ranks.append(_Rank(rank, orders[rank], one, rate, self._gather(rank, rate), held))

    def step(self) -> Followed:
        """Follow all.

        Raises:
            ValueError: passes wait for each other.
        """
        left, moved = sum(len(one.order) for one in self.ranks), True
        while left and moved:
            moved = False
            for one in self.ranks:
                while one.at < len(one.order) and self._pass(one):
                    one.at += 1
                    left -= 1
                    moved = True
        if left:
            raise ValueError("passes wait for each other")
        end = max(self.found.ends.values())
        for one in self.ranks:
            end = max(end, one.last_sent, self._reduce(one))
        self.found.step_s = end + self.job.optimizer_s
        return self.found

    def _final(self, rank: int, one: StagePorts) -> PortSplit:
        return one.pipeline if rank and self.job.inside is not None else one.inside

    def _gather(self, rank: int, rate: PortRates) -> float:
        """Weights come chunk by chunk; since when the ports serve nothing of that."""
        job, came = self.job, 0.0
        share = rate.ring if job.reduces else 1.0
        own = range(rank, job.ranks * job.chunks, job.ranks)
        for stage in own:
            each, count = job.gathered_s[stage] / share, job.layers[stage]
            for layer in range(count):
                came += each
                self.needed[stage] = max(self.needed[stage], came - job.forward_s[stage] * layer / count)
        if not job.overlapped:
            for stage in own:
                self.needed[stage] = came
        if not came or not job.reduces:
            return -job.optimizer_s
        self.found.gathered[rank] = came
        return came

    def takes(self, kind: str, stage: int, rate: PortRates) -> float:
        """Seconds of a pass."""
        job = self.job
        if kind == "W":
            return job.weights_s[stage]
        computing = job.forward_s[stage] if kind == "F" else job.inputs_s[stage]
        computing += job.weights_s[stage] if kind == "B" else 0.0
        if job.exchange is None:
            return computing
        one = job.exchange[stage]
        moving = one.fixed_s + max(one.within_s, one.crossing_s[kind != "F"] / rate.inside)
        return max(moving, computing) if one.hidden else moving + computing

    def lead(self, kind: str, stage: int) -> tuple[float, float]:
        """Seconds of a pass before its first exchange, and behind its last."""
        if self.job.exchange is None:
            return 0.0, 0.0
        one = self.job.exchange[stage]
        return (one.head_s, 0.0) if kind == "F" else (0.0, one.tail_s)

    def _pass(self, one: _Rank) -> bool:
        """Do the next pass of a rank if what it waits for is known."""
        job, found = self.job, self.found
        kind, batch, stage = one.order[one.at]
        begin, used = max(one.free, self.needed[stage] if kind == "F" and batch == 0 else 0.0), NEVER
        before = stage - 1 if kind == "F" else stage + 1
        if kind != "W" and 0 <= before < job.ranks * job.chunks:
            key = (kind, batch, before)
            if key not in found.ends:
                return False
            begin = max(begin, found.ends[key])
            if before % job.ranks != one.rank:
                if key not in found.sends:
                    self._send(key, self.ranks[before % job.ranks], one)
                used = found.sends[key][1]
                begin = max(begin, used)
        exchanges = job.inside is not None and kind != "W"
        if one.waiting is not None and ((exchanges and one.apart) or job.blocking):
            if one.waiting not in found.sends:
                return False
            arrived = found.sends[one.waiting][1]
            used, one.waiting = max(used, arrived), None
            begin = max(begin, arrived) if job.blocking else begin
        head, tail = self.lead(kind, stage)
        end = begin + self.takes(kind, stage, one.rates)
        if exchanges:
            lit = self._lit_inside(one, used, begin + head) if one.apart else self._lit_pipeline(one, begin + head)
            end += max(0.0, lit - begin - head)
            one.idle, one.passed = end - tail, end
        found.begins[kind, batch, stage], found.ends[kind, batch, stage] = begin, end
        one.free = end
        self._hand_on(one, (kind, batch, stage))
        return True

    def _hand_on(self, one: _Rank, key: Pass) -> None:
        """Send what a pass made, where the other rank needs no more to be known."""
        kind, _, stage = key
        after = stage + 1 if kind == "F" else stage - 1
        if kind == "W" or not 0 <= after < self.job.ranks * self.job.chunks or after % self.job.ranks == one.rank:
            return
        other = self.ranks[after % self.job.ranks]
        if not other.apart:
            self._send(key, one, other)
        one.waiting = key

    def _lit_inside(self, one: _Rank, used: float, needed: float) -> float:
        """When the circuits of what a pass exchanges are there."""
        assert one.ports is not None
        if used > NEVER:
            begin = max(used, needed) if self.demand else used
            return self._set(one, Boundary.PIPELINE_TO_INSIDE, one.ports.inside, begin)
        if one.passed == NEVER and one.held != one.ports.inside:
            begin = max(one.idle, needed) if self.demand else one.idle
            return self._set(one, Boundary.DATA_TO_PIPELINE, one.ports.inside, begin)
        return NEVER

    def _lit_pipeline(self, one: _Rank, needed: float) -> float:
        """When the circuits to neighbours are there."""
        if one.apart and one.passed > NEVER:
            return self._to_pipeline(one)
        if one.ports is None or one.held == one.ports.pipeline:
            return NEVER
        if one.lit is None:
            begin = max(one.idle, needed) if self.demand else one.idle
            one.lit = self._set(one, Boundary.DATA_TO_PIPELINE, one.ports.pipeline, begin)
        return one.lit

    def _to_pipeline(self, one: _Rank) -> float:
        assert one.ports is not None
        return self._set(one, Boundary.INSIDE_TO_PIPELINE, one.ports.pipeline, one.passed if self.demand else one.idle)

    def _set(self, one: _Rank, boundary: Boundary, after: PortSplit, begin: float) -> float:
        """When circuits asked for are there."""
        self.found.changes.add((one.rank, boundary, after, begin))
        return begin + self.delay

    def _send(self, key: Pass, one: _Rank, other: _Rank) -> None:
        ready = self.found.ends[key]
        way = (one.rank, other.rank)
        lit = max(self._lit_pipeline(one, ready), self._lit_pipeline(other, ready))
        begin = max(ready, lit, self.last.get(way, NEVER))
        end = begin + self.job.hop_s[0] + self.job.hop_s[1] / min(one.rates.hop, other.rates.hop)
        self.found.sends[key] = (begin, end)
        self.last[way] = end
        one.last_sent, other.last_sent = max(one.last_sent, end), max(other.last_sent, end)

    def _reduce(self, one: _Rank) -> float:
        """When the gradients of a rank are reduced; those of layers that are through first go first."""
        job, found = self.job, self.found
        own = range(one.rank, job.ranks * job.chunks, job.ranks)
        kinds = ("B", "W")
        done = {s: max(found.ends[k, i, s] for i in range(job.micro_batches) for k in kinds if (k, i, s) in found.ends)
                for s in own}  # fmt: skip
        split = any((("W", 0, s) in found.ends) for s in own)
        rows: list[tuple[float, float]] = []
        for stage in sorted(own, key=lambda s: (done[s], s)):
            back = job.weights_s[stage] + (0.0 if split else job.inputs_s[stage])
            for layer in range(job.layers[stage]):
                behind = (job.layers[stage] - 1 - layer) / job.layers[stage]
                ready = done[stage] - behind * back if job.overlapped else max(done.values())
                rows.append((ready, job.reduced_s[stage] / (one.rates.ring if job.reduces else 1.0)))
        if not any(each for _, each in rows):
            return max(done.values())
        lit = self._lit_ring(one, min(ready for ready, _ in rows))
        at = NEVER
        for ready, each in rows:
            at = max(at, ready, lit) + each
        if job.reduces:
            found.reduces[one.rank] = (max(lit, min(ready for ready, _ in rows)), at)
        return at

    def _lit_ring(self, one: _Rank, needed: float) -> float:
        """When the ring of the replicas is there: what it cuts has to be idle."""
        if one.ports is None or not self.job.reduces:
            return NEVER
        if self._final(one.rank, one.ports) == one.ports.data:
            if not one.apart or one.rank == 0:
                return NEVER
            return self._to_pipeline(one)
        quiet = max(one.last_sent, one.idle)
        begin = max(quiet, needed) if self.demand else quiet
        return self._set(one, Boundary.PIPELINE_TO_DATA, one.ports.data, begin)
