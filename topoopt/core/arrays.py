"""The numbers of the field: types of arrays, units, seeds, and random draws that a checker makes again."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Int32s: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]


def distinct(values: Ints) -> Ints:
    """int64[d], different values in order; millions of them in a tenth of what the hash table of numpy takes."""
    ordered: Ints = np.sort(values)
    different: Ints = ordered[
        np.concatenate((np.ones(min(len(ordered), 1), dtype=np.bool_), ordered[1:] != ordered[:-1]))
    ]
    return different


def stable_order(values: Floats | Ints) -> Ints:
    """int64[n], the order that makes values ascend, equal ones as they come; a quarter of what a stable sort takes."""
    order: Ints = np.argsort(values)
    ordered = values[order]
    tied = np.concatenate(([False], ordered[1:] == ordered[:-1]))
    tied[:-1] |= tied[1:]
    rows = np.flatnonzero(tied)
    if 2 * len(rows) > len(values):
        return np.argsort(values, kind="stable")
    order[rows] = order[rows][np.lexsort((order[rows], ordered[rows]))]
    return order


def offsets(lengths: ArrayLike) -> Ints:
    """int64[n + 1]: where rows of these lengths begin, one behind the other, and where the last one ends."""
    starts: Ints = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return starts


def ranges(first: Ints, count: Ints) -> Ints:
    """first[i], first[i] + 1, ..., count[i] of them, for each i in turn."""
    ends = np.cumsum(count)
    numbers: Ints = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count)
    return numbers


def padded(rows: Sequence[Sequence[int]]) -> Ints:
    """int64[k, longest], rows of whole numbers, -1 behind each."""
    length = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    table: Ints = np.full((len(rows), int(length.max(initial=0))), -1, dtype=np.int64)
    numbers = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=int(length.sum()))
    table[np.arange(table.shape[1]) < length[:, None]] = numbers
    return table


def whole_shares(amounts: Iterable[float], total: int) -> list[int]:
    """Whole numbers in proportion to amounts, not all of them 0, that sum to a total: largest remainders."""
    given = np.array(list(amounts))
    exact = given / given.sum() * total
    whole = np.floor(exact + 1e-6).astype(np.int64)
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return [int(share) for share in whole]


def divisors(number: int) -> list[int]:
    """All divisors of a positive integer, in ascending order."""
    low = [factor for factor in range(1, int(number**0.5) + 1) if number % factor == 0]
    return sorted({*low, *(number // factor for factor in low)})


BYTES_PER_MS_PER_GBPS = 125_000.0
"""1 Gbit/s = 10^9 / 8 / 1000 bytes per millisecond."""

NS_PER_S = 10**9

GIB = 1024**3
MIB = 1024**2
KIB = 1024


def bytes_per_ms(gbps: float) -> float:
    """Rate in bytes per millisecond of a rate in Gbit/s."""
    return gbps * BYTES_PER_MS_PER_GBPS


SIZES = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": 1024 * GIB,
}
"""Bytes of the units of memory."""


def bytes_of(text: str) -> int | None:
    """Bytes of `4GiB`, `500 MB` or a plain number; None if it is none of these, or less than one byte."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", text, re.ASCII)
    if match is None or match[2] not in SIZES:
        return None
    size = float(match[1]) * SIZES[match[2]]
    return int(size) if math.isfinite(size) and size >= 1 else None


def seed_for(seed: int, name: str) -> int:
    """A seed, below 2^63, of its own for each name: the same whatever else there is, and in whatever order."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


STEP = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


class Draws:
    """A stream that goes on with every number taken (Steele et al., OOPSLA'14), as in the native module."""

    def __init__(self, *seeds: int) -> None:
        """Args:
        seeds: one is the state of the generator; several are mixed into one.
        """
        self._state = seeds[0] & _MASK
        for seed in seeds[1:]:
            self._state = int(_mixed(np.array([self._state + STEP & _MASK], dtype=np.uint64))[0]) ^ (seed & _MASK)

    def uniform(self, count: int) -> Floats:
        """float64[count] in [0, 1)."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(STEP)
        states = steps + np.uint64(self._state)
        self._state = (self._state + count * STEP) & _MASK
        return (_mixed(states) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, limit: int, count: int) -> Ints:
        """int64[count] in [0, limit)."""
        return np.minimum((self.uniform(count) * limit).astype(np.int64), limit - 1)

    def permutation(self, count: int) -> Ints:
        """int64[count]: the numbers below `count` in random order."""
        order: Ints = np.argsort(self.uniform(count), kind="stable")
        return order

    def weighted(self, weights: Floats, count: int) -> Ints:
        """int64[count]: indices of weights, each as likely as its weight says."""
        ends = np.cumsum(weights)
        index: Ints = np.searchsorted(ends, self.uniform(count) * ends[-1], side="right")
        return np.minimum(index, len(weights) - 1)

    def exponential(self, count: int) -> Floats:
        """float64[count] of mean 1."""
        return np.array([-math.log(1.0 - number) for number in self.uniform(count).tolist()])


def _mixed(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return states ^ (states >> np.uint64(31))
