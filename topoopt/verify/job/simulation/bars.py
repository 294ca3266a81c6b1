"""The bars of a timeline: which an iteration has, which may be joined or left out, and whether a solution shows these.

With more tasks than `MOST_BARS`, the transfers of a server are shown as the times in which it sends any. Passes of one
direction that follow each other on a server may then be one bar, named by their number; and servers may be missing
whole, the last ones that are not on the critical path, if there is no room for the next one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from topoopt.core.job_solution import Span
from topoopt.verify.job.simulation.rounds import Times
from topoopt.verify.job.simulation.tasks import KINDS, TRANSFER, IterationTasks
from topoopt.verify.laws.findings import ViolationLog, as_float

MOST_BARS = 8000

Name = tuple[int, str, str]


def span_of(tasks: IterationTasks, times: Times, names: Sequence[str], task: int) -> Span:
    """The bar of a task."""
    kind, label = tasks.kind[task], names[tasks.operator[task]]
    if kind == TRANSFER:
        label += f" {tasks.lane[task]}→{tasks.target[task]}"
    return Span(tasks.lane[task], KINDS[kind], label, times.start[task], times.end[task])


def expected_bars(tasks: IterationTasks, times: Times, names: Sequence[str]) -> tuple[list[Span], bool]:
    """A bar for every task that takes time, transfers merged where these are too many; and whether they are."""
    shown = [task for task in range(len(tasks)) if times.end[task] > times.start[task]]
    if len(shown) <= MOST_BARS:
        return [span_of(tasks, times, names, task) for task in shown], False
    bars = [span_of(tasks, times, names, task) for task in shown if tasks.kind[task] != TRANSFER]
    sent = defaultdict(list)
    for task in shown:
        if tasks.kind[task] == TRANSFER:
            sent[tasks.lane[task]].append((times.start[task], times.end[task]))
    for server, spans in sent.items():
        bars += _merged(server, sorted(spans))
    return bars, True


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


def check_bars(
    findings: ViolationLog,
    stated: Sequence[Span],
    servers_left_out: int,
    expected: Sequence[Span],
    critical: Sequence[Span],
    slack: float,
    *,
    crowded: bool,
) -> None:
    """Every bar stated is one of the iteration, or joins some that follow each other; none is left out unsaid."""
    if crowded:
        expected = _of_shown_servers(findings, stated, servers_left_out, expected, critical, slack)
    elif servers_left_out != 0:
        findings.add("timeline", f"{servers_left_out} servers are said to be left out, and there is room for all")
    left, wrong = _unmatched(stated, expected, slack)
    if crowded:
        left, wrong = _joined(left, wrong, slack)
    for bar in wrong:
        findings.add("timeline", f"{_text(bar)} is no bar of the simulated iteration")
    for bar in left:
        findings.add("timeline", f"{_text(bar)} is left out of the timeline")
    starts = [as_float(bar.start_ms) for bar in stated]
    if any(not after >= before for before, after in pairwise(starts)):
        findings.add("timeline", "the bars are not in the order of their starts")


def _of_shown_servers(
    findings: ViolationLog,
    stated: Sequence[Span],
    servers_left_out: int,
    expected: Sequence[Span],
    critical: Sequence[Span],
    slack: float,
) -> list[Span]:
    """The bars of the servers that are shown, which must be all, or as many as there is room for."""
    lanes = sorted({bar.lane for bar in expected})
    always = {-1, *(step.lane for step in critical)}
    missing = len(lanes) - len({bar.lane for bar in stated} & set(lanes))
    if servers_left_out != missing:
        findings.add("timeline", f"{servers_left_out} servers are said to be left out, and {missing} are")
    others = [lane for lane in lanes if lane not in always]
    cut = len(others) - missing
    if missing and cut >= 0:
        least = Counter(bar.lane for bar in _fewest([bar for bar in expected if bar.lane == others[cut]], slack))
        if len(stated) + sum(least.values()) <= MOST_BARS:
            findings.add("timeline", f"server {others[cut]} is left out, and there is room for it")
    gone = set(others[max(cut, 0) :])
    return [bar for bar in expected if bar.lane not in gone]


def _fewest(bars: Sequence[Span], slack: float) -> list[Span]:
    """The first bar of every run of passes that may be joined, and all other bars."""
    firsts: list[Span] = []
    before: dict[str, Span] = {}
    for bar in sorted(bars, key=_times):
        last = before.get(bar.kind)
        if bar.kind == KINDS[TRANSFER] or last is None or bar.start_ms > last.end_ms + slack:
            firsts.append(bar)
        before[bar.kind] = bar
    return firsts


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


def _joined(left: Sequence[Span], wrong: Sequence[Span], slack: float) -> tuple[list[Span], list[Span]]:
    """What is still left and wrong when bars may join passes of a server that follow each other without a gap."""
    runs: dict[tuple[int, str], list[Span]] = defaultdict(list)
    for bar in sorted(left, key=_times):
        runs[bar.lane, bar.kind].append(bar)
    starts = {key: [bar.start_ms for bar in run] for key, run in runs.items()}
    taken: dict[tuple[int, str], set[int]] = defaultdict(set)
    still_wrong: list[Span] = []
    for bar in wrong:
        key = bar.lane, bar.kind
        run = runs.get(key, [])
        first = bisect_left(starts.get(key, []), as_float(bar.start_ms) - slack)
        last = _end_of(run, first, bar, slack)
        if last is None or not taken[key].isdisjoint(range(first, last)):
            still_wrong.append(bar)
        else:
            taken[key].update(range(first, last))
    return [bar for key, run in runs.items() for at, bar in enumerate(run) if at not in taken[key]], still_wrong


def _end_of(run: Sequence[Span], first: int, bar: Span, slack: float) -> int | None:
    """Past the last bar of a run that a stated bar joins, begun with the first; None if it joins none."""
    if first >= len(run) or bar.kind == KINDS[TRANSFER] or abs(run[first].start_ms - as_float(bar.start_ms)) > slack:
        return None
    at = first + 1
    while at < len(run) and run[at].start_ms <= run[at - 1].end_ms + slack:
        at += 1
        same_end = abs(run[at - 1].end_ms - as_float(bar.end_ms)) <= slack
        if same_end and bar.label == f"{at - first} operators":
            return at
    return None


def _times(bar: Span) -> tuple[float, float]:
    return as_float(bar.start_ms), as_float(bar.end_ms)


def same_times(bar: Span, other: Span, slack: float) -> bool:
    """Whether two bars begin and end together."""
    return abs(as_float(bar.start_ms) - other.start_ms) <= slack and abs(as_float(bar.end_ms) - other.end_ms) <= slack


def _text(bar: Span) -> str:
    return f"{bar.kind} {bar.label} on {bar.lane} from {bar.start_ms!r} to {bar.end_ms!r} ms"
