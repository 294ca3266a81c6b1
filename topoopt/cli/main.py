"""Entry point of `topoopt`; imports nothing heavy itself, so that Ctrl-C is looked after from the start."""

from __future__ import annotations

import io
import os
import sys
import threading

from topoopt.console.interrupt import INTERRUPTED, leave_on_interrupt


def main() -> None:
    """Run the command line; leaves with its exit code."""
    leave_on_interrupt()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no × or →, file names that are not text
            stream.reconfigure(errors="backslashreplace")
    from topoopt.cli.app import app

    try:
        app()
    except SystemExit as left:
        from solvers.steps import STEP

        behind = [thread for thread in threading.enumerate() if thread.name == STEP]
        if left.code == INTERRUPTED or behind:
            # Python would end by a signal instead if the interrupt had passed through any `exec`, and would wait for
            # what a step that was left is still computing.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(left.code if isinstance(left.code, int) else 1)
        raise


if __name__ == "__main__":
    main()
