"""What a parallelization strategy must obey to be run at all, apart from memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from topoopt.core.errors import Problem
from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import END_SLOTS, LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule, PipelineShape
from topoopt.simulate.pipeline.table import schedule_problems

PARTS = {"stages": "pipeline", "chunks": "chunks", "micro-batches": "micro_batch", "group": "schedule"}
"""Sizes of a pipeline by the part of a strategy that sets them."""


def strategy_problems(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> list[Problem]:
    """All that is wrong with a strategy; paths are those of its parts."""
    return [
        *_of_model(problem.model, strategy),
        *_of_ranks(problem, strategy),
        *_of_batch(problem, strategy),
        *_of_pipeline(problem, strategy),
    ]


def _divides(part: str, count: int, whole: int, what: str) -> Iterator[Problem]:
    if whole % count:
        yield Problem(f"does not divide {what}", path=part, value=str(count), allowed=f"divisors of {whole}")


def _of_model(model: LanguageModel, strategy: ParallelStrategy) -> Iterator[Problem]:
    t = strategy.tensor
    yield from _divides("tensor", t, model.heads, f"the {model.heads} heads")
    yield from _divides("tensor", t, model.hidden, f"the width {model.hidden}")
    yield from _divides("tensor", t, model.ffn_hidden, f"the inner width {model.ffn_hidden}")
    if model.latent is None and model.kv_heads % t and t % model.kv_heads:
        allowed = f"a divisor or a multiple of {model.kv_heads}"
        yield Problem("does not go with the heads of keys and values", path="tensor", value=str(t), allowed=allowed)
    experts = model.experts
    if experts is None:
        for part, count in (("expert", strategy.expert), ("expert_tensor", strategy.expert_tensor)):
            if count > 1:
                yield Problem("the model has no experts", path=part, value=str(count), allowed="1")
    else:
        yield from _divides("expert", strategy.expert, experts.count, f"the {experts.count} experts")
        y, inner = strategy.expert_tensor, experts.hidden
        yield from _divides("expert_tensor", y, inner, f"the inner width {inner} of experts")


def _of_ranks(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> Iterator[Problem]:
    gpus = problem.cluster.gpus
    if strategy.gpus != gpus:
        text = "tensor x context x pipeline x data is not the number of GPUs"
        yield Problem(text, path="data", value=str(strategy.gpus), allowed=str(gpus))
        return
    of_stage = gpus // strategy.pipeline
    if of_stage % (strategy.expert * strategy.expert_tensor):
        text = f"expert x expert_tensor does not divide the {of_stage} GPUs of a stage"
        value = str(strategy.expert * strategy.expert_tensor)
        yield Problem(text, path="expert", value=value, allowed=f"divisors of {of_stage}")
    if strategy.zero and strategy.data * strategy.context == 1:
        yield Problem("nothing to share with one replica", path="zero", value=str(strategy.zero), allowed="0")


def _of_batch(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> Iterator[Problem]:
    batch, s = problem.batch, problem.batch.length
    if batch.sequences % (strategy.data * strategy.micro_batch):
        text = f"data x micro_batch does not divide the {batch.sequences} sequences of an iteration"
        value = f"{strategy.data} x {strategy.micro_batch}"
        yield Problem(text, path="micro_batch", value=value, allowed=f"divisors of {batch.sequences}")
    c = strategy.context
    if c > 1 and s % (2 * c):
        # A rank takes one part from the head and one from the tail, so that causal attention is even.
        yield Problem("does not cut a sequence into 2c parts", path="context", value=str(c), allowed=f"2c divides {s}")
    tokens = strategy.micro_batch * s // c
    if strategy.sequence and tokens % strategy.tensor:
        text = f"the {tokens} tokens of a micro-batch are not divisible by tensor"
        yield Problem(text, path="sequence", value=str(strategy.tensor), allowed=f"divisors of {tokens}")
    if strategy.sequence and strategy.tensor == 1:
        yield Problem("plays no part with tensor 1", path="sequence", value="true", allowed="false")


def _of_pipeline(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> Iterator[Problem]:
    p, v, layers = strategy.pipeline, strategy.chunks, problem.model.layers
    slots = layers + END_SLOTS
    if p * v > slots:
        text = f"more stages than layers: {p} x {v} chunks for {layers} layers, embedding and head"
        yield Problem(text, path="pipeline", value=str(p * v), allowed=f"at most {slots}")
    if p == 1:
        if v > 1:
            yield Problem("one stage has one run of layers", path="chunks", value=str(v), allowed="1")
        if strategy.schedule is not PipelineSchedule.ONE_F_ONE_B:
            text = "plays no part with one stage"
            yield Problem(text, path="schedule", value=strategy.schedule.value, allowed="1f1b")
        return
    if strategy.schedule is PipelineSchedule.INTERLEAVED and v == 1:
        yield Problem("with one run of layers it is 1f1b", path="chunks", value="1", allowed="2 or more")
    m = problem.batch.sequences // (strategy.data * strategy.micro_batch)
    if m:
        for one in schedule_problems(strategy.schedule, PipelineShape(p, m, v)):
            yield replace(one, path=PARTS[one.path or ""])
    if strategy.stage_layers and (len(strategy.stage_layers) != p * v or sum(strategy.stage_layers) != layers):
        value = f"{len(strategy.stage_layers)} chunks, {sum(strategy.stage_layers)} layers"
        yield Problem("not all layers on all chunks", path="stage_layers", value=value, allowed=f"{p * v}, {layers}")
