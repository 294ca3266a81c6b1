"""`topoopt check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from topoopt.analyses.costs.prices import given_book
from topoopt.console.output import JsonOption, Output
from topoopt.console.progress import solving_bar
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.solution import CheckResult, SolutionHead
from topoopt.drawing.format import counted, precise
from topoopt.drawing.sentences import objective_text, quantity, rejection
from topoopt.files.solution_head import bound_document
from topoopt.kinds import kind_of
from topoopt.verify.laws.findings import FULL, CheckDepth, CheckFindings


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[INSTANCE] SOLUTION",
            help="Instance file, and solution.json of `topoopt solve`; a solution that carries its instance alone.",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Leave out simulations, and say so.")] = False,
    prices: Annotated[
        Path | None,
        typer.Option("--prices", help="Price book of the solution; 2023 (default) and h200 are shipped."),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Check a solution with code that shares nothing with what made it; exit code 6 if anything is wrong."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.embedded import check_whole

        if len(files) > 2:
            allowed = "an instance and its solution, or a solution that carries its instance"
            raise InputError([Problem("too many files", value=str(len(files)), allowed=allowed)])
        problem, stored = _read(*files)
        book = given_book(prices, [kind_of(problem)])
        with solving_bar(output) as tell:
            findings = check_whole(problem, stored, CheckDepth(0 if quick else FULL.events, book, tell))
        claimed = stored.claimed_bound
        document = {
            "ok": findings.ok,
            "violations": [{"code": violation.code, "message": violation.message} for violation in findings.violations],
            "not_recomputed": [{"figure": each.figure, "reason": each.reason} for each in findings.not_recomputed],
            "instance": "in the solution" if len(files) == 1 else str(files[0]),
            "bound": bound_document(stored.bound),
            "claimed_bound": None if claimed is None else bound_document(claimed),
        }
        output.result(document, lambda console: _show(console, findings), answer(stored, findings))
        return 0 if findings.ok else CheckError.exit_code

    output.run(command)


def _read(first: Path, second: Path | None = None) -> tuple[Any, SolutionHead]:
    """The problem and its solution, of two files or of one.

    Raises:
        InputError: what is wrong with them; a solution without an instance in it.
    """
    from topoopt.kinds.embedded import embedded_problem
    from topoopt.kinds.instance_file import read_instance
    from topoopt.kinds.solution_file import read_solution

    if second is None:
        alone: SolutionHead = read_solution(first)
        return embedded_problem(alone, first), alone
    problem = read_instance(first)
    return problem, kind_of(problem).files.solutions.read(second)


def _show(console: Console, findings: CheckFindings) -> None:
    for violation in findings.violations:
        console.print(f"{violation.code}: {violation.message}", markup=False, soft_wrap=True)
    for each in findings.not_recomputed:
        console.print(f"not recomputed: {each.figure}: {each.reason}", markup=False, soft_wrap=True)
    failed = f"check FAILED: {counted(len(findings.violations), 'violation')}"
    console.print("check passed" if findings.ok else failed)


def answer(solution: SolutionHead, findings: CheckFindings) -> str:
    """Whether the solution holds, and what was shown, for somebody who sees the file for the first time."""
    if not findings.ok:
        return rejection(CheckResult(False, tuple(str(violation) for violation in findings.violations)))
    objective, claimed = solution.objective, solution.claimed_bound
    but = " but for what is listed as not recomputed" if findings.not_recomputed else ""
    figure = f"{objective_text(objective.name)} {quantity(objective.value, objective.unit)}"
    text = f"The solution holds: {figure} follows from what is in the file{but}"
    bound = f"bound {precise(solution.bound.value)} is derived again ({solution.bound.proved_by})"
    if claimed is not None:
        bound += f", bound {precise(claimed.value)} is only claimed"
    return f"{text}; {bound}."
