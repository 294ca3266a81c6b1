"""Tables of measured training runs: each row as a problem and the layouts it may have had, or why there is none."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import (
    GpuCluster,
    LanguageModel,
    LlmSearchSettings,
    LlmTrainingProblem,
    NumberFormats,
    TrainingBatch,
)
from topoopt.core.parallelism import Overlap, ParallelStrategy, PipelineSchedule, Recompute, StrategySpace
from topoopt.files.issues import nearest_text, value_text
from topoopt.files.reader_fields import FieldTable, named, noted, used
from topoopt.files.untrusted import read_text
from topoopt.simulate.llm_training.strategies import StrategyColumns, columns_of
from topoopt.simulate.llm_training.times import iteration_times, with_balanced
from topoopt.workloads.language_models import TRAINING_DEVICES, token_operations
from topoopt.workloads.published_models import PUBLISHED_MODELS, published_model
from topoopt.workloads.step_efficiencies import GENERATIONS, SOFTWARE, kind_of, model_rates, overlap_of, slowdown_of

NEEDED = ("id", "model", "device", "gpus")
MOST_RUNS = 10_000

FIELDS: FieldTable = {
    "id": used("name of the run; its first word names the software where `software` is empty"),
    "source": noted("where the row is from"),
    "model": used("a name of the tables of models, or so many of its layers: deepseek-v3-4-layers"),
    "params": noted("the model says it"),
    "device": used("a device"),
    "gpus": used("devices of the run"),
    "tp": used("tensor"),
    "pp": used("stages"),
    "vp": used("chunks of a stage; several, parted by bars: the fastest"),
    "cp": used("context"),
    "ep": used("experts"),
    "dp": used("replicas; empty: what the others leave"),
    "mbs": used("sequences of a micro-batch; several, parted by bars: the fastest"),
    "gbs": used("sequences of a step; empty: from the step and its rate"),
    "seq": used("tokens of a sequence"),
    "recompute": used("none, selective, selective (per operator), full, rematerialisation: ..."),
    "precision": used("bf16, fp16, fp8, mxfp8, nvfp4, ..."),
    "nic_gbps": used("network of a device, Gbit/s; empty: as the device has it"),
    "step_s": used("seconds of a step, measured; empty: from the rate"),
    "tflops_gpu": used("of tables by length alone; other sources count operations in different ways"),
    "tokens_s_gpu": used("tokens a second and device, measured"),
    "peak_gib": noted("memory has no part in the time"),
    "notes": used("layers of a slice, ZeRO, FSDP, MTP, expert tensor, eager"),
    "software": used("a name of the table of software"),
}
"""What a column may hold."""

_DEVICES: Mapping[str, str] = MappingProxyType(
    {
        "a100-sxm-80": "a100", "a100-sxm-40": "a100-40", "a800-80": "a100", "h100-sxm": "h100",
        "h100-sxm-96-hbm2e-500w": "h100-96", "tpu-v7x-ironwood": "tpu-v7x",
    }
)  # fmt: skip
"""Names of tables for devices."""

A800_GBPS, A800_SHARES = 1600.0, (0.835, 0.835, 0.835)
"""Scale-up of an A800, which is an A100 with fewer links."""

_WHOLE_NUMBERS: Mapping[str, float] = MappingProxyType({"tpu-v5e": 393.0, "tpu-v6e": 1836.0})
"""TFLOP/s of products of 8-bit whole numbers, which tables of these devices mean by 8 bits."""

_NEWEST = ("26.06", "26.06.01", "26.08")
_ZERO_BUBBLE = {"zb-h1": PipelineSchedule.ZB_H1, "zb-2p": PipelineSchedule.ZB_2P, "zbb": PipelineSchedule.ZB_2P,
                "zbv": PipelineSchedule.ZB_2P}  # fmt: skip
_PER_SERVER_NETWORK = 24.0
"""Gbit/s of a TPU between slices, where no figure is published."""


class NoEstimateError(Exception):
    """Why a row has no estimate."""


@dataclass(frozen=True)
class RowSettings:
    """What a row states beside its software, or what its source is read to mean.

    Attributes:
        again: share of products that selective recomputation computes again; None: as the software has it.
        overlaps, hides: tensor transfers, and those of replicas, are hidden in part; None: as the software has it.
        limited_links: it has the links of an A800.
        shard: ranks that share states, over all replicas.
    """

    again: float | None = None
    overlaps: bool | None = None
    hides: bool | None = None
    limited_links: bool = False
    shard: float = 1.0


@dataclass(frozen=True, eq=False)
class TableRun:
    """A row that can be timed.

    Attributes:
        name: its id.
        group: of like runs, which are fitted or left out together.
        software, device, kind: what sets of like runs are made of.
        problem: efficiencies are those shipped.
        columns: layouts it may have had; the fastest counts.
        settings: as the row has them.
        measured_s: None: not stated.
    """

    name: str
    group: str
    software: str
    device: str
    kind: str
    problem: LlmTrainingProblem
    columns: StrategyColumns
    settings: RowSettings
    measured_s: float | None

    def with_numbers(self, values: Mapping[str, float] | None) -> LlmTrainingProblem:
        """The problem with other numbers than those shipped."""
        own, problem = self.settings, self.problem
        rates = model_rates(self.device, self.software, problem.formats, problem.model, values)
        if own.again is not None:
            rates = replace(rates, again=own.again)
        if own.limited_links:
            two, four, eight = A800_SHARES
            rates = replace(rates, scale_up_2=two, scale_up_4=four, scale_up=eight)
        rates = replace(rates, replica_ms=rates.replica_ms * own.shard)
        hidden, overlapping = overlap_of(self.software, values), overlap_of("megatron-bridge", values).tensor
        if own.overlaps is not None:
            hidden = replace(hidden, tensor=overlapping if own.overlaps else 0.0)
        if own.hides is not None:
            hidden = replace(hidden, data=own.hides)
        cluster = replace(problem.cluster, slowdown=slowdown_of(rates, problem.cluster.gpus))
        device = replace(problem.device, reached=rates)
        return replace(problem, device=device, cluster=cluster, overlap=hidden)

    def seconds(self, values: Mapping[str, float] | None = None) -> float:
        """Of a step of the fastest layout, by the numbers shipped or others."""
        return float(iteration_times(self.with_numbers(values), self.columns).min())


@dataclass(frozen=True)
class TableRow:
    """A row: a run, or the reason why it has no estimate."""

    name: str
    run: TableRun | None
    reason: str = ""


def read_runs(path: Path) -> tuple[tuple[TableRow, ...], tuple[str, ...]]:
    """All rows of a table, in its order; and notes on columns that are not used.

    Raises:
        InputError: the table has other columns, or none of those that are needed.
    """
    file = str(path)
    rows = list(csv.reader(io.StringIO(read_text(file, 16 * MIB))))
    header = rows[0] if rows else []
    problems = [
        Problem("no such column", file, 1, None, value_text(name), nearest_text(name, FIELDS))
        for name in header
        if name not in FIELDS
    ]
    problems += [Problem("missing column", file, 1, name) for name in NEEDED if name not in header]
    problems += [Problem("column twice", file, 1, name) for name in dict.fromkeys(header) if header.count(name) > 1]
    if not 1 < len(rows) <= MOST_RUNS + 1:
        problems.append(Problem("number of runs", file, None, None, str(max(0, len(rows) - 1)), f"1 to {MOST_RUNS}"))
    if problems:
        raise InputError(problems)
    runs = tuple(_row(header, cells, line) for line, cells in enumerate(rows[1:], start=2) if any(cells))
    unused = [f"{name} ({FIELDS[name][1]})" for name in header if FIELDS[name][0] == "noted"]
    return runs, named(f"{path.name}: columns not used", unused)


def _row(header: list[str], cells: list[str], line: int) -> TableRow:
    name = dict(zip(header, cells, strict=False)).get("id") or f"line {line}"
    if len(header) != len(cells):
        return TableRow(name, None, f"{len(cells)} cells for {len(header)} columns")
    try:
        return TableRow(name, _RowReader({key: text.strip() for key, text in zip(header, cells, strict=True)}).run())
    except NoEstimateError as error:
        return TableRow(name, None, str(error))


def _fraction(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1e12:
        raise ValueError
    return value


_SOFTWARE_OF = {"nemo": "nemo", "mpt": "llm-foundry", "titan": "torchtitan", "intern": "internevo", "fms": "fsdp",
                "simumax": "megatron-limited-power", "megatron": "megatron-lm", "primus": "primus"}  # fmt: skip
_FULLY_SHARDED = ("llm-foundry", "torchtitan", "fsdp", "maxtext", "primus")
_TPU_LENGTHS = {"gpt3": 2048.0, "mixtral": 4096.0}


class _RowReader:
    """What one row says, and what is assumed where it is silent."""

    def __init__(self, cells: Mapping[str, str]) -> None:
        self.cells, self.notes, self.name = cells, cells.get("notes", ""), cells.get("id", "")
        self.tpu = cells["device"].startswith("tpu")
        self.software = cells.get("software", "") or self._software()
        if self.software not in SOFTWARE:
            raise NoEstimateError(f"software {self.software} is none of {', '.join(SOFTWARE)}")

    def number(self, column: str) -> float | None:
        text = self.cells.get(column, "")
        if not text:
            return None
        try:
            return _fraction(text)
        except ValueError:
            raise NoEstimateError(f"{column} is {text!r}, no positive number") from None

    def whole(self, column: str) -> int:
        value = self.number(column)
        if value is not None and value != int(value):
            raise NoEstimateError(f"{column} is {value:g}, no whole number")
        return int(value or 1)

    def choices(self, column: str, default: float) -> list[float]:
        """Several, parted by bars, where a source does not state which."""
        text = self.cells.get(column, "")
        try:
            return [_fraction(part) for part in text.split("|")] if text else [default]
        except ValueError:
            raise NoEstimateError(f"{column} is {text!r}, no positive number") from None

    def _software(self) -> str:
        first, *more = self.name.split("-")
        if first == "dgxc":
            return "maxtext" if "MaxText" in self.notes or "PaxML" in self.notes else "nemo"
        if first == "project":
            old = self.cells["device"].startswith("a100")
            return "megatron-lm" if old or "MegaScale" in self.name else "megatron-core"
        if first == "mb":
            release = more[0] if more else ""
            newest = "-26.06" if release in _NEWEST else "-25" if release.startswith("25") else ""
            return f"megatron-bridge{newest}"
        if self.tpu:
            return "maxtext"
        return _SOFTWARE_OF.get(first, "megatron-bridge")

    def model(self) -> LanguageModel:
        name = self.cells["model"]
        model = published_model(name)
        if model is None:
            raise NoEstimateError(f"no model {name} is in the tables: {nearest_text(name, PUBLISHED_MODELS)}")
        sliced = re.search(r"(\d+) layers of", self.notes)
        if sliced and not re.search(r"-\d+-layers$", name):
            model = model.of_layers(min(int(sliced[1]), model.layers))
        further = 1 if "with 1 MTP" in self.notes or "w/ MTP" in self.notes else 0
        return replace(model, mtp_layers=further)

    def formats(self, gradient_bytes: int) -> NumberFormats:
        text = self.cells.get("precision", "")
        four, eight = "fp4" in text, "fp8" in text and "fp4" not in text
        device = TRAINING_DEVICES[self.device()]
        if (eight and device.fp8_tflops is None) or (four and device.fp4_tflops is None):
            raise NoEstimateError(f"{self.cells['device']} has no products of {text}")
        plain = any(paper in self.name for paper in ("2104.04473", "2205.05198", "2402.15627_Megatron-LM"))
        return NumberFormats(fp8=eight, gradient_bytes=gradient_bytes, flash=not plain, fp4=four)

    def device(self) -> str:
        name = _DEVICES.get(self.cells["device"], self.cells["device"])
        if name not in GENERATIONS:
            raise NoEstimateError(f"no device {self.cells['device']}: {nearest_text(name, GENERATIONS)}")
        return name

    def length(self) -> int:
        length = self.number("seq")
        if length is None and self.tpu:
            model = self.cells["model"]
            length = next((size for word, size in _TPU_LENGTHS.items() if model.startswith(word)), 8192.0)
        if length is None:
            raise NoEstimateError("the length of a sequence is not stated")
        return int(length)

    def batch(self, model: LanguageModel, length: int, gpus: int) -> tuple[float, float | None]:
        """Sequences of a step, and its seconds where they are stated."""
        seconds, tokens, batch = self.number("step_s"), self.number("tokens_s_gpu"), self.number("gbs")
        if batch is None and seconds is not None and tokens is not None:
            batch = float(round(seconds * tokens * gpus / length))
        micro = self.cells.get("mbs", "")
        if batch is None and micro and self.software == "primus":  # a micro-batch a step
            batch = self.choices("mbs", 1.0)[0] * (self.number("dp") or gpus)
        if batch is None and seconds is None and tokens is None and not micro:
            raise NoEstimateError("no batch and no layout in the row: a rate of operations alone")
        if not batch:
            raise NoEstimateError("the batch is not stated, nor does it follow from a step and its rate")
        if seconds is None and tokens is not None:
            seconds = batch * length / (gpus * tokens)
        rate = self.number("tflops_gpu")
        if seconds is None and rate is not None and self.name.startswith("nemo-long"):
            # The whole square of scores: a causal count would need more of attention than kernels reach.
            seconds = batch * length * token_operations(model, length, causal=False) / (gpus * rate * 1e12)
        return batch, seconds

    def _zero(self, pipeline: int) -> int:
        notes = self.notes.replace("FSDP 0", "")
        if "ZeRO 0" in notes:
            return 0
        whole = self.software in _FULLY_SHARDED or "FSDP" in notes or "ZeRO 3" in notes
        # With stages torchtitan keeps what it gathers, for a step.
        kept = "SHARD_GRAD_OP" in notes or (self.software == "torchtitan" and pipeline > 1)
        return (2 if kept else 3) if whole else 1

    def _gradients(self, model: LanguageModel, expert: int) -> int:
        if any(word in self.notes for word in ("ZeRO 0", "ZeRO 3")):
            return 2
        if self.software in ("llm-foundry", "maxtext", "internevo"):
            return 2
        large = self.cells["model"] in ("deepseek-v3", "llama3.1-405b") or expert > 1
        return 2 if self.software.startswith("megatron-bridge") and large else 4

    def _recompute(self) -> tuple[Recompute, float | None]:
        """What is computed again, and the share of products where it is selective."""
        text = self.cells.get("recompute", "")
        if text in ("full", "rematerialisation: full"):
            return Recompute.FULL, None
        if "per operator" in text:
            return Recompute.SELECTIVE, 0.5
        if text.startswith("rematerialisation") or (self.tpu and not text):
            return Recompute.SELECTIVE, 0.5
        return (Recompute.SELECTIVE if text == "selective" else Recompute.NONE), None

    def _settings(self, again: float | None, replicas: float) -> RowSettings:
        scale = 1.0
        if self.software == "internevo":
            inside = re.search(r"groups of (\d+)|zero1 size (\d+)", self.notes)
            size = float(inside[1] or inside[2]) if inside else replicas
            scale = min(1.0, size / replicas)
        herd = "2407.21783" in self.name
        scales = "MegaScale" in self.name
        return RowSettings(
            again=again,
            overlaps=False if herd else True if scales else None,
            hides=True if scales or herd else None,
            limited_links=self.cells["device"] == "a800-80",
            shard=scale,
        )

    def cluster(self, gpus: int, device: str) -> GpuCluster:
        own = TRAINING_DEVICES[device]
        domain = own.domain
        if domain == 72 and gpus % 72:  # powers of two use 64 of a rack
            domain = 64
        inner = next(size for size in range(min(domain, gpus), 0, -1) if gpus % size == 0)
        nic = self.number("nic_gbps") or own.network_gbps or _PER_SERVER_NETWORK
        scale_up = A800_GBPS if self.cells["device"] == "a800-80" else 8.0 * (own.scale_up_gbytes_per_s or 1.0)
        return GpuCluster(
            servers=gpus // inner,
            gpus_per_server=inner,
            device=device,
            gpu_memory_bytes=None,
            headroom_bytes=0,
            intra_server_gbps=scale_up,
            degree=inner,
            per_gpu=True,
            link_gbps=nic,
        )

    def run(self) -> TableRun:
        """Read the row.

        Raises:
            NoEstimateError: it cannot be timed.
        """
        if "memory only" in self.notes:
            raise NoEstimateError("memory only: no time in the row")
        device, model, length = self.device(), self.model(), self.length()
        gpus = self.whole("gpus")
        batch, measured = self.batch(model, length, gpus)
        if not self.tpu and not self.cells.get("tp"):
            raise NoEstimateError("the layout is not stated")
        tensor, pipeline, context, expert = (self.whole(name) for name in ("tp", "pp", "cp", "ep"))
        shared = re.search(r"expert tensor (\d+)", self.notes)
        of_expert = int(shared[1]) if shared else tensor if self.software == "nemo" and expert > 1 else 1
        stages = tensor * pipeline * context
        replicas = self.number("dp") or gpus / stages
        if self.tpu:
            tensor = pipeline = context = 1
            replicas = float(gpus)
        if replicas != int(replicas) or int(replicas) * tensor * pipeline * context != gpus:
            replicas = gpus / (tensor * pipeline * context)
        if replicas != int(replicas):
            raise NoEstimateError(f"{tensor} x {pipeline} x {context} ranks do not divide {gpus} devices")
        again, share = self._recompute()
        usual = batch / replicas / pipeline if self.software == "torchtitan" and pipeline > 1 else 1.0
        schedule = next((kind for word, kind in _ZERO_BUBBLE.items() if word in self.name), None)
        schedule = PipelineSchedule.DUALPIPE if "2412.19437" in self.name else schedule
        own_device = TRAINING_DEVICES[device]
        problem = LlmTrainingProblem(
            name=self.name,
            model=model,
            batch=TrainingBatch(max(1, round(batch)), length),
            cluster=self.cluster(gpus, device),
            formats=self.formats(self._gradients(model, expert)),
            space=StrategySpace(),
            overlap=Overlap(),
            device=replace(own_device, fp8_tflops=_WHOLE_NUMBERS.get(device, own_device.fp8_tflops)),
            fabrics=(),
            top=1,
            prove=False,
            search=LlmSearchSettings(),
            sha256="",
        )
        run = TableRun(
            name=self.name,
            group="/".join((self.name.split("-")[0], _spelled(self.cells["model"]), self.cells["device"])),
            software=self.software,
            device=device,
            kind=kind_of(model),
            problem=problem,
            columns=columns_of([ParallelStrategy()], model.layers),
            settings=self._settings(share, replicas * context),
            measured_s=measured,
        )
        own = ParallelStrategy(
            tensor=tensor, sequence=tensor > 1, context=context, pipeline=pipeline, data=int(replicas), expert=expert,
            expert_tensor=of_expert, zero=self._zero(pipeline), recompute=again,
        )  # fmt: skip
        micros = [batch / gpus] if self.tpu else self.choices("mbs", usual)
        layouts = list(self._layouts(own, batch, micros, schedule))
        if not layouts:
            raise NoEstimateError("the batch is smaller than replicas x micro-batch")
        return _balanced(run, layouts, batch)

    def _layouts(
        self, own: ParallelStrategy, batch: float, micros: list[float], schedule: PipelineSchedule | None
    ) -> Iterator[tuple[ParallelStrategy, float]]:
        for micro in micros:
            for chunks in self.choices("vp", 2.0 if "interleaved" in self.name else 1.0):
                if batch / (own.data * micro) < 0.99 and not self.tpu:
                    continue
                usual = PipelineSchedule.INTERLEAVED if chunks > 1 else PipelineSchedule.ONE_F_ONE_B
                yield replace(own, chunks=int(chunks), schedule=schedule or usual), micro


def _spelled(model: str) -> str:
    """Names of one model alike."""
    return model.replace("llama3.1", "llama3").replace("qwen3-235b-a22b", "qwen3-235b")


DOWN = 1.0 - 1e-12
"""So that rounding leaves as many micro-batches as there are."""


def _balanced(run: TableRun, layouts: list[tuple[ParallelStrategy, float]], batch: float) -> TableRun:
    """With layers of stages balanced by their seconds, and as recipes lay them out; the fastest counts."""
    columns = columns_of([strategy for strategy, _ in layouts], run.problem.model.layers)
    micro = np.array([size for _, size in layouts])
    turns = np.maximum(1.0, np.round(batch / columns.data / micro))
    # Whole micro-batches: where they do not divide the batch, each is a little larger or smaller.
    columns = replace(columns, micro_batch=run.problem.batch.sequences / columns.data / turns * DOWN)
    several = (columns.pipeline > 1) & ~columns.scheduled(PipelineSchedule.DUALPIPE)
    if not several.any():
        return replace(run, columns=columns)
    # As even as can be, with short ends, in the second half.
    halves = np.tile(np.arange(len(layouts)), 2)
    balanced = np.tile(several, 2) & (np.arange(2 * len(layouts)) < len(layouts))
    return replace(run, columns=with_balanced(run.with_numbers(None), columns.rows(halves), balanced))
