"""`topoopt doctor`: what is installed, and whether it works."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from topoopt.cli.compile_kernels import compile_kernels
from topoopt.console.output import JsonOption, Output

LIBRARIES = ("topoopt", "numpy", "scipy", "numba", "networkx", "highspy", "ortools", "pyomo", "pydantic")


def doctor(
    compile_now: Annotated[
        bool, typer.Option("--compile", help="Compile the kernels of every kind: once after installation, minutes.")
    ] = False,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Print versions and solve a tiny problem with every solver found; exit code 1 if something is broken."""
    output = Output.choose(as_json)

    def command() -> int:
        libraries = {name: _version(name) for name in LIBRARIES}
        solvers = _try_solvers()
        kinds = compile_kernels(lambda line: output.errors.print(line, highlight=False)) if compile_now else {}
        document: dict[str, Any] = {
            "python": sys.version.split()[0],
            "platform": platform.platform(),
            "libraries": libraries,
            "solvers": solvers,
            "kinds": kinds,
            "ok": None not in libraries.values() and all(entry["ok"] for entry in (*solvers.values(), *kinds.values())),
        }

        def show(console: Console) -> None:
            table = Table("part", "version", "state")
            table.add_row("python", document["python"], "ok")
            for name, found in libraries.items():
                table.add_row(name, found or "-", "ok" if found else "missing")
            for name, entry in solvers.items():
                table.add_row(f"solver {name}", "", "ok" if entry["ok"] else f"broken: {entry['reason']}")
            for name, entry in kinds.items():
                state = f"ok, {entry['wall_s']:.1f} s" if entry["ok"] else f"broken: {entry['reason']}"
                table.add_row(f"kernels of {name}", "", state)
            console.print(table)

        output.result(document, show)
        return 0 if document["ok"] else 1

    output.run(command)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _try_solvers() -> dict[str, dict[str, Any]]:
    """Solve min x, x >= 1 with every backend."""
    from solvers.backends import self_test

    return {name: {"ok": reason is None, "reason": reason} for name, reason in self_test().items()}
