"""`topoopt doctor`: versions, and whether the solvers work."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.console import Console

from topoopt.page import options
from topoopt.page.output import Output
from topoopt.page.render import TerminalTable

LIBRARIES = ("topoopt", "numpy", "scipy", "networkx", "highspy", "ortools", "pyomo", "pydantic")


def doctor(
    as_json: options.Json = False,
) -> None:
    """Print versions and solve a tiny problem with every solver found; exit code 1 if something is broken."""
    output = Output.choose(as_json)

    def command() -> int:
        libraries = {name: _version(name) for name in LIBRARIES}
        solvers, absent = _try_solvers()
        document: dict[str, Any] = {
            "python": sys.version.split()[0],
            "platform": platform.platform(),
            "libraries": libraries,
            "solvers": solvers,
            "solvers_absent": absent,
            "ok": None not in libraries.values() and all(entry["ok"] for entry in solvers.values()),
        }

        def show(console: Console) -> None:
            table = TerminalTable("part", "version", "state")
            table.add_row("python", document["python"], "ok")
            for name, release in libraries.items():
                table.add_row(name, release or "-", "ok" if release else "missing")
            for name, entry in solvers.items():
                table.add_row(
                    f"solver {name}", "", f"ok, {entry['by']}" if entry["ok"] else f"broken: {entry['reason']}"
                )
            table.add_row("not found", "", ", ".join(absent))
            console.print(table)

        output.result(document, show)
        return 0 if document["ok"] else 1

    output.run(command)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _try_solvers() -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What solving min x, x >= 1 came to with every backend and every solver that is found; and those not found."""
    from solvers.backends import SOLVERS, self_test
    from solvers.backends.table import FOREIGN, any_solver, place_of

    there = [name for name in FOREIGN if place_of(name) is not None]
    table = {**SOLVERS, **{name: any_solver(name) for name in there}}
    tried = {
        name: {"ok": reason is None, "reason": reason, "by": table[name].library}
        for name, reason in self_test(table).items()
    }
    return tried, [name for name in FOREIGN if name not in there]
