"""Search for the topology of least theta for a demand matrix (kind `topology`)."""

from __future__ import annotations

from solvers.heuristics.topology_search.anneal import AnnealPlan, anneal, hops_of
from solvers.heuristics.topology_search.budget import SearchBudget
from solvers.heuristics.topology_search.link_counts import alternate, best_link_counts, one_hop_topology
from solvers.heuristics.topology_search.links import LinkTable, table_of, topology_of
from solvers.heuristics.topology_search.outcome import SearchStep, TopologySearchResult
from solvers.heuristics.topology_search.polish import PolishResult, polish
from solvers.heuristics.topology_search.search import search_topology
from solvers.heuristics.topology_search.seeds import SEEDS, seed_topologies

__all__ = [
    "SEEDS",
    "AnnealPlan",
    "LinkTable",
    "PolishResult",
    "SearchBudget",
    "SearchStep",
    "TopologySearchResult",
    "alternate",
    "anneal",
    "best_link_counts",
    "hops_of",
    "one_hop_topology",
    "polish",
    "search_topology",
    "seed_topologies",
    "table_of",
    "topology_of",
]
