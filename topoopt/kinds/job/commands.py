"""Commands on instances of kind `co-optimisation`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from topoopt.console.interrupt import INTERRUPTED
from topoopt.console.output import Output
from topoopt.core.errors import InfeasibleError, LimitError, Problem
from topoopt.core.job import DEFAULT_FABRICS, CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.kinds.kind import Contest, KindCommands, Wishes, exit_code, nothing_found

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import Violation


def solve_job(instance: CoOptimisation, output: Output, out: Path, wishes: Wishes) -> int:
    """Search, check, write solution.json and report.html, show; the exit code."""
    from solvers.stop import stop_on_signals

    began = time.monotonic()
    try:
        solution = _search(instance, output, wishes)
    except (InfeasibleError, LimitError) as error:
        return output.fail(error, nothing_found(instance, wishes.seed, time.monotonic() - began))
    with stop_on_signals(None) as late:  # what was found is written, however late Ctrl-C comes
        document = _write(instance, solution, out, time.monotonic() - began)
    output.result(document, lambda console: _show(console, solution, out))
    code = exit_code(output, solution.check, solution.stopped_by)
    return INTERRUPTED if solution.check.ok and late.interrupted.is_set() else code


def _search(instance: CoOptimisation, output: Output, wishes: Wishes) -> JobSolution:
    from solvers.job.methods import default_budget
    from topoopt.kinds.job.solve import solve as solve_instance

    total = wishes.budget if wishes.budget is not None else instance.search.budget
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
            instance,
            seed=wishes.seed,
            time_limit_s=wishes.time_limit_s,
            budget=wishes.budget,
            method=wishes.method,
            book=wishes.book,
            progress=progress,
        )


def _write(instance: CoOptimisation, solution: JobSolution, out: Path, wall_s: float) -> dict[str, Any]:
    from topoopt.files.atomic import make_directory, write_text_atomically
    from topoopt.kinds.job.report import render_html
    from topoopt.kinds.job.show import summary_dict
    from topoopt.kinds.job.solution_file import SOLUTION_FILE

    report = render_html(solution)
    make_directory(out)
    SOLUTION_FILE.write(solution, out / "solution.json")
    write_text_atomically(out / "report.html", report)
    summary = summary_dict(solution)
    return {
        **summary,
        # A fabric that cannot be built for the cluster has no time, but its key.
        "baselines_ms": {**dict.fromkeys(each.name for each in instance.baselines.fabrics), **summary["baselines_ms"]},
        "wall_s": round(wall_s, 3),
        "solution": str(out / "solution.json"),
        "report": str(out / "report.html"),
    }


def _show(console: Console, solution: JobSolution, out: Path) -> None:
    from topoopt.kinds.job.show import print_summary

    print_summary(solution, console)
    written = escape(f"written: {out / 'solution.json'}, {out / 'report.html'}")
    console.print(f"[dim]{written}[/]", soft_wrap=True, highlight=False)


def _check(instance: CoOptimisation, solution: Path) -> Sequence[Violation]:
    from topoopt.kinds.job.solution_file import SOLUTION_FILE
    from topoopt.verify.job.check import check_solution

    return check_solution(instance, SOLUTION_FILE.read(solution))


def _report(solution: Path) -> str:
    from topoopt.kinds.job.report import render_html
    from topoopt.kinds.job.solution_file import SOLUTION_FILE

    return render_html(SOLUTION_FILE.read(solution))


def _search_problems(instance: CoOptimisation) -> list[Problem]:
    problems: list[Problem] = []
    if instance.search.method != "auto":  # the others are known only where the solvers are, which load slowly
        from topoopt.kinds.job.solve import search_problems

        problems += search_problems(instance.search, instance.source)
    if instance.baselines.fabrics != DEFAULT_FABRICS:
        from topoopt.kinds.job.fabric_comparison import fabric_problems

        problems += fabric_problems(instance)
    return problems


def _methods(instance: CoOptimisation) -> tuple[str, ...]:
    from solvers.job.methods import METHODS

    return ("auto", *METHODS)


def _run(instance: CoOptimisation, wishes: Wishes) -> JobSolution:
    from topoopt.kinds.job.solve import solve as solve_instance

    return solve_instance(
        instance,
        seed=wishes.seed,
        time_limit_s=wishes.time_limit_s,
        budget=wishes.budget,
        method=wishes.method,
        baselines=False,
        book=wishes.book,
    )


def _worth(solution: JobSolution) -> float | None:
    from topoopt.core.bill import PLAN_FABRIC, iterations_per_s_per_million_usd

    usd = None if solution.prices is None else solution.prices.of(PLAN_FABRIC)
    return iterations_per_s_per_million_usd(solution.objective.value, usd)


COMMANDS = KindCommands(
    solve_job,
    _check,
    _report,
    _search_problems,
    Contest(_methods, _run, takes_budget=True, worth=_worth),
    takes_prices=True,
)
