"""`topoopt collective switch`: circuits set anew between the steps of a collective, where the delay pays."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output
from topoopt.console.tables import TerminalTable
from topoopt.core.collective import CircuitSchedule, SteppedCollective, SwitchedCollective
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.switching import delay_text, parse_delay

MOST_RANKS = 512


def switch(
    ranks: Annotated[int, typer.Option(min=2, max=MOST_RANKS, help="Number of ranks n.")],
    vector: Annotated[str, typer.Option("--bytes", help="Vector of a rank, like 100 MB.")],
    ports: Annotated[int, typer.Option(min=2, max=64, help="Of a rank, an even number.")] = 2,
    link_gbytes_per_s: Annotated[float, typer.Option(min=1e-6, max=1e6, help="Rate of a circuit, GB/s.")] = 50.0,
    latency_us: Annotated[float, typer.Option(min=0.0, max=1e9, help="Of a step.")] = 1.0,
    delays: Annotated[str, typer.Option(help="Delays to set circuits, parted by commas, or devices.")] = (
        "1us,10us,100us,1ms,10ms"
    ),
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Least time of AllReduce and All-to-All where circuits may be set anew between steps, and what delay pays."""
    output = Output.choose(as_json)

    def command() -> int:
        from solvers.collective.timing import least_time
        from topoopt.verify.collective import check_circuits

        size = _require(ranks, ports, vector)
        found: list[tuple[SwitchedCollective, CircuitSchedule]] = []
        for word in delays.split(","):
            delay_s = parse_delay(word) / 1e3
            for collective in SteppedCollective:
                if collective is SteppedCollective.HALVING_DOUBLING and ranks & (ranks - 1):
                    continue
                asked = SwitchedCollective(
                    collective, ranks, ports, float(size), link_gbytes_per_s * 1e9, latency_us * 1e-6
                )
                schedule = least_time(asked, delay_s)
                checked = check_circuits(asked, schedule)
                if not checked.ok:
                    raise CheckError("the checker rejects a schedule:\n" + "\n".join(map(str, checked.violations)))
                found.append((asked, schedule))
        rows = [
            {"collective": asked.collective.value, "times_set": one.times_set, **asdict(one)} for asked, one in found
        ]
        document = {"kind": "switched-collective", "ranks": ranks, "ports": ports, "bytes": size, "schedules": rows}
        output.result(document, lambda console: _show(console, found), _answer(found))
        return 0

    output.run(command)


def _require(ranks: int, ports: int, vector: str) -> int:
    import re

    from topoopt.kinds.collective.read import SIZE_PATTERN, size_bytes

    problems = []
    size = size_bytes(vector) if re.fullmatch(SIZE_PATTERN, vector) else None
    if size is None:
        allowed = "whole bytes with a unit, like 100 MB or 1GiB"
        problems.append(Problem("not a size", path="--bytes", value=vector, allowed=allowed))
    if ports % 2:
        text = "circuits to both sides take ports in pairs"
        problems.append(Problem(text, path="--ports", value=str(ports), allowed="even numbers"))
    if problems or size is None:
        raise InputError(problems)
    return size


def _answer(found: list[tuple[SwitchedCollective, CircuitSchedule]]) -> str:
    best = max(found, key=lambda row: row[1].break_even_s)
    if best[1].break_even_s == 0.0:
        return "Setting circuits anew between steps never pays."
    return (
        f"Setting circuits anew between steps pays up to a delay of {delay_text(1e3 * best[1].break_even_s)}, for "
        f"{best[0].collective.value}."
    )


def _show(console: Console, found: list[tuple[SwitchedCollective, CircuitSchedule]]) -> None:
    table = TerminalTable(title=f"{found[0][0].ranks} ranks, {found[0][0].ports} ports each")
    for heading in ("collective", "delay", "least, us", "set", "never, us", "every step, us", "pays up to"):
        table.add_column(heading, justify="left" if heading == "collective" else "right")
    for asked, one in found:
        pays = delay_text(1e3 * one.break_even_s) if one.break_even_s else "never"
        times = (f"{1e6 * value:.6g}" for value in (one.time_s, one.never_s, one.every_s))
        least, never, every = times
        cells = (delay_text(1e3 * one.delay_s), least, f"{one.times_set}x", never, every, pays)
        table.add_row(asked.collective.value, *cells)
    console.print(table)
