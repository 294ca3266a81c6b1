"""Solution files of jobs.

What is read is consistent in itself (indices in range, arrays of equal length); whether the plan is right is for the
checker to say.
"""

from __future__ import annotations

from topoopt.core.job_solution import JobSolution
from topoopt.files.solution_format import SolutionFormat
from topoopt.kinds.job.solution_checks import solution_faults
from topoopt.kinds.job.solution_schema import JobSolutionFile

SOLUTION_FILE: SolutionFormat[JobSolution] = SolutionFormat(
    JobSolutionFile, solution_faults, nested=("plan", "evaluation", "demand")
)
