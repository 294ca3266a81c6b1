"""Times of tasks by a time model of the table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.taskgraph import TaskGraph
from topoopt.simulate.network import Network
from topoopt.simulate.time_models import TIME_MODELS


def times(graph: TaskGraph, network: Network, model: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Start and end of every task, ms."""
    done = TIME_MODELS[model].run(graph, network)
    return done.start_ms, done.end_ms
