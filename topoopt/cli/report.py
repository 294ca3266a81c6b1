"""`topoopt report`: the page of a solution, and the traffic of a job in numbers, tables and pictures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from annotated_types import Ge, Le
from rich.console import Console

from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.files.atomic import csv_text, require_new, targets, write_targets, write_text_atomically
from topoopt.kinds import kind_of
from topoopt.page import options
from topoopt.page.output import Output

if TYPE_CHECKING:
    from topoopt.core.routing import TrafficFigures

SEARCHED = "searched"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
SETTINGS = {"selection": str, "strategy": str, "budget": Annotated[int, Ge(0), Le(10**12)], "pairs": bool}


def report(
    file: Annotated[
        Path,
        typer.Argument(metavar="SOLUTION|INSTANCE", help="solution.json of `topoopt solve`; a job, to be started."),
    ],
    settings: options.Settings = None,
    output_files: options.Output = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write the self-contained HTML report of a solution; exit code 6 if a brief check rejects the plan.

    --output writes the page (.html, default report.html beside SOLUTION); of a job whose AllReduces run on rings the
    distributions of its traffic (.csv) and their picture (.svg) as well.

    Of an instance of a job: bandwidth tax, path lengths of the model-parallel bytes, and load of the links of its
    starting plan, data parallelism on TotientPerms rings, the setting of the figures of the TopoOpt paper. Settings:
    `selection` of the ring distances (paper, flexnet, best); `strategy`: what cannot be split on one server each
    (placed), all weights on every server (replicated), or the instance is solved first (searched, with `budget`
    proposals); `pairs`, with --json the bytes of every pair of servers.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import problem_and_solution

        page, table, plot = targets(output_files, force, (".html",), (".csv",), (".svg",))
        given = options.typed_settings(options.settings_of(settings, SETTINGS), SETTINGS)
        problem, solution = problem_and_solution(file)
        if solution is None:
            return _report_traffic(output, problem, file, given, page, table, plot)
        if given or table or plot:
            return _report_traffic(output, solution, file, given, page, table, plot)
        if not output_files:
            page = require_new(file.with_name("report.html"), force)
        assert page is not None
        write_text_atomically(page, kind_of(solution).pages().report(solution))
        output.result({"report": str(page)}, lambda console: console.print(f"written: {page}", markup=False))
        return 0

    output.run(command)


def _report_traffic(
    output: Output,
    source: Any,
    file: Path,
    given: dict[str, Any],
    page: Path | None,
    table: Path | None,
    plot: Path | None,
) -> int:
    """The traffic of a job's plan, or of its starting plan; its files and figures."""
    from topoopt.analyses.traffic import answer, traffic_html, traffic_svg

    pairs = given.pop("pairs", False)
    figures = _figures(source, file, **given)
    if page is not None:
        solved = not isinstance(source, CoOptimisation)
        write_text_atomically(page, kind_of(source).pages().report(source) if solved else traffic_html(figures))
    written = write_targets(
        table, plot, text=lambda: _table(figures), svg=lambda: traffic_svg(figures), html=lambda: traffic_html(figures)
    )
    document = _document(figures) | (_pairs(figures) if pairs else {}) | written
    document["report"] = None if page is None else str(page)
    output.result(document, lambda console: _show(console, document, (page, table, plot)), answer(figures))
    return 0


def _figures(
    source: Any, file: Path, selection: str | None = None, strategy: str | None = None, budget: int | None = None
) -> TrafficFigures:
    from topoopt.analyses.traffic import PLACED, STARTS, plan_traffic, starting_traffic

    if source.kind != KIND:
        text = "only jobs have this traffic"
        raise InputError([Problem(text, file=str(file), path="kind", value=source.kind, allowed=KIND)])
    if not isinstance(source, CoOptimisation):
        _refuse("a solution has its topology", "an instance", selection=selection)
        _refuse("a solution has its strategy", "an instance", strategy=strategy, budget=budget)
        return plan_traffic(source)
    if strategy == SEARCHED:
        _refuse("the plan found has its topology", f"without strategy={SEARCHED}", selection=selection)
        return plan_traffic(_solved(source, budget))
    _refuse("nothing is searched", f"with strategy={SEARCHED}", budget=budget)
    if strategy not in (None, *STARTS):
        _refuse("no such strategy", ", ".join((*STARTS, SEARCHED)), strategy=strategy)
    return starting_traffic(source, selection or "paper", strategy or PLACED)


def _refuse(why: str, allowed: str, **settings: str | int | None) -> None:
    """Refuse settings that say nothing here."""
    problems = [
        Problem(why, path=f"--set {name}", value=str(value), allowed=allowed)
        for name, value in settings.items()
        if value is not None
    ]
    if problems:
        raise InputError(problems)


KIND = "co-optimisation"


