"""What a solution of a shared cluster says beside who held which servers: followed moment by moment, in plain code."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from tests.support import at_once_cases
from tests.support.plain_cluster_figures import load_rows, run_figures
from tests.support.shared_cases import PARTITIONED, fat_tree, shared_cluster
from topoopt.core.shared_cluster import JobClass, SharedCluster
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster.page import page

CLASSES = (
    JobClass("two", 2, (100.0,), 60.0, allreduce_bytes=2e9),
    JobClass("four", 4, (150.0,), 100.0, 1e9, 1.5e9),
)
SETTINGS: dict[str, dict[str, Any]] = {
    "moves": {"ports": 8, "switching_s": 0.5, "queue": "reserve", "defragment": True},
    "first come, first served": {"ports": 8},
    "backfilling": {"queue": "backfill", "switching_s": 2.0, "look_ahead": True},
}


def crowded(seed: int, **settings: Any) -> SharedCluster:
    """Thirty jobs that wait for each other."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1.0, 30)).tolist()
    jobs = [(time, int(rng.integers(2)), int(rng.integers(10, 90))) for time in arrival]
    return shared_cluster(
        jobs, CLASSES, servers=16, fabrics=(PARTITIONED, fat_tree(paths="hashed", ratio=4.0)), **settings
    )


def flat(figures: dict[str, Any]) -> dict[str, Any]:
    """Tails by name and place."""
    rows = ((name, value if isinstance(value, dict) else {"": value}) for name, value in figures.items())
    return {f"{name} {place}": value for name, places in rows for place, value in places.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SETTINGS)
def test_figures_of_runs(name: str, seed: int) -> None:
    """Every figure of every fabric."""
    solution = solve(crowded(seed, **SETTINGS[name]))
    assert solution.check.ok
    for place, found in enumerate(solution.figures.metrics):
        assert found is not None
        assert flat(asdict(found)) == pytest.approx(flat(run_figures(solution.figures, place)), rel=1e-9, abs=1e-9)


def test_statistics_of_jobs_at_once() -> None:
    """Every row of every load and fabric."""
    _, solution = at_once_cases.solved()
    due = load_rows(solution.figures)
    assert len(solution.figures.statistics) == len(due) == 2 * len(solution.figures.fabrics)
    for found, right in zip(solution.figures.statistics, due, strict=True):
        assert found.fabric == right.pop("fabric")
        figures = asdict(found)
        del figures["fabric"]
        assert flat(figures) == pytest.approx(flat(right), rel=1e-12)


def test_columns_of_numbers() -> None:
    """All of the table of fabrics but their names."""
    (table,) = (table for table in page(solve(crowded(0))).tables() if table.key == "fabric_times")
    assert [column.number for column in table.columns] == [False, *[True] * 6]
