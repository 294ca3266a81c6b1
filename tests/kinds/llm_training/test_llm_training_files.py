"""Instance files of kind `llm-training`: what is wrong is said at once, with path, value and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import refusals, run
from topoopt.core.parallelism import ParallelStrategy
from topoopt.kinds.files import json_schema
from topoopt.kinds.llm_training.words import strategy_words
from topoopt.page.text import milliseconds, percent


def instance(**changes: Any) -> dict[str, Any]:
    """A GPT of 4 layers on 8 GPUs."""
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "llm-training",
        "name": "small",
        "model": {"layers": 4, "hidden": 64, "ffn_hidden": 256, "heads": 4, "vocabulary": 512, "gated": False},
        "batch": {"sequences": 16, "length": 32},
        "cluster": {
            "servers": 2, "gpus_per_server": 4, "device": "a100", "intra_server_gbps": 2400.0, "degree": 4,
            "link_gbps": 200.0,
        },
    }  # fmt: skip
    return {**document, **changes}


def _evaluated(folder: Path, document: dict[str, Any], *words: object) -> Any:
    path = folder / "x.json"
    path.write_text(json.dumps(document))
    return run("llm", "evaluate", path, *words, "--json")


def test_keys_of_an_evaluation(tmp_path: Path) -> None:
    """All keys of the answer; its parts add up."""
    result = _evaluated(tmp_path, instance(), "--set", "tensor=2,pipeline=2,chunks=2,micro_batch=2")
    assert result.code == 0, result.stderr
    found = result.json
    parts = {"forward", "backward", "recompute", "bubble", "tensor", "context", "expert", "pipeline", "data"}
    assert set(found["breakdown_s"]) == parts | {"optimizer"}
    held = {"weights", "gradients", "optimizer", "activations", "logits", "working", "gathered", "total"}
    assert set(found["memory_gib"]) == held
    assert found["memory_margin_gib"] == pytest.approx(80 - found["memory_gib"]["total"])
    largest = max(held - {"total"}, key=lambda part: float(found["memory_gib"][part]))
    assert found["memory_largest_part"] == largest
    assert found["iteration_time_s"] == pytest.approx(sum(found["breakdown_s"].values()))
    assert found["memory_gib"]["total"] == pytest.approx(sum(found["memory_gib"].values()) / 2)
    assert found["strategy"]["data"] == 2
    assert found["strategy"]["schedule"] == "interleaved"
    # 512 tokens on 8 GPUs; 6 operations for each weight of matrices, 3 s h for attention a layer, causal.
    rate = 512 / found["iteration_time_s"] / 8
    assert found["tokens_per_s_per_gpu"] == pytest.approx(rate)
    flops = 6 * (4 * (4 * 64 * 64 + 2 * 64 * 256) + 64 * 512) + 3 * 4 * 2 * 32 * 64
    assert found["tflops_per_gpu"] == pytest.approx(rate * flops / 1e12)
    assert found["mfu"] == pytest.approx(found["tflops_per_gpu"] / 312)
    assert found["fits"] is True


def test_text_for_people(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(instance()))
    result = run("llm", "evaluate", path, "--set", "tensor=4")
    assert result.code == 0
    # 512 tokens an iteration on 8 GPUs; `mfu` is held against the operations of the model above.
    found = run("llm", "evaluate", path, "--set", "tensor=4", "--json").json
    time_s = 512 / 8 / found["tokens_per_s_per_gpu"]
    said = f"One iteration takes {milliseconds(1e3 * time_s)} on 8 GPUs, {percent(found['mfu'])} of the peak"
    assert found["answer"].startswith(f"{said}; the fullest GPU holds ")
    assert " ".join(result.stdout.split()).startswith(found["answer"])
    assert "s an iteration ± " in result.stdout
    assert "TFLOP/s a GPU" in result.stdout


def test_parts_of_a_strategy_are_multiplied_with_one_sign() -> None:
    """As in all other summaries."""
    said = strategy_words(ParallelStrategy(pipeline=4, chunks=2, data=8, expert=4, expert_tensor=2))
    assert "pipeline 4 × 2 chunks" in said
    assert "expert 4 × 2" in said


def test_memory_that_does_not_fit_is_told(tmp_path: Path) -> None:
    cluster = {**instance()["cluster"], "gpu_memory_gib": 1e-4, "headroom_gib": 0.0}
    result = _evaluated(tmp_path, instance(cluster=cluster))
    found = result.json
    assert result.code == 3
    assert found["fits"] is False
    assert "; but it does not fit: the fullest GPU would hold " in found["answer"]
    assert " GiB of 0.0001 GiB, most of it " in found["answer"]
    for words, full in (((), False), (("--verbose",), True)):
        text = run("llm", "evaluate", tmp_path / "x.json", *words)
        assert text.code == 3
        assert (" ".join(text.stdout.split()) != found["answer"]) == full


def test_all_that_is_wrong_with_a_file_is_said_at_once(tmp_path: Path) -> None:
    document = instance(
        model={**instance()["model"], "kv_heads": 3},
        cluster={**instance()["cluster"], "device": "a10", "interfaces": "per-gpu", "degree": 6, "headroom_gib": 90.0},
        strategy={"tensor": 3, "pipeline": 7, "data": 5},
    )
    result = _evaluated(tmp_path, document)
    assert result.code == 2
    found = {path: message for path, _, message in refusals(result.json)}
    assert found["model.kv_heads"] == "indivisible heads"
    assert found["cluster.device"] == "unknown device"
    assert {"cluster.degree", "cluster.headroom_gib"} <= set(found)


def test_all_that_is_wrong_with_the_space_is_said_at_once(tmp_path: Path) -> None:
    document = instance(strategy={"tensor": [3, 5], "pipeline": 7, "data": 5, "micro_batch": 3, "context": 64})
    result = _evaluated(tmp_path, document)
    found = {path: (value, message) for path, value, message in refusals(result.json)}
    assert found["strategy.tensor"][1] == "indivisible heads"
    assert found["strategy.pipeline"] == ("7", "more stages than layers")
    assert found["strategy.data"][1] == "indivisible batch"
    assert found["strategy.micro_batch"][1] == "indivisible batch"
    assert found["strategy.context"][1] == "indivisible sequence"


def test_values_out_of_range_hide_no_unknown_names(tmp_path: Path) -> None:
    """What the schema refuses, an unknown model, device and fabric, and fewer interfaces than GPUs: one message.

    A value that may be of several shapes has one line, which says all that may stand there.
    """
    document = instance(
        model="gpt-9",
        batch={"sequences": 0, "length": 32},
        cluster={**instance()["cluster"], "device": "b900", "interfaces": "per-gpu", "degree": 6},
        strategy={"tensor": "many", "zero": 7, "schedule": ["1f1b", "2f2b"]},
        fabrics=["moebius"],
    )
    result = _evaluated(tmp_path, document)
    assert result.code == 2
    found = {path: message for path, _, message in refusals(result.json)}
    assert found["model"] == "no such model"
    assert found["cluster.device"] == "unknown device"
    assert found["fabrics[0]"] == "no such fabric"
    assert found["batch.sequences"] == "out of range"
    assert found["strategy.zero"] == found["strategy.tensor"] == "not one of the allowed values"
    assert found["strategy.schedule[1]"] == "not one of the allowed values"
    assert "cluster.degree" in found
    assert len(found) == 8


def test_issues_of_a_strategy_beside_others(tmp_path: Path) -> None:
    """Heads that do not divide are told beside a misspelt key of another section."""
    document = instance(strategy={"tensor": 3, "pipeline": 9}, overlap={"tenser": 0.5})
    found = {path: message for path, _, message in refusals(_evaluated(tmp_path, document).json)}
    assert found == {
        "overlap.tenser": "unknown key tenser",
        "strategy.tensor": "indivisible heads",
        "strategy.pipeline": "more stages than layers",
    }


def test_all_that_is_wrong_with_a_strategy_is_said_at_once(tmp_path: Path) -> None:
    words = (
        "--set",
        "tensor=3,pipeline=9,data=2,expert=2,micro_batch=5",
    )
    result = _evaluated(tmp_path, instance(), *words)
    assert result.code == 2
    found = {(path, message.split(":")[0]) for path, _, message in refusals(result.json)}
    assert ("tensor", "does not divide the 4 heads") in found
    assert ("data", "tensor x context x pipeline x data is not the number of GPUs") in found
    assert ("expert", "the model has no experts") in found
    assert ("pipeline", "more stages than layers") in found
    assert {path for path, _ in found} >= {"micro_batch"}


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("--set", "tensor=2,pipeline=3"), "tensor"),
        (("--set", "pipeline=2,schedule=1f1b,chunks=2"), "chunks"),
        (("--set", "pipeline=2,schedule=interleaved"), "chunks"),
        (("--set", "pipeline=1,chunks=2"), "chunks"),
        (("--set", "tensor=8"), "tensor"),
        (("--set", "micro_batch=3"), "micro_batch"),
        (("--set", "data=1,pipeline=8,zero=3"), "zero"),
        (("--set", "schedule=1f2b"), "--set schedule"),
        (("--set", "recompute=all"), "--set recompute"),
    ],
)
def test_strategies_that_cannot_be(tmp_path: Path, words: tuple[object, ...], path: str) -> None:
    result = _evaluated(tmp_path, instance(), *words)
    assert result.code == 2, result.stdout
    assert path in [problem for problem, _, _ in refusals(result.json)]


@pytest.mark.parametrize("model", ["gpt-5", {"huggingface": "absent.json"}])
def test_models_that_are_not_there(tmp_path: Path, model: Any) -> None:
    result = _evaluated(tmp_path, instance(model=model))
    assert result.code == 2
    assert refusals(result.json)[0][0] in ("model", "model.huggingface")


def test_pinned_values_hold_unless_an_option_says_otherwise(tmp_path: Path) -> None:
    document = instance(strategy={"tensor": 2, "pipeline": [1, 2], "micro_batch": 4, "zero": [0, 1]})
    found = _evaluated(tmp_path, document).json["strategy"]
    assert (found["tensor"], found["pipeline"], found["data"], found["micro_batch"]) == (2, 1, 4, 4)
    assert _evaluated(tmp_path, document, "--set", "tensor=4").json["strategy"]["tensor"] == 4


def test_a_value_that_stands_twice_counts_once(tmp_path: Path) -> None:
    """The same strategies as of values that stand once, each ranked once."""
    once = {"tensor": [2, 4], "pipeline": [1, 2], "zero": [0], "micro_batch": [1], "recompute": ["none"]}
    found = []
    for strategy in (once, {key: [*values, *values] for key, values in once.items()}):
        document = instance(strategy=strategy, fabrics=["ideal-switch"], search={"top": 8})
        (tmp_path / "case.json").write_text(json.dumps(document))
        result = run("solve", tmp_path / "case.json", "--output", tmp_path / "out", "--force", "--json")
        assert result.code == 0, result.stdout + result.stderr
        found.append(json.loads((tmp_path / "out" / "solution.json").read_text()))
    assert found[0]["plan"]["ranked"] == found[1]["plan"]["ranked"]
    assert found[0]["objective"] == found[1]["objective"]


def test_the_schema_is_printed_and_the_kind_is_named() -> None:
    assert json_schema("llm-training")["properties"]["kind"]["const"] == "llm-training"


def test_fields_that_are_gone_are_named(tmp_path: Path) -> None:
    """A file that chose between time models says which one is left, the usual one included."""
    gone = {"time_model": "roofline", "calculon": {"transfers": "rs_ag"}}
    found = {path: message for path, _, message in refusals(_evaluated(tmp_path, instance(**gone)).json)}
    assert found == {
        "time_model": "removed: the roofline model is the only one",
        "calculon": "removed with time_model: calculon; the roofline model is the only one",
    }
