"""The command line as a function, for a server of workers that has loaded the program once."""

from __future__ import annotations

import sys


def command_line(arguments: list[str]) -> int:
    """`topoopt` with these arguments; the exit code."""
    from topoopt.cli.app import app
    from topoopt.console.began import begin

    begin()
    sys.argv = ["topoopt", *arguments]
    try:
        app(args=arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0
