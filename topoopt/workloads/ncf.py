"""Neural collaborative filtering (He et al., 2017) with many tables, as in the TopoOpt paper.

Users and items each have `tables` narrow tables for the product branch (GMF) and `tables` wide ones for the MLP branch.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.workloads.layers import LayerGraph
from topoopt.workloads.parameters import ModelSpec, Parameter, samples_per_gpu
from topoopt.workloads.spec import OperatorSpec


def build(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Tables, product branch, MLP branch, join, output."""
    graph = LayerGraph()

    def tables(prefix: str, dim: int) -> list[int]:
        return [graph.table(f"{prefix}{t}", sizes["table_rows"], dim, sizes["lookups"]) for t in range(sizes["tables"])]

    gmf_user = tables("gmf_user", sizes["gmf_dim"])
    gmf_item = tables("gmf_item", sizes["gmf_dim"])
    mlp_user = tables("mlp_user", sizes["mlp_dim"])
    mlp_item = tables("mlp_item", sizes["mlp_dim"])
    joined = graph.concat("mlp_concat", [*mlp_user, *mlp_item])
    user = graph.concat("gmf_user_concat", gmf_user)
    item = graph.concat("gmf_item_concat", gmf_item)
    product = graph.elementwise("gmf_multiply", "multiply", "ElementBinary_32", [user, item], graph.width(user))
    gmf = graph.dense("gmf_output", product, graph.width(product), 1)
    mlp = graph.dense_stack("mlp", joined, [graph.width(joined), *([sizes["mlp_width"]] * sizes["mlp_layers"])])
    both = graph.concat("concat", [gmf, mlp])
    graph.dense("output", both, graph.width(both), 1)
    return tuple(graph.operators)


MODEL = ModelSpec(
    name="ncf",
    summary="neural collaborative filtering: four families of tables, a product and an MLP branch",
    parameters=(
        Parameter("tables", 32, 1, 1024, "tables in each of the four families"),
        Parameter("table_rows", 1_000_000, 1, 10**10, "rows of a table"),
        Parameter("gmf_dim", 64, 1, 65536, "row width in the product branch"),
        Parameter("mlp_dim", 128, 1, 65536, "row width in the MLP branch"),
        Parameter("lookups", 100, 1, 10**6, "rows summed per sample and table"),
        Parameter("mlp_width", 4096, 1, 1 << 20, "width of the MLP"),
        Parameter("mlp_layers", 8, 1, 1024, "dense layers of the MLP"),
        samples_per_gpu(128),
    ),
    build=build,
)
