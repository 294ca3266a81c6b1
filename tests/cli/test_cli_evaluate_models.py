"""`topoopt evaluate` on models as their files say, and on batches, layers and experts that do or do not divide."""

from __future__ import annotations

import json
from math import comb
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import Run, refusals, run, write
from topoopt.workloads.step_efficiencies import STEP_EFFICIENCIES

MOONLIGHT = {
    "model_type": "deepseek_v3", "hidden_size": 2048, "intermediate_size": 11264, "num_hidden_layers": 27,
    "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 163840, "q_lora_rank": None,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 0,
}  # fmt: skip
MISTRAL = {
    "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
}  # fmt: skip
CLUSTER = {
    "servers": 8, "gpus_per_server": 8, "device": "h100", "intra_server_gbps": 3600, "degree": 8, "link_gbps": 400,
    "interfaces": "per-gpu",
}  # fmt: skip


def instance(folder: Path, model: object, strategy: dict[str, Any], **more: Any) -> Path:
    """64 GPUs, 64 sequences of 4096 tokens, an ideal switch."""
    document = {
        "schema_version": 1, "kind": "llm-training", "name": "case", "model": model,
        "batch": {"sequences": 64, "length": 4096}, "cluster": CLUSTER, "strategy": strategy,
        "fabrics": ["ideal-switch"], **more,
    }  # fmt: skip
    return write(folder, document)


