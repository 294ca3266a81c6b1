"""Network problems without a job, from a problem to a checked solution.

`solve.solve_network` routes a demand over a topology or finds the topology as well, `check.check_network` judges a
solution without a solver; `methods` holds the literal tables.
"""
