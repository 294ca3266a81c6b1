"""Laws that every strategy obeys, and the certificates made of them, against simulated iterations."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from verify_cases import circulant, make_cluster

from formulations.strategy_choice import longest_path
from solvers.exact.strategy_program import prove
from solvers.heuristics.realise import realise
from topoopt.core.cluster import LinkDirection
from topoopt.core.strategy import Placement, Strategy, strided_groups
from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.simulate.evaluate import simulate
from topoopt.simulate.lower import build_task_graph
from topoopt.strategy_bound import program_of
from topoopt.verify.choices import choices_of
from topoopt.verify.strategy_certificate import evaluate_certificate
from topoopt.verify.strategy_laws import strategy_laws


def laws_of(cluster, workload):
    """The laws of an instance."""
    return strategy_laws(cluster, workload, choices_of(cluster, workload))


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
@settings(max_examples=250, deadline=None, derandomize=True)
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
    certificate = prove(program)
    assert evaluate_certificate(laws, certificate) <= path * (1 + 1e-9)
