"""`topoopt solve` and `topoopt check`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from topoopt.cli.output import JsonOption, Output
from topoopt.core.errors import CheckError
from topoopt.core.instance import CoOptimisation
from topoopt.core.solution import Solution
from topoopt.core.status import StopReason

EXIT_OF_STOP = {StopReason.TIME: 4, StopReason.INTERRUPTED: 130}
"""Exit codes of a run that ended early with a plan; all others are 0."""


def solve(
    instance: Annotated[Path, typer.Argument(help="Instance file (YAML or JSON).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for solution.json and report.html.")],
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Seed; default: of the instance.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds of search.")] = None,
    budget: Annotated[int | None, typer.Option(min=0, max=10**9, help="Strategy proposals in all.")] = None,
    method: Annotated[str | None, typer.Option(help="auto, alternating, fixed-topology or data-parallel.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Find a parallelization strategy, a topology and routes of least iteration time; write and check the plan."""
    output = Output.choose(as_json)

    def command() -> int:
        from solvers.methods import METHODS
        from topoopt.core.errors import InputError, Problem
        from topoopt.io.instance_file import read_instance

        if method is not None and method != "auto" and method not in METHODS:
            allowed = ", ".join(("auto", *METHODS))
            raise InputError([Problem("unknown method", path="--method", value=method, allowed=allowed)])
        problem = read_instance(instance)
        began = time.monotonic()
        solution = _search(problem, output, seed, time_limit, budget, method)
        document = _write(solution, out, time.monotonic() - began)
        output.result(document, lambda console: _show(console, solution, out))
        if not solution.check.ok:
            raise CheckError("the checker rejects the plan:\n" + "\n".join(solution.check.violations))
        return EXIT_OF_STOP.get(solution.stopped_by, 0)

    output.run(command)


def _search(
    instance: CoOptimisation,
    output: Output,
    seed: int | None,
    time_limit: float | None,
    budget: int | None,
    method: str | None,
) -> Solution:
    from solvers.methods import default_budget
    from topoopt.pipeline import solve as solve_instance

    total = budget if budget is not None else instance.search.budget
    if total is None:
        total = default_budget(instance.cluster, instance.workload)
    bar = Progress(
        TextColumn("{task.fields[phase]:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("proposals, best {task.fields[best]}"),
        TimeElapsedColumn(),
        console=output.errors,
        transient=True,
    )
    with bar:
        task = bar.add_task("solve", total=total, phase="compile", best="-")

        def progress(phase: str, proposals: int, best_ms: float) -> None:
            bar.update(task, advance=proposals, phase=phase, best=f"{best_ms:.3f} ms")

        return solve_instance(
            instance, seed=seed, time_limit_s=time_limit, budget=budget, method=method, progress=progress
        )


def _write(solution: Solution, out: Path, wall_s: float) -> dict[str, Any]:
    from topoopt.io.atomic import make_directory, write_text_atomically
    from topoopt.io.solution_file import write_solution
    from topoopt.report.html import render_html
    from topoopt.report.text import summary_dict

    make_directory(out)
    write_solution(solution, out / "solution.json")
    write_text_atomically(out / "report.html", render_html(solution))
    return {
        **summary_dict(solution),
        "wall_s": round(wall_s, 3),
        "solution": str(out / "solution.json"),
        "report": str(out / "report.html"),
    }


def _show(console: Console, solution: Solution, out: Path) -> None:
    from topoopt.report.text import print_summary

    print_summary(solution, console)
    console.print(f"[dim]written: {out / 'solution.json'}, {out / 'report.html'}[/]", soft_wrap=True, highlight=False)


def check(
    instance: Annotated[Path, typer.Argument(help="Instance file.")],
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")],
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Check a solution with code that shares nothing with what made it; exit code 6 if anything is wrong."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.io.instance_file import read_instance
        from topoopt.io.solution_file import read_solution
        from topoopt.verify import check_solution

        violations = check_solution(read_instance(instance), read_solution(solution))
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
