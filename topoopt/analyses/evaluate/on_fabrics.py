"""One configuration on networks: the best links, map and routes found on each, and which dimension it waits for."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from solvers.llm_training.network.plan import FoundOnFabric, best_network, decided, mapped, planned_problems
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem, StepEstimate
from topoopt.core.llm_training_plan import PHOTONIC_RAILS, POD_CIRCUITS, RankedStrategy
from topoopt.core.parallelism import ParallelStrategy
from topoopt.kinds.llm_training.figures import FabricFigures


def on_fabrics(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    ideal: StepEstimate,
    fabrics: tuple[str, ...],
    stop: Stop,
    switched: dict[str, Any] | None,
) -> list[dict[str, Any]]:
    """For programs: time on each fabric, and what families get there.

    Args:
        ideal: of the strategy on an ideal switch.
        switched: its step with circuits set anew; None: the instance says nothing of these.

    Raises:
        InputError: no such fabric, or the cluster cannot have it.
    """
    problems = planned_problems(problem.cluster, fabrics)
    if PHOTONIC_RAILS in fabrics and problem.switching is None:
        text, allowed = "how long circuits of the rails take to set is missing", "an instance with switching:"
        problems.append(Problem(text, path="--fabric", value=PHOTONIC_RAILS, allowed=allowed))
    if POD_CIRCUITS in fabrics:
        text, allowed = "circuits between pods are searched with the strategy", "topoopt solve, search.topology: dag"
        problems.append(Problem(text, path="--fabric", value=POD_CIRCUITS, allowed=allowed))
    if problems:
        raise InputError(problems)
    ranked = RankedStrategy(strategy, ideal.iteration_time_s, ideal.memory.total)
    found = []
    for fabric in fabrics:
        if fabric == PHOTONIC_RAILS:
            found.append(_rails(switched))
            continue
        one = best_network(problem, fabric, ranked)
        if one is None:
            degree = problem.cluster.degree
            has = "1 interface of a server does" if degree == 1 else f"{degree} interfaces of a server do"
            raise InfeasibleError(f"{fabric}: {has} not join all that send to each other")
        best = mapped(problem, fabric, one, stop)
        figures = FabricFigures(problem, decided(FoundOnFabric(fabric, best, (), 1)), strategy)
        found.append(
            {
                "fabric": fabric,
                "iteration_time_s": figures.iteration_time_s,
                "form": figures.note,
                "degree_split": {family.value: count for family, count in figures.network.degree_split},
                "dimensions": [asdict(load) for load in figures.loads],
            }
        )
    return found


def _rails(switched: dict[str, Any] | None) -> dict[str, Any]:
    """A step on rails among steps on networks."""
    assert switched is not None
    form = f"ports are set {switched['switches']} times, {switched['mode']}, stall {switched['exposed_s']:.4g} s"
    return {
        "fabric": PHOTONIC_RAILS,
        "iteration_time_s": switched["step_s"],
        "form": form,
        "degree_split": {},
        "dimensions": [],
    }
