"""Ctrl-C for a search in this process, however long it takes to begin."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


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
