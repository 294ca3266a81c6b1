"""Hands the hand-made solutions to the tests of this folder."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from topoopt.core.solution import Solution


@pytest.fixture(scope="session")
def handmade() -> ModuleType:
    """The module `make_solution`, loaded by path: test folders are not packages."""
    spec = importlib.util.spec_from_file_location("report_make_solution", Path(__file__).with_name("make_solution.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def make_solution(handmade: ModuleType) -> Callable[..., Solution]:
    """Builder of hand-made solutions."""
    builder: Callable[..., Solution] = handmade.make_solution
    return builder
