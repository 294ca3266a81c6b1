"""A command killed again and again, each time in a fork of a process that has it loaded.

The moments are then those of its work, not of the start of Python. Between two kills whoever started this looks at
what is there: a line goes out after each, and one comes back.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence

import numpy as np

OUT = "{out}"
"""Stands in the words of the command for its folder."""


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


def killed_at_random(words: Sequence[str], out: str, kills: int, lasts_s: float, seed: int) -> None:
    """Kill the command with all that is in its group, within the time that it takes and a fifth more."""
    draw = np.random.default_rng(seed)
    for _ in range(kills):
        child = started(words, out)
        time.sleep(float(draw.uniform(0.0, 1.2 * lasts_s)))
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:  # it has not yet come to lead a group
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(flush=True)
        sys.stdin.readline()


def main() -> None:
    """Arguments: kills, seed, a folder for a run that nobody disturbs, one for those that are killed, the words."""
    import topoopt.cli.main
    import topoopt.studies.collect
    import topoopt.studies.runner  # noqa: F401 - so that no fork loads them

    kills, seed, calm, out, *words = sys.argv[1:]
    began = time.monotonic()
    os.waitpid(started(words, calm), 0)
    killed_at_random(words, out, int(kills), time.monotonic() - began, int(seed))


if __name__ == "__main__":
    main()
