"""Bandwidths of hierarchical networks by linear programs with tangents, and the choice among designs."""

from solvers.hierarchical.cuts import Optimum, minimise
from solvers.hierarchical.start import starting_point

__all__ = ["Optimum", "minimise", "starting_point"]
