"""Solution files of all kinds."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from topoopt.files.results import solution_document
from topoopt.kinds import KINDS, kind_named, kind_of


def read_solution(path: str | os.PathLike[str], kinds: Collection[str] | None = None) -> Any:
    """The solution in a file; whether it is right is for the checker to say.

    Raises:
        InputError: everything wrong with the file; not a solution of any of the kinds.
    """
    kind, document = solution_document(path, tuple(KINDS) if kinds is None else kinds)
    return kind_named(kind).files.solutions.read(path, document)


def write_solution(solution: Any, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all; equal solutions give equal bytes.

    Raises:
        TopooptError: a number is NaN or infinite (a bug of what made the solution); WriteError: it cannot be written.
    """
    kind_of(solution).files.solutions.write(solution, path)
