"""The `config.json` of a model of Hugging Face transformers as the shape of its layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from topoopt.core.language_model import LanguageModel
from topoopt.files.documents import parse_document
from topoopt.files.faults import Fault, key_text, value_text
from topoopt.files.findings import Findings
from topoopt.files.reader_fields import named
from topoopt.kinds.llm_training.huggingface_experts import (
    DeepSeekConfig,
    MixtralConfig,
    Qwen2ExpertsConfig,
    Qwen3ExpertsConfig,
)
from topoopt.kinds.llm_training.huggingface_families import (
    MOST_NAMED,
    Config,
    Gpt2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)
from topoopt.kinds.llm_training.huggingface_fields import EVERY, FIELDS

HALF_PRECISION = ("bfloat16", "float16", "auto")

FAMILIES: Mapping[str, type[Config]] = {
    "llama": LlamaConfig,
    "mistral": MistralConfig,
    "mixtral": MixtralConfig,
    "qwen2": Qwen2Config,
    "qwen2_moe": Qwen2ExpertsConfig,
    "qwen3": Qwen3Config,
    "qwen3_moe": Qwen3ExpertsConfig,
    "deepseek_v3": DeepSeekConfig,
    "kimi_k2": DeepSeekConfig,
    "gpt2": Gpt2Config,
}
"""By `model_type`."""


def read_huggingface(file: Path) -> tuple[LanguageModel, tuple[str, ...]]:
    """The model of a `config.json`, and notes on what was assumed and not read.

    Raises:
        InputError: everything wrong with the file, keys that change the model and are not covered included; or a family
            that is not covered.
    """
    document, findings = parse_document(file), Findings()
    name = findings.shaped(Config, document).model_type
    if name not in FAMILIES:
        findings.add([Fault(("model_type",), "not covered", value_text(name), f"one of: {', '.join(FAMILIES)}")])
        findings.settled(document, None)
    family, data = FAMILIES[name], document.data
    assert isinstance(data, dict)
    fitting = findings.shape(family, document)
    findings.add(_refused(name, family, data))
    findings.add(() if fitting is None else fitting.faults())
    config = findings.settled(document, fitting)
    notes = (*config.notes(), *_notes(name, config, data))
    return config.model(name), tuple(f"{file.name}: {note}" for note in notes)


def _refused(name: str, family: type[Config], data: Mapping[str, Any]) -> Iterator[Fault]:
    """Keys of other families, and of what no family here has."""
    for key, value in data.items():
        if key in family.model_fields or key not in FIELDS:
            continue
        use, meaning = FIELDS[key]
        if use != "noted" and value and not (key in EVERY and value == 1):
            none = "1, " if key in EVERY else ""
            text = f"not covered in model_type {name}" + (f": {meaning}" if use == "refused" else "")
            yield Fault((key,), text, value_text(value), f"left out, {none}null, false, 0 or empty")


def _notes(name: str, config: Config, data: Mapping[str, Any]) -> Iterator[str]:
    absent = [f"{key} {getattr(config, key)}" for key in config.assumed if key not in data]
    if absent:
        yield f"left out, and taken as the default of {name}: {', '.join(absent)}"
    stored = [f"{key} {value_text(data[key])}" for key in ("torch_dtype", "dtype") if data.get(key)]
    stored = [text for text in stored if not any(usual in text for usual in HALF_PRECISION)]
    quantized = data.get("quantization_config")
    if quantized:
        method = quantized.get("quant_method") if isinstance(quantized, dict) else quantized
        stored.append(f"quantization_config {value_text(method)}")
    if stored:
        yield f"{', '.join(stored)}: how the checkpoint is stored; formats says what is trained"
    told = {text.partition(" ")[0] for text in stored}
    known = [key for key in data if key in FIELDS and FIELDS[key][0] == "noted" and key not in told]
    yield from named("keys that change no size, not used", known)
    unknown = [key_text(key) for key in data if key not in FIELDS]
    if unknown:
        more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
        yield f"keys that were not read: {', '.join(unknown[:MOST_NAMED])}{more}"
