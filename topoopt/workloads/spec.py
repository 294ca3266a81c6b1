"""Operators before they have costs: what a model builder states, and what a cost model turns into candidate splits.

All counts are per sample of the global batch (a sequence counts as one sample), so one description serves every batch
size and server count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from topoopt.core.workload import OperatorInput, Split

ACTIVATION_BYTES = 4
"""Bytes of one activation or weight element (fp32, the precision of the measured profiles)."""

INDEX_BYTES = 8
"""Bytes of one table index (int64)."""


@dataclass(frozen=True)
class OperatorSpec:
    """One operator, free of costs.

    Attributes:
        name: unique in the model.
        kind: class of the operator, a key of `DeviceModel.rates` or of `device.CLASS_OF_KIND`.
        key: structural key of measured profiles (`Dense_2048_2048`, ...).
        inputs: producers, by index in the model.
        input_elements: activation elements read per sample, those that come from outside the graph included.
        output_elements: elements written per sample.
        weight_elements: elements of every weight tensor.
        forward_flops: floating-point operations of the forward pass per sample.
        indices: table indices read per sample (8 bytes each).
        gathered_elements: weight elements gathered per sample; a table streams these, not all its weights.
        scratch_elements: elements of intermediate results that pass through memory per sample (attention scores).
        kernels: kernels launched in one direction.
        mixes_channels: see `topoopt.core.workload`.
        sample_split: whether the batch may be split; False: one part only.
        channel_units: equal units the output channels may be cut into; 1: no channel split.
        reduce_units: equal units the input channels may be cut into; 1: no such split.
        one_gpu: the part runs on a single GPU of its server with the whole batch (an embedding table).
        source_element_bytes: element size of the first input when it comes from outside the graph, else None.
    """

    name: str
    kind: str
    key: str
    inputs: tuple[OperatorInput, ...]
    input_elements: int
    output_elements: int
    weight_elements: tuple[int, ...] = ()
    forward_flops: float = 0.0
    indices: int = 0
    gathered_elements: int | None = None
    scratch_elements: int = 0
    kernels: int = 1
    mixes_channels: bool = True
    sample_split: bool = True
    channel_units: int = 1
    reduce_units: int = 1
    one_gpu: bool = False
    source_element_bytes: int | None = None

    @property
    def weights(self) -> int:
        """Elements of all weight tensors."""
        return sum(self.weight_elements)


@dataclass(frozen=True)
class Job:
    """What a cost model must know besides the operator: global batch N, servers n, GPUs per server g."""

    samples: int
    servers: int
    gpus_per_server: int


class CostModel(Protocol):
    """Where operator times come from."""

    def splits(self, spec: OperatorSpec, job: Job) -> tuple[Split, ...]:
        """Candidate splits of one operator, most parts first, at least one.

        Raises:
            InputError: the operator has no legal candidate here (not measured, does not fit memory, ...).
        """
        ...


@dataclass(frozen=True, order=True)
class Ways:
    """How often each dimension is cut."""

    sample: int
    channel: int = 1
    reduce: int = 1

    @property
    def parts(self) -> int:
        """Servers used."""
        return self.sample * self.channel * self.reduce


def divisors(number: int) -> tuple[int, ...]:
    """Divisors of a positive integer, ascending."""
    small = [k for k in range(1, int(number**0.5) + 1) if number % k == 0]
    return tuple(sorted({*small, *(number // k for k in small)}))


def legal_ways(spec: OperatorSpec, job: Job) -> tuple[Ways, ...]:
    """All legal splits of an operator, most parts first, sample splits before tensor splits.

    The number of parts divides the servers and `sample` divides the batch; `channel` and `reduce` divide their units
    and every weight tensor. Column and row splits are not combined in one operator: Megatron-style blocks alternate
    them, and a two-dimensional cut only adds partial sums.
    """
    samples = [s for s in divisors(job.servers) if job.samples % s == 0] if spec.sample_split else [1]
    found = []
    for sample in samples:
        for ways in divisors(job.servers // sample):
            if any(weight % ways for weight in spec.weight_elements):
                continue
            if spec.channel_units % ways == 0 and spec.output_elements % ways == 0:
                found.append(Ways(sample, channel=ways))
            if ways > 1 and spec.reduce_units % ways == 0 and spec.input_elements % ways == 0:
                found.append(Ways(sample, reduce=ways))
    return tuple(sorted(found, key=lambda way: (-way.parts, -way.sample, -way.channel)))


def read_elements(spec: OperatorSpec, ways: Ways) -> float:
    """Activation elements one part reads per sample."""
    return spec.input_elements / (ways.reduce if spec.mixes_channels else ways.channel)


def part_memory_bytes(spec: OperatorSpec, job: Job, ways: Ways) -> int:
    """Memory of one part in its server: weights with their gradients on every GPU, inputs and outputs with theirs.

    The accounting of the measured profiles: every buffer twice, value and gradient. Activations of a part
    are spread over the GPUs of the server, weights are kept by each.
    """
    copies = 1 if spec.one_gpu else job.gpus_per_server
    weights = copies * -(-spec.weights // (ways.channel * ways.reduce)) * ACTIVATION_BYTES
    activations = (read_elements(spec, ways) + spec.output_elements / ways.channel) * ACTIVATION_BYTES
    samples = job.samples // ways.sample
    return 2 * weights + int(2 * samples * (activations + spec.indices * INDEX_BYTES))
