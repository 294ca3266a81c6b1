"""What one iteration of a strategy takes, by the time model that an instance names."""

from __future__ import annotations

from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem, StepEstimate
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.calculon_estimate import calculon_estimate, calculon_problems
from topoopt.workloads.llm_training.rules import strategy_problems


def estimate(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> StepEstimate:
    """Time and memory of an iteration.

    Raises:
        InputError: the strategy cannot be run, or the time model does not cover it.
    """
    problems = strategy_problems(problem, strategy)
    if not problems:
        problems = calculon_problems(problem, strategy)
    if problems:
        raise InputError(problems)
    return calculon_estimate(problem, strategy)
