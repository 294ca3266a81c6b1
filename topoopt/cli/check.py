"""`topoopt check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from topoopt.analyses.costs.prices import given_book
from topoopt.console.output import JsonOption, Output
from topoopt.console.progress import solving_bar
from topoopt.core.errors import CheckError
from topoopt.kinds import kind_of
from topoopt.verify.laws.findings import FULL, CheckDepth, CheckFindings


def check(
    instance: Annotated[Path, typer.Argument(help="Instance file.")],
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")],
    quick: Annotated[bool, typer.Option("--quick", help="Leave out simulations, and say so.")] = False,
    prices: Annotated[
        Path | None,
        typer.Option("--prices", help="Price book of the solution; default: the shipped one."),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Check a solution with code that shares nothing with what made it; exit code 6 if anything is wrong."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.instance_file import read_instance

        problem = read_instance(instance)
        kind = kind_of(problem)
        book = given_book(prices, [kind])
        stored = kind.files.solutions.read(solution)
        with solving_bar(output) as tell:
            findings = kind.check(problem, stored, CheckDepth(0 if quick else FULL.events, book, tell))
        document = {
            "ok": findings.ok,
            "violations": [{"code": violation.code, "message": violation.message} for violation in findings.violations],
            "not_recomputed": [{"figure": each.figure, "reason": each.reason} for each in findings.not_recomputed],
        }
        output.result(document, lambda console: _show(console, findings))
        return 0 if findings.ok else CheckError.exit_code

    output.run(command)


def _show(console: Console, findings: CheckFindings) -> None:
    for violation in findings.violations:
        console.print(f"{violation.code}: {violation.message}", markup=False, soft_wrap=True)
    for each in findings.not_recomputed:
        console.print(f"not recomputed: {each.figure}: {each.reason}", markup=False, soft_wrap=True)
    console.print("check passed" if findings.ok else f"check FAILED: {len(findings.violations)} violations")
