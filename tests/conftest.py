"""Fixtures of several folders. Property tests draw the same examples in every run; profile `random` draws others."""

from __future__ import annotations

import copy
import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.native.loaded import load_checked
from tests.support.case_times import CaseTimes, chosen, read_times

if TYPE_CHECKING:
    from topoopt.core.job import CoOptimisation, JobPlan
    from topoopt.core.result import Result

load_checked()

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("same")

# What this process has imported, the commands that tests start need not compile again, whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell ignores Ctrl-C for what runs in its background, and children of the tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that choose cases by their time, and that write the list of times."""
    parser.addoption("--cases", help="quick, slow, or slow:K/N: the K-th of N slices of the slow cases")
    parser.addoption("--write-times", action="store_true", help="write tests/slow_cases.tsv at the end")


def pytest_configure(config: pytest.Config) -> None:
    """Measure the cases where that is wanted; with several processes, in the first one."""
    if config.getoption("--write-times") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(CaseTimes())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the cases of the choice; those marked `quick` are, whatever they take."""
    choice = config.getoption("--cases")
    if choice is None:
        return
    pinned = {item.nodeid for item in items if item.get_closest_marker("quick")}
    slow = {name: seconds for name, seconds in read_times().items() if name not in pinned}
    kept = chosen([item.nodeid for item in items], slow, choice)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def pytest_collection() -> None:
    """Modules and tests stay to the end: looking for garbage among them takes longer than making them."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Nor need the collector go through them later, or after every few objects of a compiler or a checker."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.fixture(scope="session")
def ring_solution() -> Result[CoOptimisation, JobPlan]:
    """A small solution of a job, made by hand."""
    from tests.support.file_cases import ring_of_four

    return ring_of_four()


@pytest.fixture
def graph_instance() -> dict[str, Any]:
    """A valid document with an operator graph in full, free to be spoilt."""
    from tests.support.file_cases import GRAPH_INSTANCE

    return copy.deepcopy(GRAPH_INSTANCE)


@pytest.fixture(scope="session")
def model_yaml() -> str:
    """A valid instance file with a model and its sizes."""
    from tests.support.file_cases import MODEL_INSTANCE_YAML

    return MODEL_INSTANCE_YAML


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder property tests may write to again and again."""
    return tmp_path_factory.mktemp("scratch")
