"""Ctrl-C while the program loads and before there is anything to save: leave at once, without a traceback.

A KeyboardInterrupt inside an import can surface as any other error, so none is raised there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def interrupted_document() -> dict[str, object]:
    """What `--json` prints when there is no plan."""
    return {"status": "unknown", "stopped_by": "interrupted", "exit_code": INTERRUPTED}


def _leave(number: int, frame: FrameType | None) -> None:
    if "--json" in sys.argv:
        os.write(1, (json.dumps(interrupted_document()) + "\n").encode())
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def leave_on_interrupt() -> None:
    """From now on Ctrl-C ends the process, unless it was set to be ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt again, so that files being written are cleaned up."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
