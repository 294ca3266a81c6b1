"""VGG16 as the TopoOpt artifact builds it: 3x3 convolutions with padding 2, 3x3 pools of stride 2, 229x229 images.

The padding makes the flattened tensor 61952 wide at 229x229, so the first dense layer is twice that of the original.
"""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.workloads.layers import LayerGraph
from topoopt.workloads.parameters import ModelSpec, Parameter, samples_per_gpu
from topoopt.workloads.spec import OperatorSpec

BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions of each block; a pool ends a block."""


def build(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Five blocks, flatten, three dense layers, softmax."""
    graph = LayerGraph()
    source: int | None = None
    side, channels = sizes["image_size"], 3
    for block, (width, count) in enumerate(BLOCKS):
        for layer in range(count):
            source, side = graph.conv(f"conv{block}_{layer}", source, side, (channels, width), 3, 1, 2)
            channels = width
        source, side = graph.pool(f"pool{block}", source, side, channels, 3, 2, 0)
    flat = channels * side * side
    source = graph.elementwise("flatten", "flat", "Flat", [source], flat)
    hidden, classes = sizes["hidden"], sizes["classes"]
    source = graph.dense_stack("dense", source, [flat, hidden, hidden, classes])
    graph.elementwise("softmax", "softmax", "Softmax", [source], classes)
    return tuple(graph.operators)


MODEL = ModelSpec(
    name="vgg",
    summary="VGG16 image classifier with a wide flattened tensor",
    parameters=(
        Parameter("image_size", 229, 16, 8192, "side of the image, pixels"),
        Parameter("hidden", 4096, 1, 1 << 20, "width of the two dense layers"),
        Parameter("classes", 1000, 1, 1 << 20, "classes"),
        samples_per_gpu(64),
    ),
    build=build,
)
