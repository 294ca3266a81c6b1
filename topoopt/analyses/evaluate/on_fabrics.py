"""One configuration on networks: the best links, map and routes found on each, and which dimension it waits for."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from solvers.llm_training.network.fabrics import fabric_problems
from solvers.llm_training.network.plan import FoundOnFabric, best_network, mapped, outcome_of
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.llm_training import LlmTrainingProblem, StepEstimate
from topoopt.core.llm_training_plan import RankedStrategy
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.network.explicit import explicit_s


def on_fabrics(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    ideal: StepEstimate,
    fabrics: tuple[str, ...],
    stop: Stop,
    *,
    follow: bool,
) -> list[dict[str, Any]]:
    """For programs: time on each fabric, and what families get there.

    Args:
        ideal: of the strategy on an ideal switch.
        follow: also send every transfer of every server.

    Raises:
        InputError: no such fabric, the cluster cannot have it, or what is asked cannot be followed.
    """
    problems = fabric_problems(problem.cluster, fabrics)
    if problems:
        raise InputError(problems)
    ranked = RankedStrategy(strategy, ideal.iteration_time_s, ideal.memory.total)
    found = []
    for fabric in fabrics:
        one = best_network(problem, fabric, ranked)
        if one is None:
            degree = problem.cluster.degree
            has = "1 interface of a server does" if degree == 1 else f"{degree} interfaces of a server do"
            raise InfeasibleError(f"{fabric}: {has} not join all that send to each other")
        best = mapped(problem, fabric, one, stop)
        outcome = outcome_of(problem, FoundOnFabric(fabric, best, (), 1))
        network = outcome.plan.network
        found.append(
            {
                "fabric": fabric,
                "iteration_time_s": outcome.iteration_time_s,
                "form": outcome.note,
                "degree_split": {family.value: count for family, count in network.degree_split},
                "dimensions": [asdict(load) for load in network.loads],
            }
        )
        if follow:
            placed = best.evaluated
            found[-1]["followed_s"] = explicit_s(problem, strategy, placed.network, best.groups, placed.found)
    return found
