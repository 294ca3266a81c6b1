"""Placement of least makespan without proof: first placements, and annealing from them."""

from solvers.heuristics.placement.anneal import AnnealResult, anneal
from solvers.heuristics.placement.starts import STARTS, first_placements

__all__ = ["STARTS", "AnnealResult", "anneal", "first_placements"]
