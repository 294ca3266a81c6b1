"""The optical switches: the permutation each one realises, drawn, in words and ready to copy."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Int32s
from topoopt.core.topology import Topology
from topoopt.drawing.format import counted
from topoopt.drawing.svg import element, picture
from topoopt.drawing.topology_picture import chord

PICTURE = 132.0


@dataclass(frozen=True)
class SwitchRow:
    """One optical switch: picture, what its permutation is, and the permutation for copying."""

    index: int
    kind: str
    figure: Markup
    pairs: str
    json: str


def describe_permutation(row: Int32s) -> str:
    """In words: a shift, a matching, or its cycles; with the dark ports."""
    n = len(row)
    lit = np.flatnonzero(row >= 0)
    dark = n - len(lit)
    tail = f", {counted(dark, 'dark port')}" if dark else ""
    if not len(lit):
        return "all ports dark"
    steps = {int(row[i] - i) % n for i in lit}
    if len(steps) == 1:
        step = steps.pop()
        sign = f"+{step}" if 2 * step <= n else f"−{n - step}"
        return f"server i → i {sign[0]} {sign[1:]} (mod {n}){tail}"
    if all(row[row[i]] == i for i in lit):
        return f"matching of {counted(len(lit) // 2, 'pair')}{tail}"
    return f"permutation, {counted(_cycles(row), 'cycle')}{tail}"


def _cycles(row: Int32s) -> int:
    seen = np.zeros(len(row), dtype=bool)
    count = 0
    for start in range(len(row)):
        if seen[start] or row[start] < 0:
            continue
        count += 1
        node = start
        while node >= 0 and not seen[node]:
            seen[node] = True
            node = int(row[node])
    return count


def _switch_picture(row: Int32s, index: int) -> Markup:
    n = len(row)
    angle = 2 * math.pi * np.arange(n) / n - math.pi / 2
    x, y = PICTURE / 2 + 58 * np.cos(angle), PICTURE / 2 + 58 * np.sin(angle)
    chords = "".join(
        chord((float(x[i]), float(y[i])), (float(x[j]), float(y[j])), PICTURE / 2, n)
        for i, j in enumerate(row)
        if j >= 0
    )
    width = 1.6 if n <= 32 else 0.8 if n <= 128 else 0.5
    return picture(
        element("circle", cx=PICTURE / 2, cy=PICTURE / 2, r=58.0, class_="rim"),
        element("path", d=chords, class_=f"lk k{index % 8}", stroke_width=width),
        label=f"Permutation of switch {index}",
        viewBox=f"0 0 {PICTURE:.0f} {PICTURE:.0f}",
        class_="switch",
    )


def switch_rows(topology: Topology) -> tuple[SwitchRow, ...]:
    """All optical switches, in interface order."""
    return tuple(
        SwitchRow(
            index=index,
            kind=describe_permutation(row),
            figure=_switch_picture(row, index),
            pairs="  ".join(f"{i}→{j}" if j >= 0 else f"{i}→dark" for i, j in enumerate(row.tolist())),
            json=json.dumps(row.tolist(), separators=(",", ":")),
        )
        for index, row in enumerate(topology.switches)
    )
