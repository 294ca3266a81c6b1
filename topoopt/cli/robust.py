"""`topoopt robust`: one network for traffic that changes, its worst case, and links set anew for every step."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from topoopt.cli.kinds import EXIT_OF_STOP
from topoopt.cli.output import JsonOption, Output
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.optical_devices import OPTICAL_DEVICES, delay_text, parse_delay
from topoopt.core.robust_network import CommonRouting, RobustMode, RobustProblem, RobustSolution

SHOWN_STEPS = 30


def robust(
    instance: Annotated[Path, typer.Argument(help="File of kind robust-network: a set of demand matrices.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="JSON file with links, routing and proof.")] = None,
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
        from topoopt.io.atomic import write_text_atomically
        from topoopt.io.robust_instances import read_robust
        from topoopt.robust.solve import solve_robust

        began = time.monotonic()
        problem = read_robust(instance)
        wanted = _delays(delays, problem)
        limit = problem.time_limit_s if time_limit is None else time_limit
        with stop_on_signals(limit) as stop, output.errors.status("robust"):
            found = solve_robust(
                problem if seed is None else replace(problem, seed=seed), stop=stop, steps=steps, delays=wanted
            )
            if out is not None:
                write_text_atomically(out, json.dumps(_document(problem, found, whole=True), indent=1) + "\n")
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
        return tuple(sorted(device.delay_ms / problem.step_ms for device in OPTICAL_DEVICES.values()))
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


def _document(problem: RobustProblem, found: RobustSolution, *, whole: bool = False) -> dict[str, Any]:
    steps, step_ms = found.steps, found.step_ms
    compared: dict[str, Any] | None = None
    if steps is not None:
        compared = {
            "theta": list(steps.theta),
            "break_even_steps": steps.break_even,
            "break_even_ms": None if steps.break_even is None or step_ms is None else steps.break_even * step_ms,
            "break_even_rerouted_steps": steps.break_even_rerouted,
            "rerouted_theta": list(steps.rerouted),
            "sequences": [
                {"delay_ms": None if step_ms is None else one.delay * step_ms, **asdict(one)} for one in steps.sequences
            ],
        }
    topology = found.topology
    document: dict[str, Any] = {
        "kind": "robust-network",
        "name": found.name,
        "status": found.status.value,
        "stopped_by": found.stopped_by.value,
        "servers": problem.servers,
        "degree": problem.degree,
        "links": problem.links.value,
        "routing": found.mode.value,
        "worst_theta": found.worst,
        "theta": list(found.theta),
        "bound": {"value": found.bound.value, "proved_by": found.bound.proved_by},
        "routing_bound": found.routing_bound,
        "gap": found.gap,
        "topology": topology.origin,
        "new_links_every_step": compared,
        "check": {"ok": found.check.ok, "violations": list(found.check.violations)},
        "seed": found.seed,
        "instance_sha256": found.instance_sha256,
        "versions": dict(found.versions),
        "notes": list(found.notes),
    }
    if whole:
        document["arcs"] = [
            [*pair, count] for pair, count in zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True)
        ]
        document.update(_routing(found))
    return document


def _routing(found: RobustSolution) -> dict[str, Any]:
    """Routes and proof: arcs by their place in the list of arcs."""
    routing = found.routing
    if isinstance(routing, CommonRouting):
        pairs = zip(routing.pairs.tolist(), routing.split, strict=True)
        return {
            "split": [
                {"pair": pair, "parts": {str(a): row[a] for a in row.nonzero()[0].tolist()}} for pair, row in pairs
            ],
            "prices": routing.prices.tolist(),
        }
    return {
        "flows": [
            [
                {"source": s, "parts": {str(a): row[a] for a in row.nonzero()[0].tolist()}}
                for s, row in enumerate(flow.flow)
            ]
            for flow in routing.flows
        ],
        "lengths": [proof.lengths.tolist() for proof in routing.certificates],
    }


def _show(console: Console, found: RobustSolution, out: Path | None) -> None:
    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    say(f"{found.name}: {len(found.theta)} matrices, {found.topology.servers} servers, routing {found.mode.value}")
    say(f"worst theta {found.worst:.6f}, bound {found.bound.value:.6f} ({found.bound.proved_by}), gap {found.gap:.2%}")
    say(f"bound on this topology {found.routing_bound:.6f}; topology: {found.topology.origin}")
    steps = found.steps
    table = Table("matrix", "theta", *(["rerouted", "links of its own"] if steps is not None else []))
    for k, theta in enumerate(found.theta[:SHOWN_STEPS]):
        more = [] if steps is None else [f"{steps.rerouted[k]:.6f}", f"{steps.theta[k]:.6f}"]
        table.add_row(str(k), f"{theta:.6f}", *more)
    console.print(table)
    if len(found.theta) > SHOWN_STEPS:
        say(f"and {len(found.theta) - SHOWN_STEPS} more")
    if steps is not None:
        _show_steps(console, found)
    for note in found.notes:
        say(f"note: {note}")
    if out is not None:
        say(f"written: {out}")


def _show_steps(console: Console, found: RobustSolution) -> None:
    steps, step_ms = found.steps, found.step_ms
    if steps is None:
        return
    if steps.break_even is None or steps.break_even_rerouted is None:
        text = "no step wants other links than the one before: setting them anew never pays"
    else:
        here, rerouted = (
            f"{delay:.4g} steps" if step_ms is None else delay_text(delay * step_ms)
            for delay in (steps.break_even, steps.break_even_rerouted)
        )
        text = f"new links at every step pay when reconfiguring takes less than {here}"
        if found.mode is RobustMode.COMMON:
            text += f"; against new routes alone: less than {rerouted}"
    console.print(text, soft_wrap=True, highlight=False)
    if not steps.sequences or step_ms is None:
        return
    columns = ("delay", "one network", "rerouted", "new links every step", "best sequence", "changes")
    table = Table(*columns, title="time of all steps, in steps", title_justify="left")
    for one in steps.sequences:
        figures = (one.one_network, one.one_rerouted, one.every_step, one.best)
        table.add_row(delay_text(one.delay * step_ms), *(f"{value:.4f}" for value in figures), str(one.changes))
    console.print(table)
