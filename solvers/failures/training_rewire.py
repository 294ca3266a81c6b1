"""Repair by re-wiring of direct links under a language model in training: at most so many circuits are given up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.failures.exchanges import Exchange, standing_links
from solvers.failures.rewire import ExchangeSearch, Rewired, given_up, unit_arcs, with_links
from solvers.failures.training import TrainingRepair
from solvers.failures.training_links import TrainingEvaluator
from solvers.stop import Stop
from topoopt.core.failures import Failure
from topoopt.core.topology import Topology


class TrainingRewiring(ExchangeSearch[TrainingRepair]):
    """Re-wiring of one plan after one failure of links.

    Exchanges that give up links with little on them are tried first.

    Args:
        evaluator: of the plan.
        failure, most, stop: as of `ExchangeSearch`.
    """

    def __init__(self, evaluator: TrainingEvaluator, failure: Failure, most: int, stop: Stop) -> None:
        super().__init__(evaluator.topology, failure, most, stop)
        self.evaluator = evaluator
        self._load = evaluator.link_loads()

    def _promise(self, step: Exchange) -> tuple[int, float, Exchange]:
        return -len(step.added), float(sum(self._load[a, b] + self._load[b, a] for a, b in step.removed)), step

    def _repaired(self, exchange: Exchange, method: str) -> Rewired[TrainingRepair] | None:
        evaluator = self.evaluator.on(with_links(self.topology, exchange.added))
        repair = evaluator.repair(given_up(self.failure, exchange))
        if repair.network is None or repair.outcome.value is None:
            return None
        topology = self._standing(exchange)
        return Rewired(exchange, topology, repair, repair.outcome.value, method)

    def _standing(self, exchange: Exchange) -> Topology:
        """The links after the exchange; groups of servers need not be joined to each other."""
        before = self.topology
        arcs = unit_arcs(standing_links(before, self.failure, exchange), before.links)
        made = Topology.of_arcs(before.servers, arcs, degree=before.degree, links=before.links)
        return replace(made, origin=f"re-wired after {self.failure.label}", switches=np.full_like(before.switches, -1))
