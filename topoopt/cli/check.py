"""`topoopt check` and `topoopt explain`: whether a solution is right, and what limits it."""

from __future__ import annotations

import time
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from annotated_types import Ge, Le
from rich.console import Console

from solvers.stop import Memory
from solvers.timing import LateError, step
from topoopt.analyses.costs import given_book
from topoopt.cli.solve import instance_and_solution
from topoopt.core.errors import CheckError, InputError, LimitError, Problem
from topoopt.core.price_book import PriceBook
from topoopt.core.proofs import StopReason
from topoopt.core.result import CheckResult, Decides, LeftOut, SolutionHead
from topoopt.files.results import bound_document, check_document
from topoopt.kinds import KINDS, kind_named, kind_of
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.page import options
from topoopt.page.long_run import attended, memory_bytes, solving_bar
from topoopt.page.output import Output
from topoopt.page.text import claims, counted, objective_text, precise, quantity, rejection
from topoopt.verify.checker import BRIEF, CheckDepth, CheckFindings

LIMIT_S = 60.0
"""For files of `LIMIT_BYTES` or less; of larger ones in proportion."""

LIMIT_BYTES = 2_000_000

EVENTS_PER_S = 100_000
"""Of simulations, at less than half of the speed of the checker: what would take longer is not begun."""

MEMORY_LIMIT = "2GB"

EXPLAIN_S = 60.0
"""For what is solved again to explain a solution."""

GRACE_S = 5.0
"""For the checker to return what it has found once the limit has come."""


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[INSTANCE] SOLUTION",
            help="Instance file, and solution.json of `topoopt solve`; a solution that carries its instance alone.",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Leave out simulations, and say so.")] = False,
    time_limit: options.TimeLimit = None,
    memory_limit: options.MemoryLimit = None,
    prices: options.Prices = None,
    as_json: options.Json = False,
) -> None:
    """Check a solution with code that shares nothing with what made it.

    Exit code 6 if anything is wrong; 8 if nothing is, but the value or its bound rests on what was not recomputed.
    Limits unless given: 60 s, in proportion for a solution larger than 2 MB; 2 GB of memory.
    """
    output = Output.choose(as_json)

    def command() -> int:
        instance_and_solution(files)
        limits = _Limits(files[-1], time_limit, memory_bytes(memory_limit or MEMORY_LIMIT))
        problem, stored = limits.reading(files)
        book = given_book(prices, [kind_of(problem)])
        with solving_bar(output) as tell:
            findings = limits.checking(problem, stored, limits.depth(quick, book, tell))
        checked = stored.judged(findings.violations, findings.not_recomputed)
        claimed = checked.claimed_bound
        document = {
            "ok": findings.ok,
            "holds": findings.holds,
            "status": checked.status.value,
            "violations": [{"code": violation.code, "message": violation.message} for violation in findings.violations],
            "not_recomputed": [
                {"figure": figure.figure, "reason": figure.reason, "decides": figure.decides.value}
                for figure in findings.not_recomputed
            ],
            "instance": "in the solution" if len(files) == 1 else str(files[0]),
            "instance_name": problem.name,
            "instance_sha256": problem.sha256,
            "bound": bound_document(checked.bound),
            "claimed_bound": None if claimed is None else bound_document(claimed),
        }
        whose = _whose(problem, alone=len(files) == 1)
        output.result(document, lambda console: _show(console, checked, findings), f"{answer(checked)} {whose}")
        return output.exit_code(checked.check, stored.stopped_by, searched=False)

    output.run(command)


