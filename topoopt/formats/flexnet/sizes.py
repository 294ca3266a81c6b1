"""Sizes of a model recovered from the operator names and memory figures of a measured profile.

Widths, table shapes and heads stand in the names (`Dense_<in>_<out>`, `Embed_<rows>x<dim>`, ...); sequence length,
image size and lookups follow from the memory of one operator (every buffer twice, value and gradient; convolutions
once). Layer counts leave no trace: they are those of the TopoOpt paper for the server count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from topoopt.core.errors import InputError, Problem
from topoopt.workloads.models import find_model
from topoopt.workloads.profile_costs import Profile

LAYER_COUNTS: Mapping[str, Mapping[int, Mapping[str, int]]] = {
    "dlrm": {n: {"bottom_layers": 7, "top_layers": 15} for n in (16, 32, 128)},
    "candle": {
        16: {"feature_layers": 12, "dense_layers": 8},
        32: {"feature_layers": 12, "dense_layers": 8},
        128: {"feature_layers": 16, "dense_layers": 8},
    },
    "bert": {16: {"layers": 6}, 32: {"layers": 12}, 128: {"layers": 12}},
    "vgg": {},
    "resnet": {},
    "ncf": {128: {"mlp_layers": 8}},
}
"""Per model and server count, what a profile does not tell: operator counts of the released task graphs."""

COUNT_NAMES: Mapping[str, tuple[str, ...]] = {
    "dlrm": ("bottom_layers", "top_layers"),
    "candle": ("feature_layers", "dense_layers"),
    "bert": ("layers",),
    "vgg": (),
    "resnet": (),
    "ncf": ("mlp_layers",),
}

IMAGE_SIDES = range(16, 4097)


@dataclass(frozen=True)
class _Names:
    """Shapes read from the operator names of a profile."""

    profile: Profile
    gpus: int

    def shapes(self, pattern: str) -> list[tuple[int, ...]]:
        """Numbers in all names that match, ascending."""
        found = (re.fullmatch(pattern, name) for name in self.profile.operators)
        return sorted(tuple(int(group) for group in match.groups()) for match in found if match)

    @property
    def dense(self) -> list[tuple[int, ...]]:
        """(in, out) of the dense layers."""
        return self.shapes(r"Dense_(\d{1,9})_(\d{1,9})")

    def memory(self, key: str) -> tuple[int, int]:
        """Bytes on one GPU and samples of that GPU, for the largest split measured."""
        table = self.profile.operators[key]
        parts = max(table)
        return table[parts].gpu_memory_bytes, self.profile.samples // (parts * self.gpus)


def _one(values: list[int], what: str) -> int:
    """The only candidate.

    Raises:
        ValueError: none or several.
    """
    distinct = sorted(set(values))
    if len(distinct) != 1:
        raise ValueError(f"{what}: candidates {distinct[:10]}")
    return distinct[0]


def _lookups(names: _Names, rows: int, dim: int) -> int:
    """Indices per sample of a table: its memory less weights and outputs, 16 bytes an index."""
    memory = names.profile.operators[f"Embed_{rows}x{dim}"][1].gpu_memory_bytes
    samples = names.profile.samples
    lookups, rest = divmod(memory - 8 * rows * dim - 8 * samples * dim, 16 * samples)
    return _one([lookups] if rest == 0 else [], "lookups per table")


def _dlrm(names: _Names) -> dict[str, int]:
    rows, dim = _one_pair(names.shapes(r"Embed_(\d{1,12})x(\d{1,6})"), "tables")
    top = _one([i for i, o in names.dense if o == 1], "width of the top MLP")
    squares = [i for i, o in names.dense if i == o]
    bottom = _one([w for w in squares if w != top] or squares, "width of the bottom MLP")
    joined = _one([i for i, o in names.dense if o == top and i != top], "inputs of the top MLP")
    tables, rest = divmod(joined - bottom, dim)
    return {
        "tables": _one([tables] if rest == 0 and tables > 0 else [], "number of tables"),
        "table_rows": rows,
        "embedding_dim": dim,
        "lookups": _lookups(names, rows, dim),
        "bottom_width": bottom,
        "top_width": top,
    }


def _one_pair(shapes: list[tuple[int, ...]], what: str) -> tuple[int, int]:
    if len(shapes) != 1:
        raise ValueError(f"{what}: candidates {shapes[:10]}")
    return shapes[0][0], shapes[0][1]


def _candle(names: _Names) -> dict[str, int]:
    return {
        "feature_width": _one([o for i, o in names.dense if i == 942], "width of the encoders"),
        "dense_width": _one([i for i, o in names.dense if o == 1 and i != 1], "width of the dense stack"),
    }


def _bert(names: _Names) -> dict[str, int]:
    hidden = _one([i for i, o in names.dense if i == o], "hidden width")
    text = str(hidden)
    joined = [str(shape[0]) for shape in names.shapes(r"MultiHeadAttention_(\d{1,18})")]
    heads = _one([int(t[len(text) :]) for t in joined if t.startswith(text) and t != text], "heads")
    memory, samples = names.memory(f"Dense_{hidden}_{hidden}")
    sequence, rest = divmod(memory - 8 * (hidden * hidden + hidden), 16 * hidden * samples)
    return {"hidden": hidden, "heads": heads, "sequence": _one([sequence] if rest == 0 else [], "sequence length")}


def _image_size(names: _Names, key: str, weights: int, output: Callable[[int], int]) -> int:
    """Side of the image from the memory of the first convolution; `output` gives the side of its output."""
    memory, samples = names.memory(key)
    sides = [s for s in IMAGE_SIDES if 4 * (weights + samples * (3 * s * s + 64 * output(s) ** 2)) == memory]
    return _one(sides, "image size")


def _vgg(names: _Names) -> dict[str, int]:
    hidden = _one([i for i, o in names.dense if i == o], "width of the dense layers")
    return {
        "hidden": hidden,
        "classes": _one([o for i, o in names.dense if i == hidden and o != hidden], "classes"),
        "image_size": _image_size(names, "Conv2D_3_3_64", 3 * 9 * 64 + 64, lambda side: side + 2),
    }


def _resnet(names: _Names) -> dict[str, int]:
    return {
        "classes": _one([o for _, o in names.dense], "classes"),
        "image_size": _image_size(names, "Conv2D_7_7_64", 3 * 49 * 64 + 64, lambda side: (side - 1) // 2 + 1),
    }


def _ncf(names: _Names) -> dict[str, int]:
    embeds = names.shapes(r"Embed_(\d{1,12})x(\d{1,6})")
    rows = _one([shape[0] for shape in embeds], "rows of the tables")
    width = _one([i for i, o in names.dense if i == o], "width of the MLP")
    product = _one([i for i, o in names.dense if o == 1 and i != width + 1], "width of the product")
    joined = _one([i for i, o in names.dense if o == width and i != width], "inputs of the MLP")
    dims = [shape[1] for shape in embeds]
    pairs = [(g, m) for g in dims for m in dims if product % g == 0 and 2 * (product // g) * m == joined]
    gmf, mlp = _one_pair([*pairs], "row widths of the tables")
    return {
        "tables": product // gmf,
        "table_rows": rows,
        "gmf_dim": gmf,
        "mlp_dim": mlp,
        "lookups": _lookups(names, rows, gmf),
        "mlp_width": width,
    }


RULES: Mapping[str, Callable[[_Names], dict[str, int]]] = {
    "dlrm": _dlrm,
    "candle": _candle,
    "bert": _bert,
    "vgg": _vgg,
    "resnet": _resnet,
    "ncf": _ncf,
}


def infer_sizes(model: str, profile: Profile, *, gpus_per_server: int = 4) -> dict[str, int]:
    """Sizes of the model a profile was measured for, its global batch, and known layer counts.

    Layer counts are those of the TopoOpt paper for the profile's server count; for other counts they are left out.

    Raises:
        InputError: the profile is not of this model, or no rule exists for the model.
    """
    find_model(model)
    file = profile.source or None
    if model not in RULES:
        raise InputError([Problem("no profile rule for model", file=file, value=model, allowed=", ".join(RULES))])
    try:
        sizes = RULES[model](_Names(profile, gpus_per_server))
    except (ValueError, KeyError, ZeroDivisionError) as error:
        text = f"missing operator {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            [Problem(f"not a profile of {model}: {text}", file=file, value=", ".join(sorted(profile.operators))[:200])]
        ) from None
    return {**sizes, "global_batch": profile.samples, **LAYER_COUNTS[model].get(profile.servers, {})}


def missing_counts(model: str, sizes: Mapping[str, int]) -> list[str]:
    """Counts a profile does not tell and `sizes` lacks."""
    return [name for name in COUNT_NAMES.get(model, ()) if name not in sizes]
