"""Solution files of hierarchical networks: the same bytes for the same solution, read back as from strangers."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from topoopt.core.hierarchy_solution import (
    BandwidthCertificate,
    CollectiveTime,
    DesignProof,
    GroupShare,
    HierarchicalSolution,
    JobTime,
    ParetoPoint,
    PathWeight,
)
from topoopt.core.hierarchy_workload import Collective
from topoopt.core.units import MIB
from topoopt.files.atomic import write_text_atomically
from topoopt.files.checked_file import read_checked
from topoopt.files.documents import Limits
from topoopt.files.faults import Fault
from topoopt.files.solution_head import head_document, head_of, provenance_document, provenance_of
from topoopt.files.solution_text import solution_text
from topoopt.kinds.hierarchy.solution_schema import CertificateFile, HierarchicalSolutionFile

LIMITS = Limits(json_bytes=256 * MIB, json_nodes=16_000_000)

TABLES = ("jobs", "collectives", "pareto", "proofs")
"""Keys whose rows stand on lines of their own."""


def _certificate(one: BandwidthCertificate | None) -> dict[str, Any] | None:
    return None if one is None else {**asdict(one), "prices": dict(one.prices)}


def hierarchical_solution_document(solution: HierarchicalSolution) -> dict[str, Any]:
    """Plain data of a solution; the long tables come last."""
    plain = asdict(solution)
    plain["speedup_over_equal"] = solution.speedup_over_equal
    plain["perf_per_cost_gain"] = solution.perf_per_cost_gain
    plain["pareto"] = [{**asdict(one), "certificate": _certificate(one.certificate)} for one in solution.pareto]
    plain["proofs"] = [{**asdict(one), "certificate": _certificate(one.certificate)} for one in solution.proofs]
    head, provenance = head_document(solution), provenance_document(solution)
    own = [key for key in HierarchicalSolutionFile.model_fields if not (key in head or key in provenance)]
    figures = {key: plain[key] for key in own if key not in TABLES}
    return {**head, **figures, **provenance, **{key: plain[key] for key in TABLES}}


def hierarchical_solution_to_json(solution: HierarchicalSolution) -> str:
    """JSON text, one line for each top-level key and each row of the long tables.

    Raises:
        TopooptError: a number is NaN or infinite (a bug of what made the solution).
    """
    return solution_text(hierarchical_solution_document(solution), rows=TABLES)


def write_hierarchical_solution(solution: HierarchicalSolution, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all.

    Raises:
        TopooptError: a number is NaN or infinite; WriteError: the file cannot be written.
    """
    write_text_atomically(path, hierarchical_solution_to_json(solution))


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
    return [
        Fault((key,), "not one entry for each dimension", str(got), str(count))
        for key, got in rows.items()
        if got != count
    ] + [
        Fault((key, index), "not one entry for each dimension", str(got), str(count))
        for key, lengths in (
            ("collectives", [len(one.times_ns) for one in file.collectives]),
            ("pareto", [len(one.bandwidth_gbytes_per_s) for one in file.pareto]),
        )
        for index, got in enumerate(lengths)
        if got != count
    ]


def _read_certificate(file: CertificateFile) -> BandwidthCertificate:
    return BandwidthCertificate(
        paths=tuple(PathWeight(one.job, one.weight, tuple(one.steps)) for one in file.paths),
        shares=tuple(
            GroupShare(one.job, one.communicator, Collective(one.collective), tuple(one.bytes_by_dimension))
            for one in file.shares
        ),
        prices=tuple(file.prices.items()),
    )


def read_hierarchical_solution(path: str | os.PathLike[str]) -> HierarchicalSolution:
    """Read a solution file (JSON); whether it is right is for the checker to say.

    Raises:
        InputError: everything wrong with the file.
    """
    file = read_checked(path, HierarchicalSolutionFile, _faults, LIMITS)
    return HierarchicalSolution(
        **head_of(file),
        **provenance_of(file),
        design=file.design,
        design_name=file.design_name,
        designs=file.designs,
        dimensions=tuple(file.dimensions),
        blocks=tuple(file.blocks),
        sizes=tuple(file.sizes),
        bandwidth_gbytes_per_s=tuple(file.bandwidth_gbytes_per_s),
        time_ns=file.time_ns,
        cost_usd=file.cost_usd,
        equal_time_ns=file.equal_time_ns,
        equal_cost_usd=file.equal_cost_usd,
        jobs=tuple(JobTime(**one.model_dump()) for one in file.jobs),
        collectives=tuple(
            CollectiveTime(
                one.job,
                one.communicator,
                Collective(one.collective),
                one.size_bytes,
                one.time_ns,
                tuple(one.times_ns),
                tuple(one.bound_by),
            )
            for one in file.collectives
        ),
        gain_ns=tuple(file.gain_ns),
        marginal_ns=None if file.marginal_ns is None else tuple(file.marginal_ns),
        proofs=tuple(DesignProof(one.design, _read_certificate(one.certificate), one.too_slow) for one in file.proofs),
        pareto=tuple(
            ParetoPoint(
                one.limit_ns,
                one.time_ns,
                one.cost_usd,
                tuple(one.bandwidth_gbytes_per_s),
                one.cost_bound_usd,
                None if one.certificate is None else _read_certificate(one.certificate),
            )
            for one in file.pareto
        ),
    )
