"""Shapes of language models by the names that tables of measured runs use; vocabularies as frameworks pad them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from topoopt.core.llm_training import (
    Attention,
    Experts,
    LanguageModel,
    LatentAttention,
    LayerKind,
    Mixer,
    Mlp,
    StateSpace,
)
from topoopt.workloads.language_models import LANGUAGE_MODELS, uniform


def _llama(layers: int, h: int, f: int, a: int, k: int, v: int, d: int = 128, **ends: Any) -> LanguageModel:
    """Grouped attention and a gated MLP."""
    return uniform("", layers, h, Attention(a, k, d), Mlp(f), v, **ends)


def _gpt(layers: int, h: int, a: int, v: int = 51200, **ends: Any) -> LanguageModel:
    """Attention of all heads and an MLP of two matrices, 4 h wide; the head is the embedding."""
    return uniform("", layers, h, Attention(a, a, h // a), Mlp(4 * h, gated=False), v, norms=4, tied=True, **ends)


def _routed(
    layers: int, h: int, a: int, k: int, v: int, experts: Experts, dense: tuple[int, int] = (0, 1), **ends: Any
) -> LanguageModel:
    """Experts in every layer but the first ones."""
    first = (dense[0], Mlp(dense[1]))
    return uniform("", layers, h, Attention(a, k, 128), experts, v, dense=first, **ends)


def _sliding(model: LanguageModel, window: int, every: int) -> LanguageModel:
    """One layer in so many attends to all tokens, the others to a window."""
    (kind,) = model.kinds
    assert isinstance(kind.mixer, Attention)
    slides = replace(kind, mixer=replace(kind.mixer, window=window))
    order = tuple(0 if (index + 1) % every else 1 for index in range(model.layers))
    return replace(model, kinds=(slides, kind), order=order)


def _latent(
    layers: int, h: int, heads: int, v: int, experts: Experts, dense: tuple[int, int], **ends: Any
) -> LanguageModel:
    mixer = LatentAttention(heads, 1536, 512, 128, 64, 128)
    return uniform("", layers, h, mixer, experts, v, dense=(dense[0], Mlp(dense[1])), **ends)


def _every_second(layers: int, h: int, f: int, mixer: Attention, experts: Experts, v: int) -> LanguageModel:
    """Experts in every second layer."""
    kinds = LayerKind(mixer, Mlp(f)), LayerKind(mixer, experts)
    return LanguageModel("", h, v, kinds, tuple(index % 2 for index in range(layers)))


def _hybrid(
    h: int, v: int, counts: tuple[int, int, int], mixers: tuple[Mixer, Mixer], mlp: Mlp | Experts
) -> LanguageModel:
    """Layers of state space, of attention, and of an MLP or experts, spread evenly, each a part of its own."""
    kinds = LayerKind(mixers[0], None, 1), LayerKind(mixers[1], None, 1), LayerKind(None, mlp, 1)
    total, taken, order = sum(counts), [0, 0, 0], []
    for index in range(total):
        behind = [(index + 1) * count / total - done for count, done in zip(counts, taken, strict=True)]
        kind = max(range(3), key=lambda item: behind[item])
        taken[kind] += 1
        order.append(kind)
    return LanguageModel("", h, v, kinds, tuple(order))


def _states(heads: int, size: int, state: int = 128) -> StateSpace:
    return StateSpace(heads * size, state, 4, groups=8, heads=heads)


_V2, _V3 = Experts(160, 6, 1536, 3072), Experts(256, 8, 2048, 2048)
_OSS = Attention(64, 8, 64, biases=True, output_biases=True, sinks=True)


def _oss(layers: int, experts: int) -> LanguageModel:
    mlp = Experts(experts, 4, 2880, biases=True, router_biases=True)
    return _sliding(uniform("", layers, 2880, _OSS, mlp, 201088), 128, 2)


def _squared(layers: int, h: int, f: int, a: int, k: int, d: int = 128) -> LanguageModel:
    """Nemotron: an MLP of two matrices, 256 000 words."""
    return uniform("", layers, h, Attention(a, k, d), Mlp(f, gated=False), 256000, norms=4)


_SHAPES: Mapping[str, LanguageModel] = {
    "llama3.1-8b": _llama(32, 4096, 14336, 32, 8, 128256),
    "llama3.1-70b": _llama(80, 8192, 28672, 64, 8, 128256),
    "llama3.1-405b": _llama(126, 16384, 53248, 128, 8, 128256),
    "llama3.2-1b": _llama(16, 2048, 8192, 32, 8, 128256, 64, tied=True),
    "llama3.2-3b": _llama(28, 3072, 8192, 24, 8, 128256, tied=True),
    "llama2-7b": _llama(32, 4096, 11008, 32, 32, 32000),
    "llama2-13b": _llama(40, 5120, 13824, 40, 40, 32000),
    "llama2-34b": _llama(48, 8192, 22016, 64, 8, 32000),
    "llama2-70b": _llama(80, 8192, 28672, 64, 8, 32000),
    "mistral-7b": _llama(32, 4096, 14336, 32, 8, 32000),
    "internlm-7b": _llama(32, 4096, 11008, 32, 32, 103168),
    "internlm-20b": _llama(60, 5120, 13824, 40, 40, 103168),
    "qwen2.5-7b": _llama(28, 3584, 18944, 28, 4, 152064),
    "qwen2.5-32b": _llama(64, 5120, 27648, 40, 8, 152064),
    "qwen2.5-72b": _llama(80, 8192, 29568, 64, 8, 152064),
    "qwen3-8b": _llama(36, 4096, 12288, 32, 8, 151936),
    "qwen3-32b": _llama(64, 5120, 25600, 64, 8, 151936),
    "gemma-7b": _llama(28, 3072, 24576, 16, 16, 256000, 256, tied=True),
    "gemma2-9b": _sliding(_llama(42, 3584, 14336, 16, 8, 256000, 256, tied=True), 4096, 2),
    "gemma2-27b": _sliding(_llama(46, 4608, 36864, 32, 16, 256000, tied=True), 4096, 2),
    "gemma3-12b": _sliding(_llama(48, 3840, 15360, 16, 8, 262208, 256, tied=True), 1024, 6),
    "mixtral-8x7b": _routed(32, 4096, 32, 8, 32000, Experts(8, 2, 14336)),
    "grok1-314b": _routed(64, 6144, 48, 8, 131072, Experts(8, 2, 32768), tied=True),
    "qwen3-30b-a3b": _routed(48, 2048, 32, 4, 151936, Experts(128, 8, 768)),
    "glm-4.5": _routed(92, 5120, 96, 8, 151552, Experts(160, 8, 1536, 1536), (3, 12288)),
    "glm-4.5-air": _routed(46, 4096, 96, 8, 151552, Experts(128, 8, 1408, 1408), (1, 10944)),
    "llama4-scout": _routed(48, 5120, 40, 8, 202048, Experts(16, 1, 8192, 8192)),
    "llama4-maverick": _every_second(48, 5120, 16384, Attention(40, 8, 128), Experts(128, 1, 8192, 8192), 202048),
    "gpt-oss-120b": _oss(36, 128),
    "gpt-oss-20b": _oss(24, 32),
    "deepseek-v2": _latent(60, 5120, 128, 102400, _V2, (1, 12288)),
    "deepseek-v3": replace(LANGUAGE_MODELS["deepseek-v3"], mtp_layers=0),
    "kimi-k2": _latent(61, 7168, 64, 163840, Experts(384, 8, 2048, 2048), (1, 18432)),
    "nemotron4-15b": _squared(32, 6144, 24576, 48, 8),
    "nemotron4-340b": _squared(96, 18432, 73728, 96, 8, 192),
    "nemotron-8b": _squared(32, 4096, 16384, 32, 32),
    "nemotron-22b": _squared(40, 6144, 24576, 48, 48),
    "nemotron3-nano": _hybrid(
        2688, 131072, (23, 6, 23), (_states(64, 64), Attention(32, 2, 128)), Experts(128, 6, 1856, 3712, gated=False)
    ),
    "nemotron3-super": _hybrid(
        4096, 131072, (40, 8, 40), (_states(128, 64), Attention(32, 2, 128)),
        Experts(512, 22, 2688, 5376, gated=False, latent=1024)
    ),
    "nemotron3-ultra": _hybrid(
        8192, 131072, (48, 12, 48), (_states(256, 64), Attention(64, 2, 128)),
        Experts(512, 22, 5120, 10240, gated=False, latent=2048)
    ),
    "nemotronh-56b": _hybrid(
        8192, 131072, (54, 10, 54), (_states(256, 64, 256), Attention(64, 8, 128)), Mlp(32768, gated=False)
    ),
    "gpt3-5b": _gpt(24, 4096, 32),
    "gpt3-20b": _gpt(44, 6144, 48),
    "gpt3-40b": _gpt(48, 8192, 64),
    "gpt3-126m": _gpt(12, 768, 12),
    "gpt-7b-gqa": uniform("", 32, 4096, Attention(32, 8, 128), Mlp(16384, gated=False), 131584, norms=4),
    "megatron-3.6b": _gpt(30, 3072, 32),
    "megatron-7.5b": _gpt(36, 4096, 32),
    "megatron-18b": _gpt(40, 6144, 48),
    "megatron-145b": _gpt(80, 12288, 96),
    "mpt-1b": _gpt(24, 2048, 16, 50368),
    "mpt-3b": _gpt(32, 2560, 20, 50368),
    "mpt-7b": _gpt(32, 4096, 32, 50368),
    "mpt-13b": _gpt(40, 5120, 40, 50368),
    "mpt-30b": _gpt(48, 7168, 56, 50368),
    "mpt-70b": _gpt(80, 8192, 64, 50368),
}  # fmt: skip

_NAMES = {"llama3-8b": "llama3.1-8b", "qwen3-235b-a22b": "qwen3-235b", "qwen3-30b": "qwen3-30b-a3b"}
_SLICED = {"deepseekv3": "deepseek-v3", "deepseekv2": "deepseek-v2"}

PUBLISHED_MODELS: Mapping[str, LanguageModel] = MappingProxyType(
    {**LANGUAGE_MODELS, **{name: replace(model, name=name) for name, model in _SHAPES.items()}}
)
"""By name."""


def published_model(name: str) -> LanguageModel | None:
    """A model by its name or another that is in use; so many layers of one (`...-4-layers`); None: no such name."""
    model = PUBLISHED_MODELS.get(_NAMES.get(name, name))
    cut = re.fullmatch(r"(.+)-(\d{1,4})-layers", name)
    if model is not None or cut is None:
        return model
    base = PUBLISHED_MODELS.get(_NAMES.get(cut[1], _SLICED.get(cut[1], cut[1])))
    if base is None:
        return None
    # A slice has layers as most are, none of the first ones without experts.
    order = (base.order[-1],) * int(cut[2]) if base.experts else base.order[: int(cut[2])]
    return replace(base, name=name, order=order)
