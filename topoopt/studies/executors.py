"""Executors do many runs: processes here, a dask cluster, or SLURM through submitit, the last two in chunks of runs."""

from __future__ import annotations

import importlib
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from topoopt.core.comparison import StudyRun
from topoopt.core.errors import InputError, Problem, TopooptError
from topoopt.studies.execute import ENVIRONMENT, PROGRAM, ServerDiedError, Store, StudyStop, Worker, execute


@dataclass(frozen=True)
class ExecutorWork:
    """What an executor is given.

    Attributes:
        runs: to do, in order.
        store: where they go.
        jobs: runs at the same time.
        replace: whether they were done before and are done again.
        stop: interrupted when the study is to end: no run begins, those in flight are asked to end, and killed once
            `kill` is set.
        program: `module:function` that does a run; something else than the command line only in tests.
        options: of the executor, such as the address of a dask scheduler.
    """

    runs: Sequence[StudyRun]
    store: Store
    jobs: int
    replace: bool
    stop: StudyStop
    program: str = PROGRAM
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Event:
    """A run has started (`record` is None) or ended."""

    run: StudyRun
    record: dict[str, Any] | None


def local(work: ExecutorWork) -> Iterator[Event]:
    """Threads on this machine, each with a warm process that forks one child a run."""
    waiting: queue.SimpleQueue[StudyRun] = queue.SimpleQueue()
    for run in work.runs:
        waiting.put(run)
    events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()

    def labour() -> None:
        worker = Worker(work.program)
        try:
            while not work.stop.interrupted.is_set():
                try:
                    run = waiting.get_nowait()
                except queue.Empty:
                    break
                events.put(Event(run, None))
                events.put(Event(run, execute(run, work.store, worker, work.stop, replace=work.replace)))
        except (OSError, ServerDiedError) as error:
            work.stop.give_up()
            events.put(error)
        finally:
            worker.close()
            events.put(None)

    threads = [threading.Thread(target=labour) for _ in range(max(1, min(work.jobs, len(work.runs))))]
    for thread in threads:
        thread.start()
    left = len(threads)
    try:
        while left:
            event = events.get()
            if event is None:
                left -= 1
            elif isinstance(event, Event):
                yield event
            else:
                raise event
    finally:
        if left:
            work.stop.give_up()
        for thread in threads:
            thread.join()


def backend_of(
    options: Sequence[tuple[str, str]], name: str, module: str, allowed: Collection[str]
) -> tuple[Any, dict[str, str]]:
    """The module that an executor needs, and the options it is given, looked through.

    Raises:
        InputError: the module is not installed, or options are unknown.
    """
    try:
        backend = importlib.import_module(module)
    except ImportError:
        text = f"the {name} executor needs {module}"
        problem = Problem(text, path="--executor", value=name, allowed=f"pip install 'topoopt[{name}]'")
        raise InputError([problem]) from None
    unknown = [
        Problem("unknown option of the executor", path="--executor-option", value=option, allowed=", ".join(allowed))
        for option, _ in options
        if option not in allowed
    ]
    if unknown:
        raise InputError(unknown)
    return backend, dict(options)


