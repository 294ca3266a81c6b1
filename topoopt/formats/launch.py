"""Launches of training as their users write them: a script, flags in a text, or settings in YAML, JSON or TOML.

Flags are those of Megatron-LM (megatron/training/arguments.py), torchrun, torchtitan and DeepSpeed. A table says which
field of a launch each of them sets. A flag that is not in the table and whose name speaks of the layout is refused;
any other is listed as not used.
"""

from __future__ import annotations

import ast
import operator
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy, PipelineSchedule, Recompute
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.result import Result
from topoopt.files.atomic import csv_text
from topoopt.files.documents import Limits, parse_document
from topoopt.files.untrusted import read_text
from topoopt.formats.table import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes, plan_on

MAX_TEXT_BYTES = 1 << 20
MAX_WORD = 100_000
MAX_SUM = 200
LIMITS = Limits()

Use = Literal["whole", "switch", "text", "unused", "noted"]
"""A whole number; a flag without a value; a word; what does not change the layout; what is evaluated without it."""

FLAGS: Mapping[str, tuple[str, Use]] = {
    # torchrun, deepspeed, Slurm: how many processes
    "nnodes": ("nodes", "whole"),
    "num-nodes": ("nodes", "whole"),
    "nproc-per-node": ("gpus_per_node", "whole"),
    "num-gpus": ("gpus_per_node", "whole"),
    "devices": ("gpus_per_node", "whole"),
    "world-size": ("gpus", "whole"),
    # Megatron-LM: how the work is divided
    "tensor-model-parallel-size": ("tensor", "whole"),
    "pipeline-model-parallel-size": ("pipeline", "whole"),
    "context-parallel-size": ("context", "whole"),
    "expert-model-parallel-size": ("expert", "whole"),
    "expert-tensor-parallel-size": ("expert_tensor", "whole"),
    "sequence-parallel": ("sequence", "switch"),
    "num-layers-per-virtual-pipeline-stage": ("layers_per_chunk", "whole"),
    "num-virtual-stages-per-pipeline-rank": ("chunks", "whole"),
    "virtual-pipeline-model-parallel-size": ("chunks", "whole"),
    "pipeline-model-parallel-layout": ("layout", "text"),
    "decoder-first-pipeline-num-layers": ("first_layers", "whole"),
    "decoder-last-pipeline-num-layers": ("last_layers", "whole"),
    "account-for-embedding-in-pipeline-split": ("embedding_counts", "switch"),
    "account-for-loss-in-pipeline-split": ("loss_counts", "switch"),
    "microbatch-group-size-per-virtual-pipeline-stage": ("group", "whole"),
    "micro-batch-size": ("micro_batch", "whole"),
    "global-batch-size": ("sequences", "whole"),
    "use-distributed-optimizer": ("distributed_optimizer", "switch"),
    "use-megatron-fsdp": ("fsdp", "switch"),
    "data-parallel-sharding-strategy": ("sharding", "text"),
    "recompute-granularity": ("recompute", "text"),
    "recompute-method": ("recompute_method", "text"),
    "recompute-num-layers": ("recompute_layers", "whole"),
    "recompute-activations": ("recompute_activations", "switch"),
    "checkpoint-activations": ("recompute_all", "switch"),
    "moe-expert-parallel-size": ("expert", "whole"),
    "use-tp-pp-dp-mapping": ("stages_first", "switch"),
    "overlap-grad-reduce": ("overlap_reduce", "switch"),
    "overlap-param-gather": ("overlap_gather", "switch"),
    "tp-comm-overlap": ("overlap_tensor", "switch"),
    # Megatron-LM: the model
    "num-layers": ("layers", "whole"),
    "hidden-size": ("hidden", "whole"),
    "ffn-hidden-size": ("ffn_hidden", "whole"),
    "num-attention-heads": ("heads", "whole"),
    "group-query-attention": ("grouped", "switch"),
    "num-query-groups": ("kv_heads", "whole"),
    "kv-channels": ("head_size", "whole"),
    "vocab-size": ("vocabulary", "whole"),
    "padded-vocab-size": ("padded_vocabulary", "whole"),
    "make-vocab-size-divisible-by": ("vocabulary_unit", "whole"),
    "seq-length": ("length", "whole"),
    "encoder-seq-length": ("length", "whole"),
    "max-position-embeddings": ("positions", "whole"),
    "position-embedding-type": ("position_type", "text"),
    "swiglu": ("gated", "switch"),
    "untie-embeddings-and-output-weights": ("untied", "switch"),
    "disable-bias-linear": ("unbiased", "switch"),
    "add-qkv-bias": ("attention_biases", "switch"),
    "qk-layernorm": ("query_key_norms", "switch"),
    "normalization": ("normalization", "text"),
    "num-experts": ("experts", "whole"),
    "moe-router-topk": ("per_token", "whole"),
    "moe-ffn-hidden-size": ("expert_hidden", "whole"),
    "moe-shared-expert-intermediate-size": ("shared_hidden", "whole"),
    "moe-layer-freq": ("expert_layers", "text"),
    "moe-router-num-groups": ("expert_groups", "whole"),
    "moe-router-group-topk": ("groups_per_token", "whole"),
    "multi-latent-attention": ("latent", "switch"),
    "q-lora-rank": ("query_rank", "whole"),
    "kv-lora-rank": ("key_value_rank", "whole"),
    "qk-head-dim": ("plain_size", "whole"),
    "qk-pos-emb-head-dim": ("rotary_size", "whole"),
    "v-head-dim": ("value_size", "whole"),
    "mtp-num-layers": ("mtp_layers", "whole"),
    "optimizer": ("optimizer", "text"),
    "optimizer.type": ("optimizer", "text"),
    "optimizer.name": ("optimizer", "text"),
    "bf16": ("bf16", "switch"),
    "fp16": ("fp16", "switch"),
    "fp8-format": ("fp8", "text"),
    "fp8": ("fp8", "text"),
    # torchtitan
    "parallelism.data-parallel-replicate-degree": ("replicate", "whole"),
    "parallelism.data-parallel-shard-degree": ("shard", "whole"),
    "parallelism.tensor-parallel-degree": ("tensor", "whole"),
    "parallelism.pipeline-parallel-degree": ("pipeline", "whole"),
    "parallelism.context-parallel-degree": ("context", "whole"),
    "parallelism.expert-parallel-degree": ("expert", "whole"),
    "parallelism.expert-tensor-parallel-degree": ("expert_tensor", "whole"),
    "parallelism.pipeline-parallel-schedule": ("schedule", "text"),
    "parallelism.pipeline-parallel-microbatch-size": ("micro_batch", "whole"),
    "parallelism.pipeline-parallel-layers-per-stage": ("layers_per_chunk", "whole"),
    "parallelism.pipeline-parallel-first-stage-less-layers": ("first_less", "whole"),
    "parallelism.pipeline-parallel-last-stage-less-layers": ("last_less", "whole"),
    "parallelism.fsdp-reshard-after-forward": ("reshard", "text"),
    "training.local-batch-size": ("local_batch", "whole"),
    "training.global-batch-size": ("sequences", "whole"),
    "training.seq-len": ("length", "whole"),
    "activation-checkpoint.mode": ("recompute", "text"),
    "model.name": ("model_name", "text"),
    "model.flavor": ("model_flavor", "text"),
    # DeepSpeed
    "train-batch-size": ("sequences", "whole"),
    "train-micro-batch-size-per-gpu": ("micro_batch", "whole"),
    "gradient-accumulation-steps": ("accumulation", "whole"),
    "zero-optimization.stage": ("zero", "whole"),
    "zero-stage": ("zero", "whole"),
    "bf16.enabled": ("bf16", "switch"),
    "fp16.enabled": ("fp16", "switch"),
    "deepspeed-config": ("config", "text"),
    "job.config-file": ("config", "text"),
    # what changes time or memory, and no rule: a note says so
    **dict.fromkeys(
        (
            "fp8-param-gather", "keep-fp8-transpose-cache", "use-precision-aware-optimizer", "main-grads-dtype",
            "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype", "grad-reduce-in-bf16", "cp-comm-type",
            "hierarchical-context-parallel-sizes", "recompute-modules", "num-distributed-optimizer-instances",
            "moe-expert-capacity-factor", "moe-pad-expert-input-to-capacity", "overlap-moe-expert-parallel-comm",
            "moe-shared-expert-overlap", "window-size", "activation-checkpoint.selective-ac-option",
            "parallelism.enable-async-tensor-parallel", "parallelism.context-parallel-rotate-method",
            "training.dtype", "training.mixed-precision-param", "training.mixed-precision-reduce",
            "distribute-saved-activations", "delay-wgrad-compute", "fsdp-double-buffer",
        ),
        ("", "noted")
    ),
    # names that speak of the layout and do not change it
    **dict.fromkeys(
        (
            "attention-dropout", "hidden-dropout", "attention-softmax-in-fp32", "vocab-file", "merge-file",
            "rotary-base", "rotary-percent", "use-rotary-position-embeddings", "use-flash-attn", "attention-backend",
            "no-masked-softmax-fusion", "moe-aux-loss-coeff", "moe-z-loss-coeff", "moe-router-load-balancing-type",
            "moe-router-score-function", "moe-router-dtype", "moe-router-topk-scaling-factor",
            "moe-router-bias-update-rate", "moe-router-enable-expert-bias", "moe-grouped-gemm", "moe-permute-fusion",
            "moe-token-dispatcher-type", "moe-flex-dispatcher-backend", "moe-enable-deepep", "moe-router-pre-softmax",
            "moe-router-fusion", "moe-per-layer-logging", "rampup-batch-size", "tensorboard-queue-size",
            "lr-warmup-samples", "num-workers", "train-samples", "eval-global-batch-size", "norm-topk-prob",
            "zero-optimization.overlap-comm", "zero-optimization.contiguous-gradients", "rank", "node-rank",
            "zero-optimization.reduce-scatter", "zero-optimization.reduce-bucket-size", "distributed-timeout-minutes",
            "zero-optimization.allgather-partitions", "zero-optimization.allgather-bucket-size", "master-port",
            "zero-optimization.round-robin-gradients", "ckpt-fully-parallel-save", "ckpt-fully-parallel-load",
            "stage3-max-live-parameters", "stage3-max-reuse-distance", "stage3-prefetch-bucket-size", "sub-group-size",
            "stage3-param-persistence-threshold", "stage3-gather-16bit-weights-on-model-save",
            "no-pipeline-parallel", "deepspeed-activation-checkpointing", "moe-loss-coeff", "create-moe-param-group",
            "parallelism.disable-loss-parallel", "fp8-amax-history-len", "fp8-amax-compute-algo", "fp8-recipe",
            "apply-layernorm-1p", "no-position-embedding", "overlap-param-gather-with-optimizer-step",
            "eval-micro-batch-size",
            "accumulate-allreduce-grads-in-fp32", "no-gradient-accumulation-fusion", "log-num-zeros-in-grad",
        ),
        ("", "unused")
    ),
}  # fmt: skip
"""Which field of a launch a flag sets, and how."""

