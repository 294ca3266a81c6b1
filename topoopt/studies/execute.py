"""One run of a study gets a process with limits and ends in a folder named by its identity, under every executor
alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge
from pydantic import ValidationError

from topoopt.core.arrays import GIB, MIB
from topoopt.core.comparison import RETAINED, RunLimits, StudyRun
from topoopt.core.errors import InputError, MachineError, TopooptError
from topoopt.files import codec
from topoopt.files.atomic import WriteError, write_text_atomically
from topoopt.files.documents import load_document
from topoopt.files.untrusted import opened


@dataclass(frozen=True)
class StudyStop:
    """Shared by all that works on one study.

    Attributes:
        interrupted: set when it is to end: no run begins, those in flight are asked for the best they have.
        kill: set when those are to be killed.
        late: set when a limit was why.
    """

    interrupted: threading.Event = field(default_factory=threading.Event)
    kill: threading.Event = field(default_factory=threading.Event)
    late: threading.Event = field(default_factory=threading.Event)

    @property
    def status(self) -> str:
        """`done`, `time` or `interrupted`."""
        return "done" if not self.interrupted.is_set() else "time" if self.late.is_set() else "interrupted"

    def give_up(self) -> None:
        """End at once: something is broken."""
        self.interrupted.set()
        self.kill.set()


PROGRAM = "topoopt.cli.app:command_line"
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
        """Run to its end or its limit; asked to end once `stop` says so, killed if it does not or once `stop.kill`
        is set.

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
        peak_kib, interrupted_s = 0, 0.0
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
                if stop.kill.is_set() or greedy or wall_s - interrupted_s > GRACE_S:
                    _kill_group(pid)
            elif reason is None and stop.interrupted.is_set():
                reason, interrupted_s = "interrupted", wall_s
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


Outcome = Literal[
    "done", "refused", "infeasible", "nothing-found", "check-failed", "crashed", "timed-out", "out-of-memory",
    "interrupted", "environment",
]  # fmt: skip

Amount = Annotated[float, Ge(0)]


@dataclass(frozen=True)
class RunRecord:
    """run.json."""

    __pydantic_config__ = RETAINED

    identity: str
    outcome: Outcome
    reason: str
    exit_code: int | None
    wall_s: Amount
    cpu_s: Amount
    peak_memory_mib: Amount
    finished_at: str
    output: dict[str, Any] | None


def is_record(data: object, identity: str) -> bool:
    """Whether data are the record of a run, and of this one."""
    try:
        return bool(codec.adapter(RunRecord).validate_python(data).identity == identity)
    except ValidationError:
        return False


RUN_FILE = "run.json"


