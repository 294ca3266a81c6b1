"""One step of a job on given ports: gather weights, follow the passes, reduce gradients, take the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.parallelism import PassKind
from topoopt.core.switching import Boundary, PortSplit, PortUse, RailJob, StagePorts, SwitchMode
from topoopt.native import jobs
from topoopt.simulate.llm_training.times import FORWARD, INPUTS, OrderShape, orders_of
from topoopt.simulate.pipeline.orders import PassOrders
from topoopt.simulate.switching.ports import exchange_s
from topoopt.simulate.switching.shares import RailShares

UNKNOWN = -1e300
"""A time that is not known yet; a circuit that was always there."""

BEGIN, END, SENT, ARRIVED, TO_PIPELINE, TO_INSIDE = range(6)
"""Rows of the times of passes: the last two are when setting ports begins, behind and before the pass."""

IDLE, PASSED, BEGUN, UP, LAST = range(5)
"""Rows of the state of ranks: since when their passes use no circuits, when the last one ended, whether one did; when
they have the first circuits of the pipeline; when the last transfer between stages ended."""

ENDS = (int(PassKind.BACKWARD), int(PassKind.WEIGHTS))
AHEAD, BACK = int(PassKind.FORWARD), (int(PassKind.BACKWARD), int(PassKind.INPUTS))


@dataclass(frozen=True)
class Delays:
    """Seconds to set ports at each boundary."""

    data_to_pipeline: float
    inside_to_pipeline: float
    pipeline_to_inside: float
    pipeline_to_data: float

    def at(self, boundary: Boundary) -> float:
        """At one of them."""
        return float(getattr(self, boundary.name.lower()))

    @staticmethod
    def same(delay_s: float) -> Delays:
        """Everywhere the same."""
        return Delays(delay_s, delay_s, delay_s, delay_s)

    @staticmethod
    def only(boundary: Boundary, delay_s: float) -> Delays:
        """At one boundary; elsewhere ports are set in no time."""
        return Delays(*(delay_s if one is boundary else 0.0 for one in Boundary))


@dataclass(frozen=True, eq=False)
class RailOrders:
    """The passes of a job with what they wait for.

    Attributes:
        orders: of the schedule.
        links: int64[2, n]: the pass that each waits for, and the rank that gets what it makes; -1: none.
    """

    orders: PassOrders
    links: Ints


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
    place = np.full((2, len(orders.before), job.micro_batches), -1)
    place[(~ahead).astype(int)[moving], stage[moving], batch[moving]] = np.flatnonzero(moving)
    source = np.where(ahead, orders.before[stage], orders.after[stage])
    target = np.where(ahead, orders.after[stage], orders.before[stage])
    waits, sends = moving & (source >= 0), moving & (target >= 0)
    sends &= orders.rank_of_stage[target] != orders.rank_of_stage[stage]
    links = np.full((2, len(kind)), -1)
    links[0, waits] = place[(~ahead).astype(int)[waits], source[waits], batch[waits]]
    links[1, sends] = orders.rank_of_stage[target[sends]]
    return RailOrders(orders, links)


def _planned_with(job: RailJob) -> Floats:
    """float64[3, stages]: seconds of passes on an ideal switch, which orders are planned with."""
    table = np.array([job.forward_s, job.inputs_s, job.weights_s])
    if job.exchange is not None and job.inside is PortUse.EXPERT:
        for row, back in ((FORWARD, False), (INPUTS, True)):
            table[row] = [exchange_s(*one, 1.0, back=back) for one in zip(job.exchange, table[row], strict=True)]
    return table


def follow(
    job: RailJob,
    known: RailOrders,
    shares: RailShares,
    plan: Sequence[StagePorts | None] = (),
    delays: Delays | None = None,
    mode: SwitchMode = SwitchMode.PROVISIONED,
) -> FollowedStep:
    """Do the step as early as circuits allow.

    Args:
        plan: ports of each rank; None: those of the rank are left open, and set in no time. Empty: of all ranks.

    Raises:
        InfeasibleError: passes wait for each other.
    """
    delays = delays or Delays.same(0.0)
    p, orders, demand = job.ranks, known.orders, mode is SwitchMode.ON_DEMAND
    durations, lead = _durations(job, orders.passes, orders.rank_of_stage, shares)
    floor, gathered = _gathering(job, orders, shares)
    first, inside, apart = np.full(p, -1.0), np.full(p, -1.0), np.zeros(p, dtype=np.int64)
    for rank, one in enumerate(plan):
        if one is None:
            continue
        held = one.data if job.reduces else final_split(job, rank, one)
        first[rank] = delays.data_to_pipeline if held != one.pipeline else -1.0
        inside[rank] = delays.data_to_pipeline if held != one.inside else -1.0
        apart[rank] = job.inside is not None and one.inside != one.pipeline
    pair = np.minimum(shares.hops[:, None], shares.hops[None, :])
    exchanged = (orders.passes[:, 0] != int(PassKind.WEIGHTS)) & (job.inside is not None)
    times, state, done = jobs.follow_passes(
        orders.start,
        known.links,
        durations,
        exchanged.astype(np.int64),
        lead,
        floor,
        job.hop_s[0] + job.hop_s[1] / pair,
        np.where(gathered > 0.0, gathered, -job.optimizer_s),
        first,
        inside,
        np.tile([[delays.inside_to_pipeline], [delays.pipeline_to_inside]], (1, p)),
        apart,
        demand,
        job.blocking,
    )
    if not done:
        raise InfeasibleError("passes wait for each other: ports that serve passes and stages in turn cannot do it")
    data_set, reducing = _reducing(job, orders, times, state, shares, plan, delays, demand)
    end = max(float(times[END].max()), float(state[LAST].max()), float(reducing[1].max()))
    return FollowedStep(end + job.optimizer_s, orders, times, state[UP], gathered, data_set, reducing)


def final_split(job: RailJob, rank: int, one: StagePorts) -> PortSplit:
    """What ports serve behind the last pass: the first stage sends nothing then."""
    return one.inside if rank == 0 or job.inside is None else one.pipeline


def electrical_s(job: RailJob, known: RailOrders) -> float:
    """The step on a network that gives every exchange the whole rate of a GPU, all at once."""
    return follow(job, known, RailShares.whole(job.ranks)).step_s


def _durations(job: RailJob, passes: Int32s, rank_of_stage: Ints, shares: RailShares) -> tuple[Floats, Floats]:
    """Seconds of each pass, and of what stands before and behind its exchange."""
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
        for at, one in enumerate(job.exchange):
            share = float(shares.inside[rank_of_stage[at]])
            for row, back in ((AHEAD, False), (BACK[0], True), (BACK[1], True)):
                table[row, at] = exchange_s(one, float(table[row, at]), share, back=back)
        lead[0] = np.where(kind == AHEAD, np.array([one.head_s for one in job.exchange])[stage], 0.0)
        lead[1] = np.where(np.isin(kind, BACK), np.array([one.tail_s for one in job.exchange])[stage], 0.0)
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
        total = sum(job.gathered_s[one] * job.layers[one] for one in _own(job, rank)) / share
        for one in _own(job, rank):
            layers, each = job.layers[one], job.gathered_s[one] / share
            ready = came + each * np.arange(1, layers + 1) - job.forward_s[one] * np.arange(layers) / layers
            came += each * layers
            firsts = np.flatnonzero((stage == one) & (kind == AHEAD))[:1]
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
    begun, found = np.full(job.ranks, UNKNOWN), np.zeros((2, job.ranks))
    for rank in range(job.ranks):
        own = _own(job, rank)
        found[:, rank] = done[own].max()
        if not any(job.reduced_s[one] for one in own):
            continue
        own = own[np.argsort(done[own], kind="stable")]
        layers = np.array(job.layers)[own]
        each = np.repeat(np.array(job.reduced_s)[own], layers) / (float(shares.rings[rank]) if job.reduces else 1.0)
        late = np.concatenate([np.arange(n - 1, -1, -1) / n for n in layers]) if job.overlapped else np.zeros(1)
        ready = np.repeat(done[own], layers) - late * np.repeat(back[own], layers)
        if not job.overlapped:
            ready = np.full(len(each), done[own].max())
        up = UNKNOWN
        one = plan[rank] if plan else None
        if one is not None and job.reduces and final_split(job, rank, one) != one.data:
            idle = float(max(state[LAST, rank], state[IDLE, rank]))
            begun[rank] = max(idle, float(ready.min())) if demand else idle
            up = begun[rank] + delays.pipeline_to_data
        elif one is not None and job.reduces and one.inside != one.pipeline and rank:
            up = float(state[PASSED if demand else IDLE, rank]) + delays.inside_to_pipeline
        ready = np.maximum(ready, up)
        found[0, rank] = ready.min()
        found[1, rank] = (ready + np.cumsum(each[::-1])[::-1]).max()
    return begun, found
