"""`topoopt robust`: one network for traffic that changes, its worst case, and links set anew for every step."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from topoopt.console.output import EXIT_OF_STOP, JsonOption, Output
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.optical_devices import parse_delay
from topoopt.core.robust_network import RobustProblem, RobustSolution
from topoopt.kinds.network.several_demands.show import figures, show


def robust(
    instance: Annotated[Path, typer.Argument(help="File of kind robust-network: a set of demand matrices.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Solution file, for `topoopt check`.")] = None,
    steps: Annotated[bool, typer.Option(help="Compare with links set anew for every matrix.")] = True,
    delays: Annotated[
        str | None,
        typer.Option(help="Delays at which sequences of links are compared; default: all devices. Needs step_ms."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Default: as in the file.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds of search.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """One topology and routing for a set of demand matrices: worst theta, bound, and when new links would pay.

    Exit code 4 if the time limit cut the search off.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from solvers.stop import stop_on_signals
        from topoopt.kinds.network.several_demands.read import read_robust
        from topoopt.kinds.network.several_demands.solution_file import write_robust_solution
        from topoopt.kinds.network.several_demands.solve import solve_robust

        began = time.monotonic()
        problem = read_robust(instance)
        wanted = _delays(delays, problem)
        limit = problem.search.time_limit_s if time_limit is None else time_limit
        with stop_on_signals(limit) as stop, output.errors.status("robust"):
            found = solve_robust(
                replace(problem, search=problem.search.but(seed=seed)), stop=stop, steps=steps, delays=wanted
            )
            if out is not None:
                write_robust_solution(found, out)
            document = {
                **_document(problem, found),
                "solution": None if out is None else str(out),
                "wall_s": round(time.monotonic() - began, 3),
            }
            output.result(document, lambda console: _show(console, found, out))
        if not found.check.ok:
            raise CheckError("the checker rejects the network: " + "; ".join(found.check.violations))
        return EXIT_OF_STOP.get(found.stopped_by, 0)

    output.run(command)


def _delays(text: str | None, problem: RobustProblem) -> tuple[float, ...]:
    """In steps."""
    if problem.step_ms is None:
        if text is not None:
            message, allowed = "delays need the length of a step", "step_ms in the file"
            raise InputError([Problem(message, path="--delays", value=text, allowed=allowed)])
        return ()
    if text is None:
        from topoopt.kinds.network.several_demands.solve import device_delays

        return device_delays(problem)
    problems, found = [], []
    for word in text.split(","):
        try:
            found.append(parse_delay(word) / problem.step_ms)
        except InputError as error:
            one = error.problems[0]
            problems.append(Problem(one.message, path="--delays", value=one.value, allowed=one.allowed))
    if problems:
        raise InputError(problems)
    return tuple(sorted(found))


def _document(problem: RobustProblem, found: RobustSolution) -> dict[str, Any]:
    return {
        "kind": problem.kind,
        "name": found.name,
        "status": found.status.value,
        "stopped_by": found.stopped_by.value,
        "bound": {"value": found.bound.value, "proved_by": found.bound.proved_by},
        "gap": found.gap,
        **figures(None, found),
        "check": {"ok": found.check.ok, "violations": list(found.check.violations)},
        "seed": found.seed,
        "instance_sha256": found.instance_sha256,
        "versions": dict(found.versions),
        "notes": list(found.notes),
    }


def _show(console: Console, found: RobustSolution, out: Path | None) -> None:
    show(console, found)
    for note in found.notes:
        console.print(f"note: {note}", soft_wrap=True, highlight=False, markup=False)
    if out is not None:
        console.print(f"written: {out}", soft_wrap=True, highlight=False, markup=False)
