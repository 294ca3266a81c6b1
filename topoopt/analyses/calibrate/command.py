"""`topoopt calibrate`: efficiencies of a GPU from measured iterations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output
from topoopt.console.tables import TerminalTable
from topoopt.drawing.format import counted


def calibrate(
    file: Annotated[Path, typer.Argument(help="Instance of kind llm-training: GPU, rates of the cluster, defaults.")],
    measured: Annotated[Path, typer.Option(help="Table of runs (CSV): source, run, seconds, and what differs.")],
    keep: Annotated[bool, typer.Option("--keep", help="Judge the efficiencies of the instance, fit none.")] = False,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Fit the efficiencies of a GPU to measured iterations, and say how far off they are on runs held back."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.calibrate.answer import answer
        from topoopt.analyses.calibrate.fit import efficiencies, errors_of, fitted, summary
        from topoopt.analyses.calibrate.runs import read_runs
        from topoopt.core.errors import InputError, Problem
        from topoopt.files.documents import parse_document
        from topoopt.kinds.llm_training.read import read_llm_training

        problem = read_llm_training(parse_document(file))
        runs = read_runs(measured, problem)
        taken = [run for run in runs if not run.held_out]
        if not taken and not keep:
            text = "all runs are held out; nothing is left to fit (--keep judges them alone)"
            raise InputError([Problem(text, str(measured), None, "held_out")])
        reached = problem.device.reached if keep else fitted(taken)
        errors = errors_of(runs, reached)
        judged = {
            name: summary([error for error in errors if error.run.held_out == held])
            for name, held in (("fitted", False), ("held_out", True))
        }
        sources = dict.fromkeys(run.source for run in runs)
        document = {
            "device": problem.cluster.device,
            "efficiencies": efficiencies(reached),
            **judged,
            "sources": {
                source: {
                    name: summary([one for one in errors if one.run.source == source and one.run.held_out == held])
                    for name, held in (("fitted", False), ("held_out", True))
                }
                for source in sources
            },
            "runs": [
                {
                    "source": error.run.source,
                    "run": error.run.name,
                    "held_out": error.run.held_out,
                    "measured_s": error.run.seconds,
                    "model_s": error.seconds,
                    "error_percent": error.percent,
                }
                for error in errors
            ],
        }
        output.result(document, lambda console: _show(console, document), answer(document, kept=keep))
        return 0

    output.run(command)


def _show(console: Console, document: dict[str, Any]) -> None:
    console.print(f"efficiencies of {document['device']}:", markup=False, highlight=False)
    for name, value in document["efficiencies"].items():
        console.print(f"  {name}: {value:g}", markup=False, highlight=False)
    table = TerminalTable("source", "run", "", "measured, s", "model, s", "error, %")
    for run in document["runs"]:
        held = "held out" if run["held_out"] else "fitted"
        seconds = (f"{run['measured_s']:.4g}", f"{run['model_s']:.4g}", f"{run['error_percent']:+.1f}")
        table.add_row(run["source"], run["run"], held, *seconds)
    console.print(table)
    for name, words in (("fitted", "fitted"), ("held_out", "held out")):
        part = document[name]
        if not part["runs"]:
            continue
        text = f"{words}: {counted(part['runs'], 'run')}, error {part['mean_percent']:.1f} % in the mean"
        console.print(f"{text}, {part['worst_percent']:.1f} % at worst", markup=False, highlight=False)
