"""TopologyFinder and routing of TopoOpt (NSDI'23): ring distances, matchings, switches, routes and rings."""

from __future__ import annotations

from solvers.network.constructions.candidates import candidate_topologies
from solvers.network.constructions.circulant import circulant_topology, group_descriptors
from solvers.network.constructions.coin_routes import circulant_routes
from solvers.network.constructions.finder import FinderSettings, build_topology, find_topology
from solvers.network.constructions.rings import group_rings
from solvers.network.constructions.routes import balanced_routes, link_loads
from solvers.network.constructions.selection import Selection, candidate_distances
from solvers.network.constructions.split_routes import split_routes_lp
from solvers.network.constructions.switches import assign_switches
from solvers.network.constructions.totient_perms import TotientResult, hop_table, select_offsets, totient

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
