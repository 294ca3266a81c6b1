"""`topoopt pipeline`: schedules of a pipeline side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topoopt.console.output import JsonOption, Output

if TYPE_CHECKING:
    from topoopt.analyses.pipeline.rows import ScheduleRow
    from topoopt.analyses.pipeline.run import PipelineQuestion

    Rows = tuple[list[ScheduleRow], dict[str, str]]
    """Rows of schedules, and why others were left out."""

MOST_RANKS, MOST_BATCHES, MOST_CHUNKS, MOST_PASSES = 4096, 1_000_000, 256, 20_000_000


def pipeline(
    stages: Annotated[int, typer.Option(min=1, max=MOST_RANKS, help="Ranks of the pipeline p.")],
    micro_batches: Annotated[int, typer.Option(min=1, max=MOST_BATCHES, help="Of one iteration, m.")],
    schedule: Annotated[str, typer.Option(help="Names, parted by commas; all: those that allow the sizes.")] = "all",
    chunks: Annotated[int, typer.Option(min=1, max=MOST_CHUNKS, help="Stages of each rank v.")] = 1,
    group: Annotated[
        int, typer.Option(min=0, max=MOST_BATCHES, help="Micro-batches that pass a chunk in turn; 0: p.")
    ] = 0,
    forward: Annotated[str, typer.Option(help="ms of a micro-batch on a rank; or of each stage, with commas.")] = "1",
    backward: Annotated[str, typer.Option(help="The same, gradients of inputs and weights together.")] = "2",
    weights: Annotated[str | None, typer.Option(help="The part of it for weights; default: half.")] = None,
    transfer: Annotated[float, typer.Option(min=0.0, max=1e9, help="ms from a stage to the next.")] = 0.0,
    blocking: Annotated[bool, typer.Option(help="A rank waits for what it sends to arrive.")] = False,
    layers: Annotated[
        str | None,
        typer.Option(help="Weights of the layers to split over the stages, as 0.3,126x1,2; times are of weight 1."),
    ] = None,
    layer_state: Annotated[str, typer.Option(help="Memory of each layer's weights and optimizer.")] = "0",
    activations: Annotated[str, typer.Option(help="Memory of a micro-batch in each layer.")] = "0",
    room: Annotated[float, typer.Option(min=0.0, help="Memory of a rank, in the same unit.")] = math.inf,
    best: Annotated[
        bool, typer.Option("--best", help="Also the best possible in the same memory; up to 4 stages, 6 micro-batches.")
    ] = False,
    method: Annotated[str, typer.Option(help="For --best: cp-sat or milp.")] = "cp-sat",
    time_limit: Annotated[float, typer.Option(min=0.0, max=1e6, help="For --best, seconds.")] = 60.0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Page to write, .html: pictures; default: none.")
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Schedules of a pipeline: makespan, bubble and micro-batches in flight, every pass followed in its order."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.pipeline.answer import answer
        from topoopt.analyses.pipeline.report import pipeline_html
        from topoopt.analyses.pipeline.run import ALL, PipelineQuestion, chosen_schedules
        from topoopt.core.pipeline import PipelineShape
        from topoopt.files.atomic import write_text_atomically

        _check(out, stages * micro_batches * chunks)
        shape = PipelineShape(stages, micro_batches, chunks, group)
        costs = _costs(shape, forward, backward, weights, transfer * 1e-3, blocking)
        loads = None if layers is None else _layers(shape, costs, layers, (layer_state, activations, room))
        names = chosen_schedules(schedule)
        question = PipelineQuestion(names, schedule != ALL, shape, costs, loads, drawn=out is not None)
        rows, left_out = _rows(output, question, best, method, time_limit)
        if out is not None:
            title = f"{stages} ranks, {micro_batches} micro-batches" + (f", {chunks} chunks" if chunks > 1 else "")
            write_text_atomically(out, pipeline_html(title, rows))
        document = {**_document(question, rows), "left_out": left_out, "report": None if out is None else str(out)}
        output.result(document, lambda console: _show(console, rows, left_out, out), answer(rows))
        return 0

    output.run(command)


def _rows(output: Output, question: PipelineQuestion, best: bool, method: str, time_limit: float) -> Rows:
    from topoopt.analyses.pipeline.run import schedule_rows

    if not best:
        return schedule_rows(question)
    from topoopt.analyses.pipeline.best import against_best, require_tiny
    from topoopt.console.attended import attended

    require_tiny(question, method)
    rows, left_out = schedule_rows(question)
    with attended(output, time_limit) as run:
        run.doing = "best orders"
        return run.patient(lambda: against_best(question, rows, run.timing.stop, method)), left_out


def _check(out: Path | None, passes: int) -> None:
    from topoopt.core.errors import InputError, Problem

    problems = []
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        problems.append(Problem("the extension says what to write", path="--out", value=str(out), allowed=".html"))
    if passes > MOST_PASSES:
        text = "stages times micro-batches times chunks is too large"
        problems.append(Problem(text, path="--micro-batches", value=str(passes), allowed=f"at most {MOST_PASSES}"))
    if problems:
        raise InputError(problems)


def _costs(shape: Any, forward: str, backward: str, weights: str | None, transfer_s: float, blocking: bool) -> Any:
    from topoopt.analyses.pipeline.run import stage_times
    from topoopt.core.errors import InputError, Problem
    from topoopt.core.pipeline import StageCosts

    ahead, back = stage_times("--forward", forward, shape), stage_times("--backward", backward, shape)
    late = back / 2 if weights is None else stage_times("--weights", weights, shape)
    if (late > back).any():
        text = "more than the whole backward pass"
        raise InputError([Problem(text, path="--weights", value=str(weights), allowed=f"at most {backward}")])
    return StageCosts(ahead * 1e-3, (back - late) * 1e-3, late * 1e-3, transfer_s, blocking)


def _layers(shape: Any, costs: Any, weights: str, memory: tuple[str, str, float]) -> Any:
    from topoopt.analyses.pipeline.layers import MOST_LAYERS, Layers, numbers
    from topoopt.core.errors import InputError, Problem

    allowed = f"numbers of at least 0 parted by commas, 126x1 for 126 of 1; at most {MOST_LAYERS}"
    each = numbers("--layers", weights, None, allowed)
    if shape.chunks > 1 or any(len(set(part)) > 1 for part in (costs.forward_s, costs.inputs_s, costs.weights_s)):
        text = "layers go to one stage a rank, and times are those of a layer of weight 1"
        raise InputError([Problem(text, path="--layers", value=weights, allowed="--chunks 1, one number for times")])
    state, held, room = memory
    allowed = f"one number, or {len(each)}"
    return Layers(
        each * costs.forward_s[0],
        each * costs.inputs_s[0],
        each * costs.weights_s[0],
        numbers("--layer-state", state, len(each), allowed),
        numbers("--activations", held, len(each), allowed),
        room,
    )


def _document(question: PipelineQuestion, rows: list[ScheduleRow]) -> dict[str, Any]:
    shape = question.shape
    return {
        "stages": shape.ranks,
        "micro_batches": shape.micro_batches,
        "chunks": shape.chunks,
        "schedules": [
            {
                "schedule": row.schedule.value,
                "makespan_ms": row.makespan_ms,
                "longest_span_ms": row.longest_span_ms,
                "bubble_ms": row.bubble_ms,
                "formula_ms": row.formula_ms,
                "in_flight": list(row.in_flight),
                "micro_batches_followed": row.evaluated,
                "best_ms": row.best_ms,
                "bound_ms": row.bound_ms,
                "stage_layers": list(row.stage_layers),
                "best_bound_ms": row.best_bound_ms,
            }
            for row in rows
        ],
    }


def _show(console: Any, rows: list[ScheduleRow], left_out: dict[str, str], out: Path | None) -> None:
    from topoopt.analyses.pipeline.report import HEADINGS, more_cells, more_headings, table_cells
    from topoopt.console.tables import TerminalTable, stacked

    more = more_headings(rows)
    table = TerminalTable(title="times in ms", dense=bool(more))
    for place, heading in enumerate(HEADINGS + more):
        name = heading.removesuffix(", ms")
        table.add_column(stacked(name) if more else name, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*table_cells(row), *more_cells(row, more))
    console.print(table)
    for name, why in left_out.items():
        console.print(f"left out: {name}: {why}", markup=False, soft_wrap=True, highlight=False)
    if out is not None:
        console.print(f"written: {out}", markup=False, soft_wrap=True, highlight=False)
