"""What a launch comes to: its model, batch and strategy, and the rules of its tool that it breaks.

Rules are those of Megatron-LM (megatron/training/arguments.py, megatron/core/parallel_state.py), torchtitan and
DeepSpeed; each that is broken is said with its numbers. Ranks fold: GPUs = tensor x context x data x pipeline, and of
experts GPUs = expert_tensor x expert x (replicas of experts) x pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from topoopt.core.arrays import divisors
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.parallelism import (
    MAX_GPUS,
    RANK_ORDER,
    ParallelDimension,
    ParallelStrategy,
    PipelineSchedule,
    Recompute,
)
from topoopt.formats.launch import Launch

VOCABULARY_UNIT = 128
MAX_LAYOUT = 20_000
SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
SCHEDULES = {
    "1f1b": PipelineSchedule.ONE_F_ONE_B,
    "gpipe": PipelineSchedule.GPIPE,
    "interleaved1f1b": PipelineSchedule.INTERLEAVED,
    "dualpipev": PipelineSchedule.DUALPIPE_V,
}
RECOMPUTED = {"none": Recompute.NONE, "selective": Recompute.SELECTIVE, "full": Recompute.FULL}
ADAM = ("adam", "adamw", "fusedadam", "cpuadam")
STAGES_FIRST = (RANK_ORDER[0], RANK_ORDER[1], ParallelDimension.PIPELINE, ParallelDimension.DATA)


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model that rules speak of, from the launch or from the instance beside it.

    Attributes:
        layers, experts: of the model; 1 expert: dense.
        heads, kv_heads: numbers of heads of all kinds of layers.
        length: tokens of a sequence.
        gpus: N.
    """

    layers: int
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    experts: int
    length: int
    gpus: int


def world_of(launch: Launch) -> int | None:
    """GPUs that the launcher starts; None: it does not say.

    Raises:
        InputError: two numbers that differ.
    """
    per_node, nodes = launch.values.get("gpus_per_node"), launch.values.get("nodes", 1)
    started = None if per_node is None else per_node * nodes
    said = launch.values.get("gpus")
    if said is not None and started is not None and said != started:
        text = f"{nodes} nodes of {per_node} processes are {started}"
        raise InputError([Problem(text, path=launch.flag("gpus"), value=str(said), allowed=str(started))])
    return said if said is not None else started


