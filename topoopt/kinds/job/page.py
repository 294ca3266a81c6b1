"""The page of a job: how long an iteration takes and why, the plan, and what it asks of the network."""

from __future__ import annotations

import math
from typing import Any

from topoopt.core.arrays import GIB
from topoopt.core.cluster import LinkDirection, LinkSharing
from topoopt.core.job import Span
from topoopt.core.price_book import PLAN_FABRIC, iterations_per_s_per_million_usd
from topoopt.kinds.job.figures import FAT_TREE, TIME_MODEL, JobFigures, JobResult, gap_parts, reached
from topoopt.kinds.job.plots import (
    MAX_LABEL,
    breakdown_bar,
    breakdown_terms,
    critical_strip,
    path_lengths_plot,
    search_legend,
    search_plot,
    search_points,
    search_text,
    timeline,
    topology_legend,
    topology_plot,
)
from topoopt.kinds.job.tables import (
    busiest_links,
    fabrics_table,
    link_facts,
    link_loads,
    rings_table,
    routes_table,
    schedules_table,
    steps_table,
    strategy_table,
    switches_table,
    terms_table,
    traffic_plots,
)
from topoopt.page.charts import sorted_chart, use_class
from topoopt.page.networks import dark_ports, diameter_and_mean_hops
from topoopt.page.render import Block, Column, Fact, Page, Plot, Section, Side, Swatch, Table
from topoopt.page.text import (
    byte_size,
    compared,
    counted,
    milliseconds,
    number,
    objective_text,
    percent,
    possible_improvement,
    quotient,
    ratio,
    rejection,
    shortened,
)

SAME_PRICE = 0.02
"""Prices of networks closer than this part are the same, for people."""
SENT = ("transfer", "allreduce")
"""Kinds of steps that are no compute."""
CAUSE_SHARE = 0.1
"""Part of the iteration from which a single step is its cause."""
UNCONNECTED = "not all servers are connected"
BYTE_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

SPLITS = (
    "Split x s: the batch is cut in s; ch: output channels; red: input channels. Times are those of one part on one "
    "server; of folded rows they are summed over the operators of the server that has most of them, since servers work "
    "side by side. Weights are those of all parts."
)
BARS = (
    Swatch("c-fwd", "forward", "box"),
    Swatch("c-bwd", "backward", "box"),
    Swatch("c-mp", "server sends model-parallel transfers", "box"),
    Swatch("c-ar", "AllReduce", "box"),
    Swatch("c-critical", "on the critical path", "box"),
)


def page(result: JobResult) -> Page:
    """Return the page of a result that has its problem."""
    figures: JobFigures = result.figures
    return Page(
        subtitle=subtitle(figures),
        answer=answer(result, figures),
        cause=cause(figures),
        facts=facts(result, figures),
        sections=sections(result, figures),
        provenance=provenance(result, figures),
        next_commands=(("topoopt explain", "what limits the plan, and what faster links would give"),),
    )


def subtitle(figures: JobFigures) -> str:
    """Say job and cluster in one line."""
    return f"{figures.workload.name}, batch {figures.workload.samples:,} · {_cluster_text(figures)}"


def _cluster_text(figures: JobFigures) -> str:
    cluster = figures.cluster
    return (
        f"{counted(cluster.servers, 'server')} × {counted(cluster.gpus_per_server, 'GPU')} · "
        f"{cluster.degree} × {cluster.link_gbps:g} Gbit/s {cluster.links.value} per server"
    )


def answer(result: JobResult, figures: JobFigures) -> str:
    """Say how long an iteration takes, what the network gains, and how much faster any plan could be."""
    own = milliseconds(result.objective.value)
    least = possible_improvement(result, "plan on these servers", "faster")
    return rejection(result.check) or f"One iteration takes {own}{_against(result, figures)}; {least}."


