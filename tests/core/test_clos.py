"""Clos fabrics against the reference tables, hand counts, and networks wired switch by switch."""

from __future__ import annotations

import csv
from fractions import Fraction
from itertools import pairwise
from typing import Any

import networkx as nx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.paths import ROOT
from topoopt.core.clos import ClosFabric, ClosStatement, TierStatement, clos_fabric
from topoopt.core.errors import InputError

PUBLIC = ROOT.parent / "shared" / "data" / "public_cases"

SUPERPODS = (
    (64, (16, 8), (512, 512)),
    (128, (32, 16), (1024, 1024)),
    (256, (64, 32), (2048, 2048)),
    (512, (128, 128, 64), (4096, 4096, 4096)),
    (1024, (256, 256, 128), (8192, 8192, 8192)),
    (2048, (512, 512, 256), (16384, 16384, 16384)),
)
"""DGX SuperPOD B200, reference architecture: nodes of 8 interfaces; leaf, spine and core switches; cables."""


def superpod(servers: int, **more: Any) -> ClosFabric:
    """Of 64-port switches at 400 Gbit/s."""
    return clos_fabric(ClosStatement(servers=servers, degree=8, link_gbps=400, radix=64, **more))


@pytest.mark.parametrize(("servers", "switches", "cables"), SUPERPODS)
def test_superpod(servers: int, switches: tuple[int, ...], cables: tuple[int, ...]) -> None:
    """Switches and cables of each tier are those of the published table."""
    fabric = superpod(servers)
    assert tuple(tier.switches for tier in fabric.tiers) == switches
    assert fabric.cables == cables


def test_superpod_against_the_public_table() -> None:
    """The table of the case says what is typed in above."""
    table = PUBLIC / "46-superpod-counts" / "counts.csv"
    if not table.exists():
        pytest.skip("public cases are not there")
    for row in csv.DictReader(table.read_text().splitlines()):
        fabric = superpod(int(row["nodes"]))
        counts = [tier.switches for tier in fabric.tiers] + [0, 0]
        cables = [*fabric.cables, 0, 0]
        assert counts[:3] == [int(row[name]) for name in ("leaf", "spine", "core")]
        names = ("node_leaf_cables", "leaf_spine_cables", "spine_core_cables")
        assert cables[:3] == [int(row[name]) for name in names]


@pytest.mark.parametrize(("servers", "leaf", "spine"), [(31, 8, 4), (63, 16, 8), (96, 24, 16), (127, 32, 16)])
def test_units_that_are_not_full(servers: int, leaf: int, spine: int) -> None:
    """A server less than whole units changes no count; three units take spines that 32 links spread evenly over."""
    assert [tier.switches for tier in superpod(servers).tiers] == [leaf, spine]


def test_twin_port_modules_of_128_servers() -> None:
    """1024 + 1024 cables: 512 modules in servers (4 cages each), 512 at leaves down, leaves up and spines."""
    fabric = superpod(128, server_module_ports=2, switch_module_ports=2)
    assert fabric.transceivers == {"server": 512, "leaf down": 512, "leaf up": 512, "spine down": 512}
    single = superpod(128)
    assert sum(single.transceivers.values()) == 2 * sum(single.cables)
    copper = superpod(128, copper=True)
    assert copper.transceivers == {"leaf up": 1024, "spine down": 1024}


def test_alibaba_hpn() -> None:
    """15 segments of 1024 GPUs: 240 leaves of 128 x 200 down and 60 x 400 up, 120 aggregation switches, two planes."""
    tiers = (TierStatement(down=128, up=60), TierStatement(down=120))
    stated = ClosStatement(servers=1920, degree=8, link_gbps=400, radix=128, planes=2, breakout=2, tiers=tiers)
    fabric = clos_fabric(stated)
    assert fabric.text == "Clos fabric: 240 leaf and 120 spine switches in 2 planes"
    assert fabric.oversubscription == (Fraction(128 * 200, 60 * 400),)
    by_part = {radius.part: radius for radius in fabric.blast_radii()}
    assert (by_part["leaf"].servers, by_part["leaf"].kept) == (128, Fraction(15, 16))
    assert by_part["plane"].kept == Fraction(1, 2)
    assert by_part["spine"].kept == Fraction(119, 120)


