"""Runs on a dask cluster: an existing one (`scheduler=ADDRESS`), or one of its own on this machine.

The machines have to see the directory of the study under the same name, and have topoopt installed. A worker that dies
takes its chunk with it, and dask gives it to another one, which goes on where the first was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from topoopt.core.errors import InputError, Problem, TopooptError
from topoopt.studies.chunks import Chunk, chunks_of, do_chunk, new_stop_file, remove, tell_stop
from topoopt.studies.executors import Event, ExecutorWork, backend_of

POLL_S = 0.2
OPTIONS = ("scheduler",)
TRIES = 3
"""Times a chunk is sent; dask itself gives it to another worker four times before it counts as one failure."""


def dask(work: ExecutorWork) -> Iterator[Event]:
    """See the module.

    Raises:
        InputError: distributed is not installed, an unknown option, or nobody answers at the address.
        TopooptError: a chunk failed again and again; what was done is kept.
    """
    distributed, options = backend_of(work.options, "dask", "distributed", OPTIONS)
    stop_file = new_stop_file(work.store.root)
    try:
        with client_of(distributed, options.get("scheduler"), work.jobs, work.store.root) as client:
            yield from _follow(distributed, client, work, stop_file)
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


def _follow(distributed: Any, client: Any, work: ExecutorWork, stop_file: Path) -> Iterator[Event]:
    by_identity = {run.identity: run for run in work.runs}

    def send(runs: tuple[Any, ...]) -> Any:
        chunk = Chunk(runs, str(work.store.root.absolute()), work.replace, work.program, str(stop_file.absolute()))
        return client.submit(do_chunk, chunk, pure=False, retries=TRIES)

    waiting = {send(runs): (runs, 1) for runs in chunks_of(work.runs, 2 * work.jobs)}
    while waiting:
        if work.stop.interrupted.is_set() and not stop_file.exists():
            client.cancel([future for future in waiting if future.status == "pending"])
        tell_stop(work.stop, stop_file)
        done = _ended(distributed, list(waiting))
        for future in done:
            runs, tries = waiting.pop(future)
            if future.status == "finished":
                for identity, record in future.result():
                    yield Event(by_identity[identity], record)
            elif work.stop.interrupted.is_set():
                continue
            elif tries < TRIES:
                waiting[send(runs)] = (runs, tries + 1)
            else:
                work.stop.give_up()
                tell_stop(work.stop, stop_file)
                raise TopooptError(
                    f"dask lost {len(runs)} runs {TRIES} times ({future.exception()}); run again to go on"
                )


def _ended(distributed: Any, futures: list[Any]) -> list[Any]:
    try:
        distributed.wait(futures, timeout=POLL_S, return_when="FIRST_COMPLETED")
    except TimeoutError:
        return []
    return [future for future in futures if future.done()]