def evaluated(folder: Path, config: dict[str, Any], strategy: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The figures of a model by its file."""
    write(folder, config, "config.json")
    return run("llm", "evaluate", instance(folder, {"huggingface": "config.json"}, strategy, **more), "--json").json


def test_one_group_of_experts_is_no_limit(tmp_path: Path) -> None:
    """One group of one, and eight of eight, say the same: six of 64 experts lie on 4.5355 of 8 servers."""
    strategy = {
        "tensor": 1,
        "context": 1,
        "pipeline": 1,
        "expert": 64,
        "micro_batch": 1,
        "zero": 1,
        "recompute": "full",
    }
    batch = {"sequences": 1024, "length": 4096}
    found = [
        evaluated(tmp_path, {**MOONLIGHT, "n_group": groups, "topk_group": groups}, strategy, batch=batch)
        for groups in (1, 8)
    ]
    assert found[0] == found[1]
    met = 8 * (1 - comb(56, 6) / comb(64, 6))
    assert met == pytest.approx(4.5355, abs=5e-5)
    # Tokens of a GPU, 4 bytes of each width there and back, 26 layers of experts, forward and backward.
    due = 1024 * 4096 / 64 * 2048 * 4 * met * 7 / 8 * 26 * 2
    assert found[0]["detail"]["expert_crossing_sent_bytes"] == pytest.approx(due)
    # At 50 GB/s of a GPU; what computing does not hide, and three doublings beyond eight devices; latencies beside.
    exposed = due / 50e9 * STEP_EFFICIENCIES["expert_open"].value * (1 + 3 * STEP_EFFICIENCIES["growth"].value)
    assert found[0]["breakdown_s"]["expert"] == pytest.approx(exposed, rel=4e-3)
    assert found[0]["iteration_time_s"] == pytest.approx(sum(found[0]["breakdown_s"].values()), rel=1e-12)
    assert (found[0]["parameters"], found[0]["met_parameters"]) == (15_960_110_208, 2_914_776_192)


@pytest.mark.parametrize(("window", "giga"), [(4096, 48.7022), (None, 68.43)])
def test_a_window_counts(tmp_path: Path, window: int | None, giga: float) -> None:
    """Operations of a token of Mistral 7B at 32768 tokens, and fewer seconds for them."""
    batch = {"sequences": 64, "length": 32768}
    config = {**MISTRAL, "sliding_window": window}
    found = evaluated(tmp_path, config, {"context": 1, "micro_batch": 1}, batch=batch)
    tokens = 64 * 32768 / 64
    assert found["tflops_per_gpu"] * found["iteration_time_s"] * 1e3 / tokens == pytest.approx(giga, abs=5e-3)
    assert found["parameters"] == 7_241_732_096
    assert found["notes"] == []


def test_a_window_is_computed_by_tiles_alone(tmp_path: Path) -> None:
    """Keys and values of all tokens go round in context parallelism, window or not; plain attention masks a square."""
    strategy = {"context": 2, "micro_batch": 1}
    batch = {"sequences": 64, "length": 16384}
    with_it, without = (
        evaluated(tmp_path, {**MISTRAL, "sliding_window": window}, strategy, batch=batch) for window in (4096, None)
    )
    assert with_it["detail"] == without["detail"]
    assert with_it["memory_gib"] == without["memory_gib"]
    assert with_it["breakdown_s"]["context"] == without["breakdown_s"]["context"]
    assert with_it["breakdown_s"]["forward"] < without["breakdown_s"]["forward"]
    plain = [
        evaluated(
            tmp_path, {**MISTRAL, "sliding_window": window}, strategy, batch=batch, formats={"attention": "plain"}
        )
        for window in (4096, None)
    ]
    assert plain[0]["breakdown_s"] == plain[1]["breakdown_s"]


def test_notes_of_a_file_are_told(tmp_path: Path) -> None:
    """For programs and for people."""
    write(tmp_path, {**MISTRAL, "torch_dtype": "float32"}, "config.json")
    file = instance(tmp_path, {"huggingface": "config.json"}, {"context": 1, "micro_batch": 1})
    notes = run("llm", "evaluate", file, "--json").json["notes"]
    assert len(notes) == 2
    assert "sliding_window 4096" in notes[0]
    assert "float32" in notes[1]
    text = run("llm", "evaluate", file).stdout
    assert all(f"note: {note}" in text for note in notes)


DENSE = {"layers": 40, "hidden": 5120, "ffn_hidden": 11008, "heads": 40, "vocabulary": 50304}


@pytest.mark.parametrize("command", ["validate", "llm evaluate", "solve"])
def test_replicas_that_do_not_divide_the_batch(tmp_path: Path, command: str) -> None:
    """1472 GPUs, tensor 8, pipeline 8: 23 replicas of 32 sequences."""
    strategy = {"tensor": 8, "pipeline": 8, "context": 1, "micro_batch": 1, "zero": [0, 1]}
    cluster = {**CLUSTER, "servers": 184}
    file = instance(tmp_path, DENSE, strategy, batch={"sequences": 32, "length": 4096}, cluster=cluster)
    ended: Run = run(*command.split(), file, "--json")
    assert ended.code == 2
    document = ended.json
    found = document["files"][0]["problems"][0] if command == "validate" else document["problems"][0]
    assert (found["path"], found["value"], found["allowed"]) == ("batch.sequences", "32", "multiples of 23")
    assert "23 replicas" in found["message"]
    assert "1472 GPUs" in found["message"]


def test_replicas_that_are_left_out_are_told(tmp_path: Path) -> None:
    """24 GPUs and 8 sequences: three and six replicas are passed over, and a note says so."""
    model = {"layers": 4, "hidden": 512, "ffn_hidden": 1024, "heads": 8, "vocabulary": 1000}
    file = instance(
        tmp_path, model, {"context": 1, "pipeline": 1, "micro_batch": 1, "tensor": [4, 8]},
        batch={"sequences": 8, "length": 512}, cluster={**CLUSTER, "servers": 3},
    )  # fmt: skip
    assert refusals(run("solve", file, "--json").json)[0][:2] == ("batch.sequences", "8")
    document = json.loads(file.read_text())
    file = write(tmp_path, {**document, "strategy": {"context": 1, "micro_batch": 1, "tensor": [4, 8]}})
    ended = run("solve", file, "--json", "--output", tmp_path / "out")
    assert ended.code == 0
    solution = json.loads((tmp_path / "out" / "solution.json").read_text())
    assert "strategies of 3, 6 replicas are left out, as these do not divide the 8 sequences" in solution["notes"]


def test_thirty_layers_on_four_stages(tmp_path: Path) -> None:
    """All thirty are trained: the ends have seven, for embedding and head."""
    model = {
        "layers": 30, "hidden": 4096, "ffn_hidden": 16384, "heads": 32, "vocabulary": 51200, "positions": 2048,
        "gated": False, "biases": True, "tied": True,
    }  # fmt: skip
    pins = {"tensor": 2, "context": 1, "pipeline": 4, "chunks": 1, "micro_batch": 1, "schedule": "1f1b"}
    file = instance(tmp_path, model, pins)
    found = run("llm", "evaluate", file, "--json").json
    layer, h = 12 * 4096**2 + 13 * 4096, 4096
    assert found["parameters"] == 30 * layer + 51200 * h + 2048 * h + 2 * h == 6_259_507_200
    out = tmp_path / "out"
    assert run("solve", file, "--output", out).code == 0
    solution = json.loads((out / "solution.json").read_text())
    layers = solution["plan"]["fabrics"][0]["strategy"]["stage_layers"]
    assert sorted(layers) == [7, 7, 8, 8]
    assert run("export", out / "solution.json", "--to", "megatron", "-o", tmp_path / "run").code == 0
    arguments = (tmp_path / "run" / "arguments.txt").read_text()
    layout = arguments.split("--pipeline-model-parallel-layout ")[1].split()[0]
    assert layout.count("t") == 30


OSS = {
    "layers": 24, "hidden": 2880, "ffn_hidden": 2880, "heads": 64, "kv_heads": 8, "head_size": 64, "vocabulary": 201088,
    "experts": {"count": 32, "per_token": 4, "hidden": 2880},
}  # fmt: skip


@pytest.mark.parametrize(("gpus", "data"), [(2, 2), (4, 4)])
def test_groups_of_experts_fold(tmp_path: Path, gpus: int, data: int) -> None:
    """Two servers of two or four GPUs: experts by 2 and stages by 2 leave one or two replicas of experts."""
    cluster = {**CLUSTER, "servers": 2, "gpus_per_server": gpus, "degree": gpus}
    pins = {"tensor": 1, "context": 1, "pipeline": 2, "expert": 2, "expert_tensor": 1, "micro_batch": 1}
    file = instance(tmp_path, OSS, pins, batch={"sequences": 512, "length": 4096}, cluster=cluster)
    found = run("llm", "evaluate", file, "--json").json
    assert (found["strategy"]["data"], found["strategy"]["expert"]) == (data, 2)
    refused = refusals(run("llm", "evaluate", file, "--json", "--set", "expert_tensor=4").json)
    assert ("expert", "8") in [one[:2] for one in refused]
    assert f"the {gpus} GPUs of a stage" in " ".join(one[2] for one in refused)


def test_layers_are_divided_as_the_instance_pins_them(tmp_path: Path) -> None:
    """Ends of one layer fewer; ends that cannot be are refused; balanced stages hold all layers."""
    model = {"layers": 10, "hidden": 1024, "ffn_hidden": 4096, "heads": 16, "vocabulary": 32000}
    pins = {"tensor": 1, "context": 1, "pipeline": 4, "micro_batch": 1}

    def stages(**more: Any) -> list[int]:
        found: list[int] = run("llm", "evaluate", instance(tmp_path, model, {**pins, **more}), "--json").json[
            "strategy"
        ]["stage_layers"]
        return found

    assert stages() == [2, 3, 3, 2]  # as even as can be: the ends have embedding and head
    assert stages(short_ends=1) == [2, 3, 3, 2]
    balanced = stages(layers="balanced")
    assert (len(balanced), sum(balanced)) == (4, 10)
    refused = run("llm", "evaluate", instance(tmp_path, model, {**pins, "short_ends": 9}), "--json")
    assert refusals(refused.json)[0][:2] == ("strategy.short_ends", "9")
