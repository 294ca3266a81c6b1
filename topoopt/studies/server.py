"""Server of one worker: loads the program once, then does one run after another in a forked child.

Reads one JSON object a line from standard input (`argv`, `folder`, `address_space_bytes`), answers `{"pid": ...}` when
the child runs and `{"status": ..., "cpu_s": ..., "peak_kib": ...}` when it has ended. It has one thread and never runs
the program itself, so that forking is safe; it dies with the worker that started it, and its child with it.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from topoopt.core.errors import MachineError, is_of_machine
from topoopt.core.process import SIGNALS, interrupt

PRELOADED = (
    "topoopt.cli.app",
    "topoopt.kinds.files",
    "topoopt.kinds.network.methods",
    "topoopt.kinds.network.page",
    "topoopt.kinds.job.methods",
    "topoopt.kinds.job.page",
    "scipy.optimize",
)
"""What most runs load; a second or two that is spent once a worker instead of once a run."""

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies; elsewhere nothing happens."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def load(program: str) -> Callable[[list[str]], int]:
    """The program `module:function`, which takes arguments and gives an exit code."""
    module, _, function = program.partition(":")
    loaded: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
    return loaded


def serve(program: str) -> None:
    """Answer requests until standard input ends."""
    die_with_parent()
    for number in SIGNALS:  # of a terminal they come to all its processes; the study decides what they end
        signal.signal(number, signal.SIG_IGN)
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    entry = load(program)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message).encode() + b"\n")

    say({"ready": True})
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _child(request, entry)
        say({"pid": pid})
        _, status, usage = os.wait4(pid, 0)
        say({"status": status, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_kib": usage.ru_maxrss})


def _child(request: dict[str, Any], entry: Callable[[list[str]], int]) -> None:
    code = 1
    try:
        os.setsid()  # a group of its own, so that all it starts can be killed with it
        die_with_parent()
        signal.signal(signal.SIGINT, interrupt)  # by which the study asks it to end
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        space = request["address_space_bytes"]
        if space:
            resource.setrlimit(resource.RLIMIT_AS, (space, space))
        os.chdir(request["folder"])
        for stream, name in ((0, os.devnull), (1, "output.json"), (2, "log.txt")):
            flags = os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            number = os.open(name, flags, 0o644)
            os.dup2(number, stream)
            os.close(number)
        code = entry(request["argv"])
        with suppress(OSError):
            sys.stderr.flush()
        sys.stdout.flush()
    except OSError as error:  # of the folder and streams above, or of standard output: the program tells its own
        with suppress(OSError):
            os.write(2, f"{error}\n".encode())
        code = MachineError.exit_code if is_of_machine(error) else 1
    except MemoryError:
        os.write(2, b"out of memory\n")
        code = 1
    except BaseException:
        with suppress(OSError):
            traceback.print_exc()
        code = 1
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
