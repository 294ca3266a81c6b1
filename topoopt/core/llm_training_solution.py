"""The solution of a language model in training: a plan, what an iteration takes, and why none is faster."""

from __future__ import annotations

from dataclasses import dataclass, field

from topoopt.core.llm_training import StepBreakdown, TrainingMemory
from topoopt.core.llm_training_plan import (
    IDEAL_SWITCH,
    FabricOutcome,
    ShapeOutcome,
    ShapeVerdict,
    StrategyFigures,
    TrainingPlan,
)
from topoopt.core.shown import Shown
from topoopt.core.solution import SolutionHead


@dataclass(frozen=True)
class TrainingSetting:
    """What of the instance a reader needs to make sense of the figures.

    Attributes:
        model: its name.
        layers: of the model.
        servers, gpus_per_server, device: the cluster.
        sequences, length: of an iteration.
        usable_bytes: memory of a GPU that training may take; None: not checked.
    """

    model: str
    layers: int
    servers: int
    gpus_per_server: int
    device: str
    sequences: int
    length: int
    usable_bytes: int | None

    @property
    def gpus(self) -> int:
        """N."""
        return self.servers * self.gpus_per_server

    @property
    def tokens(self) -> int:
        """Of an iteration."""
        return self.sequences * self.length


@dataclass(frozen=True)
class TimedPass:
    """A pass of the picture of the pipeline.

    Attributes:
        rank, kind, micro_batch, stage: which; a joined forward pass has its backward one right behind it, and both end
            together.
        end_s: when it ends.
    """

    rank: int
    kind: int
    micro_batch: int
    stage: int
    end_s: float


@dataclass(frozen=True, repr=False)
class StageSeconds(Shown):
    """Seconds of a micro-batch in each stage of the model, exposed transfers included, and how long all take.

    Attributes:
        forward_s, inputs_s, weights_s: one value a stage, p v of them: passes, backward in two parts.
        hop_s: from a stage to the next.
        blocking: a rank waits until what it sends has arrived.
        makespan_s: of all micro-batches in the order of the schedule, without transfers of gradients and the step of
            the optimizer.
        passes: of the first ranks, with as few micro-batches as show the order; empty with one stage.
        drawn_batches: micro-batches of these passes.
    """

    forward_s: tuple[float, ...]
    inputs_s: tuple[float, ...]
    weights_s: tuple[float, ...]
    hop_s: float
    blocking: bool
    makespan_s: float
    passes: tuple[TimedPass, ...] = ()
    drawn_batches: int = 0


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LlmTrainingSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `llm-training`.

    Attributes, besides those of `SolutionHead`:
        objective: `iteration_time`, s, on the first fabric; `bound` and `status` are those of that fabric.
        setting: of the instance.
        model_flops: of an iteration over all GPUs: forward and backward once, attention causal.
        peak_flops: of one GPU, operations a second.
        sent_bytes: by a GPU in an iteration, by dimension.
        stages: of the pipeline of the plan, on its network.
        ranked: the fastest on an ideal switch, the best first.
        shapes: the certificate: for every way to divide the GPUs why none of its strategies is faster on an ideal
            switch, which no fabric betters.
        fabrics: the instance on each of its fabrics; the first is planned for.
        other_bounds_s: of each fabric after the first: no strategy of the space, wherever its ranks stand, is faster on
            any network of it. That of the first is `bound`.
    """

    setting: TrainingSetting
    model_flops: float
    peak_flops: float
    sent_bytes: tuple[tuple[str, float], ...]
    stages: StageSeconds
    ranked: tuple[StrategyFigures, ...]
    shapes: tuple[ShapeOutcome, ...]
    fabrics: tuple[FabricOutcome, ...]
    other_bounds_s: tuple[float, ...] = ()

    kind: str = field(default="llm-training", init=False)

    @property
    def fabric_bounds_s(self) -> tuple[float, ...]:
        """Of every fabric, in their order, seconds."""
        return (self.bound.value, *self.other_bounds_s)

    @property
    def plan(self) -> TrainingPlan:
        """The best strategy on the first fabric, and its network."""
        return self.fabrics[0].plan

    @property
    def breakdown(self) -> StepBreakdown:
        """Of its time."""
        return self.fabrics[0].breakdown

    @property
    def memory(self) -> TrainingMemory:
        """Of its fullest GPU, bytes."""
        return self.fabrics[0].memory

    @property
    def best(self) -> tuple[StrategyFigures, ...]:
        """The strategy of the plan, then the next best on the first fabric."""
        first = self.fabrics[0]
        if first.fabric == IDEAL_SWITCH:
            return self.ranked
        return (StrategyFigures(first.plan.strategy, first.breakdown, first.memory), *first.next)

    @property
    def flops_per_gpu(self) -> float:
        """Model operations a second of a GPU."""
        return self.model_flops / self.objective.value / self.setting.gpus

    @property
    def mfu(self) -> float:
        """Model operations over the peak."""
        return self.flops_per_gpu / self.peak_flops

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens trained on."""
        return self.setting.tokens / self.objective.value / self.setting.gpus

    @property
    def micro_batches(self) -> int:
        """Of a replica in an iteration."""
        strategy = self.plan.strategy
        return self.setting.sequences // (strategy.data * strategy.micro_batch)

    def counted(self, verdict: ShapeVerdict) -> int:
        """Shapes with a verdict."""
        return sum(line.verdict is verdict for line in self.shapes)
