"""Which pairs of servers want to be nearer, and which links could be spared, as the simulated iteration has them.

The critical path says which transfers and AllReduces are late, and by how much each holds the iteration up; busy times
say which links have slack. Circuits of the program of kind `dag-topology` on the same iteration, where they are known,
say the same of whole links: a pair that has fewer than there wants more, one that has more can spare some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.job.exchanges.wiring import Wiring
from topoopt.core.arrays import Floats, Ints
from topoopt.core.taskgraph import TaskGraph, TaskKind
from topoopt.simulate.time_models.evaluate import critical_tasks
from topoopt.simulate.time_models.time_model import Simulation

LEAST_BUSY = 0.05
"""Part of the busiest link's time that counts of a link that is idle."""

ONE_HOP = 0.3
"""Weight of a late pair that is joined already, and could have a second link; it is 1 for others."""

NEEDED = 0.2
"""Weight, as a link to give up, of one that a late transfer takes."""

CIRCUITS = 0.5
"""Share of the circuits of the program in the wants, and twice the weight of links that it has no use for."""


@dataclass(frozen=True, eq=False)
class Wants:
    """Weights of draws.

    Attributes:
        nearer: float64[n, n], of ordered pairs that want a link.
        spare: float64[n, n], of links that could be given up.
        cumulative: float64[n * n], sums of `nearer`.
    """

    nearer: Floats
    spare: Floats
    cumulative: Floats

    @property
    def any(self) -> bool:
        """Whether some pair wants to be nearer."""
        return bool(self.cumulative[-1] > 0)


def wants_of(graph: TaskGraph, simulation: Simulation, wiring: Wiring, *, paired: bool, circuits: Ints | None) -> Wants:
    """Of an iteration simulated on a wiring.

    Args:
        graph: of the iteration.
        simulation: of it, its links in the order of the arcs of the wiring.
        wiring: links and paths.
        paired: links are fibre pairs.
        circuits: int64[n, n], symmetric, of the program; None: not known.
    """
    n = graph.servers
    nearer, needed = np.zeros((n, n)), np.zeros((n, n), dtype=np.bool_)
    rings = {group.members: group for group in wiring.rings}
    for task in critical_tasks(simulation):
        late_ms = float(simulation.end_ms[task] - simulation.start_ms[task])
        if graph.kind[task] == TaskKind.TRANSFER and graph.source[task] != graph.target[task]:
            pair = (int(graph.source[task]), int(graph.target[task]))
            _late(nearer, wiring, pair, late_ms)
            for _, path in wiring.routes.get(pair, ()):
                needed[list(path[:-1]), list(path[1:])] = True
        elif graph.kind[task] == TaskKind.ALLREDUCE and graph.group[task] >= 0:
            group = rings.get(graph.groups[int(graph.group[task])])
            for ring in group.rings if group is not None else ():
                for path in ring.paths:
                    _late(nearer, wiring, (path[0], path[-1]), late_ms * ring.share / len(ring.paths))
    busy = np.zeros((n, n))
    busy[wiring.arcs[:, 0], wiring.arcs[:, 1]] = simulation.link_busy_ms
    spare = 1.0 / (LEAST_BUSY + busy / max(float(busy.max(initial=0.0)), 1e-300))
    spare[needed] *= NEEDED
    if circuits is not None:
        lacking = np.maximum(circuits - wiring.counts, 0).astype(np.float64)
        if lacking.any():
            total = float(nearer.sum())
            nearer += lacking / lacking.sum() * (CIRCUITS / (1 - CIRCUITS) * total if total > 0 else 1.0)
        spare[wiring.counts > circuits] /= CIRCUITS
    if paired:
        nearer, spare = nearer + nearer.T, np.minimum(spare, spare.T)
    np.fill_diagonal(nearer, 0.0)
    return Wants(nearer, spare, np.cumsum(nearer))


def _late(nearer: Floats, wiring: Wiring, pair: tuple[int, int], late_ms: float) -> None:
    nearer[pair] += late_ms * (ONE_HOP if wiring.counts[pair] > 0 else 1.0)
