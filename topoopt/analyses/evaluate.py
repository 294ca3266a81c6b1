"""`topoopt llm evaluate`: one strategy of a language model is timed, alone or on networks made for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from annotated_types import Ge, Le
from rich.console import Console

from solvers.llm_training.strategies import with_layers
from solvers.stop import Stop
from topoopt.core.arrays import GIB
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem, StepEstimate
from topoopt.core.llm_training_plan import PHOTONIC_RAILS, POD_CIRCUITS, RankedStrategy
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule, Recompute, StrategySpace
from topoopt.kinds.llm_training.words import interval_of, outside_measured
from topoopt.page import options
from topoopt.page.output import Output
from topoopt.page.process import verbose
from topoopt.page.text import counted, percent
from topoopt.simulate.llm_training.strategies import stage_layers, strategy_problems
from topoopt.workloads.language_models import active_parameters, parameters

SETTINGS = {
    **dict.fromkeys(
        ("tensor", "context", "pipeline", "chunks", "data", "expert", "expert_tensor", "micro_batch"),
        Annotated[int, Ge(1)],
    ),
    "sequence": bool,
    "zero": Annotated[int, Ge(0), Le(3)],
    "schedule": PipelineSchedule,
    "recompute": Recompute,
}
"""Parts of a strategy."""


def evaluate(
    file: Annotated[Path, typer.Argument(help="Instance of kind llm-training.")],
    settings: options.Settings = None,
    fabrics: options.Fabrics = None,
    as_json: options.Json = False,
) -> None:
    """Time, its parts and memory of one configuration; what is not set is as the instance pins it, else plain.

    Exit code 3 if it does not fit the memory of a GPU.

    Settings: GPUs that share each matrix (`tensor`), what lies between the matrices as well (`sequence`), parts of each
    sequence (`context`), stages (`pipeline`), runs of layers of a stage (`chunks`), replicas (`data`: what the others
    leave), GPUs that share the experts of a layer (`expert`) and each expert (`expert_tensor`), what replicas share
    (`zero`, 0 to 3), sequences of a micro-batch (`micro_batch`), `schedule` (gpipe, 1f1b, interleaved, zb-h1, zb-2p,
    dualpipe), `recompute` (none, selective, full). --fabrics evaluates it on networks as well: direct-connect,
    torus-3d, rail-only, photonic-rails.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.documents import parse_document
        from topoopt.kinds.llm_training.read import read_llm_training
        from topoopt.simulate.llm_training.step import estimate

        problem = read_llm_training(parse_document(file))
        given = options.typed_settings(options.settings_of(settings, SETTINGS), SETTINGS)
        strategy = chosen_strategy(problem, given)
        ideal = estimate(problem, strategy)
        document = estimate_document(problem, strategy, ideal)
        if problem.switching is not None:
            document["switching"] = _switched(file, problem, strategy)
        if fabrics:
            names = [name.strip() for name in fabrics.split(",")]
            document["fabrics"] = _on_fabrics(problem, strategy, ideal, names, document.get("switching"))
        fits = document["fits"]
        output.result(
            document, lambda console: _show(console, document) if fits or verbose() else None, answer(problem, document)
        )
        return 0 if fits else InfeasibleError.exit_code

    output.run(command)


def _switched(file: Path, problem: Any, strategy: Any) -> dict[str, Any]:
    """The step with circuits set anew inside it, as the instance says, checked."""
    from solvers.stop import stop_on_signals
    from solvers.switching import RailSteps, switch_mode
    from topoopt.analyses.reconfiguration import check_step, placed
    from topoopt.analyses.reconfiguration.report import step_document
    from topoopt.core.errors import InputError

    settings = problem.switching
    mode = switch_mode(settings)
    try:
        rails = RailSteps(problem, strategy, settings)
    except InputError as error:
        raise placed(file, error) from None
    with stop_on_signals(None) as stop:
        step = rails.switched(settings.delay_s, mode, stop, events=True)
        static_s, _ = rails.static(stop)
    check_step(rails, step)
    return step_document(step, static_s)


def _on_fabrics(
    problem: Any, strategy: Any, ideal: Any, fabrics: list[str], switched: dict[str, Any] | None
) -> list[dict[str, Any]]:
    from solvers.stop import stop_on_signals

    with stop_on_signals(None) as stop:
        return on_fabrics(problem, strategy, ideal, tuple(fabrics), stop, switched)


