"""The page of an allocation: rates of the transfers, use of the links, what every server sends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup

from formulations.bandwidth_allocation import network_of, shares_of
from topoopt.core.allocation import GBIT_BYTES, AllocationPlan, AllocationProblem
from topoopt.core.arrays import Floats
from topoopt.core.result import Columns, Objective, Result, links_of
from topoopt.page.charts import gauge, sorted_chart, use_class, utilisation_legend
from topoopt.page.networks import MOST_DRAWN, DrawnLink, topology_svg
from topoopt.page.render import Column, Fact, Page, Plot, Section, Swatch, Table
from topoopt.page.text import counted, objective_text, percent, possible_improvement, rejection, shortened
from topoopt.page.text import number as plain_number

FULL = 1e-6
"""Part of a capacity that may be free on a resource that is called full."""

NO_FLOW = 1e-10
"""Part of the largest capacity below which a rate to a next hop is rounding."""

OWN_LIMIT = "its own limit"


ServerRate = tuple[int, int, tuple[tuple[int, float], ...]]
"""What one server sends towards one destination: server, destination, (neighbour, Gbit/s) by neighbour.

It is the rate to configure there: of the traffic of the server, and of that of others that passes through.
"""


@dataclass(frozen=True, eq=False)
class AllocationFigures:
    """The figures of a plan; arrays are by transfer (T), arc (m) or resource (m+2n)."""

    problem: AllocationProblem
    plan: AllocationPlan

    @cached_property
    def rates_gbps(self) -> Floats:
        """float64[T], over all routes of a transfer, added in their order."""
        routes = np.split(self.plan.route_gbps, np.flatnonzero(np.diff(self.problem.owner)) + 1)
        return np.array([sum(rates.tolist()) for rates in routes])

    @cached_property
    def completion_times_s(self) -> tuple[float | None, ...]:
        """Size over rate of each transfer; None without a size, and without a rate."""
        rows = zip(self.problem.transfers, self.rates_gbps.tolist(), strict=True)
        return tuple(
            t.size_bytes / GBIT_BYTES / rate if t.size_bytes is not None and rate > 0 else None for t, rate in rows
        )

    @property
    def completion_time_s(self) -> float | None:
        """When the last transfer ends at these rates; None if some transfer has no size."""
        times = [time for time in self.completion_times_s if time is not None]
        return max(times) if len(times) == len(self.completion_times_s) else None

    @cached_property
    def objective(self) -> Objective:
        """What the goal of the problem makes of the rates."""
        return objective_of(self.problem, self)

    @cached_property
    def server_rates(self) -> tuple[ServerRate, ...]:
        """What every server sends towards each destination, by next hop; sorted."""
        problem = self.problem
        arcs, n = problem.topology.arcs.astype(np.int64), problem.topology.servers
        routes = [(route, transfer.destination) for transfer in problem.transfers for route in transfer.routes]
        lengths = [len(route.arcs) for route, _ in routes]
        used = np.concatenate([route.arcs for route, _ in routes])
        gbps = np.concatenate([route.fraction for route, _ in routes]) * np.repeat(self.plan.route_gbps, lengths)
        destination = np.repeat(np.array([to for _, to in routes], dtype=np.int64), lengths)
        hop, index = np.unique((arcs[used, 0] * n + destination) * n + arcs[used, 1], return_inverse=True)
        gbps = np.bincount(index, gbps)
        flows = gbps > NO_FLOW * float(problem.capacity_gbps.max())
        (pair, head), gbps = np.divmod(hop[flows], n), gbps[flows]
        hops = list(zip(head.tolist(), gbps.tolist(), strict=True))
        pairs, first = np.unique(pair, return_index=True)
        rows = zip(pairs.tolist(), first.tolist(), [*first[1:].tolist(), len(hops)], strict=True)
        return tuple((pair // n, pair % n, tuple(hops[low:high])) for pair, low, high in rows)

    @cached_property
    def link_gbps(self) -> Floats:
        """float64[m], rate on every arc, of all destinations."""
        n, arcs = self.problem.topology.servers, self.problem.topology.arcs.astype(np.int64)
        hops = [(server * n + hop, rate) for server, _, next_hops in self.server_rates for hop, rate in next_hops]
        index, rates = np.array([hop for hop, _ in hops], dtype=np.int64), np.array([rate for _, rate in hops])
        return np.asarray(np.bincount(index, rates, n * n)[arcs[:, 0] * n + arcs[:, 1]], dtype=np.float64)

    @property
    def utilisation(self) -> Floats:
        """float64[m], rate over capacity of every arc."""
        return self.link_gbps / self.problem.capacity_gbps

    @property
    def full_links(self) -> list[int]:
        """Indices of the arcs without free capacity."""
        return np.flatnonzero(self.utilisation >= 1 - FULL).tolist()

    @cached_property
    def limited_by(self) -> tuple[tuple[str, ...], ...]:
        """What is full on the routes of each transfer, in the order of the resources, or its own limit.

        With several routes, a full resource on any of them is named; every route has one, or the transfer is at its
        limit.
        """
        network, rates = network_of(self.problem), self.plan.route_gbps
        load = np.bincount(network.shared, network.use * rates[network.route], len(network.capacity))
        full = (load >= network.capacity * (1 - FULL))[network.shared]
        pairs = np.unique(network.owner[network.route[full]] * len(network.names) + network.shared[full])
        owner, resource = np.divmod(pairs, len(network.names))
        by_transfer = np.split(resource, np.searchsorted(owner, range(1, len(self.problem.transfers))))
        rows = zip(by_transfer, self.rates_gbps.tolist(), self.problem.transfers, strict=True)
        return tuple(
            (*(network.names[r] for r in resources), *([OWN_LIMIT] if rate >= t.max_gbps * (1 - FULL) else []))
            for resources, rate, t in rows
        )

    @cached_property
    def local_gbps(self) -> dict[tuple[int, int], float]:
        """Traffic of a server itself, by server and destination; what else it sends there is forwarded."""
        local: dict[tuple[int, int], float] = {}
        for transfer, rate in zip(self.problem.transfers, self.rates_gbps.tolist(), strict=True):
            pair = (transfer.source, transfer.destination)
            local[pair] = local.get(pair, 0.0) + rate
        return local

    def columns(self) -> dict[str, Columns]:
        """Tables of links, transfers and servers, as columns."""
        transfers = self.problem.transfers
        load = {
            "rate_gbps": self.link_gbps,
            "capacity_gbps": self.problem.capacity_gbps,
            "utilisation": self.utilisation,
        }
        return {
            "links": {**links_of(self.problem.topology), **load},
            "transfers": {
                "name": [transfer.name for transfer in transfers],
                "source": [transfer.source for transfer in transfers],
                "destination": [transfer.destination for transfer in transfers],
                "rate_gbps": self.rates_gbps,
                "completion_time_s": list(self.completion_times_s),
                "limited_by": [list(names) for names in self.limited_by],
            },
            "servers": {
                "server": [server for server, _, _ in self.server_rates],
                "destination": [destination for _, destination, _ in self.server_rates],
                "rate_gbps": [float(sum(rate for _, rate in hops)) for _, _, hops in self.server_rates],
            },
        }


def objective_of(problem: AllocationProblem, figures: AllocationFigures) -> Objective:
    """Return the last completion, the weighted sum, or the lowest level of the rates."""
    if problem.goal == "completion-time":
        return Objective("completion_time", max(time or np.inf for time in figures.completion_times_s), "s")
    shares, rates = shares_of(problem), figures.rates_gbps
    if problem.wants_total:
        return Objective("weighted_total_rate", float(shares.gain @ rates), "Gbit/s")
    lowest = float(((rates - shares.base) / shares.gain).min())
    if problem.goal == "min-guarantee":  # a surplus is never negative, but for rounding
        return Objective("min_surplus", max(lowest, 0.0), "Gbit/s")
    weighted = problem.goal == "weighted"
    return Objective("min_weighted_rate" if weighted else "min_rate", lowest, "Gbit/s")


GOALS = {
    "max-min": "no rate can grow unless one that is no larger falls",
    "weighted": "no rate over weight can grow unless one that is no larger falls",
    "min-guarantee": "every transfer gets its guaranteed rate, the remainder is shared",
    "completion-time": "all transfers start together; the last one ends as early as possible, then the one before",
}

LEAST = {
    "min_rate": "the slowest gets {value}",
    "min_weighted_rate": "the slowest gets {value} for each unit of its weight",
    "min_surplus": "each gets its guarantee and at least {value} for each unit of its weight above it",
    "weighted_total_rate": "their rates, weighted, sum to {value}",
    "completion_time": "the last ends after {value}",
}
"""The objective as what it means for the transfers."""

BUSIEST_LINKS = 16
NAMED_LIMITS = 4
ROUNDING = 1e-9


def number(value: float) -> str:
    """Write a rate; its last digits, which are rounding, do not decide how many are shown."""
    return plain_number(float(f"{value:.9g}"))


def gbps(value: float) -> str:
    return f"{number(value)} Gbit/s"


def seconds(value: float | None) -> str:
    """Write a time; a dash for a transfer without a size."""
    return "–" if value is None else f"{number(value)} s"


def page(result: Result[AllocationProblem, AllocationPlan]) -> Page:
    """Return the page of a result that has its problem."""
    figures: AllocationFigures = result.figures
    problem = figures.problem
    topology, legend = problem.topology, [Swatch(*row) for row in utilisation_legend()]
    return Page(
        subtitle=f"{counted(len(problem.transfers), 'transfer')} · {counted(topology.servers, 'server')} · "
        f"{counted(len(topology.arcs), 'arc')}, {topology.links.value} · {problem.goal}",
        answer=answer(result, figures),
        cause=cause(figures) if result.check.ok else "",
        facts=facts(result, figures),
        sections=(
            Section(
                "Rates",
                [rates_table(figures)],
                "Slowest first. A full link, or its own limit, keeps a transfer from more.",
            ),
            Section("Links", links_blocks(figures), legend=legend if topology.servers <= MOST_DRAWN else ()),
            Section("Servers", [servers_table(figures)], "Gbit/s. Forwarded traffic is that of other servers."),
        ),
        provenance=(
            (
                "goal",
                problem.goal + (f", surplus: {problem.surplus}" if problem.goal == "min-guarantee" else ""),
            ),
            ("topology", topology.origin or "not recorded"),
        ),
        next_commands=(("topoopt explain", "what limits the rates, and what more capacity would give"),),
    )


def answer(result: Result[AllocationProblem, AllocationPlan], figures: AllocationFigures) -> str:
    """Return what the transfers get, all together and the slowest, and whether that is proven."""
    objective, count = result.objective, len(figures.rates_gbps)
    shortest = objective.name == "completion_time"
    best = possible_improvement(result, "allocation", "faster" if shortest else "better")
    shared = (
        f"{counted(count, 'transfer')} {'shares' if count == 1 else 'share'} {gbps(float(figures.rates_gbps.sum()))}"
    )
    least = LEAST[objective.name].format(value=f"{number(objective.value)} {objective.unit}")
    return rejection(result.check) or f"{shared[0].upper()}{shared[1:]}: {least}; {best}."


def cause(figures: AllocationFigures) -> str:
    """Return what keeps the slowest transfer from more, the first of equals."""
    slowest = int(np.argmin(figures.rates_gbps))
    limits = figures.limited_by[slowest]
    name = shortened(figures.problem.transfers[slowest].name, 48)
    return f"Transfer {name} is the slowest, kept from more by {limits_text(limits)}." if limits else ""


def limits_text(names: tuple[str, ...]) -> str:
    """Return what is full on the routes of a transfer, the first of them."""
    more = f" and {len(names) - NAMED_LIMITS} more" if len(names) > NAMED_LIMITS else ""
    return (", ".join(names[:NAMED_LIMITS]) or "nothing") + more


def facts(result: Result[AllocationProblem, AllocationPlan], figures: AllocationFigures) -> tuple[Fact, ...]:
    """Return the figures by key; those without a name are for programs alone."""
    problem, rates, objective = figures.problem, figures.rates_gbps, result.objective
    arcs, full = problem.topology.arcs, figures.full_links
    spread = f"{counted(len(rates), 'transfer')}, {number(float(rates.min()))} to {gbps(float(rates.max()))}"
    mean = f"mean utilisation {percent(float(figures.utilisation.mean()))}"
    timed = objective.name != "completion_time" and figures.completion_time_s is not None
    by_name = {t.name: rate for t, rate in zip(problem.transfers, rates.tolist(), strict=True)}
    return (
        Fact("", objective_text(objective.name), objective.value, lambda v: f"{number(v)} {objective.unit}",
             GOALS[problem.goal]),
        Fact("total_rate_gbps", "all rates together", float(rates.sum()), gbps, spread),
        Fact("min_rate_gbps", "smallest rate", float(rates.min()), gbps, card=False),
        Fact("bottleneck_links", "full links", [arcs[arc].tolist() for arc in full],
             lambda links: f"{len(links)} of {len(arcs)}", mean),
        Fact("completion_time_s", "completion time" if timed else "", figures.completion_time_s, seconds),
        Fact("goal", "", problem.goal),
        Fact("surplus", "", problem.surplus),
        Fact("rates_gbps", "", by_name),
        Fact("largest_link_utilisation", "", float(figures.utilisation.max())),
        Fact("servers", "", problem.topology.servers),
        Fact("links", "", int(problem.topology.multiplicity.sum())),
        Fact("transfers", "", len(rates)),
    )  # fmt: skip


def rates_table(figures: AllocationFigures) -> Table:
    """Return a row for each transfer, slowest first."""
    transfers, rates = figures.problem.transfers, figures.rates_gbps
    largest = float(rates.max()) or 1.0

    columns = [
        Column("name", "transfer", lambda name: shortened(name, 48)),
        Column("pair", "from → to", lambda pair: f"{pair[0]} → {pair[1]}"),
        Column("bar", "", html=lambda rate: gauge(rate / largest, gbps(rate))),
        Column("rate_gbps", "Gbit/s", number, number=True),
        Column("limited_by", "full on its routes", limits_text),
    ]
    order = sorted(range(len(rates)), key=lambda t: rates[t])
    rows: list[list[Any]] = [
        [transfers[t].name, (transfers[t].source, transfers[t].destination), rates.item(t), rates.item(t),
         figures.limited_by[t]]
        for t in order
    ]  # fmt: skip
    if any(time is not None for time in figures.completion_times_s):
        columns.append(Column("completion_time_s", "ends after", seconds, number=True))
        rows = [[*row, figures.completion_times_s[t]] for row, t in zip(rows, order, strict=True)]
    return Table("transfer_rates", columns, rows, terminal_rows=20)


def links_blocks(figures: AllocationFigures) -> list[Table | Plot]:
    """Return the picture of the network, the sorted utilisation, and the busiest links."""
    problem, use = figures.problem, figures.utilisation
    arcs, order = problem.topology.arcs, np.argsort(-np.round(use, 9), kind="stable")
    columns = (
        Column("link", "link", lambda ends: f"{ends[0]} → {ends[1]}"),
        Column("rate_gbps", "Gbit/s", number, number=True),
        Column("capacity_gbps", "capacity", number, number=True),
        Column("utilisation", "utilisation", percent, number=True),
    )
    rows = [
        (arcs[a].tolist(), figures.link_gbps.item(a), problem.capacity_gbps.item(a), use.item(a))
        for a in order.tolist()
    ]
    chart = [
        Plot(
            lambda: sorted_chart(use, "%", 0.01, "Utilisation of the links, sorted", use_class),
            "Utilisation of the links, %",
        )
    ]
    table = Table("link_rates", columns, rows, max_rows=BUSIEST_LINKS, terminal_rows=0)
    return [Plot(lambda: network_plot(figures)), *(chart if use.max() > 0 else []), table]


def servers_table(figures: AllocationFigures) -> Table:
    columns = (
        Column("server", "server"),
        Column("destination", "destination"),
        Column("rate_gbps", "rate", number, number=True),
        Column("local_gbps", "local", number, number=True),
        Column("forwarded_gbps", "forwarded", number, number=True),
        Column("next_hops", "next hops", lambda hops: ", ".join(f"{hop}: {number(rate)}" for hop, rate in hops)),
    )
    rows = []
    for server, destination, next_hops in figures.server_rates:
        local, rate = figures.local_gbps.get((server, destination), 0.0), float(sum(rate for _, rate in next_hops))
        forwarded = rate - local if rate - local > ROUNDING * rate else 0.0
        rows.append((server, destination, rate, local, forwarded, next_hops))
    return Table("server_rates", columns, rows, max_rows=200, terminal_rows=0)


def network_plot(figures: AllocationFigures) -> Markup:
    """Draw the servers and a line for each arc, coloured by utilisation, the fullest on top."""
    topology, use = figures.problem.topology, figures.utilisation
    arcs = enumerate(topology.arcs.tolist())
    links = tuple(DrawnLink(tail, head, 0, (arc,), "matching") for arc, (tail, head) in arcs)

    def text(arc: int) -> str:
        rate, capacity = figures.link_gbps.item(arc), figures.problem.capacity_gbps.item(arc)
        return f"{number(rate)} of {number(capacity)} Gbit/s, {percent(float(use[arc]))}"

    return topology_svg(topology, links, use, text, unit="of the capacity", named=lambda _: ("", ""), by_use=True)
