"""A job on fabrics as bars, cut into the parts of its critical path, and a table."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.analyses.fabrics.answer import answer
from topoopt.analyses.fabrics.bars import BarPart, ComparedFabric, FabricBars
from topoopt.core.comparison import FLOW_LEVEL, PLAN, FabricRow
from topoopt.drawing.format import milliseconds, number, quotient, ratio

PARTS = (
    ("compute", "compute_ms", "c-compute"),
    ("model-parallel", "model_parallel_ms", "c-mp"),
    ("AllReduce", "allreduce_ms", "c-ar"),
    ("idle", "idle_ms", "c-idle"),
)
WHOLE = ("not split (flow-level model)", "iteration_time_ms", "quiet")
NOTE = (
    "Circuits that follow demand are simulated by the flow-level model (max-min fair shares), all others by the model "
    "of rounds; where there are any, the second column has the time of every row by the flow-level model, and only "
    "these compare with them. Compute, model-parallel and AllReduce are parts of the critical path. Links/byte: links "
    "that a demanded byte crosses on average, those to and from switches included. Fullest/mean: bytes of the fullest "
    "link by the mean over the links in use."
)


def ordered(rows: Sequence[FabricRow]) -> list[FabricRow]:
    """Those with a time, fastest first; then those left out."""
    return sorted(rows, key=lambda row: (row.iteration_time_ms is None, row.iteration_time_ms or 0.0))


def fabric_bars(title: str, rows: Sequence[FabricRow]) -> FabricBars:
    """The comparison for files."""
    return FabricBars(
        title=title,
        answer=answer(rows),
        axis="iteration time, ms",
        bars=tuple(_bar(row) for row in ordered(rows) if row.iteration_time_ms is not None),
        headings=(*HEADINGS, "what it is"),
        words=frozenset({"fabric", "outcome", "what it is"}),
        rows=tuple(table_cells(row, rows) for row in ordered(rows)),
        note=NOTE,
    )


def _bar(row: FabricRow) -> ComparedFabric:
    parts = []
    for name, field, css in PARTS if row.compute_ms is not None else (WHOLE,):
        size = getattr(row, field) or 0.0
        parts.append(BarPart(name, size, milliseconds(size), css))
    name = "direct-connect plan" if row.name == PLAN else row.name
    return ComparedFabric(name, milliseconds(row.iteration_time_ms or 0.0), tuple(parts), row.name == PLAN)


HEADINGS = (
    "fabric",
    "iteration, ms",
    "flow-level, ms",
    "to plan",
    "compute",
    "model-parallel",
    "AllReduce",
    "links/byte",
    "fullest/mean",
    "outcome",
)


def table_cells(row: FabricRow, rows: Sequence[FabricRow]) -> tuple[str, ...]:
    """A row as texts under `HEADINGS`, and the description at the end; `to plan` is its time over that of the plan,
    both by the time model of the row.
    """
    plan = next((each for each in rows if each.name == PLAN), None)
    against = "–"
    if plan is not None and row.name != PLAN:
        mine, its = row.iteration_time_ms, plan.iteration_time_ms
        if row.time_model == FLOW_LEVEL:
            mine, its = row.flow_level_ms, plan.flow_level_ms
        if mine is not None and its is not None:
            against = ratio(quotient(mine, its))
    figures = (row.compute_ms, row.model_parallel_ms, row.allreduce_ms, row.links_per_byte, row.fullest_over_mean)
    texts = ["–" if value is None else number(value) for value in (row.iteration_time_ms, row.flow_level_ms, *figures)]
    return (row.name, *texts[:2], against, *texts[2:], row.outcome, row.description)
