"""`topoopt evaluate`: time and memory of one configuration of an instance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output


def evaluate(
    file: Annotated[Path, typer.Argument(help="Instance of kind llm-training.")],
    tensor: Annotated[int | None, typer.Option(min=1, help="GPUs that share each matrix.")] = None,
    sequence: Annotated[
        bool | None, typer.Option("--sequence/--no-sequence", help="Split what lies between the matrices too.")
    ] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Parts of each sequence.")] = None,
    pipeline: Annotated[int | None, typer.Option(min=1, help="Stages.")] = None,
    chunks: Annotated[int | None, typer.Option(min=1, help="Runs of layers of a stage.")] = None,
    data: Annotated[int | None, typer.Option(min=1, help="Replicas; default: what the others leave.")] = None,
    expert: Annotated[int | None, typer.Option(min=1, help="GPUs that share the experts of a layer.")] = None,
    expert_tensor: Annotated[int | None, typer.Option(min=1, help="GPUs that share each expert.")] = None,
    zero: Annotated[int | None, typer.Option(min=0, max=3, help="What replicas share: ZeRO 0 to 3.")] = None,
    micro_batch: Annotated[int | None, typer.Option(min=1, help="Sequences of a micro-batch.")] = None,
    schedule: Annotated[str | None, typer.Option(help="gpipe, 1f1b, interleaved, zb-h1, zb-2p or dualpipe.")] = None,
    recompute: Annotated[str | None, typer.Option(help="none, selective or full.")] = None,
    fabric: Annotated[
        list[str] | None,
        typer.Option(help="Also on this network, e.g. direct-connect, torus-3d, rail-only, photonic-rails."),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Time, its parts and memory of one configuration; what is not given is as the instance pins it, else plain."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.evaluate.answer import answer
        from topoopt.analyses.evaluate.run import chosen_strategy, estimate_document
        from topoopt.core.parallelism import PipelineSchedule, Recompute
        from topoopt.files.documents import parse_document
        from topoopt.kinds.llm_training.read import read_llm_training
        from topoopt.simulate.llm_training.step import estimate

        problem = read_llm_training(parse_document(file))
        given: dict[str, Any] = {
            "tensor": tensor,
            "sequence": sequence,
            "context": context,
            "pipeline": pipeline,
            "chunks": chunks,
            "data": data,
            "expert": expert,
            "expert_tensor": expert_tensor,
            "zero": zero,
            "micro_batch": micro_batch,
            "schedule": _named("--schedule", schedule, PipelineSchedule),
            "recompute": _named("--recompute", recompute, Recompute),
        }
        strategy = chosen_strategy(problem, given)
        ideal = estimate(problem, strategy)
        document = estimate_document(problem, strategy, ideal)
        if problem.switching is not None:
            document["switching"] = _switched(file, problem, strategy)
        if fabric:
            document["fabrics"] = _on_fabrics(problem, strategy, ideal, fabric, document.get("switching"))
        output.result(document, lambda console: _show(console, document), answer(problem, document))
        return 0

    output.run(command)


def _switched(file: Path, problem: Any, strategy: Any) -> dict[str, Any]:
    """The step with circuits set anew inside it, as the instance says, checked."""
    from solvers.stop import stop_on_signals
    from solvers.switching import RailSteps
    from topoopt.analyses.reconfiguration.rails import check_step
    from topoopt.analyses.reconfiguration.rails_command import placed
    from topoopt.analyses.reconfiguration.rails_words import step_document
    from topoopt.core.errors import InputError
    from topoopt.core.switching import SwitchMode

    settings = problem.switching
    mode = SwitchMode.PROVISIONED if settings.provisioned else SwitchMode.ON_DEMAND
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
    from topoopt.analyses.evaluate.on_fabrics import on_fabrics

    with stop_on_signals(None) as stop:
        return on_fabrics(problem, strategy, ideal, tuple(fabrics), stop, switched)


def _named(option: str, value: str | None, names: Any) -> Any:
    """The member of an enumeration that an option names.

    Raises:
        InputError: there is none.
    """
    from topoopt.core.errors import InputError, Problem
    from topoopt.files.faults import nearest_text, value_text

    if value is None:
        return None
    known = [one.value for one in names]
    if value not in known:
        raise InputError([Problem("unknown value", None, None, option, value_text(value), nearest_text(value, known))])
    return names(value)


def _show(console: Console, document: dict[str, Any]) -> None:
    parts = ", ".join(f"{name} {value}" for name, value in document["strategy"].items() if isinstance(value, int))
    times = ", ".join(f"{name} {value:.4g}" for name, value in document["breakdown_s"].items() if value)
    memory = ", ".join(f"{name} {value:.4g}" for name, value in document["memory_gib"].items())
    lines = [
        f"{document['name']}: {document['iteration_time_s']:.6g} s an iteration",
        f"strategy: {parts}, {document['strategy']['schedule']}, recompute {document['strategy']['recompute']}",
        f"seconds: {times}",
        f"GiB of the fullest GPU: {memory} ({'fits' if document['fits'] else 'does not fit'})",
        f"{document['tflops_per_gpu']:.5g} TFLOP/s a GPU, {100 * document['mfu']:.4g} % of its peak "
        f"(causal attention, without recomputation); {document['tokens_per_s_per_gpu']:.6g} tokens/s a GPU",
        *(_fabric_text(one) for one in document.get("fabrics", ())),
    ]
    if "switching" in document:
        one = document["switching"]
        lines.append(
            f"circuits set anew inside the step, {one['mode']}, {1e3 * one['delay_s']:.6g} ms: {one['step_s']:.6g} s; "
            f"electrical network {one['electrical_s']:.6g} s; ports are set {one['switches']} times"
        )
    for line in (*lines, *(f"note: {note}" for note in document["notes"])):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _fabric_text(one: dict[str, Any]) -> str:
    waits = {part["dimension"]: part["exposed_s"] for part in one["dimensions"]}
    worst = max(waits, key=lambda name: waits[name], default=None)
    text = f"{one['fabric']}: {one['iteration_time_s']:.6g} s"
    split = ", ".join(f"{family} {count}" for family, count in one["degree_split"].items() if count)
    text += "".join(f"; {part}" for part in (one["form"], split and f"interfaces {split}") if part)
    return text if worst is None else f"{text}; waits most for {worst}, {waits[worst]:.4g} s"
