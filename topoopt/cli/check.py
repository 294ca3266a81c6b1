"""`topoopt check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output
from topoopt.core.errors import CheckError
from topoopt.kinds import kind_of


def check(
    instance: Annotated[Path, typer.Argument(help="Instance file.")],
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")],
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Check a solution with code that shares nothing with what made it; exit code 6 if anything is wrong."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.instance_file import read_instance

        problem = read_instance(instance)
        kind = kind_of(problem)
        violations = tuple(kind.check(problem, kind.files.solutions.read(solution)))
        document = {
            "ok": not violations,
            "violations": [{"code": violation.code, "message": violation.message} for violation in violations],
        }

        def show(console: Console) -> None:
            for violation in violations:
                console.print(f"{violation.code}: {violation.message}", markup=False, soft_wrap=True)
            console.print("check passed" if not violations else f"check FAILED: {len(violations)} violations")

        output.result(document, show)
        return CheckError.exit_code if violations else 0

    output.run(command)