def _show(console: Console, document: dict[str, Any]) -> None:
    parts = ", ".join(f"{name} {value}" for name, value in document["strategy"].items() if isinstance(value, int))
    times = ", ".join(f"{name} {value:.4g}" for name, value in document["breakdown_s"].items() if value)
    memory = ", ".join(f"{name} {value:.4g}" for name, value in document["memory_gib"].items())
    lines = [
        f"{document['name']}: {document['iteration_time_s']:.6g} s an iteration {document['interval']['text']}",
        f"strategy: {parts}, {document['strategy']['schedule']}, recompute {document['strategy']['recompute']}",
        f"seconds: {times}",
        f"GiB of the fullest GPU: {memory} ({'fits' if document['fits'] else 'does not fit'})",
        f"{document['tflops_per_gpu']:.5g} TFLOP/s a GPU, {100 * document['mfu']:.4g} % of its peak "
        f"(causal attention, without recomputation); {document['tokens_per_s_per_gpu']:.6g} tokens/s a GPU",
        *(_fabric_text(fabric) for fabric in document.get("fabrics", ())),
    ]
    if "switching" in document:
        fabric = document["switching"]
        lines.append(
            f"circuits set anew inside the step, {fabric['mode']}, {1e3 * fabric['delay_s']:.6g} ms: "
            f"{fabric['step_s']:.6g} s; electrical network {fabric['electrical_s']:.6g} s; "
            f"ports are set {fabric['switches']} times"
        )
    for line in (*lines, *(f"note: {note}" for note in document["notes"])):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _fabric_text(fabric: dict[str, Any]) -> str:
    waits = {part["dimension"]: part["exposed_s"] for part in fabric["dimensions"]}
    worst = max(waits, key=lambda name: waits[name], default=None)
    text = f"{fabric['fabric']}: {fabric['iteration_time_s']:.6g} s"
    split = ", ".join(f"{family} {count}" for family, count in fabric["degree_split"].items() if count)
    text += "".join(f"; {part}" for part in (fabric["form"], split and f"interfaces {split}") if part)
    return text if worst is None else f"{text}; waits most for {worst}, {waits[worst]:.4g} s"


