"""Ways to do many runs; whichever is used, a run is `execute.execute` and ends in the same folder.

An executor gives records in whatever order they come. It has to survive whatever a run does, which is easy, as every
run has a process of its own.
"""

from __future__ import annotations

import importlib
import os
import queue
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from topoopt.core.comparison import StudyRun
from topoopt.core.errors import InputError, Problem
from topoopt.studies.execute import execute
from topoopt.studies.process import PROGRAM, ServerDiedError, Worker
from topoopt.studies.stopping import StudyStop
from topoopt.studies.store import Store


@dataclass(frozen=True)
class ExecutorWork:
    """What an executor is given.

    Attributes:
        runs: to do, in order.
        store: where they go.
        jobs: runs at the same time.
        replace: whether they were done before and are done again.
        stop: interrupted when the study is to end: no run begins, those in flight are asked to end, and killed once it
            has to hurry.
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


class Executor(Protocol):
    """Does all runs of `work`; ends early when `work.stop` is interrupted."""

    def __call__(self, work: ExecutorWork) -> Iterator[Event]:
        """Events as they come."""


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
        found = Problem(text, path="--executor", value=name, allowed=f"pip install 'topoopt[{name}]'")
        raise InputError([found]) from None
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
    for place, (key, _, value) in enumerate(pairs):
        if not key or not value:
            problems.append(Problem("not an option", path="--executor-option", value=texts[place], allowed="KEY=VALUE"))
        elif key in {before for before, _, _ in pairs[:place]}:
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
