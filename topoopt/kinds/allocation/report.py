"""The report of a bandwidth allocation: one HTML file that needs nothing else."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from topoopt.core.allocation_solution import DUST, AllocationSolution, DestinationRate
from topoopt.core.verdict import Status
from topoopt.drawing.format import counted, percent, shortened
from topoopt.drawing.format import number as plain_number
from topoopt.drawing.page import Card, check_card, render_page, versions_row
from topoopt.drawing.sentences import bound_text, objective_text, quantity
from topoopt.drawing.sorted_chart import sorted_chart
from topoopt.drawing.svg import percentage
from topoopt.drawing.utilisation import use_class, utilisation_legend
from topoopt.kinds.allocation.answer import answer
from topoopt.kinds.allocation.picture import link_picture

TEMPLATE = "kinds/allocation/page.html.j2"
SHOWN_TRANSFERS = 60
SHOWN_ROWS = 200
SHOWN_LINKS = 16
FULL = 1e-6
"""Part of a capacity that may be free on a link called full."""

GOALS = {
    "max-min": "no rate can grow unless one that is no larger falls",
    "weighted": "no rate over weight can grow unless one that is no larger falls",
    "min-guarantee": "every transfer gets its guaranteed rate, the rest is shared",
    "completion-time": "all transfers start together; the last one ends first possible, then the last but one, ...",
}


def number(value: float) -> str:
    """As text; the last digits of a rate, which are rounding, do not decide how many are shown."""
    return plain_number(float(f"{value:.9g}"))


@dataclass(frozen=True)
class TransferBar:
    """A row of the chart of rates; `ends` is empty without a size."""

    name: str
    pair: str
    rate: str
    width: str
    ends: str
    limits: str


def cards(solution: AllocationSolution) -> tuple[Card, ...]:
    """Objective, bound, verdict, and what else stands out."""
    objective, rates = solution.objective, solution.rates_gbps
    proven = solution.status is Status.OPTIMAL
    title = objective_text(objective.name)
    full = int((solution.utilisation >= 1 - FULL).sum())
    found = [
        Card(title, f"{number(objective.value)} {objective.unit}", GOALS[solution.goal], "main"),
        Card(
            "gap to the bound",
            percent(solution.gap),
            f"bound {number(solution.bound.value)} {objective.unit}; the rates are {solution.status.value}",
            "good" if proven else "",
        ),
        check_card(solution.check),
        Card(
            "all rates together",
            f"{number(float(rates.sum()))} Gbit/s",
            f"{counted(len(rates), 'transfer')}, {number(float(rates.min()))} to {number(float(rates.max()))} Gbit/s",
        ),
        Card(
            "full links",
            f"{full} of {len(solution.capacity_gbps)}",
            f"mean utilisation {percent(float(solution.utilisation.mean()))}",
        ),
    ]
    if objective.name != "completion_time" and solution.completion_time_s is not None:
        found.append(Card("completion time", f"{number(solution.completion_time_s)} s", "if the rates are kept"))
    return tuple(found)


def transfer_bars(solution: AllocationSolution) -> tuple[TransferBar, ...]:
    """Rates, slowest first; of very many transfers the slowest ones."""
    largest = float(solution.rates_gbps.max())
    bars = []
    for row in sorted(solution.transfers, key=lambda item: item.rate_gbps)[:SHOWN_TRANSFERS]:
        limits = ", ".join(row.limited_by[:4])
        more = len(row.limited_by) - 4
        bars.append(
            TransferBar(
                name=shortened(row.name, 48),
                pair=f"{row.source} → {row.destination}",
                rate=number(row.rate_gbps),
                width=percentage(row.rate_gbps / largest if largest > 0 else 0.0),
                ends="" if row.completion_time_s is None else f"{number(row.completion_time_s)} s",
                limits=(limits or "nothing") + (f" and {more} more" if more > 0 else ""),
            )
        )
    return tuple(bars)


@dataclass(frozen=True)
class ServerRows:
    """What one server sends: a line for each destination, (destination, rate, own, forwarded, next hops)."""

    server: int
    total: str
    rows: tuple[tuple[str, str, str, str, str], ...]


def server_rows(solution: AllocationSolution) -> tuple[tuple[ServerRows, ...], int]:
    """The table of the servers, and how many rows of it are left out."""
    own = solution.own_gbps
    grouped: dict[int, list[DestinationRate]] = defaultdict(list)
    for row in solution.servers[:SHOWN_ROWS]:
        grouped[row.server].append(row)
    found = tuple(
        ServerRows(
            server,
            number(sum(row.rate_gbps for row in rows)),
            tuple(
                (
                    str(row.destination),
                    number(row.rate_gbps),
                    number(mine := own.get((row.server, row.destination), 0.0)),
                    number(passing if (passing := row.rate_gbps - mine) > DUST * row.rate_gbps else 0.0),
                    ", ".join(f"{hop}: {number(rate)}" for hop, rate in row.next_hops),
                )
                for row in rows
            ),
        )
        for server, rows in grouped.items()
    )
    return found, max(0, len(solution.servers) - SHOWN_ROWS)


def busiest_links(solution: AllocationSolution) -> tuple[tuple[str, str, str, str], ...]:
    """Arc, rate, capacity and utilisation, fullest first."""
    use, arcs = solution.utilisation, solution.topology.arcs
    order = np.argsort(-np.round(use, 9), kind="stable")[:SHOWN_LINKS]
    return tuple(
        (
            f"{arcs[a, 0]} → {arcs[a, 1]}",
            number(float(solution.link_gbps[a])),
            number(float(solution.capacity_gbps[a])),
            percent(float(use[a])),
        )
        for a in order
    )


def provenance(solution: AllocationSolution) -> tuple[tuple[str, str], ...]:
    """Where the figures come from."""
    objective = solution.objective
    shared = f", what is left: {solution.surplus}" if solution.goal == "min-guarantee" else ""
    return (
        ("instance", f"{solution.name} ({solution.kind})"),
        ("instance SHA-256", solution.instance_sha256 or "not recorded"),
        ("goal", solution.goal + shared),
        ("method", solution.method),
        ("seed", str(solution.seed)),
        ("status", f"{solution.status.value}; stopped by: {solution.stopped_by.value}"),
        ("objective", f"{objective_text(objective.name)}, {quantity(objective.value, objective.unit)}"),
        ("bound", bound_text(solution)),
        ("topology", solution.topology.origin or "not recorded"),
        versions_row(solution),
    )


def subtitle(solution: AllocationSolution) -> str:
    """Transfers and network in one line."""
    topology = solution.topology
    return (
        f"{counted(len(solution.transfers), 'transfer')} · {counted(topology.servers, 'server')} · "
        f"{counted(len(topology.arcs), 'arc')}, {topology.links.value} · {solution.goal}"
    )


def use_chart(solution: AllocationSolution) -> Markup:
    """Utilisation of all links, sorted."""
    if float(solution.utilisation.max()) <= 0:
        return Markup("")
    return sorted_chart(solution.utilisation, "%", 0.01, "Utilisation of the links, sorted", use_class)


def render_allocation(solution: AllocationSolution) -> str:
    """The whole report as one HTML page; names from the instance are escaped. Same solution, same bytes."""
    servers, hidden_rows = server_rows(solution)
    bars = transfer_bars(solution)
    return render_page(
        TEMPLATE,
        answer(solution),
        solution.check,
        solution=solution,
        subtitle=subtitle(solution),
        verdict=cards(solution)[:3],
        comparisons=cards(solution)[3:],
        bars=bars,
        hidden_bars=len(solution.transfers) - len(bars),
        timed=any(bar.ends for bar in bars),
        picture=link_picture(solution),
        uses=utilisation_legend(),
        chart=use_chart(solution),
        busiest=busiest_links(solution),
        servers=servers,
        hidden_rows=hidden_rows,
        provenance=provenance(solution),
    )
