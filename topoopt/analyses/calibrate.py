"""Tables of measured training runs: rows as problems and layouts, beside estimates, and numbers fitted to them."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from topoopt.core.arrays import MIB, Floats
from topoopt.core.errors import InputError, Problem, raise_any
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
from topoopt.page import options
from topoopt.page.output import Output, say
from topoopt.page.render import TerminalTable
from topoopt.page.text import counted, percent
from topoopt.simulate.llm_training.strategies import StrategyColumns, columns_of
from topoopt.simulate.llm_training.times import iteration_times, with_balanced
from topoopt.workloads.language_models import TRAINING_DEVICES, token_operations
from topoopt.workloads.published_models import PUBLISHED_MODELS, published_model
from topoopt.workloads.step_efficiencies import (
    GENERATIONS,
    SOFTWARE,
    STEP_EFFICIENCIES,
    half_width,
    kind_of,
    model_rates,
    overlap_of,
    slowdown_of,
)

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
        return replace(problem, device=replace(problem.device, reached=rates), cluster=cluster, overlap=hidden)

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
    raise_any(problems)
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
        spelled = self.cells["model"].replace("llama3.1", "llama3").replace("qwen3-235b-a22b", "qwen3-235b")
        run = TableRun(
            name=self.name,
            group="/".join((self.name.split("-")[0], spelled, self.cells["device"])),
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


BEND = 0.08
"""Log ratio beyond which a run counts linearly (Huber)."""

SCATTER = 0.06
"""Standard deviation of the log ratio of a run."""

STEP = 0.01
"""By which numbers change for derivatives, on logarithms."""

ROUNDS = 2
"""How often derivatives are taken anew."""

Values = Mapping[str, float]


def shipped() -> dict[str, float]:
    """The numbers as they are shipped."""
    return {name: number.value for name, number in STEP_EFFICIENCIES.items()}


def log_seconds(runs: Sequence[TableRun], values: Values) -> Floats:
    """Logarithms of estimates, one a run."""
    return np.log([run.seconds(values) for run in runs])


def derivatives(runs: Sequence[TableRun], values: Values, names: Sequence[str], logs: Floats) -> Floats:
    """float64[runs, names]: of the logarithm of an estimate by that of a number, `logs` being the estimates."""
    table = np.zeros((len(runs), len(names)))
    for row, run in enumerate(runs):
        before = _decisive(run, values)
        for column, name in enumerate(names):
            changed = {**values, name: values[name] * math.exp(STEP)}
            if _decisive(run, changed) != before:
                table[row, column] = (math.log(run.seconds(changed)) - logs[row]) / STEP
    return table


def _decisive(run: TableRun, values: Values) -> tuple[object, ...]:
    """What numbers come down to in a run: alike where its time is."""
    problem = run.with_numbers(values)
    return problem.device.reached, problem.cluster.slowdown, problem.overlap


def run_weights(runs: Sequence[TableRun], left_out: Iterable[str] = ()) -> Floats:
    """A group of n like runs weighs as much as n ** 0.5 runs; those left out weigh nothing."""
    sizes, none = Counter(run.group for run in runs), set(left_out)
    weights = np.array([0.0 if run.name in none else sizes[run.group] ** -0.5 for run in runs])
    return np.asarray(weights / weights.mean())


class LinearFit:
    """Least squares around values where estimates and derivatives were taken.

    Args:
        values: of all numbers.
        names: those that are fitted.
        centres, spreads: of the prior of each, on logarithms.
    """

    def __init__(
        self, values: Values, names: Sequence[str], centres: Floats, spreads: Floats, logs: Floats, table: Floats
    ) -> None:
        self.values, self.names, self.centres, self.spreads = dict(values), tuple(names), centres, spreads
        self.logs, self.table = logs, table
        self.at = np.log([values[name] for name in names])
        numbers = [STEP_EFFICIENCIES[name] for name in names]
        self.bounds = np.log([number.least for number in numbers]), np.log([number.most for number in numbers])

    def solve(self, measured: Floats, weights: Floats, rows: Floats | None = None) -> tuple[dict[str, float], Floats]:
        """Values, and the spread of each by curvature, on logarithms.

        Args:
            measured: logarithms of seconds.
            rows: of the runs that count; None: all.
        """
        from scipy.optimize import least_squares

        chosen = slice(None) if rows is None else rows
        table, logs = self.table[chosen], (self.logs - measured)[chosen]
        root = np.sqrt(weights[chosen])

        def residuals(point: Floats) -> Floats:
            off = logs + table @ (point - self.at)
            size = np.abs(off)
            bent = np.sign(off) * np.where(size <= BEND, size, np.sqrt(np.maximum(2 * BEND * size - BEND**2, 0.0)))
            return np.concatenate([root * bent / SCATTER, (point - self.centres) / self.spreads])

        low, high = self.bounds
        start = np.clip(self.at, low + 1e-6, high - 1e-6)
        fit = least_squares(residuals, start, bounds=(low - 1e-9, high + 1e-9), x_scale=self.spreads)
        curved = np.linalg.pinv(fit.jac.T @ fit.jac)
        return {**self.values, **dict(zip(self.names, np.exp(fit.x).tolist(), strict=True))}, np.sqrt(np.diag(curved))


def fitted(
    runs: Sequence[TableRun], start: Values, names: Sequence[str], centres: Floats, spreads: Floats, weights: Floats,
    rounds: int = ROUNDS,
) -> tuple[LinearFit, dict[str, float], Floats]:  # fmt: skip
    """Fit numbers to runs, with derivatives taken anew in each round.

    Returns:
        The last linear fit, the values, and the spread of each that was fitted.
    """
    measured = np.log([run.measured_s for run in runs if run.measured_s is not None])
    values = dict(start)
    for _ in range(rounds):
        logs = log_seconds(runs, values)
        linear = LinearFit(values, names, centres, spreads, logs, derivatives(runs, values, names, logs))
        values, spread = linear.solve(measured, weights)
    return linear, values, spread


OWN_SPREAD = 0.08
"""Of the factor of a table's own runs, on logarithms."""


