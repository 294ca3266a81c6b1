"""One run of a study gets a process with limits and ends in a folder named by its identity, and in a row of one table.

The table is `results.jsonl` of the folder of the study: a line for each run that ended, the last one of a run counts.
The folder of a run is there before its line, so a study can be killed at any moment: what has no line is done again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from solvers.processes import TRIES, DoTask, Tell, die_with_parent, processes
from solvers.stop import Stop
from topoopt.core.arrays import GIB, MIB
from topoopt.core.errors import InputError, MachineError, TopooptError, is_of_machine
from topoopt.core.process import interrupt
from topoopt.files import codec
from topoopt.files.atomic import WriteError, failed_write, write_text_atomically
from topoopt.files.documents import load_document
from topoopt.files.untrusted import opened
from topoopt.studies.executors import scratch_folder
from topoopt.studies.expand import MEMORY_MIB, WALL_S
from topoopt.studies.schema import Limits, Outcome, Run

Program = Callable[[list[str]], int]
"""Arguments -> exit code."""

PROGRAM = "topoopt.cli.app:command_line"
"""`module:function` that does a run; something else than the command line only in tests."""

POLL_S = 0.05
SPARE_BYTES = 8 * 1024 * MIB
"""Address space beyond the memory limit: libraries map far more than they use; this only stops sudden growth."""

GRACE_S = 30.0
"""Longest a process that is asked to end may take to write the best it has."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Pinned, so that runs side by side do not slow each other more than they must."""

ROWS_FILE = "results.jsonl"
MAX_ROWS_BYTES = 1024 * GIB
LOG_BYTES = 65_536
"""End of a log that is looked at for the reason of a failure."""

OUTCOMES: dict[int | None, Outcome] = {
    0: "done",
    2: "refused",
    3: "infeasible",
    4: "done",
    5: "nothing-found",
    6: "check-failed",
    8: "done",
    MachineError.exit_code: "environment",
}
"""What an exit code of the command line means for a study; any other is a crash."""

FAILURES = ("refused", "check-failed", "crashed", "timed-out", "out-of-memory", "interrupted")
"""Outcomes that `--retry-failed` does again; the others are answers.

`environment`: the machine kept the run from its end (disk full), so it has no row. `interrupted`: the end of the study
cut it short; the best it had is a row until the run is done again.
"""


PRELOADED = (
    "topoopt.cli.app",
    "topoopt.kinds.files",
    "topoopt.kinds.network.methods",
    "topoopt.kinds.network.page",
    "topoopt.kinds.job.methods",
    "topoopt.kinds.job.page",
    "scipy.optimize",
)
"""What most runs load; a second or two that is spent once a process instead of once a run."""


def in_forks(stop: Stop, root: str, program: str) -> DoTask:
    """What does runs one after another, each in a fork of this process, which loads the program and never runs it.

    Args:
        stop: of the study.
        root: its folder.
        program: see PROGRAM.
    """
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    owner = os.getppid()  # who waits for the runs: what is left of them is left by it

    def work(runs: Sequence[Run], tell: Tell) -> list[Run]:
        module, _, function = program.partition(":")
        try:
            entry = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise TopooptError(f"no worker process for {program}: {error}") from None
        return [execute(run, Path(root), entry, stop, owner) for run in runs]

    return work


def elsewhere(stop: Stop, root: str, program: str) -> DoTask:
    """What does many runs elsewhere, in a process of their own; some may be done already, before this was lost."""

    def work(runs: Sequence[Run], tell: Tell) -> list[Run]:
        rows = read_rows(Path(root))
        done = [rows[run.identity] for run in runs if _done_since(run, rows)]
        waiting = (
            [run]
            for run in runs
            if not (_done_since(run, rows) or stop.reason() or (done and done[-1].outcome == "environment"))
        )
        with processes(1, tries=TRIES, variables=ONE_THREAD)(in_forks, (root, program), stop) as crew:
            for _, future in crew(waiting, tell):
                done += future.result()
        return done

    return work


def _done_since(run: Run, rows: dict[str, Run]) -> bool:
    return run.identity in rows and rows[run.identity].finished_at != run.finished_at


