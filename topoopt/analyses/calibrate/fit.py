"""Efficiencies of a GPU by least squares on the logarithms of measured times, and the errors of what they give.

Few runs do not tell all efficiencies, so each is drawn to a usual value, the more weakly the less is known of it: a
Gaussian prior on logarithms, against errors of 5 % in the times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace

import numpy as np
from scipy.optimize import least_squares

from topoopt.analyses.calibrate.runs import MeasuredRun
from topoopt.core.arrays import Floats
from topoopt.core.llm_training import ReachedRates
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.times import iteration_times

SPREAD = 0.05
"""Of measured times, on logarithms."""

USUAL: dict[str, tuple[float, float, float]] = {
    "products": (0.75, 0.15, 0.95),
    "fp8_products": (0.6, 0.15, 0.95),
    "half_gflops": (2.0, 0.8, 1e6),
    "attention": (0.5, 0.25, 0.85),
    "memory": (0.8, 0.1, 0.95),
    "scale_up": (0.7, 0.15, 0.95),
    "network": (0.8, 0.15, 0.95),
    "pass_us": (30.0, 0.7, 1e6),
    "expert_us": (67.0, 0.8, 1e6),
    "chunk_us": (100.0, 0.8, 1e6),
    "iteration_ms": (100.0, 1.0, 1e6),
}
"""Usual value of each efficiency, its spread on logarithms, and the most it can be.

That of `expert_us` is two products of 33 us each: eight small ones, started one by one, were measured to take 0.267 ms
where the products themselves take a part of it (Transformer Engine, pull request 3134).
"""

SIGNIFICANT = 4


@dataclass(frozen=True)
class RunError:
    """A run, what the model says of it, and by how much that is off.

    Attributes:
        seconds: by the model.
        percent: above what was measured.
    """

    run: MeasuredRun
    seconds: float
    percent: float


def predicted_s(run: MeasuredRun, reached: ReachedRates) -> float:
    """Seconds of the fastest of the strategies of a run."""
    device = replace(run.problem.device, reached=reached)
    columns = columns_of(run.strategies, run.problem.model.layers)
    return float(iteration_times(run.problem, device, columns).min())


def fitted(runs: Sequence[MeasuredRun]) -> ReachedRates:
    """Efficiencies that fit the runs best, of four digits; `runs` are those that are not held out."""
    usual, spread, most = (np.array(column) for column in zip(*USUAL.values(), strict=True))
    start = np.log(usual)

    def residuals(point: Floats) -> Floats:
        reached = ReachedRates(*np.exp(point).tolist())
        ratios = [np.log(predicted_s(run, reached) / run.seconds) / SPREAD for run in runs]
        return np.concatenate((ratios, (point - start) / spread))

    bounds = (np.full(len(start), -np.inf), np.log(most))
    found = least_squares(residuals, start, bounds=bounds, diff_step=1e-4)
    return ReachedRates(*(float(f"{value:.{SIGNIFICANT}g}") for value in np.exp(found.x).tolist()))


def errors_of(runs: Sequence[MeasuredRun], reached: ReachedRates) -> tuple[RunError, ...]:
    """How far the model is off, run by run."""
    found = []
    for run in runs:
        seconds = predicted_s(run, reached)
        found.append(RunError(run, seconds, 100.0 * (seconds / run.seconds - 1.0)))
    return tuple(found)


def summary(errors: Sequence[RunError]) -> dict[str, float | int]:
    """Runs, mean and worst error in per cent."""
    sizes = [abs(error.percent) for error in errors]
    return {"runs": len(sizes), "mean_percent": sum(sizes) / max(1, len(sizes)), "worst_percent": max(sizes, default=0)}


def efficiencies(reached: ReachedRates) -> dict[str, float]:
    """By name."""
    return dict(zip((part.name for part in fields(reached)), astuple(reached), strict=True))
