"""`topoopt explain`: the bottleneck of a solution in words, and what more capacity would gain."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from topoopt.console.attended import attended
from topoopt.console.output import EXIT_OF_STOP, JsonOption, Output
from topoopt.core.errors import InputError, Problem
from topoopt.core.verdict import StopReason
from topoopt.kinds import KINDS, kind_named, kind_of
from topoopt.kinds.explanation import Explanation, Question


def explain(
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")],
    instance: Annotated[Path | None, typer.Option(help="Instance file: its demand and constraints hold.")] = None,
    more: Annotated[
        float | None,
        typer.Option(help="Capacity to add, in links; default: 100 Gbit/s where the rate is known, else one link."),
    ] = None,
    checks: Annotated[int, typer.Option(min=0, max=1000, help="Positions of one more link to solve again.")] = 8,
    time_limit: Annotated[float, typer.Option(min=0.0, help="Seconds for all that is solved again.")] = 60.0,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Say what limits a solution, and what more links or capacity would gain; exit code 4 if not all was checked."""
    output = Output.choose(as_json)

    def command() -> int:
        if more is not None and not 0.001 <= more <= 1e6:
            raise InputError([Problem("out of range", path="--more", value=f"{more:g}", allowed="0.001 to 1000000")])
        added = None if more is None else Fraction(more).limit_denominator(1000)
        with attended(output, time_limit) as run:
            run.doing = "what more would gain"
            question = Question(added, checks, run.timing.stop)
            found, explanation = run.patient(lambda: _explained(solution, instance, question))
            stopped_by = StopReason.TIME if explanation.late else StopReason.CONVERGED
            if run.timing.stop.interrupted.is_set():
                stopped_by = StopReason.INTERRUPTED
        document = {
            "kind": found.kind,
            "name": found.name,
            **explanation.figures,
            "words": list(explanation.words),
            "notes": list(explanation.notes),
            "seed": found.seed,
            "versions": dict(found.versions),
            "instance_sha256": found.instance_sha256,
            "stopped_by": stopped_by.value,
            "solution": str(solution),
            "wall_s": round(time.monotonic() - run.began.at_s, 3),
        }

        def show(console: Console) -> None:
            for line in explanation.words:
                console.print(line, markup=False, soft_wrap=True, highlight=False)

        output.result(document, show)
        return EXIT_OF_STOP.get(stopped_by, 0)

    output.run(command)


def _explained(path: Path, instance: Path | None, question: Question) -> tuple[Any, Explanation]:
    """The solution in a file, and what limits it.

    Raises:
        InputError: no solution of a kind that is explained, or an instance of another kind.
    """
    from topoopt.kinds.instance_file import read_instance
    from topoopt.kinds.solution_file import read_solution

    found = read_solution(path)
    kind = kind_of(found)
    if kind.explain is None:
        able = ", ".join(name for name in KINDS if kind_named(name).explain is not None)
        text = "solutions of this kind are not explained; their report says what limits them"
        raise InputError([Problem(text, str(path), None, "kind", kind.name, able)])
    problem = None if instance is None else read_instance(instance)
    akin = [name for name in KINDS if KINDS[name] == KINDS[kind.name]]
    if problem is not None and problem.kind not in akin:
        text = "not an instance of this solution"
        raise InputError([Problem(text, str(instance), None, "kind", problem.kind, ", ".join(akin))])
    return found, kind.explain()(problem, found, question)
