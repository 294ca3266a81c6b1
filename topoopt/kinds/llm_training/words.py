"""What a plan to train a language model amounts to, in words and rows; for terminal and report alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields

from topoopt.core.llm_training import StepBreakdown
from topoopt.core.llm_training_plan import IDEAL_SWITCH, FabricOutcome, ShapeVerdict, StrategyFigures, TrainingNetwork
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.optical_devices import delay_text
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.switching import PortSplit, PortUse, StagePorts
from topoopt.core.units import GIB
from topoopt.drawing.format import counted, number

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

DIFFERENCES = 3
"""Parts that are named of the time by which a strategy is slower."""


def note_words(outcome: FabricOutcome) -> str:
    """What is noted of a fabric, such as "4 × 4 torus"; mostly nothing."""
    return outcome.note.replace(" x ", " × ")


def strategy_words(strategy: ParallelStrategy) -> str:
    """Its parts that play a part."""
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
    """Time with its unit."""
    return f"{number(value)} s" if value >= 1 else f"{number(1e3 * value)} ms"


def gib(value: float) -> str:
    """Memory with its unit."""
    return f"{number(value / GIB)} GiB"


def fabric_name(fabric: str) -> str:
    """As it stands in a sentence."""
    return "an ideal switch" if fabric == IDEAL_SWITCH else fabric


def aside(solution: LlmTrainingSolution) -> str:
    """What parts of the time are of, where that is not the plan: circuits between pods are followed as a whole."""
    return "" if solution.fabrics[0].pods is None else " on an ideal switch"


def ports_words(stages: Sequence[StagePorts]) -> str:
    """What the ports of most stages do."""
    one, count = Counter(stages).most_common(1)[0]
    if all(stage.kept for stage in stages):
        return "ports split for good" if count == len(stages) else "ports split for good, not all stages alike"
    if one.kept:
        return f"split for good on {count} of {counted(len(stages), 'stage')}, set anew on others"
    parts = [("between passes", one.pipeline)]
    parts += [("inside", one.inside)] if one.inside != one.pipeline else []
    parts += [("reducing", one.data)] if one.data not in (one.pipeline, one.inside) else []
    words = "; ".join(f"{name} {_split_words(split)}" for name, split in parts)
    return f"{words} ({count} of {counted(len(stages), 'stage')})"


def _split_words(split: PortSplit) -> str:
    return ", ".join(f"{split.of(use)} {use.value}" for use in PortUse if split.of(use))


def switching_s(solution: LlmTrainingSolution) -> dict[str, float]:
    """What a step takes longer than on an ideal switch, on rails whose circuits are set anew; and over circuits between
    pods, which may be less: replicas reduce inside a pod in no time, and transfers have no latency."""
    first = solution.fabrics[0]
    more = first.iteration_time_s - solution.breakdown.total
    if first.rails is not None:
        return {"switching": more}
    return {} if first.pods is None else {"circuits": more}


def rails_rows(solution: LlmTrainingSolution) -> tuple[tuple[str, str], ...]:
    """What switching costs, and what the ports serve; none on other fabrics."""
    rails = solution.fabrics[0].rails
    if rails is None:
        return ()
    one_shot = "there is none" if rails.one_shot_s is None else seconds(rails.one_shot_s)
    return (
        ("on an electrical network", seconds(solution.breakdown.total)),
        (f"circuits set in {delay_text(1e3 * rails.delay_s)}, {rails.mode}", f"stall {seconds(rails.stall_s)}"),
        ("on one topology, never switched", one_shot),
        ("ports", ports_words(rails.stages)),
    )


def reduction_words(network: TrainingNetwork) -> str:
    """What the families of a network reduce on, where that is stated."""
    parts = [
        f"{load.dimension.value}: {load.method}, {counted(load.rounds, 'round')}"
        for load in network.loads
        if load.method
    ]
    return "; ".join(parts)


def proof_words(solution: LlmTrainingSolution) -> str:
    """What the certificate holds."""
    searched = [line for line in solution.shapes if line.records]
    counts = {verdict: solution.counted(verdict) for verdict in ShapeVerdict}
    text = (
        f"{counted(len(solution.shapes), 'way', 'ways')} to divide the GPUs: "
        f"{counts[ShapeVerdict.SEARCHED]:,} searched ({sum(line.records for line in searched):,} strategies, "
        f"{sum(line.fitting for line in searched):,} fit), {counts[ShapeVerdict.MEMORY]:,} never fit in memory, "
        f"{counts[ShapeVerdict.BOUND]:,} cannot be faster by their bounds"
    )
    left = counts[ShapeVerdict.LEFT]
    return text + (f", {left:,} left when the limit came" if left else "")


def differences(best: ParallelStrategy, other: ParallelStrategy) -> str:
    """Parts that a strategy has otherwise."""
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
    """The parts of its time that make it slower, the largest first."""
    more = [
        (getattr(other.breakdown, part.name) - getattr(best.breakdown, part.name), part.name)
        for part in fields(StepBreakdown)
    ]
    slower = other.iteration_time_s - best.iteration_time_s
    named = [(value, name) for value, name in sorted(more, reverse=True) if value > 0.1 * slower][:DIFFERENCES]
    if slower <= 0 or not named:
        return "as fast"
    return ", ".join(f"{NAMES[name]} +{seconds(value)}" for value, name in named)


def exposed(solution: LlmTrainingSolution) -> str:
    """The dimension whose transfers cost most."""
    parts = {name: getattr(solution.breakdown, name) for name in ("tensor", "context", "expert", "pipeline", "data")}
    name = max(parts, key=lambda one: parts[one])
    if parts[name] <= 0:
        return "no transfer is exposed"
    share = number(100 * parts[name] / solution.objective.value)
    return f"{NAMES[name]}, {seconds(parts[name])} ({share} %)"
