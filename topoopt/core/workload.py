"""A training job as a graph of operators, each with the ways it may be split over servers.

Every operator produces one output tensor of `samples x output_elements` elements. A split cuts it into
`sample_ways x channel_ways x reduce_ways` parts, part index ``(a * channel_ways + b) * reduce_ways + e``:

* part (a, b, e) computes samples [a N/s, (a+1) N/s) and output channels [b C/c, (b+1) C/c);
* with `reduce_ways` r > 1 an operator that mixes channels reads only input channels [e I/r, (e+1) I/r) and yields a
  partial sum of its region;
* an operator that `mixes_channels` (dense, attention, ...) otherwise reads all channels of its samples, one that does
  not (elementwise) reads just the channels it writes;
* each part holds 1/(c r) of every weight; the s parts with equal (b, e) share it and all-reduce its gradient.

Backward transfers mirror the forward ones (FlexNet, TopoOpt artifact).
"""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.shown import Shown


@dataclass(frozen=True)
class Split:
    """One legal way to spread an operator over servers, with its cost per part.

    Attributes:
        sample_ways: parts along the batch.
        channel_ways: parts along the output channels.
        reduce_ways: parts along the input channels (partial sums).
        forward_ms: forward time of one part on one server.
        backward_ms: backward time of one part on one server.
        server_memory_bytes: memory one part takes in its server (over all its GPUs).
    """

    sample_ways: int
    forward_ms: float
    backward_ms: float
    server_memory_bytes: int
    channel_ways: int = 1
    reduce_ways: int = 1

    @property
    def parts(self) -> int:
        """Number of servers the operator is spread over."""
        return self.sample_ways * self.channel_ways * self.reduce_ways

    @property
    def label(self) -> str:
        """Short text, for instance `x16`, `x4 ch4`, `x1`."""
        text = f"x{self.sample_ways}"
        if self.channel_ways > 1:
            text += f" ch{self.channel_ways}"
        if self.reduce_ways > 1:
            text += f" red{self.reduce_ways}"
        return text


@dataclass(frozen=True)
class OperatorInput:
    """An input tensor: who produces it, and which fraction of each sample's elements is read (1 except in MoE)."""

    producer: int
    fraction: float = 1.0


@dataclass(frozen=True, repr=False)
class Operator(Shown):
    """One operator of the training graph.

    Attributes:
        name: unique name in the workload.
        kind: class of the operator (`dense`, `embedding`, `conv`, `attention`, `concat`, ...).
        output_elements: elements of the output tensor per sample.
        element_bytes: bytes of one output element when it is sent to another server.
        weight_elements: elements of every weight tensor (4-byte gradients are all-reduced, one AllReduce each).
        inputs: producers, by index in the workload; every producer stands before its consumers.
        splits: candidate splits, at least one.
        mixes_channels: whether an output channel needs all input channels.
        locally_reduced: whether the gradient is first all-reduced among the GPUs of a server (False for embedding
            tables, which live on one GPU).
        pinned_offset: the offset every placement must have, None if it is free; less than n / parts of every split.
    """

    name: str
    kind: str
    output_elements: int
    element_bytes: int
    weight_elements: tuple[int, ...]
    inputs: tuple[OperatorInput, ...]
    splits: tuple[Split, ...]
    mixes_channels: bool = True
    locally_reduced: bool = True
    pinned_offset: int | None = None


GRADIENT_BYTES = 4
"""Bytes of one gradient element in an AllReduce (fp32)."""


@dataclass(frozen=True, repr=False)
class Workload(Shown):
    """A model and its global batch.

    Attributes:
        name: model name.
        samples: global batch N; every `sample_ways` divides it.
        operators: in topological order.
    """

    name: str
    samples: int
    operators: tuple[Operator, ...]

    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For every operator, the indices of the operators that read its output."""
        out: list[list[int]] = [[] for _ in self.operators]
        for index, operator in enumerate(self.operators):
            for edge in operator.inputs:
                out[edge.producer].append(index)
        return tuple(tuple(users) for users in out)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights (and of one set of gradients)."""
        return GRADIENT_BYTES * sum(sum(operator.weight_elements) for operator in self.operators)
