"""`topoopt collective`: bounds, networks and schedules of collectives."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from topoopt.analyses.collective.audit_command import RateAttributeOption, audit
from topoopt.analyses.collective.early_end import early_end
from topoopt.analyses.collective.find_command import find
from topoopt.analyses.collective.job_command import job
from topoopt.analyses.collective.switch_command import switch
from topoopt.console.output import EXIT_OF_STOP, JsonOption, Output

BOUNDED = ("allgather", "reduce-scatter", "allreduce", "all-to-all")
"""Collectives that a bound is told for; those with a root are bounded by `topoopt solve`."""

SHOWN_GAP = 1e-5
"""Part of a bound that is not reached from which that is told."""

app = typer.Typer(help="Collectives on any network: what is best, and what schedules do.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Collectives on any network."""


@app.command("bound")
def bound(
    topology: Annotated[
        str,
        typer.Argument(
            help="Instance of kind collective, network file (.graphml, .csv, .txt: links with rates, nodes with "
            "roles), or a section as in instance files: 'preset: dgx-a100, boxes: 2'."
        ),
    ],
    collective: Annotated[str | None, typer.Option(help="Only for this one; default: all.")] = None,
    rate_attribute: RateAttributeOption = None,
    method: Annotated[str, typer.Option(help="optimum, or bfb: breadth-first broadcasts beside it.")] = "optimum",
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Best rate of AllGather, AllReduce and All-to-All on a network, and the cut that limits it."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.bounds import breadth_first_figures, network_bounds
        from topoopt.analyses.collective.bounds_answer import bounds_answer
        from topoopt.analyses.collective.networks import network_argument
        from topoopt.console.attended import attended
        from topoopt.core.errors import InputError, Problem

        if method not in ("optimum", "bfb"):
            raise InputError([Problem("no such method", path="--method", value=method, allowed="optimum, bfb")])
        if collective is not None and collective not in BOUNDED:
            allowed = ", ".join(BOUNDED)
            raise InputError([Problem("no bound for it", path="--collective", value=collective, allowed=allowed)])
        notes: list[str] = []
        network = network_argument(topology, notes.append, rate_attribute)
        pairs, reduced = None if collective is None else collective == "all-to-all", collective in (None, "allreduce")
        with attended(output, time_limit) as run:
            run.doing, stop = "bounds", run.timing.stop
            found = run.patient(lambda: network_bounds(network, stop, all_to_all=pairs, allreduce=reduced))
        document = {"ranks": len(network.ranks), **found.document(), **({"notes": notes} if notes else {})}
        if method == "bfb":
            document |= breadth_first_figures(network)

        def show(console: Console) -> None:
            lines = [
                f"AllGather, ReduceScatter: at most {float(found.allgather_rate):.6g} GB/s (ratio {found.ratio}): "
                f"{found.words}"
            ]
            if found.allreduce_rate is not None:
                lines.append(
                    f"AllReduce: at most {float(found.allreduce_rate):.6g} GB/s, {found.allreduce_gain:.4g}× a "
                    "ReduceScatter and an AllGather with equal roots"
                )
            if found.all_to_all_lambda is not None:
                lines.append(f"All-to-All: at most {found.all_to_all_lambda:.6g} GB/s for every ordered pair")
                if found.all_to_all_gap > SHOWN_GAP:
                    lines[-1] += f"; {found.all_to_all_reached:.6g} GB/s are reached, {found.all_to_all_gap:.2%} less"
            if method == "bfb":
                factor = document["bandwidth_factor"] or "differs from rank to rank"
                lines.append(f"breadth-first broadcasts: {document['steps']} steps, bandwidth factor {factor}")
            for line in (*lines, *early_end(found.stopped_by), *(f"note: {note}" for note in notes)):
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        output.result(document, show, bounds_answer(found, len(network.ranks), collective))
        return EXIT_OF_STOP.get(found.stopped_by, 0)

    output.run(command)


app.command("audit")(audit)
app.command("job")(job)
app.command("find")(find)
app.command("switch")(switch)
