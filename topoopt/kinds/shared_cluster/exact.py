"""Shards for all waiting jobs that may start, chosen together by the exact program (`place`).

The search of the solver is cut after a number of nodes, not of seconds, so that the same instance gives the same
schedule on any machine. An answer cut short is still a placement that was checked, at least as good as that of the
heuristics the program starts from; it is counted as unproven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.shards.exact_shards import AssignmentResult, ShardLimits, assign_shards
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Ints
from topoopt.core.errors import CheckError
from topoopt.core.optical_layer import OpticalLayer, ShardShape
from topoopt.core.proofs import Argument
from topoopt.core.shared_cluster_jobs import JobClass
from topoopt.core.verdict import Status
from topoopt.kinds.shared_cluster.spread import any_shape
from topoopt.verify.shards.bounds import placing_bound
from topoopt.verify.shards.shards import PlacedJob, shard_violations

MOST_JOBS = 12
"""Waiting jobs placed at once."""

MOST_NODES = 2_000
"""Of the branch and bound of one question."""

TOLERANCE = 1e-9


def place(
    layer: OpticalLayer,
    free: Bools,
    shapes: Sequence[ShardShape],
    worth: Sequence[float] | None = None,
    limits: ShardLimits | None = None,
) -> AssignmentResult:
    """`assign_shards`, checked; optimal only where the checker finds the bound itself.

    Raises:
        ValueError: `free` does not fit the layer, or `worth` the jobs.
        CheckError: a bug of ours.
    """
    result = assign_shards(layer, free, shapes, worth, limits)
    placed = [
        PlacedJob(str(k), shape, shard)
        for k, (shape, shard) in enumerate(zip(shapes, result.shards, strict=True))
        if shard is not None
    ]
    violations = shard_violations(layer, placed)
    if violations:
        raise CheckError("; ".join(map(str, violations)))
    gains = [float(shape.servers) for shape in shapes] if worth is None else worth
    value = sum(gains[int(job.name)] for job in placed)
    counted = placing_bound(layer, free, shapes, gains)
    if abs(value - result.value) > TOLERANCE * max(1.0, value) or value > counted * (1 + TOLERANCE):
        raise CheckError(f"jobs worth {value} are placed, {result.value} is stated, {counted} is possible by counting")
    if result.bound >= counted * (1 - TOLERANCE):
        return replace(result, argument=Argument.SERVER_COUNTS)
    return replace(result, status=Status.FEASIBLE)


@dataclass(eq=False)
class ExactPlacer:
    """See `topoopt.simulate.cluster.jointly.JointPlacer`; `proven` and `unproven` count the questions.

    Attributes:
        layer: the switches.
        classes: of the jobs.
        seed: of the heuristics and of the solver.
        stop: ends a question early when the whole run ends; its answer is unproven.
        most_nodes: of one question.
    """

    layer: OpticalLayer
    classes: Sequence[JobClass]
    seed: int
    stop: Stop
    most_nodes: int = MOST_NODES
    window: int = MOST_JOBS
    by_size: bool = False
    proven: int = 0
    unproven: int = 0

    def __post_init__(self) -> None:
        planes = self.layer.planes
        self._shapes = [any_shape(one.servers, one.interfaces or planes) for one in self.classes]

    def together(self, free: Bools, classes: Sequence[int], worth: Sequence[int]) -> tuple[Ints | None, ...]:
        """See JointPlacer."""
        limits = ShardLimits(seed=self.seed, stop=self.stop, most_nodes=self.most_nodes)
        found = place(self.layer, free, [self._shapes[c] for c in classes], worth, limits)
        if found.status is Status.OPTIMAL:
            self.proven += 1
        else:
            self.unproven += 1
        return tuple(
            None if shard is None else np.sort(np.array(shard.servers, dtype=np.int64)) for shard in found.shards
        )

    def place(self, free: Bools, servers: int, job_class: int) -> Ints | None:
        """One job alone."""
        if int(np.count_nonzero(free)) < servers:
            return None
        return self.together(free, [job_class], [servers])[0]

    def fits(self, free: Bools, servers: int, job_class: int) -> bool:
        """Whether `place` finds servers."""
        return self.place(free, servers, job_class) is not None
