"""The passes of the picture of a pipeline: each once, one at a time, as early as what they wait for allows."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.llm_training_solution import LlmTrainingSolution, StageSeconds, TimedPass
from topoopt.core.pipeline import PassKind
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog

THERE, BACK = (PassKind.FORWARD, PassKind.JOINED), (PassKind.BACKWARD, PassKind.INPUTS)


@dataclass(frozen=True)
class _Turn:
    """What a rank does at a time: one pass, or two that are joined."""

    passes: tuple[TimedPass, ...]

    def cost(self, due: StageSeconds) -> float:
        """Seconds."""
        total = 0.0
        for one in self.passes:
            if one.kind in THERE:
                total += due.forward_s[one.stage]
            if one.kind in BACK:
                total += due.inputs_s[one.stage]
            if one.kind in (PassKind.BACKWARD, PassKind.WEIGHTS):
                total += due.weights_s[one.stage]
        return total


def _turns(rows: tuple[TimedPass, ...]) -> list[_Turn]:
    found: list[_Turn] = []
    for one in rows:
        last = found[-1].passes if found else ()
        if len(last) == 1 and last[0].kind == PassKind.JOINED and last[0].rank == one.rank:
            found[-1] = _Turn((*last, one))
        else:
            found.append(_Turn((one,)))
    return found


def check_drawn(findings: ViolationLog, solution: LlmTrainingSolution, due: StageSeconds) -> None:
    """Times, order and number of the passes drawn."""
    strategy, drawn, few = solution.plan.strategy, solution.stages.passes, solution.stages.drawn_batches
    p, v = strategy.pipeline, strategy.chunks
    if p == 1:
        if drawn or few:
            findings.add("passes", "passes are drawn of a single stage")
        return
    ranks = sorted({one.rank for one in drawn})
    if ranks != list(range(len(ranks))) or not 0 < few <= solution.micro_batches:
        findings.add("passes", "ranks or micro-batches are not those of the plan")
    there = {(one.rank, one.micro_batch, one.stage) for one in drawn if one.kind in THERE}
    early = all(batch < few for _, batch, _ in there)
    for kinds in (THERE, BACK, (PassKind.BACKWARD, PassKind.WEIGHTS)):
        own = [(one.rank, one.micro_batch, one.stage) for one in drawn if one.kind in kinds]
        if not early or set(own) != there or len(own) != len(ranks) * v * few or len(own) != len(there):
            findings.add("passes", f"not {few} micro-batches pass all stages of {len(ranks)} ranks once, both ways")
    done = {(one.kind in THERE, one.micro_batch, one.stage): one for one in drawn if one.kind in (*THERE, *BACK)}
    slack = Tolerance.LONG_SUMS.relative * max(one.end_s for one in drawn)
    rank, free = -1, 0.0
    for turn in _turns(drawn):
        first = turn.passes[0]
        if first.rank < rank:
            findings.add("passes", "ranks are not in order")
        free = free if first.rank == rank else 0.0
        rank = first.rank
        known = True
        begin = free
        for one in turn.passes:
            ready, all_drawn = _ready(one, done, due, p * v)
            begin, known = max(begin, ready), known and all_drawn
            if one.end_s != first.end_s:
                findings.add("passes", "two passes that are joined end at different times")
        end = begin + turn.cost(due)
        if first.end_s < end - slack or (known and first.end_s > end + slack):
            where = f"rank {rank}, micro-batch {first.micro_batch}, stage {first.stage}"
            findings.add("passes", f"the pass of {where} ends at {first.end_s!r} s, {end!r} s is due")
        free = first.end_s + (due.hop_s if due.blocking and _sends(turn, done, p * v) else 0.0)


def _ready(
    one: TimedPass, done: dict[tuple[bool, int, int], TimedPass], due: StageSeconds, stages: int
) -> tuple[float, bool]:
    """When what a pass waits for is there, and whether all of that is drawn."""
    if one.kind == PassKind.WEIGHTS:
        inputs = done.get((False, one.micro_batch, one.stage))
        return (inputs.end_s, True) if inputs is not None else (0.0, False)
    there = one.kind in THERE
    ready, known = 0.0, True
    if not there:
        own = done.get((True, one.micro_batch, one.stage))
        ready, known = (own.end_s, True) if own is not None else (0.0, False)
    stage = one.stage + (-1 if there else 1)
    if 0 <= stage < stages:
        before = done.get((there, one.micro_batch, stage))
        if before is None:
            return ready, False
        ready = max(ready, before.end_s + (due.hop_s if before.rank != one.rank else 0.0))
    return ready, known


def _sends(turn: _Turn, done: dict[tuple[bool, int, int], TimedPass], stages: int) -> bool:
    """Whether another rank gets what a pass made."""
    for one in turn.passes:
        there = one.kind in THERE
        stage = one.stage + (1 if there else -1)
        if one.kind in (*THERE, *BACK) and 0 <= stage < stages:
            other = done.get((there, one.micro_batch, stage))
            if other is None or other.rank != one.rank:
                return True
    return False
