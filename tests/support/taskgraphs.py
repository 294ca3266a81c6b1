"""The released task graphs of the FlexNet search, where they are at hand."""

from __future__ import annotations

import pytest

from tests.support.paths import SHARED_DATA
from topoopt.formats.flexnet import FlexnetFile, read_flexnet_taskgraph

TASKGRAPHS = SHARED_DATA / "flexnet" / "taskgraphs"


def shared(name: str) -> FlexnetFile:
    """A released task graph, or skip."""
    path = TASKGRAPHS / f"{name}.fbuf"
    if not path.exists():
        pytest.skip(f"shared data absent: {path}")
    return read_flexnet_taskgraph(path)
