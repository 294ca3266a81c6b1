"""Schedules by phase: which there are, how stages come of them, and networks of their own."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.job.fabrics import busy_phases, network_for, schedule_text, schedules, stages_of, traffic_of
from solvers.job.methods import run_method
from solvers.job.realise import realise
from solvers.job.starts import data_parallel
from solvers.network.finder import find_topology
from solvers.stop import Stop
from topoopt.analyses.reconfiguration.run import reconfiguration_sweep
from topoopt.kinds.files import read_instance
from topoopt.simulate.circuits import Phase, simulate_stages
from topoopt.simulate.network import build_task_graph, demand_of
from topoopt.simulate.time_models.evaluate import simulate

F, B, A = Phase.FORWARD, Phase.BACKWARD, Phase.ALLREDUCE


def test_schedules_are_all_cyclic_cuts() -> None:
    """Three phases in a circle are cut in two at three places, or into three; two phases into two; one not at all."""
    found = {frozenset(schedule) for schedule in schedules((F, B, A))}
    assert found == {
        frozenset({frozenset({F}), frozenset({B, A})}),
        frozenset({frozenset({B}), frozenset({F, A})}),
        frozenset({frozenset({A}), frozenset({F, B})}),
        frozenset({frozenset({F}), frozenset({B}), frozenset({A})}),
    }
    assert schedules((F, A)) == ((frozenset({F}), frozenset({A})),)
    assert schedules((A,)) == ()
    assert schedule_text((frozenset({A}), frozenset({F, B}))) == "forward + backward | AllReduce"


def test_stages_are_runs_of_phases_and_idle_phases_go_along() -> None:
    """A network that returns makes a third stage; a phase without traffic belongs to the stage before it."""
    job = read_instance("instances/tiny-4.yaml")
    graph = build_task_graph(job.cluster, job.workload, data_parallel(4, job.workload))
    topology = find_topology(job.cluster, demand_of(graph))
    one, two = (realise(job.cluster, topology, [(0, 1, 2, 3)]).network for _ in range(2))
    ends = frozenset({F, A})
    stages = stages_of((frozenset({B}), ends), {frozenset({B}): one, ends: two})
    assert [(phases, network is two) for phases, network in stages] == [((F,), True), ((B,), False), ((A,), True)]
    stages = stages_of((frozenset({F}), frozenset({A})), {frozenset({F}): one, frozenset({A}): two})
    assert [phases for phases, _ in stages] == [(F, B), (A,)]


def test_a_network_of_its_own_is_never_worse_for_its_traffic() -> None:
    """DLRM on 16 servers: each phase's network carries it no slower than the network for all; bytes are all there."""
    job = read_instance("instances/dlrm-16.yaml")
    graph = build_task_graph(job.cluster, job.workload, data_parallel(16, job.workload))
    assert busy_phases(graph) == (F, B, A)
    everything = demand_of(graph)
    groups = [each.members for each in everything.allreduce]
    common = realise(job.cluster, find_topology(job.cluster, everything), groups).network
    total = 0
    networks = {}
    for phase in Phase:
        group = frozenset({phase})
        traffic = traffic_of(graph, group)
        total += int(traffic.bytes.sum())
        own = network_for(job.cluster, graph, group, common, candidates=3, seed=0, stop=Stop())
        networks[group] = own
        assert simulate(traffic, own).iteration_time_ms <= simulate(traffic, common).iteration_time_ms * (1 + 1e-12)
    assert total == int(graph.bytes.sum())
    times = [simulate_stages(graph, stages_of(tuple(networks), networks), delay)[0] for delay in (0.0, 0.1, 1.0, 100.0)]
    assert times == sorted(times), "a longer delay never helps a schedule of phases"
    # Three changes; all but what compute hides (no more than one iteration without any network) is paid in full.
    assert times[3] - times[0] == pytest.approx(300.0, abs=times[0])


def test_shape_of_the_published_delay_sweep() -> None:
    """DLRM on 16 servers (section l, Fig 17): one-shot is flat and fastest, circuits that follow demand come near it at
    microseconds only, and without forwarding a millisecond already costs much more.
    """
    job = read_instance("instances/dlrm-16.yaml")
    plan = run_method("data-parallel", job.cluster, job.workload, budget=0, seed=0, stop=Stop()).plan
    delays = [1e-3, 0.2, 1.0, 10.0, 100.0]
    fabrics = ("sip-ml", "ocs-reconfig")
    sweep = reconfiguration_sweep(job, plan, delays_ms=delays, schemes=fabrics, proposals=50)
    times = {scheme.name: [point.iteration_time_ms for point in scheme.points] for scheme in sweep.schemes}
    one_shot = times["one-shot"][0]
    assert times["one-shot"] == [one_shot] * len(delays)
    for name in fabrics:
        assert times[name] == sorted(times[name])
        assert times[name][0] > one_shot
        assert times[name][0] < 1.5 * one_shot < times[name][3]
    assert all(
        without > 2 * forwarded for without, forwarded in zip(*(times[name][2:] for name in fabrics), strict=True)
    )


def test_traffic_of_a_phase_is_ready_at_once() -> None:
    """No compute, no dependencies, the transfers of the phase only."""
    job = read_instance("instances/dlrm-16.yaml")
    graph = build_task_graph(job.cluster, job.workload, data_parallel(16, job.workload))
    forward, backward = (demand_of(traffic_of(graph, frozenset({one}))) for one in (F, B))
    assert not forward.allreduce
    assert np.array_equal(forward.model_parallel_bytes, backward.model_parallel_bytes.T)
    both = forward.model_parallel_bytes + backward.model_parallel_bytes
    assert np.array_equal(both, demand_of(graph).model_parallel_bytes)
