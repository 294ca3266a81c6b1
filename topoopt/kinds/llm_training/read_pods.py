"""The sections of an instance that say what its pods are, between which circuits are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from topoopt.core.llm_training_plan import POD_CIRCUITS
from topoopt.core.parallelism import RANK_ORDER, StrategySpace
from topoopt.core.pod_settings import PodSettings
from topoopt.files.faults import Fault, value_text
from topoopt.kinds.llm_training.schema import MOST_POD_PORTS, MOST_PODS, GpuClusterSection, LlmTrainingFile, PodsSection


def pods_of(file: LlmTrainingFile) -> PodSettings | None:
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


def pods_faults(
    section: PodsSection | None,
    cluster: GpuClusterSection | None,
    raw: dict[str, Any],
    fabrics: Sequence[str],
) -> Iterator[Fault]:
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
            yield Fault(("pods",), without, None, allowed)
        if raw.get("slack_percent"):
            yield Fault(("slack_percent",), without, value_text(raw["slack_percent"]), allowed)
        if POD_CIRCUITS in fabrics:
            place = list(fabrics).index(POD_CIRCUITS)
            yield Fault(("fabrics", place), "circuits between pods are not asked for", POD_CIRCUITS, allowed)
        return
    if fabrics and POD_CIRCUITS not in fabrics:
        text = "circuits between pods are on none of the fabrics"
        yield Fault(("fabrics",), text, ", ".join(fabrics), f"{POD_CIRCUITS} among them, or left out")
    if raw.get("switching") is not None:
        text = "circuits are set anew or stay, not both"
        yield Fault(("switching",), text, None, "left out, or search.topology: auto")
    if cluster is not None:
        yield from _size_faults(section or PodsSection(), cluster)


def _size_faults(section: PodsSection, cluster: GpuClusterSection) -> Iterator[Fault]:
    """Pods that do not divide the GPUs, are too many, or have no whole number of interfaces."""
    whole = cluster.servers * cluster.gpus_per_server
    gpus = section.gpus or cluster.gpus_per_server
    value = str(gpus) if section.gpus else f"a server of {gpus}"
    if whole % gpus:
        yield Fault(("pods", "gpus"), f"does not divide the {whole} GPUs", value, f"a divisor of {whole}")
        return
    if gpus == whole:
        text = "one pod holds the whole job: nothing goes over circuits"
        yield Fault(("pods", "gpus"), text, value, f"less than {whole}")
        return
    if whole // gpus > MOST_PODS:
        text = f"{whole // gpus} pods are more than circuits are chosen for"
        yield Fault(("pods", "gpus"), text, value, f"{-(-whole // MOST_PODS)} or more")
    ports, rest = divmod(cluster.degree * gpus, cluster.gpus_per_server)
    if section.ports is None and (rest or not ports):
        text = "not a whole number of interfaces for a pod"
        held = f"{gpus} of {cluster.gpus_per_server} GPUs with {cluster.degree} interfaces"
        yield Fault(("pods", "ports"), text, held, "another pods.gpus, or ports")
    elif section.ports is None and ports > MOST_POD_PORTS:
        yield Fault(("pods", "ports"), "more ports than circuits are chosen for", str(ports), f"1 to {MOST_POD_PORTS}")
