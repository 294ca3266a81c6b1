"""Solution files: written whole with the same bytes for the same solution, read back as files of unknown origin."""

from __future__ import annotations

import json
import os

import numpy as np

from topoopt.core.errors import TopooptError
from topoopt.core.solution import Solution
from topoopt.core.units import MIB
from topoopt.io.atomic import write_text_atomically
from topoopt.io.checked_file import read_checked
from topoopt.io.documents import Limits
from topoopt.io.solution_build import build_solution
from topoopt.io.solution_checks import solution_faults
from topoopt.io.solution_document import solution_document
from topoopt.io.solution_schema import SolutionFile

LIMITS = Limits(json_bytes=256 * MIB, json_nodes=8_000_000)
"""Solutions of large clusters hold long tables of routes."""


def _plain(value: object) -> object:
    """Numbers of numpy that slipped into a field of a plain type."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a solution holds a {type(value).__name__}")


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


def solution_to_json(solution: Solution) -> str:
    """JSON text, one line for each top-level key and each of its long tables; equal solutions give equal bytes.

    Raises:
        TopooptError: a number is NaN or infinite (a bug of what made the solution).
    """
    try:
        lines = []
        for key, value in solution_document(solution).items():
            if isinstance(value, dict) and key in {"plan", "evaluation", "demand"}:
                inner = ",\n".join(f"  {_dump(name)}: {_dump(item)}" for name, item in value.items())
                lines.append(f" {_dump(key)}: {{\n{inner}\n }}")
            else:
                lines.append(f" {_dump(key)}: {_dump(value)}")
    except ValueError as error:
        raise TopooptError(f"the solution cannot be written: {error}") from error
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_solution(solution: Solution, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all.

    Raises:
        TopooptError: a number is NaN or infinite; WriteError: the file cannot be written.
    """
    write_text_atomically(path, solution_to_json(solution))


def read_solution(path: str | os.PathLike[str]) -> Solution:
    """Read a solution file (JSON).

    What comes back is consistent in itself (indices in range, arrays of equal length); whether the plan is right is for
    the checker to say.

    Raises:
        InputError: everything wrong with the file.
    """
    return build_solution(read_checked(path, SolutionFile, solution_faults, LIMITS))
