"""The section `model` of instance files: a name, a file of Hugging Face, or sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath

from topoopt.core.errors import InputError, Problem
from topoopt.core.language_model import Experts, LanguageModel, LatentAttention
from topoopt.files.faults import nearest_text, value_text
from topoopt.files.sections import existing_file
from topoopt.kinds.llm_training.huggingface import read_huggingface
from topoopt.kinds.llm_training.model_schema import HuggingFaceModel, ModelSection
from topoopt.workloads.llm_training.presets import LANGUAGE_MODELS


def model_of(section: str | HuggingFaceModel | ModelSection, folder: FilePath) -> tuple[LanguageModel, tuple[str, ...]]:
    """The model that the section states, and notes on how its file was read.

    Raises:
        InputError: paths are relative to the section.
    """
    if isinstance(section, str):
        if section not in LANGUAGE_MODELS:
            allowed = nearest_text(section, LANGUAGE_MODELS)
            raise InputError([Problem("no such model", value=value_text(section), allowed=allowed)])
        return LANGUAGE_MODELS[section], ()
    if isinstance(section, HuggingFaceModel):
        model, notes = _of_file(section.huggingface, folder)
        return _checked(model), notes
    return _checked(_of_sizes(section)), ()


def _of_file(name: str, folder: FilePath) -> tuple[LanguageModel, tuple[str, ...]]:
    try:
        file = existing_file(folder, name)
    except InputError as error:
        raise InputError([replace(one, path="huggingface") for one in error.problems]) from None
    return read_huggingface(file)


def _of_sizes(section: ModelSection) -> LanguageModel:
    if section.head_size is None and section.hidden % section.heads:
        allowed = f"divisors of hidden {section.hidden}, or head_size"
        raise InputError([Problem("indivisible heads", path="heads", value=str(section.heads), allowed=allowed)])
    sizes = section.model_dump(exclude={"experts", "latent", "kv_heads", "head_size"})
    return LanguageModel(
        "custom",
        kv_heads=section.kv_heads or section.heads,
        head_size=section.head_size or section.hidden // section.heads,
        experts=None if section.experts is None else Experts(**section.experts.model_dump()),
        latent=None if section.latent is None else LatentAttention(**section.latent.model_dump()),
        **sizes,
    )


def _checked(model: LanguageModel) -> LanguageModel:
    """A model whose sizes go together.

    Raises:
        InputError: they do not.
    """
    problems = []
    if model.heads % model.kv_heads:
        allowed = f"divisors of the {model.heads} heads"
        problems.append(Problem("indivisible heads", path="kv_heads", value=str(model.kv_heads), allowed=allowed))
    experts = model.experts
    if experts is not None and experts.per_token > experts.count:
        text, value = "more experts a token than there are", str(experts.per_token)
        problems.append(Problem(text, path="experts.per_token", value=value, allowed=f"at most {experts.count}"))
    if experts is not None and experts.dense_layers >= model.layers:
        text, value = "no layer is left for experts", str(experts.dense_layers)
        problems.append(Problem(text, path="experts.dense_layers", value=value, allowed=f"less than {model.layers}"))
    if problems:
        raise InputError(problems)
    return model
