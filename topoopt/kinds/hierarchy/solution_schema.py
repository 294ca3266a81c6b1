"""Shape of solution files of the kind `hierarchical-bandwidth`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.core.hierarchy import Block, Fleet
from topoopt.core.hierarchy_solution import (
    BandwidthCertificate,
    CollectiveTime,
    DesignProof,
    GroupShare,
    HierarchicalSolution,
    JobTime,
    ParetoPoint,
    PathWeight,
)
from topoopt.core.hierarchy_workload import Collective
from topoopt.files.file_part import FilePart, Listed, NameOf, PairsOf, is_none
from topoopt.files.solution_head import Amount, BoundFile, Notes, Number, Sha256, SolutionHeadFile, Text, Versions
from topoopt.kinds.hierarchy.schema import MAX_DIMENSIONS, MAX_TASKS

Position = Annotated[int, Field(ge=0, lt=MAX_TASKS)]
Amounts = Annotated[Listed[Amount], Field(max_length=MAX_DIMENSIONS)]
Texts = Annotated[Listed[Text], Field(max_length=MAX_DIMENSIONS)]
CollectiveName = Annotated[Collective, NameOf(Collective)]


class PathWeightPart(FilePart):
    """A path through an iteration with its weight in a proof."""

    core = PathWeight

    job: Position
    weight: Amount
    steps: Listed[Position]


class GroupSharePart(FilePart):
    """Weighted bytes of a group of collectives, split over the dimensions."""

    core = GroupShare

    job: Position
    communicator: Position
    collective: CollectiveName
    bytes_by_dimension: Amounts


class BandwidthCertificatePart(FilePart):
    """Proof of a lower bound by weak duality."""

    core = BandwidthCertificate

    paths: Listed[PathWeightPart]
    shares: Listed[GroupSharePart]
    prices: Annotated[tuple[tuple[str, float], ...], PairsOf(Number)]


class DesignProofPart(FilePart):
    """A certificate of one design."""

    core = DesignProof

    design: Position
    certificate: BandwidthCertificatePart
    too_slow: bool


class JobTimePart(FilePart):
    """Times of one job."""

    core = JobTime

    name: Text
    weight: Annotated[float, Field(gt=0, le=1e12)]
    time_ns: Amount
    compute_ns: Amount
    equal_split_ns: Amount


class CollectiveTimePart(FilePart):
    """Times of one group of collectives."""

    core = CollectiveTime

    job: Text
    communicator: Text
    collective: CollectiveName
    size_bytes: Amount
    times_ns: Annotated[Amounts, Field(min_length=1)]


class ParetoPointPart(FilePart):
    """The cheapest network that keeps a time limit."""

    core = ParetoPoint

    limit_ns: Amount
    time_ns: Amount
    cost_usd: Amount
    bandwidth_gbytes_per_s: Amounts
    cost_bound: BoundFile
    certificate: BandwidthCertificatePart | None
    claimed_bound: BoundFile | None = Field(default=None, exclude_if=is_none)


class HierarchicalSolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `hierarchical-bandwidth`."""

    core = HierarchicalSolution

    kind: Literal["hierarchical-bandwidth-solution"]
    design: Position
    design_name: Text
    designs: Annotated[int, Field(ge=1, le=MAX_TASKS)]
    dimensions: Texts
    blocks: Annotated[Listed[Annotated[Block, NameOf(Block)]], Field(max_length=MAX_DIMENSIONS)]
    sizes: Annotated[Listed[Annotated[int, Field(ge=1, le=2**62)]], Field(max_length=MAX_DIMENSIONS)]
    bandwidth_gbytes_per_s: Amounts
    cost_usd: Amount | None
    equal_cost_usd: Amount | None
    gain_ns: Amounts
    marginal_ns: Amounts | None
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    fleet: Annotated[Fleet, NameOf(Fleet)]
    jobs: Annotated[Listed[JobTimePart], Field(min_length=1)]
    collectives: Listed[CollectiveTimePart]
    pareto: Listed[ParetoPointPart]
    proofs: Listed[DesignProofPart]
