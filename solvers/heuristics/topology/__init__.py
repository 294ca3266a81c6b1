"""TopologyFinder and routing of TopoOpt (NSDI'23): ring distances, matchings, switches, routes and rings."""

from __future__ import annotations

from solvers.heuristics.topology.candidates import candidate_topologies
from solvers.heuristics.topology.circulant import circulant_topology, group_descriptors
from solvers.heuristics.topology.coin_routes import circulant_routes
from solvers.heuristics.topology.finder import FinderSettings, build_topology, find_topology
from solvers.heuristics.topology.rings import group_rings
from solvers.heuristics.topology.routes import balanced_routes, link_loads
from solvers.heuristics.topology.selection import Selection, candidate_distances
from solvers.heuristics.topology.split_routes import split_routes_lp
from solvers.heuristics.topology.switches import assign_switches
from solvers.heuristics.topology.totient_perms import TotientResult, hop_table, select_offsets, totient

__all__ = [
    "FinderSettings",
    "Selection",
    "TotientResult",
    "assign_switches",
    "balanced_routes",
    "build_topology",
    "candidate_distances",
    "candidate_topologies",
    "circulant_routes",
    "circulant_topology",
    "find_topology",
    "group_descriptors",
    "group_rings",
    "hop_table",
    "link_loads",
    "select_offsets",
    "split_routes_lp",
    "totient",
]