def chosen_strategy(problem: LlmTrainingProblem, given: Mapping[str, Any]) -> ParallelStrategy:
    """The strategy of options, else of what the instance pins, else the plainest that is allowed.

    Args:
        given: parts of a strategy by name; None: not given.

    Raises:
        InputError: the GPUs left over are no whole number of replicas, or its layers cannot be divided as pinned.
    """
    declared = {name: value for name, value in given.items() if value is not None}
    space = [part.name for part in fields(StrategySpace) if part.name not in ("layers", "short_ends")]
    first = {name: getattr(problem.space, name) for name in space}
    parts = {name: values[0] for name, values in first.items() if values is not None and len(values) == 1} | declared

    def default(name: str, value: Any) -> None:
        if name not in parts:
            allowed = first.get(name)
            parts[name] = value if allowed is None or value in allowed else allowed[0]

    for name in ("tensor", "context", "pipeline", "chunks", "expert", "expert_tensor", "micro_batch"):
        default(name, 1)
    others = parts["tensor"] * parts["context"] * parts["pipeline"]
    if "data" not in parts and problem.cluster.gpus % others:
        text = "tensor x context x pipeline does not divide the number of GPUs"
        raise InputError([Problem(text, path="tensor", value=str(others), allowed=str(problem.cluster.gpus))])
    default("data", problem.cluster.gpus // others)
    default("zero", 1 if parts["data"] * parts["context"] > 1 else 0)
    default("sequence", parts["tensor"] > 1)
    default("schedule", PipelineSchedule.INTERLEAVED if parts["chunks"] > 1 else PipelineSchedule.ONE_F_ONE_B)
    default("recompute", Recompute.NONE)
    chosen = replace(ParallelStrategy(), **parts)
    return chosen if strategy_problems(problem, chosen) else with_layers(problem, chosen)


def estimate_document(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, estimate: StepEstimate
) -> dict[str, Any]:
    seconds = estimate.iteration_time_s
    interval = interval_of(problem, strategy, seconds)
    gpus = problem.cluster.gpus
    flops = estimate.model_flops / seconds / gpus
    usable, held = problem.usable_bytes, estimate.memory
    memory = {part: size / GIB for part, size in asdict(held).items()}
    layers = strategy.stage_layers or stage_layers(problem.model.layers, strategy.pipeline, strategy.chunks)
    return {
        "name": problem.name,
        "strategy": asdict(replace(strategy, stage_layers=layers)),
        "iteration_time_s": seconds,
        "interval": {**asdict(interval), "text": interval.text},
        "software": problem.software,
        "breakdown_s": asdict(estimate.breakdown),
        "memory_gib": {**memory, "total": held.total / GIB},
        "memory_largest_part": held.largest,
        "memory_margin_gib": None if usable is None else (usable - held.total) / GIB,
        "mfu": flops / estimate.peak_flops,
        "tflops_per_gpu": flops / 1e12,
        "tokens_per_s_per_gpu": problem.batch.tokens / seconds / gpus,
        "fits": usable is None or held.total <= usable,
        "parameters": parameters(problem.model),
        "met_parameters": active_parameters(problem.model),
        "detail": dict(estimate.detail),
        "notes": [*problem.notes, *outside_measured(problem, strategy)],
    }


def on_fabrics(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    ideal: StepEstimate,
    fabrics: tuple[str, ...],
    stop: Stop,
    switched: dict[str, Any] | None,
) -> list[dict[str, Any]]:
    """For programs: time on each fabric, and what families get there.

    Args:
        ideal: of the strategy on an ideal switch.
        switched: its step with circuits set anew; None: the instance says nothing of these.

    Raises:
        InputError: no such fabric, or the cluster cannot have it.
    """
    from solvers.llm_training.plan import best_network, decided, mapped, planned_problems
    from topoopt.kinds.llm_training.figures import FabricFigures

    problems = planned_problems(problem.cluster, fabrics)
    if PHOTONIC_RAILS in fabrics and problem.switching is None:
        text, allowed = "how long circuits of the rails take to set is missing", "an instance with switching:"
        problems.append(Problem(text, path="--fabrics", value=PHOTONIC_RAILS, allowed=allowed))
    if POD_CIRCUITS in fabrics:
        text, allowed = "circuits between pods are searched with the strategy", "topoopt solve, search.topology: dag"
        problems.append(Problem(text, path="--fabrics", value=POD_CIRCUITS, allowed=allowed))
    if problems:
        raise InputError(problems)
    ranked = RankedStrategy(strategy, ideal.iteration_time_s, ideal.memory.total)
    documents = []
    for fabric in fabrics:
        if fabric == PHOTONIC_RAILS:
            documents.append(_rails(switched))
            continue
        network = best_network(problem, fabric, ranked)
        if network is None:
            degree = problem.cluster.degree
            has = "1 interface of a server does" if degree == 1 else f"{degree} interfaces of a server do"
            raise InfeasibleError(f"{fabric}: {has} not join all that send to each other")
        best = mapped(problem, fabric, network, stop)
        figures = FabricFigures(problem, decided(best), strategy)
        documents.append(
            {
                "fabric": fabric,
                "iteration_time_s": figures.iteration_time_s,
                "form": figures.note,
                "degree_split": {family.value: count for family, count in figures.network.degree_split},
                "dimensions": [asdict(load) for load in figures.loads],
            }
        )
    return documents


def _rails(switched: dict[str, Any] | None) -> dict[str, Any]:
    """A step on rails among steps on networks."""
    assert switched is not None
    form = f"ports are set {switched['switches']} times, {switched['mode']}, stall {switched['exposed_s']:.4g} s"
    return {
        "fabric": PHOTONIC_RAILS,
        "iteration_time_s": switched["step_s"],
        "form": form,
        "degree_split": {},
        "dimensions": [],
    }


def answer(problem: LlmTrainingProblem, document: Mapping[str, Any]) -> str:
    """Of the figures of one configuration."""
    from topoopt.kinds.llm_training.words import gib, seconds

    usable = problem.usable_bytes
    memory = gib(document["memory_gib"]["total"] * GIB)
    if usable is None:
        memory_text = f"the fullest GPU holds {memory}"
    elif document["fits"]:
        margin = gib(document["memory_margin_gib"] * GIB)
        memory_text = f"the fullest GPU holds {memory} of {gib(usable)}, which leaves {margin}"
    else:
        largest = document["memory_largest_part"]
        memory_text = (
            f"but it does not fit: the fullest GPU would hold {memory} of {gib(usable)}, "
            f"most of it {largest} ({gib(document['memory_gib'][largest] * GIB)})"
        )
    return (
        f"One iteration takes {seconds(document['iteration_time_s'])} on {counted(problem.cluster.gpus, 'GPU')}, "
        f"{percent(document['mfu'])} of the peak; {memory_text}."
    )