class _Limits:
    """What a check may take, in time from its start and in memory."""

    def __init__(self, solution: Path, seconds: float | None, memory: int | None) -> None:
        try:
            size = solution.stat().st_size
        except OSError:  # said by the reader
            size = 0
        usual = LIMIT_S * max(1.0, size / LIMIT_BYTES)
        self.seconds = usual if seconds is None else seconds
        self._memory, self._bytes, began = Memory(memory), memory, time.monotonic()
        self._read_by_s, self._end_s = began + max(usual, self.seconds), began + self.seconds

    def depth(self, quick: bool, book: PriceBook | None, tell: Any) -> CheckDepth:
        """How far a check goes that is to end within the limits."""
        events = 0 if quick else int(EVENTS_PER_S * self.seconds)
        return CheckDepth(
            events, book, tell, CheckDepth.memory_bytes if self._bytes is None else int(0.75 * self._bytes)
        )

    def _late(self, end_s: float) -> bool:
        return self._memory.look() or time.monotonic() >= end_s

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, MemoryError) or self._memory.exceeded.is_set():
            return "it takes more memory than the check may"
        return f"the time limit of {self.seconds:g} s came"

    def reading(self, files: list[Path]) -> tuple[Any, SolutionHead]:
        """What is read, in the memory there is and the time that files of this size are given, however small the limit.

        Raises:
            InputError: what is wrong with it.
            LimitError: it takes longer, or more memory.
        """
        try:
            with self._memory.refused():
                return step(lambda: _read(*files), partial(self._late, self._read_by_s))
        except (LateError, MemoryError) as error:
            raise LimitError(f"{files[-1]}: not read: {self._reason(error)}") from None

    def checking(self, problem: Any, solution: SolutionHead, depth: CheckDepth) -> CheckFindings:
        """What the checker finds within the limits; what there was no time or memory for is left out."""
        from topoopt.kinds.files import check_whole

        try:
            with self._memory.refused():
                return step(lambda: check_whole(problem, solution, depth), partial(self._late, self._end_s), GRACE_S)
        except (LateError, MemoryError) as error:
            return CheckFindings((), (LeftOut("all figures", self._reason(error), Decides.BOTH),))


def _read(first: Path, second: Path | None = None) -> tuple[Any, SolutionHead]:
    """The problem and its solution, of two files or of one.

    Raises:
        InputError: what is wrong with them; a solution without an instance in it.
    """
    from topoopt.kinds.files import embedded_problem, read_instance, read_solution

    if second is None:
        alone: SolutionHead = read_solution(first)
        return embedded_problem(alone, first), alone
    problem = read_instance(first)
    return problem, kind_of(problem).files.solutions.read(second)


def _show(console: Console, checked: SolutionHead, findings: CheckFindings) -> None:
    for violation in findings.violations:
        console.print(f"{violation.code}: {violation.message}", markup=False, soft_wrap=True)
    for figure in findings.not_recomputed:
        console.print(f"not recomputed: {figure.figure}: {figure.reason}", markup=False, soft_wrap=True)
    failed = f"check FAILED: {counted(len(findings.violations), 'violation')}"
    console.print(f"check {checked.check.outcome}" if findings.ok else failed)


def _whose(problem: Any, *, alone: bool) -> str:
    """For which instance the verdict is, and who gave it."""
    named = f"the instance {problem.name!r} (SHA-256 {problem.sha256})"
    if alone:
        return f"This is for {named} that stands in the solution itself; no instance was given from outside."
    return f"This is for {named} that was given."


def answer(checked: SolutionHead) -> str:
    """Whether the solution holds, and what was shown, for somebody who sees the file for the first time."""
    check = checked.check
    if not check.ok:
        return rejection(check)
    objective, claimed = checked.objective, checked.claimed_bound
    figure = f"{objective_text(objective.name)} {quantity(objective.value, objective.unit)}"
    said = _value_said(check, figure)
    reported_bound, verified = checked.bound, checked.bound.verified
    how = f"is derived again ({reported_bound.proved_by})" if verified else "is only claimed"
    bound = f"bound {precise(reported_bound.value)} {how}"
    if claimed is not None:
        bound += f", bound {precise(claimed.value)} is only claimed"
    return f"{said}; {bound}. {claims(check)}".rstrip()


def _value_said(check: CheckResult, figure: str) -> str:
    """What is known of the value."""
    if any(claim.decides in (Decides.VALUE, Decides.BOTH) for claim in check.claimed):
        return f"Nothing wrong was found, but {figure} is only claimed: it was not recomputed"
    but = " but for what is listed as not recomputed" if check.not_recomputed and check.holds else ""
    holds = "The solution holds" if check.holds else "The value holds"
    return f"{holds}: {figure} follows from what is in the file{but}"


