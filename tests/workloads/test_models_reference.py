"""Model builders against the published sizes of the TopoOpt jobs and the released task graphs."""

from __future__ import annotations

import pytest

from topoopt.workloads.models import MODELS, build_operators, build_workload
from topoopt.workloads.operators import DEVICES, LayerGraph, OperatorSpec

CANDLE_128 = {"feature_width": 16384, "feature_layers": 16, "dense_width": 16384}
BERT_128 = {"layers": 12, "hidden": 1024, "heads": 16, "sequence": 64}
DLRM_128 = {"tables": 64, "embedding_dim": 128, "bottom_width": 2048, "top_width": 4096}


def weights_without_tables(specs: tuple[OperatorSpec, ...]) -> int:
    return 4 * sum(spec.weights for spec in specs if not spec.one_gpu)


@pytest.mark.parametrize(
    ("model", "sizes", "expected"),
    [
        ("dlrm", {}, 306_343_940),
        ("candle", {}, 4_752_687_116),
        ("bert", {}, 226_569_220),
        ("bert", BERT_128, 805_507_076),
        ("vgg", {}, 1_157_409_952),
        ("dlrm", DLRM_128, 1_225_056_260),
        ("dlrm", {**DLRM_128, "tables": 128}, 1_359_273_988),
        ("candle", CANDLE_128, 94_442_422_284),
    ],
)
def test_dense_weights_are_those_published(model: str, sizes: dict[str, int], expected: int) -> None:
    """Bytes of all weights outside embedding tables equal the published figures exactly."""
    assert weights_without_tables(build_operators(model, sizes)) == expected


@pytest.mark.parametrize(
    ("model", "sizes", "operators", "weight_tensors"),
    [
        ("vgg", {}, 23, 32),
        ("bert", {}, 61, 68),
        ("bert", {"layers": 12}, 121, 134),
        ("dlrm", {}, 40, 62),
        ("dlrm", {"tables": 32}, 56, 78),
        ("dlrm", DLRM_128, 88, 110),
        ("candle", {}, 71, 140),
    ],
)
def test_graphs_have_as_many_operators_as_the_released_ones(
    model: str, sizes: dict[str, int], operators: int, weight_tensors: int
) -> None:
    """Operators and AllReduce tasks (one a weight tensor) are counted in the released task graphs."""
    specs = build_operators(model, sizes)
    assert (len(specs), sum(len(spec.weight_elements) for spec in specs)) == (operators, weight_tensors)


def test_tables_of_dlrm_128_hold_328_gigabytes() -> None:
    """64 tables of 10^7 x 128 fp32 are 327.68 GB beside the dense weights."""
    specs = build_operators("dlrm", DLRM_128)
    assert 4 * sum(spec.weights for spec in specs if spec.one_gpu) == 327_680_000_000


def test_resnet_has_the_weights_of_a_resnet50_body() -> None:
    """Convolutions of ResNet50 hold 23 454 912 weights (He et al., 2016: 25.557M less 2.049M head, 53 120 norms)."""
    specs = build_operators("resnet", {})
    kernels = sum(spec.weight_elements[0] for spec in specs if spec.kind == "conv")
    assert kernels == 25_557_032 - 2_049_000 - 53_120
    assert sum(spec.kind == "conv" for spec in specs) == 53


def test_gpt_block_has_twelve_squares_of_the_width() -> None:
    """A transformer block has 12 h^2 matrix weights when its inner width is 4 h."""
    hidden = 256
    sizes = {"layers": 3, "hidden": hidden, "feed_forward": 4 * hidden, "heads": 4, "vocabulary": 100}
    specs = build_operators("gpt", sizes)
    matrices = sum(spec.weight_elements[0] for spec in specs if spec.name.startswith("layer") and spec.kind == "dense")
    assert matrices == 3 * 12 * hidden**2


def test_moe_experts_share_the_tokens() -> None:
    """The experts of a bank together process top_k times the tokens, and each reads top_k / experts of a sample."""
    sizes = {"layers": 1, "hidden": 64, "heads": 4, "sequence": 32, "experts": 8, "top_k": 2, "feed_forward": 128}
    specs = build_operators("moe", sizes)
    experts = [spec for spec in specs if spec.kind == "expert"]
    assert len(experts) == 8
    assert sum(spec.output_elements for spec in experts) == 2 * 32 * 64
    assert {edge.fraction for spec in experts for edge in spec.inputs} == {0.25}
    # two dense layers of the whole sequence, twice
    assert sum(spec.forward_flops for spec in experts) == 2 * (2 * 32 * 64 * 128 * 2)
    combine = next(spec for spec in specs if spec.kind == "combine")
    assert len(combine.inputs) == 8 + 2


def test_vgg_flattens_to_61952() -> None:
    """Padding 2 on 229 x 229 images leaves 11 x 11 x 512 elements."""
    flat = next(spec for spec in build_operators("vgg", {}) if spec.kind == "flat")
    assert flat.output_elements == 61_952


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_expands_in_topological_order(model: str) -> None:
    """Every model of the table builds with its defaults: unique names, producers first, one sink."""
    workload = build_workload(model, {}, servers=16, gpus_per_server=4, costs=DEVICES["a100"])
    names = [operator.name for operator in workload.operators]
    assert len(set(names)) == len(names)
    for index, operator in enumerate(workload.operators):
        assert all(edge.producer < index for edge in operator.inputs)
    assert [len(users) for users in workload.consumers()].count(0) == 1
    assert MODELS[model].name == model


def test_bert_is_wired_like_the_released_graph() -> None:
    """Producers of the second layer's operators, read from the released 16-server task graph."""
    specs = build_operators("bert", {})
    producers = [sorted({edge.producer for edge in spec.inputs}) for spec in specs]
    assert producers[:10] == [[], [0], [1], [2], [], [4], [3, 5], [5, 6], [7], [8]]
    assert producers[10:20] == [[3], [3, 10], [11], [12], [9], [9, 14], [13, 15], [15, 16], [17], [18]]
    assert producers[60] == [59]


def test_sides_of_pooled_images() -> None:
    """As in ResNet: 112 by windows of 3, steps of 2 and a border of 1 gives 56; of 2 without a border 56 as well."""
    graph = LayerGraph()
    pooled = [graph.pool("pool", None, 112, 64, kernel, 2, border) for kernel, border in ((3, 1), (2, 0))]
    assert pooled == [(0, 56), (1, 56)]
    assert [spec.output_elements for spec in graph.operators] == [64 * 56 * 56] * 2
