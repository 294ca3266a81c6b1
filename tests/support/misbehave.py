"""A program that does what the name of its instance says: crash, hang, eat memory, or what the command line does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from topoopt.cli.app import command_line


def main(argv: list[str]) -> int:
    """Run as `topoopt` would, unless the instance says otherwise."""
    name = json.loads(Path(argv[1]).read_text())["name"]
    if name.startswith("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if name.startswith("raise"):
        raise RuntimeError("on purpose")
    if name.startswith("hang"):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])  # and leave something behind
        time.sleep(1000)
    if name.startswith("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    if name.startswith("deaf"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        Path("ready").touch()
        time.sleep(1000)
    if name.startswith("polite"):
        try:
            Path("ready").touch()
            time.sleep(1000)
        except KeyboardInterrupt:
            print(json.dumps({"kind": "routing", "name": name, "status": "feasible", "objective": {"value": 7.5}}))
            return 130
    if name.startswith("eat"):
        hoard = []
        while True:
            hoard.append(bytearray(8 << 20))
            time.sleep(0.001)
    if name.startswith("silent"):
        return 0
    return command_line(argv)


def quick(argv: list[str]) -> int:
    """Answers at once, with a figure that depends on the arguments alone."""
    seed = int(argv[argv.index("--seed") + 1])
    name = json.loads(Path(argv[1]).read_text())["name"]
    time.sleep(0.05)
    print(json.dumps({"kind": "routing", "name": name, "status": "feasible", "objective": {"value": 1.0 + seed}}))
    return 0
