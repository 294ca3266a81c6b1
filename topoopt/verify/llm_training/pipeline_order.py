"""When the passes of a pipeline end, as the checker recomputes it for schedules whose order is a rule.

A rank does one pass at a time in its order; a forward pass waits for that of the stage before, a backward pass for that
of the stage behind, each a hop later. Orders: arXiv:1811.06965 (GPipe), arXiv:2104.04473 (1F1B, interleaved),
arXiv:2401.10241 (ZB-H1: gradients of weights of a micro-batch behind the backward pass r later ones on rank r).
"""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.core.llm_training_solution import StageSeconds
from topoopt.core.pipeline import PipelineSchedule as S

Pass = tuple[str, int, int]
"""F, B (both gradients), I (of inputs), W (of weights); micro-batch; chunk of the rank, or stage of the model."""

RULED = (S.GPIPE, S.ONE_F_ONE_B, S.INTERLEAVED, S.ZB_H1)
"""Schedules whose order is a rule."""

MOST_PASSES = 400_000
"""Longer pipelines are not followed."""


def order_of(schedule: S, rank: int, p: int, v: int, m: int) -> list[Pass]:
    """Passes of a rank."""
    if schedule is S.GPIPE:
        return [("F", i, 0) for i in range(m)] + [("B", i, 0) for i in range(m)]
    if schedule is S.INTERLEAVED:
        turns = [(i, chunk) for group in range(0, m, p) for chunk in range(v) for i in range(group, group + p)]
        ahead = min(2 * (p - rank - 1) + (v - 1) * p, m * v)
        forward: list[Pass] = [("F", i, chunk) for i, chunk in turns]
        backward: list[Pass] = [("B", i, v - 1 - chunk) for i, chunk in turns]
    else:
        ahead = min(p - 1 - rank, m)
        forward = [("F", i, 0) for i in range(m)]
        backward = [("B", i, 0) for i in range(m)]
    found = forward[:ahead]
    for place, last in enumerate(backward):
        found += [*forward[ahead + place : ahead + place + 1], last]
    if schedule is not S.ZB_H1:
        return found
    split: list[Pass] = []
    for kind, i, chunk in found:
        split.append(("I" if kind == "B" else kind, i, chunk))
        if kind == "B" and i >= rank:
            split.append(("W", i - rank, chunk))
    return split + [("W", i, 0) for i in range(max(0, m - rank), m)]


def makespan_s(schedule: S, p: int, v: int, m: int, stages: StageSeconds) -> float:
    """Seconds until the last pass ends.

    Raises:
        ValueError: passes wait for each other.
    """
    return max(pass_ends(schedule, p, v, m, stages).values())


def pass_ends(schedule: S, p: int, v: int, m: int, stages: StageSeconds) -> dict[Pass, float]:
    """When every pass ends: by kind, micro-batch and stage of the model.

    Raises:
        ValueError: passes wait for each other.
    """
    orders = [order_of(schedule, rank, p, v, m) for rank in range(p)]
    both = [i + w for i, w in zip(stages.inputs_s, stages.weights_s, strict=True)]
    takes = {"F": stages.forward_s, "B": both, "I": stages.inputs_s, "W": stages.weights_s}
    ready: dict[tuple[str, int, int], float] = {}
    ends: dict[Pass, float] = {}
    at, free = [0] * p, [0.0] * p
    left, moved = sum(map(len, orders)), True
    while left and moved:
        moved = False
        for rank in range(p):
            while at[rank] < len(orders[rank]):
                kind, i, chunk = orders[rank][at[rank]]
                stage = chunk * p + rank
                begin = _begin(kind, i, stage, p * v, ready)
                if begin is None:
                    break
                ends[kind, i, stage] = max(free[rank], begin) + takes[kind][stage]
                free[rank] = _done(kind, i, stage, ends[kind, i, stage], stages, p * v, ready)
                at[rank] += 1
                left -= 1
                moved = True
    if left:
        raise ValueError("passes wait for each other")
    return ends


def _begin(kind: str, i: int, stage: int, count: int, ready: dict[tuple[str, int, int], float]) -> float | None:
    """When what a pass waits for is there; None: not known yet."""
    if kind == "W":
        return 0.0
    if kind == "F":
        return 0.0 if stage == 0 else ready.get(("F", i, stage))
    if ("own", i, stage) not in ready:
        return None
    return ready[("own", i, stage)] if stage == count - 1 else ready.get(("B", i, stage))


def _done(
    kind: str,
    i: int,
    stage: int,
    end: float,
    stages: StageSeconds,
    count: int,
    ready: dict[tuple[str, int, int], float],
) -> float:
    """Note what a pass that ends lets begin; when its rank is free."""
    if kind == "W":
        return end
    neighbour = stage + 1 if kind == "F" else stage - 1
    if kind == "F":
        ready[("own", i, stage)] = end
    if not 0 <= neighbour < count:
        return end
    ready[("F" if kind == "F" else "B", i, neighbour)] = end + stages.hop_s
    return end + stages.hop_s if stages.blocking else end


def passes(p: int, v: int, m: int, schedule: S) -> int:
    """How many there are."""
    return p * v * m * (3 if schedule is S.ZB_H1 else 2)


def near(one: Sequence[float], other: Sequence[float], relative: float) -> bool:
    """Whether two lists of seconds are the same but for rounding."""
    if len(one) != len(other):
        return False
    most = max(map(abs, (*one, *other)), default=0.0)
    return all(abs(a - b) <= relative * most for a, b in zip(one, other, strict=True))
