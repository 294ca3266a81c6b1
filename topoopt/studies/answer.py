"""What a study answers, in one sentence: how many of its runs gave a value, what failed, what is proven."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.drawing.format import counted
from topoopt.studies.report_data import FAILED, REJECTED, Row


def answer(rows: Sequence[Row]) -> str:
    """Runs, failures, verdicts of the checker and proofs of optimality."""
    done = sum(row.get("outcome") == "done" for row in rows)
    failed = sum(row.get("outcome") in FAILED for row in rows)
    rejected = sum(row.get("outcome") == REJECTED for row in rows)
    proven = sum(row.get("status") == "optimal" for row in rows)
    judged = any(row.get("check") is not None for row in rows)
    lost = f", {failed:,} failed or {'is' if failed == 1 else 'are'} missing" if failed else ""
    verdict = f"; the checker rejects {counted(rejected, 'result')}" if rejected else ""
    optimal = f"; {counted(proven, 'result')} {'is' if proven == 1 else 'are'} proven optimal" if judged else ""
    return f"{done:,} of {counted(len(rows), 'run')} gave a value{lost}{verdict}{optimal}."
