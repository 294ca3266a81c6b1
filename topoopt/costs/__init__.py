"""What networks are made of and cost: counting rules by fabric, bills of material, rates of equal cost, cabling.

A rule counts the parts with the rate left open, so the cost of a network is piecewise linear in it and every question
of equal cost has an exact answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topoopt.core.price_book import OCS_PORT, PATCH_PANEL_PORT, PLAN_FABRIC
from topoopt.costs.rules import (
    Counting,
    CountingRule,
    NetworkSize,
    clos,
    full_bisection,
    hypercube,
    ideal_switch,
    optical_circuit_switches,
    oversubscribed_at_aggregation,
    oversubscribed_at_racks,
    panels,
    panels_with_look_ahead,
    photonic_rails,
    rail_only,
    rail_optimised,
    regional_circuits,
    regular_graph,
    torus_2d,
    torus_3d,
)

__all__ = ["DIRECT_CONNECT", "FABRIC_COSTS", "SAME_BILL", "Counting", "FabricCost", "NetworkSize"]

LINK, SERVER, EQUAL = "link", "server", "equal-cost"


@dataclass(frozen=True)
class FabricCost:
    """How a network is counted.

    Attributes:
        title: in words.
        count: its rule.
        rate: of a port of a server: `link`, that of the cluster's interfaces; `server`, that of all interfaces of a
            server together; `equal-cost`, the one at which the network costs as much as direct connect, at most the
            former.
        optical_part: the part that prices a port of its optical devices; None: it has none.
        planes: optical planes for each interface of a server.
    """

    title: str
    count: CountingRule
    rate: str
    optical_part: str | None = None
    planes: int = 1


DIRECT_CONNECT = PLAN_FABRIC

FABRIC_COSTS: Mapping[str, FabricCost] = {
    DIRECT_CONNECT: FabricCost("patch panels, look-ahead plane", panels_with_look_ahead, LINK, PATCH_PANEL_PORT, 2),
    "direct-connect-one-plane": FabricCost("patch panels, no look-ahead", panels, LINK, PATCH_PANEL_PORT),
    "direct-connect-ocs": FabricCost("optical circuit switches", optical_circuit_switches, LINK, OCS_PORT),
    "fat-tree": FabricCost("fat-tree of equal cost", full_bisection, EQUAL),
    "full-fat-tree": FabricCost("full-bisection fat-tree", full_bisection, SERVER),
    "oversubscribed-fat-tree": FabricCost("fat-tree, racks oversubscribed", oversubscribed_at_racks, SERVER),
    "aggregation-oversubscribed-fat-tree": FabricCost(
        "fat-tree, aggregation oversubscribed", oversubscribed_at_aggregation, SERVER
    ),
    "clos": FabricCost("Clos fabric as it is built", clos, LINK),
    "rail-fat-tree": FabricCost("rail-optimised fat-tree", rail_optimised, LINK),
    "rail-only": FabricCost("rails without a core", rail_only, LINK),
    "photonic-rails": FabricCost("an optical circuit switch a rail", photonic_rails, LINK),
    "regional-circuits": FabricCost("regional circuits, fat-tree of the other interfaces", regional_circuits, LINK),
    "ideal-switch": FabricCost("ideal switch", ideal_switch, LINK),
    "random-regular": FabricCost("random regular graph, wired directly", regular_graph, LINK),
    "generalized-kautz": FabricCost("generalized Kautz graph, wired directly", regular_graph, LINK),
    "torus-2d": FabricCost("torus of two axes, wired directly", torus_2d, LINK),
    "torus-3d": FabricCost("torus of three axes, wired directly", torus_3d, LINK),
    "hypercube": FabricCost("hypercube, wired directly", hypercube, LINK),
}
"""Counting rules by fabric; a new one is one rule and one line here."""

SAME_BILL: Mapping[str, str] = {
    "expander": "random-regular",
    "twisted-torus-2d": "torus-2d",
    "twisted-torus-3d": "torus-3d",
}
"""Fabrics with the parts of another, wired otherwise."""
