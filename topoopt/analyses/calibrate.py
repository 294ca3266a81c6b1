"""`topoopt llm calibrate`: measured runs beside their estimates; a few numbers are fitted to them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from topoopt.analyses.measured_runs import TableRow, TableRun, read_runs
from topoopt.core.arrays import Floats
from topoopt.page import options
from topoopt.page.output import Output
from topoopt.page.render import TerminalTable
from topoopt.page.text import counted, percent
from topoopt.workloads.step_efficiencies import GENERATIONS, STEP_EFFICIENCIES, half_width

BEND = 0.08
"""Log ratio beyond which a run counts linearly (Huber)."""

SCATTER = 0.06
"""Standard deviation of the log ratio of a run."""

STEP = 0.01
"""By which numbers change for derivatives, on logarithms."""

ROUNDS = 2
"""How often derivatives are taken anew."""

Values = Mapping[str, float]


def shipped() -> dict[str, float]:
    """The numbers as they are shipped."""
    return {name: number.value for name, number in STEP_EFFICIENCIES.items()}


def log_seconds(runs: Sequence[TableRun], values: Values) -> Floats:
    """Logarithms of estimates, one a run."""
    return np.log([run.seconds(values) for run in runs])


def derivatives(runs: Sequence[TableRun], values: Values, names: Sequence[str], logs: Floats) -> Floats:
    """float64[runs, names]: of the logarithm of an estimate by that of a number, `logs` being the estimates."""
    table = np.zeros((len(runs), len(names)))
    for row, run in enumerate(runs):
        before = _decisive(run, values)
        for column, name in enumerate(names):
            changed = {**values, name: values[name] * math.exp(STEP)}
            if _decisive(run, changed) != before:
                table[row, column] = (math.log(run.seconds(changed)) - logs[row]) / STEP
    return table


def _decisive(run: TableRun, values: Values) -> tuple[object, ...]:
    """What numbers come down to in a run: alike where its time is."""
    problem = run.with_numbers(values)
    return problem.device.reached, problem.cluster.slowdown, problem.overlap


def run_weights(runs: Sequence[TableRun], left_out: Iterable[str] = ()) -> Floats:
    """A group of n like runs weighs as much as n ** 0.5 runs; those left out weigh nothing."""
    sizes, none = Counter(run.group for run in runs), set(left_out)
    weights = np.array([0.0 if run.name in none else sizes[run.group] ** -0.5 for run in runs])
    return np.asarray(weights / weights.mean())


class LinearFit:
    """Least squares around values where estimates and derivatives were taken.

    Args:
        values: of all numbers.
        names: those that are fitted.
        centres, spreads: of the prior of each, on logarithms.
    """

    def __init__(
        self, values: Values, names: Sequence[str], centres: Floats, spreads: Floats, logs: Floats, table: Floats
    ) -> None:
        self.values, self.names, self.centres, self.spreads = dict(values), tuple(names), centres, spreads
        self.logs, self.table = logs, table
        self.at = np.log([values[name] for name in names])
        numbers = [STEP_EFFICIENCIES[name] for name in names]
        self.bounds = np.log([number.least for number in numbers]), np.log([number.most for number in numbers])

    def solve(self, measured: Floats, weights: Floats, rows: Floats | None = None) -> tuple[dict[str, float], Floats]:
        """Values, and the spread of each by curvature, on logarithms.

        Args:
            measured: logarithms of seconds.
            rows: of the runs that count; None: all.
        """
        from scipy.optimize import least_squares

        chosen = slice(None) if rows is None else rows
        table, logs = self.table[chosen], (self.logs - measured)[chosen]
        root = np.sqrt(weights[chosen])

        def residuals(point: Floats) -> Floats:
            off = logs + table @ (point - self.at)
            size = np.abs(off)
            bent = np.sign(off) * np.where(size <= BEND, size, np.sqrt(np.maximum(2 * BEND * size - BEND**2, 0.0)))
            return np.concatenate([root * bent / SCATTER, (point - self.centres) / self.spreads])

        low, high = self.bounds
        start = np.clip(self.at, low + 1e-6, high - 1e-6)
        fit = least_squares(residuals, start, bounds=(low - 1e-9, high + 1e-9), x_scale=self.spreads)
        curved = np.linalg.pinv(fit.jac.T @ fit.jac)
        fitted = dict(zip(self.names, np.exp(fit.x).tolist(), strict=True))
        return {**self.values, **fitted}, np.sqrt(np.diag(curved))


def fitted(
    runs: Sequence[TableRun], start: Values, names: Sequence[str], centres: Floats, spreads: Floats, weights: Floats,
    rounds: int = ROUNDS,
) -> tuple[LinearFit, dict[str, float], Floats]:  # fmt: skip
    """Fit numbers to runs, with derivatives taken anew in each round.

    Returns:
        The last linear fit, the values, and the spread of each that was fitted.
    """
    measured = np.log([run.measured_s for run in runs if run.measured_s is not None])
    values = dict(start)
    for _ in range(rounds):
        logs = log_seconds(runs, values)
        linear = LinearFit(values, names, centres, spreads, logs, derivatives(runs, values, names, logs))
        values, spread = linear.solve(measured, weights)
    return linear, values, spread


OWN_SPREAD = 0.08
"""Of the factor of a table's own runs, on logarithms."""


