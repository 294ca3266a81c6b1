"""What one rank computes and exchanges in each pass of a training iteration: sizes of collectives and messages.

Sizes are what every rank holds, of an all-gather what it begins with. With A bytes of the
activations of a micro-batch and L layers in a stage (section numbers of arXiv:2205.05198):

    tensor     2 L all-reduces of A forward and backward; with sequence parallelism (4.2.2) 2 L all-gathers and
               2 L reduce-scatters, and in the backward pass 2 L all-gathers more; full recomputation repeats the
               forward ones, but for the last reduce-scatter of each layer
    context    an all-gather of keys and values forward; backward again, and a reduce-scatter of their gradients
    expert     an all-to-all to the experts and one back, in both passes
    data       gradients all-reduced, with ZeRO reduce-scattered, weights all-gathered
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topoopt.core.hierarchy_workload import Collective
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy, Recompute
from topoopt.core.pipeline import PassKind
from topoopt.simulate.llm_training.network.layer_sync import optimizer_s
from topoopt.simulate.llm_training.network.stages import StagePasses, stage_times
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.traffic import ELEMENT
from topoopt.simulate.llm_training.transfers import GroupRates

TENSOR, CONTEXT, EXPERT, DATA, REPLICAS = "tensor", "context", "expert", "data", "expert-data"


@dataclass(frozen=True)
class GroupCall:
    """A collective in the group of a family that a rank is in.

    Attributes:
        exact_bytes: what the model comes to, which need not be whole.
    """

    family: str
    collective: Collective
    exact_bytes: float

    @property
    def size_bytes(self) -> int:
        """Whole ones, as messages have them."""
        return math.ceil(self.exact_bytes)


class TrainingPasses:
    """Costs of all passes of a strategy.

    Attributes:
        stages: seconds and weights of the stages of the model.
        exact_hop_bytes: that a rank sends to the next stage, of a micro-batch.
    """

    def __init__(self, problem: LlmTrainingProblem, strategy: ParallelStrategy) -> None:
        self._problem, self._strategy = problem, strategy
        columns = columns_of([strategy], problem.model.layers)
        rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
        self.stages: StagePasses = stage_times(problem, strategy, rates)
        self._tokens = strategy.micro_batch * problem.batch.length // strategy.context
        self._activations = self._tokens * problem.model.hidden * ELEMENT
        shared = strategy.tensor if strategy.sequence else 1
        self.exact_hop_bytes = self._activations / shared

    @property
    def hop_bytes(self) -> int:
        """Whole bytes, as messages have them."""
        return math.ceil(self.exact_hop_bytes)

    def compute_us(self, kind: PassKind, stage: int) -> int:
        """Of a pass, transfers left out; whole microseconds, as traces have them."""
        return round(self.compute_s(kind, stage) * 1e6)

    def compute_s(self, kind: PassKind, stage: int) -> float:
        """Of a pass, transfers left out."""
        seconds, slow = self.stages.passes, self._problem.cluster.slowdown
        inputs, weights = seconds.inputs[stage] + seconds.again[stage], seconds.weights[stage]
        value = {
            PassKind.FORWARD: seconds.forward[stage],
            PassKind.JOINED: seconds.forward[stage],
            PassKind.BACKWARD: inputs + weights,
            PassKind.INPUTS: inputs,
            PassKind.WEIGHTS: weights,
        }[kind]
        return float(slow * value)

    def optimizer_us(self) -> int:
        """The step, on the fullest rank; whole microseconds."""
        return round(self.optimizer_s() * 1e6)

    def optimizer_s(self) -> float:
        """The step, on the fullest rank."""
        return float(self._problem.cluster.slowdown * optimizer_s(self._problem, self._strategy, self.stages))

    def exchanges(self, kind: PassKind, stage: int) -> tuple[GroupCall, ...]:
        """Of a pass, behind its computing; gradients of weights are computed by each rank alone."""
        if kind is PassKind.WEIGHTS:
            return ()
        ahead = kind in (PassKind.FORWARD, PassKind.JOINED)
        calls = [*self._tensor(stage, ahead), *self._context(stage, ahead), *self._expert(stage)]
        return tuple(call for call in calls if call.size_bytes)

    def _tensor(self, stage: int, ahead: bool) -> Iterator[GroupCall]:
        s, whole = self._strategy, self._activations
        layers = int(self.stages.dense[stage] + self.stages.routed[stage])
        again = 0 if ahead or s.recompute is not Recompute.FULL else layers
        if s.tensor == 1:
            return
        if not s.sequence:
            yield GroupCall(TENSOR, Collective.ALL_REDUCE, (2 * layers + 2 * again) * whole)
            return
        gathers = 2 * layers + 2 * again + (0 if ahead else 2 * layers)
        yield GroupCall(TENSOR, Collective.ALL_GATHER, gathers * whole / s.tensor)
        yield GroupCall(TENSOR, Collective.REDUCE_SCATTER, (2 * layers + again) * whole)

    def _context(self, stage: int, ahead: bool) -> Iterator[GroupCall]:
        s, model = self._strategy, self._problem.model
        if s.context == 1:
            return
        keys = 2.0 * max(model.kv_heads / s.tensor, 1.0) * model.head_size
        if model.latent is not None:
            keys = float(model.latent.key_value_rank + model.latent.rotary_size)
        layers = int(self.stages.dense[stage] + self.stages.routed[stage])
        own = math.ceil(layers * self._tokens * keys * ELEMENT)
        yield GroupCall(CONTEXT, Collective.ALL_GATHER, own)
        if not ahead:
            yield GroupCall(CONTEXT, Collective.REDUCE_SCATTER, own * s.context)

    def _expert(self, stage: int) -> Iterator[GroupCall]:
        s, experts = self._strategy, self._problem.model.experts
        if experts is None or s.expert == 1:
            return
        one = int(self.stages.routed[stage]) * self._activations / ELEMENT / s.tensor * experts.per_token
        there = 1.0 if self._problem.formats.fp8_dispatch else ELEMENT
        yield GroupCall(EXPERT, Collective.ALL_TO_ALL, one * there)
        yield GroupCall(EXPERT, Collective.ALL_TO_ALL, one * ELEMENT)

    def gathering(self, stage: int) -> tuple[GroupCall, ...]:
        """Weights of a stage, which replicas share out."""
        calls = [
            GroupCall(family, Collective.ALL_GATHER, float(weights[stage] * ELEMENT / replicas))
            for family, weights, replicas in self._replicas()
            if self._strategy.zero and replicas > 1
        ]
        return tuple(call for call in calls if call.size_bytes)

    def reducing(self, stage: int) -> tuple[GroupCall, ...]:
        """Gradients of a stage."""
        kind = Collective.REDUCE_SCATTER if self._strategy.zero else Collective.ALL_REDUCE
        size = self._problem.formats.gradient_bytes
        calls = [
            GroupCall(family, kind, float(weights[stage] * size))
            for family, weights, replicas in self._replicas()
            if replicas > 1
        ]
        return tuple(call for call in calls if call.size_bytes)

    def _replicas(self) -> Iterator[tuple[str, np.ndarray, int]]:
        s = self._strategy
        yield DATA, self.stages.dense_weights, s.replicas
        yield REPLICAS, self.stages.expert_weights, s.expert_replicas
