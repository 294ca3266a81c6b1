"""Search for the topology of least theta for a demand matrix (kind `topology`)."""

from __future__ import annotations

from solvers.network.search.anneal import AnnealPlan, anneal, hops_of
from solvers.network.search.budget import SearchBudget, budget_of
from solvers.network.search.link_counts import alternate, best_link_counts, one_hop_topology
from solvers.network.search.links import LinkTable, table_of, topology_of
from solvers.network.search.outcome import SearchStep, TopologySearchResult
from solvers.network.search.polish import PolishResult, polish
from solvers.network.search.search import search_topology
from solvers.network.search.seeds import SEEDS, seed_topologies

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
    "budget_of",
    "hops_of",
    "one_hop_topology",
    "polish",
    "search_topology",
    "seed_topologies",
    "table_of",
    "topology_of",
]
