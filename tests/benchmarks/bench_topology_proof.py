"""How long optimal topologies for balanced skewed demand take, found, proven and checked: degree 2, directed links."""

from __future__ import annotations

import time

from solvers.network.branching import solve_branching
from solvers.network.space import ExactLimits
from tests.benchmarks.figures import Figure
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import BlockTree, TopologyProblem
from topoopt.core.proofs import Argument
from topoopt.verify.network.trees import blocks_bound
from topoopt.workloads.demands import demand_matrix

GOAL_S = 60.0
DEMANDS = tuple((10, seed) for seed in range(1, 7)) + tuple((9, seed) for seed in range(1, 4))
"""Servers and seed."""


def topology_proof_figures() -> list[Figure]:
    """Processor time of every demand; the checker's is in the name."""
    solve_branching(_problem(8, 7), ExactLimits())  # compile
    figures = []
    for servers, seed in DEMANDS:
        problem = _problem(servers, seed)
        began = time.process_time()
        found = solve_branching(problem, ExactLimits())
        took = time.process_time() - began
        began = time.process_time()
        given = [proof for proof in found.certificates if proof.argument is Argument.LINK_BLOCKS]
        proof = BlockTree.of(given[0], servers) if given else None
        proven = 0.0 if proof is None else blocks_bound(problem, proof)
        checking = time.process_time() - began
        gap = found.theta / proven - 1.0 if proven else float("inf")
        nodes = 0 if proof is None else len(proof.parent)
        name = f"{servers} servers, seed {seed}: theta {found.theta:.5g}, gap {gap:.1g}, {nodes} nodes"
        figures.append(Figure(f"{name}, checked in {checking:.2g} s", took, "s", GOAL_S))
    return figures


def _problem(servers: int, seed: int) -> TopologyProblem:
    demand = demand_matrix("balanced-skew", servers, seed=seed)
    return TopologyProblem("skewed", servers, 2, LinkDirection.UNIDIRECTIONAL, demand)