STRUCTURAL = frozenset(
    [
        "parallel",
        "pipeline",
        "tensor",
        "context",
        "expert",
        "experts",
        "moe",
        "layer",
        "layers",
        "stage",
        "stages",
        "virtual",
        "zero",
        "recompute",
        "activation",
        "activations",
        "offload",
        "batch",
        "microbatch",
        "seq",
        "sequence",
        "hidden",
        "head",
        "heads",
        "ffn",
        "vocab",
        "fsdp",
        "shard",
        "sharding",
        "replicate",
        "attention",
        "query",
        "mtp",
        "mla",
        "lora",
        "window",
        "gated",
        "swiglu",
        "glu",
        "kv",
        "channels",
        "tp",
        "pp",
        "cp",
        "ep",
        "dp",
        "degree",
        "hierarchical",
        "instances",
        "offloading",
        "fp8",
        "fp4",
        "precision",
        "dtype",
        "converters",
    ]
)
"""Words by which an unknown flag says that it may change the layout."""


@dataclass(frozen=True)
class Setting:
    """A flag of a launch: its name, its value, and the file it stands in."""

    flag: str
    value: str
    file: str


@dataclass(frozen=True)
class Launch:
    """What a launch says.

    Attributes:
        values: by field of `FLAGS`.
        flags: name of the flag that set each field, as it was written.
        unused: names of flags that are not used.
        noted: flags with their values that change time or memory, and are evaluated as if they were not there.
        dialect: whose rules hold: `megatron`, `torchtitan` or `deepspeed`.
    """

    values: Mapping[str, Any]
    flags: Mapping[str, str]
    unused: tuple[str, ...]
    noted: tuple[str, ...]
    dialect: str

    def whole(self, field: str, default: int) -> int:
        """A number, or what the tool takes where nothing is said."""
        return int(self.values.get(field, default))

    def but(self, field: str, value: int) -> Launch:
        """The same with a field that the user adds.

        Raises:
            InputError: a flag says something else.
        """
        if self.values.get(field, value) != value:
            text, said = f"{self.flag(field)} says {self.values[field]}", str(value)
            raise InputError([Problem(text, path=f"--set {field}", value=said, allowed=str(self.values[field]))])
        return replace(self, values={**self.values, field: value})

    def has(self, field: str) -> bool:
        """Whether a flag sets the field to anything but false."""
        return bool(self.values.get(field, False))

    def flag(self, field: str) -> str:
        """How the flag is written; the usual name where it is not."""
        usual = next((name for name, (own, _) in FLAGS.items() if own == field), field)
        return self.flags.get(field, f"--{usual}")


