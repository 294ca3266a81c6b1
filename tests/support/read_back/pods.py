"""Reader of patch lists of pods: ports of the switch, and pod and port at either end."""

from __future__ import annotations

import csv
from pathlib import Path

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.files.untrusted import parsing, read_text
from topoopt.formats.patch_list import PODS_FILE, PODS_HEAD, PodCircuit, pod_lines

MAX_BYTES = 256 * MIB


def read_pod_circuits(folder: Path) -> frozenset[PodCircuit]:
    """Circuits as the table has them.

    Raises:
        InputError: a port used twice, other columns, a row that is none, or a text that says something else.
    """
    first, *rows = list(csv.reader(read_text(folder / PODS_FILE, MAX_BYTES).splitlines())) or [[]]
    if tuple(first) != PODS_HEAD:
        raise InputError([Problem("not the columns of this file", file=PODS_FILE, allowed=",".join(PODS_HEAD))])
    with parsing(PODS_FILE, "a list of circuits"):
        found: list[PodCircuit] = []
        for row in rows:
            one, other, pod, port, peer, peer_port = map(int, row)
            found.append((one, other, pod, port, peer, peer_port))
    ends = [end for circuit in found for end in circuit[:2]]
    if len(set(ends)) < len(ends):
        raise InputError([Problem("a port of the switch is used twice", file=PODS_FILE)])
    if read_text(folder / "patch-list.txt", MAX_BYTES).splitlines() != list(pod_lines(found)):
        raise InputError([Problem("the text says something else", file=PODS_FILE)])
    return frozenset(found)
