"""Steps on rails with the fastest plan of ports, for tests of what happens to them."""

from __future__ import annotations

from solvers.stop import Stop
from solvers.switching import fastest_ports
from topoopt.core.switching import RailJob, SwitchedStep, SwitchMode
from topoopt.simulate.switching import RailOrders, rail_orders


def fastest_step(job: RailJob, delay_s: float, mode: SwitchMode) -> tuple[RailOrders, SwitchedStep]:
    """The orders of a job, and its step with the fastest plan."""
    known = rail_orders(job)
    found = fastest_ports(job, known, delay_s, mode, Stop())
    assert found is not None
    plan, step_s, bound_s = found
    return known, SwitchedStep(mode, delay_s, plan, step_s, 0.0, bound_s, 0, 0.0)
