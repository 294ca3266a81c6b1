"""What joins pods: circuits of one optical switch or patch panel, port to port, which stay for the whole job."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from topoopt.core.errors import InputError, Problem
from topoopt.core.pod_circuits import PodPlan
from topoopt.core.units import MIB
from topoopt.files.table_and_plot import csv_text
from topoopt.files.untrusted import parsing, read_text
from topoopt.formats.exporter import NOTES_FILE, Export, ExportOptions, notes_bytes, refuse

PODS_FILE = "pod-circuits.csv"
HEAD = ("switch_port", "peer_switch_port", "pod", "port", "peer_pod", "peer_port")
MAX_BYTES = 256 * MIB

PodCircuit = tuple[int, int, int, int, int, int]
"""Ports of the switch, then pod and port of either end; ports count from 1, pods from 0."""


def pods_export(plan: PodPlan, options: ExportOptions) -> Export:
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
        ("patch-list.txt", "".join(f"{line}\n" for line in _lines(circuits)).encode()),
        (NOTES_FILE, notes_bytes(f"Circuits between {plan.pods} pods", notes)),
    )
    return Export(files, frozenset(circuits), notes)


def pod_circuits(plan: PodPlan) -> list[PodCircuit]:
    """All circuits, by pair; each takes the next port at both ends."""
    ports, taken, found = plan.settings.ports, [0] * plan.pods, list[PodCircuit]()
    for link in plan.links:
        for _ in range(link.count):
            ends = []
            for pod in (link.one, link.other):
                taken[pod] += 1
                ends.append((pod * ports + taken[pod], pod, taken[pod]))
            (one, *near), (other, *far) = ends
            found.append((one, other, near[0], near[1], far[0], far[1]))
    return found


def _lines(circuits: list[PodCircuit]) -> Iterable[str]:
    yield f"Circuits: {len(circuits)}"
    for one, other, pod, port, peer, peer_port in circuits:
        yield f"  {one:>5} - {other:>5}    pod {pod} port {port} - pod {peer} port {peer_port}"


def read_pod_circuits(folder: Path) -> frozenset[PodCircuit]:
    """Circuits as the table has them.

    Raises:
        InputError: a port used twice, other columns, a row that is none, or a text that says something else.
    """
    first, *rows = list(csv.reader(read_text(folder / PODS_FILE, MAX_BYTES).splitlines())) or [[]]
    if tuple(first) != HEAD:
        raise InputError([Problem("not the columns of this file", file=PODS_FILE, allowed=",".join(HEAD))])
    with parsing(PODS_FILE, "a list of circuits"):
        found: list[PodCircuit] = []
        for row in rows:
            one, other, pod, port, peer, peer_port = map(int, row)
            found.append((one, other, pod, port, peer, peer_port))
    ends = [end for circuit in found for end in circuit[:2]]
    if len(set(ends)) < len(ends):
        raise InputError([Problem("a port of the switch is used twice", file=PODS_FILE)])
    if read_text(folder / "patch-list.txt", MAX_BYTES).splitlines() != list(_lines(found)):
        raise InputError([Problem("the text says something else", file=PODS_FILE)])
    return frozenset(found)
