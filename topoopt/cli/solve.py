"""`topoopt solve`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from topoopt.cli.interrupt import INTERRUPTED
from topoopt.cli.network import Wishes, solve_network_command
from topoopt.cli.output import JsonOption, Output
from topoopt.core.errors import CheckError, InfeasibleError, LimitError
from topoopt.core.instance import CoOptimisation
from topoopt.core.solution import Solution
from topoopt.core.status import StopReason

EXIT_OF_STOP = {StopReason.TIME: 4, StopReason.INTERRUPTED: INTERRUPTED}
"""Exit codes of a run that ended early with a plan; all others are 0."""


def solve(
    instance: Annotated[Path, typer.Argument(help="Instance file (YAML or JSON).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for solution.json and report.html.")],
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Seed; default: of the instance.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds of search.")] = None,
    budget: Annotated[int | None, typer.Option(min=0, max=10**12, help="Strategy proposals in all.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="auto, alternating, fixed-topology or data-parallel; for kind routing auto, simplex, ipx, pdlp, ...; "
            "for kind topology auto, exact, milp, enumerate, circulant, portfolio, totient, ..."
        ),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Find a parallelization strategy, a topology and routes of least iteration time; write and check the plan.

    Instances of kind routing and topology: route a demand, or choose the links as well, so that theta, the largest
    link utilisation, is least.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from solvers.stop import stop_on_signals
        from topoopt.io.instance_file import read_instance

        problem = read_instance(instance)
        _require_writable(out)
        if not isinstance(problem, CoOptimisation):
            return solve_network_command(problem, output, out, Wishes(seed, time_limit, budget, method))
        began = time.monotonic()
        try:
            solution = _search(problem, output, seed, time_limit, budget, method)
        except (InfeasibleError, LimitError) as error:
            return output.fail(error, _no_plan(problem, seed, time.monotonic() - began))
        with stop_on_signals(None) as late:  # what was found is written, however late Ctrl-C comes
            document = _write(solution, out, time.monotonic() - began)
        output.result(document, lambda console: _show(console, solution, out))
        if not solution.check.ok:
            for line in ("the checker rejects the plan:", *solution.check.violations):
                output.say_error(line)
            return CheckError.exit_code
        return INTERRUPTED if late.interrupted.is_set() else EXIT_OF_STOP.get(solution.stopped_by, 0)

    output.run(command)


def _require_writable(out: Path) -> None:
    """Refuse a directory that cannot be written before minutes are spent on what should go there.

    Raises:
        WriteError: something else has the name of the directory or of a file in it, or writing is not permitted.
    """
    from topoopt.io.atomic import WriteError

    try:
        there = next(path for path in (out, *out.absolute().parents) if path.exists())
        if not there.is_dir():
            raise WriteError(f"{out}: cannot be written: {there} is not a folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise WriteError(f"{out}: cannot be written: no permission to write to {there}")
        for name in ("solution.json", "report.html"):
            if (out / name).exists() and not (out / name).is_file():
                raise WriteError(f"{out / name}: cannot be written: not a regular file")
    except (OSError, ValueError) as error:  # a name too long, a folder that may not be looked into
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WriteError(f"{out}: cannot be written: {reason}") from None


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
        disable=not output.errors.is_terminal,
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
    from topoopt.simulate.fabrics import FABRICS

    report = render_html(solution)
    make_directory(out)
    write_solution(solution, out / "solution.json")
    write_text_atomically(out / "report.html", report)
    summary = summary_dict(solution)
    return {
        **summary,
        # A fabric that cannot be built for the cluster has no time, but its key.
        "baselines_ms": {**dict.fromkeys(FABRICS), **summary["baselines_ms"]},
        "wall_s": round(wall_s, 3),
        "solution": str(out / "solution.json"),
        "report": str(out / "report.html"),
    }


def _no_plan(instance: CoOptimisation, seed: int | None, wall_s: float) -> dict[str, Any]:
    """The keys of a solving command where no plan was found."""
    from topoopt.core.versions import versions

    return {
        "kind": instance.kind,
        "name": instance.name,
        "objective": None,
        "bound": None,
        "gap": None,
        "check": None,
        "seed": instance.search.seed if seed is None else seed,
        "wall_s": round(wall_s, 3),
        "versions": dict(versions()),
        "instance_sha256": instance.sha256,
        "solution": None,
    }


def _show(console: Console, solution: Solution, out: Path) -> None:
    from topoopt.report.text import print_summary

    print_summary(solution, console)
    written = escape(f"written: {out / 'solution.json'}, {out / 'report.html'}")
    console.print(f"[dim]{written}[/]", soft_wrap=True, highlight=False)
