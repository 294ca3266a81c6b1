"""Shape of solution files of kind `shared-cluster`. Long tables are rows of lists; comments name their columns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from topoopt.core.arrays import Ints
from topoopt.core.shared_cluster_jobs import JobTable
from topoopt.core.shared_cluster_runs import Stays
from topoopt.core.shared_cluster_solution import NO_JOBS, SharedClusterSolution
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.file_part import ArrayOf, Listed
from topoopt.files.solution_head import Amount, Notes, Sha256, SolutionHeadFile, Text, Versions
from topoopt.kinds.shared_cluster.ranges import ranges_text, servers_of_text
from topoopt.kinds.shared_cluster.schema import MAX_CLASSES, MAX_DRAWN_JOBS, MAX_FABRICS, MAX_JOBS
from topoopt.kinds.shared_cluster.solution_parts import (
    ClassPart,
    ClassPlanPart,
    DrawPart,
    FabricRow,
    JobRow,
    Positive,
    RunPart,
    Server,
    StayRow,
)

OF_ARRIVALS = ("look_ahead", "switching_time_s", "checkpoint_s", "groups", "runs", "jobs", "stays")
OF_JOBS_AT_ONCE = ("time_model", "placement", "rank_order", "fabrics", "rates_gbps", "plans", "draws")


class SharedClusterSolutionFile(SolutionHeadFile):
    """Result of `topoopt solve` on an instance of kind `shared-cluster`.

    The keys from `look_ahead` to `stays` are those of jobs that arrive, from `time_model` to `draws` of jobs at once.
    """

    core = SharedClusterSolution

    kind: Literal["shared-cluster-solution"]
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    servers: int = Field(ge=1, le=MAX_SERVERS)
    degree: int = Field(ge=1, le=64)
    link_gbps: Positive
    contention: Literal["flows", "coinciding", "interleaved"]
    classes: Annotated[Listed[ClassPart], Field(min_length=1, max_length=MAX_CLASSES)]
    look_ahead: bool = False
    switching_time_s: Amount = 0.0
    checkpoint_s: Amount = 0.0
    groups: Annotated[Ints, ArrayOf(Server, np.int64, most=MAX_SERVERS)] = Field(
        default_factory=lambda: np.zeros(0, dtype=np.int64),
        description="group of each server; a shard within a group can always be cut",
    )
    runs: Annotated[Listed[RunPart], Field(max_length=MAX_FABRICS)] = ()
    jobs: Annotated[Listed[JobRow], Field(max_length=MAX_JOBS)] = ()
    stays: Annotated[Listed[StayRow], Field(max_length=10_000_000)] = ()
    time_model: Text = ""
    placement: Text = ""
    rank_order: Text = ""
    fabrics: Annotated[Listed[FabricRow], Field(max_length=MAX_FABRICS)] = ()
    rates_gbps: Annotated[Listed[Positive], Field(max_length=MAX_FABRICS)] = ()
    plans: Annotated[Listed[ClassPlanPart], Field(max_length=MAX_CLASSES * MAX_FABRICS)] = ()
    draws: Annotated[Listed[DrawPart], Field(max_length=MAX_DRAWN_JOBS)] = ()

    @classmethod
    def attributes(cls, value: SharedClusterSolution) -> dict[str, Any]:
        """Jobs are rows, and so are the stays of all runs."""
        jobs = value.jobs
        columns = (jobs.arrival_s, jobs.class_index, jobs.iterations, jobs.iteration_ms)
        rows = tuple(zip(jobs.names, *(each.tolist() for each in columns), strict=True))
        stays = tuple(row for place, run in enumerate(value.runs) for row in _stay_rows(place, run.stays))
        return {**super().attributes(value), "jobs": rows, "stays": stays}

    def arguments(self) -> dict[str, Any]:
        """Rows are the jobs, and the stays of each run."""
        by_run: list[list[Any]] = [[] for _ in self.runs]
        for row in self.stays:
            by_run[row[0]].append(row)
        runs = tuple(run.of_jobs(len(self.jobs), _stays(rows)) for run, rows in zip(self.runs, by_run, strict=True))
        return {**super().arguments(), "runs": runs, "jobs": _job_table(self.jobs)}

    @model_serializer(mode="wrap")
    def _of_one_form(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        absent = OF_ARRIVALS if self.draws else OF_JOBS_AT_ONCE
        return {key: value for key, value in written(self).items() if key not in absent}


def _stay_rows(place: int, stays: Stays) -> list[tuple[Any, ...]]:
    columns = (stays.job, stays.held_from_s, stays.work_from_s, stays.work_to_s, stays.held_to_s)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(place, *row, ranges_text(stays.servers_of(stay))) for stay, row in enumerate(rows)]


def _stays(rows: list[Any]) -> Stays:
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


def _job_table(rows: tuple[Any, ...]) -> JobTable:
    if not rows:
        return NO_JOBS
    names, arrival, index, iterations, times = zip(*rows, strict=True)
    return JobTable(
        tuple(names),
        np.array(arrival, dtype=np.float64),
        np.array(index, dtype=np.int32),
        np.array(iterations, dtype=np.int64),
        np.array(times, dtype=np.float64),
    )
