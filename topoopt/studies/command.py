"""`topoopt study`: batches of runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.core.errors import CheckError, InputError
from topoopt.core.proofs import StopReason
from topoopt.page.output import EXIT_OF_STOP, JsonOption, Output
from topoopt.page.process import INTERRUPTED
from topoopt.page.render import TerminalTable

app = typer.Typer(
    help="Batches of runs over instances, methods and seeds: run, resume, compare, report.", no_args_is_help=True
)

StudyArgument = Annotated[Path, typer.Argument(help="Study file (YAML or JSON).")]
Directory = Annotated[Path, typer.Argument(help="Directory of a study, made by `topoopt study run --out`.")]


@app.command("validate")
def validate(study: StudyArgument, as_json: Annotated[bool, JsonOption] = False) -> None:
    """Expand a study file: how many runs, how long at most, and everything that is wrong."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.studies.expand import expanded, outlook

        readable, wrong = expanded(study)
        prospect = None if readable is None else outlook(readable)
        if readable is None or prospect is None or wrong:
            raise InputError([*wrong, *(() if prospect is None else prospect["problems"])])
        problems = prospect.pop("problems")
        listed = [asdict(problem) for problem in problems]
        document = {"name": readable.name, **prospect, "ok": not problems, "problems": listed}

        def show(console: Console) -> None:
            most = _duration(document["longest_s"])
            text = f"{escape(readable.name)}: {document['runs']} runs, at most {most} one after another"
            console.print(text, soft_wrap=True, highlight=False)
            if document["repeated"]:
                console.print(f"{document['repeated']} rows repeat a run of another row", highlight=False)
            for problem in problems:
                console.print(f"[bold red]error[/] {escape(str(problem))}", soft_wrap=True, highlight=False)
            if problems:
                console.print("runs with these instances or methods will be refused, the others will be done")

        output.result(document, show)
        return InputError.exit_code if problems else 0

    output.run(command)


@app.command("run")
def run(
    study: StudyArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Directory of the study; continued when it exists; default: out/NAME of the file."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Runs side by side; default: from cores and free memory.")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="The small form that the study file has.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Go on with a directory, or insist on a new one.")
    ] = True,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do runs that failed again.")] = False,
    again: Annotated[
        str | None, typer.Option(help="Hash of a run that was done, or its beginning: only compare it with itself.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds for the whole study; what is missing then stays so.")
    ] = None,
    executor: Annotated[
        str, typer.Option(help="local, slurm, dask or MODULE:CALLABLE, which makes a concurrent.futures.Executor.")
    ] = "local",
    executor_option: Annotated[
        list[str] | None, typer.Option("--executor-option", help="KEY=VALUE for the executor; may be repeated.")
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Do the runs that are missing, then make the table. Kill it whenever you like: the same command goes on.

    Ctrl-C and the limit ask runs in flight for the best they have, kept until they are done again the next time; a
    second Ctrl-C drops them. Exit code 4 if it was the limit. With --again one run is done once more, apart, and every
    figure compared; exit code 6 if one differs that should not.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.studies.executors import option_pairs
        from topoopt.studies.expand import MEMORY_MIB, read_study
        from topoopt.studies.report import answer
        from topoopt.studies.results import REJECTED, TABLE_FILE
        from topoopt.studies.runner import STUDY_FILE, attend, default_jobs, ended_early, reproduce

        folder = out or Path("out") / study.stem
        if again is not None:
            return _show_again(output, reproduce(folder, again))
        expanded = read_study(study, small=small)
        if not resume and (folder / STUDY_FILE).exists():
            raise InputError(f"{folder}: there is a study already; leave out --fresh to go on with it")
        settings = {"executor": executor, "options": option_pairs(executor_option or []), "retry_failed": retry_failed}
        number = jobs or default_jobs(max((run.limits.memory_mib or MEMORY_MIB for run in expanded.runs), default=1))
        with ended_early(time_limit) as stop:
            tally, rows = attend(output, expanded, folder, jobs=number, stop=stop, **settings)
            status = stop.reason()
        rejected = sum(row["outcome"] == REJECTED for row in rows)
        document = {
            "name": expanded.name,
            "status": "done" if status is None else status.value,
            **tally,
            "rejected": rejected,
            "jobs": number,
            "table": str(folder / TABLE_FILE),
        }
        output.result(document, lambda console: _show_tally(console, document, rows), answer(rows))
        ends = {StopReason.TIME: EXIT_OF_STOP[StopReason.TIME], StopReason.INTERRUPTED: INTERRUPTED}
        return CheckError.exit_code if status is None and rejected else 0 if status is None else ends[status]

    output.run(command)


def _show_again(output: Output, again: dict[str, Any]) -> int:
    """Show a run beside itself; the exit code."""
    if again["same"]:
        verdict = "reproduced"
    elif again["comparable"]:
        verdict = "NOT reproduced"
    else:
        limit = ", ".join(again["cut_short_by"])
        verdict = (
            f"not comparable: a limit ({limit}) ended the search, which gets as far as the machine lets it; with "
            "`budget` instead of `time_limit_s` the same seed gives the same plan"
        )

    def show(console: Console) -> None:
        pairs = {f"version of {name}": pair for name, pair in again["versions_differ"].items()}
        lines = [f"{name}: then {then}, now {now}" for name, (then, now) in (pairs | again["differences"]).items()]
        lines += [f"{name}: {'the same bytes' if same else 'different'}" for name, same in again["same_files"].items()]
        for line in (*lines, verdict):
            console.print(line, markup=False, soft_wrap=True, highlight=False)

    output.result(again, show)
    return 0 if again["same"] or not again["comparable"] else CheckError.exit_code


def _show_tally(console: Console, document: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    failed = document["failed"]
    names = ", ".join(f"{number} {outcome}" for outcome, number in failed.items())
    text = f"{document['name']}: {document['done']} of {document['total']} runs done"
    text += f", {names}" if failed else ""
    text += f", {document['missing']} missing" if document["missing"] else ""
    console.print(text, markup=False, soft_wrap=True, highlight=False)
    bad = [row for row in rows if row["outcome"] in failed]
    if bad:
        table = TerminalTable("run", "instance", "method", "seed", "outcome", "reason")
        for row in bad[:20]:
            cells = (str(row["run"])[:12], *(str(row[key] or "") for key in ("instance", "method")), str(row["seed"]))
            table.add_row(*cells, str(row["outcome"]), escape(str(row["reason"])))
        console.print(table)
        if len(bad) > 20:
            console.print(f"and {len(bad) - 20} more, in the table", markup=False)
    console.print(f"written: {document['table']}", markup=False, soft_wrap=True, highlight=False)


@app.command("report")
def report(
    directory: Directory,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="HTML file; default: DIR/report.html.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Make the table again from the directories of the runs, and draw what the study file asks for: one self-contained
    page, every point linked to its run."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.atomic import write_text_atomically
        from topoopt.page.vega import MISSING, installed
        from topoopt.studies.report import answer, study_report
        from topoopt.studies.results import TABLE_FILE, write_parquet
        from topoopt.studies.runner import collect_rows

        rows, table, file = collect_rows(directory), directory / TABLE_FILE, out or directory / "report.html"
        write_parquet(rows, table)
        write_text_atomically(file, study_report(directory))

        def show(console: Console) -> None:
            if not installed():
                console.print(MISSING, markup=False, highlight=False, soft_wrap=True)
            console.print(f"written: {file}, {table}", markup=False, soft_wrap=True, highlight=False)

        output.result({"rows": len(rows), "report": str(file), "table": str(table)}, show, answer(rows))
        return 0

    output.run(command)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
