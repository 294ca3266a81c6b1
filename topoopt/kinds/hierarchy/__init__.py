"""Hierarchical networks, from a problem to a checked solution: `solve.solve_hierarchical`."""
