"""Traffic between two operators, told apart by classes of servers, against the transfers of all strategies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.verify_cases import dense, make_cluster, sample_splits
from topoopt.core.workload import Placement, Split, Strategy, TaskKind, Workload
from topoopt.kinds.job.methods import prove_bound
from topoopt.simulate.network import build_task_graph
from topoopt.verify.job.least_times import choices_of
from topoopt.verify.job.strategy_laws import class_traffic, states_of

N = 8


def _forward(graph) -> np.ndarray:
    """Which tasks are transfers that a forward task waits for."""
    after = np.where(np.diff(graph.successor_ptr) > 0, graph.successor_ptr[:-1], 0)
    return (graph.kind == TaskKind.TRANSFER) & (graph.kind[graph.successor[after]] == TaskKind.FORWARD)


@pytest.mark.parametrize("pinned", [None, 5])
def test_the_least_over_all_offsets(pinned) -> None:
    """Received and sent by a part at least, and what leaves and enters each class, of every two states of two layers,
    of which the second may be cut along its channels."""
    first = sample_splits([1, 2, 4, 8], 3.0, 6.0)
    second = (*sample_splits([1, 2, 4], 3.0, 6.0), Split(2, 1.0, 1.0, 1, channel_ways=2))
    if pinned is not None:
        first = first[:1]
    layers = (dense("a", 6, (), first, pinned_offset=pinned), dense("b", 5, (0,), second))
    cluster, workload = make_cluster(N, 2), Workload("pair", 8 * N, layers)
    choices = choices_of(cluster, workload)
    states = states_of(cluster, workload, choices, 2)
    (found,) = class_traffic(cluster, workload, choices, states, 2).values()
    least = {}
    for s, t in itertools.product(range(len(first)), range(len(second))):
        strides = [N // split.parts for split in (first[s], second[t])]
        offsets = [range(strides[0]) if pinned is None else [pinned], range(strides[1])]
        for o, p in itertools.product(*offsets):
            placements = (Placement(s, o), Placement(t, p))
            graph = build_task_graph(cluster, workload, Strategy(placements))
            forth = _forward(graph)
            sent = np.bincount(graph.source[forth], graph.bytes[forth], N)
            received = np.bincount(graph.target[forth], graph.bytes[forth], N)
            figures = [received[p :: strides[1]].min(), sent[o :: strides[0]].min()]
            figures += [amount[each::2].sum() for amount in (sent, received) for each in (0, 1)]
            key = tuple(
                int(np.flatnonzero((own.split == at.split) & (own.residue == at.offset % own.period))[0])
                for own, at in zip(states, placements, strict=True)
            )
            least[key] = np.minimum(least.get(key, np.inf), figures)
    assert len(least) == len(states[0].split) * len(states[1].split)
    for key, figures in least.items():
        assert found[key][1:].tolist() == pytest.approx(figures.tolist()), key


@pytest.mark.parametrize("servers", [48, 64])
def test_halves_are_told_apart_on_many_servers(servers) -> None:
    """Two layers on half of the servers each, whose weights every server of a half sends: on the same half both, or
    moving their samples from one to the other; the mean over all servers knows neither."""
    half = Split(servers // 2, 0.1, 0.1, 1)
    layers = (dense("a", 20_000, (), [half], [4_000_000]), dense("b", 64, (0,), [half], [4_000_000]))
    cluster, workload = make_cluster(servers, 2), Workload("halves", 64 * servers, layers)
    bound, certificate = prove_bound(cluster, workload)
    assert certificate is not None
    assert certificate.classes == 2
    rate = 2 * cluster.link_gbps * 1e9 / 8e3  # bytes a ms of a server
    each = 2 * 16e6 * (servers // 2 - 1) / (servers // 2) / rate
    moved = 128 * 20_000 * 4 / rate
    assert bound.value <= each + 2 * moved + 0.4  # apart
    assert bound.value > each * 1.3  # the mean says `each`: two layers, each on half of the servers, which do not meet
