"""Whole solves of large clusters without options: processor time of one core and peak memory, by model and size."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.benchmarks.figures import Figure
from tests.support.paths import INSTANCES

MODELS = ("dlrm", "candle", "bert", "vgg", "resnet", "ncf", "gpt", "moe")

GOAL_S = {128: 120.0, 432: 300.0, 1024: 600.0, 4096: 1200.0}
"""Processor time by servers; the last is what is bearable, no more."""

GOAL_GIB = 2.0


def scale_figures(servers: int, models: tuple[str, ...] = MODELS) -> list[Figure]:
    """Solve the shipped instance of each model with so many servers in place of its own, and the default budget."""
    figures = []
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            _solved(model, 16, Path(folder), ("--budget", "40"))  # kernels are compiled and kept
            seconds, gib = _solved(model, servers, Path(folder))
        figures.append(Figure(f"{model} on {servers}: solve, processor time", seconds, "s", GOAL_S[servers]))
        figures.append(Figure(f"{model} on {servers}: peak memory", gib, "GiB", GOAL_GIB))
    return figures


def _solved(model: str, servers: int, folder: Path, options: tuple[str, ...] = ()) -> tuple[float, float]:
    """(processor seconds, GiB) of one solve in a process of its own.

    Raises:
        RuntimeError: it failed.
    """
    shipped = next(path for n in (128, 16) if (path := INSTANCES / f"{model}-{n}.yaml").exists())
    document = yaml.safe_load(shipped.read_text())
    document["name"], document["cluster"]["servers"] = f"{model}-{servers}", servers
    document["search"].pop("budget")
    instance = folder / f"{model}-{servers}.yaml"
    instance.write_text(yaml.safe_dump(document, sort_keys=False))
    command = [sys.executable, "-m", "topoopt.cli.main", "solve", instance, "--out", folder / "out", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{model} on {servers} servers ended with exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024**2
