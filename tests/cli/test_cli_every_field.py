"""Every field of every kind of instance once at a legal value that is not its default: no command falls over it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run, write
from tests.support.every_field import Change, Edits, Field, Schema, edited, is_legal
from tests.support.paths import INSTANCES
from tests.support.smallest import SMALLEST
from topoopt.files.documents import parse_document
from topoopt.formats.table import EXPORTERS
from topoopt.kinds import kind_named

PACKED = 12
"""Changes that stand in one document, for commands that take their time."""

REFUSED = {0, 2, 3, 4, 5, 6, 7, 8}
"""Exit codes of commands that ended as they should; 1 is a fault of the program."""

HEAD: dict[str, Any] = {
    "schema_version": 1,
    "kind": "llm-training",
    "name": "case",
    "model": {"layers": 4, "hidden": 512, "ffn_hidden": 1024, "heads": 8, "kv_heads": 4, "vocabulary": 1000},
    "batch": {"sequences": 8, "length": 512},
    "cluster": {
        "servers": 4, "gpus_per_server": 2, "device": "a100", "intra_server_gbps": 2400, "degree": 4, "link_gbps": 100,
    },
    "strategy": {"tensor": 1, "context": 1, "pipeline": 2, "micro_batch": 1, "zero": 0, "recompute": "none"},
    "fabrics": ["ideal-switch"],
    "search": {"top": 2},
}  # fmt: skip
EXPERTS = {"experts": {"count": 8, "per_token": 2, "hidden": 256}}
LATENT = {
    "latent": {"query_rank": 64, "key_value_rank": 64, "plain_size": 32, "rotary_size": 32, "value_size": 32},
}
NUMBERS = {"products_a100": 0.5, "iteration_ms": 20.0}
TRAINING: dict[str, dict[str, Any]] = {
    "dense": {**HEAD, "efficiencies": NUMBERS},
    "experts": {**HEAD, "model": {**HEAD["model"], **EXPERTS, **LATENT}},
    "layers": {
        **HEAD,
        "model": {
            "hidden": 512,
            "vocabulary": 1000,
            "kinds": {
                "full": {"count": 1, "attention": {"heads": 8, "kv_heads": 4, "head_size": 64}, "mlp": {"hidden": 512}},
                "latent": {
                    "count": 1,
                    "latent_attention": {
                        "heads": 8,
                        "query_rank": 64,
                        "key_value_rank": 64,
                        "plain_size": 32,
                        "rotary_size": 32,
                        "value_size": 32,
                    },
                    "experts": {"count": 8, "per_token": 2, "hidden": 256},
                },
                "delta": {
                    "count": 1,
                    "delta_attention": {
                        "key_heads": 4,
                        "key_size": 32,
                        "value_heads": 8,
                        "value_size": 32,
                        "kernel": 4,
                    },
                },
                "lightning": {"count": 1, "lightning_attention": {"heads": 8, "head_size": 64}},
                "states": {"count": 1, "state_space": {"inner": 1024, "state": 32, "kernel": 4, "heads": 16}},
            },
        },
        "cluster": {**HEAD["cluster"], "device": {"peak_tflops": 300.0, "memory_gbytes_per_s": 2000.0}},
    },
    "by-name": {
        **{key: value for key, value in HEAD.items() if key != "fabrics"},
        "model": {"huggingface": "config.json"},
    },
    "rails": {
        **{key: value for key, value in HEAD.items() if key != "fabrics"},
        "cluster": {**HEAD["cluster"], "interfaces": "per-gpu"},
        "switching": {"delay": "3ms"},
    },
    "pods": {
        **{key: value for key, value in HEAD.items() if key != "fabrics"},
        "pods": {"strategies": 4},
        "search": {"top": 2, "topology": "dag", "method": "branch-and-bound"},
    },
}
"""Small instances that have all sections between them."""

WORDS = {
    "device": "h100",
    "like": "a100",
    "kinds": {"full": {"count": 2, "attention": {"heads": 4, "kv_heads": 4, "head_size": 64}, "mlp": {"hidden": 256}}},
    "pattern": ["full", "latent", "delta", "states", "lightning"],
    "delay": "25us",
    "huggingface": "other.json",
    "topology": "dag",
    "method": "branch-and-bound",
    "order": ["tensor", "pipeline", "context", "data"],
    "fabrics": ["fat-tree"],
    "batch": {"sequences": 4, "length": 256},
    "efficiencies": {"layer_us": 100.0},
}
"""Legal values that schemas do not tell."""

CONFIG = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "vocab_size": 1000,
    "num_attention_heads": 8,
}  # fmt: skip


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A folder with two models of Hugging Face."""
    write(tmp_path, CONFIG, "config.json")
    write(tmp_path, {**CONFIG, "num_hidden_layers": 6}, "other.json")
    return tmp_path


