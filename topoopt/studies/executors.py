"""Independent tasks go to an executor: processes here, a dask cluster, SLURM through submitit, or any other.

An executor is whatever is a `concurrent.futures.Executor`. Studies hand out their runs and parallel searches their
parts by one loop (`solvers.processes.completed`), which gives lost tasks out again. The machines have to see the folder
given under the same name, as it holds the file that tells them to end, and have topoopt installed.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from solvers.processes import POLL_S, TRIES, Crew, Done, DoTask, Gather, Tell, completed, processes
from solvers.stop import Stop
from topoopt.core.errors import InputError, Problem, TopooptError, raise_any

Opener = Callable[[Path, int, int], AbstractContextManager[Executor]]
"""(folder for files, minutes and MiB that a task may take) -> the executor, until the block ends."""

SLURM_POLL_S = 5.0
KILL = ".now"
"""Behind the name of a stop file: what is under way ends at once when that file is there."""

SLURM_OPTIONS = (
    "cluster", "partition", "account", "qos", "constraint", "exclude", "nodelist", "gres", "comment", "reservation",
)  # fmt: skip
EXECUTORS = {"local": ("", ()), "slurm": ("submitit", SLURM_OPTIONS), "dask": ("distributed", ("scheduler",))}
"""By the name of `--executor`: the module that is needed, and the options that are taken."""

WITHOUT_LIMIT_MIN = 24 * 60
"""Minutes requested of SLURM for a part of a search that has no time limit."""

PART_MIB = 4096
"""Requested of SLURM for a part of a search: those of 1024 servers take less than 2 GiB."""


def opener_of(name: str, options: Mapping[str, str], jobs: int) -> Opener | None:
    """What opens an executor; None: processes of this machine, which `solvers.processes` has.

    Args:
        name: in EXECUTORS; or `module:callable`, which is called with `max_workers` and the options.
        options: of it.
        jobs: tasks at the same time.

    Raises:
        InputError: no such executor or options, or the module that it needs is missing.
    """
    if ":" in name:
        return partial(_other, _callable(name), name, options, jobs)
    if name not in EXECUTORS:
        allowed = f"{', '.join(EXECUTORS)} or MODULE:CALLABLE"
        raise InputError([Problem("no such executor", path="--executor", value=name, allowed=allowed)])
    module, accepted = EXECUTORS[name]
    try:
        backend: Any = importlib.import_module(module) if module else None
    except ImportError:
        text = f"the {name} executor needs {module}"
        problem = Problem(text, path="--executor", value=name, allowed=f"pip install 'topoopt[{name}]'")
        raise InputError([problem]) from None
    unknown = [
        Problem("unknown option of the executor", path="--executor-option", value=key, allowed=", ".join(accepted))
        for key in options
        if key not in accepted
    ]
    raise_any(unknown)
    if name == "local":
        return None
    if name == "dask":
        return partial(_dask, backend, options.get("scheduler"), jobs)
    return lambda folder, minutes, memory_mib: SlurmExecutor(
        backend, options, jobs, folder, {"timeout_min": minutes, "mem_gb": memory_mib / 1024}
    )


def _callable(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        factory: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError([Problem(f"no such executor: {error}", path="--executor", value=name)]) from None
    return factory


@contextmanager
def _other(
    factory: Callable[..., Any],
    name: str,
    options: Mapping[str, str],
    jobs: int,
    folder: Path,
    minutes: int,
    memory_mib: int,
) -> Iterator[Executor]:
    """What a user names."""
    try:
        executor = factory(max_workers=jobs, **options)
    except TypeError as error:
        raise InputError([Problem(f"the executor does not start: {error}", path="--executor", value=name)]) from None
    if not isinstance(executor, Executor):
        allowed = "what makes a concurrent.futures.Executor"
        raise InputError([Problem("this is no executor", path="--executor", value=name, allowed=allowed)])
    with executor:
        yield executor


@contextmanager
def _dask(
    distributed: Any, address: str | None, jobs: int, folder: Path, minutes: int, memory_mib: int
) -> Iterator[Executor]:
    """Workers of the scheduler at an address; None: so many processes here, whose files are in the folder."""
    try:
        cluster: Any = address or distributed.LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            local_directory=str(folder),
        )
        client = distributed.Client(cluster, timeout="10s")
    except (OSError, ValueError) as error:
        text = f"no dask scheduler answers: {error}"
        raise InputError([Problem(text, path="--executor-option scheduler", value=address)]) from None
    try:
        yield client.get_executor(pure=False, retries=TRIES)
    finally:
        client.close()
        if address is None:
            cluster.close()


class SlurmExecutor(ThreadPoolExecutor):
    """Each thread submits a job of submitit and waits for it."""

    def __init__(
        self, submitit: Any, options: Mapping[str, str], jobs: int, folder: Path, limits: Mapping[str, Any]
    ) -> None:
        super().__init__(jobs)
        cluster = options.get("cluster", "slurm")
        try:
            self._backend = submitit.AutoExecutor(folder=str(folder / "slurm"), cluster=cluster)
        except (RuntimeError, ValueError) as error:
            text, path = f"no such cluster here: {error}", "--executor-option cluster"
            raise InputError([Problem(text, path=path, value=cluster, allowed="slurm, local")]) from None
        self._poll_s = POLL_S if cluster == "local" else SLURM_POLL_S
        self._lock, self._over = threading.Lock(), threading.Event()
        named = {f"slurm_{key}": value for key, value in options.items() if key != "cluster"}
        self._backend.update_parameters(**limits, **({} if cluster == "local" else {"cpus_per_task": 1, **named}))

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """See `concurrent.futures`."""
        return super().submit(self._through, partial(function, *arguments, **named))

    def _through(self, function: Callable[[], Any]) -> Any:
        with self._lock:
            job = self._backend.submit(function)
        while not self._over.wait(self._poll_s):
            with self._lock:
                done = job.done()
            if done:
                return job.result()
        job.cancel()
        raise CancelledError

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `concurrent.futures`; jobs that have not ended are cancelled."""
        self._over.set()
        super().shutdown(wait, cancel_futures=cancel_futures)


