"""The section `calculon`: a machine and choices of an execution, in the words of Calculon's files."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.core.calculon import (
    CalculonMachine,
    CalculonSettings,
    StepMemory,
    StepNetwork,
    StepProcessor,
    Steps,
    TensorTransfers,
    TransferCost,
)
from topoopt.files.fields import FileModel

Positive = Annotated[float, Field(gt=0, le=1e12)]
Part = Annotated[float, Field(gt=0, le=1)]
StepRow = Annotated[list[Annotated[float, Field(ge=0, le=1e15)]], Field(min_length=2, max_length=2)]
StepRows = Annotated[list[StepRow], Field(min_length=1, max_length=64)]
Scaled = Annotated[list[Annotated[float, Field(ge=-1e6, le=1e6)] | None], Field(min_length=2, max_length=2)]


class ProcessorPart(FileModel):
    """A unit of a GPU."""

    tflops: Positive
    gflops_efficiency: StepRows = Field(description="rows (from 10^9 operations, part of the peak), largest first")

    def build(self) -> StepProcessor:
        """As in core."""
        return StepProcessor(self.tflops, _steps(self.gflops_efficiency))


class MemoryPart(FileModel):
    """Memory of a GPU."""

    gib: Positive
    gbytes_per_s: Positive
    mb_efficiency: StepRows = Field(description="rows (from 10^6 bytes, part of the rate), largest first")

    def build(self) -> StepMemory:
        """As in core."""
        return StepMemory(self.gib, self.gbytes_per_s, _steps(self.mb_efficiency))


class OperationCosts(FileModel):
    """For each operation [scalar, offset]: bytes sent of one byte are scalar * (1 + offset / ranks)."""

    p2p: Scaled
    reduce_scatter: Scaled
    all_gather: Scaled
    all_reduce: Scaled


class StepNetworkPart(FileModel):
    """One network of the machine."""

    gbytes_per_s: Positive = Field(description="of a GPU")
    efficiency: Part
    size: int = Field(ge=1, le=2**40, description="GPUs it joins")
    latency_s: float = Field(ge=0, le=1)
    ops: OperationCosts
    must_be_filled: bool = Field(description="groups divide the size")
    processor_usage: float = Field(ge=0, lt=1, description="part of the GPU that transfers take")

    def build(self) -> StepNetwork:
        """As in core."""
        costs = (self.ops.p2p, self.ops.reduce_scatter, self.ops.all_gather, self.ops.all_reduce)
        p2p, scatter, gather, reduce = (TransferCost(float(one[0] or 0.0), float(one[1] or 0.0)) for one in costs)
        return StepNetwork(
            self.gbytes_per_s,
            self.efficiency,
            self.size,
            self.latency_s,
            p2p,
            scatter,
            gather,
            reduce,
            self.must_be_filled,
            self.processor_usage,
        )


class CalculonSection(FileModel):
    """Machine and choices beside the strategy."""

    matrix: ProcessorPart
    vector: ProcessorPart
    memory: MemoryPart
    element_bytes: Literal[1, 2, 4] = Field(default=2, description="of weights and activations")
    processing: Literal["no_overlap", "roofline"] = Field(
        default="no_overlap", description="computing and moving one after the other, or at once"
    )
    networks: list[StepNetworkPart] = Field(min_length=1, max_length=16)
    tensor_network: int = Field(default=0, ge=0, description="place in networks")
    pipeline_network: int = Field(default=0, ge=0)
    data_network: int = Field(default=0, ge=0)
    transfers: Literal["ar", "p2p_rs_ag", "rs_ag"] = Field(description="of tensor parallelism")
    redo: bool = Field(default=False, description="activations stay split and are gathered again")
    fused: bool = Field(default=False, description="the activation function keeps nothing")

    def build(self) -> CalculonSettings:
        """As in core."""
        machine = CalculonMachine(
            self.matrix.build(),
            self.vector.build(),
            self.memory.build(),
            self.element_bytes,
            tuple(network.build() for network in self.networks),
            self.processing == "roofline",
        )
        return CalculonSettings(
            machine,
            TensorTransfers(self.transfers),
            self.redo,
            self.fused,
            self.tensor_network,
            self.pipeline_network,
            self.data_network,
        )


def _steps(rows: list[list[float]]) -> Steps:
    return tuple((start, part) for start, part in rows)
