"""`topoopt paper`: the figures of TopoOpt's evaluation and tables of two others, ours beside the published values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output

if TYPE_CHECKING:
    from topoopt.core.study import Study
    from topoopt.studies.paper_figures import PaperFigure
    from topoopt.studies.stopping import StudyStop

PAGE, TABLE = "report.html", "results.csv"


def paper(
    figure: Annotated[str | None, typer.Argument(help="Name or number of a figure; default: all of them.")] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder, one for each figure in it; continued when it exists; default: out/paper."
        ),
    ] = Path("out/paper"),
    small: Annotated[bool, typer.Option("--small", help="Fewer servers and points: seconds a figure.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Runs side by side; default: from cores and free memory.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds for everything; then what is missing stays so.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Name the figures, and run nothing.")] = False,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Figures of TopoOpt's evaluation (NSDI'23), tables of LIBRA and of placements: ours beside the published values.

    Each is a shipped study; DIR/FIGURE/report.html is its page, results.csv its table. What is done already is not done
    again. Exit code 4 if the time limit cut something off.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.shipped import shipped_folder
        from topoopt.studies.ending import ended_early
        from topoopt.studies.expand import read_study
        from topoopt.studies.paper_figures import figures_named

        chosen = figures_named(figure)
        if listed:
            names = [_named(each) for each in chosen]
            output.result({"kind": "paper", "figures": names}, lambda console: _show_names(console, names))
            return 0
        studies = [read_study(shipped_folder() / each.study, small=small) for each in chosen]
        done: list[dict[str, Any]] = []
        with ended_early(time_limit) as end:
            for each, study in zip(chosen, studies, strict=True):
                if end.stop.interrupted.is_set():
                    break
                done.append(_drawn(output, each, study, out / each.name, end.stop, jobs))
        missing = len(chosen) - len(done)
        document = {"kind": "paper", "status": end.status, "small": small, "missing": missing, "figures": done}
        output.result(document, lambda console: _show(console, done, missing))
        return end.exit_code(sum(each["rejected"] for each in done))

    output.run(command)


def _drawn(
    output: Output, figure: PaperFigure, study: Study, folder: Path, stop: StudyStop, jobs: int | None
) -> dict[str, Any]:
    """Run what is missing of a figure, and write its page and table; how it stands."""
    from topoopt.files.atomic import write_text_atomically
    from topoopt.studies.attended import attend
    from topoopt.studies.collect import write_csv
    from topoopt.studies.published import agreement, set_beside
    from topoopt.studies.report import study_report

    found = attend(output, study, folder, stop, jobs)
    write_csv(found.rows, folder / TABLE)
    write_text_atomically(folder / PAGE, study_report(folder))
    return {
        **_named(figure),
        "runs": found.tally.total,
        "done": found.tally.done,
        "rejected": found.rejected,
        "agreement": agreement(set_beside(study.published, found.rows)),
        "report": str(folder / PAGE),
        "csv": str(folder / TABLE),
    }


def _named(figure: PaperFigure) -> dict[str, str | None]:
    """What a figure is called; those without a number are tables."""
    names = {"name": figure.name, "figure": figure.number or None, "title": figure.title}
    return {**names, "paper": figure.paper, "place": figure.place}


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True, highlight=False)


def _show_names(console: Console, names: list[dict[str, str | None]]) -> None:
    for each in names:
        _line(console, f"{each['name']}: {each['place']}, {each['title']}")


def _show(console: Console, done: list[dict[str, Any]], missing: int) -> None:
    for each in done:
        _line(console, f"{each['place']}, {each['title']}: {each['done']} of {each['runs']} runs")
        if each["agreement"]:
            _line(console, f"  {each['agreement']}")
        _line(console, f"  written: {each['report']}, {each['csv']}")
    if missing:
        _line(console, f"{missing} more not begun; the same command goes on")