def read_launch(files: Sequence[Path]) -> Launch:
    """What the files of one launch say together.

    Raises:
        InputError: every flag that is unknown and may change the layout, has no such value, or is set twice.
    """
    settings = [setting for file in files for setting in _settings(file)]
    values: dict[str, Any] = {}
    flags: dict[str, str] = {}
    unused: dict[str, None] = {}
    noted: dict[str, None] = {}
    problems: list[Problem] = []
    for setting in settings:
        name = _key(setting.flag)
        field, use = FLAGS.get(name, ("", "text"))
        if not field:
            off = setting.value.lower() in ("false", "none", "off", "[]")
            if use == "noted" and not off:
                noted.setdefault(f"{setting.flag} {setting.value}".strip())
                continue
            if use == "text" and not off and STRUCTURAL & set(re.split(r"[.-]", name)):
                text = "this flag may change the layout and is not read"
                problems.append(Problem(text, setting.file, None, setting.flag, setting.value or None, "left out"))
            unused.setdefault(setting.flag)
            continue
        try:
            value = _value(setting, use)
        except InputError as error:
            problems += error.problems
            continue
        if field in values and values[field] != value:
            text = f"{flags[field]} says {values[field]}"
            problems.append(Problem(text, setting.file, None, setting.flag, str(value), "one of both"))
        values[field] = value
        flags[field] = setting.flag
    config = str(values.get("config", ""))
    if config and Path(config).name not in {file.name for file in files}:
        text = "this file is a part of the launch"
        problems.append(Problem(text, str(files[0]), None, flags["config"], config, "the file beside this one"))
    raise_any(problems)
    return Launch(values, flags, tuple(unused), tuple(noted), _dialect(settings))


