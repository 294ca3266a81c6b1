"""GPUs that language models are trained on: peaks of data sheets, without sparsity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class TrainingDevice:
    """A GPU.

    Attributes:
        matrix_tflops: peak of products of 16-bit matrices.
        fp8_tflops: of 8-bit matrices; None: it has none.
        memory_gbytes_per_s: rate of its memory.
    """

    name: str
    matrix_tflops: float
    fp8_tflops: float | None
    memory_gbytes_per_s: float


TRAINING_DEVICES: Mapping[str, TrainingDevice] = MappingProxyType(
    {
        "a100": TrainingDevice("a100", 312.0, None, 2039.0),
        "h100": TrainingDevice("h100", 989.4, 1978.9, 3352.0),
        "h800": TrainingDevice("h800", 989.4, 1978.9, 3352.0),
    }
)
"""Devices by name."""
