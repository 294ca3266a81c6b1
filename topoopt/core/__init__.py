"""Immutable data of the field: clusters, workloads, strategies, task graphs, topologies, routes, plans.

Nothing here reads files, calls a solver or simulates; every other package may import it.
"""
