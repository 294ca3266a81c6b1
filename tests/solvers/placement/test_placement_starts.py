"""First placements by list scheduling: hand-made cases, memory, and every one of the table on random graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from formulations.placed_graphs import FavouriteChildren, favourite_children_arrays, favourites
from solvers.backends import SOLVERS
from solvers.placement.makespan import improve
from solvers.placement.makespan_search import (
    STARTS,
    earliest_start,
    favourite_child,
    first_placements,
    group_graph,
    open_search,
)
from solvers.stop import Stop
from tests.support.placed_graphs import problem, random_problems
from topoopt.core.proofs import Argument, Bound
from topoopt.simulate.placement import placement_arrays


def placed(instance, rule):
    """The placement of a rule, if it finds one."""
    a = placement_arrays(instance)
    return next(iter(rule(a, group_graph(a))), None)


def test_favourite_children_of_a_fork_and_a_join():
    """The producer keeps the dearer of two consumers; of two producers the consumer follows the dearer one."""
    fork = FavouriteChildren(np.array([1.0, 5.0, 5.0]), {(0, 1): 3.0, (0, 2): 1.0})
    result = SOLVERS["highs"](favourite_children_arrays(fork))
    assert result.objective == pytest.approx(6.75)  # 1 + 3 x + 5 = 1 + (1 - x) + 5 at x = 1/4
    assert favourites(fork, result.x) == {0: 1}
    join = FavouriteChildren(np.array([1.0, 1.0, 5.0]), {(0, 2): 3.0, (1, 2): 1.0})
    result = SOLVERS["highs"](favourite_children_arrays(join))
    assert result.objective == pytest.approx(6.75)
    assert favourites(join, result.x) == {0: 2}


def test_a_chain_stays_together():
    """Transfers are dear: earliest start and favourite children both leave a chain on one device."""
    chain = problem([1, 1, 1, 1], [(0, [1], 5), (1, [2], 5), (2, [3], 5)], [1, 1])
    for rule in (earliest_start, favourite_child):
        assert len(set(placed(chain, rule).tolist())) == 1


def test_independent_operators_are_spread():
    """Nothing is sent: the second operator starts at once on the other device."""
    free = problem([3, 3], [], [1, 1])
    assert sorted(placed(free, earliest_start).tolist()) == [0, 1]
    assert placed(free, favourite_child) is None  # no consumer, no favourite


def test_memory_parts_a_favourite_child_from_its_parent():
    """Both do not fit one device, so the child goes to the other one; with no room at all there is no placement."""
    pair = problem([1, 1], [(0, [1], 5)], [1, 1], memory=[3, 3], room=4)
    assert sorted(placed(pair, favourite_child).tolist()) == [0, 1]
    crowd = replace(pair, devices=pair.devices[:1])
    assert placed(crowd, earliest_start) is None


@settings(max_examples=40)
@given(random_problems())
def test_every_first_placement_places_all_groups(instance):
    """A device for each group, for each rule of the table; some rule always finds one where memory is no limit."""
    a = placement_arrays(instance)
    g = group_graph(a)
    found = first_placements(a, g)
    assert found
    for name, place in found:
        assert name in STARTS
        assert len(place) == len(g.memory)
        assert ((place >= 0) & (place < len(a.room))).all()


def test_improvement_begins_with_what_is_handed_over():
    """Two operators of 4 ms side by side: on one device they take 8 ms, and a few moves part them."""
    search = open_search(problem([4.0, 4.0], [], [1, 1]), Bound(0.0, Argument.OPERATOR_CHAIN), 0, Stop())
    together = np.zeros(2, dtype=np.int64)
    search.offer_place(together)
    assert search.value == 8.0
    improve(search, [together], 50, None)
    assert search.value == 4.0
