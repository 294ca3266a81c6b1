"""Work of a check, estimated from sizes before it is done; an event is some two microseconds of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.pipeline import PipelineSchedule as S
from topoopt.core.solution import Decides
from topoopt.verify.laws.findings import FULL, ViolationLog
from topoopt.verify.llm_training.space import Records

GREEDY = 36.0
"""Events for each rank and micro-batch of an order that is planned greedily: eight orders of three kinds of passes."""

ORDER = 10.0
"""For each pass of an order by rule, which strategies have in common."""

PERIODS = 12.0
"""Micro-batches for each rank, beyond which passes repeat themselves, and are not followed one by one."""

PASS, STAGE, STRATEGY = 0.02, 0.2, 5.0
"""For each pass that is followed, each stage that is bounded, and each strategy, of many at once."""

KINDS = 3.0
"""Passes of a micro-batch in a stage: forward, and backward in two parts."""


class BeyondWorkError(Exception):
    """A part of a check takes more events than there are left."""


@dataclass
class WorkBudget:
    """What is left of the events of a check.

    Attributes:
        left: events that it may still do.
    """

    left: float = FULL.events

    def take(self, work: float) -> None:
        """Take off what is about to be done.

        Raises:
            BeyondWorkError: it is more than is left.
        """
        if not work <= self.left:
            raise BeyondWorkError(f"{work:.3g} events are more than the {self.left:.3g} that this check has left")
        self.left -= work


def within_work(findings: ViolationLog, figure: str, check: Callable[[], object], *decides: Decides) -> None:
    """Run a part of a check; beyond the work that is left, say that the figure is left out, and what rests on it."""
    try:
        check()
    except BeyondWorkError as error:
        for one in decides or (Decides.NOTHING,):
            findings.leave_out(figure, str(error), one)


def bounding_work(r: Records) -> float:
    """Events that bounds of strategies take."""
    return float(np.sum(STRATEGY + STAGE * r.p * r.v))


def following_work(problem: LlmTrainingProblem, r: Records) -> float:
    """Events that following the passes of strategies takes."""
    m = problem.batch.sequences / (r.d * r.b)
    passes = KINDS * r.p * r.v * np.where(r.runs(S.GPIPE), m, np.minimum(m, PERIODS * r.p))
    planned = r.runs(S.ZB_2P)
    greedy = np.where(planned, GREEDY * r.p * m, 0.0)
    orders = np.unique(np.stack([r.schedule, r.p, r.v, passes])[:, ~planned], axis=1)[3]
    return bounding_work(r) + float(np.sum(PASS * passes + greedy) + ORDER * np.sum(orders))
