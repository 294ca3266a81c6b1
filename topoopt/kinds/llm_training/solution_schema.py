"""Shape of solution files of kind `llm-training`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from topoopt.core.llm_training import StepBreakdown, TrainingMemory
from topoopt.core.llm_training_plan import (
    DimensionLoad,
    DimensionRings,
    DimensionSchedules,
    FabricOutcome,
    ServerRoute,
    ShapeOutcome,
    ShapeVerdict,
    StrategyFigures,
    StrategyShape,
    TrafficFamily,
    TrainingNetwork,
    TrainingPlan,
)
from topoopt.core.llm_training_solution import (
    LlmTrainingSolution,
    StageSeconds,
    TimedPass,
    TrainingSetting,
)
from topoopt.files.file_part import FilePart, Listed, NameOf, PairsOf, RowOf, built, is_empty, is_none
from topoopt.files.group_schedule_part import GroupSchedulePart
from topoopt.files.solution_head import Amount, Notes, Sha256, SolutionHeadFile, Text, Versions
from topoopt.kinds.llm_training.model_schema import MOST_LAYERS
from topoopt.kinds.llm_training.pods_schema import PodPlanPart
from topoopt.kinds.llm_training.rails_schema import RailPlanPart
from topoopt.kinds.llm_training.schema import MOST_GPUS
from topoopt.kinds.llm_training.strategy_schema import Parts, StrategyPart

MOST_SHAPES = 1_000_000
MOST_LINKS = 4_000_000
Count = Annotated[int, Field(ge=0, le=1 << 60)]
Node = Annotated[int, Field(ge=0, le=1 << 20)]
Family = Annotated[TrafficFamily, NameOf(TrafficFamily)]
LinkRow = Annotated[tuple[Node, Node, Parts], Strict(False)]  # tail, head, parallel links
SplitRow = Annotated[tuple[Family, Node], Strict(False)]  # family, interfaces of a server
Ring = Annotated[Listed[Node], Field(max_length=MOST_GPUS)]
Group = Annotated[Listed[Ring], Field(max_length=MOST_GPUS)]
Seconds = Annotated[Listed[Amount], Field(min_length=1, max_length=2 * MOST_LAYERS)]


class StepBreakdownPart(FilePart):
    """Seconds of an iteration, exposed: they add up."""

    core = StepBreakdown

    forward: Amount
    backward: Amount
    recompute: Amount
    bubble: Amount
    tensor: Amount
    context: Amount
    expert: Amount
    pipeline: Amount
    data: Amount
    optimizer: Amount


class TrainingMemoryPart(FilePart):
    """Bytes on the fullest GPU."""

    core = TrainingMemory

    weights: Amount
    gradients: Amount
    optimizer: Amount
    activations: Amount


class FiguresPart(FilePart):
    """One of the best strategies."""

    core = StrategyFigures

    strategy: StrategyPart
    breakdown: StepBreakdownPart
    memory: TrainingMemoryPart


class SettingPart(FilePart):
    """What of the instance makes sense of the figures."""

    core = TrainingSetting

    time_model: Literal["roofline"] = Field(
        default="roofline", exclude=True, description="of files that name the one there is; not written"
    )

    model: Text
    layers: Annotated[int, Field(ge=1, le=MOST_LAYERS)]
    servers: Parts
    gpus_per_server: Parts
    device: Text
    sequences: Annotated[int, Field(ge=1, le=1 << 30)]
    length: Annotated[int, Field(ge=1, le=1 << 30)]
    usable_bytes: Count | None


PassRow = Annotated[
    TimedPass, RowOf(TimedPass, tuple[Node, Annotated[int, Field(ge=0, le=4)], Count, Node, Amount])
]  # rank, kind, micro-batch, stage, end


class StagesPart(FilePart):
    """Seconds of a micro-batch in every stage, and of all of them in the order of the schedule."""

    core = StageSeconds

    forward_s: Seconds
    inputs_s: Seconds = Field(description="gradients of the inputs, with what is computed again")
    weights_s: Seconds = Field(description="gradients of the weights")
    hop_s: Amount
    blocking: bool
    makespan_s: Amount
    passes: Annotated[Listed[PassRow], Field(max_length=20_000)] = Field(
        default=(), exclude_if=is_empty, description="for the picture: rank, kind, micro-batch, stage, end in seconds"
    )
    drawn_batches: Count


class RingsPart(FilePart):
    """Rings of the groups of a family."""

    core = DimensionRings

    dimension: Family
    orders: Annotated[Listed[Group], Field(max_length=MOST_GPUS)]


class SchedulesPart(FilePart):
    """Schedules of a family that reduces on them, one for each of its groups of servers."""

    core = DimensionSchedules

    dimension: Family
    schedules: Annotated[Listed[GroupSchedulePart], Field(min_length=1, max_length=10_000)]


class RoutePart(FilePart):
    """A way between servers that have no link, or not only one."""

    core = ServerRoute

    path: Annotated[Listed[Node], Field(min_length=2, max_length=1 << 12)]
    share: Annotated[float, Field(ge=0, le=1)]


class LoadPart(FilePart):
    """What a family of traffic asks of the network, and gets."""

    core = DimensionLoad

    dimension: Family
    bytes_sent: Amount
    seconds: Amount
    exposed_s: Amount
    gbytes_per_s: Amount
    shared_gbytes_per_s: Amount
    hops: Node
    method: Text = Field(default="", exclude_if=is_empty, description="what it reduces on, where rounds are counted")
    rounds: Node = Field(default=0, exclude_if=is_empty, description="of one AllReduce then")


class TrainingNetworkPart(FilePart):
    """The network of a plan."""

    core = TrainingNetwork

    fabric: Text
    links: Annotated[Listed[LinkRow], Field(max_length=MOST_LINKS)] = Field(default=(), exclude_if=is_empty)
    places: Annotated[Listed[Node], Field(max_length=MOST_GPUS)] = Field(default=(), exclude_if=is_empty)
    degree_split: Annotated[Listed[SplitRow], Field(max_length=10)] = Field(default=(), exclude_if=is_empty)
    rings: Annotated[Listed[RingsPart], Field(max_length=10)] = Field(default=(), exclude_if=is_empty)
    loads: Annotated[Listed[LoadPart], Field(max_length=10)] = Field(default=(), exclude_if=is_empty)
    link_gbps: Amount
    routes: Annotated[Listed[RoutePart], Field(max_length=MOST_LINKS)] = Field(default=(), exclude_if=is_empty)
    schedules: Annotated[Listed[SchedulesPart], Field(max_length=10)] = Field(default=(), exclude_if=is_empty)
    token_routes: Annotated[Listed[RoutePart], Field(max_length=MOST_LINKS)] = Field(default=(), exclude_if=is_empty)


class TrainingPlanPart(FilePart):
    """A strategy with its network."""

    core = TrainingPlan

    strategy: StrategyPart
    network: TrainingNetworkPart


class OutcomePart(FilePart):
    """A line of the certificate."""

    core = ShapeOutcome

    shape: Annotated[StrategyShape, RowOf(StrategyShape, tuple[Parts, Parts, Parts, Parts, Parts, Parts])] = Field(
        description="tensor, context, pipeline, data, expert, expert_tensor"
    )
    verdict: Annotated[ShapeVerdict, NameOf(ShapeVerdict)]
    bound_s: Amount
    records: Count = Field(description="strategies that were gone through")
    fitting: Count = Field(description="of them that fit in memory")
    least_bytes: Amount | None = Field(default=None, exclude_if=is_none, description="memory of the smallest strategy")


class FabricOutcomePart(FilePart):
    """The instance on one of its fabrics."""

    core = FabricOutcome

    plan: TrainingPlanPart
    breakdown: StepBreakdownPart
    memory: TrainingMemoryPart
    note: Text
    tried: Count = Field(description="strategies that got a network")
    next: Annotated[Listed[FiguresPart], Field(max_length=1000)] = Field(
        default=(), exclude_if=is_empty, description="the fastest others on this fabric"
    )
    rails: RailPlanPart | None = Field(default=None, exclude_if=is_none)
    pods: PodPlanPart | None = Field(default=None, exclude_if=is_none)


class LlmTrainingSolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `llm-training`."""

    core = LlmTrainingSolution

    kind: Literal["llm-training-solution"]
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    setting: SettingPart
    model_flops: Amount
    peak_flops: Amount
    sent_bytes: Annotated[tuple[tuple[str, float], ...], PairsOf(Amount, most=100)]
    stages: StagesPart
    ranked: Annotated[Listed[FiguresPart], Field(min_length=1, max_length=1001)] = Field(
        description="the fastest strategies on an ideal switch, the best first"
    )
    shapes: Annotated[Listed[OutcomePart], Field(max_length=MOST_SHAPES)] = Field(
        description="for every way to divide the GPUs why none of its strategies is faster"
    )
    fabrics: Annotated[Listed[FabricOutcomePart], Field(min_length=1, max_length=100)] = Field(
        description="the first one is planned for"
    )
    other_bounds_s: Annotated[Listed[Amount], Field(max_length=100)] = Field(
        default=(),
        exclude_if=is_empty,
        description="of each fabric after the first: no strategy is faster on any network of it",
    )

    def arguments(self) -> dict[str, Any]:
        """Parts are made again."""
        return {key: built(value) for key, value in super().arguments().items()}
