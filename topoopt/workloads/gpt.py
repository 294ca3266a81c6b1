"""Decoder-only transformer with tensor parallelism as a choice (Megatron-LM, Shoeybi et al., 2019).

Dense layers may be cut by columns (output channels) or by rows (input channels), the attention core by heads,
elementwise layers by channels. Norms need whole tokens and are split by samples only. The loss is part of the output
layer.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.core.workload import OperatorInput
from topoopt.workloads.layers import SCORE_PASSES, LayerGraph
from topoopt.workloads.parameters import ModelSpec, Parameter, require, samples_per_gpu
from topoopt.workloads.spec import OperatorSpec


def _attention_core(graph: LayerGraph, name: str, qkv: int, sizes: Mapping[str, int], units: int) -> int:
    """Softmax(q k) v of all heads, without weights; a head needs only its own share of the projections."""
    hidden, sequence = sizes["hidden"], sizes["sequence"]
    return graph.add_spec(
        OperatorSpec(
            name=name,
            kind="attention",
            key=f"AttentionCore_{hidden}_{sizes['heads']}",
            inputs=(OperatorInput(qkv),),
            input_elements=3 * sequence * hidden,
            output_elements=sequence * hidden,
            forward_flops=4.0 * sequence * sequence * hidden,
            scratch_elements=SCORE_PASSES * sizes["heads"] * sequence * sequence,
            kernels=3,  # scores, softmax, weighted sum
            mixes_channels=False,
            channel_units=units,
        )
    )


def build(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Token embedding, pre-norm blocks of nine operators, final norm, output layer."""
    hidden, heads, sequence, inner = sizes["hidden"], sizes["heads"], sizes["sequence"], sizes["feed_forward"]
    require(hidden % heads == 0, "heads", sizes, f"a divisor of hidden = {hidden}")
    graph = LayerGraph()

    def units(count: int) -> int:
        return count if sizes["tensor_parallel"] else 1

    def dense(name: str, source: int, inputs: int, outputs: int, columns: int, rows: int) -> int:
        return graph.dense(
            name, source, inputs, outputs, rows=sequence, channel_units=units(columns), reduce_units=units(rows)
        )

    def add(name: str, first: int, second: int) -> int:
        return graph.add(name, [first, second], sequence * hidden, channel_units=units(hidden))

    state = graph.token_embedding("tokens", sizes["vocabulary"], hidden, sequence)
    for layer in range(sizes["layers"]):
        name = f"layer{layer}"
        normed = graph.norm(f"{name}_norm0", state, hidden, sequence)
        qkv = dense(f"{name}_qkv", normed, hidden, 3 * hidden, heads, hidden)
        core = _attention_core(graph, f"{name}_attention", qkv, sizes, units(heads))
        projected = dense(f"{name}_project", core, hidden, hidden, hidden, heads)
        state = add(f"{name}_add0", projected, state)
        normed = graph.norm(f"{name}_norm1", state, hidden, sequence)
        up = dense(f"{name}_up", normed, hidden, inner, inner, hidden)
        down = dense(f"{name}_down", up, inner, hidden, hidden, inner)
        state = add(f"{name}_add1", down, state)
    normed = graph.norm("norm", state, hidden, sequence)
    dense("output", normed, hidden, sizes["vocabulary"], sizes["vocabulary"], hidden)
    return tuple(graph.operators)


MODEL = ModelSpec(
    name="gpt",
    summary="decoder-only transformer; tensor parallelism is a choice",
    parameters=(
        Parameter("layers", 8, 1, 1024, "transformer blocks"),
        Parameter("hidden", 2048, 1, 1 << 20, "width"),
        Parameter("heads", 16, 1, 4096, "attention heads"),
        Parameter("feed_forward", 8192, 1, 1 << 22, "inner width of the dense pair"),
        Parameter("sequence", 512, 1, 1 << 20, "tokens per sample"),
        Parameter("vocabulary", 32768, 1, 1 << 22, "tokens known"),
        Parameter("tensor_parallel", 1, 0, 1, "1: operators may also be cut by channels; 0: by samples only"),
        samples_per_gpu(2),
    ),
    build=build,
)
