"""The report of a collective: one HTML file that needs nothing else."""

from __future__ import annotations

import itertools

import numpy as np
from markupsafe import Markup

from topoopt.core.collective_solution import CollectiveSolution
from topoopt.core.verdict import Status
from topoopt.drawing.format import counted, number, percent
from topoopt.drawing.page import Card, check_card, render_page, run_rows, versions_row
from topoopt.drawing.sentences import bound_text
from topoopt.drawing.sorted_chart import sorted_chart
from topoopt.drawing.utilisation import use_class, utilisation_legend
from topoopt.kinds.collective.answer import answer
from topoopt.kinds.collective.front_chart import front_chart
from topoopt.kinds.collective.picture import network_picture
from topoopt.kinds.collective.tree_picture import block_picture
from topoopt.kinds.collective.words import front_rows, limit_sentence, link_busy, time_text

TEMPLATE = "kinds/collective/page.html.j2"
SHOWN_LINKS = 16
SHOWN_STEPS = 24


def cards(solution: CollectiveSolution) -> tuple[Card, ...]:
    """Time, distance to the bound, verdict, and what else stands out."""
    bound, proven = solution.bound, solution.status is Status.OPTIMAL
    stated = f"bound {number(bound.value)} {solution.objective.unit}: {bound.proved_by}"
    return (
        Card("time", time_text(solution.time_us), "all steps one after the other, a barrier between them", "main"),
        Card("gap to the bound", percent(solution.gap), stated, "good" if proven else ""),
        check_card(solution.check),
        Card("algorithm bandwidth", f"{number(solution.algbw_gbytes_per_s)} GB/s", "bytes of the vector over the time"),
        Card("bus bandwidth", f"{number(solution.busbw_gbytes_per_s)} GB/s", "as benchmarks of collectives state it"),
        Card("steps", f"{solution.steps}", counted(len(solution.schedule.sends), "message")),
        Card(
            "without barriers",
            time_text(solution.makespan_us),
            "a message goes when its block is there; links keep the order of the file",
        ),
    )


def step_rows(solution: CollectiveSolution) -> tuple[tuple[tuple[str, str, str], ...], int]:
    """Of the first steps: numbers, messages, blocks, one row for steps that look the same; steps that are left out."""
    sends = solution.schedule.sends
    sums = np.bincount(sends.step[sends.reduce], minlength=solution.steps)
    messages = np.bincount(sends.step, minlength=solution.steps)
    blocks = [
        len(np.unique(own)) for own in np.split(sends.block, np.searchsorted(sends.step, range(1, solution.steps)))
    ]
    figures = list(zip(messages.tolist(), sums.tolist(), blocks, strict=True))
    rows: list[tuple[str, str, str]] = []
    first = 0
    for (count, summed, several), alike in itertools.groupby(figures):
        last = first + len(list(alike)) - 1
        copies = count - summed
        both = ((summed, "sum", "sums"), (copies, "copy", "copies"))
        what = " and ".join(counted(some, one, many) for some, one, many in both if some)
        rows.append((str(first) if last == first else f"{first} to {last}", what, counted(several, "block")))
        first = last + 1
        if len(rows) == SHOWN_STEPS:
            break
    return tuple(rows), solution.steps - first


def busiest(solution: CollectiveSolution, busy: np.ndarray) -> tuple[tuple[str, str, str], ...]:
    """Link, rate and use, fullest first."""
    network = solution.network
    order = np.argsort(-np.round(busy, 9), kind="stable")[:SHOWN_LINKS]
    return tuple(
        (
            f"{network.names[network.arcs[a, 0]]} → {network.names[network.arcs[a, 1]]}",
            number(float(network.gbytes_per_s[a])),
            percent(float(busy[a])),
        )
        for a in order.tolist()
    )


def provenance(solution: CollectiveSolution) -> tuple[tuple[str, str], ...]:
    """Where the figures come from."""
    return (
        *run_rows(solution),
        ("bound", bound_text(solution)),
        ("network", solution.network.origin or "not recorded"),
        versions_row(solution),
    )


def render_collective(solution: CollectiveSolution) -> str:
    """The whole report as one HTML page; names from the instance are escaped. Same solution, same bytes."""
    busy = link_busy(solution)
    network = solution.network
    steps, hidden_steps = step_rows(solution)
    return render_page(
        TEMPLATE,
        answer(solution),
        solution.check,
        solution=solution,
        subtitle=f"{solution.collective} · {counted(len(network.ranks), 'rank')} · "
        f"{counted(int(network.is_switch.sum()), 'switch', 'switches')} · {counted(len(network.arcs), 'link')}",
        verdict=cards(solution)[:3],
        comparisons=cards(solution)[3:],
        limit=limit_sentence(solution),
        picture=network_picture(solution, busy),
        uses=utilisation_legend(),
        has_cut=bool(solution.proof.cut),
        chart=sorted_chart(busy, "%", 0.01, "Use of the links, sorted", use_class) if busy.max() > 0 else Markup(""),
        busiest=busiest(solution, busy),
        block=block_picture(solution),
        front=front_rows(solution),
        curve=front_chart(solution) if solution.front else Markup(""),
        steps=steps,
        hidden_steps=hidden_steps,
        provenance=provenance(solution),
    )
