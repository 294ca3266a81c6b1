"""Shape of solution files of the kind `hierarchical-bandwidth`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.files.fields import FileModel
from topoopt.files.solution_head import Amount, Number, SolutionHeadFile, Text
from topoopt.kinds.hierarchy.schema import MAX_DIMENSIONS, MAX_TASKS

Position = Annotated[int, Field(ge=0, lt=MAX_TASKS)]
Amounts = Annotated[list[Amount], Field(max_length=MAX_DIMENSIONS)]
Texts = Annotated[list[Text], Field(max_length=MAX_DIMENSIONS)]
CollectiveName = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "point-to-point"]


class PathFile(FileModel):
    """A path through an iteration with its weight in a proof."""

    job: Position
    weight: Amount
    steps: list[Position]


class ShareFile(FileModel):
    """Weighted bytes of a group of collectives, split over the dimensions."""

    job: Position
    communicator: Position
    collective: CollectiveName
    bytes_by_dimension: Amounts


class CertificateFile(FileModel):
    """Proof of a lower bound by weak duality."""

    paths: list[PathFile]
    shares: list[ShareFile]
    prices: dict[str, Number]


class ProofFile(FileModel):
    """A certificate of one design."""

    design: Position
    too_slow: bool
    certificate: CertificateFile


class JobFile(FileModel):
    """Times of one job."""

    name: Text
    time_ns: Amount
    compute_ns: Amount
    equal_split_ns: Number


class CollectiveFile(FileModel):
    """Times of one group of collectives."""

    job: Text
    communicator: Text
    collective: CollectiveName
    size_bytes: Amount
    time_ns: Amount
    times_ns: Amounts
    bound_by: Texts


class ParetoFile(FileModel):
    """The cheapest network that keeps a time limit."""

    limit_ns: Amount
    time_ns: Amount
    cost_usd: Amount
    bandwidth_gbytes_per_s: Amounts
    cost_bound_usd: Number
    certificate: CertificateFile | None


class HierarchicalSolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `hierarchical-bandwidth`."""

    kind: Literal["hierarchical-bandwidth-solution"]
    design: Position
    design_name: Text
    designs: Annotated[int, Field(ge=1, le=MAX_TASKS)]
    dimensions: Texts
    blocks: Texts
    sizes: Annotated[list[Annotated[int, Field(ge=1, le=2**62)]], Field(max_length=MAX_DIMENSIONS)]
    bandwidth_gbytes_per_s: Amounts
    time_ns: Annotated[float, Field(gt=0, le=1e30)]
    cost_usd: Amount | None
    equal_time_ns: Amount
    equal_cost_usd: Amount | None
    speedup_over_equal: Number
    perf_per_cost_gain: Number | None
    jobs: list[JobFile]
    collectives: list[CollectiveFile]
    gain_ns: Amounts
    marginal_ns: Amounts | None
    pareto: list[ParetoFile]
    proofs: list[ProofFile]
    instance_sha256: Text
    versions: dict[str, Text]
    notes: list[Text]
