"""Shape of the section `model` of instance files of kind `llm-training`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from topoopt.files.fields import FileModel
from topoopt.files.file_part import is_none

MOST_LAYERS = 10_000
MOST_EXPERTS = 65_536
MOST_PER_TOKEN = 1024
Width = Annotated[int, Field(ge=1, le=2**24)]


class ExpertsSection(FileModel):
    """Experts that stand in a layer instead of one MLP."""

    count: int = Field(ge=1, le=MOST_EXPERTS, description="routed experts of a layer")
    per_token: int = Field(ge=1, le=MOST_PER_TOKEN, description="routed experts that a token goes to")
    hidden: Width = Field(description="inner width of an expert")
    shared: int = Field(default=0, ge=0, le=1000, description="experts of the same width that all tokens go to")
    dense_layers: int = Field(default=0, ge=0, le=MOST_LAYERS, description="first layers without experts")
    node_limit: int | None = Field(default=None, ge=1, description="servers that the experts of a token lie on at most")


class LatentSection(FileModel):
    """Attention through low-rank projections."""

    query_rank: int = Field(ge=0, le=2**24, description="0: queries are not compressed")
    key_value_rank: Width
    plain_size: Width = Field(description="part of a key without rotary position")
    rotary_size: Width = Field(description="part of a key with rotary position")
    value_size: Width


class ModelSection(FileModel):
    """A model by its sizes."""

    layers: int = Field(ge=1, le=MOST_LAYERS)
    hidden: Width
    ffn_hidden: Width = Field(description="inner width of the MLP")
    heads: Width
    kv_heads: Width | None = Field(default=None, description="heads of keys and values; default: as heads")
    head_size: Width | None = Field(default=None, description="default: hidden / heads")
    vocabulary: Width
    positions: int = Field(default=0, ge=0, le=2**24, description="learned positions; 0: rotary")
    gated: bool = Field(default=True, description="the MLP has three matrices")
    biases: bool = Field(default=False, description="matrices and norms have biases")
    attention_biases: bool = Field(default=False, description="projections of queries, keys and values have biases")
    query_key_norms: bool = False
    tied: bool = Field(default=False, description="the head is the embedding")
    experts: ExpertsSection | None = None
    latent: LatentSection | None = None
    mtp_layers: int = Field(default=0, ge=0, le=16, description="layers that predict further tokens")
    attention_window: Width | None = Field(
        default=None, exclude_if=is_none, description="keys that a token attends to at most; null: all before it"
    )


class HuggingFaceModel(FileModel):
    """A model by its `config.json`."""

    huggingface: str = Field(min_length=1, max_length=4096, description="file, relative to that of the instance")


def model_shape(value: object) -> str:
    """Which shape of a model is meant: a name, a file or sizes; the answer names the type."""
    if isinstance(value, HuggingFaceModel) or (isinstance(value, dict) and "huggingface" in value):
        return "HuggingFaceModel"
    return "ModelSection" if isinstance(value, ModelSection | dict) else "str"


ModelField = Annotated[
    Annotated[str, Tag("str")]
    | Annotated[HuggingFaceModel, Tag("HuggingFaceModel")]
    | Annotated[ModelSection, Tag("ModelSection")],
    Discriminator(model_shape),
]
