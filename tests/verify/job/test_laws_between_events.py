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
    StrategyCase,
    StrategyCertificate,
    Workload,
    strided_groups,
)
from topoopt.kinds.job.methods import program_of
from topoopt.simulate.network import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.job.check import evaluate_certificate
from topoopt.verify.job.least_times import choices_of
from topoopt.verify.job.strategy_laws import OF_SLICES, EventGraph, in_slices, strategy_laws

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


@st.composite
def sliced(draw):
    """A random graph of operators that are cut by samples alone, also into 2 and 3 parts of 6."""
    n, distances = draw(st.sampled_from([(2, (1,)), (4, (1,)), (6, (1, 2)), (8, (1, 3))]))
    cluster = make_cluster(n, 2 * len(distances), LinkDirection.BIDIRECTIONAL, hop_latency_us=0.0)
    cluster = replace(cluster, link_sharing=draw(st.sampled_from(list(LinkSharing))))
    operators = []
    for index in range(draw(st.integers(2, 6))):
        ways = [
            Split(k, draw(st.floats(0.0, 3.0)), draw(st.floats(0.0, 3.0)), 1) for k in range(1, n + 1) if n % k == 0
        ]
        inputs = draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True)) if index else []
        weights, width = draw(st.sampled_from([(), (400_000,)])), draw(st.sampled_from([1, 300]))
        operators.append(operator(f"o{index}", inputs, tuple(ways), weights, width))
    return cluster, Workload("sliced", 24 * 40, tuple(operators)), distances


