"""Words of a command, taken one after the other."""

from __future__ import annotations

import re


def whole(text: str) -> int:
    """A number without sign, point or exponent.

    Raises:
        ValueError: it is none.
    """
    if not re.fullmatch(r"0|[1-9][0-9]*", text, re.ASCII):
        raise ValueError(f"not a whole number: {text}")
    return int(text)


class Words:
    """A command that is read from left to right; ValueError where something else stands."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0

    def next(self) -> str:
        """The next word."""
        if self.empty():
            raise ValueError("too short")
        self._at += 1
        return self._words[self._at - 1]

    def take(self, *words: str) -> bool:
        """Pass these words if they come next."""
        if tuple(self._words[self._at : self._at + len(words)]) != words:
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Pass these words, which must come next."""
        if not self.take(*words):
            raise ValueError(f"not {' '.join(words)}")

    def rest(self) -> list[str]:
        """All that is left."""
        left = self._words[self._at :]
        self._at = len(self._words)
        return left

    def empty(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._words)

    def end(self) -> None:
        """Nothing may be left."""
        if not self.empty():
            raise ValueError(f"more: {self._words[self._at]}")
