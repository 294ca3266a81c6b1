"""From a solution to what failures do to it: single ones exactly, several by sampling and by search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from solvers.failures.evaluator import badness
from solvers.failures.listing import (
    check_count,
    check_failure,
    single_links,
    single_planes,
    single_servers,
)
from solvers.failures.sample import sample_failures
from solvers.failures.worst import WorstEffort, worst_failure
from solvers.stop import Stop
from topoopt.analyses.resilience.rewire import rewire
from topoopt.analyses.resilience.subject import Subject
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.failures import Failure, FailureOutcome, Resilience, Rewiring, SampledFailures, WorstFailure

Progress = Callable[[str, int], None]
"""Called with (what is done, failures evaluated since the last call)."""


@dataclass(frozen=True)
class ResilienceQuestion:
    """What is asked.

    Attributes:
        links, servers: how many fail at once, beside all single ones.
        samples: random failures of several parts.
        seed: of samples and searches.
        failure: only this one, instead of all.
        rewire: circuits that may be given up to mend the worst single link failure, or `failure`; None: not asked.
        effort: of the search for the worst failure of several parts.
    """

    links: int = 1
    servers: int = 1
    samples: int = 100
    seed: int = 0
    failure: Failure | None = None
    rewire: int | None = None
    effort: WorstEffort = field(default_factory=WorstEffort)


def study(
    subject: Subject, question: ResilienceQuestion, *, stop: Stop | None = None, progress: Progress | None = None
) -> Resilience:
    """Evaluate failures, and check every repair that is reported.

    Raises:
        InputError: a failure of what does not exist, or more failures than parts.
        LimitError: a limit came before anything was evaluated.
    """
    return _Study(subject, question, stop or Stop(), progress or (lambda phase, done: None)).run()


class _Study:
    def __init__(self, subject: Subject, question: ResilienceQuestion, stop: Stop, progress: Progress) -> None:
        self.subject, self.question, self.stop, self.progress = subject, question, stop, progress
        self.checked: dict[Failure, tuple[str, ...]] = {}
        self.complete = True

    def run(self) -> Resilience:
        question, evaluator = self.question, self.subject.evaluator
        self._refuse_bad()
        blank = Resilience(
            name=self.subject.solution.name,
            kind=self.subject.solution.kind,
            objective=self.subject.objective,
            unit=self.subject.unit,
            nominal=evaluator.nominal,
            notes=self.subject.notes,
            seed=question.seed,
        )
        result = self._one(blank, question.failure) if question.failure is not None else self._all(blank)
        reported = [*result.links, *result.servers, *result.planes, *(worst.outcome for worst in result.worst)]
        if not reported:
            raise LimitError("the limit came before any failure was evaluated")
        for outcome in (*reported, *(sample.worst for sample in result.sampled)):
            self._check(outcome.failure)
        violations = tuple(message for found in self.checked.values() for message in found)
        if question.rewire is not None:
            rewirings = self._rewired(result)
            result = replace(result, rewirings=rewirings)
            violations += tuple(message for each in rewirings for message in each.violations)
        return replace(result, violations=violations, checked=len(self.checked), complete=self.complete)

    def _refuse_bad(self) -> None:
        question, topology = self.question, self.subject.evaluator.topology
        problems: list[Problem] = []
        checks: list[Callable[[], None]] = []
        if question.failure is not None:
            failure = question.failure
            checks.append(lambda: check_failure(topology, failure))
            if question.rewire is not None and (failure.servers or failure.planes or not failure.links):
                text, allowed = "re-wiring mends failed links", "--link A-B beside --rewire"
                problems.append(Problem(text, path="--rewire", value=failure.label, allowed=allowed))
        if question.rewire is not None and topology.packet_switches:
            text, allowed = "links to switches cannot be set to other servers", "a plan on links between servers"
            problems.append(Problem(text, path="--rewire", value=str(question.rewire), allowed=allowed))
        checks.append(lambda: check_count(topology, "links", question.links))
        checks.append(lambda: check_count(topology, "servers", question.servers))
        for check in checks:
            try:
                check()
            except InputError as error:
                problems += error.problems
        if problems:
            raise InputError(problems)

    def _rewired(self, result: Resilience) -> tuple[Rewiring, ...]:
        """After the failure asked for, or the worst one of each number of links."""
        question = self.question
        wanted = [worst.outcome.failure for worst in result.worst if worst.part == "links"]
        if question.failure is not None:
            wanted = [question.failure]
        found = []
        for failure in wanted:
            if self.stop.reason() is not None:
                break
            self.progress(f"re-wiring after {failure.label}", 0)
            each = rewire(self.subject, failure, question.rewire or 0, seed=question.seed, stop=self.stop)
            found += [] if each is None else [each]
        return tuple(found)

    def _one(self, blank: Resilience, failure: Failure) -> Resilience:
        outcome = self.subject.evaluator.outcome(failure)
        self.progress(failure.label, 1)
        if failure.planes:
            return replace(blank, planes=(outcome,))
        if failure.servers and not failure.links:
            return replace(blank, servers=(outcome,))
        return replace(blank, links=(outcome,))

    def _all(self, blank: Resilience) -> Resilience:
        topology, question = self.subject.evaluator.topology, self.question
        links = self._outcomes("links", single_links(topology))
        servers = self._outcomes("servers", single_servers(topology)) if topology.servers > 2 else ()
        planes = self._outcomes("switches", single_planes(topology))
        worst = []
        for part, outcomes, every in (
            ("links", links, len(single_links(topology))),
            ("servers", servers, topology.hosts),
        ):
            if outcomes:
                done = len(outcomes) == every
                how = f"all {every} single failures" if done else f"{len(outcomes)} of {every} single failures"
                worst.append(WorstFailure(part, 1, max(outcomes, key=badness), done, how, len(outcomes)))
        sampled = []
        for part, count in (("links", question.links), ("servers", question.servers)):
            if count > 1 and self.stop.reason() is None:
                worst.append(self._worst(part, count))
                if question.samples:
                    sampled.append(self._sampled(part, count))
        self.complete = self.stop.reason() is None
        return replace(blank, links=links, servers=servers, planes=planes, worst=tuple(worst), sampled=tuple(sampled))

    def _worst(self, part: str, count: int) -> WorstFailure:
        question = self.question
        return worst_failure(
            self.subject.evaluator,
            part,
            count,
            effort=question.effort,
            seed=question.seed,
            stop=self.stop,
            step=lambda: self.progress(f"worst {count} {part}", 1),
        )

    def _sampled(self, part: str, count: int) -> SampledFailures:
        question = self.question
        return sample_failures(
            self.subject.evaluator,
            part,
            count,
            question.samples,
            seed=question.seed,
            stop=self.stop,
            step=lambda: self.progress(f"{count} random {part}", 1),
        )

    def _outcomes(self, phase: str, failures: Sequence[Failure]) -> tuple[FailureOutcome, ...]:
        found = []
        for failure in failures:
            if self.stop.reason() is not None:
                break
            found.append(self.subject.evaluator.outcome(failure))
            self._check(failure)  # here, so that a time limit counts it
            self.progress(phase, 1)
        return tuple(found)

    def _check(self, failure: Failure) -> None:
        if failure not in self.checked:
            violations = self.subject.violations(failure)
            self.checked[failure] = tuple(f"{violation.code}: {violation.message}" for violation in violations)
