"""Whole solves: a 128-server DLRM must beat its starting plan, in memory under 1 GiB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

from tests.benchmarks.figures import Figure


def solve_figures() -> list[Figure]:
    """Run `topoopt solve instances/dlrm-128.yaml` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "topoopt.cli.main",
            "solve",
            "instances/dlrm-128.yaml",
            "--output",
            folder,
            "--json",
        ]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            document = json.loads(process.stdout.read())
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
        wall = time.perf_counter() - began
    gain = document["iteration_time_ms"] / document["initial_ms"]
    return [
        Figure("dlrm on 128: solve, wall time", wall, "s", 300.0),
        Figure("dlrm on 128: peak memory", usage.ru_maxrss / 1024**2, "GiB", 1.0),
        Figure("dlrm on 128: iteration time / starting plan's", gain, "", 0.999),
    ]
