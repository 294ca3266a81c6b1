"""Tables of plug-ins, loaded when asked for: literal tables of our own, then entry points of other packages."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Generic, TypeVar

PlugIn = TypeVar("PlugIn")


class PlugInNames(Mapping[str, str]):
    """Name -> where the plug-in stands: those of the literal table, then those of other packages.

    Parameters
    ----------
    table : in the order in which lists name them.
    group : of entry points, such as `topoopt.kinds`; other packages add plug-ins by it. None: nobody does.
    """

    def __init__(self, table: Mapping[str, str], group: str | None = None) -> None:
        self._table = table
        self._group = group

    @cached_property
    def _others(self) -> Mapping[str, str]:
        """Entry points, looked for once, and only where the literal table is not enough."""
        from importlib.metadata import entry_points

        points = () if self._group is None else entry_points(group=self._group)
        for point in points:
            if point.name in self._table:
                text = f"the entry point {point.value} of {self._group} is left out: {point.name} is a name of topoopt"
                warnings.warn(text, stacklevel=2)
        return {point.name: point.value for point in points if point.name not in self._table}

    def __getitem__(self, name: str) -> str:
        return self._table[name] if name in self._table else self._others[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._table
        yield from self._others

    def __len__(self) -> int:
        return len(self._table) + len(self._others)


class PlugIns(Mapping[str, PlugIn], Generic[PlugIn]):
    """Name -> constant of a module, in the order of the table.

    Parameters
    ----------
    table : where each stands, as `module:constant`.
    group : of entry points of other packages.
    """

    def __init__(self, table: Mapping[str, str], group: str | None = None) -> None:
        self._names = PlugInNames(table, group)

    def __getitem__(self, name: str) -> PlugIn:
        module, _, constant = self._names[name].partition(":")
        plug_in: PlugIn = getattr(importlib.import_module(module), constant)
        return plug_in

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
