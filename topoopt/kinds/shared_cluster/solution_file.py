"""Solution files of shared clusters: the same bytes for the same solution, read back as files of unknown origin."""

from __future__ import annotations

import itertools
import os
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.shared_cluster import Fabric, FabricKind, JobClass, JobTable
from topoopt.core.shared_cluster_solution import Decisions, FabricRun, Metrics, SharedClusterSolution, Stays, Tail
from topoopt.core.units import MIB
from topoopt.files.atomic import write_text_atomically
from topoopt.files.checked_file import read_checked
from topoopt.files.documents import Limits
from topoopt.files.faults import Fault
from topoopt.files.solution_head import head_document, head_of, provenance_document, provenance_of
from topoopt.files.solution_text import solution_text
from topoopt.kinds.shared_cluster.solution_schema import MetricsFile, RunFile, SharedClusterSolutionFile, StayRow

LIMITS = Limits(json_bytes=1024 * MIB, json_nodes=16_000_000)

ROWS = ("classes", "runs", "jobs", "stays")
"""Keys with one line of text for each row."""


def ranges_text(servers: NDArray[np.int64]) -> str:
    """Ascending servers as `0-15,32`."""
    breaks = np.flatnonzero(np.diff(servers) != 1) + 1
    parts = np.split(servers, breaks)
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def servers_of_text(text: str) -> list[int]:
    """Inverse of `ranges_text`; ends beyond any cluster are cut so that no text makes a long list."""
    servers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first[:9]), int((last or first)[:9])
        servers.extend(range(low, min(high, low + 100_000) + 1))
    return servers


def _metrics_document(metrics: Metrics | None) -> dict[str, Any] | None:
    return None if metrics is None else asdict(metrics)


def shared_solution_document(solution: SharedClusterSolution) -> dict[str, Any]:
    """Plain data of a solution; the long tables come last."""
    jobs = solution.jobs
    return {
        **head_document(solution),
        **provenance_document(solution),
        "servers": solution.servers,
        "degree": solution.degree,
        "link_gbps": solution.link_gbps,
        "look_ahead": solution.look_ahead,
        "switching_time_s": solution.switching_time_s,
        "checkpoint_s": solution.checkpoint_s,
        "contention": solution.contention,
        "classes": [
            {
                "name": one.name,
                "servers": one.servers,
                "iteration_ms": list(one.iteration_ms),
                "compute_ms": one.compute_ms,
                "allreduce_bytes": one.allreduce_bytes,
                "all_to_all_bytes": one.all_to_all_bytes,
                "fabric_ms": dict(one.fabric_ms),
                "iterations": one.iterations,
                "duration_s": one.duration_s,
                "interfaces": one.interfaces,
            }
            for one in solution.classes
        ],
        "groups": solution.groups.tolist(),
        "runs": [
            {
                "fabric": {**asdict(run.fabric), "kind": run.fabric.kind.value},
                "queue": run.queue,
                "defragment": run.defragment,
                "simulated_s": run.simulated_s,
                "whole": run.whole,
                "unfinished": np.flatnonzero(~run.finished).tolist(),
                "metrics": _metrics_document(run.metrics),
                **({} if run.decisions is None else {"decisions": asdict(run.decisions)}),
            }
            for run in solution.runs
        ],
        "jobs": [
            list(row)
            for row in zip(
                jobs.names,
                jobs.arrival_s.tolist(),
                jobs.class_index.tolist(),
                jobs.iterations.tolist(),
                jobs.iteration_ms.tolist(),
                strict=True,
            )
        ],
        "stays": [row for place, run in enumerate(solution.runs) for row in _stay_rows(place, run.stays)],
    }


def _stay_rows(place: int, stays: Stays) -> list[list[Any]]:
    columns = (stays.job, stays.held_from_s, stays.work_from_s, stays.work_to_s, stays.held_to_s)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [[place, *row, ranges_text(stays.servers_of(stay))] for stay, row in enumerate(rows)]