def _packed(document: Mapping[str, Any], changes: list[Change], file: str) -> Iterator[dict[str, Any]]:
    """Documents of many changes each, as far as they go together."""
    left = changes
    while left:
        made, later, count = dict(document), list[Change](), 0
        for field, edits in left:
            tried = _tried(made, edits, file) if count < PACKED else None
            if tried is None:
                later.append((field, edits))
            else:
                made, count = tried, count + 1
        assert count
        yield made
        left = later


def _tried(document: Mapping[str, Any], edits: Edits, file: str) -> dict[str, Any] | None:
    """With these edits too, where they go with the others."""
    try:
        made = edited(document, edits)
    except (KeyError, IndexError, TypeError):  # another edit made another section of the place
        return None
    return made if is_legal(made, file) else None


def _solved(file: Path, out: Path, kind: str) -> None:
    """All commands that take the instance or its solution."""
    assert run("validate", file).code == 0
    budget = ("--budget", 3) if kind_named(kind).takes_budget else ()
    assert run("solve", file, "--output", out, "--time-limit", 1, *budget, "--force").code in REFUSED
    solution = out / "solution.json"
    if not solution.exists():
        return
    assert run("check", solution).code in REFUSED
    assert run("explain", solution, "--time-limit", 1).code in REFUSED
    for name, exporter in EXPORTERS.items():
        if kind in exporter.kinds:
            words = ("--to", name, "-o", out / name, "--force")
            assert run("export", solution, *words).code in REFUSED


def test_every_field_of_language_models(configs: Path) -> None:
    """Each field is changed in one of the instances, and none stands in the way of `evaluate`."""
    schema, done, number = Schema("llm-training", WORDS), set[Field](), itertools.count()
    for name, document in TRAINING.items():
        assert is_legal(document, str(configs / name))
        changes = [one for one in schema.changes(document, str(configs / name)) if one[0] not in done]
        for field, edits in changes:
            file = write(configs, edited(document, edits))
            assert run("llm", "evaluate", file).code in REFUSED, edits
            done.add(field)
        for made in _packed(document, changes, str(configs / name)):
            _solved(write(configs, made), configs / f"out{next(number)}", "llm-training")
    carried = {field for field in schema.fields() if field[1] == "files"}  # of every kind: tests/kinds/test_embedded.py
    assert schema.fields() - done == carried


@pytest.mark.parametrize("case", [name for name in SMALLEST if name != "llm-training" and SMALLEST[name]])
def test_every_field_of_the_smallest_instances(case: str, tmp_path: Path) -> None:
    """Of the other kinds: fields of the sections that these have."""
    file = INSTANCES / str(SMALLEST[case])
    document = parse_document(file).data
    assert isinstance(document, dict)
    for beside in file.parent.glob(f"{file.stem}*.csv"):
        shutil.copy(beside, tmp_path)
    changes = list(Schema(document["kind"], {}).changes(document, str(file)))
    assert len(changes) > 5
    for number, made in enumerate(_packed(document, changes, str(file))):
        _solved(write(tmp_path, made), tmp_path / str(number), document["kind"])
