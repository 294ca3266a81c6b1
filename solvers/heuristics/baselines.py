"""The same job on other fabrics, each with a strategy searched for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solvers.heuristics.strategy.anneal import AnnealSettings, anneal, memory_capacity
from solvers.heuristics.strategy.anneal_kernel import quick_bounds
from solvers.heuristics.strategy.moves import graph_shape
from solvers.heuristics.strategy.starts import starting_strategies
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.instance import FabricChoice
from topoopt.core.solution import Baseline
from topoopt.core.strategy import Strategy, strided_groups
from topoopt.core.workload import Workload
from topoopt.simulate.evaluate import simulate
from topoopt.simulate.events import network_arrays
from topoopt.simulate.fabrics import FABRICS, FabricOptions
from topoopt.simulate.lower import build_task_graph, strategy_arrays, workload_arrays
from topoopt.simulate.network import Network

Inspect = Callable[[FabricChoice, FabricOptions, Network], None]
"""Looks at the network of a fabric before a job is searched on it; raises if it is wrong."""


@dataclass(frozen=True)
class FabricSearch:
    """Settings of the comparison.

    Attributes:
        proposals: strategies proposed on each fabric.
        seed: of the searches.
        fabrics: what to compare, with the options of each.
        inspect: called with every network.
    """

    proposals: int
    seed: int
    fabrics: tuple[tuple[FabricChoice, FabricOptions], ...]
    inspect: Inspect | None = None


@dataclass(frozen=True, eq=False)
class FabricResult:
    """The best strategy found on a fabric.

    Attributes:
        name: of the choice.
        description: the fabric in words.
        iteration_time_ms: by `rounds`.
        strategy: that takes this time.
        network: the fabric's.
        proposals: strategies proposed by the search.
    """

    name: str
    description: str
    iteration_time_ms: float
    strategy: Strategy
    network: Network
    proposals: int


class JobOnFabrics:
    """A job that is searched on one fabric after another.

    On each fabric the strategies found elsewhere and the starting ones are tried, and the best is annealed; once `stop`
    says so, only the first one is tried.
    """

    def __init__(self, cluster: Cluster, workload: Workload, found: Sequence[Strategy], search: FabricSearch) -> None:
        self.cluster, self.workload, self.search = cluster, workload, search
        self.arrays, self.shape = workload_arrays(cluster, workload), graph_shape(workload)
        self.capacity = memory_capacity(cluster)
        self.groups = strided_groups(cluster.servers)
        known = [*found, *(start.strategy for start in starting_strategies(cluster, workload))]
        fits = [each for each in known if quick_bounds(self.arrays, *strategy_arrays(each), self.capacity)[1] == 0]
        self.starts = fits or known[:1]

    def on(self, choice: FabricChoice, options: FabricOptions, stop: Stop) -> FabricResult:
        """Search on one fabric.

        Raises:
            InputError: the cluster has no such fabric; the problem says why.
        """
        fabric = FABRICS[choice.fabric]
        network = fabric.build(self.cluster, self.groups, options)
        if self.search.inspect is not None:
            self.search.inspect(choice, options, network)
        timed: list[tuple[float, int]] = []
        for position, each in enumerate(self.starts):
            if timed and stop.reason() is not None:
                break
            graph = build_task_graph(self.cluster, self.workload, each)
            timed.append((simulate(graph, network).iteration_time_ms, position))
        time_ms, position = min(timed)
        result = anneal(
            self.arrays,
            network_arrays(network),
            self.shape,
            self.starts[position],
            AnnealSettings(self.search.proposals),
            capacity=self.capacity,
            seed=self.search.seed * 1_000_003 + 500 + list(FABRICS).index(choice.fabric),
            stop=stop,
        )
        better = result.iteration_time_ms < time_ms
        return FabricResult(
            name=choice.name,
            description=fabric.describe(self.cluster, options),
            iteration_time_ms=result.iteration_time_ms if better else time_ms,
            strategy=result.strategy if better else self.starts[position],
            network=network,
            proposals=result.proposals,
        )


def left_out(choice: FabricChoice, error: InputError) -> str:
    """Why a fabric is missing from a comparison, in one line."""
    return f"no {choice.name} for this cluster: " + "; ".join(str(problem) for problem in error.problems)


def compare_fabrics(
    cluster: Cluster, workload: Workload, found: Sequence[Strategy], search: FabricSearch, stop: Stop
) -> tuple[tuple[Baseline, ...], tuple[str, ...]]:
    """Iteration time (`rounds`) of the job on every fabric of the search, and notes on those that cannot be built."""
    job = JobOnFabrics(cluster, workload, found, search)
    baselines: list[Baseline] = []
    notes: list[str] = []
    for choice, options in search.fabrics:
        try:
            result = job.on(choice, options, stop)
        except InputError as error:
            notes.append(left_out(choice, error))
            continue
        baselines.append(Baseline(result.name, result.iteration_time_ms, result.description))
    return tuple(baselines), tuple(notes)
