"""Bandwidths of hierarchical networks by linear programs with tangents, and the choice among designs."""

from solvers.hierarchical.cuts import Optimum, minimise
from solvers.hierarchical.designs import Choice, Proof, best_design, solve_program
from solvers.hierarchical.pareto import FrontPoint, front
from solvers.hierarchical.start import starting_point

__all__ = [
    "Choice",
    "FrontPoint",
    "Optimum",
    "Proof",
    "best_design",
    "front",
    "minimise",
    "solve_program",
    "starting_point",
]