@contextmanager
def scratch_folder(parent: Path, owner: int | None = None) -> Iterator[Path]:
    """A folder of a process, this one or `owner`, gone afterwards; so is its parent, if it was made for it."""
    made = not parent.exists()
    folder = parent.absolute() / f"{socket.gethostname()}.{owner or os.getpid()}.{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if made:
            with suppress(OSError):
                parent.rmdir()


def end_by_file(path: Path, now: bool) -> None:
    """Tell other machines to end, by files; where the disk is full they come to their own end."""
    for file in (path, path.with_name(path.name + KILL)) if now else (path,):
        if not file.exists():
            with suppress(OSError):
                file.touch()


@contextmanager
def stop_by_file(path: str) -> Iterator[Stop]:
    """What `end_by_file` said elsewhere, while the block runs."""
    stop, over = Stop(), threading.Event()
    events = {path: stop.interrupted, path + KILL: stop.second_interrupt}

    def watch() -> None:
        while not over.wait(POLL_S):
            for file, event in events.items():
                if os.path.exists(file):
                    event.set()

    for file, event in events.items():
        if os.path.exists(file):
            event.set()
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield stop
    finally:
        over.set()


def run_part(begun: bytes, stop_file: str, task: tuple[Any, float | None]) -> Any:
    """Do a part of a search, here.

    Args:
        begun: pickle of (begin, arguments).
        stop_file: the search is to end once this file is there.
        task: for what `begin` makes, and the seconds of the limit left; None: no limit.
    """
    with stop_by_file(stop_file) as stop:
        if task[1] is not None:
            stop.deadline = time.monotonic() + task[1]
        begin, arguments = pickle.loads(begun)
        return begin(stop, *arguments)(task[0], lambda *_: None)  # what it tells comes with its result


@dataclass(frozen=True)
class Elsewhere:
    """Who does tasks by an executor; what they tell comes with their results."""

    executor: Executor
    function: Callable[[tuple[Any, float | None]], Any]
    stop: Stop
    messages: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)

    def submit(self, task: Any) -> Future[Any]:
        """See `solvers.processes.Hands`."""
        return self.executor.submit(self.function, (task, self.stop.remaining_s()))

    def lost(self, error: BaseException) -> bool:
        """See `solvers.processes.Hands`."""
        return not isinstance(error, TopooptError)


def gather_of(
    name: str, options: Mapping[str, str], jobs: int, folder: Path, limits: tuple[int, int] | None = None, **local: Any
) -> Gather:
    """Who does the parts of one search or the runs of a study; results do not depend on where they are found.

    Args:
        name, options, jobs: see `opener_of`.
        folder: seen by all machines.
        limits: minutes and MiB that a task may take; None: those of a part of a search.
        local: see `solvers.processes.processes`.

    Raises:
        InputError: see `opener_of`.
    """
    opener = opener_of(name, options, jobs)
    if opener is None:
        return processes(jobs, **local)

    @contextmanager
    def gathered(begin: Callable[..., DoTask], arguments: tuple[Any, ...], stop: Stop) -> Iterator[Crew]:
        with scratch_folder(folder) as scratch:
            stop_file = scratch / "stop"
            remaining_s = stop.remaining_s()
            minutes = WITHOUT_LIMIT_MIN if remaining_s is None else int(remaining_s // 60) + 5
            function = partial(run_part, pickle.dumps((begin, arguments)), str(stop_file))

            @contextmanager
            def opened() -> Iterator[Elsewhere]:
                with opener(scratch, *(limits or (minutes, PART_MIB))) as executor:
                    yield Elsewhere(executor, function, stop)

            def crew(tasks: Iterable[Any], notify: Tell) -> Iterator[Done]:
                return completed(opened, tasks, jobs, stop, partial(end_by_file, stop_file), notify=notify)

            yield crew

    return gathered
