"""One step of training runs on rails whose circuits are reconfigured inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.parallelism import PassKind
from topoopt.core.switching import (
    EVERY_STAGE,
    Boundary,
    ImpairedStep,
    PortSplit,
    PortUse,
    RailEvent,
    RailExchange,
    RailJob,
    StagePorts,
    SwitchedStep,
    SwitchMode,
)
from topoopt.native import jobs
from topoopt.simulate.llm_training.times import FORWARD, INPUTS, OrderShape, orders_of
from topoopt.simulate.pipeline import PassOrders

RING_DIRECTIONS = 2.0
"""Directions of a ring: bytes that may take either end go half by each."""


def ring_share(servers: int, ports: int, share: float) -> float:
    """Rate of a ring of servers over that of a GPU, its bytes passed on both ways round.

    Two servers are one pair: each port a circuit. A GPU sends no faster than its interfaces do.
    """
    if servers < 2:
        return 1.0
    lanes = ports if servers == 2 else RING_DIRECTIONS * (ports // 2)
    return min(1.0, lanes * share)


def exchange_share(servers: int, ports: int, share: float) -> float:
    """The same of an exchange of tokens: what goes to each of the other servers is passed on along the shorter way.

    With V bytes of a GPU to the k - 1 others in equal parts, an arc of the ring carries V floor(k^2 / 4) / (2 (k - 1)).
    """
    if servers < 2:
        return 1.0
    if servers == 2:
        return min(1.0, ports * share)
    crowd = (servers * servers // 4) / (RING_DIRECTIONS * (servers - 1))
    return min(1.0, ports // 2 * share / crowd)


def hop_share(neighbours: int, ports: int, share: float) -> float:
    """The same of the way to a neighbouring stage: ports are shared out evenly."""
    return min(1.0, ports // neighbours * share) if neighbours else 1.0


def exchange_s(exchange: RailExchange, computing_s: float, share: float, *, back: bool) -> float:
    """Seconds of a pass with what it exchanges."""
    moving = max(exchange.crossing_s[back] / share, exchange.within_s) + exchange.fixed_s
    return max(computing_s, moving) if exchange.hidden else computing_s + moving


def splits(job: RailJob, rank: int, use: PortUse) -> tuple[PortSplit, ...]:
    """All ways to give the ports of a stage while this is exchanged; no port is spare that any use could have.

    Ports go to a use in pairs where it needs two: of a ring, or one to each neighbour.
    """
    units = {entry: job.needs(rank, entry) for entry in PortUse if entry in job.uses and job.needs(rank, entry)}
    counts = product(*(range(0, job.ports + 1, unit) for unit in units.values()))
    fitting = [PortSplit(**{entry.value: n for entry, n in zip(units, row, strict=True)}) for row in counts]
    fitting = [entry for entry in fitting if entry.total <= job.ports and entry.of(use)]
    return tuple(entry for entry in fitting if all(entry.total + unit > job.ports for unit in units.values()))


def plans_of(job: RailJob, rank: int) -> tuple[StagePorts, ...]:
    """All plans of a stage: a split for each thing that it exchanges, those that switch least first."""
    plans = set()
    between = splits(job, rank, PortUse.PIPELINE) if job.ranks > 1 else (None,)
    inside = splits(job, rank, job.inside) if job.inside is not None else (None,)
    behind = splits(job, rank, PortUse.DATA) if job.reduces else (None,)
    for row in product(between, inside, behind):
        given = [entry for entry in row if entry is not None] or [PortSplit()]
        first = row[0] or row[1] or given[0]
        second = row[1] or first
        plans.add(StagePorts(first, second, row[2] or second))
    return tuple(sorted(plans, key=lambda entry: (len({entry.pipeline, entry.inside, entry.data}), entry)))


@dataclass(frozen=True, eq=False)
class RailShares:
    """Rates over those of a GPU, of each rank.

    Attributes:
        hops: float64[p] to a neighbour.
        rings: float64[p] of gradients and weights.
        inside: float64[p] of what passes exchange.
    """

    hops: Floats
    rings: Floats
    inside: Floats

    @staticmethod
    def whole(ranks: int) -> RailShares:
        """Of a network that gives all of them at once."""
        return RailShares(*np.ones((3, ranks)))

    @staticmethod
    def of(job: RailJob, plan: Sequence[StagePorts]) -> RailShares:
        return RailShares(*np.array([shares_of(job, rank, ports) for rank, ports in enumerate(plan)]).T)

    @staticmethod
    def forwarded(job: RailJob) -> RailShares:
        """On one ring through all servers of a rail, in which others forward.

        Servers of a replica stand beside each other in the order of the stages: neighbouring stages are joined, and
        rings of all p stages pass over every arc. Chunks that go back to the first stage share the arcs with these.
        What is sent at the same time for different ends is counted as if it did not meet.
        """
        hop = min(1.0, job.ports // 2 * job.circuit_share) / min(job.chunks, 2)
        rings = ring_share(max(job.data_servers, 3), job.ports, job.circuit_share / job.ranks)
        inside = rings
        if job.inside is PortUse.EXPERT:
            inside = exchange_share(max(job.expert_servers, 3), job.ports, job.circuit_share / job.ranks)
        return RailShares(*(np.full(job.ranks, share) for share in (hop, rings, inside)))


def shares_of(job: RailJob, rank: int, ports: StagePorts) -> tuple[float, float, float]:
    """Rates of a rank over those of a GPU: of hops, rings, and what passes exchange."""
    share, inside = job.circuit_share, 1.0
    if job.inside is PortUse.EXPERT:
        inside = exchange_share(job.expert_servers, ports.inside.expert, share)
    elif job.inside is PortUse.DATA:
        inside = ring_share(job.data_servers, ports.inside.data, share)
    rings = ring_share(job.data_servers, ports.data.data, share) if job.reduces else 1.0
    return hop_share(job.neighbours(rank), ports.pipeline.pipeline, share), rings, inside


UNKNOWN = -1e300
"""A time that is not known yet; a circuit that was always there."""

BEGIN, END, SENT, ARRIVED, TO_PIPELINE, TO_INSIDE = range(6)
"""Rows of the times of passes: the last two are when setting ports begins, behind and before the pass."""

IDLE, PASSED, BEGUN, UP, LAST = range(5)
"""Rows of the state of ranks: since when their passes use no circuits, when the last one ended, whether one did; when
they have the first circuits of the pipeline; when the last transfer between stages ended."""

ENDS = (int(PassKind.BACKWARD), int(PassKind.WEIGHTS))
AHEAD, BACK = int(PassKind.FORWARD), (int(PassKind.BACKWARD), int(PassKind.INPUTS))


Delays = Mapping[Boundary, float]
"""Seconds to set ports at each boundary."""


def same_delay(delay_s: float) -> Delays:
    return dict.fromkeys(get_args(Boundary), delay_s)


RailOrders = tuple[PassOrders, Ints]
"""The passes of a job; int64[2, n]: the pass that each waits for, and the rank that gets what it makes; -1: none."""


@dataclass(frozen=True, eq=False)
class FollowedStep:
    """One step.

    Attributes:
        step_s: seconds.
        orders: passes.
        times: float64[6, n] of them, by `BEGIN` and the rows behind it.
        up: float64[p]: when each rank has the first circuits of the pipeline; `UNKNOWN`: it had them.
        gathered: float64[p]: when each rank has its weights; 0 where none are gathered.
        data_set: float64[p]: when ports begin to be set for gradients; `UNKNOWN`: they are.
        reducing: float64[2, p]: begin and end of reducing.
    """

    step_s: float
    orders: PassOrders
    times: Floats
    up: Floats
    gathered: Floats
    data_set: Floats
    reducing: Floats


def rail_orders(job: RailJob) -> RailOrders:
    """All passes.

    Raises:
        InputError: the schedule does not allow the shape.
    """
    shape = OrderShape(job.schedule, job.ranks, job.chunks, job.micro_batches, zero=0)
    orders = orders_of(shape, _planned_with(job), sum(job.hop_s))
    kind, batch, stage = (orders.passes[:, k].astype(np.int64) for k in range(3))
    ahead, moving = kind == AHEAD, np.isin(kind, (AHEAD, *BACK))
    index = np.full((2, len(orders.before), job.micro_batches), -1)
    index[(~ahead).astype(int)[moving], stage[moving], batch[moving]] = np.flatnonzero(moving)
    source = np.where(ahead, orders.before[stage], orders.after[stage])
    target = np.where(ahead, orders.after[stage], orders.before[stage])
    waits, sends = moving & (source >= 0), moving & (target >= 0)
    sends &= orders.rank_of_stage[target] != orders.rank_of_stage[stage]
    links = np.full((2, len(kind)), -1)
    links[0, waits] = index[(~ahead).astype(int)[waits], source[waits], batch[waits]]
    links[1, sends] = orders.rank_of_stage[target[sends]]
    return orders, links


def _planned_with(job: RailJob) -> Floats:
    """float64[3, stages]: seconds of passes on an ideal switch, which orders are planned with."""
    table = np.array([job.forward_s, job.inputs_s, job.weights_s])
    if job.exchange is not None and job.inside is PortUse.EXPERT:
        for row, back in ((FORWARD, False), (INPUTS, True)):
            table[row] = [exchange_s(*entry, 1.0, back=back) for entry in zip(job.exchange, table[row], strict=True)]
    return table


def follow(
    job: RailJob,
    job_orders: RailOrders,
    shares: RailShares,
    plan: Sequence[StagePorts | None] = (),
    delays: Delays | None = None,
    mode: SwitchMode = "provisioned",
) -> FollowedStep:
    """Do the step as early as circuits allow.

    Args:
        plan: ports of each rank; None: those of the rank are left open, and set in no time. Empty: of all ranks.

    Raises:
        InfeasibleError: passes wait for each other.
    """
    delays = delays or same_delay(0.0)
    orders, links = job_orders
    p, demand = job.ranks, mode == "on-demand"
    durations, lead = _durations(job, orders.passes, orders.rank_of_stage, shares)
    floor, gathered = _gathering(job, orders, shares)
    first, inside, apart = np.full(p, -1.0), np.full(p, -1.0), np.zeros(p, dtype=np.int64)
    for rank, ports in enumerate(plan):
        if ports is None:
            continue
        held = ports.data if job.reduces else final_split(job, rank, ports)
        first[rank] = delays["data-to-pipeline"] if held != ports.pipeline else -1.0
        inside[rank] = delays["data-to-pipeline"] if held != ports.inside else -1.0
        apart[rank] = job.inside is not None and ports.inside != ports.pipeline
    pair = np.minimum(shares.hops[:, None], shares.hops[None, :])
    exchanged = (orders.passes[:, 0] != int(PassKind.WEIGHTS)) & (job.inside is not None)
    times, state, done = jobs.follow_passes(
        orders.start,
        links,
        durations,
        exchanged.astype(np.int64),
        lead,
        floor,
        job.hop_s[0] + job.hop_s[1] / pair,
        np.where(gathered > 0.0, gathered, -job.optimizer_s),
        first,
        inside,
        np.tile([[delays["inside-to-pipeline"]], [delays["pipeline-to-inside"]]], (1, p)),
        apart,
        demand,
        job.blocking,
    )
    if not done:
        raise InfeasibleError("passes wait for each other: ports that serve passes and stages in turn cannot do it")
    data_set, reducing = _reducing(job, orders, times, state, shares, plan, delays, demand)
    end = max(float(times[END].max()), float(state[LAST].max()), float(reducing[1].max()))
    return FollowedStep(end + job.optimizer_s, orders, times, state[UP], gathered, data_set, reducing)


def final_split(job: RailJob, rank: int, ports: StagePorts) -> PortSplit:
    """What ports serve behind the last pass: the first stage sends nothing then."""
    return ports.inside if rank == 0 or job.inside is None else ports.pipeline


def electrical_s(job: RailJob, orders: RailOrders) -> float:
    """The step on a network that gives every exchange the whole rate of a GPU, all at once."""
    return follow(job, orders, RailShares.whole(job.ranks)).step_s


def _durations(job: RailJob, passes: Int32s, rank_of_stage: Ints, shares: RailShares) -> tuple[Floats, Floats]:
    kind, stage = passes[:, 0], passes[:, 2]
    table = np.stack(
        [
            np.array(job.forward_s),
            np.array(job.inputs_s) + np.array(job.weights_s),
            np.array(job.inputs_s),
            np.array(job.weights_s),
        ]
    )
    lead = np.zeros((2, len(kind)))
    if job.exchange is not None:
        for at, exchange in enumerate(job.exchange):
            share = float(shares.inside[rank_of_stage[at]])
            for row, back in ((AHEAD, False), (BACK[0], True), (BACK[1], True)):
                table[row, at] = exchange_s(exchange, float(table[row, at]), share, back=back)
        lead[0] = np.where(kind == AHEAD, np.array([exchange.head_s for exchange in job.exchange])[stage], 0.0)
        lead[1] = np.where(np.isin(kind, BACK), np.array([exchange.tail_s for exchange in job.exchange])[stage], 0.0)
    return table[kind, stage], lead


def _own(job: RailJob, rank: int) -> Ints:
    return np.arange(rank, job.ranks * job.chunks, job.ranks)


def _gathering(job: RailJob, orders: PassOrders, shares: RailShares) -> tuple[Floats, Floats]:
    """Earliest begin of each pass by the weights it needs, which come layer by layer, and when all are there."""
    floor, gathered = np.zeros(len(orders.passes)), np.zeros(job.ranks)
    if job.data_servers == 1 and not any(job.gathered_s):
        return floor, gathered
    kind, stage = orders.passes[:, 0], orders.passes[:, 2]
    for rank in range(job.ranks):
        came, share = 0.0, float(shares.rings[rank]) if job.reduces else 1.0
        total = sum(job.gathered_s[index] * job.layers[index] for index in _own(job, rank)) / share
        for index in _own(job, rank):
            layers, layer_s = job.layers[index], job.gathered_s[index] / share
            ready = came + layer_s * np.arange(1, layers + 1) - job.forward_s[index] * np.arange(layers) / layers
            came += layer_s * layers
            firsts = np.flatnonzero((stage == index) & (kind == AHEAD))[:1]
            floor[firsts] = max(0.0, float(ready.max())) if job.overlapped else total
        gathered[rank] = total if job.reduces else 0.0
    return floor, gathered


def _reducing(
    job: RailJob,
    orders: PassOrders,
    times: Floats,
    state: Floats,
    shares: RailShares,
    plan: Sequence[StagePorts | None],
    delays: Delays,
    demand: bool,
) -> tuple[Floats, Floats]:
    """When ports begin to be set for gradients, and when these are reduced: layer by layer, or behind the passes."""
    kind, stage = orders.passes[:, 0], orders.passes[:, 2]
    split = bool((kind == int(PassKind.WEIGHTS)).any())
    back = np.array(job.weights_s) + (0.0 if split else np.array(job.inputs_s))
    done = np.zeros(job.ranks * job.chunks)
    last = np.isin(kind, ENDS)
    np.maximum.at(done, stage[last], times[END, last])
    begun, reducing = np.full(job.ranks, UNKNOWN), np.zeros((2, job.ranks))
    for rank in range(job.ranks):
        own = _own(job, rank)
        reducing[:, rank] = done[own].max()
        if not any(job.reduced_s[index] for index in own):
            continue
        own = own[np.argsort(done[own], kind="stable")]
        layers = np.array(job.layers)[own]
        layer_s = np.repeat(np.array(job.reduced_s)[own], layers) / (float(shares.rings[rank]) if job.reduces else 1.0)
        late = np.concatenate([np.arange(n - 1, -1, -1) / n for n in layers]) if job.overlapped else np.zeros(1)
        ready = np.repeat(done[own], layers) - late * np.repeat(back[own], layers)
        if not job.overlapped:
            ready = np.full(len(layer_s), done[own].max())
        up = UNKNOWN
        index = plan[rank] if plan else None
        if index is not None and job.reduces and final_split(job, rank, index) != index.data:
            idle = float(max(state[LAST, rank], state[IDLE, rank]))
            begun[rank] = max(idle, float(ready.min())) if demand else idle
            up = begun[rank] + delays["pipeline-to-data"]
        elif index is not None and job.reduces and index.inside != index.pipeline and rank:
            up = float(state[PASSED if demand else IDLE, rank]) + delays["inside-to-pipeline"]
        ready = np.maximum(ready, up)
        reducing[0, rank] = ready.min()
        reducing[1, rank] = (ready + np.cumsum(layer_s[::-1])[::-1]).max()
    return begun, reducing


NAMES = {kind: kind.name.lower() for kind in PassKind}


def events_of(
    job: RailJob, orders: RailOrders, plan: Sequence[StagePorts], delays: Delays, step: FollowedStep
) -> tuple[RailEvent, ...]:
    events = [*_passes(orders, step), *_ends(job, step)]
    for rank, ports in enumerate(plan):
        events += _switches(job, orders, rank, ports, delays, step)
    return tuple(sorted(events, key=lambda event: (event.rank, event.begin_s, event.end_s, event.what)))


def _passes(orders: RailOrders, step: FollowedStep) -> Iterator[RailEvent]:
    passes, links = orders
    rows, times = passes.passes.tolist(), step.times.T.tolist()
    targets, owners = links[1].tolist(), passes.rank_of_stage.tolist()
    for (kind, batch, stage), at, target in zip(rows, times, targets, strict=True):
        rank = owners[stage]
        yield RailEvent(rank, NAMES[PassKind(kind)], at[BEGIN], at[END], batch, stage)
        if target >= 0:
            yield RailEvent(rank, "send", at[SENT], at[ARRIVED], batch, stage, target)


def _ends(job: RailJob, step: FollowedStep) -> Iterator[RailEvent]:
    for rank in range(job.ranks):
        if step.gathered[rank] > 0.0:
            yield RailEvent(rank, "gather", 0.0, float(step.gathered[rank]))
        begin, end = step.reducing[:, rank].tolist()
        if end > begin and job.reduces:
            yield RailEvent(rank, "reduce", begin, end)
        yield RailEvent(rank, "optimizer", step.step_s - job.optimizer_s, step.step_s)


def _switches(
    job: RailJob, orders: RailOrders, rank: int, ports: StagePorts, delays: Delays, step: FollowedStep
) -> Iterator[RailEvent]:
    def event(begin_s: float, where: Boundary, before: PortSplit, after: PortSplit) -> RailEvent:
        end_s = begin_s + delays[where]
        return RailEvent(rank, "switch", begin_s, end_s, before=before, after=after, boundary=where)

    held = ports.data if job.reduces else final_split(job, rank, ports)
    up = float(step.up[rank])
    if up > UNKNOWN:
        yield event(up - delays["data-to-pipeline"], "data-to-pipeline", held, ports.pipeline)
    passes, links = orders
    places = range(int(passes.start[rank]), int(passes.start[rank + 1]))
    used = [index for index in places if passes.passes[index, 0] != int(PassKind.WEIGHTS)]
    owner = passes.rank_of_stage[passes.passes[:, 2]]
    source = links[0]
    for at, index in enumerate(used):
        back, there = (float(step.times[row, index]) for row in (TO_INSIDE, TO_PIPELINE))
        if back > UNKNOWN:
            first = at == 0 and up == UNKNOWN and not _takes(source, owner, index)
            where: Boundary = "data-to-pipeline" if first else "pipeline-to-inside"
            yield event(back, where, held if first else ports.pipeline, ports.inside)
        follows = links[1, index] >= 0 or (at + 1 < len(used) and _takes(source, owner, used[at + 1]))
        if there > UNKNOWN and follows:
            yield event(there, "inside-to-pipeline", ports.inside, ports.pipeline)
    if step.data_set[rank] > UNKNOWN:
        begin_s = float(step.data_set[rank])
        yield event(begin_s, "pipeline-to-data", final_split(job, rank, ports), ports.data)


def _takes(source: np.ndarray, owner: np.ndarray, index: int) -> bool:
    return bool(source[index] >= 0 and owner[source[index]] != owner[index])


def left_shares(shares: RailShares, rank: int, left: float) -> RailShares:
    """Rates where a part of the interfaces of a server of a stage is left, or of all servers.

    What is passed on round a ring goes through that server as well, and replicas run in step: the whole stage is as
    slow as it.
    """
    part = np.where((np.arange(len(shares.hops)) == rank) | (rank == EVERY_STAGE), left, 1.0)
    return replace(shares, hops=shares.hops * part, rings=shares.rings * part, inside=shares.inside * part)


def failed_figures(job: RailJob, orders: RailOrders, step: SwitchedStep, rank: int, left: float) -> ImpairedStep:
    """The step on the ports of a plan after a failure; passes keep their order."""
    plan, delays = step.plan, same_delay(step.delay_s)
    late = follow(job, orders, left_shares(RailShares.of(job, plan), rank, left), plan, delays, step.mode)
    electrical = follow(job, orders, left_shares(RailShares.whole(job.ranks), rank, left))
    return ImpairedStep(rank, late.step_s, electrical.step_s)


def slowed(job: RailJob, rank: int, slowdown: float) -> RailJob:
    """The job with the passes of a rank so many times as long."""
    by = np.where(np.arange(job.ranks * job.chunks) % job.ranks == rank, slowdown, 1.0)
    exchange = job.exchange
    if exchange is not None:
        exchange = tuple(
            replace(row, head_s=row.head_s * float(by[stage]), tail_s=row.tail_s * float(by[stage]))
            for stage, row in enumerate(exchange)
        )
    return replace(
        job,
        exchange=exchange,
        forward_s=tuple((by * job.forward_s).tolist()),
        inputs_s=tuple((by * job.inputs_s).tolist()),
        weights_s=tuple((by * job.weights_s).tolist()),
    )


def straggler_figures(job: RailJob, orders: RailOrders, step: SwitchedStep, rank: int, slowdown: float) -> ImpairedStep:
    """The step on the ports of a plan with one slow rank; passes keep their order."""
    slow, shares = slowed(job, rank, slowdown), RailShares.of(job, step.plan)
    late = follow(slow, orders, shares, step.plan, same_delay(step.delay_s), step.mode)
    return ImpairedStep(rank, late.step_s, electrical_s(slow, orders))
