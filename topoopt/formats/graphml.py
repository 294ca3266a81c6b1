"""Topology as GraphML: one directed edge an arc, parallel links counted by the edge attribute `multiplicity`.

Where links have rates of their own, the attribute `capacity` is that of one link, in the unit of the demand.
"""

from __future__ import annotations

from typing import Any

import networkx as nx

from topoopt.core.result import Result
from topoopt.formats.exporter import Export, Exporter, ExportOptions, plain_name, written_topology


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """A GraphML file that instances of kind `routing` can refer to.

    Raises:
        InputError: a plan that joins servers by switches of packets.
    """
    topology = written_topology(solution, options)
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(str(server) for server in range(topology.servers))
    links = []
    for (tail, head), count, capacity in zip(
        topology.arcs.tolist(), topology.multiplicity.tolist(), topology.capacity.tolist(), strict=True
    ):
        rate = None if topology.rates is None else capacity / count
        graph.add_edge(str(tail), str(head), multiplicity=count, **({} if rate is None else {"capacity": rate}))
        links.append((tail, head, count, rate))
    text = "\n".join(nx.generate_graphml(graph)) + "\n"
    name = f"{plain_name(solution.name)}.graphml"
    return Export(((name, text.encode()),), (topology.servers, tuple(links), True), EXPORTER.limits)


EXPORTER = Exporter(
    kinds=("co-optimisation", "llm-training", "routing", "topology"),
    makes="one GraphML file: the topology",
    limits=("links only: no rates but those of a routing's own links, no switch settings, no routes",),
    folder=False,
    build=build,
)
