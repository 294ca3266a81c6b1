"""Replay of the artifact's task graphs through every time model, against its packet-level results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.paths import INSTANCES
from tests.support.taskgraphs import TASKGRAPHS, shared
from topoopt.analyses.replay import file_rings, replay
from topoopt.core.errors import InputError
from topoopt.core.workload import TaskKind
from topoopt.simulate.time_models import TIME_MODELS


@pytest.mark.parametrize("time_model", ["rounds", "flexnet", "fluid"])
@pytest.mark.parametrize(
    ("model", "gbps", "packet_ms"),
    [
        ("dlrm", 100, 61.155),
        ("dlrm", 400, 20.779),
        ("bert", 100, 63.969),
        ("bert", 400, 61.434),
        ("vgg", 100, 210.404),
        ("vgg", 400, 100.481),
        ("candle", 100, 512.880),
        ("candle", 400, 180.968),
    ],
)
def test_replay_is_near_the_packet_level(model: str, gbps: int, packet_ms: float, time_model: str) -> None:
    """Each model comes within 5 % of the packet-level iteration time on the ideal switch, 10 % for CANDLE."""
    file = INSTANCES / "measured" / f"{model}-16-fixed-{gbps}gbps.yaml"
    result = replay(file, fabric="ideal-switch", time_model=time_model)
    assert result.link_gbps == gbps
    assert result.iteration_time_ms == pytest.approx(packet_ms, rel=0.10 if model == "candle" else 0.05)


@pytest.mark.parametrize("time_model", ["rounds", "flexnet", "fluid"])
@pytest.mark.parametrize("gbps", [100, 400])
@pytest.mark.parametrize(("model", "graph"), [("dlrm", "dlrm"), ("bert", "transformer"), ("vgg", "vgg")])
def test_shipped_strategies_are_those_of_the_released_graphs(
    model: str, graph: str, gbps: int, time_model: str
) -> None:
    """The instance replays as the task graph it was made from, but for the order of events at equal times."""
    file = INSTANCES / "measured" / f"{model}-16-fixed-{gbps}gbps.yaml"
    mine = replay(file, fabric="ideal-switch", time_model=time_model).iteration_time_ms
    theirs = replay(shared(f"{gbps}{graph}_16"), fabric="ideal-switch", link_gbps=gbps, time_model=time_model)
    assert mine == pytest.approx(theirs.iteration_time_ms, rel=2e-3)


def test_refuses_to_replay_what_leaves_a_choice() -> None:
    """An instance whose strategy is open, or of another kind, has nothing to replay."""
    with pytest.raises(InputError, match="40 of 40 operators may be split or placed in several ways"):
        replay(INSTANCES / "measured" / "dlrm-16-measured.yaml", fabric="ideal-switch")
    with pytest.raises(InputError, match="no strategy to replay"):
        replay(INSTANCES / "networks" / "uniform-5-2.yaml", fabric="ideal-switch")


@pytest.mark.parametrize("time_model", TIME_MODELS)
def test_replay_on_the_topology_of_the_file(time_model: str) -> None:
    """The 12-server plan runs on its own links in every model, no faster than its busiest server computes."""
    file = shared("topoopt_12")
    result = replay(file, fabric="direct-connect", time_model=time_model)
    graph = file.graph
    compute = graph.kind < TaskKind.TRANSFER
    busiest = np.bincount(graph.source[compute], weights=graph.duration_ms[compute]).max()
    assert result.link_gbps == 50.0
    assert busiest <= result.iteration_time_ms
    # At 1 Gbit/s a link the network rules: all AllReduce bytes of a server over its four links, one hop each.
    payload = graph.bytes[(graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0)].sum()
    floor = 2 * 11 / 12 * payload / (4 * 125_000.0)
    slow = replay(file, fabric="direct-connect", link_gbps=1.0, time_model=time_model)
    assert floor <= slow.iteration_time_ms


def test_replay_of_a_bare_graph() -> None:
    """A task graph without its file replays on the ideal switch as the file does, if told the rate."""
    file = shared("100dlrm_16")
    bare = replay(file.graph, fabric="ideal-switch", link_gbps=100.0, time_model="flexnet")
    assert bare.iteration_time_ms == replay(file, fabric="ideal-switch", time_model="flexnet").iteration_time_ms
    with pytest.raises(InputError, match="needs the link rate"):
        replay(file.graph, fabric="ideal-switch")


def test_replay_from_a_path() -> None:
    """A path is read, and its text is the same as the file object."""
    file = shared("100vgg_16")
    result = replay(str(TASKGRAPHS / "100vgg_16.fbuf"), fabric="ideal-switch", time_model="fluid")
    assert result.iteration_time_ms == replay(file, fabric="ideal-switch", time_model="fluid").iteration_time_ms
    assert len(result.start_ms) == len(result.end_ms) == file.graph.tasks


def test_refuses_direct_connect_of_a_switched_file() -> None:
    """A file planned for a switch has no direct-connect topology, and says so."""
    with pytest.raises(InputError, match="no direct-connect topology"):
        replay(shared("100dlrm_16"), fabric="direct-connect")


def test_refuses_unknown_names_and_rates_at_once() -> None:
    """All three wrong arguments are named before any file is opened."""
    with pytest.raises(InputError) as caught:
        replay("no-such-file.fbuf", fabric="torus", link_gbps=float("nan"), time_model="packets")
    assert [problem.value for problem in caught.value.problems] == ["torus", "packets", "nan"]


def test_rings_of_the_12_server_plan() -> None:
    """The group of all 12 servers gets four one-hop rings of equal share, in both directions of both distances."""
    file = shared("topoopt_12")
    assert file.topology is not None
    (group,) = file_rings(file.graph.groups, file.ring_jumps, file.topology)
    assert [ring.share for ring in group.rings] == [0.25] * 4
    steps = [{(path[1] - path[0]) % 12 for path in ring.paths} for ring in group.rings]
    assert steps == [{5}, {7}, {11}, {1}]
    assert all(sorted(ring.order) == list(range(12)) for ring in group.rings)


def test_rings_of_subgroups_go_over_several_hops() -> None:
    """Cosets of 6, 4, 3 and 2 of the 12 servers get rings whose members are the coset, of the stored lengths."""
    file = shared("topoopt_12")
    assert file.topology is not None
    groups = tuple(tuple(range(offset, 12, 12 // size)) for size in (6, 4, 3, 2) for offset in range(12 // size))
    for rings in file_rings(groups, file.ring_jumps, file.topology):
        hops = {6: 2, 4: 3, 3: 2, 2: 2}[len(rings.members)]
        assert len(rings.rings) == 2
        for ring in rings.rings:
            assert sorted(ring.order) == list(rings.members)
            assert {len(path) - 1 for path in ring.paths} == {hops}
            assert [path[-1] for path in ring.paths] == [*ring.order[1:], ring.order[0]]


def test_refuses_rings_that_do_not_fit() -> None:
    """A group that is no coset, one of a size without rings, and a jump without a link are all reported."""
    file = shared("topoopt_12")
    assert file.topology is not None
    jumps = {**file.ring_jumps, 4: ((3,),)}
    with pytest.raises(InputError) as caught:
        file_rings(((0, 1, 2), (0, 1, 2, 3, 4), (0, 3, 6, 9)), jumps, file.topology)
    messages = [problem.message for problem in caught.value.problems]
    assert sum("does not pass all servers" in message for message in messages) == 2
    assert "no rings for groups of 5 servers" in messages
    assert "a ring descriptor crosses servers that are not joined" in messages
