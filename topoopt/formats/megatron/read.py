"""The files that `write` makes, read as a launcher would."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from topoopt.files.untrusted import read_text

ARGUMENTS_FILE, HOST_FILE, RANKS_FILE = "arguments.txt", "hostfile", "ranks.csv"
MOST_BYTES = 1 << 28


def read_megatron(folder: Path) -> dict[str, Any]:
    """Arguments by name, hosts with slots, rows of ranks."""
    lines = read_text(folder / ARGUMENTS_FILE, MOST_BYTES).splitlines()
    pairs = [line.partition(" ") for line in lines]
    hosts = [line.split(" slots=") for line in read_text(folder / HOST_FILE, MOST_BYTES).splitlines()]
    rows = list(csv.reader(io.StringIO(read_text(folder / RANKS_FILE, MOST_BYTES))))
    return {
        "arguments": {name: value for name, _, value in pairs},
        "hosts": [(name, int(slots)) for name, slots in hosts],
        "ranks": [tuple(row) for row in rows[1:]],
    }
