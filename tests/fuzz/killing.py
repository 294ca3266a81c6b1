"""A command killed again and again, each time in a fork of a process that has it loaded.

The moments are then those of its work, not of the start of Python. Between two kills whoever started this looks at
what is there: a line goes out after each, and one comes back.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

OUT = "{out}"
"""Stands in the words of the command for its folder."""

WRITING = -1.0
"""In place of a moment, which is a part of the time that the command takes: once it has begun to write."""


def started(words: Sequence[str], out: str) -> int:
    """Process id of the command, which leads a group of its own."""
    child = os.fork()
    if child:
        return child
    from topoopt.cli.main import main

    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    sys.argv = ["topoopt", *(word.replace(OUT, out) for word in words)]
    try:
        main()
    finally:
        os._exit(0)


def killed(words: Sequence[str], out: str, lasts_s: float, moments: Sequence[float]) -> None:
    """Kill the command with all that is in its group, once for each moment."""
    for moment in moments:
        child = started(words, out)
        if moment == WRITING:
            _await_file(Path(out), 10 * lasts_s)
        else:
            time.sleep(moment * lasts_s)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:  # it has not yet come to lead a group
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(flush=True)
        sys.stdin.readline()


def _await_file(folder: Path, most_s: float) -> None:
    """Until something stands in the folder."""
    end = time.monotonic() + most_s
    while time.monotonic() < end and not any(folder.glob("*")):
        time.sleep(0.0005)


def main() -> None:
    """Arguments: moments as JSON, a folder for a run that nobody disturbs, one for those that are killed, the words.

    In the end the command runs undisturbed in the second folder too.
    """
    import topoopt.cli.main
    import topoopt.studies.results
    import topoopt.studies.runner  # noqa: F401 - so that no fork loads them

    moments, calm, out, *words = sys.argv[1:]
    began = time.monotonic()
    os.waitpid(started(words, calm), 0)
    killed(words, out, time.monotonic() - began, json.loads(moments))
    os.waitpid(started(words, out), 0)


if __name__ == "__main__":
    main()
