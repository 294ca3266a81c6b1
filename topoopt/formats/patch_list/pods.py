"""What joins pods: circuits of one optical switch or patch panel, port to port, which stay for the whole job."""

from __future__ import annotations

from collections.abc import Iterable

from topoopt.core.llm_training_plan import PodCircuits
from topoopt.files.atomic import csv_text
from topoopt.formats.exporter import NOTES_FILE, Export, ExportOptions, notes_bytes, refuse

PODS_FILE = "pod-circuits.csv"
HEAD = ("switch_port", "peer_switch_port", "pod", "port", "peer_pod", "peer_port")

PodCircuit = tuple[int, int, int, int, int, int]
"""Ports of the switch, then pod and port of either end; ports count from 1, pods from 0."""


def pods_export(plan: PodCircuits, options: ExportOptions) -> Export:
    """Circuits as a table and for people; a pod's ports are taken in the order of its peers.

    Raises:
        InputError: names of servers, or a previous solution, for pods that have neither.
    """
    if options.previous is not None:
        raise refuse("changes of circuits between pods are not told", path="--previous", allowed="left out")
    if options.hosts:
        raise refuse("pods have numbers, not the names of servers", path="--hosts", allowed="left out")
    circuits = pod_circuits(plan)
    saved = ", ".join(f"pod {pod} {count}" for pod, count in enumerate(plan.ports_saved) if count) or "none"
    notes = (
        f"{plan.pods} pods of {plan.settings.gpus} GPUs with {plan.settings.ports} ports each: port p of pod k is port "
        "k times these plus p of the switch",
        f"{len(circuits)} circuits of {plan.settings.circuit_gbps:g} Gbit/s in each direction; ports saved: {saved}",
        "pod = stage x pods of a stage + place; ranks of a pod follow each other by tensor, context, data",
    )
    files = (
        (PODS_FILE, csv_text(HEAD, circuits).encode()),
        ("patch-list.txt", "".join(f"{line}\n" for line in pod_lines(circuits)).encode()),
        (NOTES_FILE, notes_bytes(f"Circuits between {plan.pods} pods", notes)),
    )
    return Export(files, frozenset(circuits), notes)


def pod_circuits(plan: PodCircuits) -> list[PodCircuit]:
    """All circuits, by pair; each takes the next port at both ends."""
    ports, taken, found = plan.settings.ports, [0] * plan.pods, list[PodCircuit]()
    for *pair, count in plan.links:
        for _ in range(count):
            ends = []
            for pod in pair:
                taken[pod] += 1
                ends.append((pod * ports + taken[pod], pod, taken[pod]))
            (one, *near), (other, *far) = ends
            found.append((one, other, near[0], near[1], far[0], far[1]))
    return found


def pod_lines(circuits: list[PodCircuit]) -> Iterable[str]:
    """Circuits for people."""
    yield f"Circuits: {len(circuits)}"
    for one, other, pod, port, peer, peer_port in circuits:
        yield f"  {one:>5} - {other:>5}    pod {pod} port {port} - pod {peer} port {peer_port}"
