"""One strategy of a language model is timed (`topoopt llm evaluate`), or a launch is checked (`topoopt llm check`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from annotated_types import Ge, Gt, Le
from rich.console import Console

from solvers.llm_training.strategies import with_layers
from solvers.stop import Stop
from topoopt.core.arrays import GIB
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem, raise_any
from topoopt.core.llm_training import LanguageModel, LlmTrainingProblem, StepEstimate, TrainingBatch
from topoopt.core.llm_training_plan import PHOTONIC_RAILS, POD_CIRCUITS, RankedStrategy
from topoopt.core.parallelism import MAX_GPUS, ParallelStrategy, PipelineSchedule, Recompute, StrategySpace
from topoopt.core.process import verbose
from topoopt.files.documents import Document, parse_document, parse_json
from topoopt.formats.launch import Launch, read_launch
from topoopt.formats.launch_rules import (
    Division,
    Sizes,
    division_of,
    formats_section,
    model_notes,
    model_section,
    world_of,
)
from topoopt.kinds.llm_training.words import interval_of, outside_measured
from topoopt.page import options
from topoopt.page.output import Output, say
from topoopt.page.text import counted, percent, ratio
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
    from topoopt.analyses.reconfiguration.rails import check_step, placed
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
    say(console, *lines, notes=document["notes"])


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
    raise_any(problems)
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
        figures = FabricFigures(problem, decided(mapped(problem, fabric, network, stop)), strategy)
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


KIND = "llm-training"
MAX_NODES = 100_000
DEFAULT_LIMIT_S = 20.0
SAME = 1.005

CHECK_SETTINGS = {
    "device": str,
    "model": str,
    "length": Annotated[int, Ge(1), Le(2**26)],
    "vocabulary": Annotated[int, Ge(1), Le(2**24)],
    "gpus": Annotated[int, Ge(1), Le(MAX_GPUS)],
    "gpus_per_server": Annotated[int, Ge(1), Le(2**14)],
    "degree": Annotated[int, Ge(1), Le(2**14)],
    "link_gbps": Annotated[float, Gt(0), Le(1e6)],
    "intra_server_gbps": Annotated[float, Gt(0), Le(1e6)],
    "gpu_memory_gib": Annotated[float, Gt(0), Le(1e6)],
}
"""What launches do not say: the cluster, and the model where a tool names it by a file of its own."""

CLUSTER = ("gpus_per_server", "device", "degree", "link_gbps", "intra_server_gbps", "gpu_memory_gib")


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="LAUNCH...",
            help="Script, flags in a text, or YAML, JSON, TOML; with it an instance of kind llm-training.",
        ),
    ],
    settings: options.Settings = None,
    time_limit: options.TimeLimit = None,
    as_json: options.Json = False,
) -> None:
    """Read a launch of Megatron-LM, torchtitan or DeepSpeed, and say every rule that it breaks, with the numbers.

    A launch without errors is evaluated as by `llm evaluate`, and the best strategy of the same model, batch and GPUs
    stands beside it. Exit code 3 if the launch does not fit the memory of a GPU. Flags that are not used are listed;
    an unknown flag that may change the layout is refused.

    The cluster is that of an instance of kind llm-training among the files, or of settings: `device`, `gpus`,
    `gpus_per_server`, `degree` (interfaces of a server), `link_gbps`, `intra_server_gbps`, `gpu_memory_gib`. `model` is
    its name, `length` the tokens of a sequence, and `vocabulary` that of the tokenizer, where no flag says them.
    """
    output = Output.choose(as_json)

    def command() -> int:
        given = options.typed_settings(options.settings_of(settings, CHECK_SETTINGS), CHECK_SETTINGS)
        checked = _Checked(files, given)
        document = checked.document(time_limit if time_limit is not None else DEFAULT_LIMIT_S)
        said = f"{answer(checked.problem, document)} {_beside(document)}"
        output.result(document, lambda console: _show_check(console, document), said)
        return 0 if document["fits"] else InfeasibleError.exit_code

    output.run(command)


class _Checked:
    """A launch with its instance, without errors.

    Args:
        files: of the launch, and at most one instance.
        given: settings.

    Raises:
        InputError: every rule that the launch breaks, or what is missing or said twice.
    """

    def __init__(self, files: Sequence[Path], given: dict[str, Any]) -> None:
        self.launches, self.instance = _parted(files)
        if not self.launches:
            raise InputError([Problem("no launch among the files", path="LAUNCH", allowed="a script or flags")])
        self.file = str(self.launches[0])
        self.launch = read_launch(self.launches)
        if "vocabulary" in given:
            self.launch = self.launch.but("vocabulary", given["vocabulary"])
        self.problem = self._problem(given)
        self.division = self._division()

    def _problem(self, given: dict[str, Any]) -> LlmTrainingProblem:
        from topoopt.kinds.llm_training.read import model_of, read_llm_training
        from topoopt.kinds.llm_training.schema import ModelSection

        launch = self.launch
        data: dict[str, Any] = {}
        section = model_section(launch)
        if self.instance is not None:
            assert isinstance(self.instance.data, dict)
            data = deepcopy(self.instance.data)
            beside = [name for name in given if name in ("model", "length", "gpus", *CLUSTER)]
            if beside:
                said = [(f"--set {name}", str(given[name])) for name in beside]
                raise InputError([Problem("the instance says it", path=path, value=value) for path, value in said])
        else:
            _missing(launch, section, given, self.file)
            data = {"schema_version": 1, "kind": KIND, "name": _name(self.file), "cluster": self._cluster(given)}
            data |= {"model": given["model"]} if "model" in given else {}
        own = "model" in data
        if not own and section is not None:
            data["model"] = section
        batch = dict(data.get("batch", {}))
        length, sequences = launch.values.get("length", given.get("length")), launch.values.get("sequences", -1)
        batch |= {} if length is None else {"length": length}
        batch |= {"sequences": sequences} if sequences > 0 else {} if "sequences" in batch else {"sequences": 1}
        if set(launch.values) & {"bf16", "fp16", "fp8"}:
            data["formats"] = {**data.get("formats", {}), **formats_section(launch)}
        data |= {"batch": batch, "fabrics": ["ideal-switch"], "search": {"proof": False, "top": 1}}
        data["strategy"] = {"schedule": ["1f1b", "interleaved"]}
        for name in ("switching", "pods", "slack_percent"):
            data.pop(name, None)
        file = self.file if self.instance is None else self.instance.file
        problem = read_llm_training(replace(parse_json(json.dumps(data), MAX_NODES), file=file))
        if own and isinstance(section, dict):
            flags, _ = model_of(ModelSection.model_validate(section), Path())
            _same_model(problem.model, flags, launch, file)
        return problem

    def _cluster(self, given: dict[str, Any]) -> dict[str, Any]:
        gpus = _gpus(self.launch, given.get("gpus"))
        section = {name: given[name] for name in CLUSTER if name in given}
        per_node = self.launch.values.get("gpus_per_node")
        section.setdefault("gpus_per_server", per_node if per_node else min(gpus, 8))
        if gpus % section["gpus_per_server"]:
            text, value = f"does not divide the {gpus} GPUs", str(section["gpus_per_server"])
            raise InputError([Problem(text, path="gpus_per_server", value=value, allowed=f"divisors of {gpus}")])
        section["servers"] = gpus // section["gpus_per_server"]
        if "degree" not in section and "link_gbps" in section:
            section["degree"] = section["gpus_per_server"]
        if section.get("degree") == section["gpus_per_server"]:
            section["interfaces"] = "per-gpu"
        return section

    def _division(self) -> Division:
        from topoopt.simulate.llm_training.strategies import strategy_problems

        problem, launch = self.problem, self.launch
        gpus = problem.cluster.gpus
        said = world_of(launch)
        if said is not None and said != gpus:
            text, allowed = f"the cluster has {gpus} GPUs", str(gpus)
            raise InputError([Problem(text, self.file, None, launch.flag("gpus_per_node"), str(said), allowed)])
        model = problem.model
        experts = 1 if model.experts is None else model.experts.count
        sizes = Sizes(model.layers, model.heads, model.kv_heads, experts, problem.batch.length, gpus)
        beside = None if self.instance is None else problem.batch.sequences
        division = division_of(launch, sizes, beside)
        if not division.problems:
            self.problem = replace(problem, batch=TrainingBatch(division.sequences, problem.batch.length))
            division = replace(division, problems=tuple(strategy_problems(self.problem, division.strategy)))
        if division.problems:
            raise InputError([replace(item, file=self.file) for item in division.problems])
        return division

    def document(self, time_limit_s: float) -> dict[str, Any]:
        """For programs: figures of the launch, and of the best strategy beside it."""
        from topoopt.simulate.llm_training.step import estimate

        strategy = self.division.strategy
        document = estimate_document(self.problem, strategy, estimate(self.problem, strategy))
        notes = [*document["notes"], *model_notes(self.launch), *self.division.notes]
        notes += [f"{flag}: evaluated as if it were not there" for flag in self.launch.noted]
        best = _best(self.problem, time_limit_s)
        if (seconds := best.get("iteration_time_s")) is not None:
            best["speedup"] = document["iteration_time_s"] / seconds
            if document["fits"] and best["speedup"] < 1:
                best = {"reason": f"the search ended at {seconds:.6g} s an iteration, which is slower"}
        return {
            **document,
            "notes": notes,
            "dialect": self.launch.dialect,
            "gpus": self.problem.cluster.gpus,
            "sequences": self.problem.batch.sequences,
            "micro_batches": self.problem.batch.sequences // (strategy.data * strategy.micro_batch),
            "not_used": list(self.launch.unused),
            "best": best,
        }


def _parted(files: Sequence[Path]) -> tuple[list[Path], Document | None]:
    """Files of the launch, and the instance among them."""
    launches: list[Path] = []
    instances: list[Document] = []
    for file in files:
        document = parse_document(file) if file.suffix.lower() in (".json", ".yaml", ".yml") else None
        data = None if document is None else document.data
        if document is not None and isinstance(data, dict) and data.get("kind") == KIND:
            instances.append(document)
        else:
            launches.append(file)
    if len(instances) > 1:
        value = ", ".join(document.file for document in instances)
        raise InputError([Problem("several instances", path="LAUNCH", value=value, allowed="one")])
    return launches, instances[0] if instances else None


def _missing(launch: Launch, section: object, given: dict[str, Any], file: str) -> None:
    """Refuse a launch that leaves open what is trained, or on what.

    Raises:
        InputError: each of them, and how it is said.
    """
    open_parts = [] if section is not None or "model" in given else [("model", "sizes of the model")]
    open_parts += [] if "length" in launch.values or "length" in given else [("length", "tokens of a sequence")]
    open_parts += [] if "device" in given else [("device", "the GPU")]
    if open_parts:
        allowed = "--set {}=..., or an instance of kind llm-training among the files"
        raise InputError(
            [Problem(f"missing: {what}", file, path=name, allowed=allowed.format(name)) for name, what in open_parts]
        )


def _gpus(launch: Launch, said: int | None) -> int:
    started = world_of(launch)
    if said is not None and started is not None and said != started:
        raise InputError([Problem(f"the launcher starts {started}", path="--set gpus", value=str(said))])
    gpus = said if said is not None else started
    if gpus is None:
        allowed = "--set gpus=N, --nnodes and --nproc-per-node, or an instance"
        raise InputError([Problem("missing: number of GPUs", path="--set gpus", allowed=allowed)])
    return gpus


def _name(file: str) -> str:
    kept = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in Path(file).stem)
    return kept.strip("-")[:100] or "launch"


def _same_model(model: LanguageModel, flags: LanguageModel, launch: Launch, beside: str) -> None:
    """Refuse sizes in which flags and instance differ.

    Raises:
        InputError: each of them, with both numbers; where they are alike, numbers of parameters that are not.
    """
    if launch.values.get("vocabulary") == model.vocabulary:
        flags = replace(flags, vocabulary=model.vocabulary)
    pairs = [(field, _size(flags, field), _size(model, field)) for field in COMPARED]
    problems = [
        Problem(f"the model of {beside} has {other}", path=launch.flag(field), value=own, allowed=other)
        for field, own, other in pairs
        if own != other
    ]
    own, other = parameters(flags), parameters(model)
    if not problems and own != other:
        text = f"the model of {beside} has {other:,} parameters: biases, matrices of an MLP or norms differ"
        problems = [Problem(text, path="model", value=f"{own:,}", allowed=f"{other:,}")]
    raise_any(problems)


COMPARED = {
    "layers": "layers",
    "hidden": "hidden",
    "ffn_hidden": "inner",
    "heads": "heads",
    "kv_heads": "kv_heads",
    "vocabulary": "vocabulary",
    "positions": "positions",
    "experts": "experts",
    "untied": "tied",
}
"""Attributes of a model by the field of a launch that sets them."""


def _size(model: LanguageModel, field: str) -> str:
    """One of `COMPARED`, in words."""
    value = getattr(model, COMPARED[field])
    if field == "experts":
        return "no experts" if value is None else f"{value.count} experts of {value.hidden}"
    if field == "untied":
        return "a tied head" if value else "a head of its own"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _best(problem: LlmTrainingProblem, time_limit_s: float) -> dict[str, Any]:
    """The fastest strategy that fits, by the search of `topoopt solve`, or why there is none."""
    from topoopt.kinds.kind import SolveOptions
    from topoopt.kinds.pipeline import solve

    try:
        result = solve(problem, SolveOptions(time_limit_s=time_limit_s))
    except (InfeasibleError, LimitError) as error:
        return {"reason": str(error).partition("\n")[0]}
    strategy: ParallelStrategy = result.plan.fabrics[0].strategy
    return {
        "strategy": asdict(strategy),
        "iteration_time_s": result.objective.value,
        "status": result.status.value,
        "arguments": _arguments(strategy, problem),
    }


def _arguments(strategy: ParallelStrategy, problem: LlmTrainingProblem) -> str:
    from topoopt.formats.launch import arguments_of

    listed = arguments_of(strategy, problem, experts=problem.model.experts is not None)
    skipped = ("--num-layers", "--seq-length", "--global-batch-size")
    return " ".join(f"{name} {value}".strip() for name, value in listed if name not in skipped)


def _beside(document: dict[str, Any]) -> str:
    best = document["best"]
    if "reason" in best:
        return f"No strategy stands beside it: {best['reason']}."
    if best["speedup"] < SAME:
        return "No strategy that was searched is faster by half a percent."
    return f"The best of its strategies is {ratio(best['speedup'])} as fast: {best['arguments']}."


def _show_check(console: Console, document: dict[str, Any]) -> None:
    strategy, best = document["strategy"], document["best"]
    parts = ", ".join(f"{name} {value}" for name, value in strategy.items() if isinstance(value, int))
    lines = [
        f"launch: {parts}, {strategy['schedule']}, recompute {strategy['recompute']}",
        f"{document['gpus']} GPUs, {document['sequences']} sequences in {document['micro_batches']} micro-batches of "
        f"each replica; {document['iteration_time_s']:.6g} s an iteration",
        f"GiB of the fullest GPU: {document['memory_gib']['total']:.4g} "
        f"({'fits' if document['fits'] else 'does not fit'})",
    ]
    if "reason" not in best:
        lines.append(f"best: {best['iteration_time_s']:.6g} s an iteration ({best['status']}): {best['arguments']}")
    if document["not_used"]:
        lines.append(f"not used: {', '.join(document['not_used'])}")
    say(console, *lines, notes=document["notes"])
