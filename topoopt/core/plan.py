"""A plan: everything needed to patch the switches, set the routes and launch the job."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.routing import GroupRings, PathTable
from topoopt.core.shown import Shown
from topoopt.core.strategy import Strategy
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Shown):
    """Strategy, topology, routes of every pair with model-parallel demand, rings of every AllReduce group used."""

    strategy: Strategy
    topology: Topology
    routes: PathTable
    rings: tuple[GroupRings, ...]
