"""Shape of solution files of kind `robust-network`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from topoopt.files.fields import FileModel
from topoopt.files.solution_head import Amount, SolutionHeadFile, Text
from topoopt.files.topology_families import MAX_ARCS
from topoopt.kinds.network.several_demands.schema import MAX_STEPS
from topoopt.kinds.network.solution_schema import FlowRow, NetworkTopologyFile, RoutingBoundFile, Server

Thetas = Annotated[list[Amount], Field(min_length=1, max_length=MAX_STEPS)]
ArcValues = Annotated[list[Amount], Field(max_length=MAX_ARCS)]
PerMatrix = Annotated[list[ArcValues], Field(max_length=MAX_STEPS)]
Pair = Annotated[tuple[Server, Server], Strict(False)]


class CommonFile(FileModel):
    """One routing for all matrices."""

    pairs: list[Pair]
    split: list[FlowRow] = Field(description="of each pair: arcs, and the part of its traffic over each")
    prices: PerMatrix = Field(description="of each matrix: one for each arc; they prove the bound of this routing")


class AdaptedFile(FileModel):
    """A routing for each matrix."""

    flows: Annotated[list[list[FlowRow]], Field(max_length=MAX_STEPS)] = Field(
        description="of each matrix: a row for each source, arcs and the amount on each"
    )
    lengths: PerMatrix = Field(description="of each matrix: one for each arc; they prove the bound of its routing")


class SequencedFile(FileModel):
    """Total time of all steps at one reconfiguration delay, all in steps."""

    delay: Amount
    one_network: Amount
    one_rerouted: Amount
    every_step: Amount
    best: Amount
    changes: int = Field(ge=0, le=MAX_STEPS)


class StepsFile(FileModel):
    """Links set anew for every matrix, against one network for all."""

    theta: Thetas
    rerouted: Thetas
    break_even: Amount | None
    break_even_rerouted: Amount | None
    sequences: Annotated[list[SequencedFile], Field(max_length=1000)]


class RobustSolutionFile(SolutionHeadFile, RoutingBoundFile):
    """Result of `topoopt solve` or `topoopt robust` on a file of kind `robust-network`."""

    kind: Literal["robust-network-solution"]
    routing: Literal["common", "adapted"]
    theta: Thetas
    step_ms: Amount | None
    new_links_every_step: StepsFile | None
    instance_sha256: Text
    versions: dict[str, Text]
    notes: list[Text]
    topology: NetworkTopologyFile
    common: CommonFile | None
    adapted: AdaptedFile | None
