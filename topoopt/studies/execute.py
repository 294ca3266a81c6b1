"""Do one run: folder, instance, process, verdict, and its name at last. The same code under every executor."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from topoopt.core.arrays import GIB
from topoopt.core.comparison import StudyRun
from topoopt.core.errors import InputError, MachineError
from topoopt.files.atomic import WriteError, write_text_atomically
from topoopt.files.documents import load_document
from topoopt.files.untrusted import opened
from topoopt.studies.process import Ending, Worker
from topoopt.studies.stopping import StudyStop
from topoopt.studies.store import RUN_FILE, Store

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

INTERRUPTED = "interrupted"
"""Outcome of a run that the end of the study cut short; the best it had is kept until the run is done again."""

FAILURES = ("refused", "check-failed", "crashed", "timed-out", "out-of-memory", INTERRUPTED)
"""Outcomes that `--retry-failed` does again; the others are answers."""


def execute(run: StudyRun, store: Store, worker: Worker, stop: StudyStop, *, replace: bool = False) -> dict[str, Any]:
    """Do a run and keep it, unless the machine failed or it was interrupted with nothing to show; gives its record."""
    try:
        with store.working(run) as place:
            argv = arguments_of(run, place)
            ending = worker.run(argv, place, run.limits, stop)
            record = record_of(run, place, ending)
            cut = record["outcome"] == INTERRUPTED
            if record["outcome"] != ENVIRONMENT and (not cut or (record["output"] or {}).get("objective")):
                text = json.dumps(record, indent=1, allow_nan=False) + "\n"
                write_text_atomically(place / RUN_FILE, text)
                # what was cut short takes the place of nothing else
                again = (replace and not cut) or (store.record(run.identity) or {}).get("outcome") == INTERRUPTED
                store.publish(place, run.identity, replace=again)
    except (OSError, MachineError, WriteError) as error:  # of the folder: what the run does is not told by errors
        return {"identity": run.identity, "instance": run.instance, "outcome": ENVIRONMENT, "reason": str(error)}
    return record


def arguments_of(run: StudyRun, place: Path) -> list[str]:
    """Arguments of the command line, paths relative to the folder of the run; writes the instance there."""
    words = [*run.command]
    if run.document is not None:
        write_text_atomically(place / "instance.json", run.document + "\n")
        words.append("instance.json")
    elif run.source:
        words.append(run.source)
    if run.command == ("solve",):
        words += ["--out", "."]
    return [*words, *run.arguments, "--json"]


def record_of(run: StudyRun, place: Path, ending: Ending) -> dict[str, Any]:
    """run.json: what was run, and how it ended."""
    output = _output(place)
    outcome, reason = _outcome(ending, output, run, place)
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


def _output(place: Path) -> dict[str, Any] | None:
    """The JSON object the command printed."""
    try:
        data = load_document(place / "output.json").data
    except InputError:
        return None
    return data if isinstance(data, dict) else None


def _outcome(ending: Ending, output: dict[str, Any] | None, run: StudyRun, place: Path) -> tuple[str, str]:
    """Outcome and, unless all is well, its reason in words."""
    limits = run.limits
    if ending.ended_for == "interrupted" and ending.exit_code not in OUTCOMES:  # else it was done by then
        return INTERRUPTED, "the study was stopped"
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
        last = said or _last_line(place)
        if "out of memory" in last or "MemoryError" in last or "bad_alloc" in last:
            return "out-of-memory", last
        return "crashed", last or f"exit code {ending.exit_code}"
    return outcome, said or _last_line(place) or f"exit code {ending.exit_code}"


def _last_line(place: Path) -> str:
    try:
        with opened(place / "log.txt", MAX_LOG_BYTES) as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - LOG_BYTES))
            text = stream.read(LOG_BYTES).decode("utf-8", "replace")
    except InputError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
