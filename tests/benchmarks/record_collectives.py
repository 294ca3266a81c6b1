"""Collectives at their bound on switched networks: rate over the bound, and processor seconds of one core."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import topoopt
from tests.benchmarks.figures import Figure
from tests.support import switched_networks as nets
from topoopt.core.collective import CollectiveOp, CollectiveProblem
from topoopt.core.rated_network import RatedNetwork

Measure = Callable[[], Sequence[Figure]]

LEAST_RATIO = 0.999
CHECK_S = 30.0


def measured(name: str, make: Callable[[], RatedNetwork], collective: str, most_s: float) -> Sequence[Figure]:
    """Solve with objective throughput, check, and compare with the bound.

    Args:
        name: of the network.
        make: builds the network.
        collective: what its ranks do.
        most_s: processor seconds of the solve at most.
    """
    problem = CollectiveProblem(name, make(), CollectiveOp(collective), 10**9, objective="throughput", sha256="0" * 64)
    start = time.process_time()
    result = topoopt.solve(problem)
    solved = time.process_time()
    verdict = topoopt.check(problem, result)
    checked = time.process_time()
    assert verdict.ok, verdict.violations
    title = f"{collective} on {name}"
    bound = f"{result.bound.value:.6g} GB/s, {result.figures.steps} steps"
    ratio = result.objective.value / result.bound.value
    return [
        Figure(f"{title}: rate over the bound of {bound}", ratio, "", LEAST_RATIO, higher_is_better=True),
        Figure(f"{title}: solve, processor time", solved - start, "s", most_s),
        Figure(f"{title}: check, processor time", checked - solved, "s", CHECK_S),
    ]


NETWORKS: dict[str, tuple[Callable[[], RatedNetwork], dict[str, float]]] = {
    "two-tier-64": (nets.two_tier, dict.fromkeys(("allgather", "allreduce", "all-to-all"), 5.0)),
    "four-planes-64": (partial(nets.two_tier, nics=4), dict.fromkeys(("allgather", "allreduce", "all-to-all"), 5.0)),
    "mi300x-64": (nets.mi300x, dict.fromkeys(("allgather", "allreduce", "all-to-all"), 5.0)),
    "dgx-h100-128": (partial(nets.rails, 16), dict.fromkeys(("allgather", "allreduce", "all-to-all"), 5.0)),
    "four-nvswitches-128": (
        partial(nets.rails, 16, nvswitches=(125, 100, 100, 125)),
        dict.fromkeys(("allgather", "allreduce", "all-to-all"), 5.0),
    ),
    "fat-tree-512": (nets.fat_tree, dict.fromkeys(("allgather", "allreduce", "all-to-all"), 5.0)),
    "fat-tree-512-link-failed": (
        partial(nets.fat_tree, failed=True), dict.fromkeys(("allgather", "allreduce", "all-to-all"), 10.0),
    ),
    "rails-512": (
        partial(nets.rails, 64), dict.fromkeys(("allgather", "reduce-scatter", "allreduce", "all-to-all"), 5.0),
    ),
    "rails-512-nic-failed": (
        partial(nets.rails, 64, failed="nic"), dict.fromkeys(("allgather", "allreduce", "all-to-all"), 10.0),
    ),
    "rails-512-uplink-failed": (
        partial(nets.rails, 64, failed="uplink"), dict.fromkeys(("allgather", "allreduce", "all-to-all"), 10.0),
    ),
    "rails-1024": (partial(nets.rails, 128), dict.fromkeys(("allgather", "allreduce", "all-to-all"), 10.0)),
    "drawn-64": (nets.even, {"allgather": 5.0, "allreduce": 20.0, "all-to-all": 5.0}),
    "unequal-planes-64": (nets.unequal_planes, {"allgather": 5.0, "allreduce": 20.0}),
    "drawn-128": (partial(nets.even, 128, 60, 3), {"allgather": 15.0, "allreduce": 60.0, "all-to-all": 60.0}),
    "rails-128-12-cables-gone": (lambda: nets.with_failures(nets.rails(16), 12), {"all-to-all": 60.0}),
    "fat-tree-512-20-cables-gone": (
        lambda: nets.with_failures(nets.fat_tree(), 20), {"allgather": 60.0, "all-to-all": 60.0},
    ),
}  # fmt: skip

COLLECTIVES: tuple[tuple[str, str, Measure], ...] = tuple(
    (
        f"{collective}-{name}",
        f"topoopt solve (collective: {collective}, objective: throughput, network {name} of tests/support)",
        partial(measured, name, make, collective, most_s),
    )
    for name, (make, goals) in NETWORKS.items()
    for collective, most_s in goals.items()
)
"""Rows of `python -m tests.benchmarks records`: name, command, and what measures."""
