"""Topology as GraphML: one directed edge an arc, parallel links counted by the edge attribute `multiplicity`."""

from __future__ import annotations

import networkx as nx

from topoopt.core.job_solution import JobSolution
from topoopt.core.network_solution import NetworkSolution
from topoopt.formats.base import Export, Exporter, ExportOptions, plain_name
from topoopt.formats.graphml.graphs import topology_of


def build(solution: JobSolution | NetworkSolution, options: ExportOptions) -> Export:
    """A GraphML file that instances of kind `routing` can refer to."""
    topology = topology_of(solution)
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(str(server) for server in range(topology.servers))
    links = []
    for (tail, head), count in zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True):
        graph.add_edge(str(tail), str(head), multiplicity=count)
        links.append((tail, head, count))
    text = "\n".join(nx.generate_graphml(graph)) + "\n"
    name = f"{plain_name(solution.name)}.graphml"
    return Export(((name, text.encode()),), (topology.servers, tuple(links), True), GRAPHML.limits)


GRAPHML = Exporter(
    kinds=("co-optimisation", "routing", "topology"),
    makes="one GraphML file: the topology",
    limits=("links only: no rates, no switch settings, no routes",),
    folder=False,
    build=build,
)
