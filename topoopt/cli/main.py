"""`topoopt`: the command line. One module per group of commands; this one only puts them together."""

from __future__ import annotations

import typer

from topoopt.cli import doctor, files, imports, replay, solve, topology

app = typer.Typer(
    name="topoopt",
    help="Co-optimise topology, routing and parallelization strategy of machine-learning training clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("solve")(solve.solve)
app.command("check")(solve.check)
app.command("report")(files.report)
app.command("validate")(files.validate)
app.command("schema")(files.schema)
app.command("replay")(replay.replay)
app.command("doctor")(doctor.doctor)
app.add_typer(imports.app, name="import")
app.add_typer(topology.app, name="topology")


def main() -> None:
    """Entry point."""
    app()


if __name__ == "__main__":
    main()
