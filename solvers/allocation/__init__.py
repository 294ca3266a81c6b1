"""Bandwidth allocation on given routes: water-filling, and sequences of linear programs.

`water_fill` covers transfers of one route each, `raise_levels` any number, `largest_total` the weighted sum;
`clashing_guarantees` says why guarantees cannot be met.
"""

from formulations.allocation.bandwidth_allocation_data import SharedCapacities, Shares, network_of, shares_of
from solvers.allocation.clashes import clashing_guarantees
from solvers.allocation.first import first_rates
from solvers.allocation.levels import raise_levels
from solvers.allocation.result import AllocationResult
from solvers.allocation.total import largest_total
from solvers.allocation.water_filling import water_fill

__all__ = [
    "AllocationResult",
    "SharedCapacities",
    "Shares",
    "clashing_guarantees",
    "first_rates",
    "largest_total",
    "network_of",
    "raise_levels",
    "shares_of",
    "water_fill",
]
