"""Which starts of a large job are looked at: simulating each on several topologies takes seconds beyond some hundred
servers, and there are a hundred starts where the number of servers has many divisors."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.job.sizes import effort_for
from solvers.job.strategy.anneal_kernel import quick_bounds, too_many_tasks
from solvers.job.strategy.starts import Start
from solvers.network.constructions.estimate import BusyEstimate
from solvers.network.constructions.selection import Selection
from solvers.network.constructions.totient_perms import select_offsets
from topoopt.core.cluster import Cluster
from topoopt.core.leaving import end_if_left
from topoopt.core.strategy import Strategy
from topoopt.core.workload import Workload
from topoopt.simulate.demand import demand_of
from topoopt.simulate.lower import build_task_graph, strategy_arrays
from topoopt.simulate.workload_arrays import workload_arrays


def promising(cluster: Cluster, workload: Workload, starts: Sequence[Start]) -> list[Start]:
    """The starts that are simulated, in the order given: the first, and those of least `estimated_ms` of all others
    whose graphs are not too large."""
    most, arrays = effort_for(cluster.servers).starts, workload_arrays(cluster, workload)
    others = [
        place for place in range(1, len(starts)) if not too_many_tasks(arrays, *strategy_arrays(starts[place].strategy))
    ]
    if len(others) < most:
        return [*starts[:1], *(starts[place] for place in others)]
    ranked = sorted(others, key=lambda place: (estimated_ms(cluster, workload, starts[place].strategy), place))
    return [starts[place] for place in sorted([0, *ranked[: most - 1]])]


def estimated_ms(cluster: Cluster, workload: Workload, strategy: Strategy) -> float:
    """Compute of the busiest server or the longest chain, then the time that links of TotientPerms are busy, ms."""
    end_if_left()
    arrays = workload_arrays(cluster, workload)
    compute, _ = quick_bounds(arrays, *strategy_arrays(strategy), float("inf"))
    demand = demand_of(build_task_graph(cluster, workload, strategy))
    distances = select_offsets(cluster.servers, cluster.degree, cluster.links, Selection.FLEXNET)
    return float(compute) + BusyEstimate(cluster, demand)(distances)
