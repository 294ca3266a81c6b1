"""Ctrl-C for a search in this process, however long it takes to begin."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupted_search(after_s: float = 0.5) -> Iterator[None]:
    """SIGINT to this process so long after a search inside has taken the signal over; none if no search does."""
    before, over = signal.getsignal(signal.SIGINT), threading.Event()

    def press() -> None:
        while signal.getsignal(signal.SIGINT) is before:
            if over.wait(0.01):
                return
        time.sleep(after_s)
        if signal.getsignal(signal.SIGINT) is not before:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def signalled_callback(which: int, number: int = signal.SIGINT) -> Iterator[list[str]]:
    """The signal to this process while pydantic calls a function of ours, the so-and-so-manyth of them, in any thread.

    Yields:
        The names of all those functions that were called.
    """
    called: list[str] = []

    def look(frame: FrameType, event: str, argument: object) -> None:
        back = frame.f_back
        if event != "call" or back is None or not frame.f_globals.get("__name__", "").startswith("topoopt."):
            return
        if back.f_globals.get("__name__", "").startswith("pydantic.") and back.f_code.co_name in CALLS:
            called.append(frame.f_code.co_name)
            if len(called) == which:
                os.kill(os.getpid(), number)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield called
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


CALLS = ("model_dump", "model_validate", "validate_python", "validate_json", "dump_python", "dump_json")
CALLS += ("model_validate_json", "__init__")
"""Functions of pydantic that call functions of ours."""