def calibrate(
    table: Annotated[Path, typer.Argument(help="Table of measured runs (CSV): a run a row, with its layout.")],
    keep: Annotated[bool, typer.Option("--keep", help="Judge the shipped numbers, fit none.")] = False,
    as_json: options.Json = False,
) -> None:
    """Estimate measured runs; fit a factor, products and attention of their devices to them, near the shipped values.

    A row has an id, a model and a device by name, devices (gpus), the layout (tp, pp, vp, cp, ep, dp), mbs, gbs, seq,
    precision, recompute, nic_gbps, software, and what was measured (step_s or tokens_s_gpu).
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.core.errors import InputError, Problem

        rows, notes = read_runs(table)
        measured = [row.run for row in rows if row.run is not None and row.run.measured_s is not None]
        if not measured and not keep:
            text = "no run has both an estimate and a time: nothing can be fitted (--keep estimates all)"
            raise InputError([Problem(text, str(table))])
        values, numbers = (shipped(), []) if keep else fit_few(measured)
        answers = [row_document(row, values) for row in rows]
        document: dict[str, Any] = {"numbers": numbers, "rows": answers, "summary": summary(answers), "notes": notes}
        output.result(document, lambda console: _show(console, document), answer(document, kept=keep))
        return 0

    output.run(command)


def few_names(runs: Sequence[TableRun]) -> list[str]:
    """Numbers that a table of runs can tell: a factor, and products and attention of its devices and formats."""
    names = ["own_runs"]
    for generation in dict.fromkeys(GENERATIONS[run.device].name for run in runs):
        formats = {(run.problem.formats.fp8, run.problem.formats.fp4) for run in runs}
        candidates = [f"products_{generation}", f"attention_{generation}"]
        candidates += [f"fp8_{generation}"] if any(eight for eight, _ in formats) else []
        candidates += [f"fp4_{generation}"] if any(four for _, four in formats) else []
        names += [name for name in candidates if name in STEP_EFFICIENCIES and STEP_EFFICIENCIES[name].spread > 0]
    return names


def fit_few(runs: Sequence[TableRun]) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Values of all numbers, and those that were fitted as a document; the shipped values are the prior."""
    values, names = shipped(), few_names(runs)
    spreads = np.array([STEP_EFFICIENCIES[name].spread or OWN_SPREAD for name in names])
    centres = np.log([values[name] for name in names])
    _, result, spread = fitted(runs, values, names, centres, spreads, run_weights(runs))
    numbers: list[dict[str, Any]] = [
        {"name": name, "value": float(f"{result[name]:.4g}"), "spread": round(float(size), 4), "shipped": values[name],
         "meaning": STEP_EFFICIENCIES[name].meaning}
        for name, size in zip(names, spread, strict=True)
    ]  # fmt: skip
    return {**values, **{item["name"]: item["value"] for item in numbers}}, numbers


def row_document(row: TableRow, values: Mapping[str, float]) -> dict[str, Any]:
    """A row of the answer; without an estimate the reason."""
    empty = dict.fromkeys(("estimate_s", "low_s", "high_s", "measured_s", "error"))
    if row.run is None:
        return {"id": row.name, **empty, "reason": row.reason, "like": None}
    run = row.run
    seconds = run.seconds(values)
    width = half_width(run.device, run.software, run.kind)
    measured = run.measured_s
    return {
        "id": row.name,
        "estimate_s": seconds,
        "low_s": seconds * math.exp(-width.of_log),
        "high_s": seconds * math.exp(width.of_log),
        "measured_s": measured,
        "error": None if measured is None else seconds / measured - 1.0,
        "reason": None,
        "like": width.runs,
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows with and without an estimate; mean and worst error of those measured, and how many intervals hold them."""
    judged = [row for row in rows if row["error"] is not None]
    sizes = [abs(row["error"]) for row in judged]
    return {
        "estimated": sum(row["reason"] is None for row in rows),
        "without_estimate": sum(row["reason"] is not None for row in rows),
        "measured": len(sizes),
        "mean_error": sum(sizes) / len(sizes) if sizes else None,
        "worst_error": max(sizes, default=None),
        "inside": sum(row["low_s"] <= row["measured_s"] <= row["high_s"] for row in judged),
    }


def _show(console: Console, document: dict[str, Any]) -> None:
    for number in document["numbers"]:
        text = f"{number['name']}: {number['value']:g} ± {percent(number['spread'])} (shipped {number['shipped']:g})"
        console.print(f"  {text}: {number['meaning']}", markup=False, highlight=False)
    table = TerminalTable("run", "estimate, s", "low, s", "high, s", "measured, s", "error, %")
    for row in document["rows"]:
        if row["reason"] is None:
            seconds = (_number(row[name]) for name in ("estimate_s", "low_s", "high_s", "measured_s"))
            table.add_row(row["id"], *seconds, "" if row["error"] is None else f"{100 * row['error']:+.1f}")
    console.print(table)
    lines = [f"no estimate of {row['id']}: {row['reason']}" for row in document["rows"] if row["reason"] is not None]
    for line in (*lines, *(f"note: {note}" for note in document["notes"])):
        console.print(line, markup=False, highlight=False)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def answer(document: Mapping[str, Any], *, kept: bool) -> str:
    """Errors in one sentence.

    Args:
        kept: the numbers are those shipped; none was fitted.
    """
    summary = document["summary"]
    without = (
        f"; {counted(summary['without_estimate'], 'row')} without an estimate" if summary["without_estimate"] else ""
    )
    if not summary["measured"]:
        return f"{counted(summary['estimated'], 'run')} estimated, none of them measured{without}."
    off = f"{percent(summary['mean_error'])} in the mean, {percent(summary['worst_error'])} at worst"
    numbers = "With the shipped numbers" if kept else f"With {counted(len(document['numbers']), 'fitted number')}"
    inside = f"{summary['inside']} of {summary['measured']} are inside their intervals"
    return f"{numbers} {counted(summary['measured'], 'run')} are off by {off}; {inside}{without}."
