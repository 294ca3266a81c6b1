"""`topoopt explain`: the bottleneck of a solution in words, and what more capacity would gain."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from topoopt.console.attended import attended
from topoopt.console.output import JsonOption, Output
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.proofs import StopReason
from topoopt.core.result import Decides, LeftOut, SolutionHead
from topoopt.drawing.sentences import claims
from topoopt.files.results import check_document
from topoopt.kinds import KINDS, kind_named, kind_of
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.verify.checker import BRIEF


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
    """Say what limits a solution, and what more links or capacity would gain.

    Exit code 4 if a limit left something open; 8 if the value or its bound is only claimed.
    """
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
        words = (*explanation.words, *filter(None, [claims(found.check)]))
        document = {
            "kind": found.kind,
            "name": found.name,
            **explanation.figures,
            "words": list(words),
            "check": check_document(found.check),
            "notes": list(explanation.notes),
            "seed": found.seed,
            "versions": dict(found.versions),
            "instance_sha256": found.instance_sha256,
            "stopped_by": stopped_by.value,
            "solution": str(solution),
            "wall_s": round(time.monotonic() - run.began.at_s, 3),
        }

        def show(console: Console) -> None:
            for line in words:
                console.print(line, markup=False, soft_wrap=True, highlight=False)

        output.result(document, show)
        return output.exit_code(found.check, stopped_by)

    output.run(command)


def _explained(path: Path, instance: Path | None, question: Question) -> tuple[Any, Explanation]:
    """The solution in a file with the verdict of a brief check, and what limits it.

    Raises:
        InputError: no solution of a kind that is explained, or an instance of another kind.
        CheckError: it does not hold.
    """
    from topoopt.kinds.files import read_instance, read_solution

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
    if problem is None or problem.kind == found.kind:  # else its explanation refuses it
        found = _checked(found, path, problem)
    return found, kind.explain()(problem, found, question)


def _checked(found: SolutionHead, path: Path, problem: Any) -> SolutionHead:
    """The solution as far as it holds for its instance, given or carried; nothing of it does without one.

    Raises:
        InputError: the instance in it cannot be read.
        CheckError: it does not hold.
    """
    from topoopt.kinds.files import check_whole, embedded_problem

    if problem is None and found.instance is None:
        why = "the solution carries no instance, and none was given"
        return found.judged((), (LeftOut("all figures", why, Decides.BOTH),))
    findings = check_whole(embedded_problem(found, path) if problem is None else problem, found, BRIEF)
    if not findings.ok:
        raise CheckError("the checker rejects the solution:\n" + "\n".join(map(str, findings.violations)))
    return found.judged((), findings.not_recomputed)
