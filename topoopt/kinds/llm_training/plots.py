"""Plots of a plan: the passes of its pipeline, its memory, the parts of its time, what it sends, circuits of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from markupsafe import Markup

from topoopt.core.llm_training_plan import StrategyFigures
from topoopt.core.parallelism import PassKind
from topoopt.drawing.circuits_picture import DrawnCircuits, circle_of_circuits
from topoopt.drawing.format import byte_size, counted, shortened
from topoopt.drawing.lanes import LanesDrawing, seconds_axis
from topoopt.drawing.svg import element, percentage, picture
from topoopt.kinds.llm_training.figures import LlmTrainingFigures, PodFigures, StageFigures
from topoopt.kinds.llm_training.words import NAMES, gib, in_use, link_words, seconds

LANE, HEAD, BAR, ROW = 18.0, 24.0, 20.0, 52.0

COLOURS: Mapping[PassKind, tuple[str, str]] = {
    PassKind.FORWARD: ("k4", "forward"),
    PassKind.BACKWARD: ("k0", "backward"),
    PassKind.INPUTS: ("k3", "gradients of inputs"),
    PassKind.WEIGHTS: ("k2", "gradients of weights"),
    PassKind.JOINED: ("k1", "forward and backward of two micro-batches"),
}
"""Colour class and name of a pass."""

PARTS = {"weights": "k0", "gradients": "k4", "optimizer": "k1", "activations": "k2"}

COMPARED = 6
"""Strategies whose bars are drawn."""

SENT = {
    "tensor_sent_bytes": "tensor",
    "context_sent_bytes": "context",
    "pipeline_sent_bytes": "pipeline",
    "expert_sent_bytes": "expert, all",
    "expert_crossing_sent_bytes": "expert, out of the server",
    "data_dense_sent_bytes": "data",
    "data_expert_sent_bytes": "data, of experts",
}


def lanes(drawing: LanesDrawing) -> Markup:
    """Draw lanes beside their names, so that the axis may be scrolled."""
    markup = Markup('<div class="passes">{}<div class="stretch">{}</div></div>')
    return markup.format(drawing.names, drawing.bars)


def _start(stages: StageFigures, k: int) -> float:
    """Return when a pass starts; two that are joined are drawn as the first of them."""
    row = stages.passes[k]
    forward, inputs, weights = stages.forward_s, stages.inputs_s, stages.weights_s
    costs = {
        PassKind.FORWARD: forward[row.stage],
        PassKind.BACKWARD: inputs[row.stage] + weights[row.stage],
        PassKind.INPUTS: inputs[row.stage],
        PassKind.WEIGHTS: weights[row.stage],
    }
    if row.kind != PassKind.JOINED:
        return row.end_s - costs[PassKind(row.kind)]
    back = stages.passes[k + 1].stage
    return row.end_s - forward[row.stage] - inputs[back] - weights[back]


def pass_kinds(stages: StageFigures) -> list[tuple[str, str]]:
    """Return the colour class and the name of each kind of pass that is drawn."""
    behind = [False, *(row.kind == PassKind.JOINED for row in stages.passes)]
    kinds = {PassKind(row.kind) for row, joined in zip(stages.passes, behind, strict=False) if not joined}
    return [(f"f-{css}", what) for kind, (css, what) in COLOURS.items() if kind in kinds]


def schedule_plot(figures: LlmTrainingFigures) -> LanesDrawing:
    """Draw when each rank does what; `figures` has more than one stage."""
    stages, p, m = figures.stages, figures.plan.strategy.pipeline, figures.micro_batches
    ranks = 1 + max(row.rank for row in stages.passes)
    total = max(row.end_s for row in stages.passes)
    shapes, names = [], []
    for rank in range(ranks):
        y = HEAD + LANE * rank
        shapes.append(element("rect", x=0, width="100%", y=y, height=LANE - 3, class_="lane"))
        names.append(element("text", f"rank {rank}", x=0, y=y + 12))
    joined = False
    for k, row in enumerate(stages.passes):
        behind, joined = joined, row.kind == PassKind.JOINED
        if behind:
            continue
        start = max(0.0, _start(stages, k))
        css, what = COLOURS[PassKind(row.kind)]
        text = f"{what}, micro-batch {row.micro_batch}, stage {row.stage}\n{seconds(start)} to {seconds(row.end_s)}"
        width = percentage((row.end_s - start) / total)
        box = {"x": percentage(start / total), "y": HEAD + LANE * row.rank, "width": width, "height": LANE - 3}
        shapes.append(element("rect", element("title", text), class_=f"block f-{css}", **box))
    height = int(HEAD + LANE * ranks)
    notes = [f"The first {ranks} of {p} ranks are drawn."] if ranks < p else []
    if stages.drawn_batches < m:
        text = f"{stages.drawn_batches} of {m} micro-batches are drawn; the others repeat what stands in the middle."
        notes.append(text)
    drawn = (*seconds_axis(0.0, total, height), *shapes)
    return LanesDrawing(
        False,
        picture(*names, label="Ranks", class_="lanes", width=64, height=height),
        picture(*drawn, label="Passes of the pipeline", class_="bars", height=height),
        tuple(notes),
    )


def _stacked(label: str, value: str, parts: Sequence[tuple[str, str, float]], longest: float, y: float) -> list[Markup]:
    """Draw a bar of parts (colour, name with value, size), its label above."""
    shapes = [
        element("text", shortened(label, 60), x=0, y=y + 14),
        element("text", value, x="100%", y=y + 14, text_anchor="end"),
        element("rect", x=0, y=y + 20, width="100%", height=BAR, class_="track"),
    ]
    at = 0.0
    for css, text, size in parts:
        width = size / longest if longest else 0.0
        box = {"x": percentage(at), "y": y + 20, "width": percentage(width), "height": BAR}
        shapes.append(element("rect", element("title", text), class_=f"block f-{css}", **box))
        at += width
    return shapes


def memory_plot(rows: Sequence[StrategyFigures], usable: int | None) -> Markup:
    """Draw the memory of the best strategies against the limit."""
    rows = rows[:COMPARED]
    longest = max([*(row.memory.total for row in rows), float(usable or 0)]) or 1.0
    shapes = []
    for k, row in enumerate(rows):
        parts = [(PARTS[name], f"{name}: {gib(size)}", size) for name, size in asdict(row.memory).items()]
        label = "the best" if k == 0 else f"next {k}: {seconds(row.iteration_time_s)}"
        shapes += _stacked(label, gib(row.memory.total), parts, longest, ROW * k)
    if usable is not None:
        at = percentage(usable / longest)
        shapes.append(element("line", x1=at, x2=at, y1=18, y2=ROW * len(rows) - 8, class_="mean"))
    return picture(*shapes, label="Memory of the fullest GPU", class_="wide", height=int(ROW * len(rows)))


def time_colours(rows: Sequence[StrategyFigures]) -> dict[str, str]:
    """Return the colour class of each part of the time that any of the strategies has."""
    used = [name for name in NAMES if any(getattr(row.breakdown, name) > 0 for row in rows[:COMPARED])]
    return {name: f"k{k % 8}" for k, name in enumerate(used)}


def time_plot(rows: Sequence[StrategyFigures]) -> Markup:
    """Draw the parts of the time of the best strategies."""
    colours, rows = time_colours(rows), rows[:COMPARED]
    longest = max(row.iteration_time_s for row in rows)
    shapes = []
    for k, row in enumerate(rows):
        parts = [(name, size) for name, size in asdict(row.breakdown).items() if size > 0]
        label = "the best" if k == 0 else f"next {k}"
        drawn = [(colours[name], f"{NAMES[name]}: {seconds(size)}", size) for name, size in parts]
        shapes += _stacked(label, seconds(row.iteration_time_s), drawn, longest, ROW * k)
    return picture(*shapes, label="Time of an iteration", class_="wide", height=int(ROW * len(rows)))


def traffic_rows(figures: LlmTrainingFigures) -> list[tuple[str, float]]:
    """Return the bytes that a GPU sends in an iteration, by dimension; none that are 0."""
    return [(SENT.get(name, name), size) for name, size in figures.sent_bytes if size > 0]


def traffic_plot(rows: Sequence[tuple[str, float]]) -> Markup:
    """Draw the bytes that a GPU sends in an iteration."""
    longest = max(size for _, size in rows)
    shapes = []
    for k, (name, size) in enumerate(rows):
        shapes += _stacked(name, byte_size(size), [("k0", f"{name}: {byte_size(size)}", size)], longest, ROW * k)
    label = f"Bytes sent in {counted(len(rows), 'dimension')}"
    return picture(*shapes, label=label, class_="wide", height=int(ROW * len(rows)))


def pods_plot(pods: PodFigures) -> Markup:
    """Draw the circuits between pods by the part of an iteration that the busier direction is in use."""
    rows = zip(pods.links, in_use(pods), link_words(pods), strict=True)
    lines = [DrawnCircuits(link.pod, link.peer, link.count, use, text) for link, use, text in rows]
    ports = pods.settings.ports
    tips = [f"pod {pod}: {used} of {ports} ports in use" for pod, used in enumerate(pods.ports_used)]
    return circle_of_circuits(lines, tips, f"Circuits between {pods.pods} pods")
