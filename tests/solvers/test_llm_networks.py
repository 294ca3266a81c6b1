"""Networks for strategies of training: rates by hand, rings, routes, splits, maps, search, and against all tasks."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from solvers.llm_training.direct_connect import best_split, box_cycles, circulant_routes, direct_network, group_routes
from solvers.llm_training.evaluation import evaluated
from solvers.llm_training.plan import _tori, best_network, best_on_fabric, fabric_problems, optimistic_rates
from solvers.stop import Stop
from tests.support.followed_iteration import followed_s
from tests.support.llm_cases import plain, ranked, strategy, training
from topoopt.core.errors import InfeasibleError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import RankedStrategy
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import Overlap, ParallelStrategy
from topoopt.core.topology import torus_steps
from topoopt.core.workload import PathTable
from topoopt.simulate.llm_training.links import FamilyLoad, LinkGraph, family_groups, spread_routes, torus_routes
from topoopt.simulate.llm_training.step import max_min_parts
from topoopt.simulate.llm_training.strategies import columns_of, strategy_problems
from topoopt.simulate.llm_training.times import iteration_times


def _rate(problem: LlmTrainingProblem, one: ParallelStrategy, fabric: str, family: F) -> float:
    found = best_network(problem, fabric, ranked(problem, one))
    assert found is not None
    return found.evaluated.alone[family] / problem.device.reached.network


def test_rates_by_hand() -> None:
    """405B: tensor 8 fills a server, so all 8 groups of a server send over its 8 interfaces of 50 GB/s."""
    problem, one = plain(training("llama3-70b", 512, 512, 8192)), strategy(tensor=8, data=64)
    assert _rate(problem, one, "ideal-switch", F.DATA) == pytest.approx(50e9)
    # Four rings both ways over eight interfaces: every link carries an eighth of what a server sends.
    assert _rate(problem, one, "direct-connect", F.DATA) == pytest.approx(50e9)
    # Axes of 4 x 4 x 4 servers share 400 GB/s: six directions, all used by three rings both ways.
    assert _rate(problem, one, "torus-3d", F.DATA) == pytest.approx(50e9)


def test_one_axis_of_a_torus_has_a_third_of_its_rate() -> None:
    """Four stages of 16 servers, a hop goes one step along an axis: 400/6 GB/s of a server for its 8 GPUs."""
    problem, one = plain(training("llama3-70b", 512, 512, 8192)), strategy(tensor=8, pipeline=4, data=16, zero=1)
    assert _rate(problem, one, "torus-3d", F.PIPELINE) == pytest.approx(400e9 / 6 / 8)


def test_traffic_between_rails_passes_the_server() -> None:
    """context 2 with tensor 4 stays inside, data 2 by 4 crosses rails: 0 of 2 ring edges meet the same place."""
    problem = training("llama3-70b", 32, 32, 8192)
    slow = replace(problem, cluster=replace(problem.cluster, intra_server_gbps=200.0))
    one = strategy(tensor=4, pipeline=1, data=8, zero=1)
    inside = 200.0 * 1.25e8 * problem.device.reached.scale_up
    # Four groups of a server cross, each at one edge out of it; all bytes of them pass the network of 8 GPUs inside.
    found = best_network(slow, "rail-only", ranked(slow, one))
    assert found is not None
    seconds = found.evaluated.loads[F.DATA].seconds[-slow.cluster.servers :] / problem.device.reached.network
    assert seconds == pytest.approx(np.full(4, 4.0 / (8 * inside)))
    assert _rate(slow, one, "rail-fat-tree", F.DATA) <= 100e9


def test_a_group_without_links_of_its_own_sends_over_others() -> None:
    """Eight interfaces for four families that take nine at least: servers forward for one of them."""
    problem, one = plain(training("deepseek-v3", 512, 512, 4096)), strategy(pipeline=4, data=128, expert=64, zero=1)
    found = best_split(problem, one, family_groups(one, 8))
    assert found is not None
    split, placed = found
    (bare,) = [family for family, count in split.items() if not count]
    assert placed.loads[bare].hops > 1


def test_stages_that_nothing_joins_are_refused() -> None:
    """Two interfaces make rings of replicas or of stages, and neither joins all servers that send."""
    problem, one = plain(training("llama3-70b", 128, 128, 8192), degree=2), strategy(tensor=8, pipeline=4, data=4)
    assert best_split(problem, one, family_groups(one, 8)) is None


def test_too_few_interfaces_are_refused() -> None:
    """One interface joins pairs of servers, and no replica group of 16."""
    problem, one = plain(training("llama3-70b", 128, 128, 8192), degree=1), strategy(tensor=8, data=16)
    with pytest.raises(InfeasibleError, match="direct-connect: 1 interface of a server joins none of 1 strategy"):
        best_on_fabric(problem, "direct-connect", [ranked(problem, one)], Stop())


def test_unknown_and_impossible_fabrics_are_named() -> None:
    """All problems, with what is allowed."""
    cluster = training("llama3-70b", 8 * 11, 88, 8192).cluster
    texts = [str(one) for one in fabric_problems(cluster, ("torus", "hypercube", "direct-connect"))]
    assert len(texts) == 2
    assert texts[0].startswith("fabrics: no such fabric (value: torus)")
    assert texts[1].startswith("fabrics: hypercube: ")


def test_splits_use_no_more_interfaces_than_there_are() -> None:
    """Every server's links, family by family, are within the degree."""
    problem, one = plain(training("deepseek-v3", 512, 512, 4096)), strategy(pipeline=4, data=128, expert=64, zero=1)
    found = best_split(problem, one, family_groups(one, 8))
    assert found is not None
    graph = found[1].network.graph
    assert np.bincount(graph.tail, graph.parallel).max() <= sum(found[0].values()) <= 8
    assert np.bincount(graph.head, graph.parallel).max() <= 8


