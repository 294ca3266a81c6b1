"""Jobs as instances of kind `dag-topology`. The graph of a job, as an instance of kind `dag-topology` for `topoopt
solve`.
"""

from __future__ import annotations

import json
from typing import Any

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.formats.exporter import Export, Exporter, ExportOptions, plain_name, refuse


def dag_document(problem: DagTopologyProblem) -> dict[str, Any]:
    """The instance file of a graph in bytes and seconds."""
    names = problem.names
    return {
        "schema_version": 1,
        "kind": problem.kind,
        "name": problem.name,
        "pods": problem.pods,
        "ports": list(problem.ports),
        "circuit_gbps": problem.rate / (BYTES_PER_MS_PER_GBPS * 1e3),
        "transfers": [
            {"name": m.name, "source": m.source, "target": m.target, "volume": m.volume}
            | ({"after": [names[step] for step in m.after]} if m.after else {})
            for m in problem.transfers
        ],
        "tasks": [
            {"name": c.name, "duration": c.duration} | ({"after": [names[step] for step in c.after]} if c.after else {})
            for c in problem.tasks
        ],
    }


def build(solution: Any, options: ExportOptions) -> Export:
    """One JSON file, a step a line.

    Raises:
        InputError: no instance was given, which has what is computed.
    """
    if options.job_graph is None:
        raise refuse("needed for what is computed", path="instance", allowed="the instance that was solved")
    document = dag_document(options.job_graph)
    steps = {key: ",\n".join(json.dumps(entry) for entry in document[key]) for key in ("transfers", "tasks")}
    head = json.dumps({key: value for key, value in document.items() if key not in steps})[:-1]
    lists = ",\n".join(f'"{key}": [\n{text}\n]' for key, text in steps.items())
    name = f"{plain_name(solution.name)}-circuits.json"
    return Export(((name, f"{head},\n{lists}}}\n".encode()),), document, (*options.job_graph.notes, *EXPORTER.limits))


EXPORTER = Exporter(
    kinds=("co-optimisation", "llm-training"),
    makes="one iteration as an instance of kind dag-topology: which circuits let it end first",
    limits=(
        "latencies of hops and rounds are left out",
        "collectives between pods go round rings, half each way",
        "training: gradients are exchanged behind the last backward pass of a stage, weights ahead of its first one, "
        "tokens behind the computing of their pass",
    ),
    folder=False,
    build=build,
    for_instances=("co-optimisation", "llm-training"),
)
