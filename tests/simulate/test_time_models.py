"""The table of time models: complete, alike where links are not shared, and open to a model of one file."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import topoopt.simulate.time_models as folder
from tests.support import plain_cases as cases
from topoopt.analyses.replay import replay
from topoopt.core.errors import InputError
from topoopt.core.process import PlugIns
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.simulate.network import Network
from topoopt.simulate.time_models import TIME_MODELS, for_several_jobs
from topoopt.simulate.time_models.evaluate import Simulation, TimeModel, breakdown

FORWARD, TRANSFER = TaskKind.FORWARD, TaskKind.TRANSFER


def chain() -> tuple[TaskGraph, Network]:
    """1 ms of compute, then 1000 bytes over a link of 500 bytes/ms, then 2 ms."""
    tasks = [(FORWARD, 0, -1, -1, 1.0, 0), (TRANSFER, 0, 1, -1, 0.0, 1000), (FORWARD, 1, -1, -1, 2.0, 0)]
    network = cases.network_of(2, {(0, 1): 500.0}, {(0, 1): [((0, 1), 1.0)]})
    return cases.graph_of(2, tasks, {(0, 1), (1, 2)}), network


def test_every_model_in_the_folder_is_in_the_table() -> None:
    """Every constant of the folder that is a time model is listed, once."""
    names = [path.stem for path in Path(folder.__file__).parent.glob("*.py") if path.stem != "__init__"]
    modules = [importlib.import_module(f"{folder.__name__}.{name}") for name in names]
    found = {id(value) for module in modules for value in vars(module).values() if isinstance(value, TimeModel)}
    assert found == {id(model) for model in TIME_MODELS.values()}
    assert len(found) == len(TIME_MODELS)
    assert all(model.summary for model in TIME_MODELS.values())


@pytest.mark.parametrize("model", sorted(TIME_MODELS))
def test_all_models_agree_and_explain_where_nothing_is_shared(model: str) -> None:
    """1 + 2 + 2 ms and the latency of a hop, one task the cause of the next, 1000 bytes on the only link for 2 ms."""
    graph, network = chain()
    done = TIME_MODELS[model].run(graph, network)
    assert done.iteration_time_ms == pytest.approx(5.0 + network.hop_latency_ms)
    assert done.cause.tolist() == [-1, 0, 1]
    assert done.link_bytes.tolist() == pytest.approx([1000.0])
    assert done.link_busy_ms.tolist() == pytest.approx([2.0])
    assert breakdown(graph, done).compute_ms == 3.0


@pytest.mark.parametrize("model", sorted(TIME_MODELS))
def test_a_transfer_without_a_path_is_refused_by_all(model: str) -> None:
    """It would take no time, or for ever."""
    graph, network = chain()
    back = cases.network_of(2, {(0, 1): 500.0}, {})
    with pytest.raises(InputError, match="no path from server 0 to 1"):
        TIME_MODELS[model].run(graph, back)
    assert network.servers == 2


def test_models_of_several_jobs_give_the_end_of_the_first_iteration() -> None:
    """One job: the iteration time."""
    graph, network = chain()
    for name in for_several_jobs():
        run = TIME_MODELS[name].first_iterations
        assert run is not None
        first = run(graph, network, np.array([0, 3], dtype=np.int64))
        assert first.tolist() == pytest.approx([5.0 + network.hop_latency_ms])
    assert "flexnet" not in for_several_jobs()


def test_a_new_model_is_one_file_and_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with a `MODEL` and one line of the table: it replays, and is explained."""

    def run(graph: TaskGraph, network: Network) -> Simulation:
        start = np.arange(graph.tasks, dtype=float)
        nothing = np.zeros(network.links)
        cause = np.arange(-1, graph.tasks - 1, dtype=np.int32)
        return Simulation(float(graph.tasks), start, start + 1.0, cause, nothing, nothing)

    module = ModuleType("one_each")
    module.ONE_EACH = TimeModel("a millisecond for every task, one after another", run)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    places = {"rounds": "topoopt.simulate.time_models.evaluate:ROUNDS", "one-each": "one_each:ONE_EACH"}
    monkeypatch.setattr("topoopt.analyses.replay.TIME_MODELS", PlugIns(places))
    graph, _ = chain()
    assert replay(graph, fabric="ideal-switch", link_gbps=100.0, time_model="one-each").iteration_time_ms == 3.0
    with pytest.raises(InputError, match="rounds, one-each"):
        replay(graph, fabric="ideal-switch", link_gbps=100.0, time_model="fluid")
