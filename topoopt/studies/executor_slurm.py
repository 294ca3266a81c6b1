"""Runs on a SLURM cluster through submitit: one array, a chunk of runs a task.

Options: `partition`, `account`, `qos`, `constraint` and so on as of sbatch; `cluster=local` uses processes on this
machine instead. Job files stay in the directory of the study. A chunk that is preempted, runs out of time or is lost
is submitted again, and goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from topoopt.core.errors import InputError, Problem, TopooptError
from topoopt.studies.chunks import Chunk, chunks_of, do_chunk, new_stop_file, remove, tell_stop
from topoopt.studies.executors import Event, ExecutorWork, backend_of

POLL_S = 0.2
SLURM_POLL_S = 5.0
TRIES = 4
SPARE_MIB = 1024
"""Memory of the process that watches a run, beside the run's own."""

OPTIONS = (
    "cluster",
    "partition",
    "account",
    "qos",
    "constraint",
    "exclude",
    "nodelist",
    "gres",
    "comment",
    "reservation",
)


def slurm(work: ExecutorWork) -> Iterator[Event]:
    """See the module.

    Raises:
        InputError: submitit is not installed, an unknown option, or no sbatch here.
        TopooptError: a chunk failed again and again; what was done is kept.
    """
    submitit, options = backend_of(work.options, "slurm", "submitit", OPTIONS)
    cluster = options.pop("cluster", "slurm")
    executor = executor_of(submitit, work.store.root, cluster)
    stop_file = new_stop_file(work.store.root)
    try:
        yield from _Array(submitit, executor, cluster, options, work, str(stop_file.absolute())).follow()
    finally:
        remove(stop_file)


def executor_of(submitit: Any, folder: Path, cluster: str) -> Any:
    """What submits jobs, whose files are in the folder.

    Raises:
        InputError: no such cluster.
    """
    try:
        return submitit.AutoExecutor(folder=str(folder / "slurm"), cluster=cluster)
    except (RuntimeError, ValueError) as error:
        text = f"no such cluster here: {error}"
        raise InputError(
            [Problem(text, path="--executor-option cluster", value=cluster, allowed="slurm, local")]
        ) from None


class _Array:
    """Chunks submitted as arrays of jobs, lost ones again."""

    def __init__(
        self, submitit: Any, executor: Any, cluster: str, options: dict[str, str], work: ExecutorWork, stop_file: str
    ) -> None:
        self.submitit, self.executor, self.cluster = submitit, executor, cluster
        self.options, self.work, self.stop_file = options, work, stop_file

    def submit(self, chunks: list[tuple[Any, ...]]) -> list[Any]:
        work = self.work
        longest_s = max(sum(run.limits.wall_s + 5 for run in runs) for runs in chunks)
        memory_mib = max(run.limits.memory_mib for run in work.runs) + SPARE_MIB
        parameters: dict[str, Any] = {"timeout_min": int(longest_s // 60) + 5, "mem_gb": memory_mib / 1024}
        if self.cluster == "slurm":
            parameters |= {"slurm_array_parallelism": work.jobs, "cpus_per_task": 1}
            parameters |= {f"slurm_{name}": value for name, value in self.options.items()}
        self.executor.update_parameters(**parameters)
        tasks = [
            Chunk(runs, str(work.store.root.absolute()), work.replace, work.program, self.stop_file) for runs in chunks
        ]
        return list(self.executor.map_array(do_chunk, tasks))

    def follow(self) -> Iterator[Event]:
        work = self.work
        local = self.cluster == "local"
        by_identity = {run.identity: run for run in work.runs}
        # submitit starts local jobs all at once, so there are just as many chunks as jobs wanted
        chunks = chunks_of(work.runs, work.jobs, len(work.runs)) if local else chunks_of(work.runs, 4 * work.jobs)
        waiting = {job: (runs, 1) for job, runs in zip(self.submit(chunks), chunks, strict=True)}
        while waiting:
            tell_stop(work.stop, Path(self.stop_file))
            ended = [job for job in waiting if job.done()]
            for job in ended:
                runs, tries = waiting.pop(job)
                try:
                    records = job.result()
                except (self.submitit.core.utils.UncompletedJobError, self.submitit.core.utils.FailedJobError) as error:
                    if work.stop.interrupted.is_set():
                        continue
                    if tries >= TRIES:
                        work.stop.give_up()
                        text = f"the cluster lost {len(runs)} runs {TRIES} times; run again to go on. Last: {error}"
                        raise TopooptError(text) from None
                    waiting[self.submit([runs])[0]] = (runs, tries + 1)
                    continue
                for identity, record in records:
                    yield Event(by_identity[identity], record)
            if waiting and not ended:
                time.sleep(POLL_S if local else SLURM_POLL_S)