def starts_of_slices(graph, starts, workload, placements, n):
    """float64[operators, 2, slices]: start of the forward and of the backward part that has each slice, ms."""
    at = np.full((len(workload.operators), 2, n), np.nan)
    at[graph.operator[graph.kind < 2], graph.kind[graph.kind < 2], graph.source[graph.kind < 2]] = starts[
        graph.kind < 2
    ]
    parts = [each.splits[p.split].parts for each, p in zip(workload.operators, placements, strict=True)]
    servers = [p.offset + np.arange(n) * k // n * (n // k) for p, k in zip(placements, parts, strict=True)]
    return np.array([at[o][:, of] for o, of in enumerate(servers)])


@given(sliced(), st.data())
@settings(max_examples=20)
def test_laws_of_slices_hold_in_simulations(job, data) -> None:
    """Every law of slices, with the mean, earliest and latest starts of a simulated iteration at its events."""
    cluster, workload, distances = job
    n, chosen = cluster.servers, []
    for each in workload.operators:
        split = data.draw(st.integers(0, len(each.splits) - 1))
        chosen.append(Placement(split, data.draw(st.integers(0, n // each.splits[split].parts - 1))))
    graph = build_task_graph(cluster, workload, Strategy(tuple(chosen)))
    network = realise(cluster, circulant(cluster, distances), strided_groups(n)).network
    result = simulate(graph, network)
    starts = starts_of_slices(graph, np.asarray(result.start_ms), workload, chosen, n)
    laws = strategy_laws(cluster, workload, choices_of(cluster, workload))
    middle, times = {"mid": np.mean, "midback": np.mean, "last": np.max, "turned": np.max}, [0.0]
    for name in laws.events[1:-1]:
        kind, o = name[:-1].split("(")
        times.append(middle.get(kind, np.min)(starts[int(o), int(kind in ("back", "midback", "turned"))]))
    times.append(result.iteration_time_ms)
    named = [law for law in laws.laws if law.name.startswith(OF_SLICES)]
    assert len(named) >= 9 * len(chosen)
    for law in named:
        least = sum(laws.operators[table][o][chosen[o].split] for table, of in law.operators for o in of)
        for table, of in law.pairs:
            least += sum(laws.between[table][e][tuple(chosen[o].split for o in laws.pairs[e])] for e in of)
        assert times[law.head] - times[law.tail] >= least - 1e-9, law.name


def test_stages_of_slices_add_up() -> None:
    """Two servers, two forks of four branches of 2 ms on a server each, 10 ms on one server between the two forks.

    Of every slice 1 + 4 x 2 / 2 + 1 + 10 + 1 + 4 x 2 / 2 + 1 ms forward, as much back. Earliest and latest parts alone
    count the branches of one of the forks, and one branch of the other.
    """
    alone, both, branch = (Split(1, 10.0, 10.0, 1),), (Split(2, 1.0, 1.0, 1),), (Split(1, 2.0, 2.0, 1),)
    operators = [operator("fork", (), both), *(operator(f"branch {b}", (0,), branch) for b in range(4))]
    operators += [operator("join", (1, 2, 3, 4), both), operator("alone", (5,), alone), operator("again", (6,), both)]
    operators += [*(operator(f"other {b}", (7,), branch) for b in range(4)), operator("end", (8, 9, 10, 11), both)]
    cluster, workload = make_cluster(2, 2), Workload("forks", 4, tuple(operators))
    laws = strategy_laws(cluster, workload, choices_of(cluster, workload))
    placements = tuple(
        Placement(0, b % 2 if len(o.splits) == 1 and o.splits[0] in branch else 0) for b, o in enumerate(operators)
    )
    time_ms = iteration_ms(cluster, workload, (1,), placements)
    assert 44.0 <= longest_path(program_of(laws), (0,) * 13) <= time_ms < 44.2
    assert longest_path(program_of(laws, slices=False), (0,) * 13) <= 40.1


def test_no_slices_where_channels_are_cut() -> None:
    """Splits of channels, or samples that servers do not divide, leave no equal slices."""
    cluster = make_cluster(2, 2)
    halves, columns = (Split(2, 1.0, 1.0, 1),), (Split(1, 1.0, 1.0, 1, 2, 1),)
    for samples, splits, slices in ((4, halves, True), (4, columns, False), (5, (Split(1, 1.0, 1.0, 1),), False)):
        workload = Workload("small", samples, (operator("a", (), splits), operator("b", (0,), splits)))
        choices = choices_of(cluster, workload)
        assert in_slices(2, workload, choices) is slices
        laws = strategy_laws(cluster, workload, choices).laws
        assert any(law.name.startswith(OF_SLICES) for law in laws) is slices


def drawn_job(seed):
    """Seven operators in 1, 2 or 4 parts of equal slices on four servers, some with weights or wide outputs."""
    rng, operators = np.random.default_rng(seed), []
    for o in range(7):
        inputs = sorted(set(rng.integers(0, o, 2).tolist())) if o else ()
        work = rng.uniform(0.5, 4)
        ways = tuple(Split(k, work / k, 2 * work / k, 1) for k in (1, 2, 4))
        width, weights = int(rng.choice([1, 3000])), (int(rng.choice([1, 1_000_000])),)
        operators.append(operator(f"o{o}", inputs, ways, weights, width))
    cluster = make_cluster(4, 2, LinkDirection.BIDIRECTIONAL, hop_latency_us=0.0)
    return cluster, Workload("drawn", 4 * 64, tuple(operators))


@pytest.mark.parametrize(("seed", "sliced_is_better"), [(0, True), (53, False), (58, False)])
def test_the_better_of_both_lists_of_laws_counts(seed, sliced_is_better) -> None:
    """With few programs the list with laws of slices may prove less: then the proof weighs none of them."""
    cluster, workload = drawn_job(seed)
    laws = strategy_laws(cluster, workload, choices_of(cluster, workload))
    sliced, fewer = program_of(laws), program_of(laws, slices=False)
    alone = [evaluate_certificate(laws, StrategyCertificate(prove(each, programs=13))) for each in (sliced, fewer)]
    assert (alone[0] > alone[1]) is sliced_is_better
    certificate = StrategyCertificate(prove(sliced, fewer=fewer, programs=13))
    assert evaluate_certificate(laws, certificate) == max(alone)
    weighed = [name for node in certificate.nodes if isinstance(node, StrategyCase) for name, _ in node.laws]
    assert any(name.startswith(OF_SLICES) for name in weighed) is sliced_is_better
