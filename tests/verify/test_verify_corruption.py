"""Whatever single thing is changed in a valid plan, the checker rejects it, and never crashes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.verify_cases import twelve_servers, with_arrays
from topoopt.core.workload import GroupRings
from topoopt.verify.job.plan import check_plan

CASE = twelve_servers()


def drop_arc(plan, draw):
    """Leave out one arc."""
    keep = np.arange(len(plan.topology.arcs)) != draw(st.integers(0, len(plan.topology.arcs) - 1))
    topology = plan.topology
    topology = with_arrays(topology, arcs=topology.arcs[keep], multiplicity=topology.multiplicity[keep])
    return replace(plan, topology=topology)


def redirect_arc(plan, draw):
    """Send one arc elsewhere."""
    arcs = plan.topology.arcs.copy()
    index, column = draw(st.integers(0, len(arcs) - 1)), draw(st.integers(0, 1))
    arcs[index, column] = draw(st.integers(-2, 14).filter(lambda v: v != arcs[index, column]))
    return replace(plan, topology=with_arrays(plan.topology, arcs=arcs))


def change_multiplicity(plan, draw):
    """Claim more or fewer parallel links."""
    multiplicity = plan.topology.multiplicity.copy()
    index = draw(st.integers(0, len(multiplicity) - 1))
    multiplicity[index] = draw(st.integers(-1, 2**31 - 1).filter(lambda v: v != 1))
    return replace(plan, topology=with_arrays(plan.topology, multiplicity=multiplicity))


def change_switch(plan, draw):
    """Patch one interface elsewhere."""
    switches = plan.topology.switches.copy()
    row, server = draw(st.integers(0, 3)), draw(st.integers(0, 11))
    switches[row, server] = draw(st.integers(-3, 14).filter(lambda v: v != switches[row, server]))
    return replace(plan, topology=with_arrays(plan.topology, switches=switches))


def swap_switch_entries(plan, draw):
    """Cross two fibres of one switch."""
    switches = plan.topology.switches.copy()
    row = draw(st.integers(0, 3))
    a, b = draw(st.lists(st.integers(0, 11), min_size=2, max_size=2, unique=True))
    switches[row, [a, b]] = switches[row, [b, a]]
    return replace(plan, topology=with_arrays(plan.topology, switches=switches))


def redirect_node(plan, draw):
    """Send one node of a path elsewhere."""
    node = plan.routes.node.copy()
    index = draw(st.integers(0, len(node) - 1))
    before = node[index]
    # All distances of {1, 5} are odd: a server of the other parity is not next to the same neighbours.
    node[index] = draw(st.integers(-1, 13).filter(lambda v: (v - before) % 2 == 1 or not 0 <= v < 12))
    return replace(plan, routes=with_arrays(plan.routes, node=node))


def change_share(plan, draw):
    """Lose or invent a part of a pair's traffic."""
    share = plan.routes.share.copy()
    share[draw(st.integers(0, len(share) - 1))] = draw(
        st.sampled_from([0.0, 0.5, -1.0, 1 + 1e-6, float("nan"), float("inf"), -float("inf")])
    )
    return replace(plan, routes=with_arrays(plan.routes, share=share))


def change_pair(plan, draw):
    """Give a route to another pair."""
    target = plan.routes.target.copy()
    index = draw(st.integers(0, len(target) - 1))
    target[index] = draw(st.integers(-1, 12).filter(lambda v: v != target[index]))
    return replace(plan, routes=with_arrays(plan.routes, target=target))


def with_ring(plan, draw, change):
    """Replace one ring of one group by a changed one."""
    place = draw(st.integers(0, len(plan.rings) - 1))
    group = plan.rings[place]
    index = draw(st.integers(0, len(group.rings) - 1))
    rings = list(group.rings)
    rings[index] = change(rings[index])
    groups = list(plan.rings)
    groups[place] = GroupRings(group.members, tuple(rings))
    return replace(plan, rings=tuple(groups))


def duplicate_member(plan, draw):
    """Visit a member twice."""

    def change(ring):
        order = list(ring.order)
        a, b = draw(st.lists(st.integers(0, len(order) - 1), min_size=2, max_size=2, unique=True))
        order[a] = order[b]
        return replace(ring, order=tuple(order))

    return with_ring(plan, draw, change)


def swap_members(plan, draw):
    """Change the order but not the paths."""

    def change(ring):
        order = list(ring.order)
        a, b = draw(st.lists(st.integers(0, len(order) - 1), min_size=2, max_size=2, unique=True))
        order[a], order[b] = order[b], order[a]
        return replace(ring, order=tuple(order))

    return with_ring(plan, draw, change)


def change_ring_share(plan, draw):
    """Lose or invent a part of the payload."""
    value = draw(st.sampled_from([0.0, 0.25, 1.0, -0.5, float("nan"), float("inf")]))
    return with_ring(plan, draw, lambda ring: replace(ring, share=value))


def drop_ring_path(plan, draw):
    """Leave out the path of one member."""
    return with_ring(plan, draw, lambda ring: replace(ring, paths=ring.paths[1:]))


def drop_group(plan, draw):
    """Leave out the rings of one group."""
    place = draw(st.integers(0, len(plan.rings) - 1))
    return replace(plan, rings=plan.rings[:place] + plan.rings[place + 1 :])


def change_offsets(plan, draw):
    """Describe another circulant."""
    offsets = draw(st.sets(st.integers(0, 12), min_size=1, max_size=5).filter(lambda s: s != {1, 5, 7, 11}))
    return replace(plan, topology=with_arrays(plan.topology, offsets=tuple(sorted(offsets))))


CORRUPTIONS = [
    drop_arc,
    redirect_arc,
    change_multiplicity,
    change_switch,
    swap_switch_entries,
    redirect_node,
    change_share,
    change_pair,
    duplicate_member,
    swap_members,
    change_ring_share,
    drop_ring_path,
    drop_group,
    change_offsets,
]


@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda f: f.__name__)
def test_a_corrupted_plan_is_rejected(corrupt):
    """Any single corruption of a valid plan is a violation."""
    cluster, workload, plan = CASE

    @settings(max_examples=40)
    @given(st.data())
    def rejected(data):
        assert check_plan(cluster, workload, corrupt(plan, data.draw))

    rejected()


anything = st.one_of(
    st.none(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(-5, 20), max_size=4),
    st.lists(st.lists(st.floats(), max_size=3), max_size=3),
    st.just(object()),
    st.just({}),
)


@settings(max_examples=150)
@given(
    st.sampled_from(
        [("strategy", "placements")]
        + [("topology", name) for name in ("arcs", "multiplicity", "switches", "offsets", "servers", "degree", "links")]
        + [("routes", name) for name in ("source", "target", "pair_ptr", "share", "path_ptr", "node", "nodes_total")]
        + [(None, "rings"), (None, "strategy"), (None, "topology"), (None, "routes")]
    ),
    anything,
)
def test_junk_in_any_field_never_crashes(where, value):
    """A field of any type or shape is a violation, not an exception (nothing listed for offsets is fine)."""
    cluster, workload, plan = CASE
    part, name = where
    if part is None:
        broken = replace(plan, **{name: value})
    else:
        broken = replace(plan, **{part: replace(getattr(plan, part), **{name: value})})
    violations = check_plan(cluster, workload, broken)
    if name == "offsets" and not isinstance(value, int | float) and value in ((), [], "", {}):
        return
    same = {"servers": 12, "nodes_total": 12, "degree": 4}.get(name) == value
    assert violations or (name is not None and same)