def calibrate(
    table: Annotated[Path, typer.Argument(help="Table of measured runs (CSV): a run a row, with its layout.")],
    keep: Annotated[bool, typer.Option("--keep", help="Judge the shipped numbers, fit none.")] = False,
    as_json: options.Json = False,
) -> None:
    """Estimate measured runs; fit a factor, products and attention of their devices to them, near the shipped values.

    A row has an id, a model and a device by name, devices (gpus), the layout (tp, pp, vp, cp, ep, dp), mbs, gbs, seq,
    precision, recompute, nic_gbps, software, and what was measured (step_s or tokens_s_gpu).
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.core.errors import Problem

        rows, notes = read_runs(table)
        measured = [row.run for row in rows if row.run is not None and row.run.measured_s is not None]
        if not measured and not keep:
            text = "no run has both an estimate and a time: nothing can be fitted (--keep estimates all)"
            raise InputError([Problem(text, str(table))])
        values, numbers = (shipped(), []) if keep else fit_few(measured)
        answers = [row_document(row, values) for row in rows]
        document: dict[str, Any] = {"numbers": numbers, "rows": answers, "summary": summary(answers), "notes": notes}
        output.result(document, lambda console: _show(console, document), answer(document, kept=keep))
        return 0

    output.run(command)


def few_names(runs: Sequence[TableRun]) -> list[str]:
    """Numbers that a table of runs can tell: a factor, and products and attention of its devices and formats."""
    names = ["own_runs"]
    for generation in dict.fromkeys(GENERATIONS[run.device].name for run in runs):
        formats = {(run.problem.formats.fp8, run.problem.formats.fp4) for run in runs}
        candidates = [f"products_{generation}", f"attention_{generation}"]
        candidates += [f"fp8_{generation}"] if any(eight for eight, _ in formats) else []
        candidates += [f"fp4_{generation}"] if any(four for _, four in formats) else []
        names += [name for name in candidates if name in STEP_EFFICIENCIES and STEP_EFFICIENCIES[name].spread > 0]
    return names


def fit_few(runs: Sequence[TableRun]) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Values of all numbers, and those that were fitted as a document; the shipped values are the prior."""
    values, names = shipped(), few_names(runs)
    spreads = np.array([STEP_EFFICIENCIES[name].spread or OWN_SPREAD for name in names])
    centres = np.log([values[name] for name in names])
    _, result, spread = fitted(runs, values, names, centres, spreads, run_weights(runs))
    numbers: list[dict[str, Any]] = [
        {"name": name, "value": float(f"{result[name]:.4g}"), "spread": round(float(size), 4), "shipped": values[name],
         "meaning": STEP_EFFICIENCIES[name].meaning}
        for name, size in zip(names, spread, strict=True)
    ]  # fmt: skip
    return {**values, **{item["name"]: item["value"] for item in numbers}}, numbers


