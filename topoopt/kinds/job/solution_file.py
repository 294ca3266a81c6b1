"""Solution files: written whole with the same bytes for the same solution, read back as files of unknown origin."""

from __future__ import annotations

import os

from topoopt.core.job_solution import JobSolution
from topoopt.core.units import MIB
from topoopt.files.atomic import write_text_atomically
from topoopt.files.checked_file import read_checked
from topoopt.files.documents import Limits
from topoopt.files.solution_text import solution_text
from topoopt.kinds.job.solution_build import build_solution
from topoopt.kinds.job.solution_checks import solution_faults
from topoopt.kinds.job.solution_document import solution_document
from topoopt.kinds.job.solution_schema import SolutionFile

LIMITS = Limits(json_bytes=256 * MIB, json_nodes=8_000_000)
"""Solutions of large clusters hold long tables of routes."""


def solution_to_json(solution: JobSolution) -> str:
    """JSON text, one line for each top-level key and each of its long tables; equal solutions give equal bytes.

    Raises:
        TopooptError: a number is NaN or infinite (a bug of what made the solution).
    """
    return solution_text(solution_document(solution), nested=("plan", "evaluation", "demand"))


def write_solution(solution: JobSolution, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all.

    Raises:
        TopooptError: a number is NaN or infinite; WriteError: the file cannot be written.
    """
    write_text_atomically(path, solution_to_json(solution))


def read_solution(path: str | os.PathLike[str]) -> JobSolution:
    """Read a solution file (JSON).

    What comes back is consistent in itself (indices in range, arrays of equal length); whether the plan is right is for
    the checker to say.

    Raises:
        InputError: everything wrong with the file.
    """
    return build_solution(read_checked(path, SolutionFile, solution_faults, LIMITS))
