"""Draws of a solution that can be made again: from its seed, with the numpy that it was made with.

What is drawn is defined by the order of the calls of a generator of numpy (PCG64), whose streams may change from one
version of numpy to the next.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.solution import SolutionHead
from topoopt.verify.laws.findings import ViolationLog


def same_numpy(findings: ViolationLog, solution: SolutionHead, what: str) -> bool:
    """Whether draws can be made again here; else that they are left out is noted."""
    theirs, ours = dict(solution.versions).get("numpy", ""), np.__version__
    if theirs.split(".")[:2] == ours.split(".")[:2]:
        return True
    findings.leave_out(what, f"drawn with numpy {theirs or 'of no stated version'}, this is {ours}")
    return False