def _solved(instance: Any, budget: int | None) -> Any:
    """The plan found for an instance, checked."""
    from topoopt.kinds.kind import SolveOptions
    from topoopt.kinds.pipeline import solve

    solved = solve(instance, SolveOptions(budget=budget, objective_only=True))
    if solved.check.violations:
        raise CheckError("the checker rejects the plan:\n" + "\n".join(map(str, solved.check.violations)))
    return solved


def _cumulative(shares: Any) -> list[dict[str, float]]:
    rows, upto = [], 0.0
    for hops, share in enumerate(shares.tolist()):
        upto += share
        if hops:
            rows.append({"hops": hops, "share": share, "cumulative": min(upto, 1.0)})
    return rows


def _document(figures: TrafficFigures) -> dict[str, Any]:
    import numpy as np

    loads = np.sort(figures.link_bytes)
    links: dict[str, Any] = {"links": len(loads)}
    if len(loads):
        mean, most = float(loads.mean()), float(loads[-1])
        links |= {"mean": mean, "max": most, "max_over_mean": most / mean if mean > 0 else None}
        # Nearest rank: a load that some link has.
        links |= {f"p{100 * part:g}": float(loads[math.ceil(part * len(loads)) - 1]) for part in QUANTILES}
    return {
        "kind": "topology-traffic",
        "name": figures.name,
        "plan": figures.plan,
        "servers": figures.servers,
        "degree": figures.degree,
        "bandwidth_tax": figures.bandwidth_tax,
        "demand_bytes": {"allreduce": figures.allreduce_bytes, "model_parallel": figures.model_parallel_bytes},
        "carried_bytes": float(figures.link_bytes.sum()),
        "model_parallel_to_allreduce": figures.model_parallel_to_allreduce,
        "mean_byte_hops": figures.mean_byte_hops,
        "largest_pair_bytes": float(figures.pair_bytes.max(initial=0.0)),
        "byte_hops": _cumulative(figures.byte_hops),
        "pair_hops": _cumulative(figures.pair_hops),
        "link_bytes": links,
    }


def _pairs(figures: TrafficFigures) -> dict[str, Any]:
    """Bytes by sender and receiver, pairs that exchange nothing left out."""
    sent = figures.pair_bytes
    rows = {str(i): {str(j): float(sent[i, j]) for j in sent[i].nonzero()[0].tolist()} for i in range(len(sent))}
    return {"pair_bytes": {server: row for server, row in rows.items() if row}}


def _table(figures: TrafficFigures) -> str:
    """Long form: which distribution, value, part of the whole up to it."""
    import numpy as np

    rows: list[tuple[str, float, float]] = [
        (name, row["hops"], row["cumulative"])
        for name, shares in (("byte_hops", figures.byte_hops), ("pair_hops", figures.pair_hops))
        for row in _cumulative(shares)
    ]
    loads = np.sort(figures.link_bytes).tolist()
    rows += [("link_bytes", load, (rank + 1) / len(loads)) for rank, load in enumerate(loads)]
    return csv_text(("distribution", "value", "cumulative"), rows)


def _show(console: Console, document: dict[str, Any], files: tuple[Path | None, ...]) -> None:
    from topoopt.page.text import byte_size

    def line(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True, highlight=False)

    demand, links, share = document["demand_bytes"], document["link_bytes"], document["model_parallel_to_allreduce"]
    line(f"{document['name']}: {document['plan']}, {document['servers']} servers, degree {document['degree']}")
    against = "" if share is None else f" ({share:.3f} of it)"
    line(
        f"demand: AllReduce {byte_size(demand['allreduce'])}, model-parallel "
        f"{byte_size(demand['model_parallel'])}{against}"
    )
    line(f"most from one server to another: {byte_size(document['largest_pair_bytes'])}")
    line(f"bandwidth tax: {document['bandwidth_tax']:.3f} ({byte_size(document['carried_bytes'])} carried)")
    if document["byte_hops"]:
        text = "  ".join(f"{row['hops']}: {row['cumulative']:.4f}" for row in document["byte_hops"])
        line(f"model-parallel bytes in so many hops or fewer: {text}; mean {document['mean_byte_hops']:.3f}")
    text = "  ".join(f"{row['hops']}: {row['cumulative']:.4f}" for row in document["pair_hops"])
    line(f"pairs of servers in so many hops or fewer: {text or 'none has a route'}")
    if links["links"]:
        over = "" if links["max_over_mean"] is None else f" ({links['max_over_mean']:.3f} of the mean)"
        middle = ", ".join(f"p{100 * part:g} {byte_size(links[f'p{100 * part:g}'])}" for part in QUANTILES)
        line(f"bytes of a link: mean {byte_size(links['mean'])}, {middle}, max {byte_size(links['max'])}{over}")
    for written in files:
        if written is not None:
            line(f"written: {written}")
