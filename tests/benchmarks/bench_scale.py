"""Whole solves of large clusters without options: processor time of one core, peak memory and what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.benchmarks.figures import Figure
from tests.support.paths import INSTANCES

MODELS = ("dlrm", "candle", "bert", "vgg", "resnet", "ncf", "gpt", "moe")

GOAL_S = {128: 120.0, 432: 300.0, 1024: 600.0, 4096: 1200.0}
"""Processor time by servers; the last is what is bearable, no more."""

GOAL_GIB = 2.0

GOAL_GAP_PERCENT = 20.0


class _Solved(NamedTuple):
    """One solve in a process of its own.

    Attributes:
        seconds: of processor time.
        gib: of memory at its peak.
        summary: what `--json` tells.
    """

    seconds: float
    gib: float
    summary: dict[str, Any]


def scale_figures(servers: int, models: tuple[str, ...] = MODELS) -> list[Figure]:
    """Solve the shipped instance of each model with so many servers in place of its own, and the default budget."""
    figures = []
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            _solved(model, 16, Path(folder), ("--budget", "40"))  # kernels are compiled and kept
            solved = _solved(model, servers, Path(folder))
        name, summary = f"{model} on {servers}", solved.summary
        plain_ms = summary["initial_ms"]  # none where data parallelism does not fit
        figures += [
            Figure(f"{name}: solve, processor time", solved.seconds, "s", GOAL_S[servers]),
            Figure(f"{name}: peak memory", solved.gib, "GiB", GOAL_GIB),
            Figure(f"{name}: iteration (data parallel)", summary["iteration_time_ms"], "ms", plain_ms or inf),
            Figure(f"{name}: gap", 100 * summary["gap"], "%", GOAL_GAP_PERCENT),
        ]
    return figures


def _solved(model: str, servers: int, folder: Path, options: tuple[str, ...] = ()) -> _Solved:
    """Solve the shipped instance of a model with so many servers.

    Raises:
        RuntimeError: it failed.
    """
    shipped = next(path for n in (128, 16) if (path := INSTANCES / f"{model}-{n}.yaml").exists())
    document = yaml.safe_load(shipped.read_text())
    document["name"], document["cluster"]["servers"] = f"{model}-{servers}", servers
    document["search"].pop("budget")
    instance = folder / f"{model}-{servers}.yaml"
    instance.write_text(yaml.safe_dump(document, sort_keys=False))
    command = [
        sys.executable,
        "-m",
        "topoopt.cli.main",
        "solve",
        instance,
        "--output",
        folder / "out",
        "--json",
        *options,
    ]
    told = folder / "told.json"
    with told.open("w") as stdout, subprocess.Popen(command, stdout=stdout) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{model} on {servers} servers ended with exit code {process.returncode}")
    return _Solved(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024**2, json.loads(told.read_text()))