def write_shared_solution(solution: SharedClusterSolution, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all.

    Raises:
        TopooptError: a number is NaN or infinite; WriteError: the file cannot be written.
    """
    write_text_atomically(path, solution_text(shared_solution_document(solution), rows=ROWS))


def _faults(file: SharedClusterSolutionFile) -> list[Fault]:
    """What the schema cannot state: indices in range, tables of fitting length."""
    faults = []
    n, jobs = file.servers, len(file.jobs)
    if len(file.groups) != n:
        faults.append(Fault(("groups",), "wrong number of groups", str(len(file.groups)), f"{n}, one a server"))
    for index, row in enumerate(file.jobs):
        if row[2] >= len(file.classes):
            faults.append(Fault(("jobs", index), "no such class", str(row[2]), f"0 to {len(file.classes) - 1}"))
    for index, run in enumerate(file.runs):
        if any(job >= jobs for job in run.unfinished):
            faults.append(Fault(("runs", index, "unfinished"), "no such job", allowed=f"0 to {jobs - 1}"))
    last = (-1, -1.0)
    for index, stay in enumerate(file.stays):
        if stay[0] >= len(file.runs) or stay[1] >= jobs:
            faults.append(Fault(("stays", index), "no such run or job", f"{stay[0]}, {stay[1]}"))
        if (stay[0], stay[2]) < last:
            faults.append(Fault(("stays", index), "out of order", allowed="sorted by run, then by held from"))
        last = max(last, (stay[0], stay[2]))
        servers = servers_of_text(stay[6])
        if not servers or max(servers) >= n or len(servers) > n:
            faults.append(Fault(("stays", index), "no such servers", stay[6][:80], f"0 to {n - 1}"))
        elif any(b <= a for a, b in itertools.pairwise(servers)):
            faults.append(Fault(("stays", index), "servers out of order", stay[6][:80], "ascending"))
    return faults


def _stays(rows: list[StayRow]) -> Stays:
    lists = [servers_of_text(row[6]) for row in rows]
    times = np.array([row[2:6] for row in rows], dtype=np.float64).reshape(-1, 4)
    return Stays(
        job=np.array([row[1] for row in rows], dtype=np.int64),
        held_from_s=times[:, 0],
        work_from_s=times[:, 1],
        work_to_s=times[:, 2],
        held_to_s=times[:, 3],
        low=np.cumsum([0, *map(len, lists)], dtype=np.int64),
        servers=np.array([server for one in lists for server in one], dtype=np.int64),
    )


def _metrics(file: MetricsFile | None) -> Metrics | None:
    if file is None:
        return None
    fields = file.model_dump()
    tails = {name: Tail(**fields[name]) for name in ("iteration_ms", "waiting_s", "completion_s", "slowdown")}
    return Metrics(**{**fields, **tails})


def _run(file: RunFile, stays: list[StayRow], jobs: int) -> FabricRun:
    finished = np.ones(jobs, dtype=bool)
    finished[file.unfinished] = False
    fields = file.fabric.model_dump()
    fabric = Fabric(**{**fields, "kind": FabricKind(file.fabric.kind)})
    return FabricRun(
        fabric,
        file.queue,
        file.defragment,
        file.simulated_s,
        file.whole,
        finished,
        _stays(stays),
        _metrics(file.metrics),
        None if file.decisions is None else Decisions(**file.decisions.model_dump()),
    )


def read_shared_solution(path: str | os.PathLike[str]) -> SharedClusterSolution:
    """Read a solution file (JSON) of a shared cluster; whether it is right is for the checker to say.

    Raises:
        InputError: everything wrong with the file.
    """
    file = read_checked(path, SharedClusterSolutionFile, _faults, LIMITS)
    by_run: list[list[StayRow]] = [[] for _ in file.runs]
    for row in file.stays:
        by_run[row[0]].append(row)
    names, arrival, index, iterations, times = zip(*file.jobs, strict=True)
    return SharedClusterSolution(
        **head_of(file),
        **provenance_of(file),
        servers=file.servers,
        degree=file.degree,
        link_gbps=file.link_gbps,
        look_ahead=file.look_ahead,
        switching_time_s=file.switching_time_s,
        checkpoint_s=file.checkpoint_s,
        contention=file.contention,
        classes=tuple(
            JobClass(
                **{
                    **one.model_dump(),
                    "iteration_ms": tuple(one.iteration_ms),
                    "fabric_ms": tuple(sorted(one.fabric_ms.items())),
                }
            )
            for one in file.classes
        ),
        jobs=JobTable(
            tuple(names),
            np.array(arrival, dtype=np.float64),
            np.array(index, dtype=np.int32),
            np.array(iterations, dtype=np.int64),
            np.array(times, dtype=np.float64),
        ),
        groups=np.array(file.groups, dtype=np.int64),
        runs=tuple(_run(one, rows, len(file.jobs)) for one, rows in zip(file.runs, by_run, strict=True)),
    )