def _against(result: JobResult, figures: JobFigures) -> str:
    """Compare with the fat-tree if there is one, else with the plan that the search began with."""
    for line in figures.baselines:
        if line.fabric == FAT_TREE and math.isfinite(line.iteration_time_ms):
            words = compared(result.objective.value, line.iteration_time_ms)[1]
            return f", {words} on a fat-tree{_price(figures)}"
    if result.log is None or result.log.initial_ms is None:
        return ""
    return f", {compared(result.objective.value, result.log.initial_ms)[1]} data parallelism"


def _price(figures: JobFigures) -> str:
    prices = figures.prices
    own, other = (None, None) if prices is None else (prices.of(PLAN_FABRIC), prices.of(FAT_TREE))
    if own is None or other is None or own <= 0:
        return ""
    if abs(other / own - 1) <= SAME_PRICE:
        return " of the same price"
    return f" at {ratio(other / own)} the price"


def cause(figures: JobFigures) -> str:
    """Say what the iteration mostly consists of: one long step, or the largest term of the breakdown."""
    total, path = figures.evaluation.iteration_time_ms, figures.evaluation.critical_path
    if total <= 0 or not path:
        return ""
    step = max(path, key=lambda span: span.end_ms - span.start_ms)
    share = (step.end_ms - step.start_ms) / total
    name, _, _, part, meaning = max(breakdown_terms(figures), key=lambda term: term[2])
    if share >= CAUSE_SHARE:
        whole = "" if part <= share or step.kind not in SENT else f"; {percent(part)} is {name} in all"
        return f"{percent(share)} of it is {_one_step(step)}{whole}."
    return f"{percent(part)} of it is {name}, {meaning}; no step takes more than {percent(share)}."


def _one_step(step: Span) -> str:
    label = shortened(step.label, MAX_LABEL)
    if step.kind == "transfer":
        operator, _, route = step.label.rpartition(" ")
        source, _, target = route.partition("→")
        return f"one transfer, {shortened(operator, MAX_LABEL)} from server {source} to {target}"
    if step.kind == "allreduce":
        return f"one AllReduce, of the gradients of {label}"
    return f"the {step.kind} pass of {label} on server {step.lane}"


