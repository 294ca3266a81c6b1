"""Topology text of the ns-3 backend: `nodes switches links`, the switches, then one link a line."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.files.faults import value_text
from topoopt.files.untrusted import read_text
from topoopt.formats.astrasim.ns3 import Ns3Link, Ns3Topology

MAX_TEXT = 256 * MIB
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_RATE = re.compile(rf"({_NUMBER})([KMG]?)bps", re.ASCII)
_DELAY = re.compile(rf"({_NUMBER})(ns|us|ms|s)", re.ASCII)
GBPS = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0}
MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass(frozen=True)
class _Line:
    number: int
    cells: list[str]


def text_topology_problems(path: str | os.PathLike[str]) -> list[Problem]:
    """Why a file that is topology text of ns-3 is not imported, its counts among it; nothing for any other file.

    SimAI's text has a first line of six fields: nodes, GPUs a server, NVSwitches, other switches, links, a GPU. That of
    ASTRA-sim has three: nodes, switches, links.
    """
    file = os.fspath(path)
    lines = [_Line(number, raw.split()) for number, raw in enumerate(read_text(file, MAX_TEXT).splitlines(), 1)]
    lines = [line for line in lines if line.cells]
    head = lines[0].cells if lines else []
    name, counted = {3: ("ASTRA-sim", 3), 6: ("SimAI", 5)}.get(len(head), ("", 0))
    if not counted or not all(_WHOLE.fullmatch(cell) for cell in head[:counted]) or len(lines) < 2:
        return []
    allowed = "the analytical network of ASTRA-sim (.yml); or links as a table: source, target, rate"
    shown = value_text(" ".join(head))
    problems = [Problem(f"topology text of ns-3 ({name}) is not imported", file, lines[0].number, None, shown, allowed)]
    links, stated = [line for line in lines[1:] if _is_link(line.cells)], int(head[counted - 1])
    if len(links) != stated:
        message = f"the first line says {stated} links, {len(links)} stand in the file"
        problems.append(Problem(message, file, lines[0].number, None, shown, str(len(links))))
    return problems


def _is_link(cells: list[str]) -> bool:
    return len(cells) >= 3 and _RATE.fullmatch(cells[2]) is not None


def read_ns3_topology(path: str | os.PathLike[str]) -> Ns3Topology:
    """Read a topology.

    Raises:
        InputError: every line that is wrong.
    """
    file = os.fspath(path)
    text = read_text(file, MAX_TEXT)
    lines = [_Line(number, raw.split()) for number, raw in enumerate(text.splitlines(), 1) if raw.strip()]
    problems: list[Problem] = []

    def wrong(line: _Line, message: str, allowed: str) -> None:
        problems.append(Problem(message, file, line.number, None, value_text(" ".join(line.cells)), allowed))

    if not lines or len(lines[0].cells) != 3 or not all(_WHOLE.fullmatch(cell) for cell in lines[0].cells):
        allowed = "a first line with the numbers of nodes, switches and links"
        raise InputError([Problem("not a topology of the ns-3 backend", file, allowed=allowed)])
    nodes, switches, links = (int(cell) for cell in lines[0].cells)
    body = lines[1:]
    listed = body.pop(0) if switches and body else _Line(1, [])
    marked = tuple(int(cell) for cell in listed.cells if _WHOLE.fullmatch(cell))
    if len(marked) != len(listed.cells) or len(set(marked)) != switches or any(one >= nodes for one in marked):
        wrong(listed, "not the list of switches", f"{switches} different numbers less than {nodes}")
    if len(body) != links:
        problems.append(Problem("wrong number of links", file, None, None, str(len(body)), str(links)))
    found = []
    for line in body:
        link = _link(line.cells, nodes)
        if link is None:
            wrong(line, "not a link", f"two nodes less than {nodes}, rate (400Gbps), delay (0.0005ms), error rate")
        else:
            found.append(link)
    if problems:
        raise InputError(problems[:50])
    return Ns3Topology(nodes, marked, tuple(found))


def _link(cells: list[str], nodes: int) -> Ns3Link | None:
    if len(cells) != 5 or not all(_WHOLE.fullmatch(cell) for cell in cells[:2]):
        return None
    source, target = int(cells[0]), int(cells[1])
    rate, delay, error = _RATE.fullmatch(cells[2]), _DELAY.fullmatch(cells[3]), re.fullmatch(_NUMBER, cells[4])
    if max(source, target) >= nodes or source == target or rate is None or delay is None or error is None:
        return None
    return Ns3Link(source, target, float(rate[1]) * GBPS[rate[2]], float(delay[1]) * MS[delay[2]], float(cells[4]))
