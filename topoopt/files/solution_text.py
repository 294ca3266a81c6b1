"""The text of solution files of all kinds: one line for each top-level key, and for each row of long tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from topoopt.core.errors import TopooptError


def _plain(value: object) -> object:
    """Numbers of numpy that slipped into a field of a plain type."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a solution holds a {type(value).__name__}")


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


def solution_text(document: Mapping[str, Any], *, rows: Collection[str] = (), nested: Collection[str] = ()) -> str:
    """JSON text; equal documents give equal bytes.

    Args:
        document: plain data.
        rows: keys of lists with a line for each entry, unless they are empty.
        nested: keys of mappings with a line for each of their keys.

    Raises:
        TopooptError: a number is NaN or infinite (a bug of what made the solution).
    """
    try:
        lines = []
        for key, value in document.items():
            if key in rows and value:
                inner = ",\n".join(f"  {_dump(row)}" for row in value)
                lines.append(f" {_dump(key)}: [\n{inner}\n ]")
            elif key in nested and isinstance(value, dict):
                inner = ",\n".join(f"  {_dump(name)}: {_dump(item)}" for name, item in value.items())
                lines.append(f" {_dump(key)}: {{\n{inner}\n }}")
            else:
                lines.append(f" {_dump(key)}: {_dump(value)}")
    except ValueError as error:
        raise TopooptError(f"the solution cannot be written: {error}") from error
    return "{\n" + ",\n".join(lines) + "\n}\n"
