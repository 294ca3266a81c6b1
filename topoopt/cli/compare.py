"""`topoopt compare`: every method runs on every instance, and tables show what each found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.measure import Measurement

from topoopt.analyses.costs import given_book
from topoopt.analyses.fabrics import compare_fabrics
from topoopt.core.errors import CheckError, InputError, Problem, TopooptError, raise_any
from topoopt.core.outcomes import Best, Comparison, best_of
from topoopt.core.process import INTERRUPTED, take
from topoopt.core.proofs import StopReason
from topoopt.kinds import kind_named
from topoopt.kinds.kind import SolveOptions
from topoopt.page import options
from topoopt.page.options import counting_bar, memory_bytes
from topoopt.page.output import Output, say
from topoopt.page.render import TerminalTable

if TYPE_CHECKING:
    from topoopt.core.outcomes import ComparedRun
    from topoopt.library.compare import PlannedRun
    from topoopt.page.options import AttendedRun


def compare(
    instances: Annotated[list[Path], typer.Argument(help="Instance files, also of several kinds.")],
    methods: Annotated[str | None, typer.Option(help="Names, parted by commas; default: all of each kind.")] = None,
    fabrics: options.Fabrics = None,
    delays: options.Delays = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each method, with seeds 0, 1, ...")] = 1,
    time_limit: options.TimeLimit = None,
    budget: options.Budget = None,
    memory_limit: options.MemoryLimit = None,
    prices: options.Prices = None,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Compare methods on instances, or with --fabrics the networks that a job could run on.

    Methods: objective, bound, gap to the best and to the best bound, and time of each; --time-limit is 30 s, and none
    with --budget. Ctrl-C ends the comparison; the runs made so far are shown and written. A file that is refused does
    not cost the others.

    Fabrics: best iteration time of one job, or of one solution, on each, with a strategy searched on it; `all` are
    those of the instance, else all that stay as they are. Of ocs-reconfig and sip-ml, whose circuits follow demand,
    --delays is the one delay (3d-mems).

    --output writes a table (.csv) and a plot (.html, .svg).
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.core.outcomes import compared, record
        from topoopt.files.atomic import PLOTS, targets
        from topoopt.library.compare import entrants_of, starts_of
        from topoopt.page.options import attended
        from topoopt.page.vega import comparison_answer, drawable

        csv_file, plot = targets(output_files, force, (".csv",), PLOTS)
        memory = memory_bytes(memory_limit)
        if fabrics is not None:
            _refuse_of_methods(instances, {"--methods": methods, "--prices": prices, "--seeds": seeds - 1 or None})
            names = None if fabrics == "all" else [name.strip() for name in fabrics.split(",")]
            limits = SolveOptions(None, time_limit, budget, memory_bytes=memory)
            return compare_fabrics(output, instances[0], names, limits, delays, (csv_file, plot))
        if delays is not None:
            raise InputError([Problem("only with --fabrics", path="--delays", value=delays)])
        plot = drawable(plot, output)
        with attended(output, None) as run:
            entrants, refused = run.first(lambda: entrants_of(instances))
            for problem in refused:
                output.say_error(str(problem))
            kinds = list(dict.fromkeys(entrant.instance.kind for entrant in entrants))
            book = given_book(prices, [kind_named(name) for name in kinds])
            names = None if methods is None else [name.strip() for name in methods.split(",")]
            starts = starts_of(entrants, names, seeds, time_limit, budget, book, dashes="--")
            runs, interrupted = _made(starts, output, run, memory)
            run.doing = "files"  # what was found is written, however late Ctrl-C comes
            rows = compared(runs)
            records = [record(row) for row in rows]
            document = {
                "runs": records,
                "left_out": len(starts) - len(runs),
                "refused": [asdict(problem) for problem in refused],
                "stopped_by": (StopReason.INTERRUPTED if interrupted else StopReason.CONVERGED).value,
                **_written(records, rows, csv_file, plot),
            }
            output.result(
                document, lambda console: show_comparison(console, rows, (csv_file, plot)), comparison_answer(rows)
            )
        if interrupted:
            output.remarks.print(f"interrupted: {len(runs)} of {len(starts)} runs made", highlight=False)
        return _exit_code(output, runs, interrupted, refused)

    output.run(command)


def _refuse_of_methods(files: Sequence[Path], given: Mapping[str, object]) -> None:
    """Refuse what means nothing where fabrics are compared."""
    problems = [Problem("not with --fabrics", path=name) for name, value in given.items() if value is not None]
    if len(files) > 1:
        problems.append(Problem("too many files", value=str(len(files)), allowed="one job, or its solution"))
    raise_any(problems)


def _limited(start: PlannedRun, run: AttendedRun, memory_limit_bytes: int | None) -> PlannedRun:
    """The same with limits of its own, and the interrupts of the whole."""
    from solvers.stop import Memory
    from solvers.timing import Timing

    if start.options is None:
        return start
    limit_s = start.options.time_limit_s
    if limit_s is None:
        limit_s = start.entrant.instance.search.time_limit_s
    stop = replace(run.timing.stop, memory=Memory()).within(limit_s)
    return replace(start, options=replace(start.options, timing=Timing(stop, limit_s), memory_bytes=memory_limit_bytes))


def _made(
    starts: Sequence[PlannedRun], output: Output, run: AttendedRun, memory_limit_bytes: int | None
) -> tuple[list[ComparedRun], bool]:
    """The runs, up to the first that Ctrl-C ended, and whether it did; a run that still found something is kept."""
    from topoopt.library.compare import run_of

    runs: list[ComparedRun] = []
    bar = counting_bar(output)
    with bar:
        task = bar.add_task("compare", total=len(starts))
        try:
            for start in starts:
                name = f"{start.entrant.instance.name}: {start.method}"
                bar.update(task, description=escape(name), completed=len(runs))
                if not output.remarks.is_terminal:  # a log wants lines, not a bar
                    output.remarks.print(f"run {len(runs) + 1} of {len(starts)}: {name}", markup=False, highlight=False)
                run.doing = name
                runs.append(run_of(_limited(start, run, memory_limit_bytes)))
                if runs[-1].stopped_by == StopReason.INTERRUPTED:
                    return runs, True
        except KeyboardInterrupt:
            take()
            return runs, True
    return runs, False


def _written(
    records: list[dict[str, Any]], rows: list[Comparison], csv_file: Path | None, plot: Path | None
) -> dict[str, str | None]:
    from topoopt.core.outcomes import COLUMNS
    from topoopt.files.atomic import csv_text, write_targets
    from topoopt.page.vega import comparison_html, comparison_svg

    return write_targets(
        csv_file,
        plot,
        text=lambda: csv_text(COLUMNS, (record.values() for record in records)),
        svg=lambda: comparison_svg(rows),
        html=lambda: comparison_html(rows),
    )


def _exit_code(output: Output, runs: list[ComparedRun], interrupted: bool, refused: Sequence[Problem]) -> int:
    from topoopt.core.outcomes import best_of

    wrong = [f"the checker rejects what {run.method} found for {run.instance}" for run in runs if run.rejected]
    for file in dict.fromkeys(run.file for run in runs):
        best = best_of([run for run in runs if run.file == file])
        if best.contradicted and best.by is not None and best.bound is not None:
            proof = f"{best.bound.value!r} of {best.by.method} ({best.bound.proved_by})"
            text = f"{best.value!r} is better than the bound {proof}"
            wrong.append(f"{best.by.instance}: {text}")
    failed = [run for run in runs if run.outcome == "error"]
    for line in (*wrong, *(f"{run.instance}: {run.method}: {run.reason}" for run in failed)):
        output.say_error(line)
    if wrong:
        return CheckError.exit_code
    if interrupted:
        return INTERRUPTED
    if refused:
        files = len({problem.file for problem in refused})
        output.say_error(f"{files} of the instances refused (see above), the others compared")
        return InputError.exit_code
    return TopooptError.exit_code if failed else 0


WIDEST = 500
"""Columns of a table in a file at most."""


def show_comparison(console: Console, rows: Sequence[Comparison], files: Sequence[Path | None]) -> None:
    """Print the tables, what the gaps are to, why methods found nothing, and the files written."""
    for file in dict.fromkeys(row.run.file for row in rows):
        _show_instance(console, [row for row in rows if row.run.file == file])
    if not rows:
        say(console, "no run was made")
    say(console, written=files)


def _show_instance(console: Console, rows: Sequence[Comparison]) -> None:
    first = rows[0].run
    best = best_of([row.run for row in rows])
    named = next((row.run for row in rows if row.run.objective), None)
    what = "value" if named is None else named.objective.replace("_", " ")
    if named is not None and named.unit in {"ms", "s"}:
        what += f", {named.unit}"
    several = len({row.run.seed for row in rows}) > 1
    middle = [what, "median", "worst"] if several else [what]
    value_heading = ["it/s per M USD"] if any(row.run.value_per_million_usd is not None for row in rows) else []
    bounds = ["bound", "to best", "to optimum" if best.proven else "to bound"]
    headings = ["method", *middle, *bounds, *value_heading, "time", "outcome"]
    title = escape(
        first.instance if not several else f"{first.instance}, seeds 0 to {max(row.run.seed for row in rows)}"
    )
    table = TerminalTable(title=title)
    for index, text in enumerate(headings):
        side: JustifyMethod = "left" if index in {0, len(headings) - 1} else "right"
        table.add_column(escape(text), overflow="fold", justify=side)
    for method in dict.fromkeys(row.run.method for row in rows):
        mine = [row for row in rows if row.run.method == method]
        cells = _summary(mine) if several else _single(mine[0])
        if value_heading:
            cells[-2:-2] = [_value_text(mine)]
        table.add_row(*map(escape, cells))
    if not console.is_terminal:  # a file has no width that a table must fit
        console.width = max(
            console.width, Measurement.get(console, console.options.update(width=WIDEST), table).maximum
        )
    console.print(table)
    _say_best(console, best)
    for run in {row.run.method: row.run for row in rows if row.run.claimed_bound is not None}.values():
        claim = run.claimed_bound
        if claim is not None:
            say(console, f"{run.method}: bound {claim.value:.6g} {claim.proved_by}")
    for run in {row.run.method: row.run for row in rows if row.run.value is None}.values():
        say(console, f"{run.method}: {run.outcome}: {' '.join(run.reason.split())}")


def _outcome(row: Comparison) -> str:
    run = row.run
    return (
        "REJECTED"
        if run.rejected
        else f"{run.outcome}, interrupted"
        if run.stopped_by == "interrupted"
        else run.outcome
    )


def _gap(gap: float | None) -> str:
    return "-" if gap is None else f"{gap:.2%}"


def _value_text(rows: Sequence[Comparison]) -> str:
    """What the best run buys for a million dollars of network, iterations a second."""
    values = [row.run.value_per_million_usd for row in rows if row.run.value_per_million_usd is not None]
    return f"{max(values):.6g}" if values else "-"


def _single(row: Comparison) -> list[str]:
    run = row.run
    figures = ["-"] * 4
    if run.value is not None and run.bound is not None:
        figures = [f"{run.value:.6g}", f"{run.bound.value:.6g}", _gap(row.gap_to_best), _gap(row.gap_to_bound)]
    return [run.method, *figures, f"{run.wall_s:.2f} s", _outcome(row)]


def _summary(rows: Sequence[Comparison]) -> list[str]:
    """Best, median and worst value, tightest bound, gaps of the best, mean time, and how often each outcome was."""
    bounded = [row for row in rows if row.run.value is not None and row.run.bound is not None]
    outcomes = Counter(map(_outcome, rows))
    said = next(iter(outcomes)) if len(outcomes) == 1 else ", ".join(f"{n} {text}" for text, n in outcomes.items())
    figures = ["-"] * 6
    if bounded:
        sign = -1.0 if bounded[0].run.maximise else 1.0
        ordered = sorted(bounded, key=lambda row: sign * (row.run.value or 0.0))
        values = [row.run.value or 0.0 for row in ordered]
        bounds = [row.run.bound.value for row in bounded if row.run.bound is not None]
        tightest = min(bounds) if bounded[0].run.maximise else max(bounds)
        numbers = (values[0], median(values), values[-1], tightest)
        figures = [
            *(f"{number:.6g}" for number in numbers),
            _gap(ordered[0].gap_to_best),
            _gap(ordered[0].gap_to_bound),
        ]
    mean_s = sum(row.run.wall_s for row in rows) / len(rows)
    return [rows[0].run.method, *figures, f"{mean_s:.2f} s", said]


def _say_best(console: Console, best: Best) -> None:
    if best.by is None or best.bound is None:
        return
    side = "lowest" if best.by.maximise else "highest"
    verdict = "reached, so the best is optimal" if best.proven else "not reached"
    say(
        console,
        f"{side} bound {best.bound.value:.6g} ({best.bound.proved_by}), {verdict}; "
        "gaps are to it and to the best value",
    )
