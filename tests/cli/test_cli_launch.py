"""`topoopt llm check`: launches of Megatron-LM, torchtitan and DeepSpeed, what breaks their rules, what is not used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.cli_cases import run, write
from tests.support.paths import INSTANCES, ROOT
from topoopt.formats.launch import read_launch
from topoopt.formats.launch_rules import Sizes, division_of
from topoopt.kinds.files import read_solution

PUBLIC = ROOT.parent / "shared" / "data" / "public_cases"

SCRIPT = """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${{NODES:-{nodes}}}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE   # of a node
    --nnodes $NUM_NODES
    --master_addr $MASTER_ADDR
)
MODEL_ARGS=(
    --num-layers 40 --hidden-size 5120 --ffn-hidden-size 11008 --num-attention-heads 40
    --seq-length 4096 --swiglu --padded-vocab-size 50304 --position-embedding-type rope
    --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights
)
BATCH="--micro-batch-size 1 --global-batch-size=32 --bf16 --lr 1e-4"
torchrun ${{DISTRIBUTED_ARGS[@]}} pretrain_gpt.py \\
    ${{MODEL_ARGS[@]}} $BATCH --world-size $WORLD_SIZE \\
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --sequence-parallel --save /tmp/x
"""
A100 = "device=a100,gpu_memory_gib=80,intra_server_gbps=2400,link_gbps=200,degree=8"


def script(folder: Path, text: str, name: str = "train.sh") -> Path:
    """A file of the launch."""
    path = folder / name
    path.write_text(text)
    return path


def refused(*words: object) -> list[str]:
    """Lines of a refused command."""
    found = run(*words)
    assert found.code == 2, found.stdout
    return found.stderr.splitlines()


def test_batch_that_replicas_do_not_divide(tmp_path: Path) -> None:
    """1472 GPUs by 8 x 8 are 23 replicas, which do not divide 32; 16 and 32 do, on 1024 and 2048 GPUs."""
    (line,) = refused("llm", "check", script(tmp_path, SCRIPT.format(nodes=184)), "--set", A100)
    for words in ("--global-batch-size", "32 sequences", "= 23 replicas", "16 (1024 GPUs)", "32 (2048 GPUs)"):
        assert words in line


def test_a_script_is_read_evaluated_and_compared(tmp_path: Path) -> None:
    """Variables, arrays, sums and defaults; on 1024 GPUs 16 replicas have two micro-batches each."""
    path = script(tmp_path, SCRIPT.format(nodes=128))
    document = run("llm", "check", path, "--set", A100, "--time-limit", 20, "--json").json
    strategy = document["strategy"]
    assert (strategy["tensor"], strategy["pipeline"], strategy["data"], strategy["sequence"]) == (8, 8, 16, True)
    assert (document["gpus"], document["micro_batches"]) == (1024, 2)
    assert document["not_used"] == ["--master_addr", "--lr", "--save"]
    attention, mlp = 4 * 5120**2, 3 * 5120 * 11008
    assert document["parameters"] == 40 * (attention + mlp + 2 * 5120) + 2 * 50304 * 5120 + 5120
    assert document["best"]["speedup"] >= 1
    assert "--tensor-model-parallel-size" in document["best"]["arguments"]


LAYERS = {
    "num-layers": 30, "hidden-size": 4096, "num-attention-heads": 32, "seq-length": 2048, "vocab-size": 51200,
    "max-position-embeddings": 2048, "tensor_model_parallel_size": 2, "sequence-parallel": True,
    "pipeline_model_parallel_size": 4, "micro-batch-size": 1, "global-batch-size": 64,
    "use-distributed-optimizer": True,
}  # fmt: skip


@pytest.mark.parametrize("nested", [False, True])
def test_thirty_layers_in_four_stages(tmp_path: Path, nested: bool) -> None:
    """Plain flags would build 7 layers a stage; the layout that holds all 30 is named, and is taken."""
    flags: dict[str, Any] = {"model": LAYERS} if nested else dict(LAYERS)
    options = ("--set", f"gpus=16,gpus_per_server=8,{A100}", "--time-limit", 20)
    (line,) = refused("llm", "check", write(tmp_path, flags, "flags.json"), *options)
    assert "30 layers do not divide by 4 stages" in line
    assert "'Etttttttt|tttttttt|ttttttt|tttttttL'" in line
    flags["pipeline-model-parallel-layout"] = "Et*8|(t)*8|t*7|ttttttt,L"
    document = run("llm", "check", write(tmp_path, flags, "flags.json"), *options, "--json").json
    assert document["strategy"]["stage_layers"] == [8, 8, 7, 7]
    assert document["parameters"] == 6_259_507_200


@pytest.mark.parametrize(("gpus", "data", "file"), [(4, 2, "four-gpus.yaml"), (8, 4, "eight-gpus.yaml")])
def test_expert_groups_of_four_gpus(tmp_path: Path, gpus: int, data: int, file: str) -> None:
    """Groups fold: 1 x 2 x 2 GPUs hold one replica of the experts and two of the rest; with 4 x 2 x 2 there is none."""
    case = PUBLIC / "12-expert-groups-of-four-gpus" / file
    if not case.exists():
        pytest.skip("public cases are not there")
    flags = f"--nnodes {gpus // 2} --nproc-per-node 2 --pipeline-model-parallel-size 2 --expert-model-parallel-size 2"
    path = script(tmp_path, f"torchrun {flags} x.py --micro-batch-size 1 --global-batch-size 512\n")
    found = run("llm", "check", path, case, "--json", "--time-limit", 20)
    assert found.json["strategy"]["data"] == data
    assert found.code in (0, 3)
    wide = script(tmp_path, f"torchrun {flags} x.py --expert-tensor-parallel-size 8 --micro-batch-size 1", "wide.sh")
    assert any(f"{gpus} GPUs do not divide by expert_tensor x expert x pipeline = 8 x 2 x 2 = 32" in line
               for line in refused("llm", "check", wide, case))  # fmt: skip


@pytest.mark.parametrize(("gpus", "etp", "good"), [(4, 1, True), (4, 4, False), (8, 2, True), (8, None, True)])
def test_folded_expert_groups(tmp_path: Path, gpus: int, etp: int | None, good: bool) -> None:
    """The rule of the case by itself: world = expert_tensor x expert x replicas x pipeline."""
    text = "--pipeline-model-parallel-size 2 --expert-model-parallel-size 2 --global-batch-size 512"
    text += "" if etp is None else f" --expert-tensor-parallel-size {etp}"
    launch = read_launch([script(tmp_path, text)])
    division = division_of(launch, Sizes(24, (64,), (8,), 32, 4096, gpus), None)
    assert (not division.problems) == good
    assert division.strategy.data == gpus // 2


BROKEN = (
    ("--tensor-model-parallel-size 3", "3 does not divide the 64 heads"),
    ("--tensor-model-parallel-size 3", "16 GPUs do not divide by tensor x context x pipeline = 3 x 1 x 1 = 3"),
    ("--tensor-model-parallel-size 16", "--sequence-parallel"),
    ("--expert-model-parallel-size 3", "does not divide the 32 experts"),
    ("--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4", "6 layers of a stage do not divide"),
    ("--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 4", "into 4 chunks"),
    ("--num-virtual-stages-per-pipeline-rank 2", "one stage has one run of layers"),
    ("--pipeline-model-parallel-size 4 --account-for-loss-in-pipeline-split", "25 layers .24 and 1"),
    ("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5", "19 layers of 24 are left for 3"),
    ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*12|t*11L", "23 layers t, the model has 24"),
    ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*12|t*6|t*6L", "3 stages do not divide by 2"),
    ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout t*12|Et*12L", "one E stands first"),
    ("--context-parallel-size 3", "2 x context = 6 parts"),
    ("--overlap-param-gather", "needs --overlap-grad-reduce and --use-distributed-optimizer"),
    ("--tp-comm-overlap", "needs --sequence-parallel"),
    ("--recompute-granularity full", "full needs --recompute-method"),
    ("--recompute-granularity selective --recompute-method uniform", "not beside selective"),
    ("--moe-router-num-groups 5", "does not divide the 32 experts"),
    ("--moe-router-num-groups 4 --moe-router-group-topk 5", "more than the 4 groups"),
    ("--use-megatron-fsdp --data-parallel-sharding-strategy all", "no such strategy"),
    ("--micro-batch-size 3", "not a multiple of micro-batch x replicas = 3 x 16 = 48"),
    ("--use-tp-pp-dp-mapping --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel "
     "--expert-tensor-parallel-size 1 --expert-model-parallel-size 4", "2 replicas of experts and 4 of all else"),
    ("--optimizer muon", "states of this optimizer"),
    ("--pipeline-model-parallel-size 99999999999999", "more than 16 GPUs"),
    ("--context-parallel-size -2", "1 or more"),
    ("--parallelism.pipeline_parallel_degree 2 --parallelism.pipeline_parallel_first_stage_less_layers 999999999999",
     "not a number of layers less"),
)  # fmt: skip


@pytest.mark.parametrize(("flags", "words"), BROKEN)
def test_every_rule_says_its_numbers(tmp_path: Path, flags: str, words: str) -> None:
    """16 GPUs, 24 layers, 64 heads (8 of keys), 32 experts, 4096 tokens, 512 sequences."""
    launch = read_launch([script(tmp_path, f"{flags} --global-batch-size 512")])
    division = division_of(launch, Sizes(24, (64,), (8,), 32, 4096, 16), None)
    assert any(re.search(words, str(problem)) for problem in division.problems), division.problems


GOOD = (
    ("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 3", (3, 7, 7, 7)),
    ("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3", (3,) * 8),
    ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*5|t*7|(tt|)*2t*8L'", None),
    ("--pipeline-model-parallel-size 13 --account-for-embedding-in-pipeline-split "
     "--account-for-loss-in-pipeline-split", (1, *(2,) * 11, 1)),
)  # fmt: skip


@pytest.mark.parametrize(("flags", "layers"), GOOD)
def test_layers_of_stages(tmp_path: Path, flags: str, layers: tuple[int, ...] | None) -> None:
    """By hand: what is left between the ends, chunks, and embedding and loss as layers."""
    gpus = 26 if "13" in flags else 16
    launch = read_launch([script(tmp_path, f"{flags} --global-batch-size 512")])
    division = division_of(launch, Sizes(24, (64,), (8,), 1, 4096, gpus), None)
    if layers is None:
        assert any("5 stages do not divide" in str(item) for item in division.problems)
        return
    assert not division.problems
    assert division.strategy.stage_layers == layers
    assert sum(layers) == 24


def test_what_is_unknown_is_refused_or_listed(tmp_path: Path) -> None:
    """A flag that may change the layout is refused, also in an array that no command has; paths are listed."""
    text = "--tensor-model-parallel-size 1 --moe-super-parallel 4 --tensorboard-dir x\n"
    (line,) = refused("llm", "check", script(tmp_path, text), "--set", A100)
    assert "--moe-super-parallel" in line
    assert "may change the layout" in line
    launch = read_launch([script(tmp_path, "--tensorboard-dir x --seed 3 --data-path a b c --micro-batch-size 2\n")])
    assert launch.unused == ("--tensorboard-dir", "--seed", "--data-path")
    assert launch.values == {"micro_batch": 2}
    (line,) = refused("llm", "check", script(tmp_path, "A=(--micro-batch-size 2)\nMOE=(--num-experts 8)\nx.py ${A[@]}"))
    assert "--MOE" in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--micro-batch-size $MB", "a variable that the script does not set"),
        ("--micro-batch-size", "no value"),
        ("--micro-batch-size two", "not such a value"),
        ("--micro-batch-size 2 --micro_batch_size 4", "says 2"),
        ("--x 'open", "quotes that do not match"),
        ("--deepspeed-config ds.json", "a part of the launch"),
        ("--nnodes 2 --nproc-per-node 8 --world-size 8", "are 16"),
    ],
)
def test_flags_that_are_wrong(tmp_path: Path, text: str, words: str) -> None:
    """Each is named with its value, exit code 2."""
    options = ("--set", f"{A100},length=8,model=llama3-70b")
    assert any(words in line for line in refused("llm", "check", script(tmp_path, text), *options))


def test_files_that_grow_without_end(tmp_path: Path) -> None:
    """Variables that double, repetitions of repetitions and deep sums are refused or kept as they are, at once."""
    doubling = "A0=xxxxxxxxxx\n" + "".join(f"A{i + 1}=$A{i}$A{i}\n" for i in range(60))
    (line,) = refused("llm", "check", script(tmp_path, f"{doubling}echo $A60 --micro-batch-size 1"))
    assert "too long" in line
    many = "A=" + "y" * 90_000 + "\n" + "$A " * 1000
    assert "too long" in refused("llm", "check", script(tmp_path, many))[0]
    sums = f"--micro-batch-size $(({'(' * 5000}1{')' * 5000}))"
    assert refused("llm", "check", script(tmp_path, sums))
    layout = "--num-layers 4 --pipeline-model-parallel-layout ((((t*9999)*9999)*9999)*9999)*9999"
    division = division_of(read_launch([script(tmp_path, layout)]), Sizes(4, (4,), (4,), 1, 64, 4), 4)
    assert any("not a layout" in str(item) for item in division.problems)


def test_torchtitan(tmp_path: Path) -> None:
    """Shards are what tensor leaves; weights are gathered in every pass; tensor parallelism splits the tokens too."""
    text = (
        '[model]\nname = "llama3"\nflavor = "70B"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n'
        "[parallelism]\ntensor_parallel_degree = 8\ndata_parallel_shard_degree = -1\n"
        '[activation_checkpoint]\nmode = "full"\n[optimizer]\nname = "AdamW"\nlr = 3e-4\n'
    )
    launch = read_launch([script(tmp_path, text, "run.toml")])
    assert launch.dialect == "torchtitan"
    division = division_of(launch, Sizes(80, (64,), (8,), 1, 8192, 256), None)
    assert not division.problems
    strategy = division.strategy
    assert (strategy.tensor, strategy.sequence, strategy.data, strategy.zero, strategy.micro_batch) == (
        8,
        True,
        32,
        3,
        2,
    )
    assert (division.sequences, strategy.recompute.value) == (64, "full")
    for extra, words in (
        ("--parallelism.data_parallel_shard_degree=5", "1 x 5 x 1 is not 16 GPUs"),
        ("--parallelism.expert_parallel_degree=3", "does not divide shard x context x tensor = 16"),
        ("--parallelism.data_parallel_replicate_degree 2", "hybrid sharding"),
        ("--parallelism.pipeline_parallel_degree 2 --parallelism.pipeline_parallel_schedule ZBVZeroBubble",
         "no such schedule"),
    ):  # fmt: skip
        path = script(tmp_path, f"torchrun train.py --training.seq_len 8192 {extra}", "titan.sh")
        division = division_of(read_launch([path]), Sizes(80, (64,), (8,), 32, 8192, 16), None)
        assert any(words in str(item) for item in division.problems), division.problems


def test_stages_of_torchtitan(tmp_path: Path) -> None:
    """32 layers and one for each end in 4 stages of 2 ranks: 34 = 9 + 9 + 8 + 8, less one at the ends."""
    flags = "--parallelism.pipeline_parallel_degree 2 --parallelism.pipeline_parallel_schedule Interleaved1F1B"
    path = script(tmp_path, f"{flags} --training.local_batch_size 8 --training.seq_len 8192")
    division = division_of(read_launch([path]), Sizes(32, (32,), (8,), 1, 8192, 16), None)
    assert not division.problems
    assert division.strategy.stage_layers == (8, 9, 8, 7)
    assert (division.strategy.chunks, division.strategy.micro_batch, division.sequences) == (2, 1, 64)


DEEPSPEED = {
    "train_batch_size": 256, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
    "zero_optimization": {"stage": 3, "overlap_comm": True, "offload_optimizer": {"device": "none"}},
    "bf16": {"enabled": True}, "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
}  # fmt: skip


def test_deepspeed(tmp_path: Path) -> None:
    """Batch = micro-batch x accumulation x replicas: 256 = 2 x 4 x 32; on 16 GPUs it would be 128."""
    config = write(tmp_path, DEEPSPEED, "ds.json")
    launcher = script(tmp_path, "deepspeed --num_nodes 4 --num_gpus 8 train.py --deepspeed_config ds.json", "ds.sh")
    launch = read_launch([launcher, config])
    division = division_of(launch, Sizes(80, (64,), (8,), 1, 4096, 32), None)
    assert not division.problems
    assert (division.strategy.zero, division.strategy.data, division.sequences) == (3, 32, 256)
    (problem,) = division_of(launch, Sizes(80, (64,), (8,), 1, 4096, 16), None).problems
    assert "2 x 4 x 16 = 128" in str(problem)
    offload = {**DEEPSPEED, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    (line,) = refused("llm", "check", write(tmp_path, offload, "off.json"))
    assert "offload_optimizer.device" in line


def test_heads_that_do_not_divide_the_width(tmp_path: Path) -> None:
    """Megatron-LM takes width over heads as the size of a head, unless --kv-channels says another."""
    flags = "--num-layers 2 --hidden-size 100 --num-attention-heads 3 --vocab-size 100 --seq-length 8 "
    flags += "--position-embedding-type rope --micro-batch-size 1"
    (line,) = refused("llm", "check", script(tmp_path, flags), "--set", "gpus=8,device=h100")
    assert "3 heads do not divide the width 100" in line


def test_flags_against_the_instance_beside_them(tmp_path: Path) -> None:
    """The instance has the cluster and the model; what the flags say otherwise is refused with both numbers."""
    instance = INSTANCES / "llm-training" / "small-16.yaml"
    flags = "--tensor-model-parallel-size 2 --sequence-parallel --micro-batch-size 1 --global-batch-size 32"
    found = run("llm", "check", script(tmp_path, flags), instance, "--json", "--time-limit", 20)
    assert found.json["strategy"]["data"] == 8
    assert found.json["fits"] == (found.code == 0)
    sizes = "--num-layers 12 --hidden-size 2048 --num-attention-heads 16 --vocab-size 32000 --seq-length 4096 "
    sizes += "--ffn-hidden-size 8192 --position-embedding-type rope --swiglu --normalization RMSNorm "
    sizes += "--disable-bias-linear --untie-embeddings-and-output-weights --num-query-groups 4 --group-query-attention"
    (line,) = refused("llm", "check", script(tmp_path, f"{flags} {sizes}"), instance)
    assert "--num-layers" in line
    assert "has 24 (value: 12)" in line
    (line,) = refused("llm", "check", script(tmp_path, f"{flags} --world-size 8"), instance)
    assert "the cluster has 16 GPUs" in line


def test_what_a_launch_leaves_open(tmp_path: Path) -> None:
    """Model, length and device are asked for by name; so is a launch where there is an instance alone."""
    lines = refused("llm", "check", script(tmp_path, "--micro-batch-size 1"))
    assert [line.split(": ")[1].split(";")[0] for line in lines] == ["missing"] * 3
    assert "no launch" in refused("llm", "check", INSTANCES / "llm-training" / "small-16.yaml")[0]


def test_exported_arguments_are_read_back(tmp_path: Path) -> None:
    """What `export --to megatron` writes for the best strategy is a launch of that strategy."""
    data = YAML(typ="safe", pure=True).load((INSTANCES / "llm-training" / "small-16.yaml").read_text())
    data["strategy"] = {"pipeline": 4, "chunks": [1, 2], "schedule": ["1f1b", "interleaved"], "zero": 1}
    data["search"] = {"proof": False, "top": 1}
    assert run("solve", write(tmp_path, data), "--output", tmp_path / "out", "--json").code == 0
    solution = tmp_path / "out" / "solution.json"
    assert run("export", solution, "--to", "megatron", "-o", tmp_path / "megatron").code == 0
    launch = read_launch([tmp_path / "megatron" / "arguments.txt"])
    assert not launch.unused
    division = division_of(launch, Sizes(24, (16,), (4,), 1, 4096, 16), None)
    assert not division.problems
    assert division.strategy == read_solution(solution).plan.fabrics[0].strategy


REAL = """MODEL_ARGS=(
    --num-layers 4
#    --num-layers 8 \\
    --hidden-size 256 # width
)
DTYPE_ARGS=()
if [[ "$DTYPE" == "fp8" ]]; then
    DTYPE_ARGS+=("--fp8-format hybrid" "--fp8-param-gather")
fi
LOGGING_ARGS=(
  #  --log-interval 1 \\
    --eval-iters 10 \\
    --micro-batch-size 2
)
MODEL_ARGS+=("${LOGGING_ARGS[@]}")
TEXT="--global-batch"
TEXT+="-size 8"
WORLD=$(( ${1:-"4"} * (2 + 2) ))
torchrun --world-size ${WORLD} x.py \\
    ${MODEL_ARGS[@]} \\
    ${DTYPE_ARGS[@]} $TEXT
"""


def test_scripts_as_they_are_published(tmp_path: Path) -> None:
    """Arrays that grow, flags with their values in quotes, comments that end in a backslash, positional defaults."""
    launch = read_launch([script(tmp_path, REAL)])
    assert launch.values == {
        "layers": 4, "hidden": 256, "fp8": "hybrid", "micro_batch": 2, "sequences": 8, "gpus": 16,
    }  # fmt: skip
    assert launch.noted == ("--fp8-param-gather",)
    assert launch.unused == ("--eval-iters",)
