"""What `build_workload` refuses, and how it says so."""

from __future__ import annotations

from typing import Any

import pytest

from topoopt.core.errors import InputError
from topoopt.workloads.models import MODELS, build_operators, build_workload, global_batch
from topoopt.workloads.operators import DEVICES


def refuse(model: str, sizes: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        build_workload(model, sizes, servers=4, gpus_per_server=4, costs=DEVICES["a100"])
    return caught.value


def test_all_wrong_sizes_are_listed_with_the_nearest_names() -> None:
    """Misspelt, out-of-range and non-integer sizes come in one error, each with what is allowed."""
    error = refuse("dlrm", {"table": 3, "embedding_dims": 2, "top_layers": 0, "bottom_width": 2.5, "lookups": True})
    paths = [problem.path for problem in error.problems]
    assert paths == [
        f"workload.sizes.{n}" for n in ("table", "embedding_dims", "top_layers", "bottom_width", "lookups")
    ]
    allowed = [problem.allowed or "" for problem in error.problems]
    assert "did you mean tables" in allowed[0]
    assert "did you mean embedding_dim" in allowed[1]
    assert allowed[2] == "integer from 1 to 1024"


def test_unknown_model_lists_the_models() -> None:
    """The error names what there is, nearest first."""
    problem = refuse("dlmr", {}).problems[0]
    assert problem.allowed is not None
    assert "did you mean dlrm" in problem.allowed
    assert all(name in problem.allowed for name in MODELS)


@pytest.mark.parametrize(
    ("model", "sizes", "name"),
    [
        ("bert", {"hidden": 100, "heads": 12}, "heads"),
        ("gpt", {"hidden": 100, "heads": 12}, "heads"),
        ("moe", {"experts": 4, "top_k": 5}, "top_k"),
        ("moe", {"experts": 24, "top_k": 1, "sequence": 512}, "experts"),
        ("resnet", {"image_size": 128}, "image_size"),
    ],
)
def test_clashing_sizes_are_refused(model: str, sizes: dict[str, int], name: str) -> None:
    """Sizes in range that do not fit each other name the one to change."""
    assert refuse(model, sizes).problems[0].path == f"workload.sizes.{name}"


def test_huge_graphs_are_refused_before_they_are_built() -> None:
    """A thousand layers of four thousand experts would be four million operators."""
    assert "too many operators" in str(refuse("moe", {"layers": 1024, "experts": 4096, "sequence": 4096}))


def test_global_batch_overrides_samples_per_gpu() -> None:
    """The batch is servers * GPUs * samples_per_gpu unless stated."""
    assert global_batch("dlrm", {}, 16, 4) == 16_384
    assert global_batch("vgg", {}, 128, 4) == 32_768
    assert global_batch("dlrm", {"global_batch": 1000}, 16, 4) == 1000


@pytest.mark.parametrize("model", sorted(MODELS))
def test_defaults_are_in_range_and_documented(model: str) -> None:
    """Every parameter has a range that holds its default, and a text; the smallest image and layers still build."""
    for parameter in MODELS[model].parameters:
        assert parameter.minimum <= parameter.default <= parameter.maximum
        assert parameter.doc
    fewest = {p.name: p.minimum for p in MODELS[model].parameters if "layers" in p.name or p.name == "image_size"}
    assert build_operators(model, fewest)
