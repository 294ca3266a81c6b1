"""What one iteration of a strategy takes."""

from __future__ import annotations

from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem, StepEstimate, TrainingMemory
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.ledger import ledger
from topoopt.simulate.llm_training.rules import strategy_problems
from topoopt.simulate.llm_training.step import step_breakdown
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.traffic import iteration_traffic
from topoopt.simulate.llm_training.transfers import GroupRates
from topoopt.workloads.llm_training.facts import token_operations


def estimate(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> StepEstimate:
    """Time and memory of an iteration.

    Raises:
        InputError: the strategy cannot be run.
    """
    if problems := strategy_problems(problem, strategy):
        raise InputError(problems)
    return roofline_estimate(problem, strategy)


def roofline_estimate(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates | None = None
) -> StepEstimate:
    """Time and memory of an iteration of a strategy that obeys the rules.

    Args:
        rates: of its groups; None: of an ideal switch.
    """
    model, batch, device = problem.model, problem.batch, problem.device
    columns = columns_of([strategy], model.layers)
    held = ledger(problem, columns)
    sent = iteration_traffic(
        model, problem.formats, columns, batch.length, batch.sequences, problem.cluster.gpus_per_server
    )
    peak = device.fp8_tflops if problem.formats.fp8 and device.fp8_tflops is not None else device.matrix_tflops
    return StepEstimate(
        step_breakdown(problem, strategy, rates),
        TrainingMemory(
            weights=float(held.weights[0]),
            gradients=float(held.gradients[0]),
            optimizer=float(held.optimizer[0]),
            activations=float(held.activations[0]),
        ),
        token_operations(model, batch.length) * batch.tokens,
        peak * 1e12,
        tuple((f"{name}_sent_bytes", float(column[0])) for name, column in vars(sent).items()),
    )
