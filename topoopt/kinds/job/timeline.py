"""The iteration as a Gantt chart: a lane a server, then the AllReduces, over a time axis that can be stretched."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection
from math import inf

from markupsafe import Markup

from topoopt.core.job_solution import JobSolution, Span
from topoopt.drawing.format import counted
from topoopt.drawing.lanes import COMPUTE, FEW_LANES, HEAD, LANE, LanesDrawing, axis, bar, critical, merged, sending
from topoopt.drawing.svg import element, picture

ALL_LANES = 32
"""Clusters up to this size show every server."""
ALLREDUCE_ROWS = 12
TOUCHING_MS = 1e-12


def shown_servers(solution: JobSolution) -> list[int]:
    """All servers, or for a big cluster those on the critical path and then those that compute longest, ascending."""
    n = solution.cluster.servers
    if n <= ALL_LANES:
        return list(range(n))
    on_path = dict.fromkeys(
        step.lane for step in solution.evaluation.critical_path if step.lane >= 0 and step.kind != "transfer"
    )
    busy = [0.0] * n
    for span in solution.evaluation.timeline:
        if 0 <= span.lane < n and span.kind in {"forward", "backward"}:
            busy[span.lane] += span.end_ms - span.start_ms
    chosen = [*on_path, *sorted((i for i in range(n) if i not in on_path), key=lambda i: (-busy[i], i))]
    return sorted(chosen[:FEW_LANES])


def packed(spans: list[Span], rows: int, first: Collection[Span] = ()) -> tuple[list[tuple[int, Span]], int]:
    """Row of each span so that no two of a row overlap, and how many found no row.

    Those of `first` are placed before the others; each in the first row that is free, in the order of their starts.
    """
    taken: list[list[tuple[float, float]]] = [[] for _ in range(rows)]
    placed: list[tuple[int, Span]] = []
    for span in sorted(spans, key=lambda item: (item not in first, item.start_ms, -item.end_ms, item.label)):
        row = next((i for i, times in enumerate(taken) if _is_free(times, span)), None)
        if row is not None:
            insort(taken[row], (span.start_ms, span.end_ms))
            placed.append((row, span))
    return placed, len(spans) - len(placed)


def _is_free(times: list[tuple[float, float]], span: Span) -> bool:
    """Whether a span overlaps none of a row, whose spans do not overlap each other."""
    after = bisect_right(times, (span.start_ms, inf))
    clear = after == 0 or times[after - 1][1] <= span.start_ms + TOUCHING_MS
    return clear and (after == len(times) or span.end_ms <= times[after][0] + TOUCHING_MS)


def _joined(solution: JobSolution, spans: list[Span]) -> list[str]:
    """What of the iteration the file does not show one by one, in words."""
    notes = []
    known = {operator.name for operator in solution.operators}
    joined = sum(span.kind in {"forward", "backward"} and span.label not in known for span in spans)
    if joined:
        notes.append(f"{counted(joined, 'bar')} stand for several short operators that follow each other.")
    missing = solution.evaluation.timeline_servers_left_out
    if missing:
        notes.append(f"The file has no room for the bars of {counted(missing, 'server')} off the critical path.")
    return notes


def timeline(solution: JobSolution) -> LanesDrawing:
    """Draw the iteration."""
    spans = [span for span in solution.evaluation.timeline if span.end_ms > span.start_ms]
    total = max([solution.objective.value, *(span.end_ms for span in spans)])
    if not spans or total <= 0:
        return LanesDrawing(True, Markup(""), Markup(""), ())
    servers = shown_servers(solution)
    n = solution.cluster.servers
    top = {server: HEAD + LANE * place for place, server in enumerate(servers)}
    shapes, names = [], []
    sends: dict[int, list[Span]] = {server: [] for server in servers}
    for server, y in top.items():
        shapes.append(element("rect", x=0, width="100%", y=y, height=LANE - 4, class_="lane"))
        names.append(element("text", f"server {server}", x=0, y=y + 14))
    for span in spans:
        if span.lane not in top:
            continue
        if span.kind == "transfer":
            sends[span.lane].append(span)
        elif span.kind in {"forward", "backward"}:
            css = "fwd" if span.kind == "forward" else "bwd"
            shapes.append(bar(span, total, top[span.lane], css, span.kind))
    path = dict.fromkeys(solution.evaluation.critical_path)  # in order: the same bytes every time
    for step in path:
        if step.lane in top:
            y = top[step.lane] + (COMPUTE if step.kind == "transfer" else -2.0)
            shapes.append(critical(step, total, y))
    for server, mine in sends.items():
        shapes.extend(sending(run, total, top[server] + COMPUTE + 1) for run in merged(mine))
    height = HEAD + LANE * len(servers)
    notes = []
    if len(servers) < n:
        notes.append(
            f"{len(servers)} of {n} servers are drawn: those on the critical path, then those that compute longest."
        )
    notes += _joined(solution, spans)
    reductions = [span for span in spans if span.kind == "allreduce"]
    if reductions:
        placed, left_out = packed(reductions, ALLREDUCE_ROWS, path)
        rows = 1 + max(row for row, _ in placed)
        height += 8
        names.append(element("text", "AllReduce", x=0, y=height + 11))
        for row, span in placed:
            shapes.append(bar(span, total, height + row * (COMPUTE + 2), "ar", "AllReduce"))
            if span in path:
                shapes.append(critical(span, total, height + row * (COMPUTE + 2) - 2.0))
        height += rows * (COMPUTE + 2) + 4
        if left_out:
            notes.append(
                f"At most {ALLREDUCE_ROWS} simultaneous AllReduces are drawn; {counted(left_out, 'more')[:-1]} not."
                if left_out > 1
                else f"At most {ALLREDUCE_ROWS} simultaneous AllReduces are drawn; one more is not."
            )
    return LanesDrawing(
        empty=False,
        names=picture(*names, label="Lanes", class_="lanes", width=84, height=int(height) + 2),
        bars=picture(
            axis(total, height), *shapes, label="Timeline of one iteration", class_="bars", height=int(height) + 2
        ),
        notes=tuple(notes),
    )
