"""Laws that every strategy obeys, and the certificates made of them, against simulated iterations."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.job_plans import longest_path
from solvers.job.realise import realise
from solvers.job.strategy_program import prove
from tests.support.plan_bounds import best_bound
from tests.support.verify_cases import circulant, dense, make_cluster, sample_splits
from topoopt.core.cluster import LinkDirection
from topoopt.core.workload import (
    Operator,
    OperatorInput,
    Placement,
    Split,
    Strategy,
    StrategyCase,
    StrategyCertificate,
    StrategyCut,
    Workload,
    strided_groups,
)
from topoopt.kinds.job.methods import program_of, prove_bound
from topoopt.simulate.network import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.job.check import at_root, evaluate_certificate, strategy_bound, unit_flow
from topoopt.verify.job.least_times import choices_of
from topoopt.verify.job.strategy_laws import mirrored, strategy_laws


def laws_of(cluster, workload, classes=1):
    """The laws of an instance."""
    return strategy_laws(cluster, workload, choices_of(cluster, workload), classes)


def states_chosen(laws, placements):
    """The state of every operator that stands where the placements put it."""
    return tuple(
        int(np.flatnonzero((s.split == p.split) & (s.residue == p.offset % s.period))[0])
        for s, p in zip(laws.states, placements, strict=True)
    )


@st.composite
def jobs(draw):
    """A small cluster, a random graph of operators with random splits, and the distances of a circulant."""
    n, distances = draw(st.sampled_from([(2, (1,)), (3, (1,)), (4, (1,)), (4, (1, 2)), (6, (1, 2)), (8, (1, 3))]))
    links = draw(st.sampled_from(list(LinkDirection)))
    degree = len(distances) * 2 if links is LinkDirection.BIDIRECTIONAL else len(distances)
    cluster = make_cluster(
        n,
        degree,
        links,
        gpus_per_server=draw(st.sampled_from([1, 4])),
        intra_server_gbps=80.0,
        hop_latency_us=draw(st.sampled_from([0.0, 1.0])),
        ring_round_latency_us=draw(st.sampled_from([0.0, 2.1])),
    )
    time = st.floats(0.0, 4.0)
    divisors = [k for k in range(1, n + 1) if n % k == 0]
    operators = []
    for index in range(draw(st.integers(1, 5))):
        splits = []
        for _ in range(draw(st.integers(1, 3))):
            parts = draw(st.sampled_from(divisors))
            ways = draw(
                st.sampled_from([(a, b, parts // a // b) for a in divisors for b in divisors if parts % (a * b) == 0])
            )
            splits.append(Split(ways[0], draw(time), draw(time), 1, ways[1], ways[2]))
        producers = draw(st.lists(st.integers(0, index - 1), max_size=2)) if index else []
        inputs = tuple(OperatorInput(p, draw(st.sampled_from([1.0, 0.3, 0.0]))) for p in producers)
        weights = tuple(draw(st.lists(st.sampled_from([10, 10_000, 400_000]), max_size=2)))
        mixes, local = draw(st.booleans()), draw(st.booleans())
        width = draw(st.sampled_from([1, 5, 300]))
        operators.append(Operator(f"o{index}", "dense", width, 4, weights, inputs, tuple(splits), mixes, local))
    return cluster, Workload("random", 24 * 40, tuple(operators)), distances


@given(jobs(), st.data())
@settings(max_examples=250)
def test_no_strategy_is_faster_than_its_laws(job, data) -> None:
    """For random jobs, strategies and networks the longest path of the laws is at most the simulated iteration."""
    cluster, workload, distances = job
    laws = laws_of(cluster, workload)
    program = program_of(laws)
    placements = []
    for operator in workload.operators:
        split = data.draw(st.integers(0, len(operator.splits) - 1))
        placements.append(
            Placement(split, data.draw(st.integers(0, cluster.servers // operator.splits[split].parts - 1)))
        )
    strategy = Strategy(tuple(placements))
    network = realise(cluster, circulant(cluster, distances), strided_groups(cluster.servers)).network
    time_ms = simulate(build_task_graph(cluster, workload, strategy), network).iteration_time_ms
    path = longest_path(program, tuple(p.split for p in placements))
    assert path <= time_ms * (1 + 1e-9)
    certificate = StrategyCertificate(prove(program))
    assert evaluate_certificate(laws, certificate) <= path * (1 + 1e-9)
    if cluster.servers % 2 == 0:
        apart = laws_of(cluster, workload, 2)
        program = program_of(apart)
        path = longest_path(program, states_chosen(apart, placements))
        assert path <= time_ms * (1 + 1e-9)
        fixed = 0 if mirrored(apart) else None
        tree = prove(program, allowed=at_root(apart, fixed), programs=20)
        assert evaluate_certificate(apart, StrategyCertificate(tree, 2, fixed)) <= path * (1 + 1e-9)


@given(jobs(), st.data())
@settings(max_examples=60)
def test_a_strategy_and_its_mirror_image(job, data) -> None:
    """Where classes may be exchanged, the longest path of a choice is that of the choice with residues exchanged."""
    cluster, workload, _ = job
    if cluster.servers % 2:
        return
    laws = laws_of(cluster, workload, 2)
    if not mirrored(laws):
        return
    program = program_of(laws)
    chosen = tuple(data.draw(st.integers(0, len(s.split) - 1)) for s in laws.states)
    other = tuple(
        int(np.flatnonzero((s.split == s.split[c]) & (s.residue == (s.residue[c] + s.period[c] - 1) % s.period[c]))[0])
        for s, c in zip(laws.states, chosen, strict=True)
    )
    assert longest_path(program, other) == pytest.approx(longest_path(program, chosen), rel=1e-9, abs=1e-12)


def test_two_halves_that_keep_out_of_each_other() -> None:
    """Two heavy layers side by side, each on half of the servers or on all: classes tell that halves cost servers.

    Four servers, one layer behind the other, no bytes between them but weights of 4e6 bytes each; rate 2e6 bytes a ms.
    On two servers each a layer sends 4e6 bytes from each of them: 2 ms; on four, 6e6: 3 ms. Averaged over all servers
    the two halves send 1 ms each; the busiest server of a class sends 2 ms.
    """
    layers = tuple(
        Operator(name, "dense", 4, 4, (1_000_000,), (), (Split(2, 0.0, 0.0, 1),), False, False) for name in "ab"
    )
    cluster, workload = make_cluster(4, 2), Workload("halves", 32, layers)
    apart = laws_of(cluster, workload, 2)
    paths = {
        (r, s): longest_path(program_of(apart), states_chosen(apart, (Placement(0, r), Placement(0, s))))
        for r in (0, 1)
        for s in (0, 1)
    }
    assert paths == {(0, 0): pytest.approx(4.0), (1, 1): pytest.approx(4.0), (0, 1): 2.0, (1, 0): 2.0}


def test_no_mirror_where_something_is_pinned() -> None:
    """A pinned operator stands in one class: its state has no image, and a certificate may fix nothing."""
    cluster, workload = chain()
    pinned = replace(workload.operators[0], pinned_offset=1, splits=workload.operators[0].splits[:1])
    fixed = replace(workload, operators=(pinned, workload.operators[1]))
    laws = laws_of(cluster, fixed, 2)
    assert mirrored(laws_of(cluster, workload, 2))
    assert not mirrored(laws)
    tree = prove(program_of(laws))
    with pytest.raises(ValueError, match="cannot be exchanged"):
        evaluate_certificate(laws, StrategyCertificate(tree, 2, 1))


def test_classes_that_do_not_divide_the_servers() -> None:
    """Three servers have no two classes."""
    cluster, workload = chain(3)
    tree = prove(program_of(laws_of(cluster, workload)))
    with pytest.raises(ValueError, match="3 servers in 2 classes"):
        strategy_bound(cluster, workload, StrategyCertificate(tree, 2, None))


def chain(servers=4, **changes):
    """Two layers in a chain, each whole (3 ms and 6 ms back) or in as many parts as servers, 4e6 bytes of weights."""
    splits = sample_splits([1, servers], 3.0, 6.0, memory=100)
    layers = (dense("a", 4, (), splits, [1_000_000]), dense("b", 4, (0,), splits, [1_000_000]))
    return make_cluster(servers, 2, **changes), Workload("chain", 8 * servers, layers)


def test_hand_computed_bound() -> None:
    """A chain of two layers on one server takes 18 ms; in four parts it computes 4.5 ms and reduces 12e6 bytes.

    Both data parallel: the last layer turns at 0.75 + 0.75 + 1.5 ms, then each server sends 2 * 2 * 3/4 * 4e6 bytes
    over 2e6 bytes a ms, that is 6 ms: 9 ms. One layer whole, one in parts: 9 + 2.25 ms of compute in a row at least.
    """
    cluster, workload = chain()
    bound, certificate = prove_bound(cluster, workload)
    assert bound.value == pytest.approx(9.0)
    assert certificate is not None
    assert strategy_bound(cluster, workload, certificate) == bound
    # At a hundredth of the rate the AllReduces take 600 ms: the whole layers, in a row, are best.
    slow = replace(cluster, link_gbps=0.08)
    assert prove_bound(slow, workload)[0].value == pytest.approx(18.0)


def test_memory_excludes_splits() -> None:
    """Data parallelism needs 4 x 25 bytes a layer, as much in all as the whole layers; 200 in all are enough."""
    cluster, workload = chain(gpu_memory_bytes=100)
    assert prove_bound(cluster, workload)[0].value == pytest.approx(9.0)
    heavy = replace(
        workload,
        operators=tuple(
            replace(op, splits=(op.splits[0], replace(op.splits[1], server_memory_bytes=60)))
            for op in workload.operators
        ),
    )
    # 4 x 60 + 4 x 60 > 400: at most one layer is in parts, 9 + 2.25 ms and more.
    assert 11.25 <= prove_bound(cluster, heavy)[0].value <= 18.0


def test_times_of_nothing_beside_times() -> None:
    """Times of 1e-16 and 1e-18 ms beside some of 1 ms: the program has an optimum, no case above the best choice."""
    splits = (Split(1, 1.0, 1.0, 1, 1, 1), Split(1, 1.0693308760719096e-16, 0.0, 1, 1, 2))
    first = Operator("o0", "dense", 300, 4, (), (), splits, False, False)
    rest = (Split(1, 1.223864597590309e-18, 0.0, 1, 1, 1), Split(1, 0.0, 0.0, 1, 1, 1))
    second = Operator("o1", "dense", 1, 4, (), (OperatorInput(0, 1.0),), rest, False, False)
    cluster = make_cluster(2, 2, link_gbps=8.0, links=LinkDirection.BIDIRECTIONAL)
    laws = laws_of(cluster, Workload("random", 960, (first, second)))
    program = program_of(laws)
    least = min(longest_path(program, splits) for splits in itertools.product(range(2), repeat=2))
    tree = prove(program)
    assert tree is not None
    assert evaluate_certificate(laws, StrategyCertificate(tree)) == pytest.approx(least, rel=1e-6)


@given(jobs(), st.data())
@settings(max_examples=60)
def test_any_numbers_prove_no_more_than_the_best_choice(job, data) -> None:
    """Random weights, prices and cuts give a value no larger than the least longest path over all splits."""
    cluster, workload, _ = job
    laws = laws_of(cluster, workload)
    program = program_of(laws)
    least = min(longest_path(program, splits) for splits in itertools.product(*map(range, laws.counts)))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))

    def case() -> StrategyCase:
        weights = tuple((law.name, float(rng.random() ** 4)) for law in laws.laws if rng.random() < 0.6)
        prices = tuple(
            (tuple(rng.normal(size=laws.counts[u]).tolist()), tuple(rng.normal(size=laws.counts[v]).tolist()))
            for u, v in laws.pairs
        )
        return StrategyCase(weights, float(rng.random()), prices)

    cut = StrategyCut(int(rng.integers(len(laws.counts))), (0,), 1, 2)
    for certificate in (StrategyCertificate((case(),)), StrategyCertificate((cut, case(), case()))):
        assert evaluate_certificate(laws, certificate) <= least * (1 + 1e-9)


def test_the_flow_is_a_unit_flow() -> None:
    """Whatever the weights: one unit leaves the start, as much leaves an event as enters it, one unit ends."""
    cluster, workload = chain()
    laws = laws_of(cluster, workload)
    rng = np.random.default_rng(0)
    for weights in ({}, {law.name: float(rng.random()) for law in laws.laws}):
        flow = np.array(unit_flow(laws, weights))
        balance = np.zeros(len(laws.events))
        np.add.at(balance, [law.head for law in laws.laws], flow)
        np.add.at(balance, [law.tail for law in laws.laws], -flow)
        assert balance[0] == pytest.approx(-1)
        assert balance[-1] == pytest.approx(1)
        assert np.abs(balance[1:-1]).max() < 1e-12


def test_malformed_certificates_are_refused() -> None:
    """Unknown laws, weights below 0 or not finite, prices of another workload, cuts that are no tree."""
    cluster, workload = chain()
    _, certificate = prove_bound(cluster, workload)
    assert certificate is not None
    case = next(node for node in certificate.nodes if isinstance(node, StrategyCase))
    bad = [
        (),
        (replace(case, laws=(("work of nobody", 1.0),)),),
        (replace(case, laws=(("all work", -1.0),)),),
        (replace(case, laws=(("all work", float("inf")),)),),
        (replace(case, memory=float("nan")),),
        (replace(case, prices=()),),
        (replace(case, prices=(((0.0,), (0.0, 0.0)),)),),
        (case, case),
        (StrategyCut(0, (0,), 1, 1), case),
        (StrategyCut(0, (0,), 0, 1), case),
        (StrategyCut(9, (0,), 1, 2), case, case),
        (StrategyCut(0, (7,), 1, 2), case, case),
        (StrategyCut(0, (0,), 1, 5), case, case),
    ]
    for nodes in bad:
        with pytest.raises(ValueError, match=r"certificate|cut"):
            strategy_bound(cluster, workload, StrategyCertificate(nodes))


def test_no_weaker_than_the_formulas_and_deterministic() -> None:
    """The bound returned is the larger one; twice the same job, the same certificate."""
    cluster, workload = chain(6)
    first, second = prove_bound(cluster, workload), prove_bound(cluster, workload)
    assert first == second
    assert first[0].value >= best_bound(cluster, workload).value
    single = Workload("one", 4, (dense("a", 4, (), sample_splits([1])),))
    assert prove_bound(make_cluster(1, 2), single)[1] is None
