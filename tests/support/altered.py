"""A function replaced wherever it was imported to, so that whoever shares its code shares the change."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

OURS = ("topoopt", "solvers", "formulations")


def altered_everywhere(patch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Let every caller of `module:function` have `change(result)`; gives the function as it was."""
    module, _, attribute = name.partition(":")
    original: Callable[..., Any] = getattr(importlib.import_module(module), attribute)

    def changed(*values: Any, **named: Any) -> Any:
        return change(original(*values, **named))

    for loaded in [entry for name, entry in sys.modules.items() if name.split(".")[0] in OURS]:
        for key, value in list(vars(loaded).items()):
            if value is original:
                patch.setattr(loaded, key, changed)
    return original
