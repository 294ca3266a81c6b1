"""ResNet50 without batch normalisation, as the TopoOpt artifact builds it: bottlenecks 3, 4, 6, 3, ten classes."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.workloads.layers import LayerGraph
from topoopt.workloads.parameters import ModelSpec, Parameter, require, samples_per_gpu
from topoopt.workloads.spec import OperatorSpec

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Inner channels, bottlenecks and stride of the first bottleneck of each stage."""

EXPANSION = 4
"""Output channels of a bottleneck over its inner channels."""

POOL_KERNEL = 7


def _bottleneck(
    graph: LayerGraph, name: str, source: int, side: int, channels: int, width: int, stride: int
) -> tuple[int, int]:
    """1x1, 3x3, 1x1 convolutions, a projection where the shape changes, add, ReLU."""
    outputs = EXPANSION * width
    inner, _ = graph.conv(f"{name}_conv0", source, side, (channels, width), 1, 1, 0)
    inner, out = graph.conv(f"{name}_conv1", inner, side, (width, width), 3, stride, 1)
    inner, _ = graph.conv(f"{name}_conv2", inner, out, (width, outputs), 1, 1, 0)
    if stride > 1 or channels != outputs:
        source, _ = graph.conv(f"{name}_project", source, side, (channels, outputs), 1, stride, 0)
    elements = outputs * out * out
    total = graph.add(f"{name}_add", [source, inner], elements)
    return graph.elementwise(f"{name}_relu", "relu", "ElementUnary_13", [total], elements), out


def build(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Stem, sixteen bottlenecks, pool, dense, softmax."""
    graph = LayerGraph()
    source, side = graph.conv("stem", None, sizes["image_size"], (3, 64), 7, 2, 3)
    source, side = graph.pool("stem_pool", source, side, 64, 3, 2, 1)
    channels = 64
    for stage, (width, count, first_stride) in enumerate(STAGES):
        for block in range(count):
            stride = first_stride if block == 0 else 1
            source, side = _bottleneck(graph, f"stage{stage}_{block}", source, side, channels, width, stride)
            channels = EXPANSION * width
    require(side >= POOL_KERNEL, "image_size", sizes, "at least 193, so that the last pool has a 7x7 window")
    source, _ = graph.pool("pool", source, side, channels, POOL_KERNEL, 1, 0)
    flat = graph.width(source)
    source = graph.elementwise("flatten", "flat", "Flat", [source], flat)
    source = graph.dense("dense", source, flat, sizes["classes"])
    graph.elementwise("softmax", "softmax", "Softmax", [source], sizes["classes"])
    return tuple(graph.operators)


MODEL = ModelSpec(
    name="resnet",
    summary="ResNet50 image classifier",
    parameters=(
        Parameter("image_size", 229, 193, 8192, "side of the image, pixels"),
        Parameter("classes", 10, 1, 1 << 20, "classes"),
        samples_per_gpu(128),
    ),
    build=build,
)
