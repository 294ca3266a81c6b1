"""Numbers of the time model are fitted to measured runs; half widths come from runs left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from topoopt.analyses.measured_runs import TableRun
from topoopt.core.arrays import Floats
from topoopt.workloads.step_efficiencies import STEP_EFFICIENCIES

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
