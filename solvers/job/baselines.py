"""The same job on other fabrics, each with a strategy searched for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solvers.job.fabric_strategy import fabric_job, search_strategy
from solvers.stop import Stop, first_part
from topoopt.core.arrays import seed_for
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.job import Baseline, FabricChoice
from topoopt.core.workload import Strategy, Workload, strided_groups
from topoopt.simulate.fabrics import FABRICS, FabricOptions
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
        self.search, self.groups = search, strided_groups(cluster.servers)
        self.job = fabric_job(cluster, workload, found)

    def on(self, choice: FabricChoice, options: FabricOptions, stop: Stop) -> FabricResult:
        """Search on one fabric.

        Raises:
            InputError: the cluster has no such fabric; the problem says why.
        """
        fabric = FABRICS[choice.fabric]
        network = fabric.build(self.job.cluster, self.groups, options)
        if self.search.inspect is not None:
            self.search.inspect(choice, options, network)
        seed = seed_for(self.search.seed, choice.fabric)
        found = search_strategy(self.job, network, proposals=self.search.proposals, seed=seed, stop=stop)
        return FabricResult(
            name=choice.name,
            description=fabric.describe(self.job.cluster, options),
            iteration_time_ms=found.iteration_time_ms,
            strategy=found.strategy,
            network=network,
            proposals=found.proposals,
        )


def left_out(choice: FabricChoice, error: InputError) -> str:
    """Why a fabric is missing from a comparison, in one line."""
    return f"no {choice.name} for this cluster: " + "; ".join(str(problem) for problem in error.problems)


Attempt = Callable[[str, Callable[[], Baseline | str]], Baseline | str | None]
"""Called with the name of a step and what does it; its result, or None if there is no time for it."""

FABRICS_SHARE = 0.8
"""Part of the time left that all fabrics together may take."""


def compare_fabrics(
    cluster: Cluster,
    workload: Workload,
    found: Sequence[Strategy],
    search: FabricSearch,
    stop: Stop,
    attempt: Attempt,
) -> tuple[tuple[Baseline, ...], tuple[str, ...]]:
    """Iteration time (`rounds`) of the job on every fabric of the search, and notes on those that cannot be built.

    Those that `attempt` has no time for are missing.
    """
    jobs: list[JobOnFabrics] = []
    lines = []
    for place, (choice, options) in enumerate(search.fabrics):
        share = FABRICS_SHARE / (len(search.fabrics) - place)
        mine = stop if stop.deadline is None else first_part(stop, share, math.inf)

        def line(choice: FabricChoice = choice, options: FabricOptions = options, mine: Stop = mine) -> Baseline | str:
            if not jobs:
                jobs.append(JobOnFabrics(cluster, workload, found, search))
            try:
                result = jobs[0].on(choice, options, mine)
            except InputError as error:
                return left_out(choice, error)
            return Baseline(result.name, result.iteration_time_ms, result.description, result.strategy)

        lines.append(attempt(f"baseline {choice.name}", line))
    baselines = tuple(each for each in lines if isinstance(each, Baseline))
    return baselines, tuple(each for each in lines if isinstance(each, str))
