"""Random failures of several parts: mean slow-down and probability of delivery, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solvers.failures.evaluator import Evaluator, badness
from solvers.failures.listing import check_count, drawn
from solvers.stop import Stop
from topoopt.core.failures import FailureOutcome, SampledFailures

CONFIDENCE = 0.95


def sample_failures(
    evaluator: Evaluator,
    part: str,
    count: int,
    samples: int,
    *,
    seed: int = 0,
    stop: Stop | None = None,
    step: Callable[[], None] = lambda: None,
) -> SampledFailures:
    """Draw failures of `count` parts (`links` or `servers`) and evaluate them; one at least, however early it stops.

    Raises:
        InputError: there are fewer parts.
    """
    stop = stop or Stop()
    check_count(evaluator.topology, part, count)
    outcomes: list[FailureOutcome] = []
    for failure in drawn(evaluator.topology, part, count, max(1, samples), np.random.default_rng(seed)):
        outcomes.append(evaluator.outcome(failure))
        step()
        if stop.reason() is not None:
            break
    slow = [outcome.slowdown(evaluator.nominal) for outcome in outcomes]
    found = np.array([value for value in slow if value is not None], dtype=np.float64)
    low, high = _share_interval(len(found), len(outcomes))
    mean_low, mean_high = _mean_interval(found)
    return SampledFailures(
        part=part,
        count=count,
        samples=len(outcomes),
        seed=seed,
        delivered=len(found),
        delivered_low=low,
        delivered_high=high,
        mean_slowdown=float(found.mean()) if len(found) else None,
        mean_low=mean_low,
        mean_high=mean_high,
        p95_slowdown=float(np.quantile(found, 0.95)) if len(found) else None,
        worst=max(outcomes, key=badness),
    )


def _share_interval(hits: int, total: int) -> tuple[float, float]:
    """Clopper and Pearson, 1934."""
    from scipy import stats

    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if hits == 0 else float(stats.beta.ppf(tail, hits, total - hits + 1))
    high = 1.0 if hits == total else float(stats.beta.ppf(1 - tail, hits + 1, total - hits))
    return low, high


def _mean_interval(values: np.ndarray) -> tuple[float | None, float | None]:
    """Student's t."""
    from scipy import stats

    if len(values) < 2:
        return None, None
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - reach, float(values.mean()) + reach
