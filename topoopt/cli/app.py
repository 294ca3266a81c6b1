"""All commands together. One module per group of commands; this one only names them."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from topoopt.analyses.costs import command as cost
from topoopt.analyses.fabrics import command as fabrics
from topoopt.analyses.reconfiguration import command as reconfigure
from topoopt.analyses.replay import command as replay
from topoopt.analyses.resilience import command as resilience
from topoopt.analyses.topologies import command as topology
from topoopt.cli import check, compare, doctor, dump_model, explain, export, files, solve
from topoopt.console.output import Output
from topoopt.core.errors import InputError
from topoopt.formats import importers as imports
from topoopt.kinds.network.several_demands import robust_command as robust
from topoopt.studies import command as study

UsageError: Any = typer.BadParameter.__mro__[1]
"""Base of all errors in the arguments; typer has it from click or from a copy of its own, depending on the version."""


class Commands(TyperGroup):
    """A group that says errors in the arguments as one JSON object when that was asked for."""

    def main(self, *values: Any, **extra: Any) -> Any:
        """Parse and run; arguments as of the base class."""
        given = values[0] if values else extra.get("args")
        words = sys.argv[1:] if given is None else given
        if "--json" not in words or not extra.get("standalone_mode", True):
            return super().main(*values, **extra)
        try:
            code = super().main(*values, **{**extra, "standalone_mode": False})
        except Exception as error:
            if not isinstance(error, UsageError):
                raise
            code = Output.choose(True).fail(InputError(error.format_message()))
        sys.exit(code)


app = typer.Typer(
    name="topoopt",
    cls=Commands,
    help="Co-optimise topology, routing and parallelization strategy of machine-learning training clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("solve")(solve.solve)
app.command("check")(check.check)
app.command("compare")(compare.compare)
app.command("cost")(cost.cost)
app.command("report")(files.report)
app.command("validate")(files.validate)
app.command("schema")(files.schema)
app.command("dump-model")(dump_model.dump_model)
app.command("explain")(explain.explain)
app.command("export")(export.export)
app.command("fabrics")(fabrics.fabrics)
app.command("replay")(replay.replay)
app.command("resilience")(resilience.resilience)
app.command("reconfigure")(reconfigure.reconfigure)
app.command("robust")(robust.robust)
app.command("doctor")(doctor.doctor)
app.add_typer(imports.app, name="import")
app.add_typer(study.app, name="study")
app.add_typer(topology.app, name="topology")