def _dialect(settings: Iterable[Setting]) -> str:
    keys = {_key(setting.flag) for setting in settings}
    if any(key.startswith(("parallelism.", "training.")) for key in keys):
        return "torchtitan"
    deepspeed = {"train-batch-size", "train-micro-batch-size-per-gpu", "zero-optimization.stage"}
    return "deepspeed" if keys & deepspeed else "megatron"


def _key(flag: str) -> str:
    """The name that the table has: the whole way to it in a mapping, else its last part."""
    name = flag.removeprefix("--").replace("_", "-").lower()
    return name if name in FLAGS else name.rsplit(".", 1)[-1] if name.rsplit(".", 1)[-1] in FLAGS else name


def _value(setting: Setting, use: str) -> Any:
    text = setting.value
    if use == "switch":
        if text.lower() not in ("", "true", "false", "1", "0"):
            raise _wrong(setting, "a flag without a value, true or false")
        return text.lower() in ("", "true", "1")
    if use == "whole":
        if not re.fullmatch(r"-?[0-9]{1,15}", text):
            raise _wrong(setting, "a whole number")
        return int(text)
    if not text:
        raise _wrong(setting, "a word")
    return text


def _wrong(setting: Setting, allowed: str) -> InputError:
    text = "no value"
    if setting.value:
        text = "a variable that the script does not set" if "$" in setting.value else "not such a value"
    return InputError([Problem(text, setting.file, None, setting.flag, setting.value or None, allowed)])


