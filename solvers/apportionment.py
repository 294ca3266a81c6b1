"""Whole numbers in proportion."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def whole_shares(amounts: Iterable[float], total: int) -> list[int]:
    """Whole numbers in proportion to amounts, not all of them 0, that sum to a total: largest remainders."""
    given = np.array(list(amounts))
    exact = given / given.sum() * total
    whole = np.floor(exact + 1e-6).astype(np.int64)
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return [int(one) for one in whole]
