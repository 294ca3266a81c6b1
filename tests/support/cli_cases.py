"""Instances made for the tests of the command line, and ways to run a command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.paths import ROOT
from topoopt.cli.app import app

DATA = Path("../shared/data/flexnet")

SOLVING_KEYS = {
    "kind",
    "name",
    "status",
    "stopped_by",
    "objective",
    "bound",
    "gap",
    "check",
    "seed",
    "wall_s",
    "versions",
    "instance_sha256",
    "solution",
}
"""Keys every solving command prints with `--json`."""

JOB_CHECKED = {"ok": True, "violations": [], "not_recomputed": []}
"""What the checker says of the whole solution of a small job."""

GIB = 2**30


def operator(
    name: str,
    servers: int,
    inputs: Sequence[str] = (),
    *,
    parts: Sequence[int] | None = None,
    time_ms: float = 1.0,
    weights: int = 1_000_000,
    outputs: int = 1000,
    memory_bytes: int = 0,
    pinned_offset: int | None = None,
) -> dict[str, Any]:
    """A dense operator; on k servers it takes a k-th of the time (twice that backward) and of the memory each."""
    ways = [k for k in range(1, servers + 1) if servers % k == 0] if parts is None else parts
    return {
        "name": name,
        "kind": "dense",
        "output_elements": outputs,
        "element_bytes": 4,
        "weight_elements": [weights] if weights else [],
        "inputs": [{"operator": each} for each in inputs],
        "pinned_offset": pinned_offset,
        "splits": [
            {
                "sample_ways": k,
                "forward_ms": time_ms / k,
                "backward_ms": 2 * time_ms / k,
                "server_memory_bytes": memory_bytes // k,
            }
            for k in ways
        ],
    }


def chain(servers: int, length: int = 4, **fields: Any) -> list[dict[str, Any]]:
    """Operators o0 -> o1 -> ..."""
    return [operator(f"o{i}", servers, [f"o{i - 1}"] if i else [], **fields) for i in range(length)]


def job(
    servers: int,
    degree: int,
    operators: list[dict[str, Any]],
    *,
    search: Mapping[str, Any] | None = None,
    samples: int | None = None,
    **cluster: Any,
) -> dict[str, Any]:
    """An instance document of two GPUs a server and 100 Gbit/s links, searched for 60 proposals."""
    return {
        "schema_version": 1,
        "kind": "co-optimisation",
        "name": "case",
        "cluster": {"servers": servers, "gpus_per_server": 2, "degree": degree, "link_gbps": 100.0, **cluster},
        "workload": {"name": "made up", "samples": samples or 60 * servers, "operators": operators},
        "search": {"budget": 60, **(search or {})},
    }


def write(folder: Path, document: Mapping[str, Any], name: str = "case.json") -> Path:
    """The document as a file."""
    path = folder / name
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Run:
    """What a command did."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """Standard output, which must be one JSON object and nothing else."""
        document = json.loads(self.stdout)
        assert isinstance(document, dict)
        return document


def run(*words: object) -> Run:
    """A command in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Run(result.exit_code, result.stdout, result.stderr)


HEED = (
    "error",
    *(f"ignore::ResourceWarning:{name}" for name in ("importlib._bootstrap_external", "_frozen_importlib_external")),
)
"""Warnings are errors, but for files that Python's own importer leaves open when a signal comes in between."""


def process(*words: object, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
    """A command in a process of its own, warnings as errors, its output in pipes."""
    heeding = {"preexec_fn": _heed_hangups} if os.name == "posix" else {}
    return subprocess.Popen(
        [sys.executable, *(f"-W{rule}" for rule in HEED), "-m", "topoopt.cli.main", *map(str, words)],
        cwd=ROOT,
        **heeding,
        env={**os.environ, **(env or {})},
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def _heed_hangups() -> None:
    """These tests may run under `nohup`, which children would inherit."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def run_apart(*words: object, env: Mapping[str, str] | None = None, **options: Any) -> Run:
    """A command in a process of its own, waited for."""
    with process(*words, env=env, **options) as child:
        stdout, stderr = child.communicate(timeout=300)
        return Run(child.returncode, stdout or "", stderr or "")


def shared(name: str) -> Path:
    """A file of the shared data, or skip."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"shared data absent: {path}")
    return path.resolve()


def refusals(document: Mapping[str, Any]) -> list[tuple[str | None, str | None, str]]:
    """(path, value, message) of the problems of a refused command, whose document must say so in all its keys."""
    assert document["status"] == "unknown"
    assert document["stopped_by"] == "error"
    assert document["exit_code"] == 2
    assert document["error"]
    return [(problem["path"], problem["value"], problem["message"]) for problem in document["problems"]]


TELLING = r"""
import os, sys
from solvers.timing import Timing
from topoopt.cli.main import main
begin = Timing.for_search
def telling(*values):
    os.write(2, b"search begins\n")
    return begin(*values)
Timing.for_search = telling
sys.argv = ["topoopt", *{words!r}]
main()
"""


def searching(*words: object) -> subprocess.Popen[str]:
    """A command in a process of its own, whose search has begun; or which ended before."""
    script = TELLING.format(words=[str(word) for word in words])
    heeding = {"preexec_fn": _heed_hangups} if os.name == "posix" else {}
    child = subprocess.Popen(
        [sys.executable, *(f"-W{rule}" for rule in HEED), "-c", script],
        cwd=ROOT,
        **heeding,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    await_search(child)
    return child


def await_search(child: subprocess.Popen[str]) -> None:
    """Wait until a search begins, the next one after that waited for before; or until the process ends."""
    assert child.stderr is not None
    while (line := child.stderr.readline()) and line != "search begins\n":
        pass
