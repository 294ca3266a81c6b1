"""Entry point of `topoopt`; imports nothing heavy itself, so that Ctrl-C is looked after from the start."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import sys

from topoopt.core.process import begin, ignore_from_now, leave_on_interrupt


def main() -> None:
    """Run the command line; leaves with its exit code."""
    begin()
    leave_on_interrupt()
    gc.set_threshold(100_000, 20, 100)  # long tables are millions of objects, none of them in a circle
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no × or →, file names that are not text
            stream.reconfigure(errors="backslashreplace")
    from topoopt.cli.app import app

    try:
        app()
    except SystemExit as left:
        _end(0 if left.code is None else left.code if isinstance(left.code, int) else 1)
    except BrokenPipeError:  # the reader of our output went away: nothing left to say
        _end(1)
    except OSError as error:  # of --help and --version, which print by themselves; commands tell their own
        from topoopt.core.errors import MachineError, is_of_machine

        os.write(2, f"error standard output cannot be written: {error.strerror or error}\n".encode())
        _end(MachineError.exit_code if is_of_machine(error) else 1)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _end(1)
    _end(0)


def _end(code: int) -> None:
    """End at once, with this exit code. Python would take modules apart for a quarter of a second, in which a signal
    ends it in its own way; it would wait for what a step that was left still computes, and end by a signal if an
    interrupt had passed through any `exec`."""
    ignore_from_now()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
