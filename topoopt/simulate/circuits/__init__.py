"""Networks whose circuits change during an iteration: demand-driven fabrics, and schedules in stages."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.simulate.circuits.policy import CircuitPolicy, CircuitTiming
from topoopt.simulate.circuits.run import CircuitRun, simulate_circuits
from topoopt.simulate.circuits.stages import Phase, Stage, StagedRun, phases_of, simulate_stages

__all__ = [
    "DYNAMIC_FABRICS",
    "CircuitPolicy",
    "CircuitRun",
    "CircuitTiming",
    "Phase",
    "Stage",
    "StagedRun",
    "phases_of",
    "simulate_circuits",
    "simulate_stages",
]

DYNAMIC_FABRICS: Mapping[str, CircuitPolicy] = {
    "sip-ml": CircuitPolicy(
        "directed circuits to the largest remaining demand, no forwarding",
        directed=True,
        forwarding=False,
        draining=False,
    ),
    "ocs-reconfig": CircuitPolicy(
        "fibre pairs to the largest remaining demand, connected, servers forward",
        directed=False,
        forwarding=True,
        draining=True,
    ),
}
"""Demand-driven fabrics by name; a new one is one line here."""