def model_section(launch: Launch) -> dict[str, Any] | str | None:
    """The section `model` of an instance; None: the launch says nothing of the model.

    Raises:
        InputError: flags that are missing, or that no model here has.
    """
    values = launch.values
    if "model_name" in values or "model_flavor" in values:
        return f"{values.get('model_name', '')}-{values.get('model_flavor', '')}".lower().strip("-")
    if not {"layers", "hidden", "heads"} & set(values):
        return None
    problems = [
        Problem("missing", path=launch.flag(field), allowed="a number")
        for field in ("layers", "hidden", "heads")
        if field not in values
    ]
    if "vocabulary" not in values and "padded_vocabulary" not in values:
        allowed = "a number, or --set vocabulary=..."
        problems.append(Problem("missing: rows of the embedding", path=launch.flag("vocabulary"), allowed=allowed))
    norm, positions = values.get("normalization", "LayerNorm"), values.get("position_type", "learned_absolute")
    if positions not in ("rope", "none", "learned_absolute"):
        allowed = "rope, none, learned_absolute"
        problems.append(Problem("not covered", path=launch.flag("position_type"), value=positions, allowed=allowed))
    if positions == "learned_absolute" and "positions" not in values:
        problems.append(
            Problem("missing: learned positions", path=launch.flag("positions"), allowed="a number, or rope")
        )
    width, count = values.get("hidden", 0), max(values.get("heads", 1), 1)
    if "head_size" not in values and width % count:
        text, allowed = f"{count} heads do not divide the width {width}", f"divisors of {width}, or --kv-channels"
        problems.append(Problem(text, path=launch.flag("heads"), value=str(count), allowed=allowed))
    problems += _experts_problems(launch)
    raise_any(problems)
    hidden, heads = values["hidden"], values["heads"]
    gated = launch.has("gated")
    section: dict[str, Any] = {
        "layers": values["layers"],
        "hidden": hidden,
        "ffn_hidden": launch.whole("ffn_hidden", int(4 * hidden * 2 / 3) // 64 * 64 if gated else 4 * hidden),
        "heads": heads,
        "kv_heads": kv_heads_of(launch, heads),
        "head_size": launch.whole("head_size", max(hidden // heads, 1)),
        "vocabulary": _vocabulary(launch),
        "positions": launch.whole("positions", 0) if positions == "learned_absolute" else 0,
        "gated": gated,
        "biases": not launch.has("unbiased") and norm == "LayerNorm",
        "attention_biases": launch.has("attention_biases"),
        "query_key_norms": launch.has("query_key_norms"),
        "tied": not launch.has("untied"),
        "mtp_layers": launch.whole("mtp_layers", 0),
    }
    if launch.has("latent"):
        section["latent"] = {
            "query_rank": launch.whole("query_rank", 0),
            "key_value_rank": launch.whole("key_value_rank", 32),
            "plain_size": launch.whole("plain_size", 128),
            "rotary_size": launch.whole("rotary_size", 64),
            "value_size": launch.whole("value_size", 128),
        }
    if launch.whole("experts", 1) > 1:
        width = launch.whole("expert_hidden", section["ffn_hidden"])
        section["experts"] = {
            "count": launch.whole("experts", 1),
            "per_token": launch.whole("per_token", 2),
            "hidden": width,
            "shared": launch.whole("shared_hidden", 0) // width,
            "dense_layers": _pattern(launch) or 0,
        }
    return section


def model_notes(launch: Launch) -> tuple[str, ...]:
    """What of a model in flags is counted otherwise than Megatron-LM builds it."""
    if "layers" not in launch.values:
        return ()
    layer_norm = launch.values.get("normalization", "LayerNorm") == "LayerNorm"
    if layer_norm == launch.has("unbiased"):
        what = "norms are counted without biases" if layer_norm else "matrices are counted without biases"
        return (what,)
    return ()


def kv_heads_of(launch: Launch, heads: int) -> int:
    """Heads of keys and values: as of queries unless they are grouped."""
    if launch.has("grouped") or ("kv_heads" in launch.values and "grouped" not in launch.values):
        return launch.whole("kv_heads", 1)
    return heads


def _vocabulary(launch: Launch) -> int:
    """Rows as they are trained: a multiple of 128 times tensor, as Megatron-LM pads them."""
    if "padded_vocabulary" in launch.values:
        return launch.whole("padded_vocabulary", 1)
    unit = launch.whole("vocabulary_unit", VOCABULARY_UNIT) * launch.whole("tensor", 1)
    return -(-launch.whole("vocabulary", 1) // unit) * unit


def _experts_problems(launch: Launch) -> Iterator[Problem]:
    if launch.whole("experts", 1) == 1:
        return
    width = launch.values.get("expert_hidden", launch.values.get("ffn_hidden"))
    shared = launch.whole("shared_hidden", 0)
    if width and shared % width:
        text = f"the shared expert of {shared} is no whole number of experts of {width}"
        yield Problem(text, path=launch.flag("shared_hidden"), value=str(shared), allowed=f"multiples of {width}")
    if _pattern(launch) is None:
        text, allowed = "dense layers are not the first ones", "1, or ([0]*k+[1]*n)"
        yield Problem(text, path=launch.flag("expert_layers"), value=launch.values["expert_layers"], allowed=allowed)


def _pattern(launch: Launch) -> int | None:
    """First dense layers by the pattern of layers with experts; None: dense ones stand elsewhere."""
    text = str(launch.values.get("expert_layers", "1")).replace(" ", "")
    if text == "1":
        return 0
    match = re.fullmatch(r"\(?\[0\](?:\*([0-9]+))?\+\[1\](?:\*[0-9]+)?\)?", text)
    return None if match is None else int(match[1] or 1)


def formats_section(launch: Launch) -> dict[str, Any]:
    """The section `formats`: numbers of 16 bits, products in 8 bits where a flag says so."""
    return {"compute": "fp8" if launch.has("fp8") else "fp16" if launch.has("fp16") else "bf16"}


@dataclass(frozen=True)
class Division:
    """How a launch divides the work.

    Attributes:
        strategy: its parts; layers of stages as the flags have them, empty where they are even.
        sequences: of an iteration.
        problems: rules that it breaks.
        notes: what the tool does without a word.
    """

    strategy: ParallelStrategy
    sequences: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def division_of(launch: Launch, sizes: Sizes, sequences: int | None) -> Division:
    """The strategy of a launch, and every rule that it breaks.

    Args:
        sizes: of the model and the cluster.
        sequences: of an iteration, of the instance; None: only the launch says.
    """
    return _Divided(launch, sizes, sequences).division()


class _Divided:
    def __init__(self, launch: Launch, sizes: Sizes, sequences: int | None) -> None:
        self.launch, self.sizes, self.beside = launch, sizes, sequences
        self.tensor, self.context = launch.whole("tensor", 1), launch.whole("context", 1)
        self.pipeline, self.expert = launch.whole("pipeline", 1), launch.whole("expert", 1)
        usual = self.tensor if sizes.experts > 1 and launch.dialect == "megatron" else 1
        self.expert_tensor = launch.whole("expert_tensor", usual)
        self.micro_batch = launch.whole("micro_batch", 1)
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def broken(self, field: str, text: str, value: object, allowed: str) -> None:
        """Keep a rule that is broken."""
        self.problems.append(Problem(text, path=self.launch.flag(field), value=str(value), allowed=allowed))

    def division(self) -> Division:
        """All rules, the strategy as far as numbers allow one."""
        for field in ("tensor", "context", "pipeline", "expert", "expert_tensor", "micro_batch"):
            value, most = getattr(self, field), self.sizes.gpus if field == "pipeline" else MAX_GPUS
            if value < 1:
                self.broken(field, "not a number of GPUs or sequences", value, "1 or more")
            elif field != "micro_batch" and value > most:
                self.broken(field, f"more than {most} GPUs", value, f"at most {most}")
            else:
                continue
            setattr(self, field, 1)
        data = self._replicas()
        sequences = self._sequences(data)
        self._batch(data, sequences)
        self._model()
        chunks, layers = self._layers()
        self._switches(chunks)
        schedule = self._schedule(chunks)
        strategy = replace(
            ParallelStrategy(),
            tensor=self.tensor,
            sequence=self._sequence(),
            context=self.context,
            pipeline=self.pipeline,
            chunks=chunks,
            data=data,
            expert=self.expert,
            expert_tensor=self.expert_tensor,
            zero=self._zero(data),
            micro_batch=self.micro_batch,
            schedule=schedule,
            recompute=self._recompute(),
            order=STAGES_FIRST if self.launch.has("stages_first") else RANK_ORDER,
            stage_layers=layers,
        )
        return Division(strategy, sequences, tuple(self.problems), tuple(self.notes))

    def _replicas(self) -> int:
        n, t, c, p = self.sizes.gpus, self.tensor, self.context, self.pipeline
        others, x, y = t * c * p, self.expert, self.expert_tensor
        if n % others:
            text = f"{n} GPUs do not divide by tensor x context x pipeline = {t} x {c} x {p} = {others}"
            self.broken("tensor", text, others, f"divisors of {n}")
        if self.launch.dialect == "torchtitan":
            return self._sharded(n, others)
        if n % (y * x * p):
            text = (
                f"{n} GPUs do not divide by expert_tensor x expert x pipeline = {y} x {x} x {p} = {y * x * p}"
                f"{'' if 'expert_tensor' in self.launch.values else ', where expert_tensor is as tensor unless set'}"
            )
            self.broken("expert", text, y * x * p, f"divisors of {n}")
        return max(n // others, 1)

    def _sharded(self, n: int, others: int) -> int:
        """Replicas of torchtitan: replicate x shard, of which shard may be what the others leave."""
        replicas, shard = self.launch.whole("replicate", 1), self.launch.whole("shard", -1)
        if shard == -1:
            shard = max(n // (others * replicas), 1)
        if replicas * shard * others != n:
            text = f"replicate x shard x context x tensor x pipeline = {replicas} x {shard} x {others} is not {n} GPUs"
            self.broken("shard", text, replicas * shard * others, str(n))
        folded = shard * self.context * self.tensor
        if folded % self.expert:
            text = f"expert does not divide shard x context x tensor = {folded}"
            self.broken("expert", text, self.expert, f"divisors of {folded}")
        if replicas > 1 and shard > 1:
            text = f"shards in {replicas} groups of {shard} (hybrid sharding) are not evaluated"
            self.broken("replicate", text, replicas, f"1, or {self.launch.flag('shard')} 1")
        return replicas * shard

    def _sequences(self, data: int) -> int:
        launch = self.launch
        local = launch.values.get("local_batch", launch.whole("micro_batch", 1) * launch.whole("accumulation", 1))
        said = launch.values.get("sequences")
        if said is None or said == -1:
            if self.beside is not None and "local_batch" not in launch.values and "accumulation" not in launch.values:
                return self.beside
            self.notes.append(f"no batch is set, so it is {local} sequences of each of {data} replicas: {local * data}")
            return int(local * data)
        if "accumulation" in launch.values and said != local * data:
            text = (
                f"{launch.flag('sequences')} {said} is not micro-batch x accumulation x replicas = "
                f"{self.micro_batch} x {launch.whole('accumulation', 1)} x {data} = {local * data}"
            )
            self.broken("accumulation", text, launch.whole("accumulation", 1), str(local * data))
        return int(said)

    def _batch(self, data: int, sequences: int) -> None:
        launch, n, b = self.launch, self.sizes.gpus, self.micro_batch
        local = launch.values.get("local_batch")
        if local is not None and launch.dialect == "torchtitan":
            if self.pipeline == 1 and "micro_batch" not in launch.values:
                b = self.micro_batch = local
            if local % b:
                text = f"{launch.flag('micro_batch')} {b} does not divide the {local} sequences of a replica"
                self.broken("local_batch", text, local, f"multiples of {b}")
        if sequences % (data * b):
            others = self.tensor * self.context * self.pipeline
            good = [d for d in divisors(sequences // b) if sequences % (d * b) == 0] if sequences >= b else []
            near = ", ".join(f"{d} ({d * others} GPUs)" for d in _nearest(good, data))
            text = (
                f"the batch of {sequences} sequences is not a multiple of micro-batch x replicas = {b} x {data} = "
                f"{b * data}, with {n} / ({self.tensor} x {self.context} x {self.pipeline}) = {data} replicas"
            )
            allowed = f"multiples of {b * data}" + (f", or replicas {near}" if near else "")
            self.broken("sequences", text, sequences, allowed)

    def _model(self) -> None:
        s, t, c, x = self.sizes, self.tensor, self.context, self.expert
        for heads in s.heads:
            if heads % t:
                self.broken("tensor", f"tensor {t} does not divide the {heads} heads", t, f"divisors of {heads}")
        for heads in s.kv_heads:
            if heads % t and t % heads:
                text = f"tensor {t} is neither a divisor nor a multiple of the {heads} heads of keys and values"
                self.broken("tensor", text, t, f"divisors or multiples of {heads}")
        if c > 1 and s.length % (2 * c):
            text = f"a sequence of {s.length} tokens does not divide into 2 x context = {2 * c} parts"
            self.broken("context", text, c, f"2c divides {s.length}")
        if x > 1 and s.experts == 1:
            self.broken("expert", "the model has no experts", x, "1")
        elif s.experts % x:
            text = f"expert {x} does not divide the {s.experts} experts of a layer"
            self.broken("expert", text, x, f"divisors of {s.experts}")

    def _layers(self) -> tuple[int, tuple[int, ...]]:
        """Runs of layers of a stage, and the layers of each in the order of the model; empty: even."""
        launch, total, p = self.launch, self.sizes.layers, self.pipeline
        choices = [field for field in ("layers_per_chunk", "chunks", "layout") if field in launch.values]
        if len(choices) > 1:
            flags = " and ".join(launch.flag(field) for field in choices)
            self.broken(choices[1], f"{flags} both say how stages are divided", len(choices), "one of them")
        if "layout" in launch.values:
            return self._layout()
        if launch.dialect == "torchtitan":
            return self._titan_layers()
        ends = [launch.values.get(field) for field in ("first_layers", "last_layers")]
        if any(end is not None for end in ends):
            return self._with_ends(ends)
        first, last = launch.has("embedding_counts"), launch.has("loss_counts")
        slots = total + first + last
        if slots % p:
            even = [total // p + (stage < total % p) for stage in range(p)]
            counted = f" ({total} and {first + last} for embedding and loss)" if first + last else ""
            text = f"{slots} layers{counted} do not divide by {p} stages: each would have {slots // p}"
            self.broken("layers", text, total, f"multiples of {p}; or --pipeline-model-parallel-layout '{_text(even)}'")
            return 1, ()
        of_stage = slots // p
        chunks = launch.whole("chunks", 1)
        if "layers_per_chunk" in launch.values:
            of_chunk = launch.whole("layers_per_chunk", 1)
            if of_chunk < 1 or of_stage % of_chunk:
                text = f"{of_stage} layers of a stage do not divide by {of_chunk} of a chunk"
                self.broken("layers_per_chunk", text, of_chunk, f"divisors of {of_stage}")
                return 1, ()
            chunks = of_stage // of_chunk
        if chunks < 1 or of_stage % chunks:
            text = f"{of_stage} layers of a stage do not divide into {chunks} chunks"
            self.broken("chunks", text, chunks, f"divisors of {of_stage}")
            return 1, ()
        if p == 1:
            return chunks, ()
        layers = [of_stage // chunks] * (p * chunks)
        layers[0] -= first
        layers[-1] -= last
        return chunks, tuple(layers)

    def _with_ends(self, ends: list[Any]) -> tuple[int, tuple[int, ...]]:
        total, p, v = self.sizes.layers, self.pipeline, self.launch.whole("chunks", 1)
        if "layers_per_chunk" in self.launch.values:
            flag = self.launch.flag("layers_per_chunk")
            self.broken("first_layers", f"not beside {flag}", ends[0], self.launch.flag("chunks"))
        between = p - sum(end is not None for end in ends)
        rest = total - sum(end or 0 for end in ends)
        if between < 0 or (rest and not between) or (between and (rest < between or rest % between)):
            text = f"{rest} layers of {total} are left for {between} stages between"
            self.broken("first_layers", text, " + ".join(str(end or 0) for end in ends), f"multiples of {between}")
            return 1, ()
        inner = rest // between if between else 0
        stages = [inner] * p
        stages[0] = ends[0] if ends[0] is not None else inner
        stages[-1] = ends[1] if ends[1] is not None else inner
        if any(stage % v for stage in stages):
            text = f"stages of {', '.join(map(str, sorted(set(stages))))} layers do not divide into {v} chunks"
            self.broken("chunks", text, v, "common divisors of them")
            return 1, ()
        return v, tuple(stage // v for _ in range(v) for stage in stages)

    def _layout(self) -> tuple[int, tuple[int, ...]]:
        text, p = str(self.launch.values["layout"]), self.pipeline
        stages = _stages(text)
        if stages is None:
            self.broken("layout", "not a layout", text, "like Et*3|(tt|)*29,m|L")
            return 1, ()
        layers = tuple(stage.count("t") for stage in stages)
        if sum(layers) != self.sizes.layers:
            self.broken("layout", f"{sum(layers)} layers t, the model has {self.sizes.layers}", text, "all of them")
        if len(stages) % p:
            self.broken("layout", f"{len(stages)} stages do not divide by {p} ranks", text, f"multiples of {p}")
        if stages[0][:1] != "E" or stages[-1][-1:] != "L" or sum(map(str.count, stages, "E" * len(stages))) != 1:
            self.broken("layout", "one E stands first and one L last", text, "like Ett|ttL")
        return max(len(stages) // p, 1), layers if len(stages) % p == 0 else ()

    def _titan_layers(self) -> tuple[int, tuple[int, ...]]:
        """torchtitan takes layers from both ends: the embedding and the head count as some (1 each)."""
        launch, total, p = self.launch, self.sizes.layers, self.pipeline
        if p == 1:
            return 1, ()
        first, last = launch.whole("first_less", 1), launch.whole("last_less", 1)
        if not 0 <= min(first, last) <= max(first, last) <= total:
            self.broken("first_less", "not a number of layers less", f"{first} and {last}", f"0 to {total}")
            return 1, ()
        several = "interleaved" in str(launch.values.get("schedule", "1F1B")).lower()
        slots, stages = total + first + last, p * (2 if several else 1)
        if "layers_per_chunk" in launch.values:
            stages = -(-slots // max(launch.whole("layers_per_chunk", 1), 1))
        if stages % p:
            text = (
                f"{slots} layers, with {first} and {last} for the ends, in {stages} stages do not divide by {p} ranks"
            )
            self.broken("layers_per_chunk", text, launch.whole("layers_per_chunk", 1), f"multiples of {p} stages")
            return 1, ()
        least, more = divmod(slots, stages)
        layers = [least + (stage < more) for stage in range(stages)]
        layers[0] -= first
        layers[-1] -= last
        if min(layers) < 0:
            self.broken("first_less", "a stage has less than no layers", min(layers), "fewer stages")
            return 1, ()
        return stages // p, tuple(layers)

    def _switches(self, chunks: int) -> None:
        launch = self.launch
        if chunks > 1 and self.pipeline == 1:
            self.broken("chunks", "one stage has one run of layers", chunks, "1")
        group = launch.values.get("group")
        if group is not None and group < self.pipeline:
            self.broken("group", f"fewer micro-batches than the {self.pipeline} stages", group, f">= {self.pipeline}")
        needed = ("overlap_reduce", "distributed_optimizer")
        if launch.has("overlap_gather") and not all(launch.has(field) for field in needed):
            missing = " and ".join(launch.flag(field) for field in needed if not launch.has(field))
            self.broken("overlap_gather", f"needs {missing}", "on", f"with {missing}")
        if launch.has("overlap_tensor") and not launch.has("sequence"):
            self.broken("overlap_tensor", f"needs {launch.flag('sequence')}", "on", "with it")
        recompute, method = launch.values.get("recompute"), launch.values.get("recompute_method")
        if (
            launch.dialect == "megatron"
            and recompute == "full"
            and not (method and "recompute_layers" in launch.values)
        ):
            text = f"full needs {launch.flag('recompute_method')} and {launch.flag('recompute_layers')}"
            self.broken("recompute", text, "full", "with both")
        if recompute == "selective" and method:
            self.broken("recompute_method", "not beside selective", method, "left out")
        if (name := str(launch.values.get("optimizer", "adam"))).lower() not in ADAM:
            self.broken("optimizer", "states of this optimizer are not evaluated", name, ", ".join(ADAM))
        if self.sizes.experts > 1:
            self._experts()
        if launch.has("stages_first") and self.pipeline > 1 and self.sizes.experts > 1:
            replicas = self.sizes.gpus // (self.expert * self.expert_tensor * self.pipeline)
            data = self.sizes.gpus // (self.tensor * self.context * self.pipeline)
            if replicas != data:
                text = f"{replicas} replicas of experts and {data} of all else where ranks count along data last"
                self.broken("stages_first", text, replicas, str(data))

    def _experts(self) -> None:
        launch, count = self.launch, self.sizes.experts
        if launch.dialect == "megatron" and self.tensor > 1 and not launch.has("sequence"):
            text = f"experts beside tensor {self.tensor} need {launch.flag('sequence')}"
            self.broken("sequence", text, "off", "with it")
        groups, chosen = launch.whole("expert_groups", 1), launch.whole("groups_per_token", 1)
        if groups < 1 or count % groups:
            self.broken("expert_groups", f"does not divide the {count} experts", groups, f"divisors of {count}")
        elif chosen > groups:
            self.broken("groups_per_token", f"more than the {groups} groups", chosen, f"at most {groups}")
        elif chosen < groups:
            self.notes.append(f"experts of a token in {chosen} of {groups} groups: evaluated without that limit")

    def _sequence(self) -> bool:
        if self.launch.dialect == "torchtitan":
            return self.tensor > 1
        if self.launch.has("sequence") and self.tensor == 1:
            self.notes.append(f"{self.launch.flag('sequence')} is off, as tensor is 1")
        return self.launch.has("sequence") and self.tensor > 1

    def _schedule(self, chunks: int) -> PipelineSchedule:
        name = self.launch.values.get("schedule")
        if name is None or self.pipeline == 1:
            several = chunks > 1 and self.pipeline > 1
            return PipelineSchedule.INTERLEAVED if several else PipelineSchedule.ONE_F_ONE_B
        if (schedule := SCHEDULES.get(name.lower())) is None:
            self.broken("schedule", "no such schedule here", name, ", ".join(SCHEDULES))
            return PipelineSchedule.ONE_F_ONE_B
        return schedule

    def _zero(self, data: int) -> int:
        launch, shared = self.launch, data * self.context > 1
        if launch.dialect == "torchtitan":
            if not shared or launch.whole("replicate", 1) == data > 1:
                return 0
            reshard = launch.values.get("reshard", "default")
            return 3 if reshard == "always" or (reshard == "default" and self.pipeline == 1) else 2
        zero = launch.whole("zero", 0)
        if not 0 <= zero <= 3:
            self.broken("zero", "no such stage", zero, "0 to 3")
            zero = 0
        if launch.has("fsdp"):
            strategy = launch.values.get("sharding", "no_shard")
            if strategy not in SHARDING:
                self.broken("sharding", "no such strategy", strategy, ", ".join(SHARDING))
            zero = max(zero, SHARDING.get(strategy, 0))
        elif launch.has("distributed_optimizer"):
            zero = max(zero, 1)
        return zero if shared else 0

    def _recompute(self) -> Recompute:
        launch = self.launch
        usual = (
            "full" if launch.has("recompute_all") else "selective" if launch.has("recompute_activations") else "none"
        )
        name = str(launch.values.get("recompute", usual))
        if name not in RECOMPUTED:
            self.broken("recompute", "no such recomputation here", name, ", ".join(RECOMPUTED))
        return RECOMPUTED.get(name, Recompute.NONE)


def _nearest(numbers: list[int], aim: int) -> list[int]:
    """The next smaller and larger one, and a few more."""
    below, above = [item for item in numbers if item < aim][-2:], [item for item in numbers if item > aim][:2]
    return below + above


def _text(layers: list[int]) -> str:
    """A layout of stages."""
    stages = ["t" * count for count in layers]
    return "|".join(["E" + stages[0], *stages[1:-1], stages[-1] + "L"]) if len(stages) > 1 else f"E{stages[0]}L"


_REPEATED = re.compile(r"\(([EtmL|,]*)\)\*([0-9]{1,4})|([EtmL])\*([0-9]{1,4})")


def _stages(text: str) -> list[str] | None:
    """Stages of a layout, repetitions written out; None: it is none."""

    def written(match: re.Match[str]) -> str:
        part, times = match[1] or match[3] or "", int(match[2] or match[4] or 0)
        return part * times if len(part) * times <= MAX_LAYOUT else "?"

    for _ in range(8):
        text, count = _REPEATED.subn(written, text[:MAX_LAYOUT])
        if not count:
            break
    text = text.replace(",", "").rstrip("|")
    return text.split("|") if re.fullmatch(r"[EtmL|]+", text) else None
