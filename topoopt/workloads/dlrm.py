"""DLRM: embedding tables beside a bottom MLP, concatenated into a top MLP (Naumov et al., 2019).

Sizes of the TopoOpt paper: 16 tables of 10^7 x 256, bottom 7 layers of 1024, top 15 layers of 2048 and an output
(shared cluster, 16 servers); 64 tables of 10^7 x 128, 2048 and 4096 (128 servers).
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.workloads.layers import LayerGraph
from topoopt.workloads.parameters import ModelSpec, Parameter, samples_per_gpu
from topoopt.workloads.spec import OperatorSpec


def build(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Operators in the order of the reference: bottom MLP, tables, concat, top MLP."""
    graph = LayerGraph()
    bottom, top = sizes["bottom_width"], sizes["top_width"]
    last = graph.dense_stack("bottom", None, [bottom] * (sizes["bottom_layers"] + 1))
    tables = [
        graph.table(f"table{t}", sizes["table_rows"], sizes["embedding_dim"], sizes["lookups"])
        for t in range(sizes["tables"])
    ]
    joined = graph.concat("concat", [last, *tables])
    widths = [graph.width(joined), *([top] * sizes["top_layers"]), 1]
    graph.dense_stack("top", joined, widths)
    return tuple(graph.operators)


MODEL = ModelSpec(
    name="dlrm",
    summary="recommendation: embedding tables and two MLPs",
    parameters=(
        Parameter("tables", 16, 1, 4096, "embedding tables"),
        Parameter("table_rows", 10_000_000, 1, 10**10, "rows of a table"),
        Parameter("embedding_dim", 256, 1, 65536, "width of a row"),
        Parameter("lookups", 100, 1, 10**6, "rows summed per sample and table"),
        Parameter("bottom_width", 1024, 1, 1 << 20, "width of the bottom MLP and of the dense features"),
        Parameter("bottom_layers", 7, 1, 1024, "dense layers of the bottom MLP"),
        Parameter("top_width", 2048, 1, 1 << 20, "width of the top MLP"),
        Parameter("top_layers", 15, 1, 1024, "hidden dense layers of the top MLP, the one-wide output not counted"),
        samples_per_gpu(256),
    ),
    build=build,
)
