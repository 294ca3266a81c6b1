"""Whether nothing is left to find, by a verified bound or on the word of a solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topoopt.core.proofs import Status, Tolerance, meets
from topoopt.core.result import SolutionHead


def settled(solution: SolutionHead) -> bool:
    """Optimal, or claimed to be: then the value meets the claimed bound (from below)."""
    claim = solution.claimed_bound
    if claim is None:
        return solution.status is Status.OPTIMAL
    assert solution.status is Status.FEASIBLE
    return meets(solution.objective.value, claim.value, Tolerance.LINEAR_PROGRAM)


def settled_document(told: Mapping[str, Any]) -> bool:
    """The same of the JSON object of a solve."""
    claim = told["claimed_bound"]
    if claim is None:
        return bool(told["status"] == "optimal")
    assert (told["status"], claim["verified"]) == ("feasible", False)
    return meets(told["objective"]["value"], claim["value"], Tolerance.LINEAR_PROGRAM)
