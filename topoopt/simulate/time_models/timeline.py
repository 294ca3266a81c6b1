"""The timeline of an iteration: a bar a task, or, where there are very many, a bar for tasks that follow each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Ints
from topoopt.core.job import Span
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.simulate.time_models.time_model import Simulation

MOST_SPANS = 8000
"""Bars that a timeline has room for; see `timeline_of`."""

SHORTEST = 2.0**-12
"""Part of the iteration below which passes of a server are merged first."""


@dataclass(frozen=True)
class Timeline:
    """Bars in the order of their starts, and how many servers there was no room for."""

    spans: tuple[Span, ...]
    servers_left_out: int


def span_of(graph: TaskGraph, simulation: Simulation, task: int) -> Span:
    """The bar of a task."""
    kind = TaskKind(graph.kind[task])
    operator = int(graph.operator[task])
    name = graph.operator_names[operator] if 0 <= operator < len(graph.operator_names) else f"task {task}"
    if kind is TaskKind.TRANSFER:
        name += f" {graph.source[task]}→{graph.target[task]}"
    start_ms, end_ms = float(simulation.start_ms[task]), float(simulation.end_ms[task])
    return Span(int(graph.source[task]), kind.name.lower(), name, start_ms, end_ms)


def timeline_of(graph: TaskGraph, simulation: Simulation, critical: tuple[Span, ...]) -> Timeline:
    """A bar for every task that takes time.

    Where these are more than `MOST_SPANS`, the transfers of a server become the times in which it sends any, and passes
    of one direction that follow each other without a gap become one bar, those first that are shortest. Where that is
    not enough, servers are left out whole: the last ones that are not on the critical path.
    """
    shown = np.flatnonzero(simulation.end_ms > simulation.start_ms)
    left_out = 0
    if len(shown) <= MOST_SPANS:
        spans = [span_of(graph, simulation, int(task)) for task in shown]
    else:
        moved = graph.kind[shown] == TaskKind.TRANSFER
        reduced = graph.kind[shown] == TaskKind.ALLREDUCE
        spans = _merged_transfers(graph, simulation, shown[moved])
        spans += [span_of(graph, simulation, int(task)) for task in shown[reduced]]
        spans += _merged_passes(graph, simulation, shown[~moved & ~reduced], MOST_SPANS - len(spans))
        spans, left_out = _fewer_servers(spans, {span.lane for span in critical})
    return Timeline(tuple(sorted(spans, key=lambda span: (span.start_ms, span.lane))), left_out)


def _fewer_servers(spans: list[Span], critical: set[int]) -> tuple[list[Span], int]:
    """The bars of the critical servers, AllReduces among them, and of as many others as fit; how many do not."""
    bars = Counter(span.lane for span in spans)
    lanes = sorted(bars, key=lambda lane: (lane >= 0 and lane not in critical, lane))
    count = np.cumsum([bars[lane] for lane in lanes])
    always = sum(lane < 0 or lane in critical for lane in lanes)
    kept = set(lanes[: max(always, int(np.searchsorted(count, MOST_SPANS, side="right")))])
    return [span for span in spans if span.lane in kept], len(lanes) - len(kept)


def _merged_transfers(graph: TaskGraph, simulation: Simulation, moved: Ints) -> list[Span]:
    """For every server the times in which it sends any of the transfers."""
    spans = []
    for server in range(graph.servers):
        own = moved[graph.source[moved] == server]
        own = own[np.argsort(simulation.start_ms[own], kind="stable")]
        if not len(own):
            continue
        start, reach = simulation.start_ms[own], np.maximum.accumulate(simulation.end_ms[own])
        for low, high in _runs(np.concatenate(([True], start[1:] > reach[:-1]))):
            label = f"{high - low} transfers"
            spans.append(Span(server, "transfer", label, float(start[low]), float(reach[high - 1])))
    return spans


def _merged_passes(graph: TaskGraph, simulation: Simulation, passes: Ints, room: int) -> list[Span]:
    """Passes that follow each other merged: the shortest first, until so many bars are left as there is room for."""
    passes = passes[np.lexsort((simulation.start_ms[passes], graph.source[passes]))]
    start, end = simulation.start_ms[passes], simulation.end_ms[passes]
    server, kind = graph.source[passes], graph.kind[passes]
    apart = (server[1:] != server[:-1]) | (kind[1:] != kind[:-1]) | (start[1:] > end[:-1])
    shortest, first = SHORTEST, np.ones(len(passes), dtype=np.bool_)
    while first.sum() > room and shortest <= 1.0:
        long = end - start > shortest * simulation.iteration_time_ms
        first = np.concatenate(([True], apart | long[1:] | long[:-1]))[: len(passes)]
        shortest *= 2.0
    spans = []
    for low, high in _runs(first):
        span = span_of(graph, simulation, int(passes[low]))
        if high - low > 1:
            span = Span(span.lane, span.kind, f"{high - low} operators", span.start_ms, float(end[high - 1]))
        spans.append(span)
    return spans


def _runs(first: Bools) -> list[tuple[int, int]]:
    """Where runs begin and end, given which elements begin one."""
    starts = np.flatnonzero(first).tolist()
    return list(zip(starts, [*starts[1:], len(first)], strict=True))
