"""How plain data show themselves: one line in a console, a picture in a notebook; never ten thousand numbers."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

MOST_ITEMS = 6
MOST_LETTERS = 60


class Shown:
    """A dataclass with a short `repr`: arrays by type and shape, long collections by their number of items.

    The decorator of a subclass needs `repr=False`, or it writes a `repr` of its own.
    """

    def __repr__(self) -> str:
        known = ((field.name, getattr(self, field.name)) for field in fields(self) if field.repr)  # type: ignore[arg-type]
        inside = ", ".join(f"{name}={short(value)}" for name, value in known)
        return f"{type(self).__name__}({inside})"


class Displayed(Shown):
    """The same, and shown by notebooks: problems, solutions, topologies."""

    def _repr_html_(self) -> str:
        return str(views().html_of(self))


def views() -> Any:
    """The module that makes documents, tables and HTML of plain data.

    It is found by name when a method is called: methods of problems and solutions that need more than numpy stand
    there, far above core, and nothing in core depends on what they give.
    """
    return importlib.import_module("topoopt.library.views")


def short(value: object) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Enum):
        return str(value.value)
    if is_dataclass(value):
        text = repr(value) if not isinstance(value, Displayed) else ""
        return text if 0 < len(text) <= MOST_LETTERS else f"<{type(value).__name__}>"
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        text = repr(value) if len(value) <= MOST_ITEMS else ""
        return text if 0 < len(text) <= MOST_LETTERS else f"<{len(value)} items>"
    text = repr(value)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 3]}..."