@dataclass(frozen=True)
class Store:
    """A study directory."""

    root: Path

    def folder(self, identity: str) -> Path:
        """Where a finished run is, or will be."""
        return self.root / "runs" / identity[:2] / identity

    def finished(self) -> set[str]:
        """Identities of all finished runs."""
        identities: set[str] = set()
        top = self.root / "runs"
        if not top.is_dir():
            return identities
        for shelf in os.scandir(top):
            if shelf.is_dir():
                identities.update(entry.name for entry in os.scandir(shelf.path) if not entry.name.startswith("."))
        return identities

    def record(self, identity: str) -> dict[str, Any] | None:
        """run.json of a finished run; None if there is none, or none that can be read: such a run is done again."""
        try:
            data = load_document(self.folder(identity) / RUN_FILE).data
        except InputError:
            return None
        return data if isinstance(data, dict) and is_record(data, identity) else None

    @contextlib.contextmanager
    def working(self, run: StudyRun) -> Iterator[Path]:
        """A folder to do a run in; gone afterwards unless `publish` took it."""
        folder = self.root / "unfinished" / f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, folder: Path, identity: str, *, replace: bool) -> bool:
        """Give a folder its final name; False if another study was quicker.

        `replace`: the run was there already and was made again.
        """
        final = self.folder(identity)
        final.parent.mkdir(parents=True, exist_ok=True)
        if replace and final.exists():
            aside = self.root / "unfinished" / f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
            with contextlib.suppress(OSError):
                os.rename(final, aside)
            shutil.rmtree(aside, ignore_errors=True)
        try:
            os.rename(folder, final)
        except OSError:
            if final.exists():
                return False
            raise
        return True

    def clean(self) -> None:
        """Remove what studies that are no longer alive on this machine left unfinished."""
        folder = self.root / "unfinished"
        if not folder.is_dir():
            return
        host = socket.gethostname()
        for entry in folder.iterdir():
            owner = entry.name.rsplit(".", 2)
            if len(owner) == 3 and owner[0] == host and owner[1].isdigit() and not _alive(int(owner[1])):
                shutil.rmtree(entry, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


LOG_BYTES = 65_536
"""End of a log that is looked at for the reason of a failure."""

MAX_LOG_BYTES = 1024 * GIB

ENVIRONMENT = "environment"
"""Outcome of a run that the machine kept from its end (disk full): no verdict, so it is not kept."""

OUTCOMES = {
    0: "done",
    2: "refused",
    3: "infeasible",
    4: "done",
    5: "nothing-found",
    6: "check-failed",
    8: "done",
    MachineError.exit_code: ENVIRONMENT,
}
"""What an exit code of the command line means for a study; any other is a crash."""

RUN_INTERRUPTED = "interrupted"
"""Outcome of a run that the end of the study cut short; the best it had is kept until the run is done again."""

FAILURES = ("refused", "check-failed", "crashed", "timed-out", "out-of-memory", RUN_INTERRUPTED)
"""Outcomes that `--retry-failed` does again; the others are answers."""


def execute(run: StudyRun, store: Store, worker: Worker, stop: StudyStop, *, replace: bool = False) -> dict[str, Any]:
    """Do a run and keep it, unless the machine failed or it was interrupted with nothing to show; gives its record."""
    try:
        with store.working(run) as folder:
            argv = arguments_of(run, folder)
            ending = worker.run(argv, folder, run.limits, stop)
            record = record_of(run, folder, ending)
            cut = record["outcome"] == RUN_INTERRUPTED
            if record["outcome"] != ENVIRONMENT and (not cut or (record["output"] or {}).get("objective")):
                text = json.dumps(record, indent=1, allow_nan=False) + "\n"
                write_text_atomically(folder / RUN_FILE, text)
                # what was cut short takes the place of nothing else
                again = (replace and not cut) or (store.record(run.identity) or {}).get("outcome") == RUN_INTERRUPTED
                store.publish(folder, run.identity, replace=again)
    except (OSError, MachineError, WriteError) as error:  # of the folder: what the run does is not told by errors
        return {"identity": run.identity, "instance": run.instance, "outcome": ENVIRONMENT, "reason": str(error)}
    return record


def arguments_of(run: StudyRun, folder: Path) -> list[str]:
    """Arguments of the command line, paths relative to the folder of the run; writes the instance there."""
    words = [*run.command]
    if run.document is not None:
        write_text_atomically(folder / "instance.json", run.document + "\n")
        words.append("instance.json")
    elif run.source:
        words.append(run.source)
    if run.command == ("solve",):
        words += ["--output", "."]
    return [*words, *run.arguments, "--json"]


def record_of(run: StudyRun, folder: Path, ending: Ending) -> dict[str, Any]:
    """run.json: what was run, and how it ended."""
    output = _output(folder)
    outcome, reason = _outcome(ending, output, run, folder)
    return {
        "identity": run.identity,
        "instance": run.instance,
        "command": [*run.command, *run.arguments],
        "outcome": outcome,
        "reason": reason,
        "exit_code": ending.exit_code,
        "wall_s": round(ending.wall_s, 4),
        "cpu_s": round(ending.cpu_s, 4),
        "peak_memory_mib": round(ending.peak_memory_mib, 1),
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "output": output,
    }


def _output(folder: Path) -> dict[str, Any] | None:
    """The JSON object the command printed."""
    try:
        data = load_document(folder / "output.json").data
    except InputError:
        return None
    return data if isinstance(data, dict) else None


def _outcome(ending: Ending, output: dict[str, Any] | None, run: StudyRun, folder: Path) -> tuple[str, str]:
    """Outcome and, unless all is well, its reason in words."""
    limits = run.limits
    if ending.ended_for == "interrupted" and ending.exit_code not in OUTCOMES:  # else it was done by then
        return RUN_INTERRUPTED, "the study was stopped"
    if ending.ended_for == "wall-time":
        return "timed-out", f"killed after {limits.wall_s:g} s"
    if ending.ended_for == "memory":
        return "out-of-memory", f"killed at more than {limits.memory_mib} MiB"
    if ending.exit_code is None:
        return "crashed", f"killed by signal {ending.signal}"
    outcome = OUTCOMES.get(ending.exit_code, "crashed")
    said = str(output.get("error", "")) if output else ""
    if outcome == "done":
        if output is None:
            return "crashed", "printed no result"
        return "done", ""
    if outcome == "crashed":
        last = said or _last_line(folder)
        if "out of memory" in last or "MemoryError" in last or "bad_alloc" in last:
            return "out-of-memory", last
        return "crashed", last or f"exit code {ending.exit_code}"
    return outcome, said or _last_line(folder) or f"exit code {ending.exit_code}"


def _last_line(folder: Path) -> str:
    try:
        with opened(folder / "log.txt", MAX_LOG_BYTES) as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - LOG_BYTES))
            text = stream.read(LOG_BYTES).decode("utf-8", "replace")
    except InputError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
