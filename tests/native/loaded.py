"""Puts the checked native module in the place of the ordinary one, where the environment names it."""

from __future__ import annotations

import importlib.util
import os
import sys

NAME = "topoopt.native._native"


def load_checked() -> None:
    """To be called before anything imports `topoopt.native`."""
    path = os.environ.get("TOPOOPT_CHECKED_MODULE")
    if path is None or NAME in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
