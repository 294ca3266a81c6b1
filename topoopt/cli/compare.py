"""`topoopt compare`: every method on every network instance."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from topoopt.cli.output import JsonOption, Output
from topoopt.core.errors import CheckError, InputError, Problem

if TYPE_CHECKING:
    from topoopt.networks.compare import Comparison

COLUMNS = (
    "instance", "kind", "method", "seed", "outcome", "theta", "lambda", "bound", "proved_by", "gap_to_best",
    "gap_to_bound", "proven", "checked", "wall_s",
)  # fmt: skip


def compare(
    instances: Annotated[list[Path], typer.Argument(help="Instance files of kind routing or topology.")],
    methods: Annotated[str | None, typer.Option(help="Names, parted by commas; default: all of the kind.")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each method, with seeds 0, 1, ...")] = 1,
    time_limit: Annotated[float, typer.Option(min=0.0, help="Seconds of each run.")] = 30.0,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="CSV file to write.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Objective, bound, gap to the best and to the best bound, and time of every method on every instance."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.io.atomic import write_text_atomically
        from topoopt.networks.compare import compared, runs_of

        problems = [_network_instance(path) for path in instances]
        names = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
        runs = []
        bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=output.errors,
            transient=True,
            disable=not output.errors.is_terminal,
        )
        with bar:
            task = bar.add_task("compare", total=None)
            for problem in problems:
                bar.update(task, description=escape(problem.name))
                for run in runs_of(problem, names, range(seeds), time_limit):
                    runs.append(run)
                    bar.update(task, description=escape(f"{problem.name}: {run.method} done"))
        rows = compared(runs)
        records = [_record(row) for row in rows]
        if csv_file is not None:
            write_text_atomically(csv_file, _csv(records))
        document = {"runs": records, "csv": None if csv_file is None else str(csv_file)}
        output.result(document, lambda console: _show(console, rows, csv_file))
        rejected = [run for run in runs if run.theta is not None and not run.checked]
        for run in rejected:
            output.say_error(f"the checker rejects what {run.method} found for {run.instance}")
        return CheckError.exit_code if rejected else 0

    output.run(command)


def _network_instance(path: Path) -> Any:
    from topoopt.core.network_problem import RoutingProblem, TopologyProblem
    from topoopt.io.instance_file import read_instance

    problem = read_instance(path)
    if not isinstance(problem, RoutingProblem | TopologyProblem):
        text = "methods are compared on network instances"
        raise InputError([Problem(text, file=str(path), path="kind", value=problem.kind, allowed="routing, topology")])
    return problem


def _record(row: Comparison) -> dict[str, Any]:
    run = row.run
    values = (
        run.instance, run.kind, run.method, run.seed, run.outcome, run.theta,
        None if run.theta is None else 1.0 / run.theta, run.bound, run.proved_by, row.gap_to_best, row.gap_to_bound,
        row.proven, run.checked, round(run.wall_s, 3),
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def _csv(records: list[dict[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return stream.getvalue()


def _show(console: Console, rows: list[Comparison], csv_file: Path | None) -> None:
    for name in dict.fromkeys(row.run.instance for row in rows):
        _show_instance(console, name, [row for row in rows if row.run.instance == name])
    if csv_file is not None:
        console.print(f"written: {csv_file}", markup=False, soft_wrap=True, highlight=False)


def _show_instance(console: Console, name: str, rows: list[Comparison]) -> None:
    table = Table("method", "seed", "theta", "bound", "to best", "to bound", "time", "outcome", title=escape(name))
    for row in rows:
        run = row.run
        figures = ["-", "-", "-", "-"]
        if run.theta is not None and run.bound is not None:
            gaps = ["-" if gap is None else f"{gap:.2%}" for gap in (row.gap_to_best, row.gap_to_bound)]
            figures = [f"{run.theta:.6g}", f"{run.bound:.6g}", *gaps]
        outcome = "REJECTED" if run.theta is not None and not run.checked else run.outcome
        table.add_row(run.method, str(run.seed), *figures, f"{run.wall_s:.2f} s", outcome)
    console.print(table)
    best = max((row.run for row in rows if row.run.bound is not None), key=lambda run: run.bound or 0.0, default=None)
    if best is not None:
        verdict = "reached, so the best is optimal" if any(row.proven for row in rows) else "not reached"
        text = f"highest bound {best.bound:.6g} ({best.proved_by}), {verdict}; gaps are to it and to the best theta"
        console.print(text, markup=False, soft_wrap=True, highlight=False)
    for run in {row.run.method: row.run for row in rows if row.run.theta is None}.values():
        reason = " ".join(run.proved_by.split())
        console.print(f"{run.method}: {run.outcome}: {reason}", markup=False, soft_wrap=True, highlight=False)
