"""Instance files of kind `llm-training` to domain objects: all checks, then the build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import TypeAdapter

from topoopt.core.arrays import GIB, divisors
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.llm_training import (
    END_SLOTS,
    Attention,
    Experts,
    GpuCluster,
    LanguageModel,
    LatentAttention,
    LayerKind,
    LlmTrainingProblem,
    Mixer,
    Mlp,
    NumberFormats,
    PodSettings,
    TrainingBatch,
    TrainingDevice,
)
from topoopt.core.llm_training_plan import DIRECT_FABRICS, IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS, SWITCHED_FABRICS
from topoopt.core.parallelism import (
    RANK_ORDER,
    ParallelDimension,
    PipelineSchedule,
    Recompute,
    StrategySpace,
)
from topoopt.core.switching import SwitchSettings, parse_delay
from topoopt.files import codec
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import Issue, nearest_text, value_text
from topoopt.files.reader_fields import Findings, fitting, within
from topoopt.files.sections import existing_file
from topoopt.kinds.llm_training.huggingface import read_huggingface
from topoopt.kinds.llm_training.schema import (
    MOST_LAYERS,
    MOST_POD_PORTS,
    MOST_PODS,
    FormatsSection,
    GpuClusterSection,
    HuggingFaceModel,
    KindsSection,
    LlmTrainingInstance,
    ModelField,
    ModelSection,
    PodsSection,
    StrategySection,
    SwitchingSection,
    device_of,
)
from topoopt.workloads.language_models import LANGUAGE_MODELS, TRAINING_DEVICES, uniform
from topoopt.workloads.step_efficiencies import (
    DEFAULT_SOFTWARE,
    SHARDED_SOFTWARE,
    SOFTWARE,
    STEP_EFFICIENCIES,
    model_rates,
    overlap_of,
    slowdown_of,
)

SHOWN = 8


def replicas_of(space: StrategySpace, gpus: int) -> list[int]:
    """Numbers of replicas that tensor, context and pipeline leave."""
    left = {gpus}
    for part in (space.tensor, space.context, space.pipeline):
        left = {
            item // size for item in left for size in (divisors(item) if part is None else part) if item % size == 0
        }
    return sorted(left)


def replicas_left_out(problem: LlmTrainingProblem) -> tuple[str, ...]:
    """A line on numbers of replicas no larger than the batch that do not divide it."""
    sequences, space = problem.batch.sequences, problem.space
    out = [item for item in replicas_of(space, problem.cluster.gpus) if item <= sequences and sequences % item]
    if not out or space.data is not None:
        return ()
    shown = ", ".join(map(str, out[:SHOWN])) + (", ..." if len(out) > SHOWN else "")
    return (f"strategies of {shown} replicas are left out, as these do not divide the {sequences} sequences",)


def model_of(
    section: str | HuggingFaceModel | KindsSection | ModelSection, folder: FilePath
) -> tuple[LanguageModel, tuple[str, ...]]:
    """The model that the section states, and notes on how its file was read.

    Raises:
        InputError: paths are relative to the section.
    """
    if isinstance(section, str):
        if section not in LANGUAGE_MODELS:
            allowed = nearest_text(section, LANGUAGE_MODELS)
            raise InputError([Problem("no such model", value=value_text(section), allowed=allowed)])
        return LANGUAGE_MODELS[section], ()
    if isinstance(section, HuggingFaceModel):
        model, notes = _of_file(section.huggingface, folder)
        return _checked(model), notes
    return _checked(_of_kinds(section) if isinstance(section, KindsSection) else _of_sizes(section)), ()


def _of_file(name: str, folder: FilePath) -> tuple[LanguageModel, tuple[str, ...]]:
    try:
        file = existing_file(folder, name)
    except InputError as error:
        raise InputError([replace(item, path="huggingface") for item in error.problems]) from None
    return read_huggingface(file)


def _of_sizes(section: ModelSection) -> LanguageModel:
    if section.head_size is None and section.hidden % section.heads:
        allowed = f"divisors of hidden {section.hidden}, or head_size"
        raise InputError([Problem("indivisible heads", path="heads", value=str(section.heads), allowed=allowed)])
    mixer: Mixer = Attention(
        section.heads,
        section.kv_heads or section.heads,
        section.head_size or section.hidden // section.heads,
        section.attention_window,
        biases=section.biases or section.attention_biases,
        output_biases=section.biases,
        norms="head" if section.query_key_norms else "none",
    )
    if section.latent is not None:
        mixer = LatentAttention(heads=section.heads, **section.latent.model_dump())
    dense, routed = Mlp(section.ffn_hidden, section.gated, section.biases), section.experts
    mlp: Mlp | Experts = dense
    if routed is not None:
        if routed.dense_layers >= section.layers:
            text, value = "no layer is left for experts", str(routed.dense_layers)
            allowed = f"less than {section.layers}"
            raise InputError([Problem(text, path="experts.dense_layers", value=value, allowed=allowed)])
        shared = routed.shared * routed.hidden
        mlp = Experts(
            routed.count, routed.per_token, routed.hidden, shared, routed.node_limit, section.gated, section.biases
        )
    return uniform(
        "custom",
        section.layers,
        section.hidden,
        mixer,
        mlp,
        section.vocabulary,
        dense=None if routed is None else (routed.dense_layers, dense),
        norms=4 if section.biases else 2,
        tied=section.tied,
        positions=section.positions,
        final_norms=2 if section.biases else 1,
        mtp_layers=section.mtp_layers,
    )


MIXERS = ("attention", "latent_attention", "delta_attention", "lightning_attention", "state_space")


def _of_kinds(section: KindsSection) -> LanguageModel:
    """The model of kinds of layers that are stated by hand."""
    problems, kinds = list[Problem](), dict[str, LayerKind]()
    for name, own in section.kinds.items():
        mixers = [key for key in MIXERS if getattr(own, key) is not None]
        if len(mixers) > 1 or (own.mlp is not None and own.experts is not None):
            both = ", ".join(mixers) if len(mixers) > 1 else "mlp, experts"
            problems.append(Problem("more than a layer has", path=f"kinds.{name}", value=both, allowed="one of them"))
        elif not mixers and own.mlp is None and own.experts is None:
            allowed = f"one of {', '.join(MIXERS)}, and mlp or experts"
            problems.append(Problem("an empty layer", path=f"kinds.{name}", allowed=allowed))
        kinds[name] = LayerKind(getattr(own, mixers[0]) if mixers else None, own.mlp or own.experts, own.norms)
    layers = sum(own.count for own in section.kinds.values())
    pattern = section.pattern or [f"{own.count}*{name}" for name, own in section.kinds.items()]
    names = list[str]()
    for index, word in enumerate(pattern):
        times, _, name = word.rpartition("*")
        if name not in kinds or (times and not times.isdecimal()) or len(names) + int(times or 1) > MOST_LAYERS:
            allowed = f"{', '.join(kinds)}, alone or as 3*name"
            problems.append(
                Problem("no such kind of layer", path=f"pattern[{index}]", value=value_text(word), allowed=allowed)
            )
            break
        names += [name] * int(times or 1)
    if not problems:
        names = (names * (layers // max(len(names), 1) + 1))[:layers]
        for name, own in section.kinds.items():
            if names.count(name) != own.count:
                text, allowed = "not as often as the pattern has it", str(names.count(name))
                problems.append(Problem(text, path=f"kinds.{name}.count", value=str(own.count), allowed=allowed))
    if layers > MOST_LAYERS:
        problems.append(Problem("too many layers", path="kinds", value=str(layers), allowed=f"at most {MOST_LAYERS}"))
    raise_any(problems)
    places = list(kinds)
    return LanguageModel(
        "custom",
        section.hidden,
        section.vocabulary,
        tuple(kinds.values()),
        tuple(places.index(name) for name in names),
        section.tied,
        section.positions,
        section.embedding_norms,
        section.final_norms,
        section.head_biases,
        section.mtp_layers,
    )


def _checked(model: LanguageModel) -> LanguageModel:
    """The same, where its sizes go together; all experts are divided alike."""
    problems = []
    for mixer in (kind.mixer for kind in model.kinds):
        if isinstance(mixer, Attention) and mixer.heads % mixer.kv_heads:
            allowed = f"divisors of the {mixer.heads} heads"
            problems.append(Problem("indivisible heads", path="kv_heads", value=str(mixer.kv_heads), allowed=allowed))
    routed = [kind.experts for kind in model.kinds if kind.experts is not None]
    for experts in routed:
        if experts.per_token > experts.count:
            text, value = "more experts a token than there are", str(experts.per_token)
            problems.append(Problem(text, path="experts.per_token", value=value, allowed=f"at most {experts.count}"))
    sizes = {(experts.count, experts.hidden) for experts in routed}
    if len(sizes) > 1:
        text = "layers with experts of several numbers or widths"
        value = ", ".join(f"{count} of {hidden}" for count, hidden in sorted(sizes))
        problems.append(Problem(text, path="experts", value=value, allowed="as many and as wide in each layer"))
    raise_any(problems)
    return model


def pods_of(file: LlmTrainingInstance) -> PodSettings | None:
    """The settings, what is left out as the cluster has it; None: no circuits between pods are asked for."""
    if file.search.topology != "dag":
        return None
    section, cluster = file.pods or PodsSection(), file.cluster
    gpus = section.gpus or cluster.gpus_per_server
    ports = section.ports or cluster.degree * gpus // cluster.gpus_per_server
    return PodSettings(gpus, ports, section.circuit_gbps or cluster.link_gbps, section.strategies, file.slack_percent)


def in_pods(space: StrategySpace, pods: PodSettings | None) -> StrategySpace:
    """The strategies that are searched: in pods ranks of a stage stand together where no order is pinned."""
    return space if pods is None or space.order is not None else replace(space, order=(RANK_ORDER,))


def pods_issues(
    section: PodsSection | None, cluster: GpuClusterSection | None, raw: dict[str, Any], fabrics: Sequence[str]
) -> Iterator[Issue]:
    """What circuits between pods need of the instance.

    Args:
        raw: the document, of which `search` and `slack_percent` are looked at.
    """
    search = raw.get("search")
    topology = search.get("topology", "auto") if isinstance(search, dict) else "auto"
    if topology not in ("auto", "dag"):
        return
    if topology == "auto":
        without, allowed = "plays no part without search.topology: dag", "left out, or search.topology: dag"
        if section is not None:
            yield Issue(("pods",), without, None, allowed)
        if raw.get("slack_percent"):
            yield Issue(("slack_percent",), without, value_text(raw["slack_percent"]), allowed)
        if POD_CIRCUITS in fabrics:
            index = list(fabrics).index(POD_CIRCUITS)
            yield Issue(("fabrics", index), "circuits between pods are not asked for", POD_CIRCUITS, allowed)
        return
    if fabrics and POD_CIRCUITS not in fabrics:
        text = "circuits between pods are on none of the fabrics"
        yield Issue(("fabrics",), text, ", ".join(fabrics), f"{POD_CIRCUITS} among them, or left out")
    if raw.get("switching") is not None:
        text = "circuits are set anew or stay, not both"
        yield Issue(("switching",), text, None, "left out, or search.topology: auto")
    if cluster is not None:
        yield from _size_issues(section or PodsSection(), cluster)


def _size_issues(section: PodsSection, cluster: GpuClusterSection) -> Iterator[Issue]:
    """Pods that do not divide the GPUs, are too many, or have no whole number of interfaces."""
    whole = cluster.servers * cluster.gpus_per_server
    gpus = section.gpus or cluster.gpus_per_server
    value = str(gpus) if section.gpus else f"a server of {gpus}"
    if whole % gpus:
        yield Issue(("pods", "gpus"), f"does not divide the {whole} GPUs", value, f"a divisor of {whole}")
        return
    if gpus == whole:
        text = "one pod holds the whole job: nothing goes over circuits"
        yield Issue(("pods", "gpus"), text, value, f"less than {whole}")
        return
    if whole // gpus > MOST_PODS:
        text = f"{whole // gpus} pods are more than circuits are chosen for"
        yield Issue(("pods", "gpus"), text, value, f"{-(-whole // MOST_PODS)} or more")
    ports, rest = divmod(cluster.degree * gpus, cluster.gpus_per_server)
    if section.ports is None and (rest or not ports):
        text = "not a whole number of interfaces for a pod"
        held = f"{gpus} of {cluster.gpus_per_server} GPUs with {cluster.degree} interfaces"
        yield Issue(("pods", "ports"), text, held, "another pods.gpus, or ports")
    elif section.ports is None and ports > MOST_POD_PORTS:
        yield Issue(("pods", "ports"), "more ports than circuits are chosen for", str(ports), f"1 to {MOST_POD_PORTS}")


def switching_of(section: SwitchingSection | None) -> SwitchSettings | None:
    """The settings; None without a section.

    Raises:
        InputError: the delay is none.
    """
    if section is None:
        return None
    delay_ms = within("switching.delay", lambda: parse_delay(section.delay))
    return SwitchSettings(delay_ms / 1e3, section.provisioned, section.ports, section.port_gbps)


def switching_issues(
    section: SwitchingSection | None, cluster: GpuClusterSection, fabrics: Sequence[str]
) -> Iterator[Issue]:
    if section is None:
        if PHOTONIC_RAILS in fabrics:
            text = "missing: how long circuits of the rails take to set"
            yield Issue(("switching",), text, None, f"a section, or no {PHOTONIC_RAILS} among the fabrics")
        return
    if cluster.degree % cluster.gpus_per_server:
        text = "with switching every GPU has interfaces of its own on its rail"
        allowed = f"multiples of gpus_per_server {cluster.gpus_per_server}"
        yield Issue(("cluster", "degree"), text, str(cluster.degree), allowed)


Choice = TypeVar("Choice")

ONCE = {"time_model": "roofline", "calculon": None}
"""What fields that are gone held by default: hashes stay those of plans that were written with them."""

_MODEL: TypeAdapter[str | HuggingFaceModel | KindsSection | ModelSection] = TypeAdapter(ModelField)
_FABRICS: TypeAdapter[list[str]] = TypeAdapter(list[str])
_PODS: TypeAdapter[PodsSection | None] = TypeAdapter(PodsSection | None)
_SWITCHING: TypeAdapter[SwitchingSection | None] = TypeAdapter(SwitchingSection | None)


def read_llm_training(document: Document) -> LlmTrainingProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    findings = Findings()
    file = findings.shape(LlmTrainingInstance, document)
    raw = document.data if isinstance(document.data, dict) else {}
    section = file.model if file else fitting(_MODEL, raw.get("model"))
    folder = FilePath(document.file).parent
    read = None
    if section is not None:
        read = findings.attempt(lambda: within("model", lambda: model_of(section, folder)), ("model",))
    model, notes = read or (None, ())
    cluster = file.cluster if file else fitting(GpuClusterSection, raw.get("cluster"))
    if cluster is not None:
        findings.add(_cluster_issues(cluster))
    batch = file.batch if file else codec.read(TrainingBatch, raw.get("batch"))[0]
    strategy = file.strategy if file else fitting(StrategySection, raw.get("strategy", {}))
    if model is not None and cluster is not None and batch is not None and strategy is not None:
        findings.add(_strategy_issues(strategy, model, batch, cluster.servers * cluster.gpus_per_server))
    fabrics = file.fabrics if file else fitting(_FABRICS, raw.get("fabrics"))
    findings.add(_fabric_issues(fabrics or ()))
    if file is not None:
        findings.add(_software_issues(file))
    rails = file.switching if file else fitting(_SWITCHING, raw.get("switching"))
    switching = findings.attempt(lambda: switching_of(rails), ("switching", "delay"))
    if cluster is not None:
        findings.add(switching_issues(rails, cluster, fabrics or ()))
    findings.add(pods_issues(file.pods if file else fitting(_PODS, raw.get("pods")), cluster, raw, fabrics or ()))
    file = findings.settled(document, file if model is not None else None)
    assert model is not None
    pods = pods_of(file)
    device = device_of(file.cluster.device)
    assert device is not None
    device, variants = _variant(device, file.cluster)
    software = file.software or (SHARDED_SOFTWARE if file.strategy.zero in (3, [3]) else DEFAULT_SOFTWARE)
    formats = _formats(file.formats)
    values = {name: number.value for name, number in STEP_EFFICIENCIES.items()} | (file.efficiencies or {})
    reached = model_rates(device.like, software, formats, model, values)
    servers = _cluster(file.cluster)
    slowdown = servers.slowdown * slowdown_of(reached, servers.gpus)
    overlaps = {name: value for name, value in file.overlap.model_dump().items() if value is not None}
    return LlmTrainingProblem(
        name=file.name,
        model=model,
        batch=file.batch,
        cluster=replace(servers, slowdown=slowdown),
        formats=formats,
        space=in_pods(_space(file.strategy), pods),
        overlap=replace(overlap_of(software, values), **overlaps),
        device=replace(device, reached=reached),
        software=software,
        fabrics=_fabrics(file),
        top=file.search.top,
        prove=file.search.proof,
        search=file.search,
        rank_map=file.search.rank_map,
        degree_split=file.search.degree_split,
        sha256=canonical_sha256({**codec.plain(file), **ONCE, "model": asdict(model)}),
        notes=(*notes, *variants),
        switching=switching,
        pods=pods,
    )


HIGH_MEMORY_H100_GIB = 90.0
"""More memory than an H100 of 80 GB has: HBM2e, at less power."""


def _variant(device: TrainingDevice, section: GpuClusterSection) -> tuple[TrainingDevice, tuple[str, ...]]:
    """The device that has so much memory, and a note where it is another than the one that is named."""
    if device.name != "h100" or (section.gpu_memory_gib or 0.0) < HIGH_MEMORY_H100_GIB:
        return device, ()
    other = TRAINING_DEVICES["h100-96"]
    text = f"an H100 of {section.gpu_memory_gib:g} GiB is taken as {other.name}: HBM2e of "
    return other, (f"{text}{other.memory_gbytes_per_s:g} GB/s, 500 W",)


def _software_issues(file: LlmTrainingInstance) -> Iterator[Issue]:
    """A software or a number that is in no table, and formats that the device has no products of."""
    if file.software is not None and file.software not in SOFTWARE:
        yield Issue(("software",), "no such software", value_text(file.software), nearest_text(file.software, SOFTWARE))
    for name in file.efficiencies or ():
        if name not in STEP_EFFICIENCIES:
            allowed = nearest_text(name, STEP_EFFICIENCIES)
            yield Issue(("efficiencies", name), "no such number", value_text(name), allowed)
    device, compute = device_of(file.cluster.device), file.formats.compute
    peaks = {} if device is None else {"fp8": device.fp8_tflops, "fp4": device.fp4_tflops}
    if compute in peaks and peaks[compute] is None:
        assert device is not None
        allowed = ", ".join(("bf16", "fp16", *(name for name, peak in peaks.items() if peak is not None)))
        yield Issue(("formats", "compute"), f"{device.name} has no such products", compute, allowed)


def _formats(section: FormatsSection) -> NumberFormats:
    return NumberFormats(
        fp8=section.compute == "fp8",
        fp4=section.compute == "fp4",
        fp8_dispatch=section.dispatch == "fp8",
        gradient_bytes=4 if section.gradients == "fp32" else 2,
        moment_bytes=4 if section.moments == "fp32" else 2,
        flash=section.attention == "tiled",
        weight_bytes=4 if section.weights == "fp32" else 2,
        master_bytes=_master_bytes(section),
    )


def _master_bytes(section: FormatsSection) -> int:
    """Of the copies of a weight and of its gradient that the optimizer has in 32 bits beside 16."""
    copied = section.compute == "fp16" and section.gradients == "16-bit"
    return (0 if section.weights == "fp32" else 4) + (4 if copied else 0)


def _cluster(section: GpuClusterSection) -> GpuCluster:
    memory = section.gpu_memory_gib
    return GpuCluster(
        servers=section.servers,
        gpus_per_server=section.gpus_per_server,
        device=section.device if isinstance(section.device, str) else section.device.name,
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


def _fabrics(file: LlmTrainingInstance) -> tuple[str, ...]:
    if file.fabrics is not None:
        return tuple(file.fabrics)
    if file.search.topology == "dag":
        return (POD_CIRCUITS, IDEAL_SWITCH)
    return ("direct-connect" if file.switching is None else PHOTONIC_RAILS, IDEAL_SWITCH)


def _fabric_issues(fabrics: Sequence[str]) -> Iterator[Issue]:
    names = (*SWITCHED_FABRICS, *DIRECT_FABRICS, PHOTONIC_RAILS, POD_CIRCUITS)
    for index, name in enumerate(fabrics):
        if name not in names:
            yield Issue(("fabrics", index), "no such fabric", value_text(name), nearest_text(name, names))
        elif name in fabrics[:index]:
            yield Issue(("fabrics", index), "stands twice", value_text(name), "each fabric once")


def _space(section: StrategySection) -> StrategySpace:
    def listed(value: object, made: Callable[[Any], Choice]) -> tuple[Choice, ...] | None:
        if value == "auto":
            return None
        return tuple(dict.fromkeys(made(item) for item in (value if isinstance(value, list) else [value])))

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
        order=None if order == "auto" else (tuple(ParallelDimension(item) for item in order),),
    )


def _cluster_issues(section: GpuClusterSection) -> Iterator[Issue]:
    if device_of(section.device) is None:
        by_name = isinstance(section.device, str)
        name, path = (section.device, ()) if isinstance(section.device, str) else (section.device.like, ("like",))
        allowed = nearest_text(name, TRAINING_DEVICES) + (", or figures: {peak_tflops: ...}" if by_name else "")
        yield Issue(("cluster", "device", *path), "unknown device", value_text(name), allowed)
    if section.interfaces == "per-gpu" and section.degree % section.gpus_per_server:
        allowed = f"multiples of gpus_per_server {section.gpus_per_server}, or interfaces: per-server"
        yield Issue(("cluster", "degree"), "GPUs do not own equally many interfaces", str(section.degree), allowed)
    if section.optical_interfaces is not None and section.optical_interfaces >= section.degree:
        value, allowed = str(section.optical_interfaces), f"less than degree {section.degree}"
        yield Issue(("cluster", "optical_interfaces"), "no interface is left for other traffic", value, allowed)
    if section.gpu_memory_gib is not None and section.headroom_gib >= section.gpu_memory_gib:
        allowed = f"less than gpu_memory_gib {section.gpu_memory_gib:g}"
        yield Issue(("cluster", "headroom_gib"), "no memory is left", f"{section.headroom_gib:g}", allowed)


def _strategy_issues(
    section: StrategySection, model: LanguageModel, batch: TrainingBatch, gpus: int
) -> Iterator[Issue]:
    """Parts none of whose values can be."""
    if section.layers == "balanced" and section.short_ends != "even":
        text, allowed = "plays no part, as layers are balanced", "even, or layers: even"
        yield Issue(("strategy", "short_ends"), text, value_text(section.short_ends), allowed)
    if section.order != "auto" and len(set(section.order)) < len(RANK_ORDER):
        text, allowed = "a dimension stands twice", f"each of {', '.join(RANK_ORDER)} once"
        yield Issue(("strategy", "order"), text, ", ".join(section.order), allowed)
    replicas = replicas_of(_space(section), gpus)
    if section.data == "auto" and replicas and all(batch.sequences % item for item in replicas):
        many = ", ".join(map(str, replicas[:SHOWN]))
        text = f"{gpus} GPUs by tensor, context and pipeline are {many} replicas, which do not divide the batch"
        yield Issue(("batch", "sequences"), text, str(batch.sequences), f"multiples of {many.replace(', ', ' or ')}")
    slots = model.layers + END_SLOTS
    experts = 1 if model.experts is None else model.experts.count
    heads = " and ".join(map(str, model.heads))
    rules: tuple[tuple[str, Callable[[int], bool], str, str], ...] = (
        ("tensor", lambda t: not any(count % t for count in model.heads), "indivisible heads",
         f"divisors of the {heads} heads"),
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
        if values and not any(good(item) for item in values):
            yield Issue(("strategy", key), text, value_text(value), allowed)
        elif values and key in ("tensor", "context", "pipeline", "data") and all(gpus % item for item in values):
            yield Issue(("strategy", key), f"does not divide the {gpus} GPUs", value_text(value), f"divisors of {gpus}")