def row_document(row: TableRow, values: Mapping[str, float]) -> dict[str, Any]:
    """A row of the answer; without an estimate the reason."""
    empty = dict.fromkeys(("estimate_s", "low_s", "high_s", "measured_s", "error"))
    if row.run is None:
        return {"id": row.name, **empty, "reason": row.reason, "like": None}
    run = row.run
    seconds = run.seconds(values)
    width = half_width(run.device, run.software, run.kind)
    measured = run.measured_s
    return {
        "id": row.name,
        "estimate_s": seconds,
        "low_s": seconds * math.exp(-width.of_log),
        "high_s": seconds * math.exp(width.of_log),
        "measured_s": measured,
        "error": None if measured is None else seconds / measured - 1.0,
        "reason": None,
        "like": width.runs,
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows with and without an estimate; mean and worst error of those measured, and how many intervals hold them."""
    judged = [row for row in rows if row["error"] is not None]
    sizes = [abs(row["error"]) for row in judged]
    return {
        "estimated": sum(row["reason"] is None for row in rows),
        "without_estimate": sum(row["reason"] is not None for row in rows),
        "measured": len(sizes),
        "mean_error": sum(sizes) / len(sizes) if sizes else None,
        "worst_error": max(sizes, default=None),
        "inside": sum(row["low_s"] <= row["measured_s"] <= row["high_s"] for row in judged),
    }


def _show(console: Console, document: dict[str, Any]) -> None:
    for number in document["numbers"]:
        text = f"{number['name']}: {number['value']:g} ± {percent(number['spread'])} (shipped {number['shipped']:g})"
        console.print(f"  {text}: {number['meaning']}", markup=False, highlight=False)
    table = TerminalTable("run", "estimate, s", "low, s", "high, s", "measured, s", "error, %")
    for row in document["rows"]:
        if row["reason"] is None:
            seconds = (_number(row[name]) for name in ("estimate_s", "low_s", "high_s", "measured_s"))
            table.add_row(row["id"], *seconds, "" if row["error"] is None else f"{100 * row['error']:+.1f}")
    console.print(table)
    lines = [f"no estimate of {row['id']}: {row['reason']}" for row in document["rows"] if row["reason"] is not None]
    say(console, *lines, notes=document["notes"])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def answer(document: Mapping[str, Any], *, kept: bool) -> str:
    """Errors in one sentence.

    Args:
        kept: the numbers are those shipped; none was fitted.
    """
    summary = document["summary"]
    without = (
        f"; {counted(summary['without_estimate'], 'row')} without an estimate" if summary["without_estimate"] else ""
    )
    if not summary["measured"]:
        return f"{counted(summary['estimated'], 'run')} estimated, none of them measured{without}."
    off = f"{percent(summary['mean_error'])} in the mean, {percent(summary['worst_error'])} at worst"
    numbers = "With the shipped numbers" if kept else f"With {counted(len(document['numbers']), 'fitted number')}"
    inside = f"{summary['inside']} of {summary['measured']} are inside their intervals"
    return f"{numbers} {counted(summary['measured'], 'run')} are off by {off}; {inside}{without}."
