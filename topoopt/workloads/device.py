"""Operator times come from a device's roofline with an efficiency for each class, or from a measured profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import Split
from topoopt.workloads.operators import (
    ACTIVATION_BYTES,
    INDEX_BYTES,
    Job,
    OperatorSpec,
    SplitDegrees,
    legal_splits,
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

    def times_ms(self, spec: OperatorSpec, samples: int, split: SplitDegrees) -> tuple[float, float]:
        """Forward and backward time of one part on one GPU that takes `samples` samples, ms."""
        rates = self.rates[CLASS_OF_KIND[spec.kind]]
        shares = split.channel * split.reduce
        weights = 0.0 if spec.gathered_elements is not None else spec.weights / shares
        elements = read_elements(spec, split) + (spec.output_elements + spec.scratch_elements) / split.channel
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
        splits = []
        least: int | None = None
        for split in legal_splits(spec, job):
            memory = part_memory_bytes(spec, job, split)
            least = memory if least is None else min(least, memory)
            if memory > gpus * self.memory_gib * GIB:
                continue
            forward, backward = self.times_ms(spec, -(-job.samples // (split.sample * gpus)), split)
            splits.append(Split(split.sample, forward, backward, memory, split.channel, split.reduce))
        if not splits:
            raise InputError(
                [
                    Problem(
                        f"operator {spec.name} ({spec.key}) fits the memory of device {self.name} in no split",
                        value=f"at least {least} bytes",
                        allowed=f"at most {gpus * self.memory_gib * GIB} bytes on {gpus} GPU(s)",
                    )
                ]
            )
        return tuple(splits)


A100 = DeviceModel(
    name="a100",
    peak_tflops=19.5,
    tensor_tflops=156.0,
    memory_gb_per_s=2039.0,
    memory_gib=80,
    rates=MappingProxyType(
        {
            "dense": ClassRates(Efficiency(0.908, 0.674, 10.9), Efficiency(0.935, 0.426, 24.2)),
            "conv": ClassRates(Efficiency(0.794, 0.219, 60.0), Efficiency(0.574, 0.147, 60.0), tensor_cores=True),
            "attention": ClassRates(Efficiency(0.667, 0.35, 28.6), Efficiency(0.667, 0.35, 57.3), tensor_cores=True),
            "embedding": ClassRates(Efficiency(0.9, 0.392, 2.4), Efficiency(0.9, 0.392, 5.2)),
            "pool": ClassRates(Efficiency(0.9, 0.408, 32.7), Efficiency(0.9, 0.356, 60.0)),
            "concat": ClassRates(Efficiency(0.9, 0.573, 3.2), Efficiency(0.9, 0.83, 3.2)),
            "binary": ClassRates(Efficiency(0.9, 0.656, 2.9), Efficiency(0.9, 0.657, 5.3)),
            "unary": ClassRates(Efficiency(0.9, 0.641, 0.5), Efficiency(0.9, 0.885, 0.5)),
            "softmax": ClassRates(Efficiency(0.9, 0.622, 6.2), Efficiency(0.9, 3.0, 3.7)),
        }
    ),
)

DEVICES: Mapping[str, DeviceModel] = MappingProxyType({"a100": A100})


@dataclass(frozen=True)
class Measurement:
    """One operator in P parts: times of one part on one server, ms, and memory on one of its GPUs, bytes."""

    forward_ms: float
    backward_ms: float
    gpu_memory_bytes: int


@dataclass(frozen=True)
class Profile:
    """A measured profile.

    Attributes:
        servers: n it was measured for.
        samples: global batch.
        operators: per structural key (`Dense_2048_2048`, ...) the measurements by number of parts P.
        source: file it came from.
    """

    servers: int
    samples: int
    operators: Mapping[str, Mapping[int, Measurement]]
    source: str = ""


@dataclass(frozen=True)
class ProfileCosts:
    """Cost model whose candidates are exactly the splits that were measured.

    Operators with the same key share one measurement, as in the reference.
    """

    profile: Profile

    def splits(self, spec: OperatorSpec, job: Job) -> tuple[Split, ...]:
        """Measured splits of the operator, most parts first.

        Raises:
            InputError: the profile is for another batch or server count, or lacks the operator.
        """
        profile = self.profile
        problems = []
        for what, measured, wanted in (
            ("batch_size", profile.samples, job.samples),
            ("ngpus (servers)", profile.servers, job.servers),
        ):
            if measured != wanted:
                problems.append(
                    Problem(
                        f"the profile was measured for another {what}",
                        file=profile.source or None,
                        value=str(measured),
                        allowed=str(wanted),
                    )
                )
        table = profile.operators.get(spec.key, {})
        # A table is one part on one GPU; other operators only where the batch can be cut that way.
        legal = {
            parts: measured
            for parts, measured in table.items()
            if job.servers % parts == 0 and job.samples % parts == 0 and (parts == 1 or spec.sample_split)
        }
        if not legal:
            problems.append(
                Problem(
                    f"the profile has no usable measurement of operator {spec.name}",
                    file=profile.source or None,
                    path="measurements",
                    value=spec.key,
                    allowed=", ".join(sorted(profile.operators)),
                )
            )
        if problems:
            raise InputError(problems)
        gpus = 1 if spec.one_gpu else job.gpus_per_server
        return tuple(
            Split(
                sample_ways=parts,
                forward_ms=measured.forward_ms,
                backward_ms=measured.backward_ms,
                server_memory_bytes=measured.gpu_memory_bytes * gpus,
            )
            for parts, measured in sorted(legal.items(), reverse=True)
        )
