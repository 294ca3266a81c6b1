"""check_plan accepts valid plans and names exactly the law each corrupted one breaks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.plan_loads import plan_figures
from tests.support.verify_cases import (
    circulant,
    four_servers,
    make_cluster,
    make_plan,
    path_table,
    sample_splits,
    split_index,
    twelve_servers,
    two_layers,
    with_arrays,
)
from topoopt.core.cluster import LinkDirection
from topoopt.core.workload import GroupRings, Operator, Placement, Ring, Split, Strategy, Workload
from topoopt.page.networks import diameter_and_mean_hops
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.plan import check_plan, inspect_plan
from topoopt.verify.laws import routing as routes


def codes(cluster, workload, plan):
    """The set of codes reported."""
    return {violation.code for violation in check_plan(cluster, workload, plan)}


@pytest.mark.parametrize("servers", [2, 3, 4])
@pytest.mark.parametrize("links", list(LinkDirection))
def test_rings_of_two_to_four_servers_are_accepted(servers, links):
    """A ring with routes for all pairs is valid in both link directions."""
    cluster = make_cluster(servers, 2 if servers > 2 else 1, links)
    workload = two_layers(servers, 12)
    whole = split_index(workload.operators[1], servers)
    plan = make_plan(cluster, [(0, 1), (whole, 0)], [1], [tuple(range(servers))])
    assert check_plan(cluster, workload, plan) == ()


def test_one_server_needs_no_network():
    """A single server has no arcs, routes or rings."""
    cluster, workload = make_cluster(1, 1), two_layers(1)
    plan = make_plan(cluster, [(0, 0), (0, 0)], [], [])
    assert check_plan(cluster, workload, plan) == ()
    assert not plan_figures(cluster, workload, plan).link_bytes.any()


def test_circulant_of_the_testbed_is_accepted_and_measured():
    """{1, 5} on 12 servers: diameter 3, mean 1.818 hops."""
    cluster, workload, plan = twelve_servers()
    assert check_plan(cluster, workload, plan) == ()
    diameter, mean_hops = diameter_and_mean_hops(plan.topology)
    assert diameter == 3
    assert mean_hops == pytest.approx(20 / 11)


@pytest.mark.parametrize("at_once", [1, 5, 2_000_000])
def test_traffic_split_over_two_paths_is_accepted(monkeypatch, at_once):
    """Two paths of a pair may share its bytes, and its load is split accordingly, however many hops go at once."""
    monkeypatch.setattr(routes, "AT_ONCE", at_once)
    cluster, workload, plan = four_servers()
    paths = {(i, j): [((i, j), 1.0)] for i in range(4) for j in range(4) if (i - j) % 4 in (1, 3)}
    for i in range(4):
        j = (i + 2) % 4
        paths[i, j] = [((i, (i + 1) % 4, j), 0.25), ((i, (i + 3) % 4, j), 0.75)]
    plan = replace(plan, routes=path_table(4, paths))
    assert check_plan(cluster, workload, plan) == ()
    # Server 1 and each other one: one hop to neighbours, two paths of two hops to the one across, forth and back.
    seen = inspect_plan(ViolationLog(), cluster, workload, plan)
    assert seen.hops.crossings(seen.traffic.transfers) == 2 * (1 + 1 + 4)
    # The table on server 1 sends 2 samples of 6 elements of 4 bytes to each other server, and gets them back.
    ring = 0.5 * 2 * 3 / 4 * 4 * (4096 + 8)
    load = plan_figures(cluster, workload, plan).link_bytes
    assert load[1, 2] == pytest.approx(ring + 48 + 0.25 * 48)
    assert load[1, 0] == pytest.approx(ring + 48 + 0.75 * 48)
    assert load[0, 1] == pytest.approx(ring + 48 + 0.25 * 48)
    assert load[3, 0] == pytest.approx(ring + 0.25 * 48)  # server 3 answers 1 half by way of 0
    assert load[0, 3] == pytest.approx(ring + 0.75 * 48)


def strategy_with(plan, *placements):
    """The plan with another strategy."""
    return replace(plan, strategy=Strategy(tuple(Placement(split, offset) for split, offset in placements)))


def one_operator(**fields):
    """A job of one operator that must use the given split."""
    return Workload("one", 8, (Operator("odd", "dense", 8, 4, (), (), (Split(**fields),)),))


@pytest.mark.parametrize(
    ("placements", "code"),
    [
        ([(0, 1)], "strategy-length"),
        ([(0, 1), (99, 0)], "strategy-split"),
        ([(-1, 1), (0, 0)], "strategy-split"),
        ([(0, 1), (1.0, 0)], "strategy-split"),
        ([(0, 4), (0, 0)], "strategy-offset"),
        ([(0, -1), (0, 0)], "strategy-offset"),
        ([(0, float("nan")), (0, 0)], "strategy-offset"),
    ],
)
def test_illegal_placements_are_named(placements, code):
    """Splits and offsets must be integers in range, one placement per operator."""
    cluster, workload, plan = four_servers()
    assert codes(cluster, workload, strategy_with(plan, *placements)) == {code}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"sample_ways": 3}, "strategy-parts"),
        ({"sample_ways": 1, "channel_ways": 8}, "strategy-parts"),
        ({"sample_ways": 0}, "strategy-parts"),
        ({"sample_ways": 4}, "strategy-samples"),
    ],
)
def test_parts_must_divide_servers_and_samples(fields, code):
    """Three parts do not fit four servers, and four sample ways do not divide ten samples."""
    cluster, _, plan = four_servers()
    workload = one_operator(forward_ms=1.0, backward_ms=1.0, server_memory_bytes=1, **fields)
    workload = replace(workload, samples=10)
    assert codes(cluster, workload, strategy_with(plan, (0, 0))) == {code}


def test_pinned_operators_stay_where_they_are():
    """An operator pinned to offset 1 may not stand at 0, and four parts cannot be pinned to offset 1."""
    cluster, workload, plan = four_servers()
    table, layer = workload.operators
    pinned = replace(workload, operators=(replace(table, pinned_offset=1), layer))
    assert codes(cluster, pinned, plan) == set()
    moved = replace(workload, operators=(replace(table, pinned_offset=0), layer))
    assert codes(cluster, moved, plan) == {"strategy-pinned"}
    impossible = replace(workload, operators=(table, replace(layer, pinned_offset=1)))
    assert codes(cluster, impossible, plan) == {"strategy-pinned"}


def test_memory_is_summed_per_server():
    """100 bytes of table and 25 of layer fit 125 bytes of memory, not 124; the message names server 1."""
    cluster, workload, plan = four_servers()
    assert codes(replace(cluster, gpu_memory_bytes=125), workload, plan) == set()
    (violation,) = check_plan(replace(cluster, gpu_memory_bytes=124), workload, plan)
    assert violation.code == "strategy-memory"
    assert "server 1 needs 125" in violation.message


def edited(plan, **changes):
    """The plan with changed topology arrays or fields."""
    return replace(plan, topology=with_arrays(plan.topology, **changes))


def changed(array, index, value):
    """A copy with one entry replaced."""
    copy = np.array(array)
    copy[index] = value
    return copy


def test_topology_must_be_of_the_cluster():
    """Servers, degree and link direction are compared with the cluster."""
    cluster, workload, plan = four_servers()
    for change in ({"servers": 5}, {"degree": 3}, {"links": LinkDirection.UNIDIRECTIONAL}):
        assert codes(cluster, workload, edited(plan, **change)) == {"topology-cluster"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda t: {"arcs": t.arcs[:, :1]}, "arc-shape"),
        (lambda t: {"arcs": t.arcs.astype(float)}, "arc-shape"),
        (lambda t: {"multiplicity": t.multiplicity[:-1]}, "arc-shape"),
        (lambda t: {"arcs": changed(t.arcs, (0, 1), 4)}, "arc-range"),
        (lambda t: {"arcs": changed(t.arcs, (0, 0), -1)}, "arc-range"),
        (lambda t: {"arcs": changed(t.arcs, (0, 1), 0)}, "arc-loop"),
        (lambda t: {"arcs": changed(t.arcs, 1, t.arcs[0])}, "arc-repeated"),
        (lambda t: {"multiplicity": changed(t.multiplicity, 3, 0)}, "arc-multiplicity"),
        (lambda t: {"multiplicity": changed(t.multiplicity, 3, 2)}, "degree-out"),
        (lambda t: {"multiplicity": changed(t.multiplicity, 3, 2)}, "degree-in"),
        (lambda t: {"multiplicity": np.full(len(t.arcs), 2**31 - 1)}, "degree-out"),
        (lambda t: {"multiplicity": np.full(len(t.arcs), 2**62)}, "degree-out"),
        (lambda t: {"arcs": t.arcs[1:], "multiplicity": t.multiplicity[1:]}, "link-one-way"),
        (lambda t: {"arcs": t.arcs[:0], "multiplicity": t.multiplicity[:0]}, "not-connected"),
        (lambda t: {"switches": t.switches[:1]}, "switch-shape"),
        (lambda t: {"switches": changed(t.switches, (0, 0), 4)}, "switch-range"),
        (lambda t: {"switches": changed(t.switches, (0, 0), 2)}, "switch-conflict"),
        (lambda t: {"switches": changed(t.switches, (0, 0), -1)}, "switch-links"),
        (lambda t: {"offsets": (1,)}, "offsets"),
        (lambda t: {"offsets": (1, 2, 3)}, "offsets"),
        (lambda t: {"offsets": (3, 1)}, "offsets"),
        (lambda t: {"offsets": (1, 3, 7)}, "offsets"),
    ],
)
def test_broken_topologies_are_named(change, code):
    """Every law of the topology has its own code, whatever else breaks with it."""
    cluster, workload, plan = four_servers()
    assert code in codes(cluster, workload, edited(plan, **change(plan.topology)))


def test_arcs_must_be_sorted():
    """The arcs of a plan are in ascending order."""
    cluster, workload, plan = four_servers()
    assert codes(cluster, workload, edited(plan, arcs=plan.topology.arcs[::-1])) == {"arc-order"}


def test_offsets_may_be_left_out_but_not_made_up():
    """No offsets are fine; a ring with one doubled link is no circulant."""
    cluster, workload, plan = four_servers()
    assert codes(cluster, workload, edited(plan, offsets=())) == set()
    wide = make_cluster(4, 3)
    topology = circulant(wide, [1])
    arcs = topology.arcs.tolist()
    double = [2 if arc in ([0, 1], [1, 0]) else 1 for arc in arcs]
    switches = changed(topology.switches, (2, slice(0, 2)), [1, 0])
    topology = with_arrays(topology, multiplicity=np.array(double), switches=switches)
    assert codes(wide, workload, replace(plan, topology=topology)) == {"offsets"}
    topology = with_arrays(topology, offsets=())
    assert codes(wide, workload, replace(plan, topology=topology)) == set()


def routed(plan, paths):
    """The plan with other routes."""
    return replace(plan, routes=path_table(plan.topology.servers, paths))


def ring_paths(changes=None, n=4):
    """A path for every pair of the four-server ring, some replaced or dropped (None)."""
    paths = {(i, j): [((i, j), 1.0)] for i in range(n) for j in range(n) if (i - j) % n in (1, n - 1)}
    paths |= {(i, (i + 2) % n): [((i, (i + 1) % n, (i + 2) % n), 1.0)] for i in range(n)}
    paths |= changes or {}
    return {pair: value for pair, value in paths.items() if value is not None}


@pytest.mark.parametrize("at_once", [1, 2, 7, 100])
def test_loops_are_found_whatever_is_looked_at_at_once(monkeypatch, at_once):
    """Paths 1, 3 and 4 come back to a server; an empty path, and two after another at the same server, do not."""
    monkeypatch.setattr(routes, "AT_ONCE", at_once)
    paths = ((0, 1, 2), (2, 3, 2), (), (1, 0, 3, 1, 2), (5, 5), (5, 4, 3))
    of_node = np.repeat(np.arange(len(paths), dtype=np.int32), [len(path) for path in paths])
    nodes = np.array([node for path in paths for node in path], dtype=np.int64)
    found = [routes._loops(nodes[part], of_node[part]) for part in routes._whole_paths(of_node)]
    assert np.concatenate(found).tolist() == [1, 3, 4]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({(1, 3): None}, "route-missing"),
        ({(1, 3): []}, "route-missing"),
        ({(1, 3): [((1, 3), 1.0)]}, "route-link"),
        ({(1, 3): [((1, 2), 1.0)]}, "route-ends"),
        ({(1, 3): [((2, 3), 1.0)]}, "route-ends"),
        ({(1, 3): [((1,), 1.0)]}, "route-ends"),
        ({(1, 3): [((), 1.0)]}, "route-ends"),
        ({(1, 3): [((1, 2, 1, 2, 3), 1.0)]}, "route-loop"),
        ({(1, 3): [((1, 4, 3), 1.0)]}, "route-range"),
        ({(1, 3): [((1, 2, 3), 0.9)]}, "route-share"),
        ({(1, 3): [((1, 2, 3), 1.5), ((1, 0, 3), -0.5)]}, "route-share"),
        ({(1, 3): [((1, 2, 3), float("nan"))]}, "route-share"),
        ({(1, 3): [((1, 2, 3), float("inf"))]}, "route-share"),
        ({(1, 1): [((1, 2, 1), 1.0)]}, "route-pair"),
        ({(1, 4): [((1, 2), 1.0)]}, "route-range"),
    ],
)
def test_broken_routes_are_named(changes, code):
    """Every law of the routes has its own code."""
    cluster, workload, plan = four_servers()
    assert codes(cluster, workload, routed(plan, ring_paths())) == set()
    assert code in codes(cluster, workload, routed(plan, ring_paths(changes)))


@pytest.mark.parametrize(
    "change",
    [
        lambda r: {"nodes_total": 5},
        lambda r: {"source": r.source[:-1]},
        lambda r: {"pair_ptr": r.pair_ptr + 1},
        lambda r: {"pair_ptr": r.pair_ptr[::-1]},
        lambda r: {"path_ptr": r.path_ptr[:-1]},
        lambda r: {"path_ptr": changed(r.path_ptr, 1, 2**62)},
        lambda r: {"share": np.array(["a"] * len(r.share))},
        lambda r: {"node": r.node.reshape(-1, 1)},
        lambda r: {"node": None},
    ],
)
def test_route_tables_that_do_not_fit_together_are_refused(change):
    """Wrong lengths, pointers and types are one violation, never a crash."""
    cluster, workload, plan = four_servers()
    assert codes(cluster, workload, replace(plan, routes=with_arrays(plan.routes, **change(plan.routes)))) == {
        "route-shape"
    }


def test_pairs_must_be_sorted_and_distinct():
    """The simulator looks pairs up by order, so unsorted or repeated pairs are refused."""
    cluster, workload, plan = four_servers()
    for source, target in ((0, 1), (0, 3)):
        routes = with_arrays(
            plan.routes,
            source=changed(plan.routes.source, 1, source),
            target=changed(plan.routes.target, 1, target),
        )
        assert "route-order" in codes(cluster, workload, replace(plan, routes=routes))


def ringed(plan, **changes):
    """The plan with one field of its first ring replaced."""
    (group,) = plan.rings
    first = replace(group.rings[0], **changes)
    return replace(plan, rings=(GroupRings(group.members, (first, *group.rings[1:])),))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"order": (0, 1, 2, 2)}, "ring-order"),
        ({"order": (0, 1, 2)}, "ring-order"),
        ({"order": (0, 1, 2, 4)}, "ring-order"),
        ({"share": 0.4}, "ring-share"),
        ({"share": -0.5}, "ring-share"),
        ({"share": float("nan")}, "ring-share"),
        ({"share": "half"}, "ring-share"),
        ({"paths": ((0, 1), (1, 2), (2, 3))}, "ring-paths"),
        ({"paths": ((0, 1), (1, 2), (2, 3), (0, 3))}, "ring-ends"),
        ({"paths": ((0, 1), (1, 2), (2, 3), (3,))}, "ring-ends"),
        ({"order": (0, 2, 1, 3), "paths": ((0, 2), (2, 1), (1, 2, 3), (3, 0))}, "ring-link"),
        ({"paths": ((0, 1), (1, 2), (2, 3), (3, 2, 3, 0))}, "ring-loop"),
        ({"paths": None}, "ring-shape"),
    ],
)
def test_broken_rings_are_named(changes, code):
    """Every law of the rings has its own code."""
    cluster, workload, plan = four_servers()
    assert code in codes(cluster, workload, ringed(plan, **changes))


def test_groups_need_rings_once():
    """A group with a payload needs rings, no group has two entries, and one server is no group."""
    cluster, workload, plan = four_servers()
    (group,) = plan.rings
    assert codes(cluster, workload, replace(plan, rings=())) == {"ring-missing"}
    assert codes(cluster, workload, replace(plan, rings=(group, group))) == {"ring-duplicate"}
    alone = GroupRings((0,), (Ring((0,), 1.0, ((0,),)),))
    assert codes(cluster, workload, replace(plan, rings=(group, alone))) == {"ring-group"}
    assert codes(cluster, workload, replace(plan, rings=(GroupRings((0, 1, 2, 9), group.rings),))) == {
        "ring-group",
        "ring-missing",
    }


def test_members_may_be_listed_in_ring_order():
    """A group is a set of servers; the order of its members is free."""
    cluster, workload, plan = four_servers()
    (group,) = plan.rings
    assert codes(cluster, workload, replace(plan, rings=(replace(group, members=(2, 3, 0, 1)),))) == set()


def test_plans_of_nothing_are_violations():
    """Missing pieces are reported, all of them, and never raise."""
    cluster, workload, plan = four_servers()
    empty = replace(plan, strategy=None, topology=None, routes=None, rings=None)
    assert {"strategy-shape", "topology-cluster", "route-shape", "ring-shape"} <= codes(cluster, workload, empty)


def test_repeated_violations_are_counted():
    """Twenty of a kind are listed, then their number."""
    cluster, workload, plan = twelve_servers()
    far = {(i, j): [((i, j), 1.0)] for i in range(12) for j in range(12) if i != j}
    violations = [v for v in check_plan(cluster, workload, routed(plan, far)) if v.code == "route-link"]
    # 12 * 11 pairs, 12 * 4 of them linked.
    assert len(violations) == 21
    assert violations[-1].message.startswith(f"{12 * 7 - 20} more")


def test_all_violations_are_collected():
    """One run reports what is wrong with strategy, topology, routes and rings together."""
    cluster, workload, plan = four_servers()
    broken = edited(ringed(strategy_with(plan, (0, 9), (0, 0)), share=0.1), offsets=(2,))
    broken = replace(broken, routes=with_arrays(plan.routes, share=plan.routes.share * 2))
    assert codes(cluster, workload, broken) == {"strategy-offset", "offsets", "route-share", "ring-share"}


def test_unlinked_graph_is_refused_in_both_directions():
    """Two separate pairs are not connected, even though every interface is used well."""
    cluster = make_cluster(4, 1)
    topology = circulant(cluster, [2])
    workload = Workload("rest", 4, (Operator("op", "dense", 1, 4, (), (), sample_splits([1])),))
    plan = replace(four_servers()[2], topology=topology, routes=path_table(4, {}), rings=())
    assert codes(cluster, workload, strategy_with(plan, (0, 0))) == {"not-connected"}