CLAIM = {"servers": 128, "degree": 8, "link_gbps": 400}


def claim(spine: int, ports: int) -> ClosStatement:
    """32 leaves of 32 links down and 16 up, and spines."""
    leaf = TierStatement(switches=32, down=32, up=16)
    return ClosStatement(**CLAIM, tiers=(leaf, TierStatement(switches=spine, down=ports)))


def test_spine_ports_that_do_not_add_up() -> None:
    """512 links up against 8 x 32 ports: 4:1 and not 2:1; 8 of 64 or 16 of 32 would do."""
    with pytest.raises(InputError) as refused:
        clos_fabric(claim(8, 32))
    text = str(refused.value)
    for words in ("= 512", "= 256", "16 switches of 32 links", "8 of 64", "4:1 in place of 2:1"):
        assert words in text
    for spine, ports in ((8, 64), (16, 32)):
        fabric = clos_fabric(claim(spine, ports))
        assert fabric.oversubscription == (Fraction(2),)
        assert fabric.bisection_gbps == 102_400


def test_two_to_one_by_the_rule() -> None:
    """At 2:1 a leaf of 64 ports has 32 links down and 16 up, and 512 links need 8 spines of 64 ports."""
    fabric = superpod(128, oversubscription=(2.0,))
    assert [(tier.switches, tier.down, tier.up) for tier in fabric.tiers] == [(32, 32, 16), (8, 64, 0)]
    assert fabric.tiers[1].links == 512


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"radix": 64, "port_gbps": 800.0}, "ports of 400"),
        ({}, "ports of a switch"),
        ({"radix": 16, "tiers": 2}, "128 leaf switches take a link each of a switch above, which has 16"),
        ({"radix": 64, "tiers": 1}, "no switch above that joins them"),
        ({"radix": 40, "tiers": (TierStatement(down=32, up=16), TierStatement(down=40))}, "needs 48 ports"),
        ({"tiers": (TierStatement(down=32, up=16, switches=16), TierStatement(down=64))}, "take 32 leaves of 32"),
        ({"tiers": (TierStatement(down=32), TierStatement(down=64))}, "no links to the tier above"),
    ],
)
def test_refused_with_the_numbers(more: dict[str, Any], words: str) -> None:
    """Rates and ports that do not go with each other are named."""
    with pytest.raises(InputError, match=words):
        clos_fabric(ClosStatement(**CLAIM, **more))


