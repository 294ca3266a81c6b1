"""Hands the hand-made solutions to the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from tests.support import make_solution as module
from tests.support.handmade import HandmadeResult


@pytest.fixture(scope="session")
def handmade() -> ModuleType:
    """The module of hand-made solutions."""
    return module


@pytest.fixture(scope="session")
def make_solution() -> Callable[..., HandmadeResult]:
    """Builder of hand-made solutions."""
    return module.make_solution
