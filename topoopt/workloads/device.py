"""Analytic device model: operator times by a roofline with an efficiency for each operator class.

Time of one direction = max(flops / (peak * compute), bytes / (memory rate * bandwidth)) + launch * kernels. The
backward pass counts twice the flops and bytes of the forward pass (gradients of inputs and of weights).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import Split
from topoopt.workloads.spec import (
    ACTIVATION_BYTES,
    INDEX_BYTES,
    Job,
    OperatorSpec,
    Ways,
    legal_ways,
    part_memory_bytes,
    read_elements,
)

BACKWARD_WORK = 2.0
"""Flops and bytes of the backward pass over those of the forward pass."""

CLASS_OF_KIND: Mapping[str, str] = MappingProxyType(
    {
        "dense": "dense",
        "router": "dense",
        "expert": "dense",
        "conv": "conv",
        "attention": "attention",
        "embedding": "embedding",
        "pool": "pool",
        "concat": "concat",
        "add": "binary",
        "multiply": "binary",
        "combine": "binary",
        "relu": "unary",
        "flat": "unary",
        "norm": "unary",
        "softmax": "softmax",
    }
)
"""Operator kinds that share efficiencies."""


@dataclass(frozen=True)
class Efficiency:
    """One operator class in one direction.

    Attributes:
        compute: fraction of the peak of its unit.
        bandwidth: fraction of the memory rate; above 1 where the data stays in the cache.
        launch_us: fixed cost of a kernel, microseconds.
    """

    compute: float
    bandwidth: float
    launch_us: float


@dataclass(frozen=True)
class ClassRates:
    """One operator class: both directions, and whether it runs on the tensor cores."""

    forward: Efficiency
    backward: Efficiency
    tensor_cores: bool = False


@dataclass(frozen=True)
class DeviceModel:
    """A GPU.

    Attributes:
        name: key in `DEVICES`.
        peak_tflops: fp32 rate outside the tensor cores.
        tensor_tflops: rate of the tensor cores for fp32 data.
        memory_gb_per_s: memory rate, 10^9 bytes per second.
        memory_gib: memory.
        rates: efficiencies per operator class.
    """

    name: str
    peak_tflops: float
    tensor_tflops: float
    memory_gb_per_s: float
    memory_gib: int
    rates: Mapping[str, ClassRates]

    def _milliseconds(
        self, flops: float, moved_bytes: float, kernels: int, rates: ClassRates, efficiency: Efficiency
    ) -> float:
        peak = self.tensor_tflops if rates.tensor_cores else self.peak_tflops
        compute_ms = flops / (peak * 1e9 * efficiency.compute)
        memory_ms = moved_bytes / (self.memory_gb_per_s * 1e6 * efficiency.bandwidth)
        return max(compute_ms, memory_ms) + kernels * efficiency.launch_us / 1000.0

    def times_ms(self, spec: OperatorSpec, samples: int, ways: Ways) -> tuple[float, float]:
        """Forward and backward time of one part on one GPU that takes `samples` samples, ms."""
        rates = self.rates[CLASS_OF_KIND[spec.kind]]
        shares = ways.channel * ways.reduce
        weights = 0.0 if spec.gathered_elements is not None else spec.weights / shares
        elements = read_elements(spec, ways) + (spec.output_elements + spec.scratch_elements) / ways.channel
        per_sample = (elements + (spec.gathered_elements or 0)) * ACTIVATION_BYTES + spec.indices * INDEX_BYTES
        moved = samples * per_sample + weights * ACTIVATION_BYTES
        flops = samples * spec.forward_flops / shares
        forward = self._milliseconds(flops, moved, spec.kernels, rates, rates.forward)
        backward = self._milliseconds(BACKWARD_WORK * flops, BACKWARD_WORK * moved, spec.kernels, rates, rates.backward)
        return forward, backward

    def splits(self, spec: OperatorSpec, job: Job) -> tuple[Split, ...]:
        """All legal splits that fit the memory of the GPUs, most parts first.

        The samples of a part are divided over the GPUs of its server; a table runs on one GPU with the whole batch.

        Raises:
            InputError: not one split fits.
        """
        gpus = 1 if spec.one_gpu else job.gpus_per_server
        found = []
        least: int | None = None
        for ways in legal_ways(spec, job):
            memory = part_memory_bytes(spec, job, ways)
            least = memory if least is None else min(least, memory)
            if memory > gpus * self.memory_gib * GIB:
                continue
            forward, backward = self.times_ms(spec, -(-job.samples // (ways.sample * gpus)), ways)
            found.append(Split(ways.sample, forward, backward, memory, ways.channel, ways.reduce))
        if not found:
            raise InputError(
                [
                    Problem(
                        f"operator {spec.name} ({spec.key}) fits the memory of device {self.name} in no split",
                        value=f"at least {least} bytes",
                        allowed=f"at most {gpus * self.memory_gib * GIB} bytes on {gpus} GPU(s)",
                    )
                ]
            )
        return tuple(found)
