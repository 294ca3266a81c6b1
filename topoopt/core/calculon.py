"""A machine and the choices of an execution as the Calculon model states them (Isaev et al., SC'23).

Rates are 10^12 operations, 10^9 bytes a second, as in its files; efficiencies are steps: of the rows (from, part of the
peak), largest first, the first one whose `from` an operator reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Steps = tuple[tuple[float, float], ...]


class TensorTransfers(StrEnum):
    """How GPUs that share matrices exchange activations.

    `ar`: AllReduce. `p2p_rs_ag`: the same inside a stage, ReduceScatter and AllGather around transfers between stages.
    `rs_ag`: ReduceScatter and AllGather everywhere (sequence parallelism).
    """

    ALL_REDUCE = "ar"
    BETWEEN_STAGES = "p2p_rs_ag"
    SEQUENCE = "rs_ag"


@dataclass(frozen=True)
class StepProcessor:
    """A unit of a GPU: peak, and efficiency by 10^9 operations of an operator."""

    tflops: float
    gflops_efficiency: Steps


@dataclass(frozen=True)
class StepMemory:
    """Memory of a GPU: its size, rate, and efficiency by 10^6 bytes that an operator moves."""

    gib: float
    gbytes_per_s: float
    mb_efficiency: Steps


@dataclass(frozen=True)
class TransferCost:
    """Bytes sent of one byte: scalar * (1 + offset / ranks)."""

    scalar: float
    offset: float


@dataclass(frozen=True)
class StepNetwork:
    """One network of the machine.

    Attributes:
        gbytes_per_s: of a GPU.
        efficiency: part of it that is reached.
        size: GPUs it joins.
        latency_s: of an operation.
        point_to_point, reduce_scatter, all_gather, all_reduce: what operations send.
        must_be_filled: groups divide `size`.
        processor_usage: part of the GPU that transfers take.
    """

    gbytes_per_s: float
    efficiency: float
    size: int
    latency_s: float
    point_to_point: TransferCost
    reduce_scatter: TransferCost
    all_gather: TransferCost
    all_reduce: TransferCost
    must_be_filled: bool
    processor_usage: float


@dataclass(frozen=True)
class CalculonMachine:
    """A GPU and the networks it stands in.

    Attributes:
        matrix, vector: units, for numbers of `element_bytes`.
        element_bytes: of weights, activations and their gradients.
        roofline: time is the larger of computing and moving, not their sum.
    """

    matrix: StepProcessor
    vector: StepProcessor
    memory: StepMemory
    element_bytes: int
    networks: tuple[StepNetwork, ...]
    roofline: bool = False


@dataclass(frozen=True)
class ExecutionChoices:
    """What the Calculon model tells apart beside the parts of a strategy.

    Attributes:
        transfers: of tensor parallelism.
        redo: activations are kept split and gathered again for the backward pass.
        data_overlap: gradients are reduced during the backward pass.
    """

    transfers: TensorTransfers
    redo: bool
    data_overlap: bool


@dataclass(frozen=True)
class CalculonSettings:
    """What the Calculon model knows of an execution beside a strategy.

    Attributes:
        transfers: of tensor parallelism.
        redo: activations are kept split and gathered again for the backward pass.
        fused: the activation function keeps nothing of its own.
        tensor_network, pipeline_network, data_network: place in the networks of the machine.
    """

    machine: CalculonMachine
    transfers: TensorTransfers
    redo: bool
    fused: bool
    tensor_network: int
    pipeline_network: int
    data_network: int
