"""The one straight line leads from a problem of any kind to a checked result, and to its explanation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

from solvers.stop import Stop, stop_on_signals
from solvers.timing import LateError, Timing, step
from topoopt.core.errors import LimitError, Problem, raise_any
from topoopt.core.process import versions
from topoopt.core.proofs import Bound, Settled, Status, StopReason, settle
from topoopt.core.result import (
    CUT_OFF,
    UNCHECKED,
    Objective,
    Result,
    RobustSearchSettings,
    SearchResult,
    SearchSettings,
)
from topoopt.kinds import kind_of
from topoopt.kinds.kind import DEFAULT_OPTIONS, Effort, Instance, Kind, Method, SolveOptions, Solver
from topoopt.verify.checker import BRIEF, Checker, CheckFindings


def assembled(problem: Any, search: SearchResult[Any], effort: Effort, checker: Checker) -> Result[Any, Any]:
    """Return the result of a search, not checked yet.

    The objective is that of the figures of the kind, which share no code with the checker. The bound is what the
    checker derives from the certificates, so that a solver cannot state another one. Where a derivation takes long, the
    method states its bounds; the check after assembly holds them against its own derivation.

    Args:
        problem: with the settings in force.
        search: plan and certificates of a method.
        effort: seed of the run.
        checker: of the kind.

    Raises:
        CheckError: the objective is better than the bound (a bug of ours).
    """
    objective = kind_of(problem).figures(problem, search.plan).objective
    derived = (
        ()
        if search.bounds and not checker.exhaustive
        else tuple(
            Bound(derive(problem, search.certificates), argument)
            for argument, derive in checker.arguments(problem).items()
            if argument not in checker.exhaustive
        )
    )
    verdict = settle(
        objective.value,
        [*derived, *search.bounds],
        checker.optimal,
        rounding=checker.claim_tolerance,
        maximise=checker.maximise(problem),
        absolute=checker.rounding(problem),
        conclusive=checker.further is None or search.stopped_by is StopReason.CONVERGED,
    )
    return concluded(problem, search, objective, verdict, effort.search.seed)


def concluded(
    problem: Any, search: SearchResult[Any], objective: Objective, verdict: Settled, seed: int
) -> Result[Any, Any]:
    """Return the result of a search whose value and bounds are settled, not checked yet."""
    return Result(
        name=problem.name,
        kind=problem.kind,
        status=verdict.status,
        stopped_by=search.stopped_by,
        objective=objective,
        bound=verdict.bound,
        claimed_bound=verdict.claimed_bound,
        check=UNCHECKED,
        seed=seed,
        method=search.method,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *search.notes),
        problem=problem,
        plan=search.plan,
        certificates=search.certificates,
    )


AUTO = "auto"

LARGEST_SEED = 2**63 - 1
LARGEST_BUDGET = 10**12


def settings_of(problem: Instance, options: SolveOptions) -> SearchSettings:
    """The settings in force: of the instance, but for what the options say."""
    return problem.search.but(
        seed=options.seed, time_limit_s=options.time_limit_s, method=options.method, budget=options.budget
    )


def search_problems(kind: Kind, problem: Instance, options: SolveOptions = DEFAULT_OPTIONS) -> list[Problem]:
    """What is wrong with the settings of a search; `auto` is not looked at, as solvers load slowly."""
    search = settings_of(problem, options)
    chosen = search.method == AUTO or options.chosen is not None
    problems = [] if chosen else method_problems(kind.methods(problem), problem, search)
    for path, value, most in (("seed", search.seed, LARGEST_SEED), ("budget", search.budget, LARGEST_BUDGET)):
        if value is not None and not 0 <= value <= most:
            problems.append(Problem("out of range", path=f"search.{path}", value=str(value), allowed=f"0 to {most}"))
    limit = search.time_limit_s
    if limit is not None and not limit >= 0:
        problems.append(Problem("out of range", path="search.time_limit_s", value=str(limit), allowed="at least 0"))
    if options.budget is not None and not kind.takes_budget:
        text, allowed = "no such limit for this kind", "--time-limit"
        problems.append(Problem(text, path="--budget", value=str(options.budget), allowed=allowed))
    if options.jobs < 1:
        problems.append(Problem("out of range", path="--jobs", value=str(options.jobs), allowed="at least 1"))
    if options.jobs > 1 and not kind.takes_jobs:
        text = "searches of this kind have no parts for several processes"
        problems.append(Problem(text, path="--jobs", value=str(options.jobs), allowed="1"))
    if options.crew is not None and not kind.takes_crew:
        text = "searches of this kind have no parts for several machines"
        problems.append(Problem(text, path="--executor", allowed="kind co-optimisation"))
    return [*problems, *kind.problems(problem)]


def method_problems(methods: Mapping[str, Method], problem: Instance, search: SearchSettings) -> list[Problem]:
    """A method that is not in the table, does not do what is asked, or does not cover the problem."""
    name = search.method
    if name not in methods:
        allowed = ", ".join((AUTO, *(other for other in methods if other != AUTO)))
        return [Problem("unknown method", path="search.method", value=repr(name), allowed=allowed)]
    if isinstance(search, RobustSearchSettings) and search.robust is not None and name not in (AUTO, "robust"):
        text = "this method does not look at search.robust"
        return [Problem(text, path="search.method", value=repr(name), allowed="auto, robust")]
    outside = methods[name].covers(problem)
    return [] if outside is None else [outside]


def judged(problem: Any, result: Any, effort: Effort) -> Any:
    """The solution that what a method found amounts to, with the verdict of the checker; and, where the time for the
    whole run is known, without what there was no time for, which the notes then name."""
    kind = kind_of(problem)
    solver = kind.solver()
    effort.tell("evaluation")
    solution: Any = solver.assemble(problem, result, effort)
    effort.tell("check")

    def check() -> CheckFindings:
        if solver.check is not None:
            return solver.check(problem, result, solution)
        return kind.check(problem, solution, replace(BRIEF, book=effort.options.book))

    if effort.timing is None:
        findings = check()
        return solution.judged(findings.violations, findings.not_recomputed)
    solution = replace(solution, notes=(*solution.notes, *effort.timing.notes()))
    if effort.timing.limit_s is not None and effort.timing.file_s == 0.0:  # else the search has measured it
        effort.timing.file_s = _file_s(kind, solution, effort)
    try:
        findings = step(check, effort.timing.check_late)
    except LateError:
        status = Status.FEASIBLE if solution.status is Status.OPTIMAL else solution.status
        return replace(solution, status=status).judged((), (CUT_OFF,))
    return solution.judged(findings.violations, findings.not_recomputed)


def solve(problem: Any, options: SolveOptions = DEFAULT_OPTIONS) -> Any:
    """Find a plan, compute all its figures, bound and check it.

    The first Ctrl-C, SIGTERM or SIGHUP and the time limit end the search with the best so far; the second one ends
    whatever goes on, and what can be left out is.

    Args:
        problem: of any kind.
        options: what differs from the settings of the instance.

    Returns:
        The solution of the kind, with the verdict of its checker.

    Raises:
        InputError: settings out of range, an unknown method, or one that does not cover the problem.
        InfeasibleError: nothing satisfies the constraints.
        LimitError: the limit came before anything was found.
        KeyboardInterrupt: Ctrl-C did.
        CheckError: a value is better than its bound (a bug of ours).
    """
    kind = kind_of(problem)
    search = settings_of(problem, options)
    problems = search_problems(kind, problem, options)
    solver = kind.solver()
    methods = solver.methods(problem)
    if search.method == AUTO and options.chosen is None:
        problems += method_problems(methods, problem, search)
    raise_any(problems)
    instance = replace(problem, search=search)
    with ExitStack() as stack:
        timing = options.timing
        if timing is None:
            own = stack.enter_context(stop_on_signals(search.time_limit_s, two_stage=True))
            timing = Timing(own, search.time_limit_s)
        stop = timing.stop
        if options.memory_bytes is not None:
            stop.memory.limit_bytes = options.memory_bytes
        effort = Effort(search, timing.for_search(solver.search_share), options, timing)
        alone = solver.excerpt is not None and solver.search_share == 1.0  # else bounds and more come with the figures
        timing.measure = partial(_afterwards_s, instance, effort) if alone else None
        result = _searched(solver, options.chosen or methods[search.method], instance, effort, timing)
        timing.kept = None  # with all that the search still holds
        # Still inside: Ctrl-C after the search must not lose what was found.
        began = time.process_time()
        try:
            solution = step(lambda: judged(instance, result, effort), lambda: timing.figures_late(began))
        except LateError:
            raise LimitError("the time limit came before the figures of what was found were there") from None
        late = timing.unwritable()
        if late is not None:
            raise LimitError(late)
        document = timing.closing(lambda: _to_embed(problem))
    solution = replace(solution, instance=document)
    if document is None and timing.past_the_end():
        solution = replace(solution, notes=(*solution.notes, "left out (no time): the instance in the solution"))
    if stop.interrupted.is_set() and solution.check.ok:
        return replace(solution, stopped_by=StopReason.INTERRUPTED)
    return solution


def _to_embed(problem: Any) -> Any:
    from topoopt.kinds.files import document_to_embed

    return document_to_embed(problem)


def _afterwards_s(problem: Any, effort: Effort, result: Any) -> tuple[float, float]:
    """Seconds that the figures of what was found take, and its file."""
    began = time.monotonic()
    solution = kind_of(problem).solver().assemble(problem, result, effort)
    figures_s = time.monotonic() - began
    return figures_s, _file_s(kind_of(problem), solution, effort)


def _file_s(kind: Kind, solution: Any, effort: Effort) -> float:
    """Seconds that its file takes: a part of it is written to memory."""
    excerpt = kind.solver().excerpt
    if excerpt is None:
        return 0.0
    part, longer = excerpt(solution)
    kind.files.solutions.text(part)  # loads what it needs
    began = time.monotonic()
    kind.files.solutions.text(part)
    return longer * (time.monotonic() - began)


def _searched(solver: Solver, method: Method, problem: Any, effort: Effort, timing: Timing) -> Any:
    """What the method finds, or the best so far of one that has to be left."""

    def work() -> Any:
        return method.run(problem, effort)

    if timing.stop.memory.look():
        raise LimitError(timing.nothing())
    try:
        with timing.stop.memory.refused():
            return step(work, lambda: timing.search_late(effort.stop))
    except (LateError, LimitError, MemoryError) as error:
        if isinstance(error, MemoryError):
            timing.out_of_memory()
        if timing.kept is not None:
            return step(timing.kept, lambda: False)
        if timing.stop.interrupted.is_set():
            raise KeyboardInterrupt from None  # there is nothing to keep
        if isinstance(error, LimitError):
            raise
        raise LimitError(timing.nothing()) from None


EXPLANATION_LIMIT_S = 60.0
"""Of an explanation without a limit of its own."""


@dataclass
class Question:
    """What an explanation is asked.

    Attributes:
        added_links: capacity to add, in links; None: 100 Gbit/s where the rate of a link is known, else one link.
        checks: positions of one more link that are solved again.
        stop: of all that is solved again; what is known then is said.
        late: whether that cut anything off.
    """

    added_links: Fraction | None = None
    checks: int = 8
    stop: Stop = field(default_factory=lambda: Stop().within(EXPLANATION_LIMIT_S))
    late: bool = field(default=False, init=False)

    def left_s(self) -> float:
        """Seconds that are left; 0 once it is time to end, which is noted."""
        left = self.stop.remaining_s()
        ended = self.stop.reason() is not None or left == 0.0
        self.late = self.late or ended
        return 0.0 if ended else math.inf if left is None else left

    def options(self, method: str | None = None) -> SolveOptions:
        """For something that is solved again in the time left."""
        return options_within(self.stop, method)


def options_within(stop: Stop, method: str | None = None) -> SolveOptions:
    """For a solve that is a part of something larger, ended by its signals and in its time."""
    left = stop.remaining_s()
    return SolveOptions(time_limit_s=left, method=method, timing=Timing(stop.within(left), left))


@dataclass(frozen=True)
class Explanation:
    """What limits a solution.

    Attributes:
        words: sentences for people.
        figures: the same for programs.
        notes: what was assumed.
        late: whether the time limit left something unchecked.
    """

    words: tuple[str, ...]
    figures: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    late: bool = False

    def __str__(self) -> str:
        return "\n".join(self.words)


def times_changed(
    problem: Any, changes: Mapping[str, Mapping[str, Any]], time: float, question: Question
) -> tuple[dict[str, float], bool]:
    """Return the time of a problem after each change of its fields, solved again; whether the limit cut some off.

    The present time still holds after a change for the better, so that none comes out above it.
    """
    times: dict[str, float] = {}
    for name, change in changes.items():
        if not question.left_s():
            return times, True
        try:
            result = solve(replace(problem, **change, sha256="", document=None), question.options("auto"))
        except LimitError:
            return times, True
        if result.check.ok:
            times[name] = min(float(result.objective.value), time)
    return times, False


def change_sentences(times: Mapping[str, float], time: float, text: Callable[[float], str], same: float) -> list[str]:
    """Return what each change gains over the present time; a part of it below `same` is no gain."""
    return [
        f"{change}: {text(after)}" + (", no gain." if after >= time * (1 - same) else f", {1 - after / time:.1%} less.")
        for change, after in times.items()
    ]
