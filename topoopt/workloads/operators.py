"""A model is built of operators without costs: their specification, layers that add them, and sizes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError, Problem, raise_any
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
class SplitDegrees:
    """How often each dimension is cut."""

    sample: int
    channel: int = 1
    reduce: int = 1

    @property
    def parts(self) -> int:
        return self.sample * self.channel * self.reduce


def divisors(number: int) -> tuple[int, ...]:
    small = [k for k in range(1, int(number**0.5) + 1) if number % k == 0]
    return tuple(sorted({*small, *(number // k for k in small)}))


def legal_splits(spec: OperatorSpec, job: Job) -> tuple[SplitDegrees, ...]:
    """All legal splits of an operator, most parts first, sample splits before tensor splits.

    The number of parts divides the servers and `sample` divides the batch; `channel` and `reduce` divide their units
    and every weight tensor. Column and row splits are not combined in one operator: Megatron-style blocks alternate
    them, and a two-dimensional cut only adds partial sums.
    """
    samples = [s for s in divisors(job.servers) if job.samples % s == 0] if spec.sample_split else [1]
    splits = []
    for sample in samples:
        for pieces in divisors(job.servers // sample):
            if any(weight % pieces for weight in spec.weight_elements):
                continue
            if spec.channel_units % pieces == 0 and spec.output_elements % pieces == 0:
                splits.append(SplitDegrees(sample, channel=pieces))
            if pieces > 1 and spec.reduce_units % pieces == 0 and spec.input_elements % pieces == 0:
                splits.append(SplitDegrees(sample, reduce=pieces))
    return tuple(sorted(splits, key=lambda split: (-split.parts, -split.sample, -split.channel)))


def read_elements(spec: OperatorSpec, split: SplitDegrees) -> float:
    """Activation elements one part reads per sample."""
    return spec.input_elements / (split.reduce if spec.mixes_channels else split.channel)


def part_memory_bytes(spec: OperatorSpec, job: Job, split: SplitDegrees) -> int:
    """Memory of one part in its server: weights with their gradients on every GPU, inputs and outputs with theirs.

    The accounting of the measured profiles: every buffer twice, value and gradient. Activations of a part
    are spread over the GPUs of the server, weights are kept by each.
    """
    copies = 1 if spec.one_gpu else job.gpus_per_server
    weights = copies * -(-spec.weights // (split.channel * split.reduce)) * ACTIVATION_BYTES
    activations = (read_elements(spec, split) + spec.output_elements / split.channel) * ACTIVATION_BYTES
    samples = job.samples // split.sample
    return 2 * weights + int(2 * samples * (activations + spec.indices * INDEX_BYTES))


@dataclass(frozen=True)
class Parameter:
    """One size of a model; `doc` is shown to users."""

    name: str
    default: int
    minimum: int
    maximum: int
    doc: str


@dataclass(frozen=True)
class ModelSpec:
    """A model family.

    Attributes:
        name: key in `MODELS`.
        summary: one line for users.
        parameters: its sizes.
        build: sizes (complete, in range) to operators in topological order; may raise InputError when sizes clash.
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    build: Callable[[Mapping[str, int]], tuple[OperatorSpec, ...]]


def samples_per_gpu(default: int) -> Parameter:
    """Samples each GPU takes, the usual way to state the batch."""
    return Parameter("samples_per_gpu", default, 1, 1 << 20, "samples per GPU; global batch = servers * GPUs * this")


GLOBAL_BATCH = Parameter("global_batch", 0, 0, 1 << 40, "samples per iteration; 0 derives it from samples_per_gpu")


def all_parameters(model: ModelSpec) -> tuple[Parameter, ...]:
    """Sizes of a model with the common one."""
    return (*model.parameters, GLOBAL_BATCH)


def nearest(word: str, words: list[str]) -> str:
    """The valid words, led by those that look like `word`."""
    close = difflib.get_close_matches(word, words, n=2)
    listing = ", ".join(words)
    return f"did you mean {' or '.join(close)}? one of {listing}" if close else f"one of {listing}"


