"""One strategy of an instance in the Calculon model: what it covers, and its figures in our words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.calculon import CalculonSettings, ExecutionChoices, TensorTransfers
from topoopt.core.errors import Problem
from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown, StepEstimate, TrainingMemory
from topoopt.core.llm_training_solution import StageSeconds
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.llm_training.calculon import CalculonStep, calculon_step, chunk_seconds
from topoopt.simulate.llm_training.calculon_records import CalculonRecords
from topoopt.workloads.llm_training.facts import token_operations

COVERED = "what time_model: calculon covers"


def calculon_estimate(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> StepEstimate:
    """Time and memory of an iteration of a strategy without `calculon_problems`."""
    settings = problem.calculon
    assert settings is not None
    step = calculon_steps(problem, [strategy])
    return StepEstimate(
        _breakdown(step),
        TrainingMemory(
            weights=float(step.weights[0]),
            gradients=float(step.gradients[0]),
            optimizer=float(step.optimizer_states[0]),
            activations=float((step.activations + step.checkpoints + step.activation_gradients)[0]),
        ),
        token_operations(problem.model, problem.batch.length) * problem.batch.tokens,
        settings.machine.matrix.tflops * 1e12,
        (
            ("tensor_again_s", float(step.tensor_again[0])),
            ("activations_bytes", float(step.activations[0])),
            ("checkpoints_bytes", float(step.checkpoints[0])),
            ("activation_gradients_bytes", float(step.activation_gradients[0])),
        ),
    )


def _breakdown(step: CalculonStep) -> StepBreakdown:
    return StepBreakdown(
        forward=float(step.forward[0]),
        backward=float(step.backward[0]),
        recompute=float(step.recompute[0]),
        bubble=float(step.bubble[0]),
        tensor=float((step.tensor + step.tensor_again)[0]),
        context=0.0,
        expert=0.0,
        pipeline=float(step.pipeline[0]),
        data=float(step.data[0]),
        optimizer=float(step.optimizer[0]),
    )


def choices_of(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> ExecutionChoices:
    """What the model tells apart beside the parts of a strategy: its own, else as the instance states it."""
    settings = problem.calculon
    assert settings is not None
    stated = ExecutionChoices(settings.transfers, settings.redo, problem.overlap.data and strategy.data > 1)
    return strategy.execution or stated


def records_of_strategies(problem: LlmTrainingProblem, strategies: Sequence[ParallelStrategy]) -> CalculonRecords:
    """A row for each."""
    numbers = ("tensor", "pipeline", "chunks", "data", "micro_batch", "zero")
    t, p, v, d, b, zero = (np.array([getattr(one, name) for one in strategies], dtype=np.float64) for name in numbers)
    choices = [choices_of(problem, one) for one in strategies]
    return CalculonRecords(
        t,
        p,
        v,
        d,
        np.full(len(strategies), float(problem.batch.sequences)),
        b,
        np.array([one.recompute.value for one in strategies]),
        np.array([one.transfers.value for one in choices]),
        zero == 1,
        np.array([one.redo for one in choices]),
        np.array([one.data_overlap for one in choices]),
    )


def calculon_steps(problem: LlmTrainingProblem, strategies: Sequence[ParallelStrategy]) -> CalculonStep:
    """What iterations of strategies without `calculon_problems` take."""
    settings = problem.calculon
    assert settings is not None
    return calculon_step(problem.model, problem.batch.length, settings, records_of_strategies(problem, strategies))


def calculon_stages(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> StageSeconds:
    """Every stage, all of them alike; no passes are drawn, as the model has a closed form in place of their order."""
    settings = problem.calculon
    assert settings is not None
    own, records = calculon_steps(problem, [strategy]), records_of_strategies(problem, [strategy])
    chunk = chunk_seconds(problem.model, problem.batch.length, settings, records)
    stages, several = strategy.pipeline * strategy.chunks, strategy.pipeline > 1
    forward, inputs, weights, hop = (float(part[0]) for part in chunk)
    makespan = float((own.total - own.data - own.optimizer)[0])
    return StageSeconds(
        (forward,) * stages, (inputs,) * stages, (weights,) * stages, hop if several else 0.0, several, makespan
    )


def covers_model(model: LanguageModel) -> bool:
    """Whether it has words for a model: dense, an MLP of two matrices, as many heads of keys as of queries, no
    window of attention."""
    plain = model.experts is None and model.latent is None and model.attention_window is None
    return plain and not model.gated and model.kv_heads == model.heads


def calculon_problems(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> list[Problem]:
    """What the model has no words for; paths are those of the parts of the strategy."""
    settings = problem.calculon
    assert settings is not None
    blocks = -(-problem.model.layers // strategy.pipeline)
    schedules = (PipelineSchedule.ONE_F_ONE_B.value, PipelineSchedule.INTERLEAVED.value)
    checks: list[tuple[bool, str, object, str]] = [
        (strategy.context == 1, "context", strategy.context, "1"),
        (strategy.expert == 1, "expert", strategy.expert, "1"),
        (strategy.zero <= 1, "zero", strategy.zero, "0, 1"),
        (strategy.schedule.value in schedules, "schedule", strategy.schedule.value, ", ".join(schedules)),
        (not strategy.stage_layers, "stage_layers", strategy.stage_layers, "as even as can be"),
        (blocks % strategy.chunks == 0, "chunks", strategy.chunks, f"divisors of the {blocks} layers of a stage"),
    ]
    tokens, transfers = strategy.micro_batch * problem.batch.length, choices_of(problem, strategy).transfers
    if transfers is not TensorTransfers.ALL_REDUCE:
        fits = tokens % strategy.tensor == 0
        checks.append((fits, "tensor", strategy.tensor, f"divisors of the {tokens} tokens of a micro-batch"))
    if strategy.tensor > 1:
        split = transfers is TensorTransfers.SEQUENCE
        checks.append((strategy.sequence == split, "sequence", strategy.sequence, f"{split}, by calculon.transfers"))
    found = [
        Problem(f"outside {COVERED}", path=part, value=str(value).lower(), allowed=allowed.lower())
        for good, part, value, allowed in checks
        if not good
    ]
    return found + network_problems(settings, strategy)


def network_problems(settings: CalculonSettings, strategy: ParallelStrategy) -> list[Problem]:
    """Groups that are larger than their network, or leave part of it unused where it must be filled."""
    found = []
    groups = (
        (settings.tensor_network, strategy.tensor),
        (settings.pipeline_network, strategy.pipeline),
        (settings.data_network, strategy.data),
    )
    for place, network in enumerate(settings.machine.networks):
        joined = 1
        for own, size in groups:
            joined *= size if own == place else 1
        if joined > network.size or (joined > 1 and network.must_be_filled and network.size % joined):
            allowed = f"divisors of {network.size}" if network.must_be_filled else f"at most {network.size}"
            found.append(Problem(f"groups on network {place}", path="tensor", value=str(joined), allowed=allowed))
    return found
