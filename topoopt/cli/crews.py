"""The independent parts of one search on the machines of a dask or SLURM cluster (`topoopt solve --executor`).

The machines have to see the folder given under the same name, as it holds the file that tells them to end; and have
topoopt installed. What a part finds does not depend on where it is found, so the plan is that of one process.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from solvers.processes import Crew, DoTask, Gather, Tell
from solvers.stop import Stop
from topoopt.core.errors import InputError, MachineError, Problem, TopooptError
from topoopt.studies.executors import (
    DASK_OPTIONS,
    SLURM_OPTIONS,
    FileEvent,
    backend_of,
    client_of,
    executor_of,
    new_stop_file,
)

POLL_S = 0.2
SLURM_POLL_S = 2.0

WITHOUT_LIMIT_MIN = 24 * 60
"""Minutes asked of SLURM for a part of a search that has no time limit."""

MEMORY_GB = 4
"""Asked of SLURM for a part: searches of 1024 servers take less than 2."""


def run_errand(begun: bytes, task: Any, left_s: float | None, stop_file: str) -> Any:
    """Do a part of a search, here.

    Args:
        begun: pickle of (begin, arguments).
        task: for what `begin` makes.
        left_s: seconds of the limit left; None: no limit.
        stop_file: the search is to end once this file is there.
    """
    stop = Stop(interrupted=FileEvent(stop_file))
    if left_s is not None:
        stop.deadline = time.monotonic() + left_s
    begin, arguments = pickle.loads(begun)
    return begin(stop, *arguments)(task, _silent)


def _silent(*said: object) -> None:
    """What a part says comes with its result."""


class _Dask:
    poll_s = POLL_S

    def __init__(self, distributed: Any, chosen: dict[str, str], jobs: int, folder: Path) -> None:
        self._client = client_of(distributed, chosen.get("scheduler"), jobs, folder)

    def submit(self, begun: bytes, task: Any, left_s: float | None, stop_file: str) -> Any:
        return self._client.submit(run_errand, begun, task, left_s, stop_file, pure=False)

    def done(self, handle: Any) -> bool:
        return bool(handle.done())

    def result(self, handle: Any) -> Any:
        try:
            return handle.result()
        except TopooptError:
            raise
        except Exception as error:
            raise MachineError(f"dask lost a part of the search: {error}") from None

    def close(self) -> None:
        self._client.close()
        if self._client.cluster is not None:
            self._client.cluster.close()


class _Slurm:
    def __init__(self, submitit: Any, chosen: dict[str, str], jobs: int, folder: Path) -> None:
        self._submitit = submitit
        cluster = chosen.get("cluster", "slurm")
        self.poll_s = POLL_S if cluster == "local" else SLURM_POLL_S
        self._executor = executor_of(self._submitit, folder, cluster)
        own = {f"slurm_{name}": value for name, value in chosen.items() if name != "cluster"}
        self._own = own if cluster == "slurm" else {}
        self._sent: list[Any] = []

    def submit(self, begun: bytes, task: Any, left_s: float | None, stop_file: str) -> Any:
        minutes = WITHOUT_LIMIT_MIN if left_s is None else int(left_s // 60) + 5
        self._executor.update_parameters(timeout_min=minutes, mem_gb=MEMORY_GB, cpus_per_task=1, **self._own)
        self._sent.append(self._executor.submit(run_errand, begun, task, left_s, stop_file))
        return self._sent[-1]

    def done(self, handle: Any) -> bool:
        return bool(handle.done())

    def result(self, handle: Any) -> Any:
        errors = self._submitit.core.utils
        try:
            outcome, value = handle.exception(), None
            if outcome is None:
                value = handle.result()
        except errors.UncompletedJobError as error:
            raise MachineError(f"the cluster lost a part of the search: {error}") from None
        if outcome is not None:
            raise MachineError(f"a part of the search failed on the cluster: {outcome}")
        return value

    def close(self) -> None:
        for job in self._sent:
            if not job.done():
                job.cancel()


_Machines = _Dask | _Slurm
"""Where parts of a search are done; a part that is lost raises MachineError, others raise what they raised."""


class _Crew:
    """Parts of one search, so many at once."""

    def __init__(self, machines: _Machines, begun: bytes, stop: Stop, stop_file: Path, jobs: int) -> None:
        self.machines, self.begun, self.stop, self.stop_file, self.jobs = machines, begun, stop, stop_file, jobs

    def in_order(self, tasks: Sequence[Any], on_report: Tell) -> Iterator[Any]:
        """See `Crew`."""
        waiting, sent = deque(tasks), deque[Any]()
        while waiting or sent:
            while waiting and sum(not self.machines.done(handle) for handle in sent) < self.jobs:
                task = waiting.popleft()
                left_s, stop_file = self.stop.remaining_s(), str(self.stop_file.absolute())
                sent.append(self.machines.submit(self.begun, task, left_s, stop_file))
            if self.stop.reason() is not None and not self.stop_file.exists():
                self.stop_file.touch()
            if self.machines.done(sent[0]):
                yield self.machines.result(sent.popleft())
            else:
                time.sleep(self.machines.poll_s)


Hire = Callable[[int, Path], _Machines]
"""(jobs, folder) -> machines."""

_MACHINES: Mapping[str, tuple[Callable[..., _Machines], str, Collection[str]]] = {
    "dask": (_Dask, "distributed", DASK_OPTIONS),
    "slurm": (_Slurm, "submitit", SLURM_OPTIONS),
}
"""What does parts, the module that it needs, and the options that it takes."""


def crew_of(name: str, options: tuple[tuple[str, str], ...], jobs: int, folder: Path) -> Gather:
    """Who does the parts of a search.

    Args:
        name: of the executor.
        options: of it, as for studies.
        jobs: parts at the same time.
        folder: seen by all machines.

    Raises:
        InputError: an unknown name, unknown options, or what the executor needs is missing.
    """
    if name not in _MACHINES:
        raise InputError([Problem("unknown executor", path="--executor", value=name, allowed=", ".join(_MACHINES))])
    machines, module, allowed = _MACHINES[name]
    return partial(_gathered, partial(machines, *backend_of(options, name, module, allowed)), jobs, folder)


@contextmanager
def _gathered(
    machines: Hire,
    jobs: int,
    folder: Path,
    begin: Callable[..., DoTask],
    arguments: tuple[Any, ...],
    stop: Stop,
) -> Iterator[Crew]:
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    own = Path(mkdtemp(prefix="parts-", dir=folder))
    try:
        stop_file = new_stop_file(own)
        there = machines(jobs, own)
        try:
            yield _Crew(there, pickle.dumps((begin, arguments)), stop, stop_file, jobs)
        finally:
            stop_file.touch()
            there.close()
    finally:
        rmtree(own, ignore_errors=True)
        if made:
            with suppress(OSError):  # unless something else is there by now
                folder.rmdir()
