"""`topoopt collective find`: topologies made for collectives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.analyses.collective.early_end import early_end
from topoopt.console.output import EXIT_OF_STOP, JsonOption, Output
from topoopt.console.tables import TerminalTable
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.proofs import StopReason

if TYPE_CHECKING:
    from topoopt.analyses.collective.find import AllReduceCost, TopologyFront

MOST_SERVERS = 4096
PREFER = ("steps", "bandwidth", "all-to-all", "time")


def find(
    servers: Annotated[int, typer.Option(min=2, max=MOST_SERVERS, help="Number of servers n.")],
    degree: Annotated[int, typer.Option(min=1, max=64, help="Links out of, and into, every server.")],
    links: Annotated[str, typer.Option(help="unidirectional or bidirectional.")] = "unidirectional",
    prefer: Annotated[str, typer.Option(help="What the one that is written is best in: " + ", ".join(PREFER))] = (
        "bandwidth"
    ),
    vector: Annotated[str | None, typer.Option("--bytes", help="Vector of an AllReduce to time, like 1 MB.")] = None,
    link_gbytes_per_s: Annotated[float, typer.Option(min=1e-6, max=1e6, help="Rate of a link, GB/s.")] = 1.0,
    latency_us: Annotated[float, typer.Option(min=0.0, max=1e9, help="Of a step.")] = 0.0,
    visits: Annotated[
        int | None,
        typer.Option(min=0, max=10**12, help="Links a search follows; default: only where the atlas has no answer."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the search.")] = 0,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds.")] = None,
    network: Annotated[
        Path | None, typer.Option(help="File for the preferred topology: .graphml or .csv (tail, head, rate).")
    ] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="CSV file for the front.")] = None,
    report: Annotated[Path | None, typer.Option(help="Report to write, as .html.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Topologies for collectives: the Pareto front of steps, bandwidth factor and All-to-All rate, beside the bounds.

    Common sizes are answered from an atlas, others by a search among Cayley digraphs, line graphs and products.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.find import (
            PREFERENCES,
            find_front,
            front_csv,
            front_document,
            write_network,
        )
        from topoopt.analyses.collective.find_answer import answer
        from topoopt.analyses.collective.find_report import front_html
        from topoopt.analyses.collective.scores import Wanted
        from topoopt.console.attended import attended
        from topoopt.files.atomic import write_text_atomically

        _require(links, prefer, vector, network, csv_file, report)
        cost = _cost(vector, link_gbytes_per_s, latency_us)
        wanted = Wanted(servers, degree, LinkDirection(links))
        preference = PREFERENCES["bandwidth" if cost and prefer == "time" else prefer]
        if cost and prefer == "time":
            preference = lambda one: cost.time_us(wanted, one)  # noqa: E731
        with attended(output, time_limit) as run:
            run.doing, stop = "topologies", run.timing.stop
            found = run.patient(lambda: find_front(wanted, stop, visits=visits, seed=seed, preference=preference))
            reason = stop.reason() or StopReason.CONVERGED
        if network is not None:
            write_network(network, found.preferred, link_gbytes_per_s)
        if csv_file is not None:
            write_text_atomically(csv_file, front_csv(found, cost))
        if report is not None:
            write_text_atomically(report, front_html(found, cost))
        targets = {"network": network, "csv": csv_file, "report": report}
        written = {name: None if file is None else str(file) for name, file in targets.items()}
        output.result(
            {**front_document(found, cost), **written, "stopped_by": reason.value},
            lambda console: _show(console, found, cost, written, reason),
            answer(found),
        )
        return EXIT_OF_STOP.get(reason, 0)

    output.run(command)


def _require(
    links: str, prefer: str, vector: str | None, network: Path | None, csv_file: Path | None, report: Path | None
) -> None:
    """Refuse what cannot be meant, and files that cannot be written."""
    from topoopt.analyses.collective.find import NETWORK_FILES

    problems = [
        Problem(f"unknown {path[2:]}", path=path, value=value, allowed=", ".join(allowed))
        for path, value, allowed in (("--links", links, list(LinkDirection)), ("--prefer", prefer, list(PREFER)))
        if value not in allowed
    ]
    if prefer == "time" and vector is None:
        problems.append(Problem("a time needs a size", path="--prefer", value=prefer, allowed="with --bytes"))
    for path, file, endings in (
        ("--network", network, NETWORK_FILES),
        ("--csv", csv_file, (".csv",)),
        ("--report", report, (".html",)),
    ):
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            problems.append(Problem("cannot be written", path=path, value=str(file), allowed="a file in a folder"))
        elif file is not None and file.suffix.lower() not in endings:
            problems.append(Problem("unknown format", path=path, value=str(file), allowed=", ".join(endings)))
    if problems:
        raise InputError(problems)


def _cost(vector: str | None, link_gbytes_per_s: float, latency_us: float) -> AllReduceCost | None:
    import re

    from topoopt.analyses.collective.find import AllReduceCost
    from topoopt.kinds.collective.read import SIZE_PATTERN, size_bytes

    if vector is None:
        return None
    size = size_bytes(vector) if re.fullmatch(SIZE_PATTERN, vector) else None
    if size is None:
        allowed = "whole bytes with a unit, like 100 MB or 1GiB"
        raise InputError([Problem("not a size", path="--bytes", value=vector, allowed=allowed)])
    return AllReduceCost(size, link_gbytes_per_s, latency_us)


def _show(
    console: Console,
    found: TopologyFront,
    cost: AllReduceCost | None,
    written: dict[str, str | None],
    stopped_by: StopReason,
) -> None:
    from topoopt.analyses.collective.find_report import front_rows

    limits, wanted = found.limits, found.wanted
    title = f"{wanted.servers} servers, {wanted.degree} links each, {wanted.links}"
    table = TerminalTable(title=escape(title))
    for heading in ("steps", "above Moore", "bandwidth factor", "gap", "all-to-all", "gap", "AllReduce, us"):
        table.add_column(heading, justify="right")
    rows = front_rows(found, cost)
    for row in rows:
        table.add_row(*map(escape, row[:7]))
    console.print(table)
    lines = [
        f"{'* ' if place == found.best else '  '}{row[0]} steps: topology: {row[7]}" for place, row in enumerate(rows)
    ]
    lines.append(
        f"bounds: {limits.steps} steps (Moore), bandwidth factor {limits.bandwidth} (degree), all-to-all "
        f"{limits.all_to_all:.6g} of a link for every pair (distances)"
    )
    lines.append("from a search" if found.searched else "from the atlas; --visits N searches further")
    lines += early_end(stopped_by)
    lines += [f"written: {file}" for file in written.values() if file is not None]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
