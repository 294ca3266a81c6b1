"""How a child process is started and ended; it ends by itself when its parent does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True, eq=False)
class ChildProcess:
    """A process that is asked and answers in messages of `solvers.processes.pipe`."""

    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]


def started(command: tuple[str, ...]) -> ChildProcess:
    """Start a child that finds the modules that this process does.

    Raises:
        OSError: the system starts no process.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    # A session of its own keeps Ctrl-C at the terminal away from the child, which is ours to end.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    return ChildProcess(process, process.stdin, process.stdout)


def ended(child: ChildProcess, listener: threading.Thread) -> None:
    """Kill a child, wait for it and for who listens to it."""
    child.process.kill()
    child.process.wait()
    listener.join()
    with suppress(OSError):
        child.requests.close()
    child.answers.close()
