"""On which servers ranks stand: against all maps, maps drawn and maps one exchange away."""

from __future__ import annotations

import random
from itertools import permutations

import numpy as np
import pytest

from solvers.llm_training.network import rank_map
from solvers.llm_training.network.evaluation import evaluated
from solvers.llm_training.network.fabrics import TRAINING_FABRICS
from solvers.llm_training.network.plan import best_on_fabric
from solvers.llm_training.network.rank_map import _orders, best_map
from solvers.stop import Stop
from tests.support.llm_cases import plain, ranked, strategy, training
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.network.groups import family_groups


def test_places_of_ranks_are_searched() -> None:
    """On six servers of a 1 x 2 x 3 torus all maps are tried: none drawn at random is faster."""
    problem = plain(training("llama3-70b", 48, 48, 8192), link_gbps=25.0)
    one = strategy(tensor=8, pipeline=3, data=2, zero=1)
    found = best_on_fabric(problem, "torus-3d", [ranked(problem, one)], Stop()).best.evaluated
    groups = family_groups(one, 8)
    draw = np.random.default_rng(3)
    for fabric in TRAINING_FABRICS["torus-3d"].networks(problem, one, groups):
        for _ in range(20):
            network = fabric.placed(groups, draw.permutation(6))
            assert evaluated(problem, one, network, groups).iteration_time_s >= found.iteration_time_s * (1 - 1e-9)


@pytest.mark.parametrize("parts", [{"data": 2}, {"context": 2}])
def test_maps_of_few_servers_are_the_best_of_all(parts: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Six servers on a torus of 2 x 3: nothing is faster than the map found, of 720, nor than the one by exchanges."""
    problem, one = plain(training("llama3-70b", 48, 48, 8192), link_gbps=25.0), strategy(tensor=8, pipeline=3, **parts)
    groups = family_groups(one, 8)
    (fabric, *_) = TRAINING_FABRICS["torus-3d"].networks(problem, one, groups)
    start = evaluated(problem, one, fabric.network, groups)
    found = best_map(problem, one, groups, fabric, start, Stop())
    every = [
        evaluated(problem, one, fabric.placed(groups, np.array(places)), groups).iteration_time_s
        for places in permutations(range(6))
    ]
    assert found.iteration_time_s == min(every)
    assert min(every) < start.iteration_time_s
    monkeypatch.setattr(rank_map, "may_tell", lambda *_: False)
    assert best_map(problem, one, groups, fabric, start, Stop()).iteration_time_s == pytest.approx(min(every), rel=1e-9)
    monkeypatch.setattr(rank_map, "MOST_PERMUTED", 0)
    exchanged = best_map(problem, one, groups, fabric, start, Stop())
    assert exchanged.iteration_time_s == pytest.approx(min(every), rel=1e-9)


MAP_CASES = 10


def _map_case(seed: int) -> tuple[LlmTrainingProblem, ParallelStrategy, str]:
    """Five or six servers whose links are few for what they carry."""
    rng = random.Random(seed)
    servers = rng.choice((5, 6))
    pipeline, context = rng.choice(
        [pair for pair in ((2, 1), (3, 1), (3, 2), (1, 2), (1, 3)) if servers == 6] or [(5, 1)]
    )
    problem = training(rng.choice(("llama3-70b", "mixtral-8x22b")), 8 * servers, 60, 4096 if servers == 5 else 6144)
    problem = plain(problem, degree=4, link_gbps=rng.choice((10.0, 25.0)))
    data = servers // pipeline // context
    one = strategy(tensor=8, context=context, pipeline=pipeline, data=data, zero=1 if data * context > 1 else 0)
    return problem, one, rng.choice(("torus-3d", "random-regular"))


@pytest.mark.parametrize("seed", range(MAP_CASES))
def test_no_map_of_all_is_faster(seed: int) -> None:
    """Against all maps, one by one: the search cuts, and takes maps that symmetries turn into each other once."""
    problem, one, name = _map_case(seed)
    groups = family_groups(one, 8)
    (fabric, *_) = TRAINING_FABRICS[name].networks(problem, one, groups)
    every = {
        places: evaluated(problem, one, fabric.placed(groups, np.array(places)), groups).iteration_time_s
        for places in permutations(range(problem.cluster.servers))
    }
    worst = max(every, key=lambda places: every[places])
    start = evaluated(problem, one, fabric.placed(groups, np.array(worst)), groups)
    maps = rank_map._Maps(problem, one, groups, fabric)
    found = maps.final(maps.fastest(start, Stop()).network.places)
    assert found.iteration_time_s == pytest.approx(min(every.values()), rel=1e-9)


def test_maps_of_more_servers_are_gone_through() -> None:
    """Ten servers on a torus of 2 x 5: no exchange of two servers, and no map drawn, is faster than the one found."""
    problem, one = (
        plain(training("llama3-70b", 80, 80, 8192), link_gbps=25.0),
        strategy(tensor=8, pipeline=5, data=2, zero=1),
    )
    groups = family_groups(one, 8)
    (fabric, *_) = TRAINING_FABRICS["torus-3d"].networks(problem, one, groups)
    found = best_map(problem, one, groups, fabric, evaluated(problem, one, fabric.network, groups), Stop())
    draw, places = np.random.default_rng(1), found.network.places
    maps = rank_map._Maps(problem, one, groups, fabric)
    for _ in range(300):
        assert maps.faster(draw.permutation(10), found) is None
    for a in range(10):
        for b in range(a):
            moved = places.copy()
            moved[a], moved[b] = places[b], places[a]
            assert maps.faster(moved, found) is None


def test_orders_of_dimensions_are_starts_of_the_map() -> None:
    """Blocks of eight ranks where stages count before replicas: block (stage, replica) stands at stage + 4 replica."""
    one = strategy(tensor=8, pipeline=4, data=2)
    found = [places.tolist() for places in _orders(one, 8)]
    assert [stage + 4 * replica for stage in range(4) for replica in range(2)] in found
    assert all(sorted(places) == list(range(8)) for places in found)
    # Ranks of a server that stand apart in every other order have no other place.
    assert not list(_orders(strategy(tensor=4, data=4, pipeline=1), 8))
