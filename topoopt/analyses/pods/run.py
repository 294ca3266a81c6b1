"""Strategies of a language model, each with circuits between pods; the best as a checked solution."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from solvers.dag_topology.strategies import JointCircuits, best_in_pods
from solvers.llm_training.search import SearchedSpace, search
from solvers.stop import Stop, first_part
from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH
from topoopt.core.parallelism import ParallelStrategy
from topoopt.formats.dag_topology.write import dag_document
from topoopt.kinds.instance_file import read_instance, write_instance
from topoopt.kinds.kind import Method, SolveOptions
from topoopt.kinds.llm_training.methods import nothing_found
from topoopt.kinds.pipeline import solve
from topoopt.simulate.llm_training.pod_graph import PodSetting

RANK_SHARE = 0.15
"""Part of the time left for ranking strategies, for either rate; the rest is for circuits."""

RANKED = 8
"""Strategies that are ranked for each one asked for, as many that follow each other are almost alike."""


def joint_circuits(
    problem: LlmTrainingProblem,
    setting: PodSetting,
    strategies: int,
    stop: Stop,
    tell: Callable[[str, int, int | None], None],
) -> JointCircuits:
    """Strategies and circuits together.

    Args:
        strategies: that pods hold, at most. By turns those that are fast on an ideal switch at the rate of the
            interfaces, and at that of a GPU's part of the ports of its pod; of each way to divide the GPUs the fastest
            before any second.

    Raises:
        InputError: the time model has no passes, or pods hold no strategy.
        InfeasibleError: no strategy fits into memory, or ports suffice for none.
        LimitError: the limit came before a strategy was found.
    """
    if problem.calculon is not None:
        text = "the model has a closed form in place of passes"
        raise InputError([Problem(text, path="time_model", value=problem.time_model, allowed="roofline")])
    problem = replace(problem, fabrics=(IDEAL_SWITCH,))  # rails would leave strategies out that pods hold
    ideal = _varied(problem, strategies, stop, tell)
    shared = _shared_rate(problem, setting)
    if shared == problem.cluster.link_gbps:
        merged = ideal
    else:
        near = _varied(replace(problem, cluster=replace(problem.cluster, link_gbps=shared)), strategies, stop, tell)
        merged = [one for pair in itertools.zip_longest(ideal, near) for one in pair if one is not None]
    return best_in_pods(problem, setting, dict.fromkeys(merged), strategies, stop, tell)


def _shared_rate(problem: LlmTrainingProblem, setting: PodSetting) -> float:
    """Gbit/s of an interface that give a GPU its part of the circuits of a pod."""
    cluster = problem.cluster
    circuit = setting.circuit_gbps or cluster.link_gbps
    ports_each = cluster.degree / cluster.gpus_per_server
    return circuit if setting.ports is None else circuit * setting.ports / (setting.gpus * ports_each)


def _varied(
    problem: LlmTrainingProblem, strategies: int, stop: Stop, tell: Callable[[str, int, int | None], None]
) -> list[ParallelStrategy]:
    """The fastest on an ideal switch, first the best of each way to divide the GPUs, then each second, and so on."""

    def ranked(space: SearchedSpace, done: int, total: int) -> None:
        tell("shapes of strategies", done, total)

    first = first_part(stop, RANK_SHARE, math.inf) if stop.deadline is not None else stop
    space = search(problem, first, count=RANKED * strategies, tell=ranked)
    if not space.ranked:
        raise nothing_found(problem, space)
    turns: Counter[tuple[int, ...]] = Counter()
    placed = []
    for place, one in enumerate(space.ranked):
        s = one.strategy
        shape = (s.tensor, s.context, s.pipeline, s.data, s.expert)
        placed.append((turns[shape], place))
        turns[shape] += 1
    return [space.ranked[place].strategy for _, place in sorted(placed)]


def checked_solution(joint: JointCircuits, file: Path) -> DagTopologySolution:
    """The circuits of the best strategy as a solution of the graph of its iteration, checked.

    Args:
        file: to write the graph to, an instance of kind `dag-topology`.

    Raises:
        WriteError: it cannot be written.
    """
    best = joint.rows[joint.best]
    write_instance(dag_document(best.graph), file)
    chosen = Method("auto", "circuits that were searched with the strategy", lambda _, __: joint.found)
    solution: DagTopologySolution = solve(read_instance(file), SolveOptions(chosen=chosen))
    return solution
