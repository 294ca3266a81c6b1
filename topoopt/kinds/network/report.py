"""The report of a solution of kind `routing` or `topology`: one HTML file that needs nothing else."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from topoopt.core.cluster import LinkDirection
from topoopt.core.network import RoutingMode
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.topology import Topology
from topoopt.core.verdict import Status
from topoopt.drawing.distances import diameter_and_mean_hops
from topoopt.drawing.format import counted, number, percent, precise
from topoopt.drawing.heat_map import MAX_CELLS, heat_map
from topoopt.drawing.page import Card, closing_cards, render_page, run_rows, versions_row
from topoopt.drawing.sentences import bound_text
from topoopt.drawing.sorted_chart import sorted_chart
from topoopt.drawing.switches import SwitchRow, switch_rows
from topoopt.drawing.topology_picture import DrawnLink, dark_ports, families, find_links, topology_svg
from topoopt.drawing.utilisation import use_class, utilisation_legend
from topoopt.kinds.network.answer import answer
from topoopt.kinds.network.figures import NetworkFigures
from topoopt.kinds.network.hops import hop_rows, hop_text, moore_hops
from topoopt.kinds.network.links import UNIT, network_links

TEMPLATE = "kinds/network/page.html.j2"
MOST_LINKS = 10_000
"""Of more links only the fullest are drawn."""


def verdict_cards(solution: NetworkSolution) -> tuple[Card, ...]:
    """theta, lambda, gap, verdict of the checker."""
    best = solution.status is Status.OPTIMAL
    every = "this topology" if solution.kind == "routing" else "every topology allowed"
    return (
        Card("theta, largest link utilisation", number(solution.theta), f"status: {solution.status.value}", "main"),
        Card("lambda, throughput", f"{solution.throughput:.4g}", "1/theta: all demand can be scaled by so much"),
        Card(
            "gap to the lower bound",
            percent(solution.gap),
            f"theta ≥ {number(solution.bound.value)} for {every}, proved by: {solution.bound.proved_by}",
            "good" if best else "",
        ),
        *closing_cards(solution),
    )


def network_cards(figures: NetworkFigures) -> tuple[Card, ...]:
    """Distances, detours and balance."""
    solution = figures.solution
    moore = moore_hops(solution.topology)
    least = "no network of this degree is connected" if moore is None else f"Moore bound {moore[0]}"
    mean = "" if moore is None else f"Moore bound {number(moore[1])}"
    apart = "some servers have no path"
    far, middle = diameter_and_mean_hops(solution.topology)
    balance = figures.mean_utilisation / solution.theta if solution.theta > 0 else 0.0
    return (
        Card("diameter", "–" if far is None else f"{far} hops", apart if far is None else least),
        Card("mean hops of all pairs", "–" if middle is None else number(middle), apart if middle is None else mean),
        Card(
            "mean hops of the demand", number(figures.travelled_hops), f"on shortest paths {number(figures.least_hops)}"
        ),
        Card("mean utilisation over theta", percent(balance), "100 % when all links are full alike"),
    )


def _link_count(topology: Topology) -> str:
    arcs = int(topology.multiplicity.sum())
    return f"{counted(arcs, 'fibre')}, unidirectional" if topology.links is LinkDirection.UNIDIRECTIONAL else (
        f"{counted(arcs // 2, 'fibre pair')} ({arcs:,} arcs), bidirectional"
    )  # fmt: skip


def topology_facts(figures: NetworkFigures) -> tuple[tuple[str, str], ...]:
    """Name and value pairs beside the picture."""
    solution, topology = figures.solution, figures.solution.topology
    parallel = int((topology.multiplicity > 1).sum())
    facts = [
        ("made by", topology.origin or "not recorded"),
        ("servers, degree", f"{topology.servers:,}, {topology.degree}"),
        ("links", _link_count(topology)),
        ("arcs with parallel links", f"{parallel:,}"),
        ("offsets at every server", ", ".join(str(p) for p in topology.offsets) or "none (not a circulant)"),
        ("utilisation: highest, mean, lowest", ", ".join(map(number, _spread(figures)))),
        ("bound of this topology", f"theta ≥ {number(solution.network.routing_bound)}, proved by {_proof(solution)}"),
    ]
    if topology.rates is not None:
        least, most = float(topology.rates.min()), float(topology.rates.max())
        facts.insert(3, ("capacities of arcs", f"{number(least)} to {number(most)}, in the unit of the demand"))
    elif solution.link_gbps is not None:
        facts.insert(3, ("rate of a link", f"{solution.link_gbps:g} Gbit/s each way"))
    facts += [*several_rows(solution), *robust_rows(solution)]
    if (topology.switches >= 0).any():
        facts.append(("dark interfaces", f"{dark_ports(topology):,}"))
    return tuple(facts)


def several_rows(solution: NetworkSolution) -> tuple[tuple[str, str], ...]:
    """Name and value pairs of several demands; none for one."""
    thetas = solution.thetas
    if len(thetas) == 1:
        return ()
    worst = max(range(len(thetas)), key=lambda k: thetas[k])
    spread = f"{number(max(thetas))} (demand {worst}), {number(sum(thetas) / len(thetas))}, {number(min(thetas))}"
    mode = "one for all" if solution.mode is RoutingMode.COMMON else "one for each"
    return (("demands, routing", f"{len(thetas):,}, {mode}"), ("theta of them: highest, mean, lowest", spread))


def robust_rows(solution: NetworkSolution) -> tuple[tuple[str, str], ...]:
    """Name and value pairs of a robust design: what it stands, and at what price."""
    found = solution.network.robustness
    if found is None:
        return ()
    claim = found.claimed_bound
    proof = "optimal" if found.worst_theta <= found.bound.value * (1 + 1e-6) else "not proven to be least"
    tail, head = found.worst_link
    price = solution.theta / found.nominal_theta - 1 if found.nominal_theta > 0 else 0.0
    before = found.nominal_worst_theta
    limit = "" if found.within_percent is None else f", at most {found.within_percent:g} % allowed"
    return (
        ("theta, worst single link failure", f"{number(found.worst_theta)} (link {tail}-{head}; {proof})"),
        ("bound on it, every topology", f"{number(found.bound.value)} ({found.bound.proved_by})"),
        *([] if claim is None else [("claimed bound on it", f"{number(claim.value)} ({claim.proved_by})")]),
        ("price of robustness", f"{percent(price)} above {number(found.nominal_theta)} without failure{limit}"),
        ("worst failure without robustness", "some demand is cut off" if before is None else number(before)),
    )


def _spread(figures: NetworkFigures) -> tuple[float, float, float]:
    use = figures.utilisation
    return float(use.max()), figures.mean_utilisation, float(use.min())


def _proof(solution: NetworkSolution) -> str:
    return "lengths of the arcs" if solution.mode is RoutingMode.ADAPTED else "prices of the arcs for each demand"


def drawn_links(figures: NetworkFigures) -> tuple[tuple[DrawnLink, ...], tuple[DrawnLink, ...]]:
    """All links, and those of them that are drawn."""
    links = find_links(figures.solution.topology)
    if len(links) <= MOST_LINKS:
        return links, links
    use = [float(figures.relative[list(link.arcs)].max()) for link in links]
    fullest = np.sort(np.argsort(-np.array(use), kind="stable")[:MOST_LINKS])
    return links, tuple(links[place] for place in fullest.tolist())


def demand_text(figures: NetworkFigures) -> str:
    """The demand in one line."""
    demand = figures.demand
    n = len(demand)
    pairs = int(np.count_nonzero(demand))
    sender = int(np.argmax(demand.sum(axis=1)))
    receiver = int(np.argmax(demand.sum(axis=0)))
    mean = f"On the mean of {len(figures.flows):,} demands " if len(figures.flows) > 1 else ""
    text = (
        f"{mean}{number(float(demand.sum()))} {UNIT} in all between {counted(pairs, 'ordered pair')} of "
        f"{n * (n - 1):,}, as "
        f"the routes deliver it. Server {sender} sends most, {number(float(demand[sender].sum()))}; server {receiver} "
        f"receives most, {number(float(demand[:, receiver].sum()))}."
    )
    block = -(-n // MAX_CELLS)
    return text if block == 1 else f"{text} A cell stands for {block} × {block} servers."


def provenance(solution: NetworkSolution) -> tuple[tuple[str, str], ...]:
    """Where the figures come from."""
    return (
        *run_rows(solution),
        (
            "lower bound",
            bound_text(solution),
        ),
        (
            "bound of this topology",
            f"{precise(solution.network.routing_bound)}, proved by: {_proof(solution)}",
        ),
        ("check again, without a solver", "topoopt check INSTANCE solution.json"),
        versions_row(solution),
    )


def _sent_text(figures: NetworkFigures) -> str:
    """How much of the demand the colours are about, where not all of it."""
    return "" if figures.sent == 1.0 else f", {percent(figures.sent)} of the demand sent"


def _worst_demand(figures: NetworkFigures) -> tuple[str, Markup] | None:
    """Of several demands the one with the largest theta: its name and its picture."""
    if len(figures.flows) == 1:
        return None
    worst, demand = figures.worst_demand
    title = f"Demand {worst}, the worst: theta {number(figures.solution.thetas[worst])}"
    return title, heat_map(demand, title, UNIT, number) if (demand > 0).any() else Markup("")


def _theta_chart(solution: NetworkSolution) -> Markup:
    """Of several demands, each by its theta."""
    if len(solution.thetas) == 1:
        return Markup("")
    thetas = np.array(solution.thetas)
    return sorted_chart(thetas, "", 1.0, "Theta of the demands, sorted", use_class, "demands, worst first")


def _switches(topology: Topology) -> tuple[SwitchRow, ...]:
    return switch_rows(topology) if (topology.switches >= 0).any() else ()


def render_network_html(solution: NetworkSolution) -> str:
    """The whole report as one HTML page.

    Everything is inline (SVG, CSS, a little script); names from the instance are escaped. Same solution, same bytes.
    """
    figures = NetworkFigures(solution)
    topology = solution.topology
    links, drawn = drawn_links(figures)

    def arc_text(arc: int) -> str:
        relative, use = float(figures.relative[arc]), float(figures.utilisation[arc])
        return (
            f"utilisation {number(use)}, {percent(relative)} of theta, {percent(float(figures.prices[arc]))} of proof"
        )

    demand = figures.demand
    return render_page(
        TEMPLATE,
        answer(solution),
        solution.check,
        solution=solution,
        subtitle=f"{counted(topology.servers, 'server')} of degree {topology.degree} · {_link_count(topology)}",
        verdict=verdict_cards(solution),
        comparisons=network_cards(figures),
        topology=topology_svg(topology, drawn, figures.busy, arc_text),
        families=families(topology, links, "other links"),
        uses=utilisation_legend(),
        first="use",
        use_name="links by utilisation" + _sent_text(figures),
        facts=topology_facts(figures),
        left_out=len(links) - len(drawn),
        links=network_links(figures),
        hops=hop_rows(figures),
        hop_text=hop_text(figures),
        thetas=sorted_chart(
            np.array(solution.thetas), "", 1.0, "Theta of the demands, sorted", use_class, "demands, worst first"
        )
        if len(solution.thetas) > 1
        else "",
        demand=heat_map(demand, "Demand", UNIT, number) if (demand > 0).any() else "",
        demand_text=demand_text(figures),
        worst=_worst_demand(figures),
        switches=_switches(topology),
        provenance=provenance(solution),
    )
