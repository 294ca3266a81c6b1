"""Topology text of the ns-3 backend of ASTRA-sim (as in HPCC): an undirected multigraph of hosts and switches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ns3Link:
    """A full-duplex link: ends, rate in Gbit/s each way, delay in ms, error rate."""

    source: int
    target: int
    gbps: float
    delay_ms: float
    error_rate: float = 0.0


@dataclass(frozen=True)
class Ns3Topology:
    """Nodes 0..nodes-1, of which some are switches; the others are hosts and do not forward."""

    nodes: int
    switches: tuple[int, ...]
    links: tuple[Ns3Link, ...]
