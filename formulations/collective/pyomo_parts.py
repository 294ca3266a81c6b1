"""What the Pyomo models of collectives share: nodes and links of a network, and the balance of a flow at a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topoopt.core.rated_network import RatedNetwork

Arc = tuple[int, int]


def network_model(network: RatedNetwork) -> tuple[Any, list[Arc], list[int]]:
    """An empty model, the links and the ranks of a network."""
    import pyomo.environ as pyo

    arcs = [(tail, head) for tail, head in network.arcs.tolist()]
    return pyo.ConcreteModel(network.origin or "network"), arcs, network.ranks.tolist()


def balance(flow: Mapping[Arc, Any], node: int) -> Any:
    """Inflow less outflow."""
    into = sum(amount for (_, head), amount in flow.items() if head == node)
    return into - sum(amount for (tail, _), amount in flow.items() if tail == node)