def wired(fabric: ClosFabric) -> nx.MultiDiGraph[Any]:
    """Every link of a fabric of one plane, switch by switch: capacity 1 is a port of a server."""
    graph: nx.MultiDiGraph[Any] = nx.MultiDiGraph()

    def cable(a: Any, b: Any, capacity: float) -> None:
        graph.add_edge(a, b, capacity=capacity)
        graph.add_edge(b, a, capacity=capacity)

    down, up = fabric.tiers[0].down, fabric.port_gbps / fabric.link_gbps
    for server in range(fabric.servers):
        for rail in range(fabric.degree):
            rank = server * fabric.degree + rail
            leaf = server // down * fabric.degree + rail if fabric.rails else rank // down
            cable(("rank", rank), ("leaf", leaf), 1.0)
    spines = fabric.tiers[1].switches // fabric.pods
    for leaf in range(fabric.tiers[0].switches):
        for link in range(fabric.tiers[0].up):
            cable(("leaf", leaf), ("spine", leaf // fabric.pod_leaves, link % spines), up)
    if len(fabric.tiers) > 2:
        cores = fabric.tiers[2].switches // spines
        for pod in range(fabric.pods):
            for spine in range(spines):
                for link in range(fabric.tiers[1].up):
                    cable(("spine", pod, spine), ("core", spine, link % cores), up)
    return graph


@given(
    servers=st.integers(2, 20),
    degree=st.integers(1, 3),
    radix=st.sampled_from([4, 6, 8]),
    ratio=st.sampled_from([1.0, 2.0]),
    rails=st.booleans(),
    breakout=st.sampled_from([1, 2]),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_wired_switch_by_switch(
    servers: int, degree: int, radix: int, ratio: float, rails: bool, breakout: int
) -> None:
    """No switch has more cables than ports; counts are those of the wiring; any flow of one rank is as large."""
    stated = ClosStatement(servers=servers, degree=degree, link_gbps=100, radix=radix, oversubscription=(ratio,),
                           rails=rails, breakout=breakout)  # fmt: skip
    try:
        fabric = clos_fabric(stated)
    except InputError:
        assume(False)
    assume(len(fabric.tiers) > 1)
    graph = wired(fabric)
    for node in graph:
        if node[0] == "rank":
            continue
        ports = Fraction(0)
        for _, other in graph.out_edges(node):
            ports += Fraction(1, breakout) if other[0] == "rank" else 1
        assert ports <= radix
    names = {"leaf": 0, "spine": 1, "core": 2}
    for name, level in names.items():
        built = sum(node[0] == name for node in graph)
        assert built == (fabric.tiers[level].switches if level < len(fabric.tiers) else 0)
    assert graph.number_of_edges() / 2 == sum(tier.links for tier in fabric.tiers)
    joined, flat = fabric.network(), nx.DiGraph()
    for tail, head, data in graph.edges(data=True):
        before = flat.get_edge_data(tail, head, {"capacity": 0.0})["capacity"]
        flat.add_edge(tail, head, capacity=before + data["capacity"])
    merged: nx.DiGraph[Any] = nx.DiGraph()
    for (tail, head), rate in zip(joined.arcs.tolist(), joined.gbytes_per_s.tolist(), strict=True):
        merged.add_edge(tail, head, capacity=rate / 12.5)
    ranks = fabric.endpoints
    half = ranks // 2
    for graph_of, name in ((flat, lambda rank: ("rank", rank)), (merged, lambda rank: rank)):
        for rank in range(half):
            graph_of.add_edge("source", name(rank), capacity=float(ranks))
        for rank in range(half, ranks):
            graph_of.add_edge(name(rank), "sink", capacity=float(ranks))
    assert nx.maximum_flow_value(merged, "source", "sink") == pytest.approx(
        nx.maximum_flow_value(flat, "source", "sink")
    )


def test_three_tiers_at_the_bisection() -> None:
    """The flow from one half of the pods to the other is the bisection; a failed spine takes its share of a pod."""
    fabric = clos_fabric(ClosStatement(servers=128, degree=1, link_gbps=400, radix=8, rails=False))
    assert [tier.switches for tier in fabric.tiers] == [32, 32, 16]
    assert fabric.bisection_gbps == 128 * 400 / 2
    spine = next(radius for radius in fabric.blast_radii() if radius.part == "spine")
    assert (spine.parts, spine.interfaces, spine.kept) == (32, 16, Fraction(3, 4))
    rates = [
        {tuple(arc): rate for arc, rate in zip(network.arcs.tolist(), network.gbytes_per_s.tolist(), strict=True)}
        for network in (fabric.network(), fabric.network(failed="spine"))
    ]
    changed = [arc for arc in rates[0] if rates[0][arc] != rates[1][arc]]
    assert len(changed) == 2 * (4 + 1)  # 4 leaves of the pod, and the pod to the cores, both ways
    assert {rates[1][arc] / rates[0][arc] for arc in changed} == {0.75}


def test_whole_servers_on_a_leaf() -> None:
    """Without rails a leaf of 4 ports down holds two servers of two interfaces, and both are cut off with it."""
    stated = ClosStatement(servers=8, degree=2, link_gbps=100, radix=8, rails=False)
    leaf = clos_fabric(stated).blast_radii()[0]
    assert (leaf.interfaces, leaf.servers, leaf.cut_off, leaf.kept) == (4, 2, 2, Fraction(0))
    counts = [sum(clos_fabric(ClosStatement(servers=n, degree=2, link_gbps=100, radix=8)).cables) for n in (2, 4, 16)]
    assert all(a < b for a, b in pairwise(counts))
