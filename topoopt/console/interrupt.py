"""Ctrl-C, SIGTERM and SIGHUP while the program loads and where nothing is to be saved: leave at once, no traceback.

A KeyboardInterrupt inside an import can surface as any other error, so none is raised there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What asks a run to end; SIGHUP where the system knows it. A second list: `solvers` loads slowly."""

_AGAIN_S = 0.01

INTERRUPTED = 130
"""Exit code after Ctrl-C, SIGTERM or SIGHUP."""


def interrupted_document() -> dict[str, object]:
    """What `--json` prints when there is no plan."""
    return {"status": "unknown", "stopped_by": "interrupted", "exit_code": INTERRUPTED}


def _leave(number: int, frame: FrameType | None) -> None:
    if "--json" in sys.argv:
        os.write(1, (json.dumps(interrupted_document()) + "\n").encode())
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def leave_on_interrupt() -> None:
    """From now on these signals end the process, unless they were set to be ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _leave)


def ignore_from_now() -> None:
    """All is done but to leave."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def raise_on_interrupt() -> None:
    """From now on they raise KeyboardInterrupt, so that files being written are cleaned up; after the import, if one is
    under way."""
    sys.unraisablehook = _interrupt_again
    for number in SIGNALS:
        if signal.getsignal(number) is _leave:
            signal.signal(number, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _send_again(number)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """An interrupt that came where nothing can be raised, in a finalizer or a callback of compiled code, comes again a
    moment later; all else is told as ever."""
    raised = [number for number in SIGNALS if signal.getsignal(number) in (_raise, signal.default_int_handler)]
    if raised and issubclass(lost.exc_type, KeyboardInterrupt):
        _send_again(raised[0])
    else:
        sys.__unraisablehook__(lost)


def _send_again(number: int) -> None:
    """A moment later, by a thread: raised here it would be lost. To the main one, so that it wakes if it waits."""
    threading.Timer(_AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, number)).start()
