"""Placement of least makespan without proof: first placements, and annealing from them."""

from solvers.placement.search.anneal import PlacementAnnealResult, anneal
from solvers.placement.search.starts import STARTS, first_placements

__all__ = ["STARTS", "PlacementAnnealResult", "anneal", "first_placements"]
