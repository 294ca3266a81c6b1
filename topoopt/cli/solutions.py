"""`topoopt show`, `topoopt report` and `topoopt convert`: what is done with a solution file alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output
from topoopt.core.errors import CheckError
from topoopt.core.result import SolutionHead
from topoopt.drawing.sentences import full_answer
from topoopt.files.results import bound_document, check_document
from topoopt.kinds import kind_of
from topoopt.verify.checker import FULL

SolutionArgument = Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")]
InstanceOption = Annotated[
    Path | None, typer.Option(help="Instance file; needed only where the solution carries no instance.")
]


def show(
    solution: SolutionArgument,
    instance: InstanceOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Show the figures of a solution, computed again from its plan; with --json all of them, tables as well.

    Exit code 6 if a brief check rejects the plan.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import solution_of

        problem, result = solution_of(solution, instance)
        pages = kind_of(result).pages()
        document = document_of(result, dict(pages.everything(problem, result)), solution)

        def display(console: Console) -> None:
            pages.show(console, result, None)
            for note in result.notes:
                console.print(f"note: {note}", markup=False, soft_wrap=True, highlight=False)

        output.result(document, display, full_answer(pages.answer(result), result.check))
        return 0

    output.run(command)


def report(
    solution: SolutionArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML file to write; default: report.html beside SOLUTION.")
    ] = None,
    instance: InstanceOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Write the self-contained HTML report of a solution; exit code 6 if a brief check rejects the plan."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.atomic import write_text_atomically
        from topoopt.kinds.files import solution_of

        _, result = solution_of(solution, instance)
        file = out or solution.with_name("report.html")
        write_text_atomically(file, kind_of(result).pages().report(result))
        output.result({"report": str(file)}, lambda console: console.print(f"written: {file}", markup=False))
        return 0

    output.run(command)


def convert(
    solution: Annotated[Path, typer.Argument(help="solution.json of the release before, format 2.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Solution file to write; default: converted.json beside SOLUTION."),
    ] = None,
    instance: InstanceOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Write a solution file of format 2 in the present format, once its plan and its proof have been checked.

    Exit code 6, and no file, if the checker rejects it.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import converted, write_solution

        result = converted(solution, instance, FULL)
        if not result.check.ok:
            raise CheckError("the checker rejects the solution:\n" + "\n".join(result.check.violations))
        file = out or solution.with_name("converted.json")
        write_solution(result, file)
        document = {"solution": str(file), "status": result.status.value, "check": check_document(result.check)}
        output.result(document, lambda console: console.print(f"written: {file}", markup=False))
        return output.exit_code(result.check, result.stopped_by, searched=False)

    output.run(command)


def document_of(solution: SolutionHead, figures: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the JSON object of a solution: what all kinds have, around the figures of one."""
    objective, claimed = solution.objective, solution.claimed_bound
    return {
        "kind": solution.kind,
        "name": solution.name,
        "status": solution.status.value,
        "stopped_by": solution.stopped_by.value,
        "objective": {"name": objective.name, "value": objective.value, "unit": objective.unit},
        "bound": bound_document(solution.bound),
        "claimed_bound": None if claimed is None else bound_document(claimed),
        "gap": solution.gap,
        **figures,
        "method": solution.method,
        "check": check_document(solution.check),
        "seed": solution.seed,
        "versions": dict(solution.versions),
        "instance_sha256": solution.instance_sha256,
        "notes": list(solution.notes),
        "solution": str(file),
    }