def _fullest(table: PathTable) -> float:
    load: Counter[tuple[int, int]] = Counter()
    for path in range(len(table.share)):
        for step in pairwise(table.path(path)):
            load[step] += float(table.share[path])
    return max(load.values())


@pytest.mark.parametrize(
    ("servers", "steps", "fullest"), [(8, (1, 3), 2.5), (8, (1, 2, 3), 4 / 3), (32, (1, 7), 21.0), (6, (1, 2), 1.5)]
)
def test_exchanges_on_circulants_fill_all_links_alike(servers: int, steps: tuple[int, ...], fullest: float) -> None:
    """A server reaches the others in so many hops in sum, by hand: 8 by steps 1, 3: 4 in one, 3 in two, 10 hops over 4
    links; by 1, 2, 3: 6 + 2 over 6; 32 by 1, 7: 4, 8, 12, 7 in one to four hops, 84 over 4; 6 by 1, 2 (4 in one, the
    opposite one in two, by one step of each kind): 6 hops over 4 links is 1.5, all links alike."""
    offsets = np.array(sorted({side for step in steps for side in (step, servers - step)}))
    table = circulant_routes(servers, offsets, np.ones(len(offsets)))
    assert len(table.source) == servers * (servers - 1)
    for place, ends in enumerate(zip(table.source.tolist(), table.target.tolist(), strict=True)):
        paths = range(int(table.pair_ptr[place]), int(table.pair_ptr[place + 1]))
        assert sum(float(table.share[path]) for path in paths) == pytest.approx(1.0)
        for path in map(table.path, paths):
            assert (path[0], path[-1]) == ends
            assert all((b - a) % servers in offsets for a, b in pairwise(path))
    assert _fullest(table) == pytest.approx(fullest, rel=1e-5)


