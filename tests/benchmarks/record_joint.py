"""Jobs: value, proven bound, gap and processor time of whole solves with their checks, without other fabrics."""

from __future__ import annotations

import time
from functools import partial

import topoopt
from tests.benchmarks.figures import Figure
from tests.benchmarks.records import Record
from tests.support.paths import INSTANCES
from topoopt.core.cluster import LinkSharing
from topoopt.files.documents import parse_document
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

Goals = tuple[float, float, float]
"""Most ms of the plan, least ms of the bound, most seconds of the processor."""


def solved(path: str, servers: int, degree: int, sharing: LinkSharing, goals: Goals) -> list[Figure]:
    """A job on so many servers with so many interfaces each, by default settings."""
    cluster = parse_document(INSTANCES / path).data["cluster"]
    cluster = {**cluster, "servers": servers, "degree": degree, "link_sharing": sharing.value}
    problem = read_instance(INSTANCES / path, [("cluster", cluster, "the row")])
    start = time.process_time()
    result = solve(problem, SolveOptions(objective_only=True))
    seconds = time.process_time() - start
    verdict = topoopt.check(problem, result)
    assert verdict.ok, verdict.violations
    name, (most_ms, bound_ms, most_s) = f"{path[:-5]}, {servers} servers, degree {degree}", goals
    return [
        Figure(f"{name}: iteration", result.objective.value, "ms", most_ms),
        Figure(f"{name}: bound", result.bound.value, "ms", bound_ms, higher_is_better=True),
        Figure(f"{name}: gap", 100 * result.gap, "%", 20.0 if servers <= 16 else 25.0),
        Figure(f"{name}: solve with check", seconds, "s", most_s),
    ]


ROWS: tuple[tuple[str, int, int, LinkSharing, Goals], ...] = (
    ("candle-16.yaml", 16, 4, LinkSharing.TRANSFERS_FIRST, (126.6, 101.96, 60.0)),
    ("candle-16.yaml", 16, 4, LinkSharing.FIFO, (142.2, 101.96, 60.0)),
    ("measured/candle-16-measured.yaml", 16, 4, LinkSharing.TRANSFERS_FIRST, (128.5, 101.35, 60.0)),
    ("moe-16.yaml", 16, 4, LinkSharing.TRANSFERS_FIRST, (107.622, 83.1, 60.0)),
    ("moe-16.yaml", 16, 8, LinkSharing.TRANSFERS_FIRST, (83.309, 80.5, 60.0)),
    ("ncf-16.yaml", 16, 4, LinkSharing.TRANSFERS_FIRST, (30.468, 20.6, 60.0)),
    ("dlrm-16.yaml", 16, 4, LinkSharing.TRANSFERS_FIRST, (17.524, 15.23, 60.0)),
    ("tiny-4.yaml", 4, 2, LinkSharing.FIFO, (1.664, 1.1457, 60.0)),
    ("bert-128.yaml", 128, 4, LinkSharing.TRANSFERS_FIRST, (52.4, 42.1, 100.0)),
    ("bert-128.yaml", 128, 8, LinkSharing.TRANSFERS_FIRST, (50.4, 40.6, 100.0)),
    ("candle-128.yaml", 128, 4, LinkSharing.TRANSFERS_FIRST, (660.0, 508.7, 100.0)),
    ("candle-128.yaml", 128, 8, LinkSharing.TRANSFERS_FIRST, (517.4, 508.6, 100.0)),
    ("dlrm-128.yaml", 128, 4, LinkSharing.TRANSFERS_FIRST, (58.4, 39.2, 100.0)),
    ("dlrm-128.yaml", 128, 8, LinkSharing.TRANSFERS_FIRST, (35.6, 29.8, 100.0)),
    ("gpt-16.yaml", 128, 4, LinkSharing.TRANSFERS_FIRST, (183.7, 179.7, 100.0)),
    ("gpt-16.yaml", 128, 8, LinkSharing.TRANSFERS_FIRST, (177.7, 177.1, 100.0)),
    ("moe-16.yaml", 128, 4, LinkSharing.TRANSFERS_FIRST, (122.3, 83.4, 250.0)),
    ("moe-16.yaml", 128, 8, LinkSharing.TRANSFERS_FIRST, (89.4, 80.7, 250.0)),
    ("ncf-128.yaml", 128, 4, LinkSharing.TRANSFERS_FIRST, (36.9, 25.9, 100.0)),
    ("ncf-128.yaml", 128, 8, LinkSharing.TRANSFERS_FIRST, (25.8, 20.3, 100.0)),
    ("resnet-16.yaml", 128, 4, LinkSharing.TRANSFERS_FIRST, (156.5, 155.6, 100.0)),
    ("resnet-16.yaml", 128, 8, LinkSharing.TRANSFERS_FIRST, (156.5, 155.5, 100.0)),
    ("vgg-16.yaml", 128, 4, LinkSharing.TRANSFERS_FIRST, (123.2, 122.6, 100.0)),
    ("vgg-16.yaml", 128, 8, LinkSharing.TRANSFERS_FIRST, (123.2, 122.6, 100.0)),
)

JOINT = tuple(
    Record(
        f"joint-{row[0].split('/')[-1][:-5]}-on-{row[1]}-degree-{row[2]}-{row[3]}",
        f"topoopt solve instances/{row[0]} (cluster.servers {row[1]}, degree {row[2]}, link_sharing {row[3]})",
        partial(solved, *row),
    )
    for row in ROWS
)
"""Rows of `python -m tests.benchmarks records joint`."""
