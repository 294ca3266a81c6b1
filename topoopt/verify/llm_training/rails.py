"""Rails whose circuits are set anew inside a step: ports of the stages, the step followed on them, and its bounds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import FabricPlan, ShapeOutcome, ShapeVerdict
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule
from topoopt.core.proofs import Tolerance, beats
from topoopt.core.switching import Boundary, PortSplit, PortUse, RailExchange, RailJob, StagePorts, SwitchSettings
from topoopt.verify.checker import BeyondWorkError, ViolationLog, WorkBudget
from topoopt.verify.llm_training.costs import (
    fixed_seconds,
    hop_of,
    ideal_rates,
    latency,
    near,
    transfers_of,
)
from topoopt.verify.llm_training.iteration import Orders, Pass, iteration_of, planned_order, ruled_orders
from topoopt.verify.llm_training.layers import BIDIRECTIONAL, GpuSeconds, experts_of, records_of, row_of

MAX_PASSES = 400_000
"""Passes that are followed to show that no plan is faster; a bound that takes more is left out."""

EVENTS_OF_PASS = 5.0
"""Events of a check that following one pass takes."""

SLACK = Tolerance.LONG_SUMS.relative

NEVER = float("-inf")


def derived_job(problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings) -> RailJob:
    """Return what the rails see of an iteration of a strategy that states its layers."""
    cluster, overlap, slow, p = problem.cluster, problem.overlap, problem.cluster.slowdown, strategy.pipeline
    iteration = iteration_of(problem, strategy)
    r, rows, reduces = iteration.r, iteration.usual, strategy.zero < 3
    rates, (local, experts) = ideal_rates(problem, r), near(problem, r)
    start, hop = latency(problem, rates.pipeline_hops), float(hop_of(problem, r, rates)[1][0])
    servers = round(strategy.data * strategy.context / float((local[D.DATA] * local[D.CONTEXT])[0]))
    expert_servers = round(strategy.expert * strategy.expert_tensor / float(experts[0]))
    inside: PortUse | None = None
    exchange, away = list[RailExchange](), np.zeros_like(rows.forward)
    routed = [index for index, kind in enumerate(problem.model.kinds) if experts_of(kind) is not None]
    if expert_servers > 1 and any(rows.kinds[index].any() for index in routed):
        inside, away = PortUse.EXPERT, rows.parts["expert"] / 2
        last_kind, gpu = problem.model.kinds[routed[-1]], GpuSeconds(problem, r)
        head, tail = (slow * float(part[0]) for part in gpu.attention(last_kind))
        sent = [transfers_of(problem, r, problem.model.kinds[index], rates).sent for index in routed]
        for counts in rows.kinds[routed, :, 0].T.tolist():
            shown, met = slow * (1.0 - overlap.expert), min(1, sum(counts))
            pairs = list(zip(counts, sent, strict=True))
            crossing = shown * sum(n * float((own["crossing"] / rates.expert)[0]) for n, own in pairs)
            within = shown * sum(n * float(own["expert"][0]) for n, own in pairs) / rates.inside
            fixed = shown * sum(counts) * 2.0 * latency(problem, rates.expert_hops)
            exchange.append(RailExchange((crossing,) * 2, within, fixed, head * met, tail * met))
    elif not reduces and servers > 1:  # weights come in both passes, and in the backward one gradients go too
        inside = PortUse.DATA
        for out, w in zip(rows.reduced[:, 0].tolist(), rows.gathered[:, 0].tolist(), strict=True):
            exchange.append(RailExchange((w / 2, w / 2 + out), 0.0, 0.0, 0.0, 0.0, overlap.data))

    def listed(values: Floats) -> tuple[float, ...]:
        return tuple(values[:, 0].tolist())

    gpu_gbps = cluster.degree * cluster.link_gbps / cluster.gpus_per_server
    return RailJob(
        schedule=strategy.schedule,
        ranks=p,
        chunks=strategy.chunks,
        micro_batches=iteration.m,
        forward_s=listed(rows.forward - away),
        inputs_s=listed(rows.inputs - away),
        weights_s=listed(rows.weights),
        exchange=tuple(exchange) or None,
        inside=inside,
        hop_s=(slow * start, slow * (hop - start)) if p > 1 else (0.0, 0.0),
        layers=tuple(map(round, listed(rows.layers))),
        reduced_s=listed(rows.reduced / rows.layers * reduces),
        gathered_s=listed(rows.gathered / rows.layers * reduces),
        optimizer_s=max(float(rows.step[rank::p, 0].sum()) for rank in range(p)) + fixed_seconds(problem),
        blocking=p > 1 and not overlap.pipeline,
        overlapped=overlap.data,
        data_servers=servers,
        expert_servers=expert_servers if inside is PortUse.EXPERT else 1,
        ports=settings.ports,
        circuit_share=(settings.port_gbps or gpu_gbps) / gpu_gbps,
    )


def refusal(problem: LlmTrainingProblem, strategy: ParallelStrategy, settings: SwitchSettings) -> str:
    """Return why a strategy cannot be on rails; empty: it can."""
    local, experts = near(problem, records_of([row_of(strategy)]))
    for dimension in (D.TENSOR, D.CONTEXT):
        if float(local[dimension][0]) < getattr(strategy, dimension.value) * (1 - 1e-9):
            return f"rails split a {dimension.value} group"
    if float(local[D.PIPELINE][0]) > 1:
        return "a server holds several stages"
    if strategy.schedule in BIDIRECTIONAL:
        return "a rank holds two copies of stages"
    if strategy.zero == 3 and strategy.expert * strategy.expert_tensor > float(experts[0]) * (1 + 1e-9):
        return "weights and tokens cross the rail in the same pass"
    job = derived_job(problem, strategy, settings)
    short = [use.value for rank in range(job.ranks) for use, n in carried(job, rank).items() if n > job.ports]
    return f"too few ports for {short[0]}" if short else ""


# Ports


@dataclass(frozen=True)
class PortRates:
    """Parts of the rate of a GPU: to a neighbour, round a ring, of what passes exchange."""

    hop: float
    ring: float
    inside: float

    def no_slower(self, other: PortRates) -> bool:
        return self.hop >= other.hop and self.ring >= other.ring and self.inside >= other.inside


WHOLE = PortRates(1.0, 1.0, 1.0)


def carried(job: RailJob, rank: int) -> dict[PortUse, int]:
    """Return the fewest ports for each thing that a stage exchanges over the rail: ports come in such numbers."""
    units = {}
    if job.ranks > 1:
        units[PortUse.PIPELINE] = 1 if job.ranks == 2 or (job.chunks == 1 and rank in (0, job.ranks - 1)) else 2
    if job.data_servers > 1 and (job.reduces or job.inside is PortUse.DATA):
        units[PortUse.DATA] = min(job.data_servers - 1, 2)
    if job.inside is PortUse.EXPERT:
        units[PortUse.EXPERT] = min(job.expert_servers - 1, 2)
    return units


def ring(servers: int, ports: int, share: float) -> float:
    """Return the rate both ways round: two directions for each pair of ports; each port joins two servers."""
    return min(1.0, ports * share) if servers == 2 else min(1.0, ports // 2 * 2 * share)


def crowded_ring(servers: int, ports: int, share: float) -> float:
    """Return the same for bytes that go to all others alike, over an arc of the shorter way round."""
    if servers == 2:
        return min(1.0, ports * share)
    distance = sum(min(step, servers - step) for step in range(1, servers)) / (servers - 1)
    return min(1.0, ports // 2 * 2 * share / distance)


def rates_of(job: RailJob, rank: int, ports: StagePorts) -> PortRates:
    """Return the rates on a plan of ports."""
    neighbours, inside = carried(job, rank).get(PortUse.PIPELINE, 0), 1.0
    hop = min(1.0, ports.pipeline.pipeline // neighbours * job.circuit_share) if neighbours else 1.0
    reduced = ring(job.data_servers, ports.data.data, job.circuit_share) if job.reduces else 1.0
    if job.inside is PortUse.EXPERT:
        inside = crowded_ring(job.expert_servers, ports.inside.expert, job.circuit_share)
    elif job.inside is PortUse.DATA:
        inside = ring(job.data_servers, ports.inside.data, job.circuit_share)
    return PortRates(hop, reduced, inside)


def port_error(job: RailJob, rank: int, ports: StagePorts) -> str:
    """Return why a plan of ports cannot be; empty: it can."""
    units = carried(job, rank)
    for split in (ports.pipeline, ports.inside, ports.data):
        if split.total > job.ports:
            return f"{split.total} circuits end at {job.ports} ports"
        for use in PortUse:
            if split.of(use) and (use not in units or split.of(use) % units[use]):
                return f"{split.of(use)} ports serve {use.value}, which takes multiples of {units.get(use, 0)}"
    for split, use, needed in (
        (ports.pipeline, PortUse.PIPELINE, job.ranks > 1),
        (ports.inside, job.inside or PortUse.PIPELINE, job.inside is not None),
        (ports.data, PortUse.DATA, job.reduces),
    ):
        if needed and not split.of(use):
            return f"no port serves {use.value}"
    if (job.inside is None or job.ranks == 1) and ports.inside != ports.pipeline:
        return "ports change inside passes that exchange nothing, or between passes that send nothing"
    if job.inside is None and job.ranks == 1 and job.reduces and ports.pipeline != ports.data:
        return "ports change where nothing but gradients is exchanged"
    return ""


def check_ports(findings: ViolationLog, job: RailJob, ports: Sequence[StagePorts]) -> bool:
    """Return whether every stage has a plan of ports that can be."""
    errors = {f"stage {rank}": port_error(job, rank, stage) for rank, stage in enumerate(ports[: job.ranks])}
    errors["all"] = f"{len(ports)} plans of {job.ranks} stages" if len(ports) != job.ranks else ""
    wrong = [f"{where}: {text}" for where, text in errors.items() if text]
    findings.add_each("ports", range(len(wrong)), wrong.__getitem__)
    return not wrong


def all_plans(job: RailJob, rank: int) -> list[StagePorts]:
    """Return every plan of a stage, without those that leave a port to no use."""
    units = carried(job, rank)
    counts = [range(0, job.ports + 1, units[use]) if use in units else (0,) for use in PortUse]
    splits = [PortSplit(*row) for row in itertools.product(*counts) if sum(row) <= job.ports]
    splits = [split for split in splits if all(split.total + unit > job.ports for unit in units.values())]
    several = job.inside is not None and job.ranks > 1
    rows = itertools.product(splits, splits if several else [None], splits if job.reduces else [None])
    plans = {StagePorts(first, second or first, third or second or first) for first, second, third in rows}
    return [ports for ports in plans if not port_error(job, rank, ports)]


def _undominated(job: RailJob, rank: int) -> list[StagePorts]:
    best: dict[tuple[bool, ...], list[tuple[PortRates, StagePorts]]] = {}
    for ports in all_plans(job, rank):
        last = ports.pipeline if rank and job.inside is not None else ports.inside
        begin, rates = ports.data if job.reduces else last, rates_of(job, rank, ports)
        sets = begin != ports.pipeline, begin != ports.inside, ports.inside != ports.pipeline, last != ports.data
        rows = best.setdefault(sets, [])
        if not any(other.no_slower(rates) for other, _ in rows):
            best[sets] = [row for row in rows if not rates.no_slower(row[0])] + [(rates, ports)]
    return [ports for rows in best.values() for _, ports in rows]


# The step, followed pass by pass: a rank goes on as soon as all it waits for has a time


def orders_of(job: RailJob) -> Orders:
    """Return the passes of every rank; ZB-2P is planned with times at the full rate of a GPU."""
    if job.schedule is not PipelineSchedule.ZB_2P:
        return ruled_orders(job.schedule, job.ranks, job.chunks, job.micro_batches)
    times = {"F": list(job.forward_s), "I": list(job.inputs_s), "W": list(job.weights_s)}
    for stage, exchange in enumerate(job.exchange or () if job.inside is PortUse.EXPERT else ()):
        for kind, crossing in zip("FI", exchange.crossing_s, strict=True):
            times[kind][stage] += exchange.fixed_s + max(exchange.within_s, crossing)
    return planned_order(times, sum(job.hop_s), job.micro_batches)


@dataclass
class _Rank:
    rank: int
    order: Sequence[Pass]
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
    def switches_inside(self) -> bool:
        return self.ports is not None and self.ports.inside != self.ports.pipeline


class Follower:
    """Follows one step of a job.

    Attributes:
        ends: of passes.
        sends: begin and end of what passes send.
        reduces: begin and end, by rank.
        gathered: when a rank has its weights.
        changes: when ports begin to be set: stage, boundary, what they serve then, begin.

    Args:
        ports: of each stage; None: left open, set in no time at `rates`.
        rates: of each stage; None: those of its ports.
        orders: of the passes of all ranks; None: derived.
    """

    def __init__(
        self,
        job: RailJob,
        ports: Sequence[StagePorts | None],
        delay_s: float,
        *,
        demand: bool,
        rates: Sequence[PortRates | None] = (),
        orders: Orders | None = None,
    ) -> None:
        self.job, self.delay, self.demand = job, delay_s, demand
        self.ends: dict[Pass, float] = {}
        self.sends: dict[Pass, tuple[float, float]] = {}
        self.reduces: dict[int, tuple[float, float]] = {}
        self.gathered: dict[int, float] = {}
        self.changes: set[tuple[int, Boundary, PortSplit, float]] = set()
        self.last: dict[tuple[int, int], float] = {}
        self.needed = [0.0] * (job.ranks * job.chunks)
        self.ranks = []
        orders = orders_of(job) if orders is None else orders
        for rank, own in enumerate(ports):
            rate = (rates[rank] if rates else None) or (WHOLE if own is None else rates_of(job, rank, own))
            held = None if own is None else own.data if job.reduces else self._final(rank, own)
            self.ranks.append(_Rank(rank, orders[rank], own, rate, self._gather(rank, rate), held))

    def step(self) -> float:
        """Follow all, and return the seconds of the step.

        Raises:
            ValueError: passes wait for each other.
        """
        moved = True
        while moved:
            moved = False
            for state in self.ranks:
                while state.at < len(state.order) and self._pass(state):
                    state.at += 1
                    moved = True
        if any(state.at < len(state.order) for state in self.ranks):
            raise ValueError("passes wait for each other")
        end = max(self.ends.values())
        for state in self.ranks:
            end = max(end, state.last_sent, self._reduce(state))
        return end + self.job.optimizer_s

    def _final(self, rank: int, ports: StagePorts) -> PortSplit:
        return ports.pipeline if rank and self.job.inside is not None else ports.inside

    def _gather(self, rank: int, rate: PortRates) -> float:
        job, came = self.job, 0.0
        stages = range(rank, job.ranks * job.chunks, job.ranks)
        for stage in stages:
            took, count = job.gathered_s[stage] / (rate.ring if job.reduces else 1.0), job.layers[stage]
            for layer in range(count):
                came += took
                self.needed[stage] = max(self.needed[stage], came - job.forward_s[stage] * layer / count)
        if not job.overlapped:
            for stage in stages:
                self.needed[stage] = came
        if not came or not job.reduces:
            return -job.optimizer_s
        self.gathered[rank] = came
        return came

    def takes(self, kind: str, stage: int, rate: PortRates) -> float:
        job = self.job
        if kind == "W":
            return job.weights_s[stage]
        computing = job.forward_s[stage] if kind == "F" else job.inputs_s[stage]
        computing += job.weights_s[stage] if kind == "B" else 0.0
        if job.exchange is None:
            return computing
        exchange = job.exchange[stage]
        moving = exchange.fixed_s + max(exchange.within_s, exchange.crossing_s[kind != "F"] / rate.inside)
        return max(moving, computing) if exchange.hidden else moving + computing

    def lead(self, kind: str, stage: int) -> tuple[float, float]:
        """Return the seconds of a pass before its first exchange, and behind its last."""
        if self.job.exchange is None:
            return 0.0, 0.0
        exchange = self.job.exchange[stage]
        return (exchange.head_s, 0.0) if kind == "F" else (0.0, exchange.tail_s)

    def _pass(self, state: _Rank) -> bool:
        job = self.job
        kind, batch, stage = state.order[state.at]
        begin, used = max(state.free, self.needed[stage] if kind == "F" and batch == 0 else 0.0), NEVER
        before = stage - 1 if kind == "F" else stage + 1
        if kind != "W" and 0 <= before < job.ranks * job.chunks:
            key = (kind, batch, before)
            if key not in self.ends:
                return False
            begin = max(begin, self.ends[key])
            if before % job.ranks != state.rank:
                if key not in self.sends:
                    self._send(key, self.ranks[before % job.ranks], state)
                used = self.sends[key][1]
                begin = max(begin, used)
        exchanges = job.inside is not None and kind != "W"
        if state.waiting is not None and ((exchanges and state.switches_inside) or job.blocking):
            if state.waiting not in self.sends:
                return False
            arrived = self.sends[state.waiting][1]
            used, state.waiting = max(used, arrived), None
            begin = max(begin, arrived) if job.blocking else begin
        head, tail = self.lead(kind, stage)
        end = begin + self.takes(kind, stage, state.rates)
        if exchanges:
            lit = self._lit_inside if state.switches_inside else self._lit_pipeline
            end += max(0.0, lit(state, begin + head, used) - begin - head)
            state.idle, state.passed = end - tail, end
        self.ends[kind, batch, stage] = end
        state.free = end
        after = stage + 1 if kind == "F" else stage - 1
        if kind != "W" and 0 <= after < job.ranks * job.chunks and after % job.ranks != state.rank:
            other = self.ranks[after % job.ranks]
            if not other.switches_inside:
                self._send((kind, batch, stage), state, other)
            state.waiting = (kind, batch, stage)
        return True

    def _lit_inside(self, state: _Rank, needed: float, used: float) -> float:
        assert state.ports is not None
        if used > NEVER:
            return self._set(state, "pipeline-to-inside", state.ports.inside, used, needed)
        if state.passed == NEVER and state.held != state.ports.inside:
            return self._set(state, "data-to-pipeline", state.ports.inside, state.idle, needed)
        return NEVER

    def _lit_pipeline(self, state: _Rank, needed: float, _: float = NEVER) -> float:
        if state.switches_inside and state.passed > NEVER:
            return self._to_pipeline(state)
        if state.ports is None or state.held == state.ports.pipeline:
            return NEVER
        if state.lit is None:
            state.lit = self._set(state, "data-to-pipeline", state.ports.pipeline, state.idle, needed)
        return state.lit

    def _to_pipeline(self, state: _Rank) -> float:
        assert state.ports is not None
        return self._set(state, "inside-to-pipeline", state.ports.pipeline, state.idle, state.passed)

    def _set(self, state: _Rank, boundary: Boundary, after: PortSplit, idle: float, needed: float) -> float:
        begin = (needed if boundary == "inside-to-pipeline" else max(idle, needed)) if self.demand else idle
        self.changes.add((state.rank, boundary, after, begin))
        return begin + self.delay

    def _send(self, key: Pass, source: _Rank, target: _Rank) -> None:
        ready, link = self.ends[key], (source.rank, target.rank)
        lit = max(self._lit_pipeline(source, ready), self._lit_pipeline(target, ready))
        begin = max(ready, lit, self.last.get(link, NEVER))
        end = begin + self.job.hop_s[0] + self.job.hop_s[1] / min(source.rates.hop, target.rates.hop)
        self.sends[key], self.last[link] = (begin, end), end
        source.last_sent, target.last_sent = max(source.last_sent, end), max(target.last_sent, end)

    def _reduce(self, state: _Rank) -> float:
        job, stages = self.job, range(state.rank, self.job.ranks * self.job.chunks, self.job.ranks)
        done = dict.fromkeys(stages, NEVER)
        for kind, i, stage in state.order:
            if kind in "BW":
                done[stage] = max(done[stage], self.ends[kind, i, stage])
        split = any(kind == "W" for kind, _, _ in state.order)
        rows: list[tuple[float, float]] = []
        for stage in sorted(stages, key=lambda s: (done[s], s)):
            back = job.weights_s[stage] + (0.0 if split else job.inputs_s[stage])
            for layer in range(job.layers[stage]):
                behind = (job.layers[stage] - 1 - layer) / job.layers[stage]
                ready = done[stage] - behind * back if job.overlapped else max(done.values())
                rows.append((ready, job.reduced_s[stage] / (state.rates.ring if job.reduces else 1.0)))
        if not any(took for _, took in rows):
            return max(done.values())
        first = min(ready for ready, _ in rows)
        lit, at = self._lit_ring(state, first), NEVER
        for ready, took in rows:
            at = max(at, ready, lit) + took
        if job.reduces:
            self.reduces[state.rank] = (max(lit, first), at)
        return at

    def _lit_ring(self, state: _Rank, needed: float) -> float:
        if state.ports is None or not self.job.reduces:
            return NEVER
        if self._final(state.rank, state.ports) == state.ports.data:
            return self._to_pipeline(state) if state.switches_inside and state.rank else NEVER
        return self._set(state, "pipeline-to-data", state.ports.data, max(state.last_sent, state.idle), needed)


# Bounds over all plans of ports


def check_ports_bound(
    findings: ViolationLog, job: RailJob, bound_s: float, delay_s: float, capacity: int, *, demand: bool
) -> int:
    """Check that no plan of ports is faster than a bound; return what is left of the passes that may be followed.

    Plans are gone through stage by stage; stages left open have the best rates of their plans, set in no time.

    Raises:
        BeyondWorkError: more passes would have to be followed.
    """
    menus, orders, best = [_undominated(job, rank) for rank in range(job.ranks)], orders_of(job), []
    for rank, menu in enumerate(menus):
        rows = [rates_of(job, rank, ports) for ports in menu] or [WHOLE]
        best.append(PortRates(*(max(getattr(r, f.name) for r in rows) for f in fields(PortRates))))

    def least(plan: list[StagePorts | None]) -> float:
        nonlocal capacity
        capacity -= sum(map(len, orders))
        rates = [rate if ports is None else None for ports, rate in zip(plan, best, strict=True)]
        try:
            return Follower(job, plan, delay_s, demand=demand, rates=rates, orders=orders).step()
        except ValueError:
            return float("inf")

    def beaten(plan: list[StagePorts | None]) -> bool | None:
        """Return whether some plan that agrees with this one is faster; None: that takes more passes."""
        if capacity <= 0:
            return None
        if least(plan) >= bound_s * (1 - SLACK):
            return False
        if None not in plan:
            return True
        rank = max((k for k, ports in enumerate(plan) if ports is None), key=lambda k: (len(menus[k]), -k))
        answers = set[bool | None]()
        for ports in menus[rank]:
            answers.add(beaten([*plan[:rank], ports, *plan[rank + 1 :]]))
            if True in answers:
                return True
        return None if None in answers else False

    answer = all(menus) and beaten([None] * job.ranks)
    if answer is None:
        raise BeyondWorkError("too many plans of ports to go through again")
    if answer:
        findings.add("bound", f"a plan of ports is faster than {bound_s!r} s")
    return capacity


def passes_of(job: RailJob) -> int:
    """Return the passes of a step: of a micro-batch in a stage forward, backward for inputs, for weights."""
    return 3 * job.micro_batches * job.ranks * job.chunks


def passes_within(job: RailJob, budget: WorkBudget, capacity: int | None = None) -> int:
    """Return how many passes may be followed in plans of ports, at most `MAX_PASSES` or so many.

    Raises:
        BeyondWorkError: plans of a stage are too many to list, or not one step may be followed.
    """
    capacity = MAX_PASSES if capacity is None else capacity
    phases = 1 + (job.inside is not None and job.ranks > 1) + job.reduces
    splits = [(job.ports + 1) ** max(len(carried(job, rank)) - 1, 0) for rank in range(job.ranks)]
    budget.take(sum(float(count) ** phases for count in splits))
    if capacity <= 0 or budget.left < EVENTS_OF_PASS * passes_of(job):
        raise BeyondWorkError("too many plans of ports to go through again")
    return int(min(capacity, budget.left / EVENTS_OF_PASS))


# The plan of a solution


def check_rails(
    findings: ViolationLog, problem: LlmTrainingProblem, plan: FabricPlan, budget: WorkBudget
) -> float | None:
    """Check the ports of a plan, and return the seconds of its step; None: they are not sound.

    Raises:
        BeyondWorkError: the step takes more work than is left.
    """
    settings, ports = problem.switching, plan.ports
    if settings is None:
        findings.add("rails", "the instance does not say how long ports take to set")
        return None
    job = derived_job(problem, plan.strategy, settings)
    if not check_ports(findings, job, ports):
        return None
    budget.take(EVENTS_OF_PASS * passes_of(job))
    return Follower(job, ports, settings.delay_s, demand=not settings.provisioned).step()


def check_rail_bounds(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    ranked: Sequence[tuple[ParallelStrategy, float]],
    bounds_s: Sequence[float],
    step_s: float,
    budget: WorkBudget,
) -> None:
    """Check of each of the fastest strategies that no plan of ports is faster than its bound.

    Args:
        ranked: strategies with their seconds on an ideal switch, the best first.
        bounds_s: of these.
        step_s: of the plan.
    """
    settings, count = problem.switching, len(bounds_s)
    assert settings is not None
    if not 0 < count <= len(ranked):
        findings.add("certificate", f"bounds of {count} strategies, {len(ranked)} are ranked")
        return
    if ranked[count - 1][1] > step_s * (1 + SLACK):
        findings.add("certificate", "a bound of a strategy whose time on an ideal switch says enough")
        return
    capacity = MAX_PASSES
    for number, (bound, (strategy, seconds)) in enumerate(zip(bounds_s, ranked, strict=False)):
        if bound <= seconds * (1 + SLACK):
            continue
        if beats(step_s, bound, Tolerance.LONG_SUMS):
            findings.add("certificate", f"the bound of strategy {number}, {bound!r} s, is above the step")
        job = derived_job(problem, strategy, settings)
        before = passes_within(job, budget, capacity)
        demand = not settings.provisioned
        capacity = check_ports_bound(findings, job, bound, settings.delay_s, before, demand=demand)
        budget.left -= EVENTS_OF_PASS * (before - capacity)


def rails_bound(
    step_s: float, bounds_s: Sequence[float], ranked_s: Sequence[float], shapes: Sequence[ShapeOutcome],
    claimed: float, left_s: float,
) -> float:  # fmt: skip
    """Return the seconds that no strategy of the space is below on rails.

    Those ranked are bounded by their bounds, all others by the first time on an ideal switch that has none; of shapes
    that are left by what is claimed, where none of them was found below that on an ideal switch.
    """
    count, bounds = len(bounds_s), [step_s, *bounds_s]
    if any(line.verdict is ShapeVerdict.LEFT for line in shapes):
        bounds.append(claimed if claimed <= left_s else left_s)
    searched = all(line.verdict in (ShapeVerdict.SEARCHED, ShapeVerdict.MEMORY) for line in shapes)
    if not searched or sum(line.fitting for line in shapes) != count:
        bounds.append(ranked_s[min(count, len(ranked_s) - 1)])
    return min(bounds)
