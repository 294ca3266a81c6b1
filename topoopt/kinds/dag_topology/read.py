"""Instance files of kind `dag-topology` to domain objects: all checks, then the build."""

from __future__ import annotations

import graphlib
from collections import Counter

from topoopt.core.dag_topology import DagTask, DagTopologyProblem, DagTransfer
from topoopt.core.units import BYTES_PER_MS_PER_GBPS
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings
from topoopt.kinds.dag_topology.schema import DagTaskFile, DagTopologyFile, DagTransferFile

Step = DagTransferFile | DagTaskFile
Place = tuple[str, int]

ONCE = {"max_hops": 1}
"""What fields that are gone held by default: hashes stay those of instances that were written with them."""


def read_dag_topology(document: Document) -> DagTopologyProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    findings = Findings()
    file = findings.shaped(DagTopologyFile, document)
    ports = [file.ports] * file.pods if isinstance(file.ports, int) else file.ports
    if len(ports) != file.pods:
        findings.add([Fault(("ports",), "wrong number of entries", str(len(ports)), f"{file.pods}, one for each pod")])
    if (file.circuit_gbps is None) == (file.circuit_rate is None):
        what = "both circuit_gbps and circuit_rate" if file.circuit_rate is not None else "missing"
        findings.add([Fault(("circuit_gbps",), what, allowed="one of circuit_gbps and circuit_rate")])
    steps: list[tuple[Place, Step]] = [
        *((("transfers", k), one) for k, one in enumerate(file.transfers)),
        *((("tasks", k), one) for k, one in enumerate(file.tasks)),
    ]
    for k, move in enumerate(file.transfers):
        for name, pod in (("source", move.source), ("target", move.target)):
            if pod >= file.pods:
                findings.add([Fault(("transfers", k, name), "no such pod", str(pod), f"0 to {file.pods - 1}")])
        if move.source == move.target:
            findings.add([Fault(("transfers", k, "target"), "the pod that sends", str(move.target), "another pod")])
    findings.add(_graph_faults(steps))
    findings.refuse(document)
    number = {step.name: k for k, (_, step) in enumerate(steps)}
    gbps, rate = file.circuit_gbps, file.circuit_rate
    return DagTopologyProblem(
        name=file.name,
        pods=file.pods,
        ports=tuple(ports),
        rate=rate if gbps is None else gbps * BYTES_PER_MS_PER_GBPS * 1e3,  # type: ignore[arg-type]
        transfers=tuple(
            DagTransfer(m.name, m.source, m.target, m.volume, tuple(number[name] for name in m.after))
            for m in file.transfers
        ),
        tasks=tuple(DagTask(c.name, c.duration, tuple(number[name] for name in c.after)) for c in file.tasks),
        slack_percent=file.slack_percent,
        volume_unit="" if gbps is None else "bytes",
        time_unit="" if gbps is None else "s",
        search=file.search.build(),
        sha256=canonical_sha256({**file.model_dump(mode="json"), **ONCE}),
    )


def _graph_faults(steps: list[tuple[Place, Step]]) -> list[Fault]:
    """Names that stand twice or nowhere, and what waits for itself."""
    count = Counter(step.name for _, step in steps)
    faults, seen = [], set()
    for place, step in steps:
        if step.name in seen:
            faults.append(Fault((*place, "name"), "stands twice", step.name, "a name of its own for each step"))
        seen.add(step.name)
        for k, before in enumerate(step.after):
            if before not in count:
                faults.append(Fault((*place, "after", k), "no such transfer or task", before))
        if len(set(step.after)) < len(step.after):
            faults.append(Fault((*place, "after"), "a name more than once"))
    if faults:
        return faults
    try:
        tuple(graphlib.TopologicalSorter({step.name: step.after for _, step in steps}).static_order())
    except graphlib.CycleError as error:
        circle = [str(name) for name in reversed(error.args[1])]
        place = next(place for place, step in steps if step.name == circle[0])
        shown = " → ".join(circle[:12]) + (" → …" if len(circle) > 12 else "")
        faults.append(Fault((*place, "after"), "waits for itself", shown, "steps without circles"))
    return faults
