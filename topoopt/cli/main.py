"""Entry point of `topoopt`; imports nothing heavy itself, so that Ctrl-C is looked after from the start."""

from __future__ import annotations

import io
import os
import sys

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
        if left.code == INTERRUPTED:
            # Python would end by a signal instead if the interrupt had passed through any `exec`.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


if __name__ == "__main__":
    main()
