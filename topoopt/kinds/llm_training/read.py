"""Instance files of kind `llm-training` to domain objects: all checks, then the build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import TypeAdapter

from topoopt.core.cluster import LinkDirection
from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import (
    END_SLOTS,
    GpuCluster,
    LlmTrainingProblem,
    NumberFormats,
    TrainingBatch,
    TrainingDevice,
)
from topoopt.core.llm_training_plan import (
    DIRECT_FABRICS,
    IDEAL_SWITCH,
    PHOTONIC_RAILS,
    POD_CIRCUITS,
    SWITCHED_FABRICS,
)
from topoopt.core.parallelism import RANK_ORDER, LayerDivision, Overlap, ParallelDimension, Recompute, StrategySpace
from topoopt.core.pipeline import PipelineSchedule
from topoopt.core.search_settings import SearchSettings
from topoopt.core.units import GIB
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.faults import Fault, nearest_text, value_text
from topoopt.files.findings import Findings, fitting, within
from topoopt.kinds.llm_training.model_schema import HuggingFaceModel, ModelField, ModelSection
from topoopt.kinds.llm_training.read_model import model_of
from topoopt.kinds.llm_training.read_pods import in_pods, pods_faults, pods_of
from topoopt.kinds.llm_training.read_switching import switching_faults, switching_of
from topoopt.kinds.llm_training.schema import (
    BatchSection,
    GpuClusterSection,
    LlmTrainingFile,
    PodsSection,
    StrategySection,
    SwitchingSection,
)
from topoopt.kinds.llm_training.validity import SHOWN, replicas_of
from topoopt.workloads.llm_training.devices import TRAINING_DEVICES

Choice = TypeVar("Choice")

ONCE = {"time_model": "roofline", "calculon": None}
"""What fields that are gone held by default: hashes stay those of plans that were written with them."""

_MODEL: TypeAdapter[str | HuggingFaceModel | ModelSection] = TypeAdapter(ModelField)
_FABRICS: TypeAdapter[list[str]] = TypeAdapter(list[str])
_PODS: TypeAdapter[PodsSection | None] = TypeAdapter(PodsSection | None)
_SWITCHING: TypeAdapter[SwitchingSection | None] = TypeAdapter(SwitchingSection | None)


def read_llm_training(document: Document) -> LlmTrainingProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    findings = Findings()
    file = findings.shape(LlmTrainingFile, document)
    raw = document.data if isinstance(document.data, dict) else {}
    section = file.model if file else fitting(_MODEL, raw.get("model"))
    folder = FilePath(document.file).parent
    read = None
    if section is not None:
        read = findings.attempt(lambda: within("model", lambda: model_of(section, folder)), ("model",))
    model, notes = read or (None, ())
    cluster = file.cluster if file else fitting(GpuClusterSection, raw.get("cluster"))
    if cluster is not None:
        findings.add(_cluster_faults(cluster))
    batch = file.batch if file else fitting(BatchSection, raw.get("batch"))
    strategy = file.strategy if file else fitting(StrategySection, raw.get("strategy", {}))
    if model is not None and cluster is not None and batch is not None and strategy is not None:
        findings.add(_strategy_faults(strategy, model, batch, cluster.servers * cluster.gpus_per_server))
    fabrics = file.fabrics if file else fitting(_FABRICS, raw.get("fabrics"))
    findings.add(_fabric_faults(fabrics or ()))
    rails = file.switching if file else fitting(_SWITCHING, raw.get("switching"))
    switching = findings.attempt(lambda: switching_of(rails), ("switching", "delay"))
    if cluster is not None:
        findings.add(switching_faults(rails, cluster, fabrics or ()))
    findings.add(pods_faults(file.pods if file else fitting(_PODS, raw.get("pods")), cluster, raw, fabrics or ()))
    file = findings.settled(document, file if model is not None else None)
    assert model is not None
    pods = pods_of(file)
    return LlmTrainingProblem(
        name=file.name,
        model=model,
        batch=TrainingBatch(file.batch.sequences, file.batch.length),
        cluster=_cluster(file.cluster),
        formats=NumberFormats(
            file.formats.compute == "fp8",
            file.formats.dispatch == "fp8",
            4 if file.formats.gradients == "fp32" else 2,
            4 if file.formats.moments == "fp32" else 2,
            file.formats.attention == "tiled",
        ),
        space=in_pods(_space(file.strategy), pods),
        overlap=Overlap(file.overlap.tensor, file.overlap.expert, file.overlap.data, file.overlap.pipeline),
        device=_device(file),
        fabrics=_fabrics(file),
        top=file.search.top,
        prove=file.search.proof,
        search=SearchSettings(
            file.search.method,
            file.search.budget,
            file.search.time_limit_s,
            file.search.seed,
            allreduce=file.search.allreduce,
        ),
        rank_map=file.search.rank_map,
        degree_split=file.search.degree_split,
        sha256=canonical_sha256({**file.model_dump(mode="json"), **ONCE, "model": _hashed(model)}),
        notes=notes,
        switching=switching,
        pods=pods,
    )


def _hashed(model: LanguageModel) -> dict[str, Any]:
    """A model without a window has the hash that it had before there were any."""
    return {key: value for key, value in asdict(model).items() if key != "attention_window" or value is not None}


def _cluster(section: GpuClusterSection) -> GpuCluster:
    memory = section.gpu_memory_gib
    return GpuCluster(
        servers=section.servers,
        gpus_per_server=section.gpus_per_server,
        device=section.device,
        gpu_memory_bytes=None if memory is None else round(memory * GIB),
        headroom_bytes=round(section.headroom_gib * GIB),
        intra_server_gbps=section.intra_server_gbps,
        degree=section.degree,
        per_gpu=section.interfaces == "per-gpu",
        link_gbps=section.link_gbps,
        links=LinkDirection(section.links),
        hop_latency_us=section.hop_latency_us,
        message_latency_us=section.message_latency_us,
        slowdown=section.slowdown,
        optical_interfaces=section.optical_interfaces or 0,
    )


def _device(file: LlmTrainingFile) -> TrainingDevice:
    device = TRAINING_DEVICES[file.cluster.device]
    return device if file.efficiencies is None else replace(device, reached=file.efficiencies.build())


def _fabrics(file: LlmTrainingFile) -> tuple[str, ...]:
    """The first is planned for."""
    if file.fabrics is not None:
        return tuple(file.fabrics)
    if file.search.topology == "dag":
        return (POD_CIRCUITS, IDEAL_SWITCH)
    return ("direct-connect" if file.switching is None else PHOTONIC_RAILS, IDEAL_SWITCH)


def _fabric_faults(fabrics: Sequence[str]) -> Iterator[Fault]:
    known = (*SWITCHED_FABRICS, *DIRECT_FABRICS, PHOTONIC_RAILS, POD_CIRCUITS)
    for place, name in enumerate(fabrics):
        if name not in known:
            yield Fault(("fabrics", place), "no such fabric", value_text(name), nearest_text(name, known))
        elif name in fabrics[:place]:
            yield Fault(("fabrics", place), "stands twice", value_text(name), "each fabric once")


def _space(section: StrategySection) -> StrategySpace:
    def listed(value: object, made: Callable[[Any], Choice]) -> tuple[Choice, ...] | None:
        if value == "auto":
            return None
        return tuple(dict.fromkeys(made(one) for one in (value if isinstance(value, list) else [value])))

    def whole(value: object) -> tuple[int, ...] | None:
        return listed(value, int)

    order = section.order
    return StrategySpace(
        tensor=whole(section.tensor),
        sequence=listed(section.sequence, bool),
        context=whole(section.context),
        pipeline=whole(section.pipeline),
        chunks=whole(section.chunks),
        data=whole(section.data),
        expert=whole(section.expert),
        expert_tensor=whole(section.expert_tensor),
        zero=whole(section.zero),
        micro_batch=whole(section.micro_batch),
        schedule=listed(section.schedule, PipelineSchedule),
        recompute=listed(section.recompute, Recompute),
        layers=section.layers,
        short_ends=() if section.short_ends == "even" else tuple(sorted(set(whole(section.short_ends) or ()))),
        order=None if order == "auto" else (tuple(ParallelDimension(one) for one in order),),
    )


def _cluster_faults(section: GpuClusterSection) -> Iterator[Fault]:
    if section.device not in TRAINING_DEVICES:
        allowed = nearest_text(section.device, TRAINING_DEVICES)
        yield Fault(("cluster", "device"), "unknown device", value_text(section.device), allowed)
    if section.interfaces == "per-gpu" and section.degree % section.gpus_per_server:
        allowed = f"multiples of gpus_per_server {section.gpus_per_server}, or interfaces: per-server"
        text = "GPUs do not own equally many interfaces"
        yield Fault(("cluster", "degree"), text, str(section.degree), allowed)
    if section.optical_interfaces is not None and section.optical_interfaces >= section.degree:
        value, allowed = str(section.optical_interfaces), f"less than degree {section.degree}"
        yield Fault(("cluster", "optical_interfaces"), "no interface is left for other traffic", value, allowed)
    if section.gpu_memory_gib is not None and section.headroom_gib >= section.gpu_memory_gib:
        allowed = f"less than gpu_memory_gib {section.gpu_memory_gib:g}"
        yield Fault(("cluster", "headroom_gib"), "no memory is left", f"{section.headroom_gib:g}", allowed)


def _strategy_faults(section: StrategySection, model: LanguageModel, batch: BatchSection, gpus: int) -> Iterator[Fault]:
    """Parts none of whose values can be."""
    if section.layers is LayerDivision.BALANCED and section.short_ends != "even":
        text, allowed = "plays no part, as layers are balanced", "even, or layers: even"
        yield Fault(("strategy", "short_ends"), text, value_text(section.short_ends), allowed)
    if section.order != "auto" and len(set(section.order)) < len(RANK_ORDER):
        text, allowed = "a dimension stands twice", f"each of {', '.join(RANK_ORDER)} once"
        yield Fault(("strategy", "order"), text, ", ".join(section.order), allowed)
    replicas = replicas_of(_space(section), gpus)
    if section.data == "auto" and replicas and all(batch.sequences % one for one in replicas):
        many = ", ".join(map(str, replicas[:SHOWN]))
        text = f"{gpus} GPUs by tensor, context and pipeline are {many} replicas, which do not divide the batch"
        yield Fault(("batch", "sequences"), text, str(batch.sequences), f"multiples of {many.replace(', ', ' or ')}")
    slots = model.layers + END_SLOTS
    experts = 1 if model.experts is None else model.experts.count
    rules: tuple[tuple[str, Callable[[int], bool], str, str], ...] = (
        ("tensor", lambda t: model.heads % t == 0, "indivisible heads", f"divisors of the {model.heads} heads"),
        ("pipeline", lambda p: p <= slots, "more stages than layers", f"at most {slots}"),
        ("expert", lambda x: experts % x == 0, "indivisible experts", f"divisors of {experts}"),
        ("context", lambda c: c == 1 or batch.length % (2 * c) == 0, "indivisible sequence",
         f"2c divides {batch.length}"),
        ("data", lambda d: batch.sequences % d == 0, "indivisible batch", f"divisors of {batch.sequences}"),
        ("micro_batch", lambda b: batch.sequences % b == 0, "indivisible batch",
         f"divisors of {batch.sequences}"),
    )  # fmt: skip
    for key, good, text, allowed in rules:
        value = getattr(section, key)
        values = value if isinstance(value, list) else [] if value == "auto" else [value]
        if values and not any(good(one) for one in values):
            yield Fault(("strategy", key), text, value_text(value), allowed)
        elif values and key in ("tensor", "context", "pipeline", "data") and all(gpus % one for one in values):
            yield Fault(("strategy", key), f"does not divide the {gpus} GPUs", value_text(value), f"divisors of {gpus}")
