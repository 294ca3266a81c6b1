"""CANDLE Uno: five feature encoders and two scalar doses, concatenated into a dense stack (drug response).

Sizes of the TopoOpt paper: 12 layers of 4096 per encoder and a stack of 8 x 4096 (16 servers); 16 layers of 16384 and
8 x 16384 (128 servers). The reference ends the stack with two one-wide layers.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.workloads.layers import LayerGraph
from topoopt.workloads.parameters import ModelSpec, Parameter, samples_per_gpu
from topoopt.workloads.spec import OperatorSpec

FEATURES = (("cell", 942), ("drug1", 5270), ("drug1_print", 2048), ("drug2", 5270), ("drug2_print", 2048))
"""Encoders: name and width of the feature vector (cell expression; descriptors and fingerprints of two drugs)."""

DOSES = 2
"""Scalars joined to the encoded features."""


def build(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Encoders one after the other, concat, dense stack, two one-wide layers."""
    graph = LayerGraph()
    feature, dense = sizes["feature_width"], sizes["dense_width"]
    encoded = [
        graph.dense_stack(f"{name}_", None, [width, *([feature] * sizes["feature_layers"])]) for name, width in FEATURES
    ]
    joined = graph.concat("concat", encoded, outside=DOSES)
    graph.dense_stack("dense", joined, [graph.width(joined), *([dense] * sizes["dense_layers"]), 1, 1])
    return tuple(graph.operators)


MODEL = ModelSpec(
    name="candle",
    summary="CANDLE Uno: five dense encoders and a dense stack",
    parameters=(
        Parameter("feature_width", 4096, 1, 1 << 20, "width of the encoder layers"),
        Parameter("feature_layers", 12, 1, 1024, "dense layers of each of the five encoders"),
        Parameter("dense_width", 4096, 1, 1 << 20, "width of the dense stack"),
        Parameter("dense_layers", 8, 1, 1024, "wide layers of the dense stack"),
        samples_per_gpu(256),
    ),
    build=build,
)
