"""Which starts of a job are looked at: simulating each on several topologies takes seconds beyond some hundred servers,
minutes where it has a million tasks, and there are a hundred starts where the number of servers has many divisors."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.job.grouped_topologies import grouped_ms
from solvers.job.sizes import ANY_TASKS, effort_for, most_tasks
from solvers.job.strategy.starts import Start
from solvers.network.constructions.estimate import BusyEstimate
from solvers.network.constructions.selection import Selection
from solvers.network.constructions.totient_perms import select_offsets
from topoopt.core.cluster import Cluster
from topoopt.core.process import end_if_left
from topoopt.core.workload import Strategy, Workload
from topoopt.native import jobs
from topoopt.simulate.demand import demand_of
from topoopt.simulate.lower import build_task_graph, strategy_arrays
from topoopt.simulate.workload_arrays import WorkloadArrays, workload_arrays

KEPT = 3
"""Starts that the loop goes on with, where all is annealed."""

FAR, FAR_ON_FABRICS = 2.0, 4.0
"""Starts that are estimated at more than so many times the `KEPT`-th least are passed over. Simulated on topologies
found for them, no start of the models on 16 servers that was followed to its end took less than 0.64 of its estimate;
on other fabrics it may take less, as the estimate has transfers over several hops."""


def promising(cluster: Cluster, workload: Workload, starts: Sequence[Start], *, far: float = FAR) -> list[Start]:
    """The starts that are simulated, in the order given: the first, and those of least `estimated_ms` of all others
    whose graphs are not too large.

    Args:
        far: those of more than so many times the `KEPT`-th least estimate are passed over. Estimates alone say which,
            not times simulated before, so that starts simulated at once are those simulated in turn.
    """
    most, arrays = effort_for(cluster.servers).starts, workload_arrays(cluster, workload)
    others = [place for place in range(1, len(starts)) if not too_many_tasks(arrays, starts[place].strategy)]
    if len(others) < min(most, KEPT):
        return [*starts[:1], *(starts[place] for place in others)]
    estimates = {place: estimated_ms(cluster, workload, starts[place].strategy) for place in (0, *others)}
    limit_ms = far * sorted(estimates.values())[min(KEPT, len(estimates)) - 1]
    ranked = sorted((estimates[place], place) for place in others if estimates[place] <= limit_ms)
    return [starts[place] for place in sorted([0, *(place for _, place in ranked[: most - 1])])]


def too_many_tasks(arrays: WorkloadArrays, strategy: Strategy) -> bool:
    """Whether the graph of a strategy is too large to be looked at."""
    most = most_tasks(arrays.servers)
    return most < ANY_TASKS and jobs.task_count(arrays, *strategy_arrays(strategy)) > most


def estimated_ms(cluster: Cluster, workload: Workload, strategy: Strategy) -> float:
    """Compute of the busiest server or the longest chain, then the time that links are busy, ms: those of TotientPerms
    or those of random graphs of groups, whichever is less."""
    end_if_left()
    arrays = workload_arrays(cluster, workload)
    compute, _ = jobs.quick_bounds(arrays, *strategy_arrays(strategy), float("inf"))
    demand = demand_of(build_task_graph(cluster, workload, strategy))
    distances = select_offsets(cluster.servers, cluster.degree, cluster.links, Selection.FLEXNET)
    return compute + min(BusyEstimate(cluster, demand)(distances), grouped_ms(cluster, demand))
