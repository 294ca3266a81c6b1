"""Which kind of instance a solution file belongs to, read before the reader of that kind is chosen."""

from __future__ import annotations

import os
from collections.abc import Collection

from topoopt.core.units import MIB
from topoopt.files.documents import Document, Limits, parse_document
from topoopt.files.faults import Fault, nearest_text, value_text

LIMITS = Limits(json_bytes=256 * MIB, json_nodes=40_000_000)
SUFFIX = "-solution"


def solution_kind(path: str | os.PathLike[str], kinds: Collection[str]) -> str:
    """Kind of the instance that a solution file (JSON) solves, one of `kinds`.

    Raises:
        InputError: no JSON document, or not a solution of any of the kinds.
    """
    return solution_document(path, kinds)[0]


def solution_document(path: str | os.PathLike[str], kinds: Collection[str]) -> tuple[str, Document]:
    """The same, and the document, so that its reader need not parse it again."""
    document = parse_document(path, LIMITS)
    data = document.data
    kind = data.get("kind") if isinstance(data, dict) else None
    if isinstance(kind, str) and kind.endswith(SUFFIX) and kind.removesuffix(SUFFIX) in kinds:
        return kind.removesuffix(SUFFIX), document
    allowed = nearest_text(kind, [f"{name}{SUFFIX}" for name in kinds])
    document.refuse([Fault(("kind",), "not a solution", value_text(kind), allowed)])
    raise AssertionError("refuse returned with a fault")
