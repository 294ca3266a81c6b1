"""`topoopt topology`: families of topologies are made and measured, and the traffic of a job is laid on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.graphs import moore_bound
from topoopt.files.atomic import csv_text, require_targets, write_targets
from topoopt.page.output import JsonOption, Output
from topoopt.page.text import ROUNDING, SMALL, by_how_much, counted, number

if TYPE_CHECKING:
    from topoopt.core.routing import TrafficFigures


MOST_SERVERS = 4096


Metrics = tuple[int, float, str]
"""Distances over all ordered pairs of servers, largest and mean, and ring distances or the like, for people."""


def _totient(servers: int, degree: int, links: LinkDirection, seed: int, *, selection: str) -> Metrics:
    from topoopt.library.topologies import totient

    result = totient(servers, degree, links.value, selection)
    return result.diameter, result.mean_hops, ", ".join(map(str, result.offsets))


def _family(servers: int, degree: int, links: LinkDirection, seed: int, *, family: str) -> Metrics:
    from topoopt.files.sections import make_topology
    from topoopt.files.topology_families import family_arcs
    from topoopt.page.networks import diameter_and_mean_hops

    given = {"servers": servers, "degree": degree, "links": links.value}
    made = family_arcs(family, given, seed=seed, max_servers=MOST_SERVERS)
    diameter, mean_hops = diameter_and_mean_hops(make_topology(made.servers, made.arcs, None, family))
    if diameter is None or mean_hops is None:
        text = "not every server can reach every other"
        raise InputError([Problem(text, path="--family", value=family, allowed="another seed or degree")])
    return diameter, mean_hops, ""


def moore(servers: int, degree: int, links: LinkDirection, seed: int = 0) -> Metrics:
    """The Moore bound (`topoopt.core.graphs.moore_bound`)."""
    try:
        diameter, distances = moore_bound(servers, degree, links)
    except ValueError:
        raise InputError(
            [Problem("this degree cannot connect so many servers", path="--degree", value=str(degree))]
        ) from None
    return diameter, distances / (servers - 1) if servers > 1 else 0.0, "bound"


FAMILIES: Mapping[str, Callable[[int, int, LinkDirection, int], Metrics]] = {
    "totient": partial(_totient, selection="paper"),
    "totient-flexnet": partial(_totient, selection="flexnet"),
    "best-circulant": partial(_totient, selection="best"),
    "generalized-kautz": partial(_family, family="generalized-kautz"),
    "de-bruijn": partial(_family, family="de-bruijn"),
    "random-regular": partial(_family, family="random-regular"),
    "moore": moore,
}
"""Families by name. `totient`: nearest distances to a geometric sequence (NSDI'23); `best-circulant`: ring distances of
least diameter, exhaustive or by seeded search; `moore`: the bound."""


def answer(family: str, servers: int, degree: int, result: Metrics, least: Metrics) -> str:
    """Diameter and mean hops in one sentence, each beside the least that the Moore bound allows."""
    most, mean_hops, _ = result
    least_most, least_mean, _ = least
    size = f"{counted(servers, 'server')} with {counted(degree, 'interface')} each"
    if family == "moore":
        return (
            f"No topology of {size} has a diameter below {counted(least_most, 'hop')} or a mean below "
            f"{number(least_mean)} (proven)."
        )
    diameter = counted(most, "hop")
    beside = f"no topology has less than {least_most}" if most > least_most else "the least there can be"
    mean = mean_hops / least_mean
    over = f"at most {by_how_much(mean)} more than" if mean < SMALL else f"at most {by_how_much(mean)}"
    how = "the least there can be" if mean <= 1 + ROUNDING else f"{over} the least there can be"
    return (
        f"On {family} of {size} any server reaches any other in {diameter} ({beside}), on average in "
        f"{number(mean_hops)} ({how})."
    )


def metrics(
    family: Annotated[str, typer.Option(help=", ".join(FAMILIES))],
    servers: Annotated[int, typer.Option(min=2, max=MOST_SERVERS, help="Number of servers n.")],
    degree: Annotated[int, typer.Option(min=1, max=64, help="Interfaces per server d.")],
    links: Annotated[str, typer.Option(help="bidirectional or unidirectional.")] = "unidirectional",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the random family.")] = 0,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Diameter and mean hops of a topology, the bound d n^(1/d) of TotientPerms and the Moore bound."""
    output = Output.choose(as_json)

    def command() -> int:
        problems = [
            Problem(f"unknown {name}", path=f"--{name}", value=value, allowed=", ".join(allowed))
            for name, value, allowed in (("family", family, list(FAMILIES)), ("links", links, list(LinkDirection)))
            if value not in allowed
        ]
        if problems:
            raise InputError(problems)
        direction = LinkDirection(links)
        diameter, mean_hops, detail = topology = FAMILIES[family](servers, degree, direction, seed)
        moore_diameter, moore_hops, _ = least = moore(servers, degree, direction)
        bound = degree * servers ** (1 / degree)
        document: dict[str, Any] = {
            "kind": "topology-metrics",
            "family": family,
            "servers": servers,
            "degree": degree,
            "links": links,
            "diameter": diameter,
            "mean_hops": mean_hops,
            "diameter_bound": bound,
            "diameter_over_bound": diameter / bound,
            "moore_diameter": moore_diameter,
            "moore_mean_hops": moore_hops,
            "mean_hops_over_moore": mean_hops / moore_hops,
            "detail": detail,
        }

        def show(console: Console) -> None:
            text = f"{family} n={servers} d={degree} {links}: diameter {diameter} (Moore {moore_diameter}, "
            text += f"d n^(1/d) {bound:.3f}), mean hops {mean_hops:.4f} (Moore {moore_hops:.4f})"
            console.print(text, soft_wrap=True, highlight=False)

        output.result(document, show, answer(family, servers, degree, topology, least))
        return 0

    output.run(command)


SEARCHED = "searched"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
KIND = "co-optimisation"


def traffic(
    file: Annotated[Path, typer.Argument(help="Solution of a job, or its instance: the starting plan on rings.")],
    selection: Annotated[
        str | None, typer.Option(help="Ring distances of the starting plan: paper, flexnet or best. Default: paper.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="placed: what cannot be split on one server each (default); replicated: all weights on every server; "
            "searched: the instance is solved first."
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=0, max=10**12, help="Strategy proposals of --strategy searched.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="With --json: the bytes of every pair of servers.")] = False,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="CSV file of the distributions to write.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot to write, as .html or .svg.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Bandwidth tax, path lengths of the model-parallel bytes, and load of the links.

    Given a solution: of its plan. Given an instance: of data parallelism on TotientPerms rings, the setting of the
    figures of the TopoOpt paper.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.traffic import answer, traffic_html, traffic_svg

        require_targets(csv_file, plot)
        figures = _figures(file, selection, strategy, budget)
        written = write_targets(
            csv_file,
            plot,
            text=lambda: _table(figures),
            svg=lambda: traffic_svg(figures),
            html=lambda: traffic_html(figures),
        )
        document = _document(figures) | (_pairs(figures) if pairs else {})
        output.result(
            {**document, **written}, lambda console: _show(console, document, (csv_file, plot)), answer(figures)
        )
        return 0

    output.run(command)


def _refuse(why: str, allowed: str, **options: str | int | None) -> None:
    """Refuse options that say nothing here."""
    problems = [
        Problem(why, path=f"--{name}", value=str(value), allowed=allowed)
        for name, value in options.items()
        if value is not None
    ]
    if problems:
        raise InputError(problems)


def _figures(file: Path, selection: str | None, strategy: str | None, budget: int | None) -> TrafficFigures:
    from topoopt.analyses.traffic import PLACED, STARTS, plan_traffic, starting_traffic
    from topoopt.files.documents import parse_document
    from topoopt.files.results import KIND_LIMITS as LIMITS
    from topoopt.files.results import SUFFIX
    from topoopt.kinds.files import read_instance
    from topoopt.kinds.job import SOLUTION_FILE

    data = parse_document(file, LIMITS).data
    kind = data.get("kind") if isinstance(data, dict) else None
    if isinstance(kind, str) and kind.endswith(SUFFIX):
        _refuse("a solution has its topology", "an instance", selection=selection)
        _refuse("a solution has its strategy", "an instance", strategy=strategy, budget=budget)
        _require_job(file, kind.removesuffix(SUFFIX))
        return plan_traffic(SOLUTION_FILE.read(file))
    instance: Any = read_instance(file)
    _require_job(file, instance.kind)
    if strategy == SEARCHED:
        _refuse("the plan found has its topology", f"without --strategy {SEARCHED}", selection=selection)
        return plan_traffic(_solved(instance, budget))
    _refuse("nothing is searched", f"with --strategy {SEARCHED}", budget=budget)
    if strategy not in (None, *STARTS):
        _refuse("no such strategy", ", ".join((*STARTS, SEARCHED)), strategy=strategy)
    return starting_traffic(instance, selection or "paper", strategy or PLACED)


def _solved(instance: Any, budget: int | None) -> Any:
    """The plan found for an instance, checked."""
    from topoopt.kinds.kind import SolveOptions
    from topoopt.kinds.pipeline import solve

    solved = solve(instance, SolveOptions(budget=budget, objective_only=True))
    if solved.check.violations:
        raise CheckError("the checker rejects the plan:\n" + "\n".join(map(str, solved.check.violations)))
    return solved


def _require_job(file: Path, kind: str) -> None:
    if kind != KIND:
        text = "only jobs have this traffic"
        raise InputError([Problem(text, file=str(file), path="kind", value=kind, allowed=KIND)])


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


app = typer.Typer(help="Topologies on their own.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Topologies on their own."""


@app.command("totient")
def totient(
    servers: Annotated[int, typer.Option(min=2, max=10_000_000, help="Number of servers n.")],
    degree: Annotated[int, typer.Option(min=1, max=64, help="Interfaces per server d.")],
    links: Annotated[str, typer.Option(help="bidirectional or unidirectional.")] = "bidirectional",
    selection: Annotated[str, typer.Option(help="paper, flexnet or best.")] = "paper",
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Ring distances of TotientPerms, and the diameter they give."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.library.topologies import totient
        from topoopt.page.text import counted

        result = totient(servers, degree, links, selection)
        document = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(result).items()}

        def show(console: Console) -> None:
            console.print(
                f"offsets {list(result.offsets)}: diameter {result.diameter} (bound {result.diameter_bound:.3f}), "
                f"mean hops {result.mean_hops:.4f}",
                soft_wrap=True,
            )

        both = links == "bidirectional"
        once = sorted({min(offset, servers - offset) if both else offset for offset in result.offsets})
        *some, last = map(str, once)
        rings = f"rings of distances {', '.join(some)} and {last}" if some else f"a ring of distance {last}"
        answer = (
            f"TotientPerms joins {servers:,} servers by {rings}: every server reaches every other in "
            f"at most {counted(result.diameter, 'hop')}, {result.mean_hops:.3g} on average."
        )
        output.result(document, show, answer)
        return 0

    output.run(command)


app.command("metrics")(metrics)
app.command("traffic")(traffic)
