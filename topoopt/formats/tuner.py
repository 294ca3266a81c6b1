"""Tables of NCCL's tuner plug-in, which RCCL has built in: which algorithm runs from which size on.

A library takes the first line that matches and that it can run. A size that no line covers runs on one channel in NCCL,
so lines cover all sizes, with their channels stated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.result import Result
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldTable, noted, used
from topoopt.files.untrusted import read_csv_rows
from topoopt.formats.table import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes, refuse

MOST_BYTES = 2**64 - 1
MAX_TEXT = 64 * MIB
PROTOCOLS = ("ll", "ll128", "simple")
VALID: Mapping[str, tuple[str, ...]] = {
    "broadcast": ("ring",),
    "reduce": ("ring",),
    "allgather": ("ring", "nvls", "collnet_direct", "pat"),
    "reducescatter": ("ring", "nvls", "collnet_direct", "pat"),
    "allreduce": ("tree", "ring", "nvls", "nvls_tree", "collnet_direct", "collnet_chain"),
}
"""Algorithms that NCCL runs of each collective; lines of others never apply."""

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
EVERYWHERE = ("tree", "ring")
"""Those that need nothing of the machine; others have such a line after them, which applies where they do not."""

HEAD = "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"
COSTS = ("cost_metric", "time_us", "latency_us")
FIELDS: FieldTable = {
    "collective": used("broadcast, reduce, allgather, reducescatter or allreduce"),
    "size_bytes": used("size that was measured: the larger of what is sent and received"),
    "algorithm": used("what was run"),
    "protocol": used("ll, ll128 or simple"),
    "channels": used("how many"),
    "nodes": used("hosts; lines are of so many alone"),
    "ranks": used("ranks; lines are of so many alone"),
    "pipeOps": used("operations in a pipeline, or -1: any"),
    "regBuff": used("registered buffers: 1, 0, or -1: any"),
    "cost_metric": used("what is least; without it time_us, or latency_us"),
    "time_us": used("see cost_metric"),
    "latency_us": used("see cost_metric"),
    "any other": noted("its name"),
}


@dataclass(frozen=True)
class Choice:
    """What runs: algorithm, protocol, channels, and its cost in the measure of the table."""

    algorithm: str
    protocol: str
    channels: int
    cost: float = 0.0

    def __str__(self) -> str:
        return f"{self.algorithm}/{self.protocol} on {self.channels} channels"


@dataclass(frozen=True)
class TunerLine:
    """A line of the table: sizes inclusive; -1 is any."""

    collective: str
    min_bytes: int
    max_bytes: int
    choice: Choice
    nodes: int = -1
    ranks: int = -1
    pipe_ops: int = -1
    registered: int = -1

    def text(self) -> str:
        """As it stands in the file."""
        chosen = (self.choice.algorithm, self.choice.protocol, self.choice.channels)
        more = (self.nodes, self.ranks, self.pipe_ops, self.registered)
        return ",".join(map(str, (self.collective, self.min_bytes, self.max_bytes, *chosen, *more)))


Group = tuple[str, int, int, int, int]
"""Collective, nodes, ranks, operations in a pipeline, registered buffers."""


def of_measurements(target: str, file: Path, options: ExportOptions) -> Export:
    """Lines of the least cost of every size that was measured.

    Between two sizes with different winners the border is their geometric mean.

    Raises:
        InputError: a row that is none, words that the library does not know, no algorithm that it runs.
    """
    if options.channels is not None:
        raise refuse("the measurements state their channels", path="--set channels", allowed="left out")
    measured, unused = _measured(file)
    notes, lines, thresholds = list[str](), list[TunerLine](), list[dict[str, Any]]()
    for group, sizes in measured.items():
        winners: list[tuple[int, Choice, Choice | None]] = []
        for size, choices in sorted(sizes.items()):
            best = min(choices, key=lambda choice: choice.cost)
            able = [choice for choice in choices if _runs(group, choice)]
            thresholds.append(_threshold(group, size, best))
            if not able:
                text = f"{group[0]} of {size} bytes, {group[2]} ranks: no algorithm that NCCL runs was measured"
                raise refuse(text, value=str(best), allowed=", ".join(VALID[group[0]]))
            first = min(able, key=lambda choice: choice.cost)
            if first != best:
                thresholds[-1]["written"] = str(first)
                notes.append(
                    f"{group[0]} of {size} bytes, {group[2]} ranks: {best} has the least cost ({best.cost:g}), and the "
                    f"library never applies it; {first} ({first.cost:g}) is written"
                )
            plain = [choice for choice in able if choice.algorithm in EVERYWHERE]
            after = min(plain, key=lambda choice: choice.cost, default=None)
            winners.append((size, first, None if first.algorithm in EVERYWHERE else after))
        lines += _ranges(group, winners)
    notes += _machine_notes(lines)
    notes.append("between two measured sizes the next choice begins at their geometric mean: it was not measured there")
    if unused:
        notes.append(f"not used, columns of {file.name}: {', '.join(unused)}")
    return _export(target, lines, notes, {"thresholds": thresholds})


def _threshold(group: Group, size: int, best: Choice) -> dict[str, Any]:
    row = {"collective": group[0], "nodes": group[1], "ranks": group[2], "size_bytes": size}
    chosen = {"algorithm": best.algorithm, "protocol": best.protocol, "channels": best.channels, "cost": best.cost}
    return {**row, **chosen, "written": str(best)}


def _runs(group: Group, choice: Choice) -> bool:
    """Whether the library applies a choice at all."""
    collective, nodes, ranks, *_ = group
    if choice.algorithm not in VALID[collective] or (choice.algorithm == "nvls_tree" and nodes == 1):
        return False
    if choice.algorithm == "pat" and not (choice.protocol == "simple" and nodes in (ranks, -1)):
        return False
    return choice.algorithm in EVERYWHERE or choice.protocol == "simple"


def _ranges(group: Group, winners: Sequence[tuple[int, Choice, Choice | None]]) -> list[TunerLine]:
    """Lines that together cover all sizes; equal neighbours are one."""
    lines: list[TunerLine] = []
    start = 0
    for at, (size, first, after) in enumerate(winners):
        if at + 1 < len(winners) and [*map(str, (first, after))] == [*map(str, winners[at + 1][1:])]:
            continue
        stop = math.isqrt(size * winners[at + 1][0]) if at + 1 < len(winners) else MOST_BYTES
        for choice in (first, after):
            if choice is not None:
                lines.append(TunerLine(group[0], start, stop, choice, *group[1:]))
        start = stop + 1
    return lines


def _machine_notes(lines: Iterable[TunerLine]) -> list[str]:
    special = sorted({line.choice.algorithm for line in lines} - set(EVERYWHERE))
    if not special:
        return []
    return [
        f"{', '.join(special)}: the library passes such a line over where the machine cannot run it (over several "
        "nodes they need collnet); the line after it applies then"
    ]


def _measured(file: Path) -> tuple[dict[Group, dict[int, list[Choice]]], list[str]]:
    """Choices by group and size, in the order of the file, and columns that are not used.

    Raises:
        InputError: everything wrong with the table.
    """
    rows = read_csv_rows(file, MAX_TEXT)
    names = list(rows[0]) if rows else []
    cost = next((name for name in COSTS if name in names), None)
    needed = ("collective", "size_bytes", "algorithm", "protocol", "channels")
    missing = [name for name in needed if name not in names]
    if missing or cost is None:
        allowed = f"{', '.join(needed)}, and one of {', '.join(COSTS)}"
        text = f"no column {', '.join([*missing, *([] if cost else ['of costs'])])}"
        raise InputError([Problem(text, str(file), 1, None, value_text(", ".join(names)), allowed)])
    problems: list[Problem] = []
    measured: dict[Group, dict[int, list[Choice]]] = {}
    words = {"collective": tuple(VALID), "algorithm": ALGORITHMS, "protocol": PROTOCOLS}
    for line, cells in enumerate(rows, 2):
        row = {key: value.strip() for key, value in cells.items()}
        for column, allowed_words in words.items():
            if row[column] not in allowed_words:
                shown = value_text(row[column])
                problems.append(Problem("unknown word", str(file), line, column, shown, ", ".join(allowed_words)))
        try:
            size, channels = int(row["size_bytes"]), int(row["channels"])
            group = tuple(int(row.get(name, "") or -1) for name in ("nodes", "ranks", "pipeOps", "regBuff"))
            value = float(row[cost])
            if not 0 <= size <= MOST_BYTES or not 1 <= channels <= 64 or not 0 <= value < math.inf or min(group) < -1:
                raise ValueError
        except ValueError:
            allowed = "sizes 0 or more, channels 1 to 64, a cost 0 or more, whole numbers or -1 elsewhere"
            shown = value_text(",".join(row.values()))
            problems.append(Problem("not a measurement", str(file), line, None, shown, allowed))
            continue
        choices = measured.setdefault((row["collective"], *group), {}).setdefault(size, [])  # type: ignore[arg-type]
        choices.append(Choice(row["algorithm"], row["protocol"], channels, value))
    raise_any(problems[:50])
    columns = (*needed, "nodes", "ranks", "pipeOps", "regBuff", cost)
    return measured, [name for name in names if name not in columns]


TUNER_NAMES = {"allreduce": "allreduce", "allgather": "allgather", "reduce-scatter": "reducescatter",
               "broadcast": "broadcast", "reduce": "reduce"}  # fmt: skip
DEFAULT_CHANNELS = 16
SLACK = 2.0
"""A schedule within so much of the best rate counts as one for large vectors."""


def of_solution(target: str, solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Lines by what the plan takes: few steps for small vectors, the best rate for large ones.

    Raises:
        InputError: an All-to-All, which the table does not know, or ranks that do not fill servers.
    """
    problem, figures = solution.figures.problem, solution.figures
    word = TUNER_NAMES.get(problem.collective.value)
    if word is None:
        allowed = ", ".join(TUNER_NAMES)
        raise refuse("a collective that tuner tables do not know", value=problem.collective.value, allowed=allowed)
    ranks, per_server = len(problem.network.ranks), options.gpus_per_server
    if per_server is not None and ranks % per_server:
        raise refuse("ranks do not fill servers", path="--set gpus_per_server", value=per_server, allowed=f"of {ranks}")
    channels = options.channels or DEFAULT_CHANNELS
    ring, tree = Choice("ring", "simple", channels), Choice("tree", "simple", channels)
    front = figures.front
    large = next((line for line in front if line.us_per_mbyte <= SLACK * front[-1].us_per_mbyte), None)
    start = large.from_bytes if large is not None and word == "allreduce" else 0
    group = word, -1 if per_server is None else ranks // per_server, ranks, -1, -1
    parts = [(0, start - 1, tree), (start, MOST_BYTES, ring)] if start > 1 else [(0, MOST_BYTES, ring)]
    lines = [TunerLine(group[0], low, high, choice, *group[1:]) for low, high, choice in parts]
    notes = [
        f"channels {channels}: {'as the setting says' if options.channels else 'assumed; --set channels states them'}",
        "of the plan this keeps from which size on it takes schedules of the best rate (ring) in place of those of few "
        "steps (tree); the schedules themselves need --to msccl or --to mscclpp",
        "protocols are simple in all lines: the model has none",
    ]
    if not front:
        notes.append("objective pareto gives thresholds; this solution is for one size, so all sizes run on rings")
    elif word != "allreduce":
        notes.append(f"{word}: rings alone are applied everywhere, so thresholds of the plan are not written")
    thresholds = [
        {"collective": word, "ranks": ranks, "from_bytes": low, "algorithm": c.algorithm} for low, _, c in parts
    ]
    return _export(target, lines, notes, {"thresholds": thresholds})


