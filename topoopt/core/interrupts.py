"""Ctrl-C, SIGTERM and SIGHUP as a KeyboardInterrupt that is not lost.

Compiled code may swallow what is raised in a function that it calls, or make another error of it. So nothing is raised
while code that is known to do so, or an import, is under way. Wherever else an interrupt was swallowed, by a finalizer
or a callback of a solver, it comes again a moment later, until somebody has taken it.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What asks a run to end; SIGHUP where the system knows it."""

DEAF = ("pydantic",)
"""Packages whose compiled part calls functions of Python, and goes on when these raise."""

_AGAIN_S = 0.01


class _Interrupts:
    """Those of this process.

    Attributes:
        heard: whether a signal came.
        pending: what stands for an interrupt that nobody has taken yet; None where there is none.
        reminded: whether a signal is on its way that reminds of it.
        lock: of what the reminding thread reads and sends.
    """

    heard = False
    pending: object | None = None
    reminded = False
    lock = threading.Lock()


_NOW = _Interrupts()


def interrupt(number: int, frame: FrameType | None) -> None:
    """A handler of signals.

    Raises:
        KeyboardInterrupt: now or, if it could not arrive here, a moment later.
    """
    reminded, _NOW.reminded = _NOW.reminded, False
    if reminded and _NOW.pending is None:
        return
    _NOW.heard = True
    if _NOW.pending is None:
        _NOW.pending = object()
        with suppress(RuntimeError):  # no more threads: it is raised once
            _thread.start_new_thread(_remind, (number, _NOW.pending))
    if not (_is_deaf(frame) or (reminded and _is_under_way())):
        raise KeyboardInterrupt


def end_if_interrupted() -> None:
    """To be called before what cannot be undone.

    Raises:
        KeyboardInterrupt: one is pending that has not arrived.
    """
    if _NOW.pending is not None and not _is_under_way():
        raise KeyboardInterrupt


def hear() -> None:
    """A signal came, and whoever handles it ends the run in his own way."""
    _NOW.heard = True


def listen() -> None:
    """Nothing was heard so far."""
    _NOW.heard = False


def was_heard() -> bool:
    """Whether a signal came since `listen`."""
    return _NOW.heard


def is_pending() -> bool:
    """Whether an interrupt came that nobody has taken."""
    return _NOW.pending is not None


def take() -> None:
    """The interrupt has arrived, so that it need not come again; called where handlers of signals still stand."""
    with _NOW.lock:
        _NOW.pending = None
    for _ in range(100):  # the handler has yet to see that a reminder is of no use
        if not _NOW.reminded:
            break
        time.sleep(0.001)


def _remind(number: int, pending: object) -> None:
    """By a signal to the main thread, so that it wakes if it waits."""
    main = threading.main_thread().ident
    assert main is not None
    while True:
        time.sleep(_AGAIN_S)
        with _NOW.lock:
            if _NOW.pending is not pending:
                return
            _NOW.reminded = True
            signal.pthread_kill(main, number)


def _is_deaf(frame: FrameType | None) -> bool:
    """Whether code is under way that swallows interrupts; its compiled part is between frames that are seen."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in DEAF or frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _is_under_way() -> bool:
    """Whether an interrupt was raised here, and is on its way to whoever takes it."""
    error = sys.exception()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
