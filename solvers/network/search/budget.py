"""How hard a topology search works, in counts rather than seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchBudget:
    """How hard to search.

    Attributes:
        proposals: swaps the annealing proposes; None: by size, seconds of work.
        evaluations: topologies the polish prices; None: by size, seconds of work. More of them may take as much longer.
        accuracy: relative gap between theta and its bound in the last routing.
        circulants_only: end with the best seed that looks the same from every server, as routes of others are too many.
    """

    proposals: int | None = None
    evaluations: int | None = None
    accuracy: float = 1e-4
    circulants_only: bool = False


def default_proposals(n: int) -> int:
    """Annealing of a few seconds up to 32 servers, half a minute up to 64, about a minute up to 128."""
    if n <= 32:
        return 400_000 if n <= 8 else 1_000_000 if n <= 16 else 4_000_000
    return 16_000_000 if n <= 64 else 20_000_000 if n <= 128 else 5_000_000


def default_evaluations(n: int) -> int:
    """Polish of about ten seconds."""
    return 8_000 if n <= 8 else 12_000 if n <= 20 else 8_000 if n <= 40 else 1_500 if n <= 80 else 200


def budget_of(n: int, proposals: int | None, accuracy: float, *, circulants_only: bool = False) -> SearchBudget:
    """So many proposals, and a polish that is harder or easier than the default as the annealing is."""
    evaluations = None if proposals is None else proposals * default_evaluations(n) // default_proposals(n)
    return SearchBudget(proposals, evaluations, accuracy, circulants_only)