def memory_text(figures: JobFigures) -> str:
    """Say what a GPU of the fullest server needs, and what it has."""
    needed, limit = f"{number(figures.gpu_memory_bytes / GIB)} GiB", figures.cluster.gpu_memory_bytes
    where = "of each GPU on the fullest server"
    if limit is None:
        return f"{needed} {where}, not checked against a limit"
    return f"{needed} of {number(limit / GIB)} GiB {where}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def facts(result: JobResult, figures: JobFigures) -> tuple[Fact, ...]:
    """Return the figures by key, times in ms; a fabric that cannot be built for the cluster has None.

    Those without a name are for programs alone.
    """
    terms, (diameter, mean) = figures.breakdown, diameter_and_mean_hops(figures.plan.topology)
    own, cluster = result.objective.value, figures.cluster
    rate = quotient(1000.0 * figures.workload.samples, own)
    gap = gap_parts(result, reached(figures))
    sharing = cluster.link_sharing
    breakdown = {
        "compute": _finite(terms.compute_ms),
        "model_parallel": _finite(terms.model_parallel_ms),
        "allreduce": _finite(terms.allreduce_ms),
        "idle": _finite(terms.idle_ms),
        "exposed_communication": _finite(terms.exposed_communication_ms),
        "busiest_server_compute": _finite(figures.busiest_server_compute_ms),
    }
    made_of = " + ".join(f"{name} {number(ms)}" for name, _, ms, *_ in breakdown_terms(figures) if ms)
    memory = {
        "needed": figures.gpu_memory_bytes / GIB,
        "limit": None if cluster.gpu_memory_bytes is None else cluster.gpu_memory_bytes / GIB,
    }
    times = {
        **dict.fromkeys(choice.name for choice in figures.problem.baselines.choices),
        **{line.fabric: _finite(line.iteration_time_ms) for line in figures.baselines},
    }
    initial = None if result.log is None or result.log.initial_ms is None else _finite(result.log.initial_ms)
    traffic = figures.traffic_summary()
    sent = traffic["demand_bytes"]

    def distances(far: int | None) -> str:
        if far is None or mean is None:
            return UNCONNECTED
        return f"{far} (bound {number(figures.diameter_bound)}), {number(mean)} hops on average"

    return (
        Fact("", objective_text(result.objective.name), own, milliseconds, f"{number(rate)} samples/s"),
        Fact("", "job", figures.workload, lambda job: f"{job.name}, batch {job.samples:,}", card=False),
        Fact("", "cluster", cluster, lambda _: _cluster_text(figures), card=False),
        Fact("iteration_time_ms", "", _finite(own)),
        Fact("breakdown_ms", "made of", breakdown, lambda _: f"{made_of or '0'} ms along the critical path",
             card=False),
        Fact("", "gap likelier closed by" if gap else "", gap.likelier if gap else "", card=False),
        Fact("", "busiest server", figures.busiest_server_compute_ms, lambda ms: f"computes {milliseconds(ms)}",
             card=False),
        Fact("link_sharing", "" if sharing is LinkSharing.FIFO else "link sharing", sharing.value, card=False),
        Fact("initial_ms", "" if initial is None else "starting plan", initial, lambda ms: milliseconds(ms or 0.0),
             card=False),
        Fact("bandwidth_tax", "bandwidth tax", _finite(figures.bandwidth_tax), lambda tax: ratio(tax or math.nan),
             "bytes on links by bytes demanded"),
        Fact("diameter", "diameter", diameter, distances, card=False),
        Fact("mean_hops", "", mean),
        Fact("diameter_bound", "", _finite(figures.diameter_bound)),
        Fact("gpu_memory_gib", "memory", memory, lambda _: memory_text(figures), card=False),
        Fact("baselines_ms", "", times),
        Fact("prices", "", _prices(result, figures)),
        Fact("demand_bytes", "traffic", sent,
             lambda _: f"AllReduce {byte_size(sent['allreduce'])}, model-parallel {byte_size(sent['model_parallel'])}",
             card=False),
        *(Fact(key, "", traffic[key]) for key in ("mean_path_hops", "path_hops", "link_bytes")),
    )  # fmt: skip


def _prices(result: JobResult, figures: JobFigures) -> dict[str, Any] | None:
    prices = figures.prices
    if prices is None:
        return None
    times = {line.fabric: line.iteration_time_ms for line in figures.baselines}
    times[PLAN_FABRIC] = result.objective.value
    return {
        "book": prices.book,
        "book_sha256": prices.book_sha256,
        "usd": dict(prices.usd),
        "iterations_per_s_per_million_usd": {
            fabric: iterations_per_s_per_million_usd(times[fabric], usd)
            for fabric, usd in prices.usd
            if fabric in times
        },
    }


def sections(result: JobResult, figures: JobFigures) -> tuple[Section, ...]:
    """Return the sections of the page; those without blocks are left out."""
    path = figures.evaluation.critical_path
    points = [] if result.log is None else search_points(result.log.points)
    plan = figures.plan
    traffic: list[Block] = [Side(plots)] if (plots := traffic_plots(figures)) else []
    if traffic and plan.rings and not plan.schedules and len(plan.routes.source):
        text = "Routed pairs and model-parallel bytes by the hops of their paths."
        traffic.append(Plot(lambda: path_lengths_plot(figures), text, "Path lengths"))
    tables: list[Block] = [
        *([rings_table(figures)] if plan.rings else []),
        *([schedules_table(figures)] if plan.schedules else []),
        *([routes_table(figures)] if len(plan.routes.source) else []),
    ]
    time: list[Block] = [Plot(lambda: breakdown_bar(figures)), terms_table(figures), fabrics_table(result, figures)]
    drawing, notes = timeline(figures)
    return (
        Section("Time", time),
        Section("Topology", topology_blocks(figures), legend=topology_legend(figures)),
        Section("Strategy", [strategy_table(figures)], SPLITS),
        Section("Traffic", traffic, "Of one iteration."),
        Section("Links", link_blocks(figures)),
        Section("Timeline", [Plot(lambda: drawing), *notes] if drawing else [], legend=BARS),
        Section("Critical path", [Plot(lambda: critical_strip(figures)), steps_table(figures)] if path else []),
        Section(
            "Search",
            [Plot(lambda: search_plot(points, result.bound.value), search_text(points))] if points else [],
            legend=search_legend(points),
        ),
        Section("Switches", [switches_table(figures)],
                "Interface j of every server is on optical switch j. -1 in a copied list is a dark port."),
        Section("Rings and routes", tables),
    )  # fmt: skip


