"""The encoder-decoder transformer that the TopoOpt paper calls BERT.

Ten operators a layer, wired as in the released task graphs: encoder attention, add, two dense; decoder self-attention,
add, attention over the encoder, add, two dense. One dense layer to a single output per token ends it.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.workloads.layers import LayerGraph
from topoopt.workloads.parameters import ModelSpec, Parameter, require, samples_per_gpu
from topoopt.workloads.spec import OperatorSpec


def _attend(graph: LayerGraph, name: str, query: int | None, memory: int | None, sizes: Mapping[str, int]) -> int:
    """Attention of `query` over `memory`, added to `query`; None reads from outside the graph."""
    hidden, sequence = sizes["hidden"], sizes["sequence"]
    attention = graph.attention(f"{name}_attention", [query, memory], hidden, sizes["heads"], sequence)
    return graph.add(f"{name}_add", [attention, query], sequence * hidden)


def _feed_forward(graph: LayerGraph, name: str, source: int, sizes: Mapping[str, int]) -> int:
    """Two dense layers of the hidden width over every token."""
    for index in range(2):
        source = graph.dense(f"{name}_dense{index}", source, sizes["hidden"], sizes["hidden"], rows=sizes["sequence"])
    return source


def build(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Layers of ten operators and the output layer."""
    require(sizes["hidden"] % sizes["heads"] == 0, "heads", sizes, f"a divisor of hidden = {sizes['hidden']}")
    graph = LayerGraph()
    encoder: int | None = None
    decoder: int | None = None
    for layer in range(sizes["layers"]):
        name = f"layer{layer}"
        state = _attend(graph, f"{name}_encoder", encoder, encoder, sizes)
        encoder = _feed_forward(graph, f"{name}_encoder", state, sizes)
        state = _attend(graph, f"{name}_decoder", decoder, decoder, sizes)
        state = _attend(graph, f"{name}_cross", state, encoder, sizes)
        decoder = _feed_forward(graph, f"{name}_decoder", state, sizes)
    graph.dense("output", decoder, sizes["hidden"], 1, rows=sizes["sequence"])
    return tuple(graph.operators)


MODEL = ModelSpec(
    name="bert",
    summary="encoder-decoder transformer of the TopoOpt paper",
    parameters=(
        Parameter("layers", 6, 1, 1024, "layers, each with three attentions"),
        Parameter("hidden", 768, 1, 1 << 20, "width"),
        Parameter("heads", 12, 1, 4096, "attention heads"),
        Parameter("sequence", 256, 1, 1 << 20, "tokens per sample"),
        samples_per_gpu(16),
    ),
    build=build,
)
