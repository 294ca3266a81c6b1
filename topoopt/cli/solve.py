"""`topoopt solve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from topoopt.analyses.costs.prices import given_book
from topoopt.console.output import JsonOption, Output
from topoopt.kinds.kind import Wishes, commands_of


def solve(
    instance: Annotated[Path, typer.Argument(help="Instance file (YAML or JSON).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for solution.json and report.html.")],
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Seed; default: of the instance.")] = None,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds of search.")] = None,
    budget: Annotated[
        int | None,
        typer.Option(min=0, max=10**12, help="Proposals of the search in all: strategies, or moves of a placement."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="auto, alternating, fixed-topology, data-parallel, topology-search, exact-topology or robust; "
            "for kind routing auto, simplex, ipx, pdlp, ...; "
            "for kind topology auto, exact, milp, enumerate, circulant, portfolio, robust, totient, ..."
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(help="Price book, for kind co-optimisation; default: the shipped one."),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Find a parallelization strategy, a topology and routes of least iteration time; write and check the plan.

    Instances of kind routing and topology: route a demand, or choose the links as well, so that theta, the largest
    link utilisation, is least. Kind hierarchical-bandwidth: choose the bandwidth of every dimension of a hierarchical
    network, and strategies and shape where the instance leaves them open. Kind placement: put the operators of
    a graph on devices, so that the busiest one is least loaded.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.instance_file import read_instance

        problem = read_instance(instance)
        commands = commands_of(problem.kind)
        _require_writable(out)
        book = given_book(prices, [commands], problem.kind)
        return commands.solve(problem, output, out, Wishes(seed, time_limit, budget, method, book))

    output.run(command)


def _require_writable(out: Path) -> None:
    """Refuse a directory that cannot be written before minutes are spent on what should go there.

    Raises:
        WriteError: something else has the name of the directory or of a file in it, or writing is not permitted.
    """
    from topoopt.files.atomic import WriteError

    try:
        there = next(path for path in (out, *out.absolute().parents) if path.exists())
        if not there.is_dir():
            raise WriteError(f"{out}: cannot be written: {there} is not a folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise WriteError(f"{out}: cannot be written: no permission to write to {there}")
        for name in ("solution.json", "report.html"):
            if (out / name).exists() and not (out / name).is_file():
                raise WriteError(f"{out / name}: cannot be written: not a regular file")
    except (OSError, ValueError) as error:  # a name too long, a folder that may not be looked into
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WriteError(f"{out}: cannot be written: {reason}") from None
