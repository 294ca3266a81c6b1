"""Solution files of jobs.

What is read is consistent in itself (indices in range, arrays of equal length); whether the plan is right is for the
checker to say.
"""

from __future__ import annotations

from topoopt.core.job_solution import JobSolution
from topoopt.core.units import MIB
from topoopt.files.documents import Limits
from topoopt.files.solution_format import SolutionFormat
from topoopt.kinds.job.solution_checks import solution_faults
from topoopt.kinds.job.solution_schema import JobSolutionFile

SOLUTION_FILE: SolutionFormat[JobSolution] = SolutionFormat(
    JobSolutionFile,
    solution_faults,
    nested=("plan", "evaluation", "demand"),
    # Routes of half a million pairs of 4096 servers, thirty hops each, are twenty million values; searches take no more
    # than 24 million hops and two million tasks.
    limits=Limits(json_bytes=256 * MIB, json_nodes=40_000_000),
)
