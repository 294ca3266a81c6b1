"""Language models by name, as published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from topoopt.core.parallelism import Experts, LanguageModel, LatentAttention


def _megatron(name: str, layers: int, hidden: int, heads: int, vocabulary: int = 51200) -> LanguageModel:
    """GPT as Megatron-LM trains it: f = 4h, biases, tied head, 2048 learned positions (arXiv:2104.04473)."""
    return LanguageModel(
        name, layers, hidden, 4 * hidden, heads, heads, hidden // heads, vocabulary,
        positions=2048, gated=False, biases=True, tied=True,
    )  # fmt: skip


_ALL = (
    _megatron("gpt3-175b", 96, 12288, 96),
    LanguageModel("llama3-70b", 80, 8192, 28672, 64, 8, 128, 128256),
    LanguageModel("llama3-405b", 126, 16384, 53248, 128, 8, 128, 128256),
    LanguageModel("mixtral-8x22b", 56, 6144, 16384, 48, 8, 128, 32768, experts=Experts(8, 2, 16384)),
    LanguageModel(
        "deepseek-v3",
        61,
        7168,
        18432,
        128,
        128,
        192,
        129280,
        experts=Experts(256, 8, 2048, shared=1, dense_layers=3, node_limit=4, balanced=True),
        latent=LatentAttention(1536, 512, 128, 64, 128),
        mtp_layers=1,
    ),
    LanguageModel(
        "qwen3-235b",
        94,
        4096,
        12288,
        64,
        4,
        128,
        151936,
        query_key_norms=True,
        experts=Experts(128, 8, 1536),
    ),
    # Sizes of arXiv:2104.04473, table 1.
    _megatron("megatron-1.7b", 24, 2304, 24),
    _megatron("megatron-39b", 48, 8192, 64),
    _megatron("megatron-76b", 60, 10240, 80),
    _megatron("megatron-310b", 96, 16384, 128),
    _megatron("megatron-1t", 128, 25600, 160),
    # Sizes of arXiv:2205.05198, table 3.
    _megatron("megatron-22b", 48, 6144, 64),
    _megatron("megatron-530b", 105, 20480, 128),
    replace(_megatron("megascale-175b", 96, 12288, 128, 64000), head_size=96),  # arXiv:2402.15627, table 1
    _megatron("megatron-14.6b", 46, 5120, 40),  # arXiv:2401.10241, table 3
    # Sizes of the Megatron-Core scaling study, vocabulary 131072.
    _megatron("megatron-core-16b", 32, 6144, 48, 131072),
    _megatron("megatron-core-70b", 84, 8192, 64, 131072),
    _megatron("megatron-core-177b", 96, 12288, 96, 131072),
    _megatron("megatron-core-462b", 112, 18432, 144, 131072),
)

LANGUAGE_MODELS: Mapping[str, LanguageModel] = MappingProxyType({model.name: model for model in _ALL})
"""Models by name."""
