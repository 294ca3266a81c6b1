"""Building blocks of the model builders: a graph under construction with one method per layer type.

Profile keys follow the measured profiles of the TopoOpt artifact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from topoopt.core.workload import OperatorInput
from topoopt.workloads.spec import ACTIVATION_BYTES, INDEX_BYTES, OperatorSpec

SCORE_PASSES = 4
"""Times the attention scores pass through memory: written, read and written by the softmax, read."""


@dataclass
class LayerGraph:
    """Operators in the order they are added; every method returns the index of the new operator."""

    operators: list[OperatorSpec] = field(default_factory=list)

    def add_spec(self, spec: OperatorSpec) -> int:
        """Append a finished operator."""
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
        """Sum of two tensors."""
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
