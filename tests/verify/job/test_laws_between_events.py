"""Laws between two events of an iteration: what lies between a fork and a join keeps every server busy in between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.job_plans import longest_path
from solvers.job.realise import realise
from solvers.job.strategy_program import prove
from tests.support.verify_cases import circulant, make_cluster
from topoopt.core.cluster import LinkDirection, LinkSharing
from topoopt.core.workload import (
    Operator,
    OperatorInput,
    Placement,
    Split,
    Strategy,
    StrategyCertificate,
    Workload,
    strided_groups,
)
from topoopt.kinds.job.methods import program_of
from topoopt.simulate.network import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.job.check import evaluate_certificate
from topoopt.verify.job.least_times import choices_of
from topoopt.verify.job.strategy_laws import EventGraph, strategy_laws

RINGS = {4: ((1,), (1, 2)), 8: ((1, 3), (1, 2), (1,))}


def operator(name, inputs, splits, weights=(), width=1):
    """A dense operator that reads all of what it reads."""
    return Operator(name, "dense", width, 4, weights, tuple(map(OperatorInput, inputs)), splits)


def iteration_ms(cluster, workload, distances, placements):
    """Simulated on a circulant."""
    network = realise(cluster, circulant(cluster, distances), strided_groups(cluster.servers)).network
    return simulate(build_task_graph(cluster, workload, Strategy(placements)), network).iteration_time_ms


@st.composite
def forks(draw):
    """A trunk of forks and joins, with every number of parts of every operator."""
    n = draw(st.sampled_from([4, 8]))
    distances = draw(st.sampled_from(RINGS[n]))
    links = draw(st.sampled_from(list(LinkDirection)))
    degree = len(distances) * (2 if links is LinkDirection.BIDIRECTIONAL else 1)
    cluster = make_cluster(n, degree, links, hop_latency_us=draw(st.sampled_from([0.0, 1.0])))
    cluster = replace(cluster, link_sharing=draw(st.sampled_from(list(LinkSharing))))

    def one(inputs):
        time = draw(st.sampled_from([0.0, 0.5, 3.0]))
        ways = tuple(Split(k, time / k, draw(st.sampled_from([0.2, 2.0])), 1) for k in (1, 2, 4, 8) if k <= n)
        weights = draw(st.sampled_from([(), (400_000,)]))
        width = draw(st.sampled_from([1, 300]))
        operators.append(operator(f"o{len(operators)}", inputs, ways, weights, width))
        return len(operators) - 1

    operators = []
    trunk = one(())
    for _ in range(draw(st.integers(1, 2))):
        trunk = one((trunk,))
        trunk = one([one((trunk,)) for _ in range(draw(st.integers(2, 4)))])
    return cluster, Workload("forks", 24 * 40, tuple(operators)), distances


@given(forks(), st.data())
@settings(max_examples=120)
def test_no_strategy_is_faster_than_the_laws_of_forks(job, data) -> None:
    """For random forks, strategies, networks and orders of traffic the longest path is at most the iteration."""
    cluster, workload, distances = job
    chosen = []
    for each in workload.operators:
        split = data.draw(st.integers(0, len(each.splits) - 1))
        chosen.append(Placement(split, data.draw(st.integers(0, cluster.servers // each.splits[split].parts - 1))))
    time_ms = iteration_ms(cluster, workload, distances, tuple(chosen))
    for classes in (1, 2):
        laws = strategy_laws(cluster, workload, choices_of(cluster, workload), classes)
        assert any(law.name.startswith("bytes back between") for law in laws.laws)
        states = tuple(
            int(np.flatnonzero((s.split == p.split) & (s.residue == p.offset % s.period))[0])
            for s, p in zip(laws.states, chosen, strict=True)
        )
        program = program_of(laws)
        path = longest_path(program, states)
        assert path <= time_ms * (1 + 1e-9)
        tree = prove(program, programs=3)
        assert evaluate_certificate(laws, StrategyCertificate(tree, classes)) <= path * (1 + 1e-9)


def test_what_lies_between_a_fork_and_a_join_adds_up() -> None:
    """One server computes 10 ms alone, then both share a fork: 10 + 1 + 2 + 2 + 1 ms forward, as much back.

    Chains count one of the two branches, sums over servers half of the 10 ms: only together they give all 32 ms.
    """
    alone, both, branch = (Split(1, 10.0, 10.0, 1),), (Split(2, 1.0, 1.0, 1),), (Split(2, 2.0, 2.0, 1),)
    operators = (
        operator("alone", (), alone),
        operator("fork", (0,), both),
        operator("left", (1,), branch),
        operator("right", (1,), branch),
        operator("join", (2, 3), both),
    )
    cluster, workload = make_cluster(2, 2), Workload("fork", 4, operators)
    laws = strategy_laws(cluster, workload, choices_of(cluster, workload))
    path = longest_path(program_of(laws), (0,) * 5)
    time_ms = iteration_ms(cluster, workload, (1,), (Placement(0, 0),) * 5)
    assert 32.0 <= path <= time_ms < 32.1
    kept = tuple(law for law in laws.laws if "between" not in law.name and "around" not in law.name)
    assert longest_path(program_of(replace(laws, laws=kept)), (0,) * 5) < 30.0


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        (((0, 1), (1, 2), (1, 3), (2, 4), (3, 4)), [(1, 4)]),  # a fork
        (((0, 2), (1, 2), (2, 3)), []),  # nothing before both inputs
        (((0, 1), (0, 2), (1, 2)), []),  # one between the two
        (((0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6)), [(0, 3), (3, 6)]),
    ],
)
def test_joins_and_what_comes_before_all_inputs(pairs, found) -> None:
    """The last common operator of the inputs, where at least two operators lie between."""
    graph = EventGraph(1 + max(v for _, v in pairs), pairs, (True,) * len(pairs))
    assert graph.joins() == found
