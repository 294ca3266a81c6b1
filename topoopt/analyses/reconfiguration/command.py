"""`topoopt reconfigure`: iteration time over the reconfiguration delay of the optical switches, and what pays when."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from topoopt.console.output import EXIT_OF_STOP, JsonOption, Output
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.optical_devices import delay_text, devices_text, parse_delay
from topoopt.core.reconfiguration import ReconfigurationSweep
from topoopt.files.table_and_plot import require_targets

if TYPE_CHECKING:
    from solvers.stop import Stop
    from topoopt.core.job import CoOptimisation
    from topoopt.core.plan import Plan

DELAYS = "1us,10us,50us,200us,1ms,10ms,100ms,1s,60s"
DEVICES = devices_text()


def reconfigure(
    instance: Annotated[Path, typer.Argument(help="Instance file of kind co-optimisation.")],
    solution: Annotated[Path | None, typer.Option(help="Its solution.json; default: the instance is solved.")] = None,
    delays: Annotated[str, typer.Option(help=f"Reconfiguration delays, parted by commas, or devices: {DEVICES}.")] = (
        DELAYS
    ),
    fabrics: Annotated[str, typer.Option(help="Schemes beside one-shot: per-phase, sip-ml, ocs-reconfig.")] = (
        "per-phase,sip-ml,ocs-reconfig"
    ),
    period: Annotated[
        str | None,
        typer.Option(help="Time demand-driven circuits stay; default: 4 times the dark time, 10us at least."),
    ] = None,
    iterations: Annotated[
        int, typer.Option(min=1, max=10_000, help="Simulated in a row where circuits follow demand.")
    ] = 1,
    budget: Annotated[
        int | None, typer.Option(min=0, max=10**12, help="Strategy proposals where the job is solved.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Default: as in the instance.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds for everything.")] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="CSV file to write.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot to write, as .html or .svg.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Iteration time of a job over the reconfiguration delay: one-shot, per phase, and circuits that follow demand.

    Exit code 4 if the time limit cut something off.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from solvers.stop import stop_on_signals
        from topoopt.analyses.reconfiguration import reconfiguration_sweep

        began = time.monotonic()
        require_targets(csv_file, plot)
        wanted, period_ms = _durations(delays, period)
        schemes = [name.strip() for name in fabrics.split(",") if name.strip()]
        with stop_on_signals(time_limit) as stop:
            job, plan = _job(instance, solution, budget, seed, stop)
            own_seed = job.search.seed if seed is None else seed
            with output.errors.status("reconfigure") as status:
                sweep = reconfiguration_sweep(
                    job,
                    plan,
                    delays_ms=wanted,
                    schemes=schemes,
                    period_ms=period_ms,
                    iterations=iterations,
                    seed=own_seed,
                    stop=stop,
                    progress=lambda scheme, delay: status.update(f"{scheme} at {delay_text(delay)}"),
                )
            written = _written(sweep, csv_file, plot)
            document = {**_document(sweep), **written, "wall_s": round(time.monotonic() - began, 3)}
            output.result(document, lambda console: _show(console, sweep, (csv_file, plot)))
        return EXIT_OF_STOP.get(sweep.stopped_by, 0)

    output.run(command)


def _durations(delays: str, period: str | None) -> tuple[list[float], float | None]:
    """Milliseconds; every bad one is told."""
    problems: list[Problem] = []

    def parsed(option: str, text: str) -> float:
        try:
            return parse_delay(text)
        except InputError as error:
            problem = error.problems[0]
            problems.append(Problem(problem.message, path=option, value=problem.value, allowed=problem.allowed))
            return 0.0

    wanted = [parsed("--delays", word) for word in delays.split(",") if word.strip()]
    period_ms = None if period is None else parsed("--period", period)
    if problems:
        raise InputError(problems)
    return wanted, period_ms


def _job(
    path: Path, solution: Path | None, budget: int | None, seed: int | None, stop: Stop
) -> tuple[CoOptimisation, Plan]:
    from topoopt.core.job import CoOptimisation
    from topoopt.kinds.instance_file import read_instance
    from topoopt.kinds.job.solution_file import SOLUTION_FILE
    from topoopt.kinds.kind import SolveOptions
    from topoopt.kinds.pipeline import solve
    from topoopt.verify.job.check import check_solution

    job = read_instance(path)
    if not isinstance(job, CoOptimisation):
        text = "not an instance with a job"
        raise InputError([Problem(text, file=str(path), path="kind", value=job.kind, allowed="co-optimisation")])
    if solution is None:
        found = solve(job, SolveOptions(seed, stop.remaining_s(), budget, objective_only=True))
        if not found.check.ok:
            raise CheckError("the checker rejects the plan: " + "; ".join(found.check.violations))
        if stop.interrupted.is_set():
            raise KeyboardInterrupt
        return job, found.plan
    stored = SOLUTION_FILE.read(solution)
    violations = check_solution(job, stored)
    if violations:
        text = "\n".join(f"{violation.code}: {violation.message}" for violation in violations)
        raise CheckError(f"the checker rejects the solution:\n{text}")
    return job, stored.plan


def _document(sweep: ReconfigurationSweep) -> dict[str, Any]:
    return {"kind": "reconfiguration", **asdict(sweep), "versions": dict(sweep.versions), "notes": list(sweep.notes)}


def _written(sweep: ReconfigurationSweep, csv_file: Path | None, plot: Path | None) -> dict[str, str | None]:
    from topoopt.analyses.reconfiguration.report import sweep_html, sweep_svg
    from topoopt.files.table_and_plot import csv_text, write_targets

    columns = ("scheme", "delay_ms", "iteration_time_ms", "choice", "reconfigurations", "dark_ms")
    rows = ([scheme.name, *asdict(point).values()] for scheme in sweep.schemes for point in scheme.points)
    return write_targets(
        csv_file,
        plot,
        text=lambda: csv_text(columns, rows),
        svg=lambda: sweep_svg(sweep),
        html=lambda: sweep_html(sweep),
    )


def _show(console: Console, sweep: ReconfigurationSweep, files: tuple[Path | None, ...]) -> None:
    from topoopt.analyses.reconfiguration.report import verdict_text

    title = f"{sweep.name}: {sweep.servers} servers, {sweep.degree} x {sweep.link_gbps:g} Gbit/s, iteration time in ms"
    table = Table(title=title, title_justify="left")
    table.add_column("delay", justify="right")
    for scheme in sweep.schemes:
        table.add_column(scheme.name, justify="right")
    for point in sweep.schemes[0].points:
        cells = []
        for scheme in sweep.schemes:
            there = next((each for each in scheme.points if each.delay_ms == point.delay_ms), None)
            cells.append("-" if there is None else f"{there.iteration_time_ms:.4f}")
        table.add_row(delay_text(point.delay_ms), *cells)
    console.print(table)
    console.print("When does reconfiguring inside an iteration pay? Faster than one-shot:", highlight=False)
    for scheme in sweep.schemes:
        if scheme.break_even is not None:
            console.print(f"  {scheme.name}: {verdict_text(scheme.break_even)}", soft_wrap=True, highlight=False)
    for note in sweep.notes:
        console.print(f"note: {note}", soft_wrap=True, highlight=False, markup=False)
    for file in files:
        if file is not None:
            console.print(f"written: {file}", soft_wrap=True, markup=False)
