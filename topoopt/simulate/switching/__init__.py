"""One step of training on rails whose circuits are set anew inside it."""

from __future__ import annotations

from topoopt.simulate.switching.job import rail_job
from topoopt.simulate.switching.ports import plans_of
from topoopt.simulate.switching.shares import RailShares
from topoopt.simulate.switching.step import Delays, electrical_s, follow, rail_orders
from topoopt.simulate.switching.trace import events_of

__all__ = ["Delays", "RailShares", "electrical_s", "events_of", "follow", "plans_of", "rail_job", "rail_orders"]
