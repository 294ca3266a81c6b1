"""A language model in training whose network fails: what all evaluators of its failures share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.failures.evaluator import RepairMemory
from solvers.llm_training.network.evaluation import evaluated
from topoopt.core.arrays import Ints
from topoopt.core.failures import FailureOutcome
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import FabricPlan, TrafficFamily
from topoopt.core.routing import PathTable
from topoopt.core.topology import Topology
from topoopt.simulate.llm_training.links import PlacedNetwork, family_groups

NONE_NEEDED, REROUTED, IMPOSSIBLE = "none needed", "re-routed", "impossible"

Orders = dict[TrafficFamily, tuple[Ints, ...]]
Way = tuple[tuple[int, ...], float]
"""Nodes of a path, and its share."""

Ways = dict[tuple[int, int], list[Way]]
"""Of pairs of servers."""


def table_ways(table: PathTable) -> Ways:
    """Paths of all pairs of a table."""
    pairs = zip(table.source.tolist(), table.target.tolist(), table.pair_ptr[:-1], table.pair_ptr[1:], strict=True)
    return {
        (source, target): [(table.path(path), float(table.share[path])) for path in range(first, last)]
        for source, target, first, last in pairs
    }


@dataclass(frozen=True, eq=False)
class TrainingRepair:
    """An outcome with the network that it is of; None: nothing carries all."""

    outcome: FailureOutcome
    network: PlacedNetwork | None


class TrainingFailures(RepairMemory[TrainingRepair]):
    """Evaluates failures of the network of a plan; values are milliseconds of an iteration.

    Args:
        problem, plan: all families on rings.
        topology: whose parts fail; packet switches follow the servers.
    """

    def __init__(self, problem: LlmTrainingProblem, plan: FabricPlan, topology: Topology) -> None:
        super().__init__()
        self.problem, self.plan, self._topology = problem, plan, topology
        cluster = problem.cluster
        self.groups = family_groups(plan.strategy, cluster.gpus_per_server)
        self.places = np.array(plan.network.places or range(cluster.servers), dtype=np.int64)
        self.orders = self._stated_orders()

    @property
    def topology(self) -> Topology:
        """Whose parts fail."""
        return self._topology

    @cached_property
    def nominal(self) -> float:
        """Milliseconds of an iteration without failure."""
        return self.value_ms(self._unbroken())

    @abstractmethod
    def _unbroken(self) -> PlacedNetwork:
        """The network without failure."""

    @property
    def rings(self) -> int:
        """Of all families together."""
        return sum(part.shape[0] * part.shape[1] for classes in self.orders.values() for part in classes)

    def ways(self, repair: TrainingRepair) -> Ways:
        """Paths of all pairs that send after a failure."""
        return {} if repair.network is None else table_ways(repair.network.routes)

    def reordered(self, repair: TrainingRepair) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Of every ring that runs after a failure one that the plan has in its group, and its order now."""
        orders = {} if repair.network is None else repair.network.orders
        return [
            (tuple(before[0]), tuple(ring))
            for family, classes in orders.items()
            for now, own in zip(classes, self.orders[family], strict=True)
            for group, before in zip(now.tolist(), own.tolist(), strict=True)
            for ring in group
        ]

    def value_ms(self, network: PlacedNetwork) -> float:
        """Of an iteration on a network."""
        return 1e3 * evaluated(self.problem, self.plan.strategy, network, self.groups).iteration_time_s

    def _stated_orders(self) -> Orders:
        """Rings of the plan by the classes of its groups."""
        found: Orders = {}
        for rings in self.plan.network.rings:
            by_servers = {tuple(sorted(orders[0])): orders for orders in rings.orders}
            found[rings.dimension] = tuple(
                np.array([by_servers[tuple(sorted(row))] for row in self.places[one.blocks].tolist()], dtype=np.int64)
                for one in self.groups.collectives[rings.dimension]
            )
        return found
