"""Bandwidths of hierarchical networks by linear programs with tangents, and the choice among designs."""

from solvers.hierarchy.cuts import Optimum, minimise
from solvers.hierarchy.designs import BestDesign, DesignMultipliers, best_design, solve_program
from solvers.hierarchy.pareto import FrontPoint, front
from solvers.hierarchy.start import starting_point

__all__ = [
    "BestDesign",
    "DesignMultipliers",
    "FrontPoint",
    "Optimum",
    "best_design",
    "front",
    "minimise",
    "solve_program",
    "starting_point",
]
