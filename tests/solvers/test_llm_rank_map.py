"""On which servers ranks stand: against all maps of few servers, and maps drawn."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from solvers.llm_training.evaluation import evaluated
from solvers.llm_training.plan import TRAINING_FABRICS, _orders, best_map, best_on_fabric
from solvers.stop import Stop
from tests.support.llm_cases import plain, ranked, strategy, training
from topoopt.simulate.llm_training.links import family_groups


def test_places_of_ranks_are_searched() -> None:
    """Six servers of a 1 x 2 x 3 torus: no map drawn at random is faster than the one found."""
    problem = plain(training("llama3-70b", 48, 48, 8192), link_gbps=25.0)
    one = strategy(tensor=8, pipeline=3, data=2, zero=1)
    found = best_on_fabric(problem, "torus-3d", [ranked(problem, one)], Stop()).evaluated
    groups = family_groups(one, 8)
    draw = np.random.default_rng(3)
    for fabric in TRAINING_FABRICS["torus-3d"].networks(problem, one, groups):
        for _ in range(20):
            network = fabric.placed(groups, draw.permutation(6))
            assert evaluated(problem, one, network, groups).iteration_time_s >= found.iteration_time_s * (1 - 1e-9)


@pytest.mark.parametrize("parts", [{"data": 2}, {"context": 2}])
def test_exchanges_find_the_best_of_all_maps_here(parts: dict[str, int]) -> None:
    """Six servers on a torus of 2 x 3: of 720 maps none is faster than the one found, and the first is slower."""
    problem, one = plain(training("llama3-70b", 48, 48, 8192), link_gbps=25.0), strategy(tensor=8, pipeline=3, **parts)
    groups = family_groups(one, 8)
    (fabric, *_) = TRAINING_FABRICS["torus-3d"].networks(problem, one, groups)
    start = evaluated(problem, one, fabric.network, groups)
    found = best_map(problem, one, groups, fabric, start, Stop())
    every = [
        evaluated(problem, one, fabric.placed(groups, np.array(places)), groups).iteration_time_s
        for places in permutations(range(6))
    ]
    assert found.iteration_time_s == pytest.approx(min(every), rel=1e-9)
    assert min(every) < start.iteration_time_s


def test_orders_of_dimensions_are_starts_of_the_map() -> None:
    """Blocks of eight ranks where stages count before replicas: block (stage, replica) stands at stage + 4 replica."""
    one = strategy(tensor=8, pipeline=4, data=2)
    found = [places.tolist() for places in _orders(one, 8)]
    assert [stage + 4 * replica for stage in range(4) for replica in range(2)] in found
    assert all(sorted(places) == list(range(8)) for places in found)
    # Ranks of a server that stand apart in every other order have no other place.
    assert not list(_orders(strategy(tensor=4, data=4, pipeline=1), 8))
