"""Literal tables of plug-ins, which are loaded when they are asked for: names alone cost nothing."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

PlugIn = TypeVar("PlugIn")


class PlugIns(Mapping[str, PlugIn], Generic[PlugIn]):
    """Name -> constant of a module, in the order of the table.

    Args:
        places: where each stands, as `module:constant`.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> PlugIn:
        module, _, constant = self._places[name].partition(":")
        found: PlugIn = getattr(importlib.import_module(module), constant)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