FILE_NAMES = {"nccl-tuner": "nccl_tuner.conf", "rccl-tuner": "rccl_tuner.csv"}
HOW = {
    "nccl-tuner": "NCCL_TUNER_PLUGIN names the tuner plug-in of NCCL's example, NCCL_TUNER_CONFIG_FILE this file",
    "rccl-tuner": "NCCL_TUNER_CONFIG_FILE names this file; versions of RCCL before March 2026 do not read it",
}
MSCCL_GONE = "recent RCCL has dropped MSCCL and MSCCL++: this table is what reaches it of a plan"


def _export(target: str, lines: Sequence[TunerLine], notes: Sequence[str], figures: Mapping[str, Any]) -> Export:
    touched = {line.collective for line in lines}
    untouched = [collective for collective in VALID if collective not in touched]
    more = [HOW[target], *([MSCCL_GONE] if target == "rccl-tuner" else [])]
    if untouched and target == "nccl-tuner":
        more.append(
            f"no lines for {', '.join(untouched)}: the example plug-in of NCCL runs them on one channel, so take lines "
            "for them as well, or another plug-in"
        )
    elif untouched:
        more.append(f"no lines for {', '.join(untouched)}: RCCL keeps its defaults there")
    all_notes = (*notes, *more)
    if any(line.ranks > 0 for line in lines):
        more.append("lines are of the ranks that they name: groups of other sizes match none of them")
    text = "\n".join((HEAD, *(line.text() for line in lines), ""))
    files = ((FILE_NAMES[target], text.encode()), (NOTES_FILE, notes_bytes("Table of a tuner", all_notes)))
    return Export(files, tuple(line.text() for line in lines), all_notes, figures)


def _exporter(target: str, what: str) -> Exporter:
    return Exporter(
        kinds=("collective",),
        makes=f"{FILE_NAMES[target]}: which algorithm, protocol and channels {what} takes by size; of a solution "
        "(objective pareto), or of measurements (.csv) in its place",
        limits=("ring and tree are all schedules that it can be told; no All-to-All",),
        folder=True,
        build=partial(of_solution, target),
        of_table=partial(of_measurements, target),
    )


NCCL_EXPORTER = _exporter("nccl-tuner", "NCCL")
RCCL_EXPORTER = _exporter("rccl-tuner", "RCCL")