def run_forked(entry: Program, argv: list[str], folder: Path, limits: Limits, stop: Stop) -> dict[str, Any]:
    """Run a program in a fork, to its end or its limit; asked to end once `stop` has a reason, killed if it does not
    or at the second.

    Returns:
        `exit_code` (None when it was killed), `signal` that killed it, `ended_for` (`wall-time` or `memory` when
        we killed it, `interrupted` when we asked it to end), and what it took: `wall_s`, `cpu_s`,
        `peak_memory_mib` of the process and all it started, as seen by polling.
    """
    memory_mib, limit_s = limits.memory_mib or MEMORY_MIB, limits.wall_s or WALL_S
    pid = os.fork()
    if pid == 0:
        _child(entry, argv, folder, memory_mib * MIB + SPARE_BYTES)
    began = time.monotonic()
    peak_kib, interrupted_s = 0, 0.0
    reason: str | None = None
    ended = 0
    handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    try:
        while not ended:
            if handle is None:
                time.sleep(POLL_S)
            else:
                select.select([handle], [], [], POLL_S)
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            wall_s = time.monotonic() - began
            peak_kib = max(peak_kib, usage.ru_maxrss if ended else _session_kib(pid))
            greedy = peak_kib > memory_mib * 1024
            if ended:
                _kill_group(pid)  # what it started and left behind
            elif reason == "interrupted":
                if stop.second_interrupt.is_set() or greedy or wall_s - interrupted_s > GRACE_S:
                    _kill_group(pid)
            elif reason is None and stop.reason() is not None:
                reason, interrupted_s = "interrupted", wall_s
                with suppress(OSError):
                    os.kill(pid, signal.SIGINT)
            elif reason is None and (greedy or wall_s > limit_s):
                reason = "wall-time" if wall_s > limit_s else "memory"
                _kill_group(pid)
    finally:
        if handle is not None:
            os.close(handle)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    if reason is None and code != 0 and greedy:
        reason = "memory"
    return {
        "exit_code": code,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        "ended_for": reason,
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_memory_mib": peak_kib / 1024,
    }


def _child(entry: Program, argv: list[str], folder: Path, address_space_bytes: int) -> None:
    """What the fork does; it never returns."""
    code = 1
    try:
        os.setsid()  # a group of its own, so that all it starts can be killed with it
        die_with_parent()
        signal.signal(signal.SIGINT, interrupt)  # by which the study asks it to end
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes, address_space_bytes))
        os.chdir(folder)
        for stream, name in ((0, os.devnull), (1, "output.json"), (2, "log.txt")):
            flags = os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            number = os.open(name, flags, 0o644)
            os.dup2(number, stream)
            os.close(number)
        code = entry(argv)
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


