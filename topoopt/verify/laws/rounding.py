"""What rounding may have added to a sum in doubles, to be taken off a bound that rests on it."""

from __future__ import annotations

UNIT = 2.0**-53
"""Relative error of one operation on doubles."""

MARGIN = 1e-10
"""Part of a bound for its rounding where it is a sum of fewer than 10^5 terms of the order of the bound at most: their
errors stay below 10^5 * 2^-53 of it."""


def error_of_sum(terms: int, size: float) -> float:
    """How far a sum may be from its exact value (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).

    Args:
        terms: of the sum; products and quotients in a term count as one more each.
        size: sum of the absolute values of the terms.
    """
    return terms * UNIT / (1.0 - terms * UNIT) * size
