"""The page of a collective: what limits it, the best schedules by size, and the schedule step by step."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Ints
from topoopt.core.collective import CollectiveResult
from topoopt.kinds.collective.figures import (
    CollectiveFigures,
    crossing_links,
    cut_of,
    cut_sentence,
    limit_sentence,
    ranks_text,
    time_text,
)
from topoopt.page.charts import (
    Point,
    Series,
    element,
    joined,
    legend,
    number_axis,
    picture,
    sorted_chart,
    use_class,
    utilisation_legend,
    xy_chart,
)
from topoopt.page.networks import MOST_DRAWN, RADIUS, SIZE, adjacency_plot, chord, label_step, position
from topoopt.page.render import Block, Column, Fact, Page, Plot, Section, Side, Swatch, Table
from topoopt.page.text import (
    ROUNDING,
    byte_size,
    counted,
    number,
    objective_text,
    percent,
    possible_improvement,
    rejection,
)

BETTER = {"GB/s": "faster", "us": "faster", "steps": "shorter"}
"""By the unit of the objective."""

BUSIEST_LINKS = 16
SHOWN_STEPS = 24
DECADES = 3.0
"""Sizes are drawn from so many powers of ten before the second schedule to as many after the last one."""

MAX_TREE_LEVELS = 40
MAX_TREE_SENDS = 400
TREE_ROW = 58.0
LABELLED_LEAVES = 32
"""Leaves of a tree up to which nodes carry their numbers."""

Place = tuple[float, float]


def gbytes(rate: float) -> str:
    return f"{number(rate)} GB/s"


def answer(result: CollectiveResult) -> str:
    """Return time, steps and algorithm bandwidth, and what is proven of all schedules."""
    figures: CollectiveFigures = result.figures
    problem = figures.problem
    best = possible_improvement(result, "schedule", BETTER[result.objective.unit])
    return rejection(result.check) or (
        f"{problem.collective} of {byte_size(problem.vector_bytes)} "
        f"over {ranks_text(problem)} takes {time_text(figures.time_us)} "
        f"in {counted(figures.steps, 'step')}, {number(figures.algbw_gbytes_per_s)} GB/s; {best}."
    )


def page(result: CollectiveResult) -> Page:
    """Return the page of a result that has its problem."""
    figures: CollectiveFigures = result.figures
    problem, cut = figures.problem, cut_of(result.certificates)
    network = problem.network
    limit = cut_sentence(problem, cut) if cut else limit_sentence(problem, result.certificates)
    swatches = [Swatch(*row) for row in utilisation_legend()] + (
        [Swatch("cut", "links of the limiting cut")] if cut else []
    )
    return Page(
        subtitle=f"{problem.collective} · {counted(len(network.ranks), 'rank')} · "
        f"{counted(int(network.is_switch.sum()), 'switch', 'switches')} · {counted(len(network.arcs), 'link')}",
        answer=answer(result),
        cause=f"{limit[:1].upper()}{limit[1:]}." if limit else "",
        facts=facts(result, figures),
        sections=(
            Section(
                "What limits it", links_blocks(figures, cut), legend=swatches if network.nodes <= MOST_DRAWN else ()
            ),
            Section("Best schedule by size", front_blocks(figures)),
            Section("Schedule", schedule_blocks(figures)),
        ),
        provenance=(("network", network.origin or "not recorded"),),
        next_commands=(
            ("topoopt explain", "what faster links across the limiting cut would gain"),
            ("topoopt export --to msccl", "the schedule as a file that GPUs run"),
        ),
    )


def facts(result: CollectiveResult, figures: CollectiveFigures) -> tuple[Fact, ...]:
    """Return the figures by key; those without a name are for programs alone."""
    problem, objective = figures.problem, result.objective.name
    sends = counted(len(figures.schedule.sends), "message")
    first = {
        "time": Fact("time_us", "time", figures.time_us, time_text, "all steps in a row, a barrier between them"),
        "algbw": Fact("", objective_text("algbw"), result.objective.value, gbytes, "bytes of the vector over the time "
                      "of the fullest link, without latencies"),
        "steps": Fact("steps", "steps", figures.steps, str, sends),
    }  # fmt: skip
    algbw = Fact("algbw_gbytes_per_s", "algorithm bandwidth" if objective != "algbw" else "with latencies",
                 figures.algbw_gbytes_per_s, gbytes, "bytes of the vector over the time")  # fmt: skip
    others = [
        *(fact for name, fact in first.items() if name not in (objective, "algbw")),
        Fact("makespan_us", "without barriers", figures.makespan_us, time_text,
             "a message goes when its block is there; links keep the order of the plan",
             card=figures.makespan_us != figures.time_us),
        algbw,
        *([Fact("throughput_gbytes_per_s", "without latencies", problem.vector_bytes / figures.busy_us / 1e3, gbytes,
                "what large vectors come near to: the fullest link is always busy")] if objective != "algbw" else []),
        Fact("busbw_gbytes_per_s", "bus bandwidth", figures.busbw_gbytes_per_s, gbytes,
             "as benchmarks of collectives state it"),
    ]  # fmt: skip
    programs: dict[str, Any] = {
        "collective": problem.collective.value,
        "bytes": problem.vector_bytes,
        "ranks": len(problem.network.ranks),
        "busy_us": figures.busy_us,
        "messages": len(figures.schedule.sends),
        "limited_by": limit_sentence(problem, result.certificates),
        "cut": cut_of(result.certificates),
        **(_groups(figures) if problem.groups else {}),
        **({"front": [vars(line) for line in figures.front]} if figures.front else {}),
    }
    return (first[objective], *others, *(Fact(key, "", value) for key, value in programs.items()))


def _groups(figures: CollectiveFigures) -> dict[str, Any]:
    """Ranks, bytes and bandwidths of every process group."""
    problem = figures.problem
    return {
        "groups": [
            {
                "ranks": len(own),
                "bytes": problem.vector_bytes * vector,
                "algbw_gbytes_per_s": algbw,
                "busbw_gbytes_per_s": busbw,
            }
            for own, vector, (algbw, busbw) in zip(problem.members, problem.vectors, figures.group_rates, strict=True)
        ]
    }


def links_blocks(figures: CollectiveFigures, cut: Sequence[int]) -> list[Block]:
    """Return the network with the limiting cut, the sorted use of the links, and the busiest links."""
    network, use = figures.problem.network, figures.link_use
    columns = (
        Column("link", "link", lambda ends: f"{ends[0]} → {ends[1]}"),
        Column("gbytes_per_s", "GB/s", number, number=True),
        Column("use", "in use", percent, number=True),
    )
    rows = [
        (tuple(network.names[node] for node in network.arcs[arc]), network.gbytes_per_s.item(arc), use.item(arc))
        for arc in np.argsort(-np.round(use, 9), kind="stable").tolist()
    ]
    squares = "Squares are switches; links" if network.is_switch.any() else "Links"
    caption = f"{squares} are coloured by the part of the time they are in use."
    caption += " Filled nodes are inside the limiting cut." if cut else ""
    if network.nodes > MOST_DRAWN:
        caption = "Row: sender, column: receiver. A cell is dark where the link is in use most of the time."
    table = Table("link_use", columns, rows, max_rows=BUSIEST_LINKS, terminal_rows=0)
    network_block = Plot(lambda: network_plot(figures, cut), caption)
    if use.max() - use.min() <= ROUNDING:  # all alike: the rows say so
        return [Side([network_block, table])]
    title = "Use of the links, % of the time"
    chart = Plot(lambda: sorted_chart(use, "%", 0.01, "Use of the links, sorted", use_class), title=title)
    return [Side([network_block, chart]), table]


def front_blocks(figures: CollectiveFigures) -> list[Block]:
    """Return the least time over the size of the vector, as a curve and as rows."""
    if not figures.front:
        return []
    columns = (
        Column("from_bytes", "from", byte_size, number=True),
        Column("method", "schedule"),
        Column("steps", "steps", number=True),
        Column("pieces", "pieces", number=True),
        Column("latency_us", "latencies, us", lambda value: f"{value:.6g}", number=True),
        Column("us_per_mbyte", "us/MB", lambda value: f"{value:.6g}", number=True),
    )
    rows = [[getattr(line, column.key) for column in columns] for line in figures.front]
    return [
        Plot(lambda: front_plot(figures), "A colour for each schedule where it is the best one."),
        Table("best_by_size", columns, rows, terminal_rows=16),
    ]


def schedule_blocks(figures: CollectiveFigures) -> list[Block]:
    """Return the paths of the first block, and what the steps send; steps that look the same are one row."""
    sends, steps = figures.schedule.sends, figures.steps
    sums = np.bincount(sends.step[sends.reduce], minlength=steps).tolist()
    messages = np.bincount(sends.step, minlength=steps).tolist()
    blocks = [len(np.unique(part)) for part in np.split(sends.block, np.searchsorted(sends.step, range(1, steps)))]
    rows: list[tuple[tuple[int, int], int, int, int]] = []
    for (count, summed, distinct), equal in itertools.groupby(zip(messages, sums, blocks, strict=True)):
        start = rows[-1][0][1] + 1 if rows else 0
        rows.append(((start, start + len(list(equal)) - 1), count - summed, summed, distinct))
    columns = (
        Column("steps", "steps", lambda ends: str(ends[0]) if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"),
        Column("copies", "copies", number=True),
        Column("sums", "sums", number=True),
        Column("blocks", "blocks", number=True),
    )
    table = Table("schedule_steps", columns, rows, max_rows=SHOWN_STEPS, terminal_rows=0)
    if not tree_fits(figures):
        return [table]
    return [Plot(lambda: tree_plot(figures), "Paths of the first block, a row for each step, downward."), table]


# The network.


def node_places(figures: CollectiveFigures) -> list[Place]:
    """Return where nodes stand: ranks on a circle, switches inside it, over the ranks that they join."""
    network = figures.problem.network
    ranks = network.ranks
    places = {int(rank): position(k, len(ranks)) for k, rank in enumerate(ranks)}
    arcs = network.arcs.tolist()
    for switch in np.flatnonzero(network.is_switch).tolist():
        ends = [node for arc in arcs if switch in arc for node in arc]
        near = [node for node in ends if not network.is_switch[node]]
        x, y = (sum(places[node][axis] for node in near) / len(near) if near else SIZE / 2 for axis in (0, 1))
        places[switch] = (SIZE / 2 + (x - SIZE / 2) * 0.8, SIZE / 2 + (y - SIZE / 2) * 0.8)
    return [places[node] for node in range(network.nodes)]


def label_side(x: float) -> str | None:
    """Return the CSS class of a label: texts beside the circle grow away from it."""
    beside = (x - SIZE / 2) / RADIUS
    return None if abs(beside) < 0.2 else "rightward" if beside > 0 else "leftward"


def network_plot(figures: CollectiveFigures, cut: Sequence[int]) -> Markup:
    """Draw links by how long they are in use; nodes inside the limiting cut filled, its links drawn bold.

    Of many nodes the matrix is drawn.
    """
    network, places, use = figures.problem.network, node_places(figures), figures.link_use
    if network.nodes > MOST_DRAWN:
        title = f"Use of the links of {network.nodes} nodes"
        return adjacency_plot(network.nodes, network.arcs, use, title, "of the time", percent)
    inside = np.zeros(network.nodes, dtype=np.bool_)
    inside[list(cut)] = True
    crossing = np.zeros(len(network.arcs), dtype=np.bool_)
    crossing[crossing_links(figures.problem, cut) if cut else []] = True
    n = len(network.ranks)
    width = 2.0 if n <= 32 else 1.2
    drawn = []
    for arc in sorted(range(len(network.arcs)), key=lambda a: (bool(crossing[a]), float(use[a]), a)):
        tail, head = network.arcs[arc].tolist()
        text = (
            f"{network.names[tail]} → {network.names[head]}: {number(float(network.gbytes_per_s[arc]))} GB/s, "
            f"in use {percent(float(use[arc]))} of the time"
        )
        straight = bool(network.is_switch[tail] or network.is_switch[head])
        (x1, y1), (x2, y2) = places[tail], places[head]
        drawn.append(
            element(
                "path",
                element("title", text),
                class_=f"lk {use_class(float(use[arc]))}" + (" cut" if crossing[arc] else ""),
                d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" if straight else chord((x1, y1), (x2, y2), SIZE / 2, n),
            )
        )
    dot = 10.0 if n <= 20 else 6.0
    nodes, labels = [], []
    for node, (x, y) in enumerate(places):
        css = "inside" if inside[node] else None
        title = element("title", network.names[node])
        if network.is_switch[node]:
            nodes.append(element("rect", title, x=x - dot, y=y - dot, width=2 * dot, height=2 * dot, class_=css))
        else:
            nodes.append(element("circle", title, cx=x, cy=y, r=dot, class_=css))
    for k, rank in enumerate(network.ranks.tolist()):
        if k % label_step(n) == 0:
            x, y = position(k, n, RADIUS + 18 + dot / 2)
            labels.append(element("text", network.names[rank][:10], x=x, y=y, class_=label_side(x)))
    return picture(
        element("g", joined(drawn), class_="links", stroke_width=width),
        element("g", joined(nodes), class_="nodes"),
        element("g", joined(labels), class_="labels"),
        label=f"Network of {n} ranks with the limiting cut",
        viewBox=f"-60 -10 {SIZE + 120:.0f} {SIZE + 20:.0f}",
        class_="topology use-colours",
    )


# Times by size.


def front_plot(figures: CollectiveFigures) -> Markup:
    """Draw time over bytes, both in powers of ten: a line for each schedule where it is the best one."""
    front, vector_bytes = figures.front, figures.problem.vector_bytes
    starts = [line.from_bytes for line in front[1:]] or [vector_bytes]
    low = max(min(starts[0], vector_bytes) / 10**DECADES, 1.0)
    high = max(starts[-1], vector_bytes) * 10**DECADES
    ends = [low, *(float(start) for start in starts if len(front) > 1), high]
    series = []
    for line, (start, end) in zip(front, itertools.pairwise(ends), strict=True):
        name = f"{line.method}, {line.steps} steps"
        sizes = [start * (end / start) ** (step / 8) for step in range(9)]
        points = [Point(s, line.time_us(s), f"{byte_size(s)}: {time_text(line.time_us(s))}\n{name}") for s in sizes]
        series.append(Series(name, tuple(points), line=True, dots=False))
    size = float(vector_bytes)
    tip = f"{byte_size(size)}: {time_text(figures.time_us)}, this solution"
    series.append(Series("this solution", (Point(size, figures.time_us, tip),)))
    x = number_axis("bytes of the vector", ends, log=True)
    y = number_axis("time, us", [point.y for curve in series for point in curve.points], log=True)
    names = legend([curve.name for curve in series], series)
    return names + xy_chart(series, x, y, "Least time by the size of the vector")


# The paths of a block.


def _first_block(figures: CollectiveFigures) -> tuple[Ints, list[int]]:
    sends = figures.schedule.sends
    of_block = np.flatnonzero(sends.block == (sends.block[0] if len(sends) else 0))
    return of_block, sorted(set(sends.step[of_block].tolist()))


def tree_fits(figures: CollectiveFigures) -> bool:
    """Return whether the paths of the first block are few enough to be drawn."""
    of_block, steps = _first_block(figures)
    return 0 < len(steps) <= MAX_TREE_LEVELS and len(of_block) <= MAX_TREE_SENDS


def tree_plot(figures: CollectiveFigures) -> Markup:
    """Draw the first block, a row for each step; children stand under (of sums: over) the node they are joined to."""
    sends = figures.schedule.sends
    of_block, steps = _first_block(figures)
    owner = int(figures.schedule.blocks.owner[sends.block[of_block[0]]])
    level = {step: index for index, step in enumerate(steps)}
    up, down = of_block[sends.reduce[of_block]], of_block[~sends.reduce[of_block]]
    turn = max((level[int(step)] for step in sends.step[up]), default=-1) + 1
    rising = {int(sends.tail[k]): (int(sends.head[k]), level[int(sends.step[k])]) for k in up.tolist()}
    falling: dict[int, tuple[int, int]] = {}
    for k in down.tolist():
        falling.setdefault(int(sends.head[k]), (int(sends.tail[k]), level[int(sends.step[k])] + 1))
    trees = {name: tree_places(owner, turn, tree) for name, tree in (("up", rising), ("down", falling)) if tree}
    for tree in trees.values():
        tree[owner] = (SIZE / 2, tree[owner][1])
    leaves = max(len(of_block) - len({parent for parent, _ in tree.values()}) for tree in (rising, falling))
    return _drawn_tree(figures, of_block, trees, TREE_ROW * len(steps) + 40, labelled=leaves <= LABELLED_LEAVES)


def tree_places(owner: int, row: int, parents: Mapping[int, tuple[int, int]]) -> dict[int, Place]:
    """Return where the nodes of a tree stand: leaves side by side, others over the middle of their children.

    Args:
        owner, row: the root, and the row it stands in.
        parents: of every other node the node that it is joined to, and its row.
    """
    children: dict[int, list[int]] = {}
    for node, (parent, _) in sorted(parents.items(), key=lambda entry: (entry[1][1], entry[0])):
        children.setdefault(parent, []).append(node)
    order, waiting = [], [owner]
    while waiting:
        order.append(waiting.pop())
        waiting += children.get(order[-1], [])[::-1]
    slots = {node: slot for slot, node in enumerate(node for node in order if node not in children)}
    across: dict[int, float] = {node: (slot + 0.5) * SIZE / len(slots) for node, slot in slots.items()}
    for node in reversed(order):
        if node in children:
            across[node] = sum(across[child] for child in children[node]) / len(children[node])
    return {node: (across[node], 20 + TREE_ROW * (row if node == owner else parents[node][1])) for node in order}


def _drawn_tree(
    figures: CollectiveFigures, of_block: Ints, trees: Mapping[str, dict[int, Place]], height: float, *, labelled: bool
) -> Markup:
    network, sends = figures.problem.network, figures.schedule.sends
    lines = []
    for k in of_block.tolist():
        tree = trees["up" if sends.reduce[k] else "down"]
        tail, head = int(sends.tail[k]), int(sends.head[k])
        if tail in tree and head in tree:
            tip = element("title", f"step {sends.step[k]}: {network.names[tail]} → {network.names[head]}")
            (x1, y1), (x2, y2) = tree[tail], tree[head]
            lines.append(element("line", tip, x1=x1, y1=y1, x2=x2, y2=y2, class_="branch"))
    places = sorted({entry for tree in trees.values() for entry in tree.items()})
    radius = 9.0 if labelled else 4.0
    dots = [element("circle", element("title", network.names[node]), cx=x, cy=y, r=radius) for node, (x, y) in places]
    labels = [
        element("text", str(node), x=x, y=y + 3.5, text_anchor="middle", class_="tiny") for node, (x, y) in places
    ]
    return picture(
        joined(lines),
        element("g", joined(dots), class_="nodes"),
        joined(labels if labelled else []),
        label="Paths of the first block",
        viewBox=f"0 0 {SIZE:.0f} {height:.0f}",
        class_="tree",
    )
