"""Tables of the page of a job: terms, fabrics, strategy, links, rings, routes and switches."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.collective import BREADTH_FIRST, FEWEST_STEPS, TREES, GroupSchedule
from topoopt.core.job import OperatorChoice, Span
from topoopt.core.price_book import PLAN_FABRIC, iterations_per_s_per_million_usd
from topoopt.core.workload import GroupRings, Ring, ring_pair_bytes
from topoopt.kinds.job.figures import JobFigures, JobResult
from topoopt.kinds.job.plots import MAX_LABEL, SPAN_NAMES, breakdown_terms
from topoopt.page.charts import MAX_CELLS, element, gauge, in_blocks, intensity_plot, joined, percentage
from topoopt.page.networks import switch_rows
from topoopt.page.render import Block, Column, Plot, Table
from topoopt.page.text import byte_size, counted, milliseconds, number, percent, quotient, ratio, server_set, shortened

LONGEST_STEPS = 15
MAX_LAYER = 40
"""Rows of a layer that is looked for again behind itself."""
FEW_ROWS = 40
"""With more rows than this, runs of different kinds on the same servers, or of one kind on any, are folded too."""
MAX_NAME = 48
BUSIEST = 10
LISTED_JUMPS = 4
METHOD_NAMES = {TREES: "trees", BREADTH_FIRST: "breadth-first broadcast", FEWEST_STEPS: "whole shards in fewest steps"}


def terms_table(figures: JobFigures) -> Table:
    """Return the terms of the iteration time, and what they mean."""
    columns = (
        Column("term", "term"),
        Column("ms", "time", milliseconds, number=True),
        Column("share", "share", lambda share: "" if share is None else percent(share), number=True),
        Column("meaning", "what it is"),
    )
    terms = [(name, ms, share, text) for name, _, ms, share, text in breakdown_terms(figures) if ms]
    exposed = figures.breakdown.exposed_communication_ms
    busiest = "compute of the server with most of it; no term, since others may communicate meanwhile"
    totals = [
        ("exposed communication", exposed, None, "model-parallel and AllReduce together"),
        ("busiest server", figures.busiest_server_compute_ms, None, busiest),
    ]
    return Table("terms", columns, terms, "Iteration time along its critical path", totals=totals, terminal_rows=0)


def fabrics_table(result: JobResult, figures: JobFigures) -> Table:
    """Return this plan beside the lower bound, the starting plan and the other fabrics, fastest first."""
    own, prices = result.objective.value, figures.prices
    rows = [
        ("this plan", "plan", own, "strategy, topology and routes searched together"),
        ("lower bound", "bound", result.bound.value, result.bound.proved_by),
        *((line.fabric, "base", line.iteration_time_ms, line.description) for line in figures.baselines),
    ]
    if result.log is not None and result.log.initial_ms is not None:
        text = "data parallelism on TotientPerms, where the search began"
        rows.append(("starting plan", "start", result.log.initial_ms, text))
    rows.sort(key=lambda row: (row[2] if math.isfinite(row[2]) else math.inf, row[1] != "plan"))
    longest = max((row[2] for row in rows if math.isfinite(row[2])), default=0.0)

    def versus(row: tuple[str, float]) -> str:
        css, ms = row
        if css == "plan":
            return "–"
        return (
            (f"{percent((own - ms) / own)} below" if own > 0 else "–") if css == "bound" else ratio(quotient(ms, own))
        )

    def bar(row: tuple[str, float]) -> Markup:
        css, ms = row
        share = ms / longest if longest > 0 and math.isfinite(ms) else 0.0
        return gauge(share, milliseconds(ms), f"wide fabric {css}")

    columns = [
        Column("fabric", "fabric", lambda name: shortened(name, MAX_NAME)),
        Column("bar", "", html=bar),
        Column("iteration_time_ms", "iteration", milliseconds, number=True),
        Column("versus", "against this plan", versus, number=True),
        Column("description", "what it is"),
    ]
    listed: list[list[object]] = [[name, (css, ms), ms, (css, ms), text] for name, css, ms, text in rows]
    if prices is not None:
        columns += [
            Column("usd", "network, USD", lambda usd: "" if usd is None else f"{usd:,.0f}", number=True),
            Column("value", "iterations/s per million USD", lambda v: "" if v is None else number(v), number=True),
        ]
        for row, (name, css, ms, _) in zip(listed, rows, strict=True):
            usd = None if css == "bound" else prices.of(name if css == "base" else PLAN_FABRIC)
            row += [usd, iterations_per_s_per_million_usd(ms, usd)]
    title = "The same job on other fabrics: compared, not checked" if figures.baselines else ""
    return Table("fabrics", columns, listed, title, terminal_rows=20)


Run = tuple[OperatorChoice, ...]
"""Operators with the same choice: consecutive ones, or the same one of each layer."""


def _alike(run: list[OperatorChoice], operator: OperatorChoice) -> bool:
    # Unsplit operators of one kind (embedding tables) belong together wherever they stand.
    last = run[-1]
    same = operator.kind == last.kind and operator.split == last.split
    return same and (operator.servers == last.servers or len(operator.servers) == len(last.servers) == 1)


def _roughly_alike(run: list[OperatorChoice], operator: OperatorChoice) -> bool:
    if operator.split != run[-1].split:
        return False
    one_kind = {member.kind for member in run} == {operator.kind}
    return one_kind or {member.servers for member in run} == {operator.servers}


def _fold(
    operators: tuple[OperatorChoice, ...], joins: Callable[[list[OperatorChoice], OperatorChoice], bool]
) -> list[Run]:
    runs: list[list[OperatorChoice]] = []
    for operator in operators:
        if runs and joins(runs[-1], operator):
            runs[-1].append(operator)
        else:
            runs.append([operator])
    return [tuple(run) for run in runs]


def _repeated(runs: list[Run]) -> list[Run]:
    """Layers that follow each other, alike in kinds, splits and places, as one layer: a row for each of its rows."""
    choices = [tuple((choice.kind, choice.split, choice.servers) for choice in run) for run in runs]
    folded: list[Run] = []
    at = 0
    while at < len(runs):
        height, count = _layer(choices, at)
        for row in range(at, at + height):
            same = runs[row : at + height * count : height]
            folded.append(tuple(operator for run in same for operator in run))
        at += height * count
    return folded


def _layer(choices: list[tuple[tuple[str, str, tuple[int, ...]], ...]], at: int) -> tuple[int, int]:
    """Rows of the layer that begins here and how often it follows itself: what folds most, of those the lowest."""
    best = 1, 1
    for height in range(1, min(MAX_LAYER, (len(choices) - at) // 2) + 1):
        count, layer = 1, choices[at : at + height]
        while choices[at + height * count : at + height * (count + 1)] == layer:
            count += 1
        if height * (count - 1) > best[0] * (best[1] - 1):
            best = height, count
    return best


def strategy_runs(figures: JobFigures) -> list[Run]:
    """Operators in workload order, neighbours of one kind, split and place folded, then layers that repeat; more
    boldly if many rows remain.
    """
    runs = _repeated(_fold(figures.operators, _alike))
    return runs if len(runs) <= FEW_ROWS else _fold(figures.operators, _roughly_alike)


def _kinds(run: Run) -> str:
    counts = Counter(operator.kind for operator in run)
    if len(counts) == 1:
        return shortened(run[0].kind, MAX_NAME)
    common = [f"{shortened(kind, 16)} {count}" for kind, count in counts.most_common(4)]
    return ", ".join(common) + (", …" if len(counts) > 4 else "")


def run_servers(run: Run, n: int) -> str:
    """Servers of a run: one set, or how many each and where in all."""
    if len({operator.servers for operator in run}) == 1:
        return server_set(run[0].servers, n)
    sizes = {len(operator.servers) for operator in run}
    union = {server for operator in run for server in operator.servers}
    size = f"{next(iter(sizes))} each" if len(sizes) == 1 else "various"
    return f"{size}, over {server_set(sorted(union), n)}"


def run_name(run: Run) -> str:
    """Names of the first and the last operator of a run, as `first … last`."""
    first, last = run[0].name, run[-1].name
    return shortened(first, MAX_NAME) if first == last else f"{shortened(first, 28)} … {shortened(last, 28)}"


def _busiest_ms(run: Run, field: str) -> float:
    """The sum over one server, which has more of the run than any other: servers work side by side."""
    total: dict[int, float] = defaultdict(float)
    for operator in run:
        for server in operator.servers:
            total[server] += getattr(operator, field)
    return max(total.values(), default=0.0)


def strategy_table(figures: JobFigures) -> Table:
    """Return the strategy in the order of the workload, runs of equal choices folded into one row.

    Times of a run are those of the server that has most of it; weights are sums.
    """
    n = figures.cluster.servers
    columns = (
        Column("operators", "operators"),
        Column("kind", "kind"),
        Column("split", "split"),
        Column("servers", "servers"),
        Column("forward_ms", "forward, a server", milliseconds, number=True),
        Column("backward_ms", "backward, a server", milliseconds, number=True),
        Column("weight_bytes", "weights", lambda size: byte_size(size) if size else "–", number=True),
    )
    rows, members = [], {}
    for index, run in enumerate(strategy_runs(figures)):
        first = run[0]
        weights = sum(operator.weight_bytes for operator in run)
        times = (_busiest_ms(run, "forward_ms"), _busiest_ms(run, "backward_ms"))
        rows.append((run_name(run), _kinds(run), first.split, run_servers(run, n), *times, weights))
        if len(run) > 1:
            members[index] = [_operator_row(operator, n) for operator in run]
    return Table("strategy", columns, rows, members=members, max_rows=1000, terminal_rows=16)


def _operator_row(operator: OperatorChoice, n: int) -> tuple[object, ...]:
    names = shortened(operator.name, MAX_NAME), shortened(operator.kind, MAX_NAME)
    times = operator.forward_ms, operator.backward_ms
    return (*names, operator.split, server_set(operator.servers, n), *times, operator.weight_bytes)


# Traffic and links.


def allreduce_bytes(figures: JobFigures) -> Floats:
    """Return float64[n, n], bytes that each ring member sends to the next, whatever servers forward them.

    With schedules it is all 0: the demand does not say which bytes are on rings.
    """
    n = figures.cluster.servers
    return np.zeros((n, n)) if figures.plan.schedules else ring_pair_bytes(figures.demand, figures.plan.rings, n)


def traffic_plots(figures: JobFigures) -> list[Block]:
    """Return who sends how much to whom, by AllReduce rings and by model-parallel transfers, as far as any is sent."""
    panels = (
        ("AllReduce, from ring member to ring member", allreduce_bytes(figures)),
        ("Model-parallel", figures.demand.model_parallel_bytes),
    )
    return [
        Plot(lambda m=matrix, t=title: intensity_plot(m, t), _traffic_text(matrix), title)  # type: ignore[misc]
        for title, matrix in panels
        if (matrix > 0).any()
    ]


def _traffic_text(matrix: Floats) -> str:
    n, busiest = len(matrix), int(np.argmax(matrix.sum(axis=1)))
    text = (
        f"{byte_size(float(matrix.sum()))} between {counted(int(np.count_nonzero(matrix)), 'ordered pair')} of "
        f"{n * (n - 1):,}; server {busiest} sends most, {byte_size(float(matrix[busiest].sum()))}."
    )
    block = in_blocks(matrix)[1]
    return text + (f" A cell stands for {block} × {block} servers." if n > MAX_CELLS else "")


@dataclass(frozen=True)
class LinkStatistics:
    """Loads of single links: bytes of an arc divided by its parallel links.

    `imbalance` is the largest load over the mean (1 when all are equal), NaN when nothing is carried.
    """

    arcs: int
    links: int
    mean_bytes: float
    max_bytes: float
    min_bytes: float
    imbalance: float
    mean_utilisation: float
    max_utilisation: float
    unused: int


def link_loads(figures: JobFigures) -> Floats:
    """float64[m], bytes a link of each arc."""
    return figures.evaluation.link_bytes / np.maximum(figures.plan.topology.multiplicity, 1)


def link_statistics(figures: JobFigures) -> LinkStatistics:
    """Mean, extremes and imbalance over all links (parallel links counted one by one)."""
    count = figures.plan.topology.multiplicity
    links = int(count.sum())
    loads, use = link_loads(figures), figures.link_utilisation
    mean = float(figures.evaluation.link_bytes.sum() / links) if links else 0.0
    return LinkStatistics(
        arcs=len(count),
        links=links,
        mean_bytes=mean,
        max_bytes=float(loads.max(initial=0.0)),
        min_bytes=float(loads.min()) if links else 0.0,
        imbalance=quotient(float(loads.max(initial=0.0)), mean),
        mean_utilisation=float((use * count).sum() / links) if links else 0.0,
        max_utilisation=float(use.max(initial=0.0)),
        unused=int(np.count_nonzero(loads == 0)),
    )


def link_facts(figures: JobFigures) -> Table:
    """Return the loads of the links in a few numbers."""
    links = link_statistics(figures)
    rows = (
        ("directed links", f"{links.links:,}" + (f" on {links.arcs:,} arcs" if links.arcs != links.links else "")),
        ("bytes a link, mean", byte_size(links.mean_bytes)),
        ("largest", byte_size(links.max_bytes)),
        ("smallest", byte_size(links.min_bytes)),
        ("imbalance (largest / mean)", ratio(links.imbalance)),
        ("utilisation, mean", percent(links.mean_utilisation)),
        ("utilisation, highest", percent(links.max_utilisation)),
        ("links that carry nothing", f"{links.unused:,}"),
    )
    return Table("link_facts", (Column("name", ""), Column("value", "")), rows, terminal_rows=0)


def busiest_links(figures: JobFigures) -> Table:
    loads, use, topology = link_loads(figures), figures.link_utilisation, figures.plan.topology
    columns = (
        Column("link", "most loaded", lambda endpoints: f"{endpoints[0]} → {endpoints[1]}"),
        Column("links", "parallel links", number=True),
        Column("bytes", "bytes a link", byte_size, number=True),
        Column("utilisation", "utilisation", percent, number=True),
    )
    rows = [
        (topology.arcs[arc].tolist(), topology.multiplicity.item(arc), loads.item(arc), use.item(arc))
        for arc in np.argsort(-loads, kind="stable").tolist()
    ]
    return Table("link_loads", columns, rows, max_rows=BUSIEST, terminal_rows=0)


# The critical path.


def _where(step: Span) -> str:
    if step.lane < 0:
        return "network"
    return f"from server {step.lane}" if step.kind == "transfer" else f"server {step.lane}"


def steps_table(figures: JobFigures) -> Table:
    """Return the steps of the critical path, longest first."""
    total, path = figures.evaluation.iteration_time_ms, figures.evaluation.critical_path
    columns = (
        Column("step", "step", number=True),
        Column("kind", "kind"),
        Column("operator", "operator", lambda label: shortened(label, MAX_LABEL)),
        Column("where", "where"),
        Column("start_ms", "starts at", milliseconds, number=True),
        Column("duration_ms", "takes", milliseconds, number=True),
        Column("share", "share", percent, number=True),
    )
    order = sorted(range(len(path)), key=lambda i: (path[i].start_ms - path[i].end_ms, i))
    rows = []
    for i in order:
        step = path[i]
        duration = step.end_ms - step.start_ms
        kind, share = SPAN_NAMES.get(step.kind, step.kind), duration / total if total > 0 else 0.0
        rows.append((i + 1, kind, step.label, _where(step), step.start_ms, duration, share))
    return Table("critical_path", columns, rows, max_rows=LONGEST_STEPS, terminal_rows=0)


# Rings, schedules, routes, switches.


def _jump(step: int, n: int) -> str:
    step %= n
    return f"+{step}" if 2 * step <= n else f"−{n - step}"


def ring_text(ring: Ring, n: int) -> str:
    """Offsets between neighbours of a ring, and the hops that realise them: `+5`, `+6 (+1 +5)`."""
    k = len(ring.order)
    steps = Counter(_jump(ring.order[(i + 1) % k] - ring.order[i], n) for i in range(k))
    listed = ", ".join(
        text if len(steps) == 1 else f"{text} ×{count}" for text, count in steps.most_common(LISTED_JUMPS)
    )
    if len(steps) > LISTED_JUMPS:
        listed += ", …"
    patterns = {tuple(_jump(b - a, n) for a, b in itertools.pairwise(path)) for path in ring.paths}
    hops = [len(path) - 1 for path in ring.paths]
    if max(hops, default=0) <= 1:
        return listed
    if len(patterns) == 1:
        return f"{listed} ({' '.join(next(iter(patterns)))})"
    return f"{listed} ({number(sum(hops) / len(hops))} hops on average)"


def rings_table(figures: JobFigures) -> Table:
    """Return AllReduce groups of equal size whose rings look the same as a row, largest groups first."""
    n = figures.cluster.servers
    payload: dict[tuple[int, ...], float] = {}
    for group in figures.demand.allreduce:
        payload[group.members] = payload.get(group.members, 0.0) + group.payload_bytes
    alike: dict[tuple[int, tuple[str, ...]], list[GroupRings]] = {}
    for rings in figures.plan.rings:
        texts = tuple(f"{ring_text(ring, n)}, carries {percent(ring.share)}" for ring in rings.rings)
        alike.setdefault((len(rings.members), texts), []).append(rings)
    rows = []
    for (size, texts), groups in sorted(alike.items(), key=lambda item: (-item[0][0], item[1][0].members)):
        sizes = [payload.get(rings.members, 0.0) for rings in groups]
        amount = byte_size(max(sizes))
        if min(sizes) < max(sizes):
            amount = f"{byte_size(min(sizes))} to {amount}"
        members = server_set(groups[0].members, n) + (f", and {len(groups) - 1} more" if len(groups) > 1 else "")
        rows.append((len(groups), size, members, amount + (" each" if len(groups) > 1 else ""), texts))

    def lines(texts: tuple[str, ...]) -> Markup:
        return joined([element("div", text) for text in texts])

    columns = (
        Column("groups", "groups", number=True),
        Column("size", "size", number=True),
        Column("members", "members"),
        Column("payload", "payload"),
        Column("rings", "rings: from a member to the next", html=lines),
    )
    return Table("rings", columns, rows, "AllReduce rings", max_rows=200, terminal_rows=0)


def schedules_table(figures: JobFigures) -> Table:
    """Return a row for each schedule, as in the plan."""

    def payloads(schedule: GroupSchedule) -> str:
        low, high = schedule.from_bytes, schedule.below_bytes
        if high is None:
            return f"from {byte_size(low)}" if low else "all"
        return f"{byte_size(low)} to below {byte_size(high)}"

    def method(schedule: GroupSchedule) -> str:
        name = METHOD_NAMES.get(schedule.method, schedule.method)
        return name if schedule.pieces == 1 else f"{name}, {counted(schedule.pieces, 'piece')} a block"

    n = figures.cluster.servers
    columns = (
        Column("size", "size", number=True),
        Column("members", "members"),
        Column("payloads", "payloads"),
        Column("schedule", "schedule"),
        Column("steps", "steps", number=True),
    )
    rows = [(len(s.members), server_set(s.members, n), payloads(s), method(s), s.steps) for s in figures.plan.schedules]
    return Table("schedules", columns, rows, "AllReduce schedules", max_rows=200, terminal_rows=0)


def routes_table(figures: JobFigures) -> Table:
    """Return the paths of model-parallel traffic by their number of hops."""
    hops, carried = figures.routed
    total, count, volume = float(carried.sum()), np.bincount(hops), np.bincount(hops, weights=carried)
    largest = float(volume.max())

    def bar(size: float) -> Markup:
        fill = element("rect", class_="c-mp", width=percentage(size / largest if largest > 0 else 0.0), height="10")
        return element("svg", fill, class_="wide", height="10", aria_hidden="true")

    columns = (
        Column("hops", "hops", number=True),
        Column("paths", "paths", lambda paths: f"{paths:,}", number=True),
        Column("bytes", "bytes", byte_size, number=True),
        Column("share", "share", percent, number=True),
        Column("bar", "", html=bar),
    )
    rows = [
        (hop, int(count[hop]), float(volume[hop]), float(volume[hop]) / total if total > 0 else 0.0, float(volume[hop]))
        for hop in range(len(count))
        if count[hop]
    ]
    return Table("route_hops", columns, rows, "Routes of model-parallel traffic", routes_text(figures), terminal_rows=0)


def routes_text(figures: JobFigures) -> str:
    """Say over how many paths model-parallel traffic goes, and how many hops a byte takes."""
    routes, (hops, carried) = figures.plan.routes, figures.routed
    total, split = float(carried.sum()), int(np.count_nonzero(np.diff(routes.pair_ptr) > 1))
    mean = float((carried * hops).sum() / total) if total > 0 else float(hops.mean())
    return (
        f"{counted(len(routes.source), 'ordered pair')} over {counted(len(routes.share), 'path')}; "
        f"{counted(split, 'pair')} split over several. A byte takes {number(mean)} hops on average, at most "
        f"{int(hops.max())}."
    )


def switches_table(figures: JobFigures) -> Table:
    """Return the permutation of every optical switch."""

    def settings(row: tuple[str, str]) -> Markup:
        copy = element("button", "copy list", type="button", class_="copy screen", data_copy=row[1])
        listed = element("p", row[0], class_="permutation")
        return joined([copy, element("details", element("summary", "permutation"), listed)])

    columns = (
        Column("switch", "switch", number=True),
        Column("picture", "", html=lambda figure: figure),
        Column("kind", "what it does"),
        Column("settings", "", html=settings),
    )
    switches = switch_rows(figures.plan.topology)
    rows = [(index, figure, kind, (pairs, copied)) for index, kind, figure, pairs, copied in switches]
    return Table("switches", columns, rows, max_rows=64, terminal_rows=0)
