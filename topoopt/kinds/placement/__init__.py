"""Device placement, from a problem to a checked solution.

`solve.solve_placement` dispatches by objective to a table of methods; what they hand over is evaluated, bounded and
checked in one place.
"""
