"""Many lines of few shapes as columns of numbers.

Files of schedules say the same thing a million times with other numbers. So the shape of a line, which is the line
with a 0 for every run of digits, is matched once, and the runs of digits of all lines become numbers at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Ints

MOST_DIGITS = 9
AT_ONCE = 10_000
"""Lines whose letters stay in the cache of a processor."""


class LineError(ValueError):
    """A line that does not match."""

    def __init__(self, place: int) -> None:
        super().__init__(f"line {place}")
        self.place = place


def number_table(lines: Sequence[str], pattern: re.Pattern[str], groups: Sequence[int]) -> Ints:
    """int64[lines, groups], the numbers in groups of a pattern.

    Args:
        pattern: for whole lines; each of the groups is a run of up to nine digits, and no other part of the pattern
            asks for certain digits.

    Raises:
        LineError: the first line that is of no such form.
    """
    found = [np.zeros((0, len(groups)), dtype=np.int64)]
    for begin in range(0, len(lines), AT_ONCE):
        try:
            found.append(_part_table(lines[begin : begin + AT_ONCE], pattern, groups))
        except LineError as error:
            raise LineError(begin + error.place) from None
    return np.concatenate(found)


def _part_table(lines: Sequence[str], pattern: re.Pattern[str], groups: Sequence[int]) -> Ints:
    """The same of some lines; places of errors are among these."""
    separator = next((place for place, line in enumerate(lines) if "\0" in line), None)
    if separator is not None:
        raise LineError(separator)
    letters = np.frombuffer("\0".join(lines).encode("ascii", "replace"), dtype=np.uint8)
    digit = (letters - ord("0")) < 10  # unsigned: what is below becomes large
    edges = np.flatnonzero(np.diff(digit, prepend=False, append=False))
    first, last = edges[::2], edges[1::2]
    digits = last - first
    shapes = _shapes(letters, digit, first)
    numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes))}
    found = [_places(pattern.fullmatch(shape), shape, groups) for shape in numbers]
    rows = np.array(found, dtype=np.int64)[np.fromiter(map(numbers.__getitem__, shapes), np.int64, len(shapes))]
    wrong = rows[:, 0] < 0
    ends = np.concatenate(([0], np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)) + 1)[:-1]))
    place = np.where(wrong[:, None], 0, np.searchsorted(first, ends)[:, None] + rows)
    if not len(digits):
        raise LineError(0)
    wrong |= (digits[place] > MOST_DIGITS).any(axis=1)
    if wrong.any():
        raise LineError(int(np.argmax(wrong)))
    return _values(letters, digit)[place]


def _shapes(letters: NDArray[np.uint8], digit: Bools, first: Ints) -> list[str]:
    """Every line with a 0 for each run of digits."""
    kept = ~digit
    kept[first] = True
    zeros = letters.copy()
    zeros[first] = ord("0")
    return zeros[kept].tobytes().decode("ascii").split("\0")


def _places(match: re.Match[str] | None, shape: str, groups: Sequence[int]) -> tuple[int, ...]:
    """Which run of digits of a line each group is; -1: it does not match."""
    return tuple(-1 if match is None else shape.count("0", 0, match.start(group)) for group in groups)


def _values(letters: NDArray[np.uint8], digit: Bools) -> Ints:
    """Value of every run of digits; of those with more than 18 any."""
    spaced = np.where(digit, letters, np.uint8(ord(" ")))
    return np.fromstring(spaced.tobytes(), dtype=np.int64, sep=" ")
