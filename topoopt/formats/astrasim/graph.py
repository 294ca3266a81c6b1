"""Arbitrary graphs for the ns-3 backend of ASTRA-sim.

Hosts do not forward there, so every server becomes a host and a switch of its own: host i, switch n + i, joined by a
link of d times the rate with almost no delay, and the links of the topology run between the switches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.formats.astrasim.ns3 import Ns3Link, Ns3Topology
from topoopt.formats.astrasim.system import RING_ONLY, system_document
from topoopt.formats.exporter import NOTES_FILE, Export, ExportOptions, decimal_text, json_bytes, notes_bytes, refuse
from topoopt.formats.graphml.graphs import link_of, topology_of

HOST_DELAY_MS = 1e-6
"""Between a server and its own switch: 1 ns."""

GRAPH_NOTES = (
    "ns-3 text: links are full duplex, so one-way links cannot be expressed",
    "ns-3 text: routes are shortest paths (ECMP), not those of the plan; rings run in order of rank, not as planned",
    "ns-3 text: server i is host i and a switch n + i that forwards for others, joined at the rate of all its links",
)


def ns3_topology(topology: Topology, link_gbps: float, hop_latency_us: float) -> Ns3Topology:
    """Hosts, their switches and the links between these.

    Raises:
        InputError: links that go one way only, or have rates of their own.
    """
    n = topology.servers
    if topology.rates is not None:
        raise refuse("links with rates of their own cannot be written", allowed="links of one rate, or --to graphml")
    count = np.zeros((n, n), dtype=np.int64)
    count[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
    if not np.array_equal(count, count.T):
        tail, head = (int(end) for end in np.argwhere(count != count.T)[0])
        shown = f"links from server {tail} to {head}: {count[tail, head]}, back: {count[head, tail]}"
        raise refuse(
            "one-way links cannot be expressed", value=shown, allowed="bidirectional topologies, or --to graphml"
        )
    out = count.sum(axis=1).tolist()
    own = [Ns3Link(i, n + i, out[i] * link_gbps, HOST_DELAY_MS) for i in range(n)]
    between = [
        Ns3Link(n + i, n + j, link_gbps, hop_latency_us / 1000.0)
        for i, j in np.argwhere(np.triu(count) > 0).tolist()
        for _ in range(count[i, j])
    ]
    return Ns3Topology(2 * n, tuple(range(n, 2 * n)), (*own, *between))


def ns3_text(topology: Ns3Topology) -> str:
    """`nodes switches links`, the switches, then `source target rate delay error` of every link."""
    lines = [f"{topology.nodes} {len(topology.switches)} {len(topology.links)}"]
    lines.append(" ".join(str(one) for one in topology.switches))
    for link in topology.links:
        rate, delay = decimal_text(link.gbps), decimal_text(link.delay_ms)
        lines.append(f"{link.source} {link.target} {rate}Gbps {delay}ms {decimal_text(link.error_rate)}")
    return "\n".join(lines) + "\n"


def graph_export(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Folder for the ns-3 backend."""
    gbps, latency_us = link_of(solution, options)
    topology = topology_of(solution)
    graph = ns3_topology(topology, gbps, latency_us)
    notes = (
        f"links of {gbps:g} Gbit/s, {latency_us:g} us a hop",
        "topology.txt goes into the ns-3 configuration as TOPOLOGY_FILE, the json files on the command line",
        *GRAPH_NOTES,
    )
    files = (
        ("topology.txt", ns3_text(graph).encode()),
        ("logical_topology.json", json_bytes({"logical-dims": [str(topology.servers)]})),
        ("system.json", json_bytes(system_document([RING_ONLY]))),
        (NOTES_FILE, notes_bytes(f"{topology.servers} servers for the ns-3 backend of ASTRA-sim", notes)),
    )
    return Export(files, graph, notes)