def test_gradients_go_round_over_links_of_exchanges() -> None:
    """Experts over 8 of 16 servers with six links each, their replicas joined by two: rings of all 16 servers by steps
    1 and 3 inside the groups of eight cross where replicas are joined, so that every edge of them is a link."""
    problem, one = plain(training("deepseek-v3", 128, 128, 4096)), strategy(data=128, expert=64, zero=1, pipeline=1)
    groups, volume = family_groups(one, 8), dict.fromkeys(F, 1.0)
    split = {F.EXPERT: 6, F.EXPERT_DATA: 2, F.DATA: 0}
    network = direct_network(problem.cluster, groups, split, volume, seed=0)
    links = set(zip(network.graph.tail.tolist(), network.graph.head.tolist(), strict=True))
    (orders,) = network.orders[F.DATA]
    assert orders.shape == (1, 4, 16)
    for ring in orders[0].tolist():
        assert sorted(ring) == list(range(16))
        assert set(pairwise([*ring, ring[0]])) <= links
    own = evaluated(problem, one, network, groups)
    # Eight GPUs of a server follow each other in a ring, and one of them sends out of it: four rings, links of 50 GB/s.
    assert own.alone[F.DATA] / problem.device.reached.network == pytest.approx(4 * 50e9)


def test_even_splits_and_ranks_in_order_when_asked_for() -> None:
    """Eight interfaces of three families: exchange of tokens, reduction of gradients, stages (two links each at least,
    an exchange one more at a time): 3, 2, 3 or 2, 4, 2 and the like, never two steps apart. The split that is searched
    is no slower. Ranks in order stay on the servers in order."""
    problem, one = plain(training("deepseek-v3", 512, 512, 4096)), strategy(pipeline=4, data=128, expert=64, zero=1)
    groups = family_groups(one, 8)
    found = best_split(replace(problem, degree_split="even"), one, groups)
    best = best_split(problem, one, groups)
    assert found is not None
    assert best is not None
    assert max(found[0].values()) - min(found[0].values()) <= 2
    assert 7 <= sum(found[0].values()) <= 8
    assert best[1].iteration_time_s <= found[1].iteration_time_s
    small, plan = plain(training("llama3-70b", 48, 48, 8192), link_gbps=25.0), strategy(tensor=8, pipeline=3, data=2)
    pinned = best_on_fabric(replace(small, rank_map="in-order"), "torus-3d", [ranked(small, plan)], Stop())
    searched = best_on_fabric(small, "torus-3d", [ranked(small, plan)], Stop())
    assert pinned.evaluated.network.places.tolist() == list(range(6))
    assert searched.evaluated.iteration_time_s <= pinned.evaluated.iteration_time_s


def test_strategies_that_divide_the_gpus_alike_leave_room_for_others() -> None:
    """Of ten interleaved ones and a plain one that is slower without a network, four of the former get one, and it."""
    problem = plain(training("llama3-70b", 64, 64, 8192))
    alike = [
        strategy(tensor=8, pipeline=4, data=2, schedule="interleaved", chunks=chunks, zero=zero)
        for chunks in (2, 4, 5, 10, 20)
        for zero in (0, 1)
    ]
    given = [ranked(problem, one) for one in [*alike, strategy(tensor=8, data=8, zero=1)]]
    given = [replace(one, iteration_time_s=float(place)) for place, one in enumerate(given)]
    found = best_on_fabric(problem, "direct-connect", given, Stop(), count=20)
    pipelines = [one.ranked.strategy.pipeline for one in (found, *found.next)]
    assert (found.tried, sorted(pipelines)) == (5, [1, 4, 4, 4, 4])


@pytest.mark.parametrize(("sides", "whole"), [((4,), (True,)), ((4, 4), (True, True)), ((2, 4, 4), (False, True, True)),
                                              ((3, 4), (False, False)), ((4, 4, 8), (True, True, True))])  # fmt: skip
def test_rings_round_boxes_take_single_steps(sides: tuple[int, ...], whole: tuple[bool, ...]) -> None:
    """Every place once; neighbours of a ring are neighbours of the box, round it where an axis is whole."""
    for ring in box_cycles(sides, whole).tolist():
        assert sorted(ring) == list(range(int(np.prod(sides))))
        at = np.stack(np.unravel_index(ring, sides), axis=1)
        step = np.abs(at - np.roll(at, -1, axis=0))
        step = np.where(np.array(whole), np.minimum(step, np.array(sides) - step), step)
        assert (step.sum(axis=1) == 1).all()


