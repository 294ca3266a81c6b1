"""`topoopt import job` and `topoopt import expert-split`: what is to be placed, and what was placed by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.cli.import_ import OutOption, write_imported
from topoopt.console.output import JsonOption, Output
from topoopt.core.errors import InputError, Problem
from topoopt.files.atomic import new_file
from topoopt.files.results import check_document
from topoopt.formats.importer import NameOption, imported_placement, name_of, require_choice

OBJECTIVES = ("throughput", "latency")


def job(
    file: Annotated[Path, typer.Argument(help="Instance of kind co-optimisation.")],
    objective: Annotated[str, typer.Option(help="throughput or latency.")],
    out: OutOption = None,
    inference: Annotated[bool, typer.Option("--inference", help="Forward operators only.")] = False,
    name: NameOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """The job of a co-optimisation instance, every operator whole on one server of its cluster, to be placed."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import read_instance
        from topoopt.kinds.placement.read import job_document

        require_choice("--objective", objective, OBJECTIVES)
        problem: Any = read_instance(file)
        if problem.kind != "co-optimisation":
            allowed = "co-optimisation"
            raise InputError([Problem("no job in this kind", file=str(file), value=problem.kind, allowed=allowed)])
        document = job_document(problem, objective=objective, name=name or name_of(file), training=not inference)
        return write_imported(imported_placement(document), out, output)

    output.run(command)


def expert_split(
    instance: Annotated[Path, typer.Argument(help="Instance of kind placement, from `import dnn-partitioning`.")],
    file: Annotated[Path, typer.Argument(help="Split (JSON) of msr-fiddle/dnn-partitioning, by a human expert.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Solution file to write; default: FILE-solution.json, if that is new."),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """A split made by hand, evaluated and checked: a solution file; exit code 6 if it breaks a rule."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.formats.dnn_partitioning import read_expert_split
        from topoopt.kinds.files import document_to_embed, read_instance
        from topoopt.kinds.placement import SOLUTION_FILE
        from topoopt.kinds.placement.methods import evaluate_given

        problem: Any = read_instance(instance)
        if problem.kind != "placement":
            raise InputError([Problem("no placement", file=str(instance), value=problem.kind, allowed="placement")])
        split, notes = read_expert_split(file)
        solution = evaluate_given(problem, split, "expert-split")
        path = out or new_file(f"{name_of(file)}-solution.json")
        SOLUTION_FILE.write(replace(solution, instance=document_to_embed(problem)), path)
        summary = {
            "solution": str(path),
            "max_load_ms": solution.objective.value,
            "check": check_document(solution.check),
            "notes": list(notes),
        }
        text = "\n".join(
            (f"written: {path} (max load {solution.objective.value:.6f} ms)", *(f"note: {note}" for note in notes))
        )
        output.result(summary, lambda console: console.print(text, soft_wrap=True, highlight=False, markup=False))
        return output.exit_code(solution.check, solution.stopped_by)

    output.run(command)
