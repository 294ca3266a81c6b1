"""The report of a solution: one HTML file that needs nothing else, no network and no second file."""

from __future__ import annotations

from topoopt.core.cluster import LinkDirection
from topoopt.core.job_solution import JobSolution
from topoopt.core.verdict import Status
from topoopt.drawing.distances import diameter_and_mean_hops
from topoopt.drawing.format import byte_size, counted, milliseconds, number, percent, quotient, ratio
from topoopt.drawing.page import Card, check_card, render_page, run_rows, versions_row
from topoopt.drawing.sentences import bound_text, compared, objective_text
from topoopt.drawing.switches import switch_rows
from topoopt.drawing.topology_picture import dark_ports, families, find_links, topology_svg
from topoopt.drawing.utilisation import utilisation_legend
from topoopt.kinds.job.answer import answer
from topoopt.kinds.job.convergence import convergence
from topoopt.kinds.job.gap import gap_parts, reached
from topoopt.kinds.job.heat_maps import traffic_panels
from topoopt.kinds.job.link_rows import link_charts, statistics_rows
from topoopt.kinds.job.route_rows import ring_rows, route_summary, schedule_rows
from topoopt.kinds.job.strategy_table import strategy_rows
from topoopt.kinds.job.timeline import timeline
from topoopt.kinds.job.times import (
    breakdown_bar,
    breakdown_terms,
    critical_strip,
    fabric_bars,
    longest_steps,
    memory_text,
    path_summary,
)

TEMPLATE = "kinds/job/page.html.j2"
UNCONNECTED = "not all servers are connected"


def verdict_cards(solution: JobSolution) -> tuple[Card, ...]:
    """Iteration time, gap, verdict of the checker."""
    own = solution.objective.value
    rate = quotient(1000.0 * solution.samples, own)
    gap = gap_parts(solution, reached(solution))
    closed = "" if gap is None else f", the gap likelier closed by {gap.likelier}"
    return (
        Card(
            objective_text(solution.objective.name),
            f"{number(own)} {solution.objective.unit}",
            f"time model {solution.evaluation.time_model}; {number(rate)} samples/s",
            "main",
        ),
        Card(
            "gap to the lower bound",
            percent(solution.gap),
            f"bound {milliseconds(solution.bound.value)}; the plan is {solution.status.value}{closed}",
            "good" if solution.status is Status.OPTIMAL else "",
        ),
        check_card(solution.check),
    )


def comparison_cards(solution: JobSolution) -> tuple[Card, ...]:
    """The plan against its start and against each baseline."""
    own = solution.objective.value
    others = [] if solution.initial_ms is None else [("starting plan", solution.initial_ms)]
    others += [(line.fabric, line.iteration_time_ms) for line in solution.baselines]
    return tuple(
        Card(f"against {name}", compared(own, time_ms)[0], f"{name}: {milliseconds(time_ms)}")
        for name, time_ms in others
    )


def topology_facts(solution: JobSolution) -> tuple[tuple[str, str], ...]:
    """Name and value pairs beside the picture."""
    topology = solution.plan.topology
    directed = int(topology.multiplicity.sum())
    two_way = topology.links is LinkDirection.BIDIRECTIONAL
    count = f"{counted(directed // 2, 'fibre pair')} ({directed:,} arcs)" if two_way else counted(directed, "fibre")
    offsets = ", ".join(str(p) for p in topology.offsets)
    far, mean = diameter_and_mean_hops(topology)
    return (
        ("made by", topology.origin or "not recorded"),
        ("offsets at every server", offsets or "none (not a circulant)"),
        ("servers, interfaces each", f"{topology.servers}, {topology.degree}"),
        ("links", f"{count}, {topology.links.value}"),
        ("dark interfaces", f"{dark_ports(topology):,}"),
        ("diameter", UNCONNECTED if far is None else f"{far} (bound d·n^(1/d) = {number(solution.diameter_bound)})"),
        ("mean hops", "–" if mean is None else number(mean)),
        ("bandwidth tax", ratio(solution.bandwidth_tax)),
    )


def subtitle(solution: JobSolution) -> str:
    """Job and cluster in one line."""
    cluster = solution.cluster
    return (
        f"{solution.workload_name}, batch {solution.samples:,} · {counted(cluster.servers, 'server')} × "
        f"{counted(cluster.gpus_per_server, 'GPU')} · {cluster.degree} × {cluster.link_gbps:g} Gbit/s "
        f"{cluster.links.value} per server"
    )


def provenance(solution: JobSolution) -> tuple[tuple[str, str], ...]:
    """Where the figures come from."""
    cluster = solution.cluster
    book = solution.prices
    prices = "networks not priced" if book is None else f"{book.book}, SHA-256 {book.book_sha256}"
    gap = gap_parts(solution, reached(solution))
    return (
        *run_rows(solution),
        ("lower bound", bound_text(solution)),
        *(() if gap is None else (("gap", gap.words),)),
        ("time model", solution.evaluation.time_model),
        ("hop latency", f"{cluster.hop_latency_us:g} µs"),
        ("AllReduce ring round latency", f"{cluster.ring_round_latency_us:g} µs"),
        ("link sharing", cluster.link_sharing.value),
        ("inside a server", f"{cluster.intra_server_gbps:g} Gbit/s, {cluster.local_allreduce.value} AllReduce"),
        ("memory", memory_text(solution)),
        ("price book", prices),
        versions_row(solution),
    )


def render_html(solution: JobSolution) -> str:
    """The whole report as one HTML page.

    Everything is inline (SVG, CSS, a little script); names from the instance are escaped. Same solution, same bytes.
    """
    plan, evaluation = solution.plan, solution.evaluation
    links, use = find_links(plan.topology, plan.rings), solution.link_utilisation

    def arc_text(arc: int) -> str:
        size, busy = float(evaluation.link_bytes[arc]), float(use[arc])
        return f"{byte_size(size)}, busy {percent(busy)}"

    return render_page(
        TEMPLATE,
        answer(solution),
        solution.check,
        solution=solution,
        subtitle=subtitle(solution),
        verdict=verdict_cards(solution),
        comparisons=comparison_cards(solution),
        breakdown_bar=breakdown_bar(solution),
        terms=breakdown_terms(solution),
        fabrics=fabric_bars(solution),
        topology=topology_svg(plan.topology, links, use, arc_text),
        families=families(plan.topology, links),
        uses=utilisation_legend(),
        first="family",
        use_name="links by utilisation",
        facts=topology_facts(solution),
        strategy=strategy_rows(solution),
        panels=traffic_panels(solution),
        link_facts=statistics_rows(solution),
        links=link_charts(solution),
        timeline=timeline(solution),
        critical_strip=critical_strip(solution),
        steps=longest_steps(solution),
        path_text=path_summary(solution),
        convergence=convergence(solution),
        switches=switch_rows(plan.topology),
        rings=ring_rows(solution),
        schedules=schedule_rows(solution),
        routes=route_summary(solution),
        provenance=provenance(solution),
        ms=milliseconds,
        percent=percent,
    )