@pytest.mark.parametrize(("shape", "twisted"), [((4, 4, 4), False), ((2, 4), False), ((2, 4, 4), True)])
def test_routes_of_a_torus_are_shortest(shape: tuple[int, ...], twisted: bool) -> None:
    """Two halves a pair, each of as many steps as a search finds."""
    from scipy.sparse.csgraph import shortest_path

    steps = torus_steps(shape, twisted=twisted)
    n = steps.shape[1]
    links = np.zeros((n, n))
    for step in steps:
        links[np.arange(n), step] = links[step, np.arange(n)] = 1
    source, target = np.nonzero(~np.eye(n, dtype=bool))
    table = torus_routes(steps, source, target)
    hops = shortest_path(links, unweighted=True)
    for pair in range(len(source)):
        paths = [table.path(path) for path in range(table.pair_ptr[pair], table.pair_ptr[pair + 1])]
        assert len(paths) == 2
        for path in paths:
            assert (path[0], path[-1]) == (source[pair], target[pair])
            assert len(path) - 1 == hops[source[pair], target[pair]]
            assert all(links[a, b] for a, b in pairwise(path))


@pytest.mark.parametrize(("n", "fullest"), [(5, 3.0), (6, 4.5), (7, 6.0)])
def test_exchange_on_a_ring_is_routed_evenly(n: int, fullest: float) -> None:
    """Distances from a server sum to n^2/4 or (n^2-1)/4, over its two links."""
    here = np.arange(n)
    tail, head = np.concatenate([here, here]), np.concatenate([(here + 1) % n, (here - 1) % n])
    table = group_routes(LinkGraph(n, n, tail, head, np.ones(2 * n, dtype=np.int64), 1.0), 0)
    load = np.zeros((n, n))
    for path in range(len(table.share)):
        nodes = table.path(path)
        for a, b in pairwise(nodes):
            load[a, b] += table.share[path]
    assert load.max() == pytest.approx(fullest)


def test_families_share_links_max_min() -> None:
    """Two that fill one link get half each; the one that a link of its own holds back leaves the rest."""

    def load(*seconds: float) -> FamilyLoad:
        return FamilyLoad(np.array(seconds), 1.0, 1)

    assert max_min_parts([load(1.0, 0.0), load(1.0, 0.0)]) == pytest.approx([0.5, 0.5])
    assert max_min_parts([load(1.0, 0.0), load(0.5, 1.0)]) == pytest.approx([2 / 3, 2 / 3])
    assert max_min_parts([load(1.0, 0.0), load(0.0, 1.0)]) == pytest.approx([1.0, 1.0])


def test_no_network_betters_the_bound() -> None:
    """Times on every direct fabric are at least those at optimistic rates, and those at least an ideal switch's."""
    problem = plain(training("deepseek-v3", 256, 256, 4096))
    for one in (strategy(pipeline=2, data=128, expert=128, zero=1), strategy(tensor=2, pipeline=4, data=32, expert=64)):
        known = ranked(problem, one)
        columns = columns_of([one], problem.model.layers)
        rates = optimistic_rates(problem, columns)
        bound = float(iteration_times(problem, columns, rates)[0])
        assert bound >= known.iteration_time_s * (1 - 1e-12)
        for fabric in ("direct-connect", "torus-3d", "hypercube"):
            found = best_network(problem, fabric, known)
            assert found is not None
            assert found.evaluated.iteration_time_s >= bound * (1 - 1e-9)


