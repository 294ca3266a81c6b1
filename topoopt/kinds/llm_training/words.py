"""Words, rows and plots say what a plan to train a language model amounts to; page and explanation share them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, GIB
from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown
from topoopt.core.llm_training_plan import (
    IDEAL_SWITCH,
    POD_VERDICTS,
    PodClaims,
    ShapeOutcome,
    ShapeVerdict,
    StrategyFigures,
)
from topoopt.core.parallelism import ParallelStrategy, PassKind, Recompute
from topoopt.core.switching import PortSplit, PortUse, StagePorts, delay_text
from topoopt.kinds.llm_training.figures import FabricFigures, LlmTrainingFigures, PodFigures, StageFigures
from topoopt.page.charts import element, percentage, picture, stack
from topoopt.page.networks import circle_of_circuits
from topoopt.page.text import byte_size, counted, number, percent, shortened
from topoopt.page.timelines import lanes, seconds_axis
from topoopt.workloads.step_efficiencies import half_width, kind_of

NAMES = {
    "forward": "forward passes",
    "backward": "backward passes",
    "recompute": "recomputation",
    "bubble": "pipeline bubble",
    "tensor": "tensor parallelism",
    "context": "context parallelism",
    "expert": "exchange between experts",
    "pipeline": "transfers between stages",
    "data": "gradients and weights",
    "optimizer": "optimizer and fixed costs",
}
"""Parts of the time of an iteration."""

TRANSFERS = ("tensor", "context", "expert", "pipeline", "data")
"""Those that are transfers."""

DIFFERENCES = 3
"""Parts that are named of the time by which a strategy is slower."""

CLOSE = 1e-6
"""Part of a time that is no gap."""

NAMED_PAIRS = 12


def note_words(fabric: FabricFigures) -> str:
    """Write the form of a network, such as "4 × 4 torus"; mostly nothing."""
    return fabric.note.replace(" x ", " × ")


def strategy_words(strategy: ParallelStrategy) -> str:
    """Write the parts of a strategy that are more than 1."""
    s = strategy
    parts = [f"tensor {s.tensor}" + (" with sequence" if s.sequence else "")] if s.tensor > 1 else []
    parts += [f"context {s.context}"] if s.context > 1 else []
    if s.pipeline > 1:
        chunks = f" × {s.chunks} chunks" if s.chunks > 1 else ""
        parts.append(f"pipeline {s.pipeline}{chunks} ({s.schedule})")
    parts.append(f"data {s.data}")
    if s.expert > 1 or s.expert_tensor > 1:
        parts.append(f"expert {s.expert}" + (f" × {s.expert_tensor}" if s.expert_tensor > 1 else ""))
    parts += [f"ZeRO {s.zero}"] if s.data * s.context > 1 else []
    parts.append(f"micro-batch {s.micro_batch}")
    parts += [f"recompute {s.recompute}"] if s.recompute is not Recompute.NONE else []
    return ", ".join(parts)


def seconds(value: float) -> str:
    return f"{number(value)} s" if value >= 1 else f"{number(1e3 * value)} ms"


def gib(value: float) -> str:
    return f"{number(value / GIB)} GiB"


def fabric_name(fabric: str) -> str:
    """Write a fabric as part of a sentence."""
    return "an ideal switch" if fabric == IDEAL_SWITCH else fabric


def aside(figures: LlmTrainingFigures) -> str:
    """Say what the parts of the time are of, where that is not the plan: iterations in pods are not divided."""
    return "" if figures.fabrics[0].pods is None else " on an ideal switch"


def ports_words(stages: Sequence[StagePorts]) -> str:
    """Say what the ports of most stages do."""
    ports, count = Counter(stages).most_common(1)[0]
    if all(stage.kept for stage in stages):
        return "ports split for good" if count == len(stages) else "ports split for good, not all stages alike"
    if ports.kept:
        return f"split for good on {count} of {counted(len(stages), 'stage')}, set anew on others"
    parts = [("between passes", ports.pipeline)]
    parts += [("inside", ports.inside)] if ports.inside != ports.pipeline else []
    parts += [("reducing", ports.data)] if ports.data not in (ports.pipeline, ports.inside) else []
    words = "; ".join(f"{name} {_split_words(split)}" for name, split in parts)
    return f"{words} ({count} of {counted(len(stages), 'stage')})"


def _split_words(split: PortSplit) -> str:
    return ", ".join(f"{split.of(use)} {use.value}" for use in PortUse if split.of(use))


def switching_s(figures: LlmTrainingFigures) -> dict[str, float]:
    """Return what a step takes longer than on an ideal switch, on rails and over circuits between pods.

    The latter may be less: replicas reduce inside a pod in no time, and transfers have no latency.
    """
    first = figures.fabrics[0]
    more = first.iteration_time_s - figures.breakdown.total
    if first.rails is not None:
        return {"switching": more}
    return {} if first.pods is None else {"circuits": more}


def rails_rows(figures: LlmTrainingFigures) -> tuple[tuple[str, str], ...]:
    """Return what switching costs, and what the ports serve; none on other fabrics."""
    rails = figures.fabrics[0].rails
    if rails is None:
        return ()
    one_shot = "there is none" if rails.one_shot_s is None else seconds(rails.one_shot_s)
    return (
        ("on an electrical network", seconds(figures.breakdown.total)),
        (f"circuits set in {delay_text(1e3 * rails.delay_s)}, {rails.mode}", f"stall {seconds(rails.stall_s)}"),
        ("on one topology, never switched", one_shot),
        ("ports", ports_words(rails.stages)),
    )


def reduction_words(fabric: FabricFigures) -> str:
    """Say what the families of a network reduce on, where rounds are counted."""
    parts = [
        f"{load.dimension.value}: {load.method}, {counted(load.rounds, 'round')}"
        for load in fabric.loads
        if load.method
    ]
    return "; ".join(parts)


def proof_words(shapes: Sequence[ShapeOutcome]) -> str:
    """Say what the certificate of shapes holds."""
    searched = [line for line in shapes if line.records]
    counts = Counter(line.verdict for line in shapes)
    text = (
        f"{counted(len(shapes), 'way', 'ways')} to divide the GPUs: "
        f"{counts[ShapeVerdict.SEARCHED]:,} searched ({sum(line.records for line in searched):,} strategies, "
        f"{sum(line.fitting for line in searched):,} fit), {counts[ShapeVerdict.MEMORY]:,} never fit in memory, "
        f"{counts[ShapeVerdict.BOUND]:,} cannot be faster by their bounds"
    )
    left = counts[ShapeVerdict.LEFT]
    return text + (f", {left:,} left when the limit came" if left else "")


def differences(best: ParallelStrategy, other: ParallelStrategy) -> str:
    """Name the parts that a strategy has otherwise."""
    names = [part.name for part in fields(other) if part.name != "stage_layers"]
    changed = [name for name in names if getattr(best, name) != getattr(other, name)]
    ends = [tuple(sum(s.stage_layers[rank :: s.pipeline]) for rank in (0, s.pipeline - 1)) for s in (best, other)]
    if not changed and ends[0] != ends[1]:
        return f"{ends[1][0]} layers on the first stage, {ends[1][1]} on the last"
    return ", ".join(f"{name.replace('_', ' ')} {_value(getattr(other, name))}" for name in changed)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def why_slower(best: StrategyFigures, other: StrategyFigures) -> str:
    """Name the parts of its time that make a strategy slower, the largest first."""
    more = [
        (getattr(other.breakdown, part.name) - getattr(best.breakdown, part.name), part.name)
        for part in fields(StepBreakdown)
    ]
    slower = other.iteration_time_s - best.iteration_time_s
    named = [(value, name) for value, name in sorted(more, reverse=True) if value > 0.1 * slower][:DIFFERENCES]
    if slower <= 0 or not named:
        return "as fast"
    return ", ".join(f"{NAMES[name]} +{seconds(value)}" for value, name in named)


def exposed(figures: LlmTrainingFigures) -> str:
    """Name the dimension whose transfers cost most."""
    parts = {name: getattr(figures.breakdown, name) for name in TRANSFERS}
    name = max(parts, key=lambda key: parts[key])
    if parts[name] <= 0:
        return "no transfer is exposed"
    share = number(100 * parts[name] / figures.objective.value)
    return f"{NAMES[name]}, {seconds(parts[name])} ({share} %)"


def in_use(pods: PodFigures) -> tuple[float, ...]:
    """Return the part of an iteration in which the busier direction of each pair needs all its circuits."""
    rate = pods.settings.circuit_gbps * BYTES_PER_MS_PER_GBPS * 1e3 * pods.makespan_s
    return tuple(max(link.there_bytes, link.back_bytes) / (rate * link.count) for link in pods.links)


def gain_over_first(pods: PodFigures) -> float | None:
    """Return the part saved of what the strategy that is fastest on an ideal switch takes over its own circuits."""
    return None if pods.first_s is None else 1.0 - pods.makespan_s / pods.first_s


def gain_over_volume(pods: PodFigures) -> float:
    """Return the part saved of what the same strategy takes over circuits by volume."""
    return 1.0 - pods.makespan_s / pods.volume_s


def counts_of(claims: PodClaims) -> dict[str, int]:
    return {verdict: claims.verdicts.count(verdict) for verdict in POD_VERDICTS}


def proof_of_pods(pods: PodFigures, claims: PodClaims) -> str:
    words = {
        "searched": "with circuits of their own",
        "slower": "that no circuits make faster",
        "crowded": "with more peers than ports",
        "left": "left",
    }
    parts = ", ".join(f"{count} {words[name]}" for name, count in counts_of(claims).items() if count)
    if claims.rest_s is None:
        others = "there is no other that fits"
    elif claims.rest_s >= pods.makespan_s * (1 - CLOSE):
        others = f"no other is below {seconds(claims.rest_s)} over any circuits"
    else:
        others = f"of all others it is only known that none is below {seconds(claims.rest_s)}"
    return f"{counted(len(pods.candidates), 'strategy', 'strategies')} looked at: {parts}; {others}"


def pods_words(pods: PodFigures, claims: PodClaims) -> str:
    """Say how many pods, circuits and free ports there are, as the end of a sentence."""
    saved = sum(pods.ports_saved)
    free = "no port is free" if not saved else f"{counted(saved, 'port')} of {pods.pods * pods.settings.ports} free"
    least = claims.circuits_bound
    few = "none fewer do" if least == pods.circuits_total else f"at least {least} are needed"
    of = f"{counted(pods.pods, 'pod')} of {counted(pods.settings.gpus, 'GPU')}"
    return f"{counted(pods.circuits_total, 'circuit')} between {of}, {free} ({few})"


def gain_words(pods: PodFigures) -> str:
    """Say what the joint choice of strategy and circuits gains."""
    first = pods.candidates[pods.first].strategy
    saved = gain_over_volume(pods)
    volume = f"{percent(saved)} less than" if saved >= CLOSE else "as fast as"
    volume = f"{volume} over circuits by volume"
    gain = gain_over_first(pods)
    if pods.first == pods.best:
        return f"its strategy is also the fastest on an ideal switch; {volume}"
    if gain is None:
        return f"pods have too few ports for the strategy that is fastest on an ideal switch; {volume}"
    changed = differences(pods.strategy, first)
    other = (
        f"{seconds(pods.first_s or 0.0)} that the fastest on an ideal switch takes over its own circuits ({changed})"
    )
    return f"{percent(gain)} less than the {other}; {volume}"


def pods_rows(figures: LlmTrainingFigures, claims: PodClaims | None) -> tuple[tuple[str, str], ...]:
    """Return rows for a table; none on other fabrics."""
    pods = figures.fabrics[0].pods
    if pods is None or claims is None:
        return ()
    pairs = [f"{link.pod}↔{link.peer}: {link.count}" for link in pods.links]
    more = f", and {len(pairs) - NAMED_PAIRS} more pairs" if len(pairs) > NAMED_PAIRS else ""
    first = "pods have too few ports" if pods.first_s is None else seconds(pods.first_s)
    return (
        ("on an ideal switch", seconds(figures.breakdown.total)),
        ("without transfers between pods", seconds(pods.compute_s)),
        ("circuits", pods_words(pods, claims)),
        ("by pair", ", ".join(pairs[:NAMED_PAIRS]) + more),
        ("circuits by volume", seconds(pods.volume_s)),
        ("the fastest on an ideal switch, its best circuits", first),
        ("strategies in pods", proof_of_pods(pods, claims)),
    )


def pods_figures(figures: LlmTrainingFigures, claims: PodClaims | None) -> dict[str, Any]:
    """Return the figures of a plan in pods, for JSON; empty on other fabrics."""
    pods = figures.fabrics[0].pods
    if pods is None or claims is None:
        return {}
    gain = gain_over_first(pods)
    return {
        "pods": {
            "pods": pods.pods,
            "gpus": pods.settings.gpus,
            "ports": pods.settings.ports,
            "circuit_gbps": pods.settings.circuit_gbps,
            "slack_percent": pods.settings.slack_percent,
            "makespan_s": pods.makespan_s,
            "fastest_s": pods.candidates_s[pods.best],
            "compute_s": pods.compute_s,
            "communication_s": pods.communication_s,
            "circuits": [[link.pod, link.peer, link.count] for link in pods.links],
            "circuits_total": pods.circuits_total,
            "circuits_bound": claims.circuits_bound,
            "ports_saved": list(pods.ports_saved),
            "by_volume_s": pods.volume_s,
            "gain_over_volume_percent": 100.0 * gain_over_volume(pods),
            "ideal_strategy": strategy_words(pods.candidates[pods.first].strategy),
            "ideal_strategy_s": pods.first_s,
            "gain_over_ideal_strategy_percent": None if gain is None else 100.0 * gain,
            "tried_bound_s": claims.candidates_bound_s(pods.makespan_s),
            "others_bound_s": claims.rest_s,
            "strategies": counts_of(claims),
        }
    }


def link_rows(pods: PodFigures) -> list[tuple[str, int, float, float, float]]:
    """Return pair, circuits, bytes there and back, and the part of the time in use; most circuits first."""
    rows = sorted(zip(pods.links, in_use(pods), strict=True), key=lambda row: -row[0].count)
    return [(f"{link.pod} ↔ {link.peer}", link.count, link.there_bytes, link.back_bytes, use) for link, use in rows]


def candidate_rows(pods: PodFigures, claims: PodClaims) -> list[tuple[str, float | None, float | None, str]]:
    """Return strategy, time over its best circuits, bound, and verdict; the best first, then by time."""

    def late(k: int) -> tuple[bool, float, float]:
        return k != pods.best, pods.candidates_s[k] or float("inf"), claims.bounds_s[k]

    rows: list[tuple[str, float | None, float | None, str]] = []
    for k in sorted(range(len(pods.candidates)), key=late):
        verdict = claims.verdicts[k]
        what = "the plan" if k == pods.best else verdict
        first = ", fastest on an ideal switch" if k == pods.first else ""
        bound = None if verdict == "crowded" else claims.bounds_s[k]
        rows.append((strategy_words(pods.candidates[k].strategy), pods.candidates_s[k], bound, what + first))
    return rows


def link_words(pods: PodFigures) -> list[str]:
    return [
        f"{link.pod} ↔ {link.peer}: {counted(link.count, 'circuit')}, {byte_size(link.there_bytes)} there, "
        f"{byte_size(link.back_bytes)} back, in use {percent(use)} of the time"
        for link, use in zip(pods.links, in_use(pods), strict=True)
    ]


LANE, HEAD, BAR, ROW = 18.0, 24.0, 20.0, 52.0

COLOURS: Mapping[PassKind, tuple[str, str]] = {
    PassKind.FORWARD: ("k4", "forward"),
    PassKind.BACKWARD: ("k0", "backward"),
    PassKind.INPUTS: ("k3", "gradients of inputs"),
    PassKind.WEIGHTS: ("k2", "gradients of weights"),
    PassKind.JOINED: ("k1", "forward and backward of two micro-batches"),
}
"""Colour class and name of a pass."""

PARTS = {
    "weights": "k0",
    "gradients": "k4",
    "optimizer": "k1",
    "activations": "k2",
    "logits": "k3",
    "working": "k5",
    "gathered": "k6",
}

COMPARED = 6

SENT = {
    "tensor_sent_bytes": "tensor",
    "context_sent_bytes": "context",
    "pipeline_sent_bytes": "pipeline",
    "expert_sent_bytes": "expert, all",
    "expert_crossing_sent_bytes": "expert, out of the server",
    "data_dense_sent_bytes": "data",
    "data_expert_sent_bytes": "data, of experts",
}


def pass_kinds(stages: StageFigures) -> list[tuple[str, str]]:
    """Return the colour class and the name of each kind of pass that is drawn."""
    behind = [False, *(row.kind == PassKind.JOINED for row in stages.passes)]
    kinds = {PassKind(row.kind) for row, joined in zip(stages.passes, behind, strict=False) if not joined}
    return [(f"f-{css}", what) for kind, (css, what) in COLOURS.items() if kind in kinds]


def schedule_plot(figures: LlmTrainingFigures) -> tuple[Markup, list[str]]:
    """Draw when each rank does what, and say what is left out; `figures` has more than one stage."""
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
        start = max(0.0, stages.start_s(k))
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
    named = picture(*names, label="Ranks", class_="lanes", width=64, height=height)
    return lanes(named, picture(*drawn, label="Passes of the pipeline", class_="bars", height=height)), notes


def _stacked(label: str, value: str, parts: Sequence[tuple[str, str, float]], longest: float, y: float) -> list[Markup]:
    """Draw a bar of parts (colour, name with value, size), its label above."""
    shares = [(f"block f-{css}", text, size / longest if longest else 0.0) for css, text, size in parts]
    return [
        element("text", shortened(label, 60), x=0, y=y + 14),
        element("text", value, x="100%", y=y + 14, text_anchor="end"),
        element("rect", x=0, y=y + 20, width="100%", height=BAR, class_="track"),
        *stack(shares, BAR, y + 20),
    ]


def memory_plot(rows: Sequence[StrategyFigures], usable: int | None) -> Markup:
    """Draw the memory of the best strategies against the limit."""
    rows = rows[:COMPARED]
    longest = max([*(row.memory.total for row in rows), float(usable or 0)]) or 1.0
    shapes = []
    for k, row in enumerate(rows):
        parts = [(PARTS[name], f"{name}: {gib(size)}", size) for name, size in asdict(row.memory).items()]
        label = "the best" if k == 0 else f"next {k}"
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
    lines = [(link.pod, link.peer, link.count, use, text) for link, use, text in rows]
    ports = pods.settings.ports
    tips = [f"pod {pod}: {used} of {ports} ports in use" for pod, used in enumerate(pods.ports_used)]
    return circle_of_circuits(lines, tips, f"Circuits between {pods.pods} pods")


Size = Callable[[LlmTrainingProblem, ParallelStrategy], float]

SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "tensor": lambda problem, item: item.tensor,
        "context": lambda problem, item: item.context,
        "pipeline": lambda problem, item: item.pipeline,
        "chunks": lambda problem, item: item.chunks,
        "expert": lambda problem, item: item.expert,
        "micro_batch": lambda problem, item: item.micro_batch,
        "GPUs": lambda problem, item: problem.cluster.gpus,
        "width / tensor": lambda problem, item: problem.model.hidden / item.tensor,
        "tokens of a micro-batch / (context tensor)": lambda problem, item: (
            item.micro_batch * problem.batch.length / item.context / item.tensor
        ),
    }
)
"""Sizes that decide how well a GPU is used."""

MEASURED: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "tensor": (1, 8),
        "context": (1, 32),
        "pipeline": (1, 64),
        "chunks": (1, 24),
        "expert": (1, 64),
        "micro_batch": (1, 64),
        "GPUs": (8, 16384),
        "width / tensor": (512, 16384),
        "tokens of a micro-batch / (context tensor)": (256, 98304),
    }
)
"""Least and most in the runs that the numbers of the time model are fitted to."""


def outside_measured(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> tuple[str, ...]:
    """A line of warning where a strategy is outside what was measured; none where it is inside."""
    texts = []
    for name, (least, most) in MEASURED.items():
        value = SIZES[name](problem, strategy)
        if not least <= value <= most:
            texts.append(f"{name} is {value:g} (measured: {least:g} to {most:g})")
    if not texts:
        return ()
    return (
        f"outside the runs that the time model was held against, so that its time is extrapolated: {'; '.join(texts)}",
    )


@dataclass(frozen=True)
class TimeInterval:
    """Holds the measured time of an iteration nine times of ten.

    Attributes:
        low_s, high_s: seconds.
        half_width: by which the time may be off, over it.
        runs: the set of runs that it comes from.
        reason: why it is twice theirs; empty: it is not.
    """

    low_s: float
    high_s: float
    half_width: float
    runs: str
    reason: str

    @property
    def text(self) -> str:
        """Plus or minus so much, and of which runs."""
        twice = f", doubled: {self.reason}" if self.reason else ""
        return f"± {percent(self.half_width)} ({self.low_s:.4g} to {self.high_s:.4g} s; runs: {self.runs}{twice})"


def interval_of(problem: LlmTrainingProblem, strategy: ParallelStrategy, seconds: float) -> TimeInterval:
    """Of a strategy that takes so many seconds."""
    extrapolated = bool(outside_measured(problem, strategy))
    width = half_width(problem.device.like, problem.software, kind_of(problem.model), extrapolated=extrapolated)
    factor = math.exp(width.of_log)
    return TimeInterval(seconds / factor, seconds * factor, factor - 1.0, width.runs, width.reason)
