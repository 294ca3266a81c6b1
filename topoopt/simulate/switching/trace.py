"""What every stage does in a step, and when: passes, what is sent, gathered and reduced, and ports that are set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from topoopt.core.parallelism import PassKind
from topoopt.core.switching import Boundary, PortSplit, RailEvent, RailJob, StagePorts
from topoopt.simulate.switching.step import (
    ARRIVED,
    BEGIN,
    END,
    SENT,
    TO_INSIDE,
    TO_PIPELINE,
    UNKNOWN,
    Delays,
    FollowedStep,
    RailOrders,
    final_split,
)

NAMES = {kind: kind.name.lower() for kind in PassKind}


def events_of(
    job: RailJob, known: RailOrders, plan: Sequence[StagePorts], delays: Delays, step: FollowedStep
) -> tuple[RailEvent, ...]:
    """All events, by rank and begin."""
    found = [*_passes(known, step), *_ends(job, step)]
    for rank, one in enumerate(plan):
        found += _switches(job, known, rank, one, delays, step)
    return tuple(sorted(found, key=lambda event: (event.rank, event.begin_s, event.end_s, event.what)))


def _passes(known: RailOrders, step: FollowedStep) -> Iterator[RailEvent]:
    """Passes, and what they send."""
    rows, times = known.orders.passes.tolist(), step.times.T.tolist()
    targets, owners = known.links[1].tolist(), known.orders.rank_of_stage.tolist()
    for (kind, batch, stage), at, target in zip(rows, times, targets, strict=True):
        rank = owners[stage]
        yield RailEvent(rank, NAMES[PassKind(kind)], at[BEGIN], at[END], batch, stage)
        if target >= 0:
            yield RailEvent(rank, "send", at[SENT], at[ARRIVED], batch, stage, target)


def _ends(job: RailJob, step: FollowedStep) -> Iterator[RailEvent]:
    """What stands before and behind the passes."""
    for rank in range(job.ranks):
        if step.gathered[rank] > 0.0:
            yield RailEvent(rank, "gather", 0.0, float(step.gathered[rank]))
        begin, end = step.reducing[:, rank].tolist()
        if end > begin and job.reduces:
            yield RailEvent(rank, "reduce", begin, end)
        yield RailEvent(rank, "optimizer", step.step_s - job.optimizer_s, step.step_s)


def _switches(
    job: RailJob, known: RailOrders, rank: int, one: StagePorts, delays: Delays, step: FollowedStep
) -> Iterator[RailEvent]:
    """Ports of a stage that are set anew."""

    def event(begin_s: float, where: Boundary, before: PortSplit, after: PortSplit) -> RailEvent:
        end_s = begin_s + delays.at(where)
        return RailEvent(rank, "switch", begin_s, end_s, before=before, after=after, boundary=where)

    held = one.data if job.reduces else final_split(job, rank, one)
    up = float(step.up[rank])
    if up > UNKNOWN:
        yield event(up - delays.data_to_pipeline, Boundary.DATA_TO_PIPELINE, held, one.pipeline)
    places = range(int(known.orders.start[rank]), int(known.orders.start[rank + 1]))
    used = [place for place in places if known.orders.passes[place, 0] != int(PassKind.WEIGHTS)]
    owner = known.orders.rank_of_stage[known.orders.passes[:, 2]]
    source = known.links[0]
    for at, place in enumerate(used):
        back, there = (float(step.times[row, place]) for row in (TO_INSIDE, TO_PIPELINE))
        if back > UNKNOWN:
            first = at == 0 and up == UNKNOWN and not _takes(source, owner, place)
            where = Boundary.DATA_TO_PIPELINE if first else Boundary.PIPELINE_TO_INSIDE
            yield event(back, where, held if first else one.pipeline, one.inside)
        follows = known.links[1, place] >= 0 or (at + 1 < len(used) and _takes(source, owner, used[at + 1]))
        if there > UNKNOWN and follows:
            yield event(there, Boundary.INSIDE_TO_PIPELINE, one.inside, one.pipeline)
    if step.data_set[rank] > UNKNOWN:
        begin_s = float(step.data_set[rank])
        yield event(begin_s, Boundary.PIPELINE_TO_DATA, final_split(job, rank, one), one.data)


def _takes(source: np.ndarray, owner: np.ndarray, place: int) -> bool:
    """Whether a pass waits for another rank."""
    return bool(source[place] >= 0 and owner[source[place]] != owner[place])
