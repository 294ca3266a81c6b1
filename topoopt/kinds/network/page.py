"""The page of a network: its links by load, what proves the bound, distances, demand, optical switches."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from topoopt.core.cluster import LinkDirection
from topoopt.core.proofs import Bound, Status
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.kinds.network.figures import FULL, NetworkFigures, RobustFigures, moore_counts, moore_hops
from topoopt.page.charts import (
    LINEAR,
    LOGARITHMIC,
    MAX_CELLS,
    element,
    intensity_plot,
    percentage,
    sorted_chart,
    use_class,
    utilisation_legend,
)
from topoopt.page.networks import (
    MOST_DRAWN,
    adjacency_plot,
    dark_ports,
    diameter_and_mean_hops,
    find_links,
    switch_rows,
    topology_svg,
)
from topoopt.page.render import Block, Column, Fact, Page, Plot, Section, Side, Swatch, Table
from topoopt.page.text import by_how_much, counted, full, number, objective_text, percent, ratio, rejection, surety_of

UNIT = "link capacities"
LISTED_ARCS = 12
HOP_ROWS = 16
"""Longer tables of distances are summed in classes of several hops."""
SPREAD = 100.0
"""Ratio of the largest entry of a matrix to the smallest from which on its scale is logarithmic."""
NEUTRAL = (("u0", 1 / 3), ("u1", 2 / 3), ("u2", np.inf))
"""Colour classes of loads that are no part of a known rate, by their part of the largest."""
THETAS = ("theta", "worst-theta")
"""Objectives that are theta itself, so that their bound is a bound on theta."""


def page(result: Result[Any, Any]) -> Page:
    """Return the page of a result that has its problem."""
    figures: NetworkFigures = result.figures
    topology = figures.topology
    commands = [("topoopt explain", "which links limit it, and what more capacity would give")]
    if figures.problem.several:
        commands = [("topoopt reconfigure", "whether links set anew for each demand pay")]
    if topology.rates is None and not figures.problem.several:
        commands.append(("topoopt resilience", "what failures of links and servers cost"))
    return Page(
        subtitle=f"{counted(topology.servers, 'server')} of degree {topology.degree} · {link_count(topology)}",
        answer=answer(result, figures),
        cause=cause(figures),
        facts=facts(result, figures),
        sections=(
            topology_section(figures),
            Section("Load of the links", load_blocks(result, figures)),
            Section("Distances", [distance_table(figures)], hop_text(figures)),
            Section("Demand", demand_blocks(figures), demand_text(figures)),
            Section("Optical switches", switch_blocks(topology), SWITCHES),
        ),
        provenance=(("links made by", topology.origin or "not recorded"), ("bound of these links by", proof(figures))),
        next_commands=commands,
    )


def rated(figures: NetworkFigures) -> bool:
    """Whether the rate of the links is known, so that their load means trouble or not."""
    return figures.problem.link_gbps is not None or figures.topology.rates is not None


# The first sentences.


def answer(result: Result[Any, Any], figures: NetworkFigures) -> str:
    """Return the throughput, what the busiest link needs for it, and how far from the best that is.

    Links that are chosen for a demand without a unit have a score: nothing says what would fit.
    """
    if not result.check.ok:
        return rejection(result.check)
    if figures.problem.kind == "topology" and not rated(figures):
        return f"{_score(result, figures)}{_failures(figures)}."
    return f"{_fits(figures)}; {_comparison(result)}{_failures(figures)}."


def _score(result: Result[Any, Any], figures: NetworkFigures) -> str:
    theta, bound = figures.theta, result.bound.value
    name = "Theta" if len(figures.thetas) == 1 else f"The worst theta of {counted(len(figures.thetas), 'demand')} is"
    if result.status is Status.OPTIMAL:
        return f"{name} {number(theta)}; no network of these servers and interfaces is below it (proven)"
    if bound <= 0:
        return f"{name} {number(theta)}; nothing is proven of other networks"
    return f"{name} {number(theta)}; no network is below {number(bound)} ({surety_of(result)})"


def _fits(figures: NetworkFigures) -> str:
    theta, count = figures.theta, len(figures.thetas)
    needs, name = full(theta), "The demand" if count == 1 else f"The worst of {counted(count, 'demand')}"
    rate = None if figures.topology.rates is not None else figures.problem.link_gbps  # then each link has its own
    gbps = "" if rate is None else f" ({number(theta * rate)} of {number(rate)} Gbit/s)"
    if theta <= 0:
        return f"{name} needs nothing of the links"
    if theta > 1 + 1e-9:
        part = f"so {full(figures.throughput)} of the demand fits"
        return f"{name} does not fit: the busiest link would need {needs} of its capacity{gbps}, {part}"
    grown = f", and {ratio(figures.throughput)} as much would fit" if theta < 1 - 1e-9 else ""
    return f"{name} fits: the busiest link is {needs} full{gbps}{grown}"


def _comparison(result: Result[Any, Any]) -> str:
    """Return what is proven of all routes on these links, or of all links allowed."""
    other = "routing over these links" if result.kind == "routing" else "network of these servers and interfaces"
    carries = result.objective.name in THETAS
    if result.status is Status.OPTIMAL:
        return f"no {other} {'carries more' if carries else 'completes sooner'} (proven)"
    if result.bound.value <= 0:
        return f"whether another {other} {'carries more' if carries else 'completes sooner'} is not known"
    much = by_how_much(result.objective.value / result.bound.value)
    surety = surety_of(result)
    if not carries:
        return f"no {other} can complete it more than {much} sooner ({surety})"
    return f"no {other} can carry more than {much} {'as much' if much.endswith('×') else 'more'} ({surety})"


def _failures(figures: NetworkFigures) -> str:
    robust = figures.robustness
    if robust is None:
        return ""
    if figures.problem.kind == "topology" and not rated(figures):
        return f"; after the worst failure of one link it is {number(robust.worst_theta)}"
    return f"; after the worst failure of one link the busiest one needs {full(robust.worst_theta)} of its capacity"


def cause(figures: NetworkFigures) -> str:
    """Return which arcs hold theta where it is, by load and by dual price."""
    count, arcs = int(figures.full.sum()), len(figures.full)
    if figures.theta <= 0:
        return ""
    if count == arcs:
        return "All arcs are equally full, so only shorter routes or more links would lower it."
    priced = int((figures.prices > 0).sum())
    held = f", and {counted(priced, 'arc')} {'has' if priced == 1 else 'have'} a price in its proof" if priced else ""
    return f"{counted(count, 'arc')} of {arcs:,} {'is' if count == 1 else 'are'} at the largest utilisation{held}."


# Figures.


def facts(result: Result[Any, Any], figures: NetworkFigures) -> list[Fact]:
    """Return the figures by key; those without a name are for programs alone."""
    topology, objective = figures.topology, result.objective
    farthest, mean = diameter_and_mean_hops(topology)
    moore = moore_hops(topology)
    apart = "some servers have no path"
    least = apart if farthest is None else f"Moore bound {moore[0]}" if moore else ""
    least_mean = apart if mean is None else f"Moore bound {number(moore[1])}" if moore else ""
    of_links = routing_bound(result, figures)
    balance = figures.mean_utilisation / figures.theta if figures.theta > 0 else 0.0
    theta = Fact("theta", "theta, largest link utilisation", figures.theta, number, _spread(figures))
    rows = [
        theta,
        Fact("lambda", "lambda, throughput", figures.throughput, lambda v: f"{v:.4g}",
             "1/theta: all demand can be scaled by so much"),
        Fact("routing_bound", "bound of these links" if of_links < figures.theta * (1 - FULL) else "", of_links, number,
             card=False),
        Fact("diameter", "diameter", farthest, lambda v: "–" if v is None else counted(v, "hop"), least),
        Fact("mean_hops", "mean hops of all pairs", mean, lambda v: "–" if v is None else number(v), least_mean),
        Fact("", "mean hops of the demand", figures.travelled_hops, number,
             "" if figures.least_hops == mean else f"on shortest paths {number(figures.least_hops)}"),
        Fact("", "mean utilisation over theta", balance, percent, "100 % when all links are full alike",
             card=not figures.full.all()),
        Fact("servers", "", topology.servers),
        Fact("degree", "", topology.degree),
        Fact("links", "", int(topology.multiplicity.sum())),
        *robust_facts(figures),
    ]  # fmt: skip
    if objective.name not in THETAS:
        unit = objective.unit
        first = Fact("", objective_text(objective.name), objective.value, lambda v: f"{number(v)} {unit}".rstrip())
        rows.insert(0, first)
    if len(figures.thetas) > 1:
        mode = "one for all" if figures.mode == "common" else "one for each"
        rows += [
            Fact("thetas", "demands", list(figures.thetas), lambda v: f"{len(v):,}, routing: {mode}", card=False),
            Fact("routing", "", figures.mode),
        ]
    return rows


def routing_bound(result: Result[Any, Any], figures: NetworkFigures) -> float:
    """Return the bound of these links: that of the head where the links are given."""
    return float(result.bound.value) if result.kind == "routing" else figures.routing_bound


def _spread(figures: NetworkFigures) -> str:
    thetas = figures.thetas
    if len(thetas) == 1:
        return ""
    mean, least = number(sum(thetas) / len(thetas)), number(min(thetas))
    return f"demand {figures.worst} of {len(thetas):,}; mean {mean}, lowest {least}"


def robust_facts(figures: NetworkFigures) -> list[Fact]:
    robust = figures.robustness
    if robust is None:
        return []
    tail, head = robust.worst_link
    best = "optimal" if robust.worst_theta <= robust.bound.value * (1 + 1e-6) else "not proven to be least"
    claim, before = robust.claimed_bound, robust.nominal_worst_theta
    price = figures.theta / robust.nominal_theta - 1 if robust.nominal_theta > 0 else 0.0
    limit = "" if robust.within_percent is None else f", at most {robust.within_percent:g} % allowed"
    rows = [
        Fact("robustness", "", robust_document(robust)),
        Fact("", "theta, worst single link failure", robust.worst_theta, number, f"link {tail}-{head}; {best}"),
        Fact("", "bound on it, every topology", robust.bound,
             lambda bound: f"{number(bound.value)} ({bound.proved_by})", card=False),
        Fact("", "price of robustness", price,
             lambda v: f"{percent(v)} above {number(robust.nominal_theta)} without failure{limit}", card=False),
        Fact("", "worst failure without robustness", before,
             lambda v: "some demand is cut off" if v is None else number(v), card=False),
    ]  # fmt: skip
    if claim is not None:
        text = f"{number(claim.value)} ({claim.proved_by})"
        rows.insert(3, Fact("", "claimed bound on it", claim.value, lambda _: text, card=False))
    return rows


def robust_document(robust: RobustFigures) -> dict[str, Any]:
    document = {
        "worst_theta": robust.worst_theta,
        "worst_link": list(robust.worst_link),
        "bound": _bound_document(robust.bound),
        "within_percent": robust.within_percent,
        "nominal_theta": robust.nominal_theta,
        "nominal_worst_theta": robust.nominal_worst_theta,
    }
    claim = robust.claimed_bound
    return document if claim is None else document | {"claimed_bound": _bound_document(claim)}


def _bound_document(bound: Bound) -> dict[str, Any]:
    return {"value": bound.value, "proved_by": bound.argument.value, "verified": bound.verified}


# Topology.


def link_count(topology: Topology) -> str:
    arcs = int(topology.multiplicity.sum())
    if topology.links is LinkDirection.UNIDIRECTIONAL:
        return f"{counted(arcs, 'fibre')}, unidirectional"
    return f"{counted(arcs // 2, 'fibre pair')} ({arcs:,} arcs), bidirectional"


def topology_section(figures: NetworkFigures) -> Section:
    """Return the picture of the links by load, or their matrix where they are many, and facts beside it."""
    topology = figures.topology
    table = facts_table(figures)
    n, title = topology.servers, "Utilisation of the links"
    if n > MOST_DRAWN:
        picture = Plot(lambda: adjacency_plot(n, topology.arcs, figures.utilisation, title, "of a link", number))
        block = -(-n // MAX_CELLS)
        note = "Row: sender, column: receiver. A cell is dark where the link from one to the other is busy."
        cells = "" if block == 1 else f" A cell is the sum over {block} × {block} servers."
        return Section("Topology", [Side([picture, table])], note + cells)
    picture = Plot(lambda: network_plot(figures))
    return Section("Topology", [Side([picture, table])], legend=legend(figures))


def legend(figures: NetworkFigures) -> list[Swatch]:
    """Return the colours of the links: by part of their rate where it is known, else by part of the busiest."""
    if rated(figures):
        sent = "" if figures.sent == 1.0 else f" ({percent(figures.sent)} of the demand sent)"
        return [Swatch(css, text + (sent if css == "u5" else "")) for css, text in utilisation_legend()]
    names = ("up to a third of the busiest", "up to two thirds", "above two thirds")
    return [Swatch(css, name) for (css, _), name in zip(NEUTRAL, names, strict=True)]


def load_class(figures: NetworkFigures, part: float) -> str:
    """Return the colour class of a load: part of its capacity, or of the largest."""
    return use_class(part) if rated(figures) else next(css for css, limit in NEUTRAL if part <= limit)


def network_plot(figures: NetworkFigures) -> Markup:
    """Draw servers and links; the colour of a link is its load."""

    def text(arc: int) -> str:
        relative, use = float(figures.relative[arc]), float(figures.utilisation[arc])
        return (
            f"utilisation {number(use)}, {percent(relative)} of theta, {percent(float(figures.prices[arc]))} of proof"
        )

    topology = figures.topology
    part = figures.utilisation * figures.sent if rated(figures) else figures.relative
    return topology_svg(
        topology, find_links(topology), part, text, lambda value: load_class(figures, value), by_use=True
    )


def facts_table(figures: NetworkFigures) -> Table:
    """Return what is particular about the links; what is as usual is left out."""
    topology, use = figures.topology, figures.utilisation
    parallel = int((topology.multiplicity > 1).sum())
    spread = ", ".join(map(number, (use.max(), figures.mean_utilisation, use.min())))
    rows = [("utilisation: highest, mean, lowest", spread)]
    if topology.offsets:
        rows.append(("offsets at every server", ", ".join(map(str, topology.offsets))))
    if topology.rates is not None:
        least, largest = float(topology.rates.min()), float(topology.rates.max())
        rows.append(("capacities of arcs", f"{number(least)} to {number(largest)}, in the unit of the demand"))
    elif figures.problem.link_gbps is not None:
        rows.append(("rate of a link", f"{figures.problem.link_gbps:g} Gbit/s each way"))
    if parallel:
        rows.append(("arcs with parallel links", f"{parallel:,}"))
    if (topology.switches >= 0).any() and dark_ports(topology):
        rows.append(("dark interfaces", f"{dark_ports(topology):,}"))
    return Table("topology_facts", (Column("name", ""), Column("value", "")), rows, terminal_rows=0)


# Load.


def proof(figures: NetworkFigures) -> str:
    """Return what proves the bound of these links."""
    return "prices of the arcs for each demand" if figures.problem.common else "lengths of the arcs"


def load_blocks(result: Result[Any, Any], figures: NetworkFigures) -> list[Block]:
    """Return the sorted loads, and the fullest arcs with their weight in the proof."""
    use = figures.utilisation
    if not use.max() > 0:
        return []

    def css(value: float) -> str:
        part = value * figures.sent if rated(figures) else value / float(use.max())
        return load_class(figures, part)

    chart = Plot(
        lambda: sorted_chart(use, "", 1.0, "Utilisation of the arcs, sorted", css), "Utilisation, load over capacity"
    )
    shown = [arc_table(figures)] if figures.full.all() else [Side([chart, arc_table(figures)])]
    return [*shown, bottleneck_text(result, figures), LENGTHS]


LENGTHS = (
    "Length: dual price of an arc, the longest being 1. The lengths prove the bound of these links: demand times "
    "shortest distance, summed, over capacity times length, summed. Of proof: part of that last sum."
)


def arc_table(figures: NetworkFigures) -> Table:
    """Return the fullest arcs; among arcs that are full alike, those that weigh most in the proof come first."""
    topology, lengths = figures.topology, figures.lengths
    longest = float(lengths.max(initial=0.0)) or 1.0
    order = np.lexsort((-figures.prices, -np.round(figures.relative, 6)))[:LISTED_ARCS]
    columns = (
        Column("arc", "fullest arcs", lambda arc: f"{arc[0]} → {arc[1]}"),
        Column("links", "links", number=True),
        Column("utilisation", "utilisation", number, number=True),
        Column("of_theta", "of theta", percent, number=True),
        Column("length", "length", number, number=True),
        Column("of_proof", "of proof", percent, number=True),
    )
    rows = [
        (
            topology.arcs[a].tolist(),
            int(topology.multiplicity[a]),
            float(figures.utilisation[a]),
            float(figures.relative[a]),
            float(lengths[a]) / longest,
            float(figures.prices[a]),
        )
        for a in order.tolist()
    ]
    return Table("fullest_arcs", columns, rows, terminal_rows=0)


def bottleneck_text(result: Result[Any, Any], figures: NetworkFigures) -> str:
    """Return what the prices say of the full arcs."""
    busiest, priced = figures.full, figures.prices > 0
    if not priced.any():
        return "No arc has a length, so they prove nothing."
    if (priced & ~busiest).any():
        return f"Full arcs have {percent(float(figures.prices[busiest].sum()))} of the weight in the proof."
    tight = routing_bound(result, figures) >= figures.theta * (1.0 - FULL)
    more = ": theta cannot fall unless some of them gain capacity" if tight else ""
    return f"All arcs with a length in the proof are full{more}."


# Distances.


def distance_table(figures: NetworkFigures) -> Table:
    """Return a row for each distance or class of distances, ascending; pairs without a path come last."""
    hops, demand, topology = figures.hops, figures.demand, figures.topology
    n = topology.servers
    off = ~np.eye(n, dtype=bool)
    farthest = int(hops.max())
    joined = off & (hops > 0)
    pairs = np.bincount(hops[joined], minlength=farthest + 1)[1:]
    carried = np.bincount(hops[joined], weights=demand[joined], minlength=farthest + 1)[1:]
    moore = n * np.array(moore_counts(topology, farthest), dtype=np.int64)
    total, all_pairs = float(demand.sum()) or 1.0, n * (n - 1)
    size = -(-farthest // HOP_ROWS) or 1
    starts = np.arange(0, farthest, size)
    sums = [np.add.reduceat(column, starts).tolist() if farthest else [] for column in (pairs, moore, carried)]
    rows: list[tuple[Any, ...]] = []
    for start, count, largest, amount in zip(starts.tolist(), *sums, strict=True):
        end = min(start + size, farthest)
        name = str(end) if end == start + 1 else f"{start + 1}–{end}"
        rows.append((name, count, count / all_pairs, largest, amount / total, (count, largest)))
    cut = int((off & (hops < 0)).sum())
    if cut:
        amount = float(demand[off & (hops < 0)].sum()) / total
        rows.append(("no path", cut, cut / all_pairs, None, amount, (cut, None)))
    widest = max(max(count, largest or 0) for *_, (count, largest) in rows) or 1

    def bar(value: tuple[int, int | None]) -> Markup:
        count, largest = value
        marks = [element("rect", class_="c-bwd", width=percentage(count / widest), height="12")]
        if largest is not None:
            x = percentage(largest / widest)
            marks.append(element("line", class_="moore", x1=x, x2=x, y1="0", y2="12"))
        return element("svg", *marks, class_="wide", height="12", aria_hidden="true")

    columns = (
        Column("hops", "hops", number=True),
        Column("pairs", "ordered pairs", lambda count: f"{count:,}", number=True),
        Column("share", "share", percent, number=True),
        Column("moore", "Moore tree", lambda count: "–" if count is None else f"{count:,}", number=True),
        Column("demand", "demand", percent, number=True),
        Column("bar", "", html=bar),
    )
    note = "The mark in a bar is the Moore tree: no network of this degree has more pairs within any number of hops."
    return Table("distances", columns, rows, note=note, terminal_rows=0)


def hop_text(figures: NetworkFigures) -> str:
    least = figures.least_hops
    detour = figures.travelled_hops / least - 1.0 if least > 0 else 0.0
    return f"Detours add {percent(detour)} to the hops of the demand." if detour >= 0.0005 else "There are no detours."


# Demand.


def demand_blocks(figures: NetworkFigures) -> list[Block]:
    """Return the picture of the demand; of several their mean, the worst, and theta of each."""
    if not (figures.demand > 0).any():
        return []
    several = len(figures.thetas) > 1
    plots: list[Block] = [Plot(lambda: matrix_plot(figures.demand), "Mean of all demands" if several else "")]
    if several:
        worst, thetas = figures.worst, np.array(figures.thetas)
        title = f"Demand {worst}, the worst: theta {number(figures.theta)}"
        if (figures.problem.demands[worst] > 0).any():
            plots.append(Plot(lambda: matrix_plot(figures.problem.demands[worst]), title))
        largest = float(thetas.max()) or 1.0
        css = use_class if rated(figures) else (lambda value: load_class(figures, value / largest))
        label, of = "Theta of the demands, sorted", "demands, worst first"
        if thetas.max() > 0:
            plots.append(Plot(lambda: sorted_chart(thetas, "", 1.0, label, css, of), "Theta of each demand"))
    return [Side(plots)] if len(plots) > 1 else plots


def matrix_plot(demand: np.ndarray[Any, Any]) -> Markup:
    """Draw a demand, on a logarithmic scale where its entries differ much."""
    wide = float(demand.max()) > SPREAD * float(demand[demand > 0].min())
    return intensity_plot(demand, "Demand", UNIT, number, LOGARITHMIC if wide else LINEAR)


def demand_text(figures: NetworkFigures) -> str:
    demand, n = figures.demand, figures.topology.servers
    pairs = int(np.count_nonzero(demand))
    sent, received = demand.sum(axis=1), demand.sum(axis=0)
    mean = f"On the mean of {len(figures.thetas):,} demands " if len(figures.thetas) > 1 else ""
    text = (
        f"{mean}{number(float(demand.sum()))} {UNIT} in all between {counted(pairs, 'ordered pair')} of "
        f"{n * (n - 1):,}. Server {int(np.argmax(sent))} sends most, {number(float(sent.max()))}; "
        f"server {int(np.argmax(received))} receives most, {number(float(received.max()))}."
    )
    block = -(-n // MAX_CELLS)
    return text if block == 1 else f"{text} A cell stands for {block} × {block} servers."


# Switches.

SWITCHES = (
    "Interface j of every server is wired to switch j; the permutation says to which server each server sends. −1 in "
    "the copied list is a dark port."
)


def copy_button(text: str) -> Markup:
    return element("button", "copy list", type="button", class_="copy screen", data_copy=text)


def switch_blocks(topology: Topology) -> list[Block]:
    if not (topology.switches >= 0).any():
        return []
    columns = (
        Column("figure", "", html=lambda figure: figure),
        Column("switch", "switch", number=True),
        Column("kind", "permutation"),
        Column("pairs", "sends to"),
        Column("list", "", html=copy_button),
    )
    rows = [(figure, index, kind, pairs, copied) for index, kind, figure, pairs, copied in switch_rows(topology)]
    return [Table("switches", columns, rows, terminal_rows=0)]
