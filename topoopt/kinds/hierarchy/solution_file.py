"""Solution files of hierarchical networks."""

from __future__ import annotations

from topoopt.core.hierarchy_solution import HierarchicalSolution
from topoopt.files.faults import Fault
from topoopt.files.solution_format import SolutionFormat
from topoopt.kinds.hierarchy.solution_schema import HierarchicalSolutionFile


def _faults(file: HierarchicalSolutionFile) -> list[Fault]:
    """What the schema cannot state: one entry for each dimension."""
    count = len(file.dimensions)
    rows = {
        "blocks": len(file.blocks),
        "sizes": len(file.sizes),
        "bandwidth_gbytes_per_s": len(file.bandwidth_gbytes_per_s),
        "gain_ns": len(file.gain_ns),
        "marginal_ns": count if file.marginal_ns is None else len(file.marginal_ns),
    }
    still = [Fault(("jobs",), "no job takes any time")] if not any(job.time_ns for job in file.jobs) else []
    return (
        still
        + [
            Fault((key,), "not one entry for each dimension", str(got), str(count))
            for key, got in rows.items()
            if got != count
        ]
        + [
            Fault((key, index), "not one entry for each dimension", str(got), str(count))
            for key, lengths in (
                ("collectives", [len(one.times_ns) for one in file.collectives]),
                ("pareto", [len(one.bandwidth_gbytes_per_s) for one in file.pareto]),
            )
            for index, got in enumerate(lengths)
            if got != count
        ]
    )


SOLUTION_FILE: SolutionFormat[HierarchicalSolution] = SolutionFormat(
    HierarchicalSolutionFile, _faults, rows=("jobs", "collectives", "pareto", "proofs")
)