def topology_blocks(figures: JobFigures) -> list[Block]:
    topology = figures.plan.topology
    directed = int(topology.multiplicity.sum())
    paired = topology.links is LinkDirection.BIDIRECTIONAL
    count = f"{counted(directed // 2, 'fibre pair')} ({directed:,} arcs)" if paired else counted(directed, "fibre")
    diameter, mean = diameter_and_mean_hops(topology)
    bound = f"{diameter} (bound d·n^(1/d) = {number(figures.diameter_bound)})"
    rows = (
        ("made by", topology.origin or "not recorded"),
        ("offsets at every server", ", ".join(map(str, topology.offsets)) or "none (not a circulant)"),
        ("servers, interfaces each", f"{topology.servers}, {topology.degree}"),
        ("links", f"{count}, {topology.links.value}"),
        ("dark interfaces", f"{dark_ports(topology):,}"),
        ("diameter", UNCONNECTED if diameter is None else bound),
        ("mean hops", "–" if mean is None else number(mean)),
    )
    names = Table("topology", (Column("name", ""), Column("value", "")), rows, terminal_rows=0)
    return [Side([Plot(lambda: topology_plot(figures)), names])]


def link_blocks(figures: JobFigures) -> list[Block]:
    """Return the loads of the links, sorted, and the busiest ones; nothing where no link carries anything."""
    loads, use = link_loads(figures), figures.link_utilisation
    if not len(loads) or float(loads.max()) <= 0:
        return []
    scale, unit = next(row for row in BYTE_UNITS if float(loads.max()) >= row[0] or row[0] == 1.0)
    charts: list[Block] = [
        Plot(
            lambda: sorted_chart(loads, unit, scale, "Bytes a link, sorted", lambda _: "bytes"),
            title=f"Sent over a link, {unit}",
        )
    ]
    if float(use.max()) > 0:
        chart = Plot(
            lambda: sorted_chart(use, "%", 0.01, "Utilisation of the links, sorted", use_class),
            title="Utilisation over the iteration, %",
        )
        charts.append(chart)
    return [Side(charts), Side([link_facts(figures), busiest_links(figures)])]


def provenance(result: JobResult, figures: JobFigures) -> tuple[tuple[str, str], ...]:
    cluster, prices = figures.cluster, figures.prices
    book = "networks not priced: the price book is not at hand"
    gap = gap_parts(result, reached(figures))
    return (
        *(() if gap is None else (("gap", gap.words),)),
        ("time model", TIME_MODEL),
        ("hop latency", f"{cluster.hop_latency_us:g} µs"),
        ("AllReduce ring round latency", f"{cluster.ring_round_latency_us:g} µs"),
        ("link sharing", cluster.link_sharing.value),
        ("order of compute", cluster.compute_order.value),
        ("inside a server", f"{cluster.intra_server_gbps:g} Gbit/s, {cluster.local_allreduce} AllReduce"),
        ("price book", book if prices is None else f"{prices.book}, SHA-256 {prices.book_sha256}"),
    )
