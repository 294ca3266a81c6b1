"""A job whose delays are swept: its one-shot network, and the strategies tried where circuits follow demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from solvers.job.annealing import AnnealSettings, anneal, graph_shape, memory_capacity, overflow_bytes
from solvers.job.starts import data_parallel
from solvers.stop import Stop
from topoopt.core.job import CoOptimisation
from topoopt.core.plan import Plan
from topoopt.core.workload import Strategy, TaskGraph, strided_groups
from topoopt.simulate.fabrics.direct_connect import plan_network
from topoopt.simulate.fabrics.ideal_switch import ideal_switch
from topoopt.simulate.fabrics.options import FabricOptions
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.network import Network, network_arrays
from topoopt.simulate.workload_arrays import workload_arrays

Progress = Callable[[str, float], None]
"""Called with (scheme, delay) before each is simulated."""


class OutOfTimeError(Exception):
    """The time is up; nothing more is simulated."""


@dataclass
class SweptJob:
    """A job, its one-shot network, and everything simulated so far."""

    instance: CoOptimisation
    plan: Plan
    seed: int
    period_ms: float | None
    iterations: int
    stop: Stop
    progress: Progress | None
    graph: TaskGraph = field(init=False)
    network: Network = field(init=False)

    def __post_init__(self) -> None:
        cluster, plan = self.instance.cluster, self.plan
        self.graph = build_task_graph(cluster, self.instance.workload, plan.strategy)
        plan.require_rings("reconfiguration")
        self.network = plan_network(cluster, plan)

    def step(self, scheme: str, delay_ms: float) -> None:
        """Before anything is simulated."""
        if self.stop.reason() is not None:
            raise OutOfTimeError
        if self.progress is not None:
            self.progress(scheme, delay_ms)


def strategies_of(job: SweptJob, proposals: int) -> list[tuple[str, TaskGraph]]:
    """Distinct strategies to try where circuits follow demand; those that do not fit in memory are left out."""
    cluster, workload = job.instance.cluster, job.instance.workload
    arrays, capacity = workload_arrays(cluster, workload), memory_capacity(cluster)
    named: dict[Strategy, str] = {job.plan.strategy: "strategy of the plan"}
    plain = data_parallel(cluster.servers, workload)
    if overflow_bytes(arrays, plain, capacity) == 0:
        named.setdefault(plain, "data parallel")
    switch = ideal_switch(cluster, strided_groups(cluster.servers), FabricOptions(seed=job.seed))
    result = anneal(
        arrays,
        network_arrays(switch),
        graph_shape(workload),
        job.plan.strategy,
        AnnealSettings(proposals),
        capacity=capacity,
        seed=job.seed,
        stop=job.stop,
    )
    named.setdefault(result.strategy, "searched on an ideal switch")
    return [(name, build_task_graph(cluster, workload, strategy)) for strategy, name in named.items()]
