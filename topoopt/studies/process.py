"""One run in a process of its own, with wall time and memory limited from outside."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topoopt.core.arrays import MIB
from topoopt.core.comparison import RunLimits
from topoopt.core.errors import TopooptError
from topoopt.studies.stopping import StudyStop

PROGRAM = "topoopt.cli.worker:command_line"
POLL_S = 0.05
SPARE_BYTES = 8 * 1024 * MIB
"""Address space beyond the memory limit: libraries map far more than they use; this only stops sudden growth."""

GRACE_S = 30.0
"""Longest a process that is asked to end may take to write the best it has."""

START_S = 120.0
"""Longest a server may take to load the program."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Pinned to one, so that runs side by side do not slow each other more than they must."""


@dataclass(frozen=True)
class Ending:
    """How a process ended.

    Attributes:
        exit_code: None when it was killed.
        signal: that killed it, None if none did.
        ended_for: `wall-time` or `memory` when we killed it, `interrupted` when we asked it to end.
        wall_s, cpu_s, peak_memory_mib: what it took; memory of the process and all it started, as seen by polling.
    """

    exit_code: int | None
    signal: int | None
    ended_for: str | None
    wall_s: float
    cpu_s: float
    peak_memory_mib: float


class ServerDiedError(TopooptError):
    """The server ended between two runs."""


class Worker:
    """Does runs one after another, each in a fork of one warm server; to be used by one thread."""

    def __init__(self, program: str = PROGRAM) -> None:
        self.program = program
        self.server: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def run(self, argv: list[str], folder: Path, limits: RunLimits, stop: StudyStop) -> Ending:
        """Run to its end or its limit; asked to end once `stop` says so, and killed if it does not, or has to hurry.

        Raises:
            ServerDiedError: the server could not be started twice in a row.
        """
        request = {"argv": argv, "folder": str(folder), "address_space_bytes": limits.memory_mib * MIB + SPARE_BYTES}
        for attempt in (1, 2):
            try:
                server = self._ready()
                self._send(server, request)
                pid = self._receive(START_S)["pid"]
            except (OSError, ServerDiedError, KeyError):
                self.close()
                if attempt == 2:
                    raise ServerDiedError(f"no worker process for {self.program}") from None
                continue
            return self._watch(pid, limits, stop)
        raise AssertionError("unreachable")

    def _watch(self, pid: int, limits: RunLimits, stop: StudyStop) -> Ending:
        began = time.monotonic()
        peak_kib, asked_s = 0, 0.0
        reason: str | None = None
        while True:
            try:
                message = self._receive(POLL_S)
            except TimeoutError:
                message = None
            except ServerDiedError:
                _kill_group(pid)
                self.close()
                return Ending(None, signal.SIGKILL, reason, time.monotonic() - began, 0.0, peak_kib / 1024)
            wall_s = time.monotonic() - began
            if message is not None:
                _kill_group(pid)  # what it started and left behind
                status = message["status"]
                killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
                peak_mib = max(peak_kib, message["peak_kib"]) / 1024
                if reason is None and code != 0 and peak_mib > limits.memory_mib:
                    reason = "memory"
                return Ending(code, killed, reason, wall_s, message["cpu_s"], peak_mib)
            peak_kib = max(peak_kib, _group_kib(pid))
            greedy = peak_kib > limits.memory_mib * 1024
            if reason == "interrupted":
                if stop.hurry.is_set() or greedy or wall_s - asked_s > GRACE_S:
                    _kill_group(pid)
            elif reason is None and stop.interrupted.is_set():
                reason, asked_s = "interrupted", wall_s
                with suppress(OSError):
                    os.kill(pid, signal.SIGINT)
            elif reason is None and (greedy or wall_s > limits.wall_s):
                reason = "wall-time" if wall_s > limits.wall_s else "memory"
                _kill_group(pid)

    def _ready(self) -> subprocess.Popen[bytes]:
        if self.server is not None and self.server.poll() is None:
            return self.server
        self._buffer = b""
        environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONUNBUFFERED": "1"}
        self.server = subprocess.Popen(
            [sys.executable, "-m", "topoopt.studies.server", self.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._receive(START_S)
        return self.server

    def _send(self, server: subprocess.Popen[bytes], request: dict[str, Any]) -> None:
        if server.stdin is None:
            raise ServerDiedError
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        """The next message. Raises TimeoutError or ServerDiedError."""
        if self.server is None or self.server.stdout is None:
            raise ServerDiedError
        number = self.server.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if not select.select([number], [], [], max(0.0, left))[0]:
                raise TimeoutError
            data = os.read(number, 65536)
            if not data:
                raise ServerDiedError
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """End the server."""
        server, self.server = self.server, None
        if server is None:
            return
        with suppress(OSError):
            server.kill()
        for stream in (server.stdin, server.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        server.wait()


def _kill_group(pid: int) -> None:
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _group_kib(session: int) -> int:
    """Resident memory of all processes of a session, kibibytes; 0 where /proc is not to be had."""
    total = 0
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return 0
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                fields = stream.read().rsplit(b")", 1)[1].split()
        except (OSError, IndexError):
            continue
        # after the name: state, parent, group, session, ...; the resident pages are the 22nd of these
        if int(fields[3]) == session:
            total += int(fields[21]) * (os.sysconf("SC_PAGE_SIZE") // 1024)
    return total
