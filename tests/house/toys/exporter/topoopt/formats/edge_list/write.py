"""A topology as a list of its links, one a line."""

from __future__ import annotations

from typing import Any

from topoopt.core.result import Result
from topoopt.formats.table import Export, Exporter, ExportOptions


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Tail and head of every arc."""
    arcs = [(int(tail), int(head)) for tail, head in solution.figures.topology.arcs]
    text = "".join(f"{tail} {head}\n" for tail, head in arcs)
    return Export((("edges.txt", text.encode()),), arcs, ())


EXPORTER = Exporter(("routing", "topology"), "one line a link", ("no rates",), False, build)