def _kill_group(pid: int) -> None:
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _session_kib(session: int) -> int:
    """Resident memory of all processes of a session, kibibytes; 0 where /proc is not to be had."""
    total = 0
    with suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as stream:
                # after the name: state, parent, group, session, ...; the resident pages are the 22nd of these
                fields = stream.read().rsplit(b")", 1)[1].split()
                if int(fields[3]) == session:
                    total += int(fields[21]) * (os.sysconf("SC_PAGE_SIZE") // 1024)
    return total


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Only one process or thread at a time changes what all runs of a study share."""
    try:
        lock = os.open(root / ".lock", os.O_WRONLY | os.O_CREAT, 0o644)
    except OSError as error:
        raise failed_write(f"{root}: cannot be written", error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def run_folder(root: Path, identity: str) -> Path:
    """Where a run is that ended, or will be."""
    return root / "runs" / identity[:2] / identity


def read_rows(root: Path) -> dict[str, Run]:
    """The runs of the table that ended, by identity; a line that is none is passed over: its run is done again."""
    rows: dict[str, Run] = {}
    if (root / ROWS_FILE).exists():
        with opened(root / ROWS_FILE, MAX_ROWS_BYTES) as stream:
            for line in stream:
                with suppress(ValueError, RecursionError, ValidationError):
                    run = codec.adapter(Run).validate_python(json.loads(line), strict=False)
                    rows[run.identity] = run
    return rows


def append_row(root: Path, run: Run) -> None:
    """Add a line to the table, or nothing.

    Raises:
        OSError, WriteError: it cannot be written.
    """
    document = codec.adapter(Run).dump_python(replace(run, document=None), exclude_defaults=True)
    line = json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    with locked(root):
        number = os.open(root / ROWS_FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(number).st_size
            torn = size > 0 and os.pread(number, 1, size - 1) != b"\n"  # by a kill in the middle of a line
            data = b"\n" + line if torn else line
            try:
                if os.write(number, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(number)
            except OSError:
                os.ftruncate(number, size)
                raise
        finally:
            os.close(number)


def execute(run: Run, root: Path, entry: Program, stop: Stop, owner: int) -> Run:
    """Do a run and keep it, unless the machine failed or it was interrupted with nothing to show; gives its row."""
    try:
        with scratch_folder(root / "unfinished", owner) as folder:
            ending = run_forked(entry, arguments_of(run, folder), folder, run.limits, stop)
            result = row_of_ending(run, folder, ending)
            cut = result.outcome == "interrupted"
            # what was cut short takes the place of nothing else
            if result.outcome != "environment" and not (
                cut and (run.outcome not in ("missing", "interrupted") or not (result.output or {}).get("objective"))
            ):
                publish(folder, run_folder(root, run.identity), owner)
                append_row(root, result)
    except (OSError, MachineError, WriteError) as error:  # of the folder: what the run does raises none
        return replace(run, outcome="environment", reason=str(error))
    return result


def publish(folder: Path, final: Path, owner: int) -> None:
    """Give a folder its final name, in place of one from before; nothing is left of it if another study is quicker."""
    final.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(3):
        if final.exists():
            with suppress(OSError), scratch_folder(folder.parent, owner) as aside:
                os.rename(final, aside / "before")
        try:
            os.rename(folder, final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return


def arguments_of(run: Run, folder: Path) -> list[str]:
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


def row_of_ending(run: Run, folder: Path, ending: dict[str, Any]) -> Run:
    """A run after its process ended."""
    try:
        data = load_document(folder / "output.json").data
    except InputError:
        data = None
    output = data if isinstance(data, dict) else None
    outcome, reason = _outcome(run.limits, ending, output, folder)
    return replace(
        run,
        outcome=outcome,
        reason=reason,
        exit_code=ending["exit_code"],
        wall_s=round(ending["wall_s"], 4),
        cpu_s=round(ending["cpu_s"], 4),
        peak_memory_mib=round(ending["peak_memory_mib"], 1),
        finished_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        output=output,
    )


def _outcome(
    limits: Limits, ending: dict[str, Any], output: dict[str, Any] | None, folder: Path
) -> tuple[Outcome, str]:
    """Outcome and, unless all is well, its reason in words."""
    code = ending["exit_code"]
    if ending["ended_for"] == "interrupted" and code not in OUTCOMES:  # else it was done by then
        return "interrupted", "the study was stopped"
    if ending["ended_for"] == "wall-time":
        return "timed-out", f"killed after {limits.wall_s or WALL_S:g} s"
    if ending["ended_for"] == "memory":
        return "out-of-memory", f"killed at more than {limits.memory_mib} MiB"
    if code is None:
        return "crashed", f"killed by signal {ending['signal']}"
    outcome = OUTCOMES.get(code, "crashed")
    if outcome == "done":
        return ("crashed", "printed no result") if output is None else ("done", "")
    last = (str(output.get("error", "")) if output else "") or _last_line(folder)
    if outcome == "crashed" and ("out of memory" in last or "MemoryError" in last or "bad_alloc" in last):
        return "out-of-memory", last
    return outcome, last or f"exit code {code}"


def _last_line(folder: Path) -> str:
    try:
        with opened(folder / "log.txt", MAX_ROWS_BYTES) as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - LOG_BYTES))
            text = stream.read(LOG_BYTES).decode("utf-8", "replace")
    except InputError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def clean(root: Path) -> None:
    """Remove what studies that are no longer alive on this machine left unfinished."""
    folder = root / "unfinished"
    folder.mkdir(exist_ok=True)
    host = os.uname().nodename
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
