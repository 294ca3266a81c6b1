"""A topology as a list of its links, one a line."""

from __future__ import annotations

from pathlib import Path

from topoopt.core.network_solution import NetworkSolution
from topoopt.core.units import MIB
from topoopt.files.untrusted import read_text
from topoopt.formats.exporter import Export, Exporter, ExportOptions


def build(solution: NetworkSolution, options: ExportOptions) -> Export:
    """Tail and head of every arc."""
    arcs = [(int(tail), int(head)) for tail, head in solution.topology.arcs]
    text = "".join(f"{tail} {head}\n" for tail, head in arcs)
    return Export((("edges.txt", text.encode()),), arcs, ())


def read_back(folder: Path) -> object:
    """The arcs of the one file of a folder."""
    lines = read_text(folder / "edges.txt", MIB).splitlines()
    return [tuple(map(int, line.split())) for line in lines]


EXPORTER = Exporter(("routing", "topology"), "one line a link", ("no rates",), False, build, read_back)
