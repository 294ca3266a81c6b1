"""What proofs of runs of steps amount to for all steps: the cheapest way to part them into runs, stalls included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.regional_circuits_solution import StepsProof


def least_of_runs(problem: RegionalCircuitsProblem, proofs: Sequence[StepsProof]) -> float:
    """Seconds that no circuits better, by runs over which circuits stay, from the last step back."""
    steps = len(problem.demands)
    known = {(proof.first, proof.last): proof.bound_s for proof in proofs}
    least = np.zeros((steps + 1, steps + 1))  # of the steps from one to before another, on circuits that stay
    for begin in range(steps - 1, -1, -1):
        for end in range(begin + 1, steps + 1):
            inner = least[begin, begin + 1 : end] + least[begin + 1 : end, end]
            least[begin, end] = max(known.get((begin, end - 1), 0.0), float(inner.max(initial=0.0)))
    after = np.zeros(steps + 1)
    for begin in range(steps - 1, -1, -1):
        anew = [0.0 if end == steps else problem.stalls_s[end] for end in range(begin + 1, steps + 1)]
        after[begin] = float((least[begin, begin + 1 :] + anew + after[begin + 1 :]).min())
    return float(after[0])