def complete_sizes(model: ModelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """The given sizes with the defaults filled in.

    Raises:
        InputError: every unknown name, wrong type and value out of range.
    """
    table = {parameter.name: parameter for parameter in all_parameters(model)}
    problems = []
    for name, value in sizes.items():
        where = f"workload.sizes.{name}"
        if name not in table:
            problems.append(
                Problem(f"model {model.name} has no such size", path=where, allowed=nearest(str(name), list(table)))
            )
            continue
        low, high = table[name].minimum, table[name].maximum
        allowed = f"integer from {low} to {high}"
        if isinstance(value, bool) or not isinstance(value, int):
            problems.append(Problem("not an integer", path=where, value=repr(value), allowed=allowed))
        elif not low <= value <= high:
            problems.append(Problem("out of range", path=where, value=str(value), allowed=allowed))
    raise_any(problems)
    return {name: sizes.get(name, parameter.default) for name, parameter in table.items()}


def require(holds: bool, name: str, sizes: Mapping[str, int], allowed: str, path: str = "workload.sizes") -> None:
    """Refuse a size that clashes with another one.

    Raises:
        InputError: `holds` is False.
    """
    if not holds:
        raise InputError(
            [Problem("does not fit the other sizes", path=f"{path}.{name}", value=str(sizes[name]), allowed=allowed)]
        )


SCORE_PASSES = 4
"""Times the attention scores pass through memory: written, read and written by the softmax, read."""


@dataclass
class LayerGraph:
    """Operators in the order they are added; every method returns the index of the new operator."""

    operators: list[OperatorSpec] = field(default_factory=list)

    def add_spec(self, spec: OperatorSpec) -> int:
        self.operators.append(spec)
        return len(self.operators) - 1

    def width(self, index: int) -> int:
        """Output elements per sample of an operator."""
        return self.operators[index].output_elements

    def _inputs(self, producers: Sequence[int | None]) -> tuple[OperatorInput, ...]:
        return tuple(OperatorInput(index) for index in producers if index is not None)

    def dense(
        self,
        name: str,
        source: int | None,
        inputs: int,
        outputs: int,
        *,
        rows: int = 1,
        kind: str = "dense",
        channel_units: int = 1,
        reduce_units: int = 1,
    ) -> int:
        """Dense layer with bias over `rows` tokens of a sample; `source` None reads from outside the graph."""
        return self.add_spec(
            OperatorSpec(
                name=name,
                kind=kind,
                key=f"Dense_{inputs}_{outputs}",
                inputs=self._inputs([source]),
                input_elements=rows * inputs,
                output_elements=rows * outputs,
                weight_elements=(inputs * outputs, outputs),
                forward_flops=2.0 * rows * inputs * outputs,
                channel_units=channel_units,
                reduce_units=reduce_units,
                source_element_bytes=ACTIVATION_BYTES if source is None else None,
            )
        )

    def dense_stack(self, prefix: str, source: int | None, widths: Sequence[int]) -> int:
        """Dense layers `prefix0`, `prefix1`, ... through the given widths (input width first, at least one layer)."""
        index = self.dense(f"{prefix}0", source, widths[0], widths[1])
        for layer in range(1, len(widths) - 1):
            index = self.dense(f"{prefix}{layer}", index, widths[layer], widths[layer + 1])
        return index

    def table(self, name: str, rows: int, dim: int, lookups: int) -> int:
        """Embedding table with a bag of `lookups` indices summed per sample; kept whole on one GPU."""
        return self.add_spec(
            OperatorSpec(
                name=name,
                kind="embedding",
                key=f"Embed_{rows}x{dim}",
                inputs=(),
                input_elements=0,
                output_elements=dim,
                weight_elements=(rows * dim,),
                forward_flops=float(lookups * dim),
                indices=lookups,
                gathered_elements=lookups * dim,
                sample_split=False,
                one_gpu=True,
                source_element_bytes=INDEX_BYTES,
            )
        )

    def token_embedding(self, name: str, vocabulary: int, hidden: int, sequence: int) -> int:
        """Embedding of a sequence of tokens, replicated like any other layer."""
        return self.add_spec(
            OperatorSpec(
                name=name,
                kind="embedding",
                key=f"Embed_{vocabulary}x{hidden}",
                inputs=(),
                input_elements=0,
                output_elements=sequence * hidden,
                weight_elements=(vocabulary * hidden,),
                indices=sequence,
                gathered_elements=sequence * hidden,
                source_element_bytes=INDEX_BYTES,
            )
        )

    def attention(self, name: str, sources: Sequence[int | None], hidden: int, heads: int, sequence: int) -> int:
        """Multi-head attention with its four projections, without bias; `sources` feed query, key and value."""
        projections = 8.0 * sequence * hidden * hidden
        scores = 4.0 * sequence * sequence * hidden
        return self.add_spec(
            OperatorSpec(
                name=name,
                kind="attention",
                key=f"MultiHeadAttention_{hidden}{heads}",
                inputs=self._inputs(tuple(dict.fromkeys(sources))),
                input_elements=3 * sequence * hidden,
                output_elements=sequence * hidden,
                weight_elements=(4 * hidden * hidden,),
                forward_flops=projections + scores,
                scratch_elements=SCORE_PASSES * heads * sequence * sequence,
                kernels=7,  # four projections, scores, softmax, weighted sum
                source_element_bytes=ACTIVATION_BYTES if sources[0] is None else None,
            )
        )

    def conv(
        self,
        name: str,
        source: int | None,
        side: int,
        channels: tuple[int, int],
        kernel: int,
        stride: int,
        padding: int,
    ) -> tuple[int, int]:
        """Square convolution with bias, in to out channels; returns the operator and the side of its output."""
        inputs, outputs = channels
        out = (side + 2 * padding - kernel) // stride + 1
        weights = kernel * kernel * inputs * outputs
        index = self.add_spec(
            OperatorSpec(
                name=name,
                kind="conv",
                key=f"Conv2D_{kernel}_{kernel}_{outputs}",
                inputs=self._inputs([source]),
                input_elements=inputs * side * side,
                output_elements=outputs * out * out,
                weight_elements=(weights, outputs),
                forward_flops=2.0 * weights * out * out,
                source_element_bytes=ACTIVATION_BYTES if source is None else None,
            )
        )
        return index, out

    def pool(
        self, name: str, source: int | None, side: int, channels: int, kernel: int, stride: int, padding: int
    ) -> tuple[int, int]:
        """Pooling; returns the operator and the side of its output."""
        out = (side + 2 * padding - kernel) // stride + 1
        index = self.add_spec(
            OperatorSpec(
                name=name,
                kind="pool",
                key=f"Pool2D_{kernel}_{kernel}",
                inputs=self._inputs([source]),
                input_elements=channels * side * side,
                output_elements=channels * out * out,
                forward_flops=float(kernel * kernel * channels * out * out),
            )
        )
        return index, out

    def concat(self, name: str, sources: Sequence[int], outside: int = 0) -> int:
        """Concatenation of producers and of `outside` elements that come from outside the graph."""
        total = sum(self.width(index) for index in sources) + outside
        return self.add_spec(
            OperatorSpec(
                name=name,
                kind="concat",
                key="Concat_1",
                inputs=self._inputs(sources),
                input_elements=total,
                output_elements=total,
                kernels=len(sources) + outside,  # one copy for each input tensor; those from outside are scalars
            )
        )

    def elementwise(
        self, name: str, kind: str, key: str, sources: Sequence[int | None], elements: int, *, channel_units: int = 1
    ) -> int:
        """Elementwise operator over `elements` per sample; a None source comes from outside the graph."""
        return self.add_spec(
            OperatorSpec(
                name=name,
                kind=kind,
                key=key,
                inputs=self._inputs(sources),
                input_elements=len(sources) * elements,
                output_elements=elements,
                forward_flops=float(elements),
                mixes_channels=False,
                channel_units=channel_units,
                source_element_bytes=ACTIVATION_BYTES if sources[0] is None else None,
            )
        )

    def add(self, name: str, sources: Sequence[int | None], elements: int, *, channel_units: int = 1) -> int:
        return self.elementwise(name, "add", "ElementBinary_31", sources, elements, channel_units=channel_units)

    def norm(self, name: str, source: int, hidden: int, rows: int) -> int:
        """Layer normalisation with gain and bias; needs all channels of a token."""
        return self.add_spec(
            OperatorSpec(
                name=name,
                kind="norm",
                key=f"LayerNorm_{hidden}",
                inputs=self._inputs([source]),
                input_elements=rows * hidden,
                output_elements=rows * hidden,
                weight_elements=(hidden, hidden),
                forward_flops=8.0 * rows * hidden,
            )
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
        raise_any(problems)
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
