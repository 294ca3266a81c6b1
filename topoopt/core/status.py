"""What we know of a result, and why the run that made it stopped: two separate things."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """What is proven about the returned plan."""

    OPTIMAL = "optimal"  # checked value equals a proven bound
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class StopReason(StrEnum):
    """Why the search ended."""

    CONVERGED = "converged"
    BUDGET = "budget"
    TIME = "time"
    GAP = "gap"
    INTERRUPTED = "interrupted"
    ERROR = "error"
