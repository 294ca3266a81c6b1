"""Fabrics that the checker builds again: the engine's time on each, and what their parts cost."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.built_again.baselines import graph_of, time_built_again
from tests.support.verify_cases import dense, make_cluster, sample_splits
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.job import BaselineSettings, CoOptimisation, FabricChoice
from topoopt.core.workload import Placement, Strategy, Workload, strided_groups
from topoopt.costs import default_price_book
from topoopt.simulate.fabrics import FABRICS, options_of
from topoopt.simulate.network import build_task_graph
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.checker import ViolationLog
from topoopt.verify.laws.networks import equal_cost_gbps, plan_parts, price_at

CHOICES = (
    *map(FabricChoice, FABRICS),
    FabricChoice("oversubscribed-fat-tree", "few cores", oversubscription=3.0, layer="aggregation"),
    FabricChoice("fat-tree", "slow", nic_gbps=33.0, oversubscription=1.5),
    FabricChoice("ideal-switch", "slow switch", nic_gbps=33.0),
    FabricChoice("torus-2d", "long", shape=(8, 2)),
    FabricChoice("fat-tree", "spread", oversubscription=1.5, ecmp="spread"),
    FabricChoice("full-fat-tree", "sprayed", ecmp="sprayed"),
    FabricChoice("fat-tree", "wide", radix=12),
    FabricChoice("oversubscribed-fat-tree", "wide racks", oversubscription=3.0, radix=8),
    FabricChoice("oversubscribed-fat-tree", "few racks, spread", ecmp="spread"),
    FabricChoice(
        "oversubscribed-fat-tree", "few cores, sprayed", oversubscription=3.0, layer="aggregation", ecmp="sprayed"
    ),
)


def drawn_job(servers: int, rng: np.random.Generator):
    """A few layers split and placed at random."""
    splits = sample_splits([p for p in range(1, servers + 1) if servers % p == 0], 0.1, 0.2)
    layers = [dense(f"l{k}", 3000, (k - 1,) if k else (), splits, [200_000 * (k + 1)]) for k in range(5)]
    placements = []
    for layer in layers:
        split = int(rng.integers(len(splits)))
        placements.append(Placement(split, int(rng.integers(servers // layer.splits[split].parts))))
    return Workload("drawn", 8 * servers, tuple(layers)), Strategy(tuple(placements))


def fabrics_of(cluster, workload, strategy, seed):
    """The time of every fabric the cluster has, by the engine, and its links where they are direct."""
    graph, rows = build_task_graph(cluster, workload, strategy), {}
    for choice in CHOICES:
        options = options_of(choice, BaselineSettings(), seed)
        try:
            network = FABRICS[choice.fabric].build(cluster, strided_groups(cluster.servers), options)
        except InputError:
            continue
        links = graph_of(cluster, network) if FABRICS[choice.fabric].kind == "direct" else None
        rows[choice.name] = (choice, simulate(graph, network).iteration_time_ms, links)
    return rows


CLUSTERS = [
    (servers, degree, links)
    for servers, degree in ((2, 2), (6, 3), (8, 6), (12, 4), (16, 5), (16, 7), (27, 6), (4, 7))
    for links in LinkDirection
]


@pytest.mark.parametrize(("servers", "degree", "links"), CLUSTERS)
def test_the_engine_and_the_checker_agree_on_every_fabric(servers, degree, links):
    """All fabrics a cluster has: built by the solver's side, and again by the checker from what the file says."""
    rng = np.random.default_rng(servers * 100 + degree)
    cluster = make_cluster(servers, degree, links, link_gbps=40.0, hop_latency_us=1.0, ring_round_latency_us=2.1)
    workload, strategy = drawn_job(servers, rng)
    seed = int(rng.integers(1000))
    problem = CoOptimisation("drawn", cluster, workload, baselines=BaselineSettings(fabrics=CHOICES))
    rows = fabrics_of(cluster, workload, strategy, seed)
    assert {"ideal-switch", "fat-tree", "random-regular"} <= set(rows)
    findings, book = ViolationLog(), default_price_book()
    for name, (choice, taken_ms, graph) in rows.items():
        again_ms = time_built_again(findings, problem, choice, strategy, graph, seed, book)
        assert again_ms == pytest.approx(taken_ms, rel=1e-6), name
    assert findings.violations() == ()


def test_links_of_another_fabric_are_not_taken():
    """The links of a torus are none of a hypercube, and so on round the fabrics; nor are those of a longer torus."""
    cluster = make_cluster(16, 4)
    workload, strategy = drawn_job(16, np.random.default_rng(0))
    rows = fabrics_of(cluster, workload, strategy, 1)
    problem = CoOptimisation("drawn", cluster, workload, baselines=BaselineSettings(fabrics=CHOICES))
    for name, other in (
        ("torus-2d", "twisted-torus-2d"),
        ("torus-2d", "long"),
        ("hypercube", "expander"),
        ("twisted-torus-2d", "hypercube"),
        ("expander", "random-regular"),
    ):
        findings = ViolationLog()
        assert time_built_again(findings, problem, rows[name][0], strategy, rows[other][2], 1, None) is None
        assert any("link" in violation.message for violation in findings.violations()), name


def test_prices_by_hand():
    """128 servers of four 100 Gbit/s interfaces at the shipped prices, added up here.

    Transceiver 99, NIC 678, switch port 187, panel port 100, 1x2 switch 25, fibre 0.30 a metre of 500 on average.
    """
    book = default_price_book()
    cluster = make_cluster(128, 4, link_gbps=100.0)
    interface = 678 + 99 + 150 + 25 + 2 * 100
    assert price_at(plan_parts(4), book, 100.0) == pytest.approx(4 * interface)
    # The fat-tree of equal cost: 4 x 1152 USD a server buy a little more than one link of 200 Gbit/s.
    full = 815 + 6 * 198 + 5 * 374 + 3 * 150
    assert equal_cost_gbps(cluster, 1.0, book) == pytest.approx(200 * 4 * interface / full)