EXPLAIN_SETTINGS = {
    "more": Annotated[float, Ge(0.001), Le(1e6)],
    "checks": Annotated[int, Ge(0), Le(1000)],
}


def explain(
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")],
    time_limit: options.TimeLimit = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Say what limits a solution, and what more links or capacity would gain.

    Of a job also how long its AllReduces take alone: on its rings, by the best schedule on its links, and on an optical
    switch set anew between steps. Exit code 4 if a limit left something open; 8 if the value or its bound is only
    claimed. What is solved again has 60 s unless --time-limit says otherwise.

    Settings: `more`, the capacity to add, in links (100 Gbit/s where the rate is known, else one link); `checks`,
    positions of one more link that are solved again (8).
    """
    output = Output.choose(as_json)

    def command() -> int:
        given = options.typed_settings(options.settings_of(settings, EXPLAIN_SETTINGS), EXPLAIN_SETTINGS)
        added = Fraction(given["more"]).limit_denominator(1000) if "more" in given else None
        with attended(output, EXPLAIN_S if time_limit is None else time_limit) as run:
            run.doing = "what more would gain"
            question = Question(added, given.get("checks", 8), run.timing.stop)
            solved, explanation = run.patient(lambda: _explained(solution, question))
            if solved.kind == "co-optimisation" and solved.instance is not None:
                from topoopt.analyses.collective.job_schedules import explain_collectives
                from topoopt.kinds.files import embedded_problem

                own, problem = explanation, embedded_problem(solved, solution)
                explanation = run.patient(lambda: explain_collectives(own, problem, solved, run.timing.stop))
            stopped_by = StopReason.TIME if explanation.late else StopReason.CONVERGED
            if run.timing.stop.interrupted.is_set():
                stopped_by = StopReason.INTERRUPTED
        words = (*explanation.words, *filter(None, [claims(solved.check)]))
        document = {
            "kind": solved.kind,
            "name": solved.name,
            **explanation.figures,
            "words": list(words),
            "check": check_document(solved.check),
            "notes": list(explanation.notes),
            "seed": solved.seed,
            "versions": dict(solved.versions),
            "instance_sha256": solved.instance_sha256,
            "stopped_by": stopped_by.value,
            "solution": str(solution),
            "wall_s": round(time.monotonic() - run.began.at_s, 3),
        }

        def show(console: Console) -> None:
            for line in words:
                console.print(line, markup=False, soft_wrap=True, highlight=False)

        output.result(document, show)
        return output.exit_code(solved.check, stopped_by)

    output.run(command)


def _explained(path: Path, question: Question) -> tuple[Any, Explanation]:
    """The solution in a file with the verdict of a brief check, and what limits it.

    Raises:
        InputError: no solution of a kind that is explained.
        CheckError: it does not hold.
    """
    from topoopt.kinds.files import read_solution

    solved = read_solution(path)
    kind = kind_of(solved)
    if kind.explain is None:
        able = ", ".join(name for name in KINDS if kind_named(name).explain is not None)
        text = "solutions of this kind are not explained; their report says what limits them"
        raise InputError([Problem(text, str(path), None, "kind", kind.name, able)])
    solved = _checked(solved, path)
    return solved, kind.explain()(solved, question)


def _checked(solved: SolutionHead, path: Path) -> SolutionHead:
    """The solution as far as it holds for the instance that it carries; nothing of it does without one.

    Raises:
        InputError: the instance in it cannot be read.
        CheckError: it does not hold.
    """
    from topoopt.kinds.files import check_whole, embedded_problem

    if solved.instance is None:
        why = "the solution carries no instance, and none was given"
        return solved.judged((), (LeftOut("all figures", why, Decides.BOTH),))
    findings = check_whole(embedded_problem(solved, path), solved, BRIEF)
    if not findings.ok:
        raise CheckError("the checker rejects the solution:\n" + "\n".join(map(str, findings.violations)))
    return solved.judged((), findings.not_recomputed)
