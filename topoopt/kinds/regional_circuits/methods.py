"""The methods of kind `regional-circuits`, and the result that their circuits amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.regional_circuits import Circuits, best_circuits, greedy_circuits, in_turn, kept_circuits, largest_first
from topoopt.core.errors import InputError, Problem
from topoopt.core.regional_circuits import RegionalCircuitsPlan, RegionalCircuitsProblem, box_certificate
from topoopt.core.result import Certificate, Result
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import Explanation, Question, assembled, change_sentences, times_changed
from topoopt.kinds.regional_circuits.page import RegionalCircuitsFigures, seconds
from topoopt.verify.regional_circuits import CHECKER


def _matching(problem: RegionalCircuitsProblem, effort: Effort) -> Circuits:
    return best_circuits(problem, effort.stop, effort.tell, effort.keep)


def _kept(problem: RegionalCircuitsProblem, effort: Effort) -> Circuits:
    return kept_circuits(problem, effort.stop)


def _greedy(problem: RegionalCircuitsProblem, effort: Effort) -> Circuits:
    return greedy_circuits(problem, effort.stop, largest_first, fixed=False)


def _in_turn(problem: RegionalCircuitsProblem, effort: Effort) -> Circuits:
    return greedy_circuits(problem, effort.stop, in_turn, fixed=True)


REGIONAL_METHODS = table(
    Method("auto", "least time of each step by branch and bound, circuits reconfigured where that pays", _matching),
    Method("matching", "the same", _matching),
    Method("kept", "one choice of circuits for all steps, least time of their demands added", _kept),
    Method("greedy", "MixNet's: in each step a circuit to the largest demand, over and over", _greedy),
    Method("in-turn", "one choice for all steps, whatever the demand: servers at each distance in turn", _in_turn),
)


def from_format_2(
    problem: RegionalCircuitsProblem, document: Mapping[str, Any]
) -> tuple[RegionalCircuitsPlan, tuple[Certificate, ...]]:
    """Return the plan and the certificates of a solution file of format 2."""
    topologies = tuple(
        tuple((first, second, count) for first, second, count in rows) for rows in document["topologies"]
    )
    certificates = [
        box_certificate(
            row["first"], row["last"], row["bound_s"], row["tree"], [np.array(m) for m in row["multipliers"]]
        )
        for row in document["proofs"]
    ]
    return RegionalCircuitsPlan(topologies, tuple(row[0] for row in document["steps"])), tuple(certificates)


def _assemble(problem: RegionalCircuitsProblem, circuits: Circuits, effort: Effort) -> Result[Any, Any]:
    return assembled(problem, replace(circuits, method=effort.search.method), effort, CHECKER)


SOLVER = Solver(methods=lambda _: REGIONAL_METHODS, assemble=_assemble, tables=lambda _: (("", REGIONAL_METHODS),))


SAME = 1e-6
"""Part of a time that is no gain."""


def explain(result: Result[RegionalCircuitsProblem, RegionalCircuitsPlan], question: Question) -> Explanation:
    """Explain where the time goes, and what changes would gain.

    Raises:
        InputError: there is no instance.
    """
    problem = result.problem
    if problem is None:
        raise InputError([Problem("needed for demands", path="instance", allowed="the instance that was solved")])
    figures, value = RegionalCircuitsFigures(problem, result.plan), result.objective.value
    gains, overdue = times_changed(problem, _changes(problem), value, question)
    slowest = figures.longest_step
    sentences = [
        f"{result.name}: {seconds(value)}, of which {seconds(figures.stall_s)} wait for circuits; one "
        f"electrical switch of all interfaces takes {seconds(figures.switch_s)} at least.",
        f"Step {slowest} is the longest: {seconds(figures.steps[slowest].transfer_s)}, on the switch "
        f"{seconds(figures.steps[slowest].switch_s)}.",
        *change_sentences(gains, value, seconds, SAME),
    ]
    explained = {
        "communication_time_s": value,
        "stall_s": figures.stall_s,
        "switch_s": figures.switch_s,
        "longest_step": slowest,
        "gains": [{"change": change, "communication_time_s": time} for change, time in gains.items()],
    }
    return Explanation(tuple(sentences), explained, result.notes, overdue)


def _changes(problem: RegionalCircuitsProblem) -> dict[str, dict[str, Any]]:
    changes: dict[str, dict[str, Any]] = {
        "one port more at every server": {"ports": tuple(ports + 1 for ports in problem.ports)},
        "a circuit's rate more of electrical interfaces": {
            "electrical_rate": problem.electrical_rate + problem.circuit_rate
        },
    }
    if not problem.split:
        changes["pairs that use circuits and electrical network together"] = {"split": True}
    if any(problem.stalls_s):
        changes["a switch without delay"] = {"delay_s": 0.0}
    return changes
