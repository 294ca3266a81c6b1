"""Pictures of a plan: the passes of its pipeline, its memory, the parts of its time, what it sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from markupsafe import Markup

from topoopt.core.llm_training_solution import LlmTrainingSolution, StageSeconds
from topoopt.core.pipeline import PassKind
from topoopt.drawing.format import byte_size, counted, shortened
from topoopt.drawing.lanes import LanesDrawing, seconds_axis
from topoopt.drawing.svg import element, percentage, picture
from topoopt.kinds.llm_training.words import NAMES, gib, seconds

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


def _begin(stages: StageSeconds, place: int) -> float:
    """When a pass begins; two that are joined are drawn as the first of them."""
    own = stages.passes[place]
    costs = {
        PassKind.FORWARD: stages.forward_s[own.stage],
        PassKind.BACKWARD: stages.inputs_s[own.stage] + stages.weights_s[own.stage],
        PassKind.INPUTS: stages.inputs_s[own.stage],
        PassKind.WEIGHTS: stages.weights_s[own.stage],
    }
    if own.kind != PassKind.JOINED:
        return own.end_s - costs[PassKind(own.kind)]
    back = stages.passes[place + 1].stage
    return own.end_s - stages.forward_s[own.stage] - stages.inputs_s[back] - stages.weights_s[back]


def schedule_picture(solution: LlmTrainingSolution) -> tuple[LanesDrawing, tuple[tuple[str, str], ...]]:
    """When each rank does what; and the legend."""
    stages, p, m = solution.stages, solution.plan.strategy.pipeline, solution.micro_batches
    if not stages.passes:
        return LanesDrawing(True, Markup(""), Markup(""), ()), ()
    ranks = 1 + max(one.rank for one in stages.passes)
    total, kinds = max(one.end_s for one in stages.passes), set[PassKind]()
    shapes, names = [], []
    for rank in range(ranks):
        y = HEAD + LANE * rank
        shapes.append(element("rect", x=0, width="100%", y=y, height=LANE - 3, class_="lane"))
        names.append(element("text", f"rank {rank}", x=0, y=y + 12))
    joined = False
    for place, one in enumerate(stages.passes):
        behind, joined = joined, one.kind == PassKind.JOINED
        if behind:
            continue
        begin, kind = max(0.0, _begin(stages, place)), PassKind(one.kind)
        css, what = COLOURS[kind]
        kinds.add(kind)
        text = f"{what}, micro-batch {one.micro_batch}, stage {one.stage}\n{seconds(begin)} to {seconds(one.end_s)}"
        width = percentage((one.end_s - begin) / total)
        box = {"x": percentage(begin / total), "y": HEAD + LANE * one.rank, "width": width, "height": LANE - 3}
        shapes.append(element("rect", element("title", text), class_=f"block f-{css}", **box))
    height = int(HEAD + LANE * ranks)
    notes = [f"The first {ranks} of {p} ranks are drawn."] if ranks < p else []
    if stages.drawn_batches < m:
        text = f"{stages.drawn_batches} of {m} micro-batches are drawn; the others repeat what stands in the middle."
        notes.append(text)
    drawing = LanesDrawing(
        False,
        picture(*names, label="Ranks", class_="lanes", width=64, height=height),
        picture(
            *seconds_axis(0.0, total, height), *shapes, label="Passes of the pipeline", class_="bars", height=height
        ),
        tuple(notes),
    )
    return drawing, tuple((f"f-{css}", what) for kind, (css, what) in COLOURS.items() if kind in kinds)


def _stacked(label: str, value: str, parts: Sequence[tuple[str, str, float]], most: float, y: float) -> list[Markup]:
    """A bar of parts (colour, name with value, size), its label above."""
    shapes = [
        element("text", shortened(label, 60), x=0, y=y + 14),
        element("text", value, x="100%", y=y + 14, text_anchor="end"),
        element("rect", x=0, y=y + 20, width="100%", height=BAR, class_="track"),
    ]
    at = 0.0
    for css, text, size in parts:
        width = size / most if most else 0.0
        box = {"x": percentage(at), "y": y + 20, "width": percentage(width), "height": BAR}
        shapes.append(element("rect", element("title", text), class_=f"block f-{css}", **box))
        at += width
    return shapes


def memory_picture(solution: LlmTrainingSolution) -> Markup:
    """Memory of the best strategies against the limit."""
    usable = solution.setting.usable_bytes
    rows = solution.best[:6]
    most = max([*(one.memory.total for one in rows), float(usable or 0)]) or 1.0
    shapes = []
    for place, one in enumerate(rows):
        parts = [(PARTS[name], f"{name}: {gib(size)}", size) for name, size in asdict(one.memory).items()]
        label = "the best" if place == 0 else f"next {place}: {seconds(one.iteration_time_s)}"
        shapes += _stacked(label, gib(one.memory.total), parts, most, ROW * place)
    if usable is not None:
        at = percentage(usable / most)
        shapes.append(element("line", x1=at, x2=at, y1=18, y2=ROW * len(rows) - 8, class_="mean"))
    return picture(*shapes, label="Memory of the fullest GPU", class_="wide", height=int(ROW * len(rows)))


def time_picture(solution: LlmTrainingSolution) -> tuple[Markup, tuple[tuple[str, str], ...]]:
    """The parts of the time of the best strategies; and the legend."""
    rows = solution.best[:6]
    most = max(one.iteration_time_s for one in rows)
    shown = [name for name in NAMES if any(getattr(one.breakdown, name) > 0 for one in rows)]
    shapes, colours = [], {name: f"k{place % 8}" for place, name in enumerate(shown)}
    for place, one in enumerate(rows):
        parts = [(name, size) for name, size in asdict(one.breakdown).items() if size > 0]
        label = "the best" if place == 0 else f"next {place}"
        drawn = [(colours[name], f"{NAMES[name]}: {seconds(size)}", size) for name, size in parts]
        shapes += _stacked(label, seconds(one.iteration_time_s), drawn, most, ROW * place)
    figure = picture(*shapes, label="Time of an iteration", class_="wide", height=int(ROW * len(rows)))
    return figure, tuple((f"f-{colours[name]}", NAMES[name]) for name in shown)


def traffic_picture(solution: LlmTrainingSolution) -> Markup:
    """Bytes that a GPU sends in an iteration, by dimension."""
    names = {
        "tensor_sent_bytes": "tensor",
        "context_sent_bytes": "context",
        "pipeline_sent_bytes": "pipeline",
        "expert_sent_bytes": "expert, all",
        "expert_crossing_sent_bytes": "expert, out of the server",
        "data_dense_sent_bytes": "data",
        "data_expert_sent_bytes": "data, of experts",
    }
    rows = [(names.get(name, name), size) for name, size in solution.sent_bytes if size > 0]
    if not rows:
        return Markup("")
    most = max(size for _, size in rows)
    shapes = []
    for place, (name, size) in enumerate(rows):
        shapes += _stacked(name, byte_size(size), [("k0", f"{name}: {byte_size(size)}", size)], most, ROW * place)
    label = f"Bytes sent in {counted(len(rows), 'dimension')}"
    return picture(*shapes, label=label, class_="wide", height=int(ROW * len(rows)))
