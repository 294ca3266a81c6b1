"""Time model of a network without limits: all bytes arrive at once."""

from __future__ import annotations

import numpy as np

from topoopt.core.workload import TaskGraph
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.evaluate import Simulation, TimeModel


def simulate_compute(graph: TaskGraph, network: Network) -> Simulation:
    """The compute of the busiest server, its tasks one after the other."""
    total = np.bincount(np.maximum(graph.source, 0), weights=graph.duration_ms)
    start, nothing = np.zeros(graph.tasks), np.zeros(len(network.link_rate))
    return Simulation(float(total.max()), start, start, np.full(graph.tasks, -1, np.int32), nothing, nothing)


COMPUTE_ONLY = TimeModel("links are infinitely fast", simulate_compute)
