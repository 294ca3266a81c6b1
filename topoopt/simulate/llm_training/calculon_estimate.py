"""One strategy of an instance in the Calculon model: what it covers, and its figures in our words."""

from __future__ import annotations

import numpy as np

from topoopt.core.calculon import CalculonSettings, TensorTransfers
from topoopt.core.errors import Problem
from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown, StepEstimate, TrainingMemory
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule
from topoopt.simulate.llm_training.calculon import CalculonStep, calculon_step
from topoopt.simulate.llm_training.calculon_records import CalculonRecords, records_of
from topoopt.workloads.llm_training.facts import token_operations

COVERED = "what time_model: calculon covers"


def calculon_estimate(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> StepEstimate:
    """Time and memory of an iteration of a strategy without `calculon_problems`."""
    settings = problem.calculon
    assert settings is not None
    step = calculon_step(problem.model, problem.batch.length, settings, _record(problem, settings, strategy))
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


def _record(problem: LlmTrainingProblem, settings: CalculonSettings, strategy: ParallelStrategy) -> CalculonRecords:
    numbers = (
        strategy.tensor,
        strategy.pipeline,
        strategy.chunks,
        strategy.data,
        problem.batch.sequences,
        strategy.micro_batch,
    )
    return records_of(
        (np.array([float(number)]) for number in numbers),
        np.array([strategy.recompute.value]),
        np.array([settings.transfers.value]),
        (np.array([flag]) for flag in (strategy.zero == 1, settings.redo, problem.overlap.data and strategy.data > 1)),
    )


def covers_model(model: LanguageModel) -> bool:
    """Whether it has words for a model: dense, an MLP of two matrices, as many heads of keys as of queries."""
    return model.experts is None and model.latent is None and not model.gated and model.kv_heads == model.heads


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
    tokens = strategy.micro_batch * problem.batch.length
    if settings.transfers is not TensorTransfers.ALL_REDUCE:
        fits = tokens % strategy.tensor == 0
        checks.append((fits, "tensor", strategy.tensor, f"divisors of the {tokens} tokens of a micro-batch"))
    if strategy.tensor > 1:
        split = settings.transfers is TensorTransfers.SEQUENCE
        checks.append((strategy.sequence == split, "sequence", strategy.sequence, f"{split}, by calculon.transfers"))
    found = [
        Problem(f"outside {COVERED}", path=part, value=str(value).lower(), allowed=allowed.lower())
        for good, part, value, allowed in checks
        if not good
    ]
    return found + _network_problems(settings, strategy)


def _network_problems(settings: CalculonSettings, strategy: ParallelStrategy) -> list[Problem]:
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
