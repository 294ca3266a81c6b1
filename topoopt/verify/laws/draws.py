"""Draws of a solution that are made again from its seed.

What is drawn is defined by the order of the calls of a generator of numpy (PCG64), whose streams may change from one
version of numpy to the next. A solution that states another version is drawn again all the same: where the draws agree,
nothing rests on what it states.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.solution import Decides, SolutionHead
from topoopt.verify.laws.findings import ViolationLog


def same_numpy(solution: SolutionHead) -> bool:
    """Whether a solution states that it was drawn with the numpy of this check, but for its last number."""
    return _stated(solution).split(".")[:2] == np.__version__.split(".")[:2]


def leave_out_draws(findings: ViolationLog, solution: SolutionHead, what: str, decides: Decides) -> None:
    """Say that draws differ from those made here, as those of another numpy may; `decides`: what rests on them."""
    theirs = _stated(solution) or "of no stated version"
    why = f"drawn with numpy {theirs}; this is {np.__version__}, which draws others"
    findings.leave_out(what, why, decides)


def _stated(solution: SolutionHead) -> str:
    return dict(solution.versions).get("numpy", "")
