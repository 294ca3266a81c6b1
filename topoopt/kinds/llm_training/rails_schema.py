"""Part of a solution file: ports of the stages of a strategy whose circuits are set anew inside its steps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from topoopt.core.switched_step import Boundary, PortChange, RailPlan, SwitchMode
from topoopt.core.switching import PortSplit, StagePorts
from topoopt.files.file_part import FilePart, Listed, NameOf, RowOf
from topoopt.files.solution_head import Amount
from topoopt.kinds.llm_training.schema import MOST_GPUS

MOST_CHANGES = 1_000_000

Ports = Annotated[int, Field(ge=0, le=1 << 10)]
Split = Annotated[PortSplit, RowOf(PortSplit, tuple[Ports, Ports, Ports])]


class StagePortsPart(FilePart):
    """Ports of a GPU by what they serve: the pipeline, rings of replicas, rings of experts."""

    core = StagePorts

    pipeline: Split = Field(description="between passes")
    inside: Split = Field(description="while passes exchange something")
    data: Split = Field(description="while gradients are reduced")


class PortChangePart(FilePart):
    """Ports of a stage begin to be set anew."""

    core = PortChange

    rank: Annotated[int, Field(ge=0, le=MOST_GPUS)]
    begin_s: Annotated[float, Field(ge=-1e12, le=1e12)] = Field(description="from the begin of the step")
    boundary: Annotated[Boundary, NameOf(Boundary)]
    after: Split = Field(description="what they serve then")


class RailPlanPart(FilePart):
    """A strategy on rails whose circuits are set anew inside its steps."""

    core = RailPlan

    mode: Annotated[SwitchMode, NameOf(SwitchMode)]
    delay_s: Amount
    stages: Annotated[Listed[StagePortsPart], Field(min_length=1, max_length=MOST_GPUS)]
    step_s: Amount
    one_shot_s: Amount | None = Field(description="on the best topology that is never switched; null: there is none")
    stall_s: Amount = Field(description="what the step would gain if switching took no time")
    bounds_s: Annotated[Listed[Amount], Field(min_length=1, max_length=1000)] = Field(
        description="of the fastest strategies on an ideal switch: no plan of ports is faster"
    )
    changes: Annotated[Listed[PortChangePart], Field(max_length=MOST_CHANGES)] = Field(
        description="when ports are set anew in a step, by rank and time"
    )
