"""Solution files of shared clusters, and the statistics of jobs at once as CSV."""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import asdict

from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.units import MIB
from topoopt.files.documents import Limits
from topoopt.files.faults import Fault
from topoopt.files.solution_format import SolutionFormat
from topoopt.kinds.shared_cluster.ranges import servers_of_text
from topoopt.kinds.shared_cluster.solution_schema import OF_ARRIVALS, OF_JOBS_AT_ONCE, SharedClusterSolutionFile

CSV_COLUMNS = (
    "fabric", "load", "jobs", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "largest_ms",
    "over_alone", "over_first", "p99_over_first",
)  # fmt: skip


def statistics_csv(solution: SharedClusterSolution) -> str:
    """The statistics, a row for each load and fabric."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in solution.statistics:
        figures = asdict(row)
        tail = {f"{name}_ms": value for name, value in figures.pop("iteration_ms").items()}
        writer.writerow({**figures, **tail})
    return stream.getvalue()


def _faults(file: SharedClusterSolutionFile) -> list[Fault]:
    """What the schema cannot state: the keys of one form, indices in range, tables of fitting length."""
    at_once = bool(file.draws) or file.contention == "flows"
    needed, absent = (OF_JOBS_AT_ONCE, OF_ARRIVALS) if at_once else (OF_ARRIVALS, OF_JOBS_AT_ONCE)
    faults = [Fault((key,), "missing") for key in needed if key not in file.model_fields_set]
    faults += [
        Fault((key,), "has no place beside draws" if at_once else "has no place without draws")
        for key in absent
        if key in file.model_fields_set
    ]
    for key in ("draws",) if at_once else ("runs", "jobs"):
        if not getattr(file, key) and key in file.model_fields_set:
            faults.append(Fault((key,), "empty", allowed="one row at least"))
    return faults or (_at_once_faults(file) if at_once else _arrival_faults(file))


def _at_once_faults(file: SharedClusterSolutionFile) -> list[Fault]:
    faults = []
    classes, fabrics = len(file.classes), len(file.fabrics)
    for place, run in enumerate(file.draws):
        if any(index >= classes for index in run.classes):
            faults.append(Fault(("draws", place, "classes"), "no such class", allowed=f"0 to {classes - 1}"))
        lengths = {len(run.servers), *(len(times) for times in run.times_ms), len(run.shard_ms or run.classes)}
        if len(run.times_ms) != fabrics or lengths != {len(run.classes)}:
            faults.append(Fault(("draws", place), "not a class, servers and a time on every fabric for each job"))
    if len(file.rates_gbps) != (0 if file.contention == "flows" else fabrics):
        faults.append(Fault(("rates_gbps",), "not a rate for every fabric where contention has a formula"))
    due = [(name, one.name) for name, _ in file.fabrics for one in file.classes]
    if [(row.fabric, row.job_class) for row in file.plans] != due:
        faults.append(Fault(("plans",), "not one for every fabric and class, in their order"))
    return faults


def _arrival_faults(file: SharedClusterSolutionFile) -> list[Fault]:
    faults = []
    n, jobs = file.servers, len(file.jobs)
    if len(file.groups) != n:
        faults.append(Fault(("groups",), "wrong number of groups", str(len(file.groups)), f"{n}, one a server"))
    for index, row in enumerate(file.jobs):
        if row[2] >= len(file.classes):
            faults.append(Fault(("jobs", index), "no such class", str(row[2]), f"0 to {len(file.classes) - 1}"))
    for index, one in enumerate(file.classes):
        if not one.iteration_ms:
            faults.append(Fault(("classes", index, "iteration_ms"), "no time", allowed="one at least"))
    for index, run in enumerate(file.runs):
        if (run.unfinished >= jobs).any():
            faults.append(Fault(("runs", index, "unfinished"), "no such job", allowed=f"0 to {jobs - 1}"))
    last = (-1, -1.0, -1)
    for index, stay in enumerate(file.stays):
        if stay[0] >= len(file.runs) or stay[1] >= jobs:
            faults.append(Fault(("stays", index), "no such run or job", f"{stay[0]}, {stay[1]}"))
        place = (stay[0], stay[2], stay[1])
        if place < last:
            faults.append(Fault(("stays", index), "out of order", allowed="sorted by run, held from and job"))
        last = max(last, place)
        servers = servers_of_text(stay[6])
        if not servers or max(servers) >= n or len(servers) > n:
            faults.append(Fault(("stays", index), "no such servers", stay[6][:80], f"0 to {n - 1}"))
        elif any(b <= a for a, b in itertools.pairwise(servers)):
            faults.append(Fault(("stays", index), "servers out of order", stay[6][:80], "ascending"))
    started = {stay[:2] for stay in file.stays}
    for index, run in enumerate(file.runs):
        ended = set(range(jobs)) - set(run.unfinished.tolist())
        idle = min((job for job in ended if (index, job) not in started), default=None)
        if idle is not None:
            faults.append(Fault(("runs", index, "unfinished"), f"without job {idle}, which has no stay"))
    return faults


SOLUTION_FILE: SolutionFormat[SharedClusterSolution] = SolutionFormat(
    SharedClusterSolutionFile,
    _faults,
    rows=("classes", "runs", "jobs", "stays", "fabrics", "plans", "draws"),
    limits=Limits(json_bytes=1024 * MIB, json_nodes=16_000_000),
)
