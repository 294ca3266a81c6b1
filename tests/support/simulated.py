"""Times of tasks by a time model of the table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.job import CoOptimisation, Evaluation, Plan
from topoopt.core.workload import TaskGraph
from topoopt.simulate.fabrics import plan_network
from topoopt.simulate.network import Network, build_task_graph
from topoopt.simulate.time_models import TIME_MODELS
from topoopt.simulate.time_models.evaluate import evaluate


def times(graph: TaskGraph, network: Network, model: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Start and end of every task, ms."""
    done = TIME_MODELS[model].run(graph, network)
    return done.start_ms, done.end_ms


def evaluate_plan(problem: CoOptimisation, plan: Plan, model: str = "rounds") -> Evaluation:
    """One iteration of a plan on its own network."""
    graph = build_task_graph(problem.cluster, problem.workload, plan.strategy)
    return evaluate(graph, plan_network(problem.cluster, plan), model)