def option_pairs(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Options of an executor as they are typed.

    Raises:
        InputError: some are not KEY=VALUE, or name a key that stands before.
    """
    pairs = [text.partition("=") for text in texts]
    problems = []
    for index, (key, _, value) in enumerate(pairs):
        if not key or not value:
            problems.append(Problem("not an option", path="--executor-option", value=texts[index], allowed="KEY=VALUE"))
        elif key in {before for before, _, _ in pairs[:index]}:
            problems.append(Problem("given twice", path="--executor-option", value=key, allowed="once"))
    if problems:
        raise InputError(problems)
    return tuple((key, value) for key, _, value in pairs)


def default_jobs(memory_mib: int) -> int:
    """Runs side by side: as many as there are cores, and as fit into the memory that is free now."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, (_available_mib() - 512) // max(1, memory_mib)))


def _available_mib() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            fields = dict(line.split(":", 1) for line in stream)
        return int(fields["MemAvailable"].split()[0]) // 1024
    except (OSError, KeyError, ValueError):
        return 1 << 20


MOST_RUNS = 32
"""Runs of a chunk at most: what dies with a machine is done again, what waits cannot be shared out."""


Chunk = tuple[StudyRun, ...]
"""Runs done one after another, somewhere that sees the directory of the study."""

KILL = ".now"
"""Behind the name of a stop file: runs in flight are killed once that file is there."""


class FileEvent(threading.Event):
    """An event that another machine sets by making a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def is_set(self) -> bool:
        """Whether the file is there."""
        return super().is_set() or os.path.exists(self.path)


def tell_stop(stop: StudyStop, path: Path) -> None:
    """Make the files that tell other machines what was asked for here."""
    for event, file in ((stop.interrupted, path), (stop.kill, path.with_name(path.name + KILL))):
        if event.is_set() and not file.exists():
            file.touch()


def new_stop_file(root: Path) -> Path:
    """A name for a stop file in the directory of a study."""
    folder = root / "unfinished"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"stop.{secrets.token_hex(8)}"


def chunks_of(runs: Sequence[StudyRun], number: int, most: int = MOST_RUNS) -> list[Chunk]:
    """Runs dealt out like cards, so that long ones that stand together do not end up together."""
    count = max(1, min(len(runs), max(number, -(-len(runs) // most))))
    return [tuple(runs[start::count]) for start in range(count)]


Records = list[tuple[str, dict[str, Any]]]
"""(identity, record) of runs that are there."""


def do_chunk(root: str, replace: bool, program: str, stop_file: str, runs: Chunk) -> Records:
    """Do the runs of a chunk that are not there yet, until the stop file is there.

    Args:
        root: directory of the study.
        replace, program: as of `ExecutorWork`.
        stop_file: see `tell_stop`.
        runs: what to do.
    """
    store = Store(Path(root))
    stop = StudyStop(interrupted=FileEvent(stop_file), kill=FileEvent(stop_file + KILL))
    worker = Worker(program)
    records = []
    try:
        for run in runs:
            if stop.interrupted.is_set():
                break
            record = None if replace else store.record(run.identity)
            if record is None:
                record = execute(run, store, worker, stop, replace=replace)
            records.append((run.identity, record))
            if record["outcome"] == ENVIRONMENT:
                break
    finally:
        worker.close()
    return records


def follow(
    work: ExecutorWork,
    stop_file: Path,
    chunks: Sequence[Chunk],
    submit: Callable[[Callable[[Chunk], Records], Sequence[Chunk]], list[Any]],
    ended: Callable[[list[Any]], list[Any]],
    result: Callable[[Any], Any],
    tries: int,
    lost: str,
) -> Iterator[Event]:
    """Have chunks done elsewhere, those that are lost again.

    Args:
        work: what an executor is given.
        stop_file: see `tell_stop`.
        chunks: all of its runs.
        submit: has a function called for each of some chunks; gives their handles.
        ended: those of some handles that have ended, after a while.
        result: records of a handle, or why there are none.
        tries: times a chunk is submitted.
        lost: message about `runs` that were lost so many `tries`, for the reason `error`.

    Raises:
        TopooptError: a chunk was lost each time; what was done is kept.
    """
    root = str(work.store.root.absolute())
    task = partial(do_chunk, root, work.replace, work.program, str(stop_file.absolute()))
    by_identity = {run.identity: run for run in work.runs}
    waiting = {handle: (runs, 1) for handle, runs in zip(submit(task, chunks), chunks, strict=True)}
    while waiting:
        tell_stop(work.stop, stop_file)
        for handle in ended(list(waiting)):
            runs, submitted = waiting.pop(handle)
            records = result(handle)
            if isinstance(records, list):
                for identity, record in records:
                    yield Event(by_identity[identity], record)
            elif work.stop.interrupted.is_set():
                continue
            elif submitted < tries:
                waiting[submit(task, [runs])[0]] = (runs, submitted + 1)
            else:
                work.stop.give_up()
                tell_stop(work.stop, stop_file)
                raise TopooptError(lost.format(runs=len(runs), tries=tries, error=records))


def remove(path: Path) -> None:
    """Remove the files of `tell_stop` that are there."""
    for file in (path, path.with_name(path.name + KILL)):
        with suppress(OSError):
            file.unlink()


POLL_S = 0.2
DASK_OPTIONS = ("scheduler",)
DASK_TRIES = 3
"""Times a chunk is sent; dask itself gives it to another worker four times before it counts as one failure."""


def dask(work: ExecutorWork) -> Iterator[Event]:
    """See the module.

    Raises:
        InputError: distributed is not installed, an unknown option, or nobody answers at the address.
        TopooptError: a chunk failed again and again; what was done is kept.
    """
    distributed, options = backend_of(work.options, "dask", "distributed", DASK_OPTIONS)
    stop_file = new_stop_file(work.store.root)

    def submit(task: Callable[[Chunk], Records], chunks: Sequence[Chunk]) -> list[Any]:
        return [client.submit(task, runs, pure=False, retries=DASK_TRIES) for runs in chunks]

    cancelled = False

    def ended(futures: list[Any]) -> list[Any]:
        nonlocal cancelled
        if work.stop.interrupted.is_set() and not cancelled:
            client.cancel([future for future in futures if future.status == "pending"])
            cancelled = True
        try:
            distributed.wait(futures, timeout=POLL_S, return_when="FIRST_COMPLETED")
        except TimeoutError:
            return []
        return [future for future in futures if future.done()]

    def result(future: Any) -> Any:
        return future.result() if future.status == "finished" else future.exception()

    try:
        with client_of(distributed, options.get("scheduler"), work.jobs, work.store.root) as client:
            chunks = chunks_of(work.runs, 2 * work.jobs)
            lost = "dask lost {runs} runs {tries} times ({error}); run again to go on"
            yield from follow(work, stop_file, chunks, submit, ended, result, DASK_TRIES, lost)
    finally:
        remove(stop_file)


def client_of(distributed: Any, address: str | None, jobs: int, folder: Path) -> Any:
    """A client of the scheduler at an address; None: of so many processes here, whose files are in the folder.

    Raises:
        InputError: nobody answers at the address.
    """
    if address is None:
        cluster = distributed.LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            local_directory=str(folder / "unfinished"),
        )
        return distributed.Client(cluster)
    try:
        return distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        text = f"no dask scheduler answers: {error}"
        raise InputError([Problem(text, path="--executor-option scheduler", value=address)]) from None


SLURM_POLL_S = 5.0
SLURM_TRIES = 4
SPARE_MIB = 1024
"""Memory of the process that watches a run, beside the run's own."""

SLURM_OPTIONS = (
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
    submitit, options = backend_of(work.options, "slurm", "submitit", SLURM_OPTIONS)
    cluster = options.pop("cluster", "slurm")
    executor = executor_of(submitit, work.store.root, cluster)
    stop_file = new_stop_file(work.store.root)
    errors = submitit.core.utils

    def submit(task: Callable[[Chunk], Records], chunks: Sequence[Chunk]) -> list[Any]:
        longest_s = max(sum(run.limits.wall_s + 5 for run in runs) for runs in chunks)
        memory_mib = max(run.limits.memory_mib for run in work.runs) + SPARE_MIB
        parameters: dict[str, Any] = {"timeout_min": int(longest_s // 60) + 5, "mem_gb": memory_mib / 1024}
        if cluster == "slurm":
            parameters |= {"slurm_array_parallelism": work.jobs, "cpus_per_task": 1}
            parameters |= {f"slurm_{name}": value for name, value in options.items()}
        executor.update_parameters(**parameters)
        return list(executor.map_array(task, chunks))

    def ended(jobs: list[Any]) -> list[Any]:
        done = [job for job in jobs if job.done()]
        if not done:
            time.sleep(POLL_S if cluster == "local" else SLURM_POLL_S)
        return done

    def result(job: Any) -> Any:
        try:
            return job.result()
        except (errors.UncompletedJobError, errors.FailedJobError) as error:
            return error

    # submitit starts local jobs all at once, so there are just as many chunks as jobs wanted
    number, most = (work.jobs, len(work.runs)) if cluster == "local" else (4 * work.jobs, MOST_RUNS)
    chunks = chunks_of(work.runs, number, most)
    lost = "the cluster lost {runs} runs {tries} times; run again to go on. Last: {error}"
    try:
        yield from follow(work, stop_file, chunks, submit, ended, result, SLURM_TRIES, lost)
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


EXECUTORS: dict[str, Callable[[ExecutorWork], Iterator[Event]]] = {"local": local, "slurm": slurm, "dask": dask}
"""What does all runs of some work and gives events as they come, by the name of `topoopt study run --executor`; it
ends early once the stop of the work is interrupted."""