def _settings(file: Path) -> Iterator[Setting]:
    suffix = file.suffix.lower()
    if suffix in (".json", ".yaml", ".yml"):
        document = parse_document(file, LIMITS)
        document.refuse(())
        if not isinstance(document.data, dict):
            raise InputError([Problem("not a mapping", str(file), allowed="names of flags with their values")])
        yield from _flat(document.data, (), str(file))
    elif suffix == ".toml":
        try:
            data = tomllib.loads(read_text(file, MAX_TEXT_BYTES, "a TOML file"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError([Problem(f"not TOML: {error}", str(file))]) from None
        yield from _flat(data, (), str(file))
    else:
        yield from _of_words(_words(read_text(file, MAX_TEXT_BYTES, "a script, or flags"), str(file)), str(file))


def _flat(data: Mapping[Any, Any], path: tuple[str, ...], file: str) -> Iterator[Setting]:
    """Leaves of a mapping; what is null says nothing."""
    for key, value in data.items():
        inner = (*path, str(key))
        if isinstance(value, dict):
            yield from _flat(value, inner, file)
        elif value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield Setting(".".join(inner), text, file)


def _of_words(words: Sequence[str], file: str) -> Iterator[Setting]:
    """Flags among the words of commands, each with the words up to the next one."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not re.match(r"--[A-Za-z]", word):
            continue
        flag, sign, value = word.partition("=")
        use = FLAGS.get(_key(flag), ("", "text"))[1]
        if not sign and use == "switch" and index < len(words) and words[index].lower() in ("true", "false"):
            value = words[index]
        if not sign and use != "switch":
            first = index
            while (
                index < len(words)
                and not words[index].startswith("--")
                and (index == first or use in ("unused", "noted"))
            ):
                index += 1
            value = " ".join(words[first:index])
        yield Setting(flag, value, file)


_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)(?:\[[@*]\])?(?::?-([^}]*))?\}|\$(\w+)")
_SUM = re.compile(r"\$\(\(((?:[^()]|\([^()]*\))*)\)\)")


def _words(text: str, file: str) -> list[str]:
    """Words of the commands of a script, with the variables and arrays that it sets; nothing is run."""
    try:
        lines = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)  # a comment does not go on behind its backslash
        lines = _SUM.sub(lambda match: f"$(({''.join(match[1].split())}))", lines)
        tokens = shlex.split(re.sub(r"\\[ \t]*\r?\n", " ", lines), comments=True)
    except ValueError as error:
        raise InputError([Problem(f"quotes that do not match: {error}", file)]) from None
    variables: dict[str, list[str]] = {}
    in_use: set[str] = set()
    words: list[str] = []
    index = length = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        in_use |= {match[1] or match[3] for match in _VARIABLE.finditer(token)}
        match = None if token.startswith("--") else _ASSIGNED.fullmatch(token)
        if match is None:
            added = _expanded(token, variables)
            words += added
            if (length := length + sum(map(len, added))) > MAX_TEXT_BYTES:
                raise InputError([Problem("variables too long", file, allowed=f"{MAX_TEXT_BYTES} characters")])
        elif match[3].startswith("("):
            items = [match[3][1:]]
            while not items[-1].endswith(")") and index < len(tokens):
                items.append(tokens[index])
                index += 1
            items[-1] = items[-1].removesuffix(")")
            before = variables.get(match[1], []) if match[2] else []
            added = [word for item in filter(None, items) for word in _expanded(item, variables)]
            variables[match[1]] = [*before, *added]
        else:
            before = variables.get(match[1], []) if match[2] else []
            variables[match[1]] = ["".join([*before, " ".join(_expanded(match[3], variables))])]
    listed = [name for name, items in variables.items() if any(item.startswith("--") for item in items)]
    if not any(word.startswith("--") for word in words):  # flags alone, without a command
        return [word for name in listed for item in variables[name] for word in shlex.split(item)]
    return words + [f"--{name}=no command has it" for name in listed if name not in in_use]


def _name_of(token: str) -> str:
    """The variable that a word is; empty: it is more than one."""
    match = _VARIABLE.fullmatch(token)
    return "" if match is None else match[1] or match[3]


def _expanded(token: str, variables: Mapping[str, list[str]]) -> list[str]:
    """A word with its variables; one that is a variable alone may be several words.

    Raises:
        InputError: variables in variables make it longer than any launch is.
    """
    names = [match[1] or match[3] for match in _VARIABLE.finditer(token)]
    if len(token) + sum(len(word) for name in names for word in variables.get(name, ())) > MAX_WORD:
        raise InputError([Problem("variables too long", path=", ".join(names[:3]), allowed=f"{MAX_WORD} characters")])
    if (name := _name_of(token)) in variables:
        return [part for word in variables[name] for part in shlex.split(word)]

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return " ".join(variables[name]) if name in variables else match[2] if match[2] is not None else match[0]

    text = _VARIABLE.sub(value, _SUM.sub(lambda match: f"$(({_VARIABLE.sub(value, match[1])}))", token))
    return [_SUM.sub(lambda match: _sum(_named(match[1], variables)) or match[0], text)]


def _named(text: str, variables: Mapping[str, list[str]]) -> str:
    """Names in a sum stand for their values, with or without a sign."""
    return re.sub(r"[A-Za-z_]\w*", lambda match: " ".join(variables.get(match[0], [match[0]])), text)


_OPERATORS: Mapping[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}


def _sum(text: str) -> str | None:
    """A sum of whole numbers; None: it is something else."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return int(_OPERATORS[type(node.op)](value(node.left), value(node.right)))
        raise ValueError

    try:
        return str(value(ast.parse(text.strip(), mode="eval").body)) if len(text) <= MAX_SUM else None
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


ARGUMENTS_FILE, HOST_FILE, RANKS_FILE = "arguments.txt", "hostfile", "ranks.csv"


HEAD = ("rank", "host", "gpu", "tensor", "context", "data", "pipeline")

SCHEDULES = (PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.INTERLEAVED)
"""What Megatron-LM runs."""

ORDERS = (RANK_ORDER, (D.TENSOR, D.CONTEXT, D.PIPELINE, D.DATA))
"""Of ranks: the usual one, and that of `--use-tp-pp-dp-mapping`."""

SHARING = {2: "optim_grads", 3: "optim_grads_params"}
"""What its FSDP shares out, by ZeRO stage."""


def arguments_of(
    strategy: ParallelStrategy, problem: LlmTrainingProblem, *, experts: bool
) -> tuple[tuple[str, str], ...]:
    """Names and values; an empty value for a flag.

    Args:
        experts: the model has some.
    """
    s = strategy
    listed: list[tuple[str, object]] = [
        ("--num-layers", problem.model.layers),
        ("--seq-length", problem.batch.length),
        ("--global-batch-size", problem.batch.sequences),
        ("--micro-batch-size", s.micro_batch),
        ("--tensor-model-parallel-size", s.tensor),
        ("--context-parallel-size", s.context),
        ("--pipeline-model-parallel-size", s.pipeline),
    ]
    if experts:
        listed += [("--expert-model-parallel-size", s.expert), ("--expert-tensor-parallel-size", s.expert_tensor)]
    return tuple((name, str(value)) for name, value in (*listed, *_choices(s)))


def has_experts(result: Result[Any, Any]) -> bool:
    """Whether experts are divided, or their copies are reduced apart from the rest."""
    divided = any(plan.strategy.expert * plan.strategy.expert_tensor > 1 for plan in result.plan.fabrics)
    return divided or dict(result.figures.sent_bytes).get("data_expert_sent_bytes", 0.0) > 0


def _choices(s: ParallelStrategy) -> Iterator[tuple[str, object]]:
    if _counted(s) != _counted(s, RANK_ORDER):
        yield "--use-tp-pp-dp-mapping", ""
    if s.sequence:
        yield "--sequence-parallel", ""
    if s.pipeline > 1 and len(set(s.stage_layers)) > 1:
        yield "--pipeline-model-parallel-layout", _layout(s.stage_layers)
    elif s.chunks > 1:
        yield "--num-virtual-stages-per-pipeline-rank", s.chunks
    if s.zero == 1:
        yield "--use-distributed-optimizer", ""
    elif s.zero > 1:
        yield "--use-megatron-fsdp", ""
        yield "--data-parallel-sharding-strategy", SHARING[s.zero]
        yield "--use-distributed-optimizer", ""
        yield "--no-gradient-accumulation-fusion", ""
        yield "--ckpt-format", "fsdp_dtensor"
    if s.recompute is Recompute.FULL:
        yield "--recompute-granularity", "full"
        yield "--recompute-method", "uniform"
        yield "--recompute-num-layers", 1
    elif s.recompute is Recompute.SELECTIVE:
        yield "--recompute-granularity", "selective"


def _counted(strategy: ParallelStrategy, order: tuple[D, ...] | None = None) -> list[D]:
    """The dimensions that ranks count along, in an order (default: its own): those of one rank stand anywhere."""
    return [
        dimension
        for dimension in (strategy.order if order is None else order)
        if getattr(strategy, dimension.value) > 1
    ]


def _layout(layers: tuple[int, ...]) -> str:
    """Stages in the order of the model: E embedding, t a layer, L the loss."""
    stages = ["t" * count for count in layers]
    return "|".join(["E" + stages[0], *stages[1:-1], stages[-1] + "L"])


def coordinates(strategy: ParallelStrategy, rank: int) -> dict[D, int]:
    """Where a rank stands in each dimension: the first one counts fastest."""
    by_dimension = {}
    for dimension in strategy.order:
        rank, by_dimension[dimension] = divmod(rank, getattr(strategy, dimension.value))
    return by_dimension


def build(result: Result[Any, Any], options: ExportOptions) -> Export:
    """Arguments, one a line; hosts with their slots; a row for every rank.

    Raises:
        InputError: what Megatron-LM does not run.
    """
    plan, problem = plan_on(result, options.fabric), result.figures.problem
    strategy = plan.strategy
    experts = has_experts(result)
    _refuse(strategy, experts=experts)
    servers = plan.network.places or tuple(range(problem.cluster.servers))
    names = {index: host.name for index, host in enumerate(options.hosts)}
    hosts = [names.get(server, f"server-{server}") for server in servers]
    g = problem.cluster.gpus_per_server
    arguments = arguments_of(strategy, problem, experts=experts)
    rows = [
        (rank, hosts[rank // g], rank % g, *(coordinates(strategy, rank)[dimension] for dimension in RANK_ORDER))
        for rank in range(problem.cluster.gpus)
    ]
    text = "".join(f"{name} {value}".rstrip() + "\n" for name, value in arguments)
    files = (
        (ARGUMENTS_FILE, text.encode()),
        (HOST_FILE, "".join(f"{host} slots={g}\n" for host in hosts).encode()),
        (RANKS_FILE, csv_text(HEAD, rows).encode()),
        (NOTES_FILE, notes_bytes(f"Megatron-LM on {problem.cluster.gpus} GPUs", EXPORTER.limits)),
    )
    content: dict[str, Any] = {
        "arguments": dict(arguments),
        "hosts": [(host, g) for host in hosts],
        "ranks": [tuple(map(str, row)) for row in rows],
    }
    return Export(files, content, EXPORTER.limits)


def _refuse(strategy: ParallelStrategy, *, experts: bool) -> None:
    problems = []
    if strategy.schedule not in SCHEDULES:
        allowed = ", ".join(SCHEDULES)
        text = "Megatron-LM has no such schedule"
        problems.append(Problem(text, path="plan.strategy.schedule", value=strategy.schedule.value, allowed=allowed))
    if experts and strategy.tensor > 1 and not strategy.sequence:  # megatron/core/transformer/moe/moe_layer.py
        text = "Megatron-LM trains experts beside tensor parallelism with sequence parallelism alone"
        problems.append(Problem(text, path="plan.strategy.sequence", value="false", allowed="true"))
    usual, stages_first = (_counted(strategy, order) for order in ORDERS)
    if _counted(strategy) not in (usual, stages_first):
        value, allowed = ", ".join(strategy.order), " or ".join(", ".join(order) for order in ORDERS)
        text = "Megatron-LM has no such order of ranks"
        problems.append(Problem(text, path="plan.strategy.order", value=value, allowed=allowed))
    elif experts and _counted(strategy) != usual and strategy.expert_replicas != strategy.data:
        # An assertion of megatron/core/parallel_state.py.
        text = "Megatron-LM wants as many replicas of experts as of all else where ranks count along data last"
        value, allowed = str(strategy.expert_replicas), str(strategy.data)
        problems.append(Problem(text, path="plan.strategy.order", value=f"{value} of experts", allowed=allowed))
    raise_any(problems)


EXPORTER = Exporter(
    kinds=("llm-training",),
    makes="arguments of Megatron-LM for the strategy, a host file and the place of every rank",
    limits=(
        "the shape of the model but for its layers, the data and the learning rate are the user's",
        "schedules other than 1f1b and interleaved are refused",
        "what is hidden (overlap) follows from further arguments of Megatron-LM, which the solution does not say",
        "layers that predict further tokens stand on the last stage, and are not in the layout",
    ),
    folder=True,
    build=build,
)
