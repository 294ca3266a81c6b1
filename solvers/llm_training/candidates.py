"""Strategies by their time on an ideal switch: those that are known, then as many as are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from solvers.llm_training.search import SearchedSpace, search
from solvers.stop import Stop
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import RankedStrategy

MORE = 64
"""Strategies that are ranked when those known are not enough."""


class Candidates:
    """Searches further as it is gone through; `space` is the most that was searched."""

    def __init__(self, problem: LlmTrainingProblem, space: SearchedSpace, stop: Stop) -> None:
        self._problem, self._stop = problem, stop
        self.space = space

    def __iter__(self) -> Iterator[RankedStrategy]:
        seen = 0
        while True:
            yield from self.space.ranked[seen:]
            seen = len(self.space.ranked)
            if self._stop.reason() is not None:
                return
            further = search(self._problem, self._stop, count=max(MORE, 4 * seen))
            if self._stop.reason() is not None or len(further.ranked) <= seen:
                return  # what a limit left is no certificate of more
            self.space = further
