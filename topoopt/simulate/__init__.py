"""Simulated iterations: task graphs of strategies, networks of fabrics, and the time models.

The names below load on first use, so that importing a part does not import all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topoopt.simulate.demand import demand_of
    from topoopt.simulate.fabrics import FABRICS, FabricOptions, direct_connect_network
    from topoopt.simulate.hops import diameter_and_mean_hops
    from topoopt.simulate.lower import build_task_graph
    from topoopt.simulate.time_models.evaluate import simulate

_LAZY = {
    "FABRICS": "fabrics",
    "FabricOptions": "fabrics",
    "build_task_graph": "lower",
    "demand_of": "demand",
    "diameter_and_mean_hops": "hops",
    "direct_connect_network": "fabrics",
    "simulate": "evaluate",
}

__all__ = [
    "FABRICS",
    "FabricOptions",
    "build_task_graph",
    "demand_of",
    "diameter_and_mean_hops",
    "direct_connect_network",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'topoopt.simulate' has no attribute {name!r}")
    return getattr(importlib.import_module(f"topoopt.simulate.{_LAZY[name]}"), name)
