"""Mixture-of-experts transformer: every block routes each token to `top_k` of its experts (GShard, Switch).

An expert is an operator of its own, so it may sit whole on one server (expert parallelism) or be split by samples.
Routing is taken as balanced: an expert reads top_k / experts of the tokens of every sample.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.core.workload import OperatorInput
from topoopt.workloads.layers import LayerGraph
from topoopt.workloads.parameters import ModelSpec, Parameter, require, samples_per_gpu
from topoopt.workloads.spec import OperatorSpec


def _expert(graph: LayerGraph, name: str, state: int, router: int, sizes: Mapping[str, int]) -> int:
    """Two dense layers over the tokens sent to the expert."""
    hidden, inner = sizes["hidden"], sizes["feed_forward"]
    fraction = sizes["top_k"] / sizes["experts"]
    elements = sizes["sequence"] * hidden * sizes["top_k"] // sizes["experts"]
    return graph.add_spec(
        OperatorSpec(
            name=name,
            kind="expert",
            key=f"Expert_{hidden}_{inner}",
            inputs=(OperatorInput(state, fraction), OperatorInput(router, fraction)),
            input_elements=elements,
            output_elements=elements,
            weight_elements=(hidden * inner, inner, inner * hidden, hidden),
            forward_flops=4.0 * elements * inner,
        )
    )


def _combine(graph: LayerGraph, name: str, state: int, router: int, experts: list[int]) -> int:
    """Weighted sum of the experts' outputs, added to the state."""
    sources = [state, router, *experts]
    return graph.add_spec(
        OperatorSpec(
            name=name,
            kind="combine",
            key=f"Combine_{len(experts)}",
            inputs=tuple(OperatorInput(index) for index in sources),
            input_elements=sum(graph.width(index) for index in sources),
            output_elements=graph.width(state),
            forward_flops=2.0 * sum(graph.width(index) for index in experts),
        )
    )


def build(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Token embedding, blocks of attention and experts, output layer."""
    hidden, heads, sequence = sizes["hidden"], sizes["heads"], sizes["sequence"]
    experts, top_k = sizes["experts"], sizes["top_k"]
    require(hidden % heads == 0, "heads", sizes, f"a divisor of hidden = {hidden}")
    require(top_k <= experts, "top_k", sizes, f"at most experts = {experts}")
    require(sequence * top_k % experts == 0, "experts", sizes, f"a divisor of sequence * top_k = {sequence * top_k}")
    graph = LayerGraph()
    state = graph.token_embedding("tokens", sizes["vocabulary"], hidden, sequence)
    for layer in range(sizes["layers"]):
        name = f"layer{layer}"
        attention = graph.attention(f"{name}_attention", [state], hidden, heads, sequence)
        state = graph.add(f"{name}_add", [attention, state], sequence * hidden)
        router = graph.dense(f"{name}_router", state, hidden, experts, rows=sequence, kind="router")
        bank = [_expert(graph, f"{name}_expert{e}", state, router, sizes) for e in range(experts)]
        state = _combine(graph, f"{name}_combine", state, router, bank)
    graph.dense("output", state, hidden, sizes["vocabulary"], rows=sequence)
    return tuple(graph.operators)


MODEL = ModelSpec(
    name="moe",
    summary="mixture-of-experts transformer; each expert is placed on its own",
    parameters=(
        Parameter("layers", 4, 1, 1024, "blocks, each with one bank of experts"),
        Parameter("hidden", 1024, 1, 1 << 20, "width"),
        Parameter("heads", 16, 1, 4096, "attention heads"),
        Parameter("sequence", 512, 1, 1 << 20, "tokens per sample"),
        Parameter("experts", 16, 1, 4096, "experts in a bank"),
        Parameter("top_k", 2, 1, 4096, "experts per token"),
        Parameter("feed_forward", 4096, 1, 1 << 22, "inner width of an expert"),
        Parameter("vocabulary", 32768, 1, 1 << 22, "tokens known"),
        samples_per_gpu(4),
    ),
    build=build,
)
