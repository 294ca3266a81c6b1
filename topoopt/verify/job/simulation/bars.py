"""The bars of a timeline: which an iteration has, which may be left out, and whether a solution shows these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from topoopt.core.job_solution import Span
from topoopt.verify.job.simulation.rounds import Times
from topoopt.verify.job.simulation.tasks import KINDS, TRANSFER, IterationTasks
from topoopt.verify.laws.findings import ViolationLog, as_float

MOST_BARS = 8000
"""With more bars than this, the transfers of a server are shown as the times in which it sends any; if there are still
more, only so many are shown, the longest."""

Name = tuple[int, str, str]


def span_of(tasks: IterationTasks, times: Times, names: Sequence[str], task: int) -> Span:
    """The bar of a task."""
    kind, label = tasks.kind[task], names[tasks.operator[task]]
    if kind == TRANSFER:
        label += f" {tasks.lane[task]}→{tasks.target[task]}"
    return Span(tasks.lane[task], KINDS[kind], label, times.start[task], times.end[task])


def expected_bars(tasks: IterationTasks, times: Times, names: Sequence[str]) -> list[Span]:
    """A bar for every task that takes time; transfers merged where there are more than `MOST_BARS`."""
    shown = [task for task in range(len(tasks)) if times.end[task] > times.start[task]]
    if len(shown) <= MOST_BARS:
        return [span_of(tasks, times, names, task) for task in shown]
    bars = [span_of(tasks, times, names, task) for task in shown if tasks.kind[task] != TRANSFER]
    sent = defaultdict(list)
    for task in shown:
        if tasks.kind[task] == TRANSFER:
            sent[tasks.lane[task]].append((times.start[task], times.end[task]))
    for server, spans in sent.items():
        bars += _merged(server, sorted(spans))
    return bars


def _merged(server: int, spans: list[tuple[float, float]]) -> list[Span]:
    """The times in which a server sends any of its transfers, in order of their start."""
    bars: list[Span] = []
    count, start, reach = 0, 0.0, -1.0
    for began, ended in [*spans, (float("inf"), 0.0)]:
        if count and began > reach:
            bars.append(Span(server, KINDS[TRANSFER], f"{count} transfers", start, reach))
            count = 0
        start, reach = (start, max(reach, ended)) if count else (began, ended)
        count += 1
    return bars


def check_bars(findings: ViolationLog, stated: Sequence[Span], expected: Sequence[Span], slack: float) -> None:
    """Every bar stated is one of the iteration, and none is left out but the shortest beyond `MOST_BARS`."""
    left, wrong = _unmatched(stated, expected, slack)
    for bar in wrong:
        findings.add("timeline", f"{_text(bar)} is no bar of the simulated iteration")
    due = min(len(expected), MOST_BARS)
    if len(stated) != due:
        findings.add("timeline", f"the timeline has {len(stated)} bars, {due} expected")
    shortest = min((bar.end_ms - bar.start_ms for bar in stated), default=float("inf"))
    cut = len(expected) > MOST_BARS
    for bar in left:
        if not cut or bar.end_ms - bar.start_ms > shortest + 2 * slack:
            findings.add("timeline", f"{_text(bar)} is left out of the timeline")
    starts = [as_float(bar.start_ms) for bar in stated]
    if any(not after >= before for before, after in pairwise(starts)):
        findings.add("timeline", "the bars are not in the order of their starts")


def _unmatched(stated: Sequence[Span], expected: Sequence[Span], slack: float) -> tuple[list[Span], list[Span]]:
    """Bars of the iteration that are not stated, and stated ones that are not of the iteration.

    Bars of one name are matched in the order of their starts, as they cannot overlap another way.
    """
    due: dict[Name, list[Span]] = defaultdict(list)
    for bar in expected:
        due[bar.lane, bar.kind, bar.label].append(bar)
    said: dict[Name, list[Span]] = defaultdict(list)
    for bar in stated:
        said[bar.lane, bar.kind, bar.label].append(bar)
    left: list[Span] = []
    wrong: list[Span] = []
    for name in {**due, **said}:
        waiting = sorted(due[name], key=_times)
        place = 0
        for bar in sorted(said[name], key=_times):
            while place < len(waiting) and as_float(bar.start_ms) > waiting[place].start_ms + slack:
                left.append(waiting[place])
                place += 1
            if place < len(waiting) and same_times(bar, waiting[place], slack):
                place += 1
            else:
                wrong.append(bar)
        left += waiting[place:]
    return left, wrong


def _times(bar: Span) -> tuple[float, float]:
    return as_float(bar.start_ms), as_float(bar.end_ms)


def same_times(bar: Span, other: Span, slack: float) -> bool:
    """Whether two bars begin and end together."""
    return abs(as_float(bar.start_ms) - other.start_ms) <= slack and abs(as_float(bar.end_ms) - other.end_ms) <= slack


def _text(bar: Span) -> str:
    return f"{bar.kind} {bar.label} on {bar.lane} from {bar.start_ms!r} to {bar.end_ms!r} ms"
