"""The worst failure of k parts: all of them where they are few, else a cut, a greedy start and exchanges.

"Worst" is after the best repair known. It is proven when every failure of k parts was evaluated, or when one leaves
traffic without any path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.failures.cut import fewest_links
from solvers.failures.evaluator import Evaluator, badness
from solvers.failures.listing import check_count, every_set, joined, number_of, parts_of
from solvers.stop import Stop
from topoopt.core.failures import Failure, FailureOutcome, WorstFailure

POOL = 24
"""Parts, the worst alone first, that are tried at each step of the search."""


@dataclass(frozen=True)
class WorstEffort:
    """How far to go.

    Attributes:
        enumerated: failures up to which all are evaluated.
        evaluations: of the search beyond.
    """

    enumerated: int = 3000
    evaluations: int = 400


def worst_failure(
    evaluator: Evaluator,
    part: str,
    count: int,
    *,
    effort: WorstEffort | None = None,
    seed: int = 0,
    stop: Stop | None = None,
    step: Callable[[], None] = lambda: None,
) -> WorstFailure:
    """The worst failure of `count` parts (`links` or `servers`).

    Args:
        step: called after every failure evaluated.

    Raises:
        InputError: there are fewer parts.
    """
    effort, stop = effort or WorstEffort(), stop or Stop()
    check_count(evaluator.topology, part, count)
    search = _WorstSearch(evaluator, part, count, stop, step)
    if part == "links":
        cut = search.by_cut()
        if cut is not None:
            return cut
    if number_of(len(parts_of(evaluator.topology, part)), count) <= effort.enumerated:
        return search.by_enumeration()
    return search.by_exchange(effort.evaluations, np.random.default_rng(seed))


class _WorstSearch:
    def __init__(self, evaluator: Evaluator, part: str, count: int, stop: Stop, step: Callable[[], None]) -> None:
        self.evaluator, self.part, self.count, self.stop, self.step = evaluator, part, count, stop, step
        self.best: FailureOutcome | None = None
        self.seen: set[Failure] = set()

    def look(self, failure: Failure, *, keep: bool = True) -> FailureOutcome:
        """Evaluate a failure; the worst so far is kept."""
        outcome = self.evaluator.outcome(failure)
        if failure not in self.seen:
            self.seen.add(failure)
            self.step()
        if keep and (self.best is None or badness(outcome) > badness(self.best)):
            self.best = outcome
        return outcome

    def by_cut(self) -> WorstFailure | None:
        """The failure that disconnects, if so few links do and traffic is cut off by it."""
        cut = fewest_links(self.evaluator.topology)
        if len(cut) > self.count:
            return None
        rest = list(parts_of(self.evaluator.topology, "links"))
        for link in cut:
            rest.remove(Failure(links=(link,)))
        lost = joined([Failure(links=cut), *rest[: self.count - len(cut)]])
        outcome = self.look(lost)
        return self.result(True, f"a cut of {len(cut)} links") if outcome.value is None else None

    def by_enumeration(self) -> WorstFailure:
        """All of them."""
        failures = every_set(self.evaluator.topology, self.part, self.count)
        for failure in failures:
            self.look(failure)
            if self.stop.reason() is not None:
                break
        done = len(self.seen) >= len(failures)
        return self.result(done, f"all {len(failures)} failures" if done else "an enumeration cut short")

    def by_exchange(self, evaluations: int, rng: np.random.Generator) -> WorstFailure:
        """Part by part the worst, then parts exchanged as long as it gets worse."""
        parts = list(dict.fromkeys(parts_of(self.evaluator.topology, self.part)))
        alone = {part: badness(self.look(part, keep=self.count == 1)) for part in parts if self._going()}
        pool = sorted(alone, key=lambda part: alone[part], reverse=True)[:POOL]
        pool += [parts[int(i)] for i in rng.permutation(len(parts))[: POOL // 4]]
        pool = list(dict.fromkeys(pool))
        chosen: list[Failure] = []
        while len(chosen) < self.count:
            last = len(chosen) == self.count - 1
            tried: dict[Failure, tuple[float, int]] = {}
            for part in pool:
                if part not in chosen and (self._going() or not tried):
                    tried[part] = badness(self.look(joined([*chosen, part]), keep=last))
            chosen.append(max(tried, key=lambda part: tried[part]))
        gained = True
        while gained and self._within(evaluations, len(parts)):
            gained = False
            for place in range(self.count):
                for part in pool:
                    if part in chosen or not self._within(evaluations, len(parts)):
                        continue
                    other = [*chosen[:place], part, *chosen[place + 1 :]]
                    before = self.best
                    self.look(joined(other))
                    if self.best is not before:
                        chosen, gained = other, True
        return self.result(False, "greedy search with exchanges")

    def _going(self) -> bool:
        return self.stop.reason() is None

    def _within(self, evaluations: int, singles: int) -> bool:
        return self._going() and len(self.seen) < singles + evaluations

    def result(self, proven: bool, how: str) -> WorstFailure:
        assert self.best is not None
        return WorstFailure(self.part, self.count, self.best, proven, how, len(self.seen))
