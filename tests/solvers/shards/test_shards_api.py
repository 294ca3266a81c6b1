"""The library's face: what its docstring shows works, and everything it hands out was checked."""

from __future__ import annotations

import numpy as np
import pytest

import topoopt.kinds.shared_cluster.shards as api
from tests.support.shard_cases import rings
from topoopt.analyses.topologies.run import circulant_topology
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import CheckError
from topoopt.core.optical_layer import Shard
from topoopt.core.status import Status
from topoopt.verify.laws.findings import Violation

LAYER = api.block_layer(8, 4, 4, 0.01)
FREE = np.ones(8, dtype=bool)


def running(name: str, servers: tuple[int, ...], pause_s: float) -> api.RunningJob:
    """A ring on every plane."""
    return api.RunningJob(name, rings(len(servers), 1, 1, 1, 1), Shard(servers, (0, 1, 2, 3)), 60.0, pause_s)


def test_a_planned_topology_is_placed() -> None:
    """The circulant of a job of four becomes a shard of a block."""
    shape = api.shape_of(circulant_topology(4, 2, LinkDirection("bidirectional"), (1,)))
    search = api.search_shard(LAYER, FREE, shape)
    assert search.verdict is api.Verdict.FOUND
    assert search.shard is not None
    assert api.realisable(LAYER, shape, search.shard)
    result = api.place(LAYER, FREE, [shape] * 3)
    assert (result.value, result.status, result.proved_by) == (8.0, Status.OPTIMAL, api.CERTIFIED)


@pytest.mark.parametrize("method", list(api.MoveMethod))
def test_moves_by_every_method(method: api.MoveMethod) -> None:
    """The cheaper of two pairs leaves its block, and it pays when the wait is long."""
    jobs = [running("a", (0, 1), 3.0), running("b", (4, 5), 1.0)]
    free = FREE.copy()
    free[[0, 1, 4, 5]] = False
    waiting = rings(4, 1, 1, 1, 1)
    plan = api.plan_moves(LAYER, free, jobs, waiting, method=method)
    assert plan is not None
    assert plan.moved == ("b",)
    assert api.decide(plan, 4, api.wait_s(LAYER, free, jobs, waiting)).pays
    assert api.plan_moves(LAYER, free, jobs, rings(5, 1, 1, 1, 1), method=method) is None


def test_moves_of_a_confused_cluster_are_refused() -> None:
    """Two jobs of one name, or a job on a server that is free."""
    jobs = [running("a", (0, 1), 3.0), running("a", (4, 5), 1.0)]
    with pytest.raises(ValueError, match="distinct"):
        api.plan_moves(LAYER, FREE, jobs, rings(4, 1))
    with pytest.raises(ValueError, match="free"):
        api.plan_moves(LAYER, FREE, jobs[:1], rings(4, 1))


def test_nothing_unchecked_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the checker rejects is an error of ours."""
    monkeypatch.setattr(api, "shard_violations", lambda *_: (Violation("switch", "corrupted"),))
    with pytest.raises(CheckError, match="corrupted"):
        api.place(LAYER, FREE, [rings(2, 1)])
    monkeypatch.undo()
    monkeypatch.setattr(api, "placing_bound", lambda *_: 1.0)
    with pytest.raises(CheckError, match="possible by counting"):
        api.place(LAYER, FREE, [rings(2, 1)])


def test_look_ahead_saves_the_panels_time() -> None:
    """Two jobs on the same four servers: 120 s of the panel against 0.5 s of the switches, once."""
    shard = Shard((0, 1, 2, 3), (0, 1, 2, 3))
    plan = [api.PlannedJob(name, rings(4, 1, 1, 1, 1), shard, 0.0, 600.0) for name in ("a", "b")]
    found = api.look_ahead(LAYER, plan, 120.0, 0.5)
    assert [job.delay_s for job in found.without] == [120.0, 120.0]
    assert [job.delay_s for job in found.ahead] == [120.5, 0.5]
    assert found.saved_server_s == pytest.approx(4 * (119.5 - 0.5))
    assert [job.provisioned for job in found.ahead] == [0, 16]
    with pytest.raises(CheckError, match="switch"):
        api.look_ahead(LAYER, [api.PlannedJob("c", rings(2, 1), Shard((3, 4), (0,)), 0.0, 1.0)], 120.0, 0.5)


def test_a_cluster_of_432() -> None:
    """The experiment's cluster under three switches a plane, every figure worked out by hand."""
    layer, free = api.block_layer(432, 8, 144, 0.01), np.ones(432, dtype=bool)
    shape = api.shape_of(circulant_topology(16, 8, LinkDirection("bidirectional"), (1, 3, 5, 7)))
    wide = api.shape_of(circulant_topology(144, 8, LinkDirection("bidirectional"), (1, 5, 13, 43)))
    result = api.place(layer, free, [shape] * 28)
    assert (result.value, result.status, result.shards.count(None)) == (432.0, Status.OPTIMAL, 1)
    # a job in each block: 384 servers are free, 128 in a block
    planes = tuple(range(8))
    jobs = [api.RunningJob(f"j{b}", shape, Shard(tuple(range(b, b + 16)), planes), 3600.0, 60.0) for b in (0, 144, 288)]
    free[[server for job in jobs for server in job.shard.servers]] = False
    assert api.fragmentation(layer, free).index == pytest.approx(1 - 128 / 384)
    plan = api.plan_moves(layer, free, jobs, wide)
    assert plan is not None
    assert (len(plan.moved), plan.cost_server_s, plan.bound_server_s, plan.delay_s) == (1, 960.0, 960.0, 60.0)
    decision = api.decide(plan, 144, api.wait_s(layer, free, jobs, wide))
    assert (decision.wait_s, decision.saved_server_s, decision.pays) == (3600.0, 144 * 3540.0, True)
