"""`topoopt study`: batches of runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.core.errors import CheckError, InputError
from topoopt.core.process import INTERRUPTED
from topoopt.core.proofs import StopReason
from topoopt.files.atomic import require_new, sole_target
from topoopt.page import options
from topoopt.page.output import EXIT_OF_STOP, Output, say
from topoopt.page.render import TerminalTable

StudyArgument = Annotated[Path, typer.Argument(help="Study file (YAML or JSON).")]
Directory = Annotated[Path, typer.Argument(help="Directory of a study, made by `topoopt study run`.")]


def validate(study: StudyArgument, as_json: options.Json = False) -> None:
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


def run(
    study: StudyArgument,
    output_files: options.OutputOption = None,
    jobs: options.Jobs = None,
    small: Annotated[bool, typer.Option("--small", help="The small form that the study file has.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do runs that failed again.")] = False,
    time_limit: options.TimeLimit = None,
    executor: options.Executor = None,
    executor_settings: options.ExecutorSettings = None,
    as_json: options.Json = False,
) -> None:
    """Do the runs that are missing, then make the table. Kill it whenever you like: the same command goes on.

    The directory is that of --output, default out/NAME of the file; one that is there is continued. As many runs are
    made side by side as cores and free memory allow, unless --jobs says otherwise.

    Ctrl-C and the limit ask runs in flight for the best they have, kept until they are done again the next time; a
    second Ctrl-C drops them. Exit code 4 if it was the limit, 6 if the checker rejects a result.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.studies.expand import MEMORY_MIB, read_study
        from topoopt.studies.report import answer
        from topoopt.studies.results import REJECTED, TABLE_FILE
        from topoopt.studies.runner import attend, default_jobs, ended_early

        folder = sole_target(output_files, Path("out") / study.stem)
        expanded = read_study(study, small=small)
        pairs = options.settings_of(executor_settings, option="--executor-option")
        settings = {"executor": executor or "local", "options": pairs, "retry_failed": retry_failed}
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


def _show_tally(console: Console, document: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    failed = document["failed"]
    names = ", ".join(f"{number} {outcome}" for outcome, number in failed.items())
    text = f"{document['name']}: {document['done']} of {document['total']} runs done"
    text += f", {names}" if failed else ""
    text += f", {document['missing']} missing" if document["missing"] else ""
    say(console, text)
    bad = [row for row in rows if row["outcome"] in failed]
    if bad:
        table = TerminalTable("run", "instance", "method", "seed", "outcome", "reason")
        for row in bad[:20]:
            cells = (str(row["run"])[:12], *(str(row[key] or "") for key in ("instance", "method")), str(row["seed"]))
            table.add_row(*cells, str(row["outcome"]), escape(str(row["reason"])))
        console.print(table)
        if len(bad) > 20:
            console.print(f"and {len(bad) - 20} more, in the table", markup=False)
    say(console, f"written: {document['table']}")


def report(
    directory: Directory,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Make the table again from the directories of the runs, and draw what the study file asks for: one self-contained
    page, every point linked to its run.

    Default file: report.html in DIRECTORY.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.atomic import write_text_atomically
        from topoopt.page.vega import MISSING, installed
        from topoopt.studies.report import answer, study_report
        from topoopt.studies.results import TABLE_FILE, write_parquet
        from topoopt.studies.runner import collect_rows

        file = require_new(sole_target(output_files, directory / "report.html"), force)
        rows, table = collect_rows(directory), directory / TABLE_FILE
        write_parquet(rows, table)
        write_text_atomically(file, study_report(directory))

        def show(console: Console) -> None:
            if not installed():
                say(console, MISSING)
            say(console, f"written: {file}, {table}")

        output.result({"rows": len(rows), "report": str(file), "table": str(table)}, show, answer(rows))
        return 0

    output.run(command)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