@pytest.mark.parametrize("fabric", ["direct-connect", "rail-only"])
def test_the_search_finds_the_best_of_all_candidates(fabric: str) -> None:
    """Against a network for every candidate."""
    problem = plain(training("llama3-70b", 64, 64, 8192), link_gbps=50.0)
    sizes = [(t, p, 64 // (t * p), b) for t in (4, 8) for p in (1, 2, 4) for b in (1, 2)]
    known = sorted(
        (ranked(problem, strategy(tensor=t, pipeline=p, data=d, micro_batch=b, zero=1)) for t, p, d, b in sizes),
        key=lambda one: one.iteration_time_s,
    )
    found = best_on_fabric(problem, fabric, known, Stop(), count=3)
    every = [best_network(problem, fabric, one) for one in known]
    times = sorted(one.evaluated.iteration_time_s for one in every if one is not None)
    own = [found, *found.next]
    assert [one.evaluated.iteration_time_s for one in own] == pytest.approx(times[:3])


CASES = 24


def _drawn(seed: int) -> tuple[LlmTrainingProblem, ParallelStrategy, str]:
    rng = random.Random(seed)
    while True:
        p, t = rng.choice((1, 2, 4, 8)), rng.choice((1, 2, 4, 8))
        model = rng.choice(("llama3-70b", "mixtral-8x22b", "gpt3-175b", "deepseek-v3"))
        d, m = rng.choice((2, 4, 8, 16)), p * rng.choice((2, 4))
        schedule = rng.choice(("1f1b", "interleaved", "gpipe", "zb-h1")) if p > 1 else "1f1b"
        x = rng.choice((1, 8, 16, 32)) if model in ("mixtral-8x22b", "deepseek-v3") else 1
        gpus = p * t * d
        if not 32 <= gpus <= 1024 or gpus // p % 8 or gpus // 8 * m > 400:
            continue
        problem = training(model, gpus, d * m, rng.choice((2048, 4096, 8192)))
        problem = plain(problem, degree=rng.choice((4, 6, 8)), link_gbps=rng.choice((200.0, 400.0)))
        problem = replace(problem, overlap=Overlap(data=rng.random() < 0.7))
        chunks = rng.choice((2, 3)) if schedule == "interleaved" else 1
        one = strategy(
            tensor=t, pipeline=p, data=d, chunks=chunks, expert=x, zero=rng.choice((0, 1)), schedule=schedule
        )
        if not strategy_problems(problem, one):
            return problem, one, rng.choice(("direct-connect", "torus-3d", "rail-fat-tree"))


@pytest.mark.parametrize("seed", range(CASES))
def test_representative_ranks_stand_for_all_servers(seed: int) -> None:
    """Within 3 % of the engine that follows every transfer of every server."""
    problem, one, fabric = _drawn(seed)
    found = best_network(problem, fabric, RankedStrategy(one, 0.0, 0.0))
    assert found is not None
    placed = found.evaluated
    followed = followed_s(problem, one, placed.network, found.groups, placed)
    assert placed.iteration_time_s == pytest.approx(followed, rel=0.03)


def test_strategies_come_in_the_order_given() -> None:
    """The search stops at the first candidate that an ideal switch makes no faster than the best found."""
    problem = plain(training("llama3-70b", 64, 64, 8192))
    first = ranked(problem, strategy(tensor=8, data=8, zero=1))
    slow = replace(first, iteration_time_s=first.iteration_time_s * 10)
    seen: list[RankedStrategy] = []

    def candidates():  # type: ignore[no-untyped-def]
        for one in (first, slow, slow):
            seen.append(one)
            yield one

    found = best_on_fabric(problem, "ideal-switch", islice(candidates(), 3), Stop())
    assert found.tried == 1
    assert found.ranked == first


def test_of_equal_numbers_of_rounds_the_least_is_taken() -> None:
    """All paths share link 0-1, so the second round, over server 3 where the first goes over 2, gains nothing."""
    tail, head = np.array([0, 1, 1, 2, 3]), np.array([1, 2, 3, 4, 4])
    graph = LinkGraph(5, 5, tail, head, np.ones(5, dtype=np.int64), 1.0)
    table = spread_routes(graph, np.array([0]), np.array([4]), np.array([1.0]), rounds=3, seed=0)
    assert table.share.tolist() == [1.0]


def test_tori_are_offered_twisted_too() -> None:
    """Sides of 2, 2 and 4 in each order, and once with the twist that they allow."""
    problem, one = plain(training("llama3-70b", 128, 16, 2048), degree=6), strategy(tensor=8, data=16)
    notes = [network.note for network in _tori(problem, one, family_groups(one, 8))]
    assert [note for note in notes if "twisted" in note] == ["2 x 2 x 4 torus, twisted"]
    assert {"2 x 2 x 4 torus", "2 x 4 x 2 torus", "4 x 2 x 2 torus"} <= set(notes)
