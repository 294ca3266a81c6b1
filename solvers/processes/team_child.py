"""A member of a team: begins once, then does one task after another. Run by `solvers.processes.team`."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from typing import Any

from solvers.processes.pipe import receive, send
from solvers.stop import Stop

STOP = "stop"
"""The request to end soon with the best so far."""


def serve() -> None:
    """Answer requests on standard input until it ends, and with it the process."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not mix with the messages
    stop, tasks = Stop(), queue.SimpleQueue[tuple[int, Any, float | None]]()

    begin, arguments = receive(sys.stdin.buffer)
    threading.Thread(target=_listen, args=(stop, tasks), daemon=True).start()
    work = begin(stop, *arguments)
    while True:
        number, task, left_s = tasks.get()
        stop.deadline = None if left_s is None else time.monotonic() + left_s
        try:
            answer = ("done", number, work(task, lambda *said: send(out, ("told", said))))
        except Exception as error:
            error.add_note(traceback.format_exc())
            answer = ("failed", number, error)
        send(out, answer)


def _listen(stop: Stop, tasks: queue.SimpleQueue[tuple[int, Any, float | None]]) -> None:
    """Take tasks, and `STOP`; the end of the input is the end of the parent."""
    while True:
        try:
            request = receive(sys.stdin.buffer)
        except Exception:  # a task that cannot be read is a fault of ours: seen at once, not waited for
            traceback.print_exc()
            os._exit(1)
        if request is None:
            os._exit(1)
        if request == STOP:
            stop.interrupted.set()
        else:
            tasks.put(request)
