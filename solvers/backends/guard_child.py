"""Child of a guarded solve: one program in, incumbents and one result out. Run by `solvers.backends.guarded`."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace

from solvers.backends.table import SOLVERS
from solvers.processes.pipe import receive, send
from topoopt.core.errors import InputError


def serve() -> None:
    """Answer the one request on standard input, then end the process."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not mix with the messages
    name, program, limits, options, start = receive(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    backend = SOLVERS[name]
    began = time.monotonic()
    backend.load()
    if limits.time_s is not None:  # imports count for the one who waits
        limits = replace(limits, time_s=max(0.01, limits.time_s - (time.monotonic() - began)))
    try:
        result = backend(program, limits, options, start, on_incumbent=lambda x: send(out, ("incumbent", x)))
    except InputError as error:
        send(out, ("refused", error.problems))
    else:
        send(out, ("result", result))
    os._exit(0)  # no library may hang in its clean-up


def _end_with_parent() -> None:
    sys.stdin.buffer.read(1)  # nothing more is ever written, so this ends when the parent does
    os._exit(1)
