"""Counting rules against the published table and hand counts; rates of equal cost against their definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import ROOT
from topoopt.core.clos import ClosStatement, fat_tree_arity, k_ary_tree
from topoopt.core.errors import InputError
from topoopt.core.price_book import (
    FIBRE,
    NIC,
    OCS_PORT,
    SWITCH_PORT,
    TRANSCEIVER,
    Bill,
    PriceBook,
    Quote,
    iterations_per_s_per_million_usd,
)
from topoopt.costs import (
    DIRECT_CONNECT,
    FABRIC_COSTS,
    Counting,
    NetworkSize,
    bill_of,
    cost_equivalent_fat_tree_gbps,
    default_price_book,
    equal_cost_gbps,
    port_gbps,
)
from topoopt.files.price_book_file import read_price_book

BOOK = default_price_book()
H200 = ROOT / "topoopt" / "costs" / "prices-h200.yaml"
RATES = (10.0, 25.0, 40.0, 100.0, 200.0)
TRANSCEIVERS = (20, 39, 39, 99, 198)
NICS = (185, 185, 354, 678, 815)
SWITCH_PORTS = (94, 144, 144, 187, 374)
"""The published table of component prices, typed in here a second time."""


def bill(
    fabric: str, servers: int, degree: int, gbps: float, counting: Counting = Counting.PORTS, ratio: float = 2.0
) -> Bill:
    """Of the shipped prices."""
    return bill_of(fabric, NetworkSize(servers, degree, ratio), gbps, BOOK, counting)


def pieces(found: Bill, part: str) -> float:
    """How many of a part."""
    return sum(line.count for line in found.lines if line.part == part)


@pytest.mark.parametrize(("gbps", "ratio"), [(10.0, 1.51), (25.0, 1.49), (40.0, 1.38), (100.0, 1.26), (200.0, 1.21)])
def test_optical_switches_over_patch_panels(gbps: float, ratio: float) -> None:
    """The published cost ratios of optical circuit switches to patch panels, at 150 USD of fibre."""
    switches, panels = bill("direct-connect-ocs", 128, 4, gbps), bill(DIRECT_CONNECT, 128, 4, gbps)
    assert switches.usd / panels.usd == pytest.approx(ratio, abs=0.005)


def test_optical_switches_over_patch_panels_on_average() -> None:
    """Over the five rates the mean ratio is 1.37."""
    ratios = [bill("direct-connect-ocs", 8, 1, g).usd / bill(DIRECT_CONNECT, 8, 1, g).usd for g in RATES]
    assert np.mean(ratios) == pytest.approx(1.37, abs=0.005)


def test_ideal_switch_over_direct_connect() -> None:
    """At 100 Gbit/s the ideal switch, counted as d fat-trees, costs 2.3 times direct connect."""
    ratio = bill("ideal-switch", 128, 4, 100.0).usd / bill(DIRECT_CONNECT, 128, 4, 100.0).usd
    assert ratio == pytest.approx(2.3, abs=0.05)


@pytest.mark.parametrize("row", range(5))
def test_servers_cost_what_the_table_says(row: int) -> None:
    """A panel interface is NIC, transceiver, fibre, 1x2 switch and 2 ports; a fat-tree server 6, 5 and 3 of them."""
    nic, optic, port = NICS[row], TRANSCEIVERS[row], SWITCH_PORTS[row]
    interface = nic + optic + 150 + 25 + 2 * 100
    assert bill(DIRECT_CONNECT, 10, 3, RATES[row]).usd_per_server == pytest.approx(3 * interface)
    assert bill("direct-connect-one-plane", 10, 3, RATES[row]).usd_per_server == pytest.approx(3 * (interface - 125))
    assert bill("direct-connect-ocs", 10, 3, RATES[row]).usd_per_server == pytest.approx(3 * (nic + optic + 670))
    tree = nic + 6 * optic + 5 * port + 3 * 150
    assert bill("full-fat-tree", 10, 3, RATES[row]).usd_per_server == pytest.approx(tree)
    assert bill("ideal-switch", 10, 3, RATES[row]).usd_per_server == pytest.approx(3 * tree)
    assert bill("random-regular", 10, 3, RATES[row]).usd_per_server == pytest.approx(3 * (nic + optic + 75))


@pytest.mark.parametrize("servers", [16, 54, 128, 432, 1024])
def test_full_trees_are_counted_alike_both_ways(servers: int) -> None:
    """With n = k^3/4 servers every port of a whole tree is in use: 5 ports, 6 transceivers, 3 fibres a server."""
    by_ports, whole = (bill("full-fat-tree", servers, 4, 100.0, counting) for counting in Counting)
    assert by_ports.usd == pytest.approx(whole.usd)
    assert pieces(whole, SWITCH_PORT) == 5 * servers
    assert pieces(whole, TRANSCEIVER) == 6 * servers
    assert pieces(whole, FIBRE) == 3 * servers


def brute_force_tree(servers: int, up: int, core_up: int) -> tuple[int, int, set[tuple[object, object]]]:
    """Arity, switches and cables of a tree, by wiring it server by server."""
    k = fat_tree_arity(servers)
    half = k // 2
    cables: set[tuple[object, object]] = set()
    racks = sorted({server // half for server in range(servers)})
    pods = sorted({rack // half for rack in racks})
    cables |= {(("server", s), ("rack", s // half)) for s in range(servers)}
    if len(racks) > 1:
        cables |= {(("rack", r), ("aggregation", r // half, a)) for r in racks for a in range(up)}
    if len(pods) > 1:
        aggregations = [(p, a) for p in pods for a in range(up)]
        cables |= {(("aggregation", p, a), ("core", a, i)) for p, a in aggregations for i in range(core_up)}
    switches = {end for cable in cables for end in cable if end[0] != "server"}  # type: ignore[index]
    return k, len(switches), cables


@given(servers=st.integers(1, 300), rack=st.sampled_from([1.0, 1.5, 2.0, 4.0]), core=st.sampled_from([1.0, 2.0, 3.0]))
@settings(max_examples=60)
def test_trees_that_are_not_full(servers: int, rack: float, core: float) -> None:
    """Switches and cables are those of a tree wired server by server; no switch has more cables than ports."""
    tree = k_ary_tree(servers, rack, core)
    half = tree.radix // 2
    k, switches, cables = brute_force_tree(servers, -int(-half // rack), -int(-half // core))
    assert (tree.radix, tree.switches, sum(tree.cables)) == (
        k,
        switches,
        len(cables),
    )
    used: dict[object, int] = {}
    for cable in cables:
        for end in cable:
            used[end] = used.get(end, 0) + 1
    assert max(used.values()) <= k


@pytest.mark.parametrize(
    ("fabric", "ports", "optics", "fibres"),
    [("oversubscribed-fat-tree", 3, 4, 2), ("aggregation-oversubscribed-fat-tree", 4, 5, 2.5)],
)
@pytest.mark.parametrize("counting", list(Counting))
def test_oversubscription_takes_ports_away(
    fabric: str, ports: float, optics: float, fibres: float, counting: Counting
) -> None:
    """At 2:1 in a full tree of k = 8: half of all above the racks, or of the cores, is gone (paid ports: by use)."""
    found = bill(fabric, 128, 4, 100.0, counting)
    assert pieces(found, TRANSCEIVER) == optics * 128
    assert pieces(found, FIBRE) == fibres * 128
    if counting is Counting.PORTS:
        assert pieces(found, SWITCH_PORT) == ports * 128
    else:  # k = 8: 32 racks, 16 or 32 aggregation switches, 8 cores
        assert pieces(found, SWITCH_PORT) == 8 * (32 + (16 if ports == 3 else 32) + 8)


def test_ratio_that_whole_uplinks_do_not_allow_is_said() -> None:
    """3:1 on 4 downlinks takes 2 uplinks, so it is 2:1, and the bill says so."""
    found = bill("oversubscribed-fat-tree", 128, 4, 100.0, Counting.DEVICES, 3.0)
    assert any("4 downlinks and 2 uplinks: 2:1" in note for note in found.notes)


def test_whole_optical_devices() -> None:
    """128 servers, d = 4 with look-ahead: 8 planes of 128 ports, 7 to a panel of 1008, so 2 panels; 2 OCS of 384."""
    panels = bill(DIRECT_CONNECT, 128, 4, 100.0, Counting.DEVICES)
    assert pieces(panels, "patch_panel_port") == 2 * 1008
    assert pieces(bill("direct-connect-ocs", 128, 4, 100.0, Counting.DEVICES), "ocs_port") == 2 * 384
    assert pieces(bill("direct-connect-ocs", 400, 2, 100.0, Counting.DEVICES), "ocs_port") == 4 * 384


def test_torus_and_hypercube_take_the_interfaces_they_need() -> None:
    """An odd interface of a torus stays dark, all of a hypercube are used; both are refused where they do not exist."""
    assert bill("torus-3d", 27, 7, 100.0).server_ports == 6
    assert bill("hypercube", 16, 8, 100.0).server_ports == 8
    for servers, degree in ((128, 4), (12, 8)):
        with pytest.raises(InputError, match="hypercube"):
            bill("hypercube", servers, degree, 100.0)
    for fabric, servers, degree in (("torus-2d", 16, 3), ("torus-3d", 27, 5), ("torus-2d", 17, 4), ("torus-3d", 14, 6)):
        with pytest.raises(InputError, match=fabric):
            bill(fabric, servers, degree, 100.0)
    for fabric, servers in (("torus-2d", 4), ("torus-2d", 2 * 997), ("torus-3d", 8), ("torus-3d", 2 * 3 * 997)):
        assert bill(fabric, servers, 6, 100.0).server_ports == 6


@given(degree=st.integers(1, 12), gbps=st.floats(1.0, 800.0))
@settings(max_examples=100)
def test_cost_equivalent_rate_spends_the_same(degree: int, gbps: float) -> None:
    """The fat-tree at this rate costs as much as direct connect, has its full rate for less, or is share of a port."""
    rate = cost_equivalent_fat_tree_gbps(degree, gbps)
    budget = bill(DIRECT_CONNECT, 1, degree, gbps).usd
    if rate >= RATES[0] and rate < degree * gbps:
        assert bill("full-fat-tree", 1, degree, rate).usd == pytest.approx(budget)
    elif rate == degree * gbps:
        assert bill("full-fat-tree", 1, degree, rate).usd <= max(budget, 1225.0) * (1 + 1e-9)
    else:
        assert rate == pytest.approx(RATES[0] * budget / (185 + 120 + 470 + 450))


def test_cost_equivalent_rate_by_hand() -> None:
    """d = 4 at 100 Gbit/s: 4608 USD a server buy 4608/4323 of a 200 Gbit/s fat-tree port."""
    assert cost_equivalent_fat_tree_gbps(4, 100.0) == pytest.approx(200 * 4608 / 4323)
    # 25 Gbit/s, d = 4: 4 (185 + 39 + 375) = 2396 USD, between 1758 at 40 Gbit/s and 2657 at 100.
    assert cost_equivalent_fat_tree_gbps(4, 25.0) == pytest.approx(40 + 60 * (2396 - 1758) / (2657 - 1758))
    # Racks at 2:1 cost 815 + 4 * 198 + 3 * 374 + 2 * 150 = 3029 USD a server at 200 Gbit/s.
    assert cost_equivalent_fat_tree_gbps(4, 100.0, 2.0) == pytest.approx(200 * 4608 / 3029)


@given(
    fabric=st.sampled_from([name for name in FABRIC_COSTS if name not in {"hypercube", "torus-2d", "torus-3d"}]),
    other=st.sampled_from([name for name in FABRIC_COSTS if name not in {"hypercube", "torus-2d", "torus-3d"}]),
    counting=st.sampled_from(list(Counting)),
    servers=st.integers(2, 1500),
    gbps=st.floats(10.0, 900.0),
)
@settings(max_examples=80)
def test_any_fabric_against_any(fabric: str, other: str, counting: Counting, servers: int, gbps: float) -> None:
    """At the rate of equal cost both bills are equal; without one, the slowest listed rate costs more."""
    stated = ClosStatement(servers=servers, degree=4, link_gbps=100, radix=128, planes=2, breakout=4)
    size = NetworkSize(servers, 4, optical_interfaces=2, clos=stated)
    usd = bill_of(other, size, gbps, BOOK, counting).usd
    rate = equal_cost_gbps(fabric, size, usd, BOOK, counting)
    if rate is None:
        assert bill_of(fabric, size, RATES[0], BOOK, counting).usd > usd
    else:
        assert bill_of(fabric, size, rate, BOOK, counting).usd == pytest.approx(usd)
        assert bill_of(fabric, size, rate * 1.001, BOOK, counting).usd >= usd * (1 - 1e-12)


@pytest.mark.parametrize("servers", [16, 64])
def test_photonic_rails_against_the_published_ratios(servers: int) -> None:
    """H200 servers of 8 GPUs, 128 and 512 of these: 4.27 times the cost and 23.9 times the power (arXiv:2602.12521).

    An interface takes six transceivers and five ports of 37,299 USD and 2,524 W / 64, or one and two of 520 USD and
    75 W / 192.
    """
    book = read_price_book(H200)
    tree, rails = (bill_of(name, NetworkSize(servers, 8), 400.0, book) for name in ("rail-fat-tree", "photonic-rails"))
    assert tree.watts is not None
    assert rails.watts is not None
    assert f"{tree.usd / rails.usd:.2f}" == "4.27"
    assert f"{tree.watts / rails.watts:.1f}" == "23.9"
    assert tree.usd == pytest.approx(8 * servers * (6 * 879 + 5 * 37_299 / 64), rel=1e-12)
    assert tree.watts / rails.watts == pytest.approx((60 + 5 * 2524 / 64) / (10 + 2 * 75 / 192), rel=1e-12)
    assert rails.usd == 8 * servers * (879 + 2 * 520)


def test_rails_that_have_other_ports_or_whole_switches() -> None:
    """Four ports a GPU; 8 rails of 2 x 400 ports do not fit into switches of 384."""
    size = NetworkSize(16, 8, rail_ports=32)
    assert pieces(bill_of("photonic-rails", size, 400.0, read_price_book(H200)), OCS_PORT) == 16 * 32
    whole = bill("photonic-rails", 16, 8, 100.0, Counting.DEVICES)  # 12 rails of 32 ports fit into one switch
    assert pieces(whole, OCS_PORT) == 384
    assert any("more than a switch of 384 has" in note for note in bill("photonic-rails", 400, 8, 100.0).notes)


def with_nic(quotes: tuple[float, ...]) -> PriceBook:
    """The shipped book with other NIC prices."""
    nics = replace(BOOK.part(NIC), quotes=tuple(Quote(usd, None) for usd in quotes))
    return replace(BOOK, parts=tuple(nics if part.name == NIC else part for part in BOOK.parts))


def test_falling_prices_give_the_fastest_rate_for_the_money() -> None:
    """Where a faster NIC is cheaper, the money of the slow one buys the faster rate."""
    book = with_nic((1000.0, 100.0, 100.0, 5000.0, 9000.0))
    size = NetworkSize(1, 1)
    usd = bill_of("random-regular", size, 10.0, book).usd  # 1000 + 20 + 75
    rate = equal_cost_gbps("random-regular", size, usd, book)
    # Between 40 (100 + 39 + 75 = 214) and 100 Gbit/s (5000 + 99 + 75 = 5174).
    assert rate == pytest.approx(40 + 60 * (1095 - 214) / (5174 - 214))


@pytest.mark.parametrize(
    ("gbps", "links", "note"),
    [(5.0, 1.0, "below the price book"), (400.0, 2.0, "beyond the price book"), (70.0, 1.0, "interpolated")],
)
def test_rates_that_are_not_in_the_book(gbps: float, links: float, note: str) -> None:
    """Slower: the slowest part; faster: so many links of the fastest rate with all their parts; both are said."""
    found = bill(DIRECT_CONNECT, 10, 4, gbps)
    assert pieces(found, NIC) == pytest.approx(40 * links)
    assert pieces(found, "patch_panel_port") == pytest.approx(80 * links)
    assert any(note in text for text in found.notes)


def test_interpolated_price() -> None:
    """Half-way between 40 and 100 Gbit/s a NIC costs the mean of both."""
    assert BOOK.quote(NIC, 70.0).usd == pytest.approx((354 + 678) / 2)
    assert BOOK.quote(NIC, 10.0).usd == 185
    assert BOOK.quote(NIC, 200.0).usd == 815


def test_power_is_a_total_only_where_every_part_is_known() -> None:
    """The known parts are added up, and those without a figure are named."""
    found = bill("random-regular", 10, 4, 100.0)
    assert found.watts is None
    assert found.power_missing == (NIC,)
    assert found.listed_watts == pytest.approx(40 * 3.5)
    assert bill("random-regular", 10, 4, 25.0).power_missing == (TRANSCEIVER,)


def test_fat_tree_of_equal_cost_says_when_it_is_capped() -> None:
    """At 10 Gbit/s and d = 12 the full rate costs less than direct connect."""
    gbps, remark = port_gbps("fat-tree", NetworkSize(128, 12), 10.0, BOOK, Counting.PORTS)
    assert gbps == 120.0
    assert "full rate for less" in (remark or "")


def test_performance_per_dollar() -> None:
    """100 ms are 10 iterations a second; for half a million dollars that is 20 a million; nothing is nothing."""
    assert iterations_per_s_per_million_usd(100.0, 5e5) == pytest.approx(20.0)
    assert iterations_per_s_per_million_usd(100.0, None) is None
    assert iterations_per_s_per_million_usd(float("inf"), 5e5) is None
    assert iterations_per_s_per_million_usd(100.0, 0.0) is None


def test_rails() -> None:
    """64 servers of 8 interfaces, a tree of 512 NICs: 5 switch ports, 6 transceivers and 3 fibres each, without a core
    (arXiv:2307.12169) 3, 4 and 2; whole devices fill a tree of 14-port switches, of which 512 take 74 racks."""
    for fabric, ports, transceivers, cables in (("rail-fat-tree", 5, 6, 3), ("rail-only", 3, 4, 2)):
        found = bill(fabric, 64, 8, 100.0)
        assert found.server_ports == 8
        counts = {NIC: 1, SWITCH_PORT: ports, TRANSCEIVER: transceivers, FIBRE: cables}
        assert {part: pieces(found, part) / 512 for part in counts} == counts
        assert found.usd == pytest.approx(512 * (678 + 187 * ports + 99 * transceivers + 150 * cables))
    tree = k_ary_tree(512)
    racks, aggregations = (tier.switches for tier in tree.tiers[:2])
    assert (tree.radix, racks) == (14, 74)
    whole = {name: bill(name, 64, 8, 100.0, Counting.DEVICES) for name in ("rail-fat-tree", "rail-only")}
    assert pieces(whole["rail-fat-tree"], SWITCH_PORT) == 14 * tree.switches
    assert pieces(whole["rail-only"], SWITCH_PORT) == 14 * (racks + -(-aggregations // 2))
    assert pieces(whole["rail-only"], FIBRE) == 512 + tree.cables[1]


@pytest.mark.parametrize(("servers", "tiers"), [(128, (32, 16)), (512, (128, 128, 64)), (2048, (512, 512, 256))])
def test_superpod_of_the_book(servers: int, tiers: tuple[int, ...]) -> None:
    """The book of H200 servers has switches of 64 ports: whole ones are those of the reference architecture."""
    book = read_price_book(H200)
    device = book.device(SWITCH_PORT)
    assert device is not None
    stated = ClosStatement(servers=servers, degree=8, link_gbps=400, radix=device.ports)
    for fabric in ("rail-fat-tree", "clos", "full-fat-tree"):
        found = bill_of(fabric, NetworkSize(servers, 8, clos=stated), 400.0, book, Counting.DEVICES)
        assert found.switches is not None
        assert tuple(tier.switches for tier in found.switches.tiers) == tiers
        assert pieces(found, SWITCH_PORT) == 64 * sum(tiers)
        assert pieces(found, FIBRE) == 8 * servers * len(tiers)
        assert found.server_ports == 8


def test_breakout_and_planes_by_hand() -> None:
    """8 servers of 2 interfaces of 200 Gbit/s in 2 planes: ports of 100, leaves split ports of 200 in two.

    A plane has one rail unit of 2 leaves with 16 links down in 8 ports of 200 and 8 up, and 1 spine of 16 ports. So
    there are 4 leaves and 2 spines, 16 cables of two legs and 32 above; a NIC is priced at 200, its 2 modules at 100.
    """
    stated = ClosStatement(servers=8, degree=2, link_gbps=200, radix=16, tiers=2, planes=2, breakout=2)
    size = NetworkSize(8, 2, clos=stated)
    found = bill_of("clos", size, 200.0, BOOK, Counting.DEVICES)
    assert found.switches is not None
    assert [tier.switches for tier in found.switches.tiers] == [2, 1]
    assert found.switches.cables == (16, 32)
    modules = {line.where: (line.count, line.rate_gbps) for line in found.lines if line.part == TRANSCEIVER}
    assert modules == {
        "server": (32, 100.0), "leaf down": (16, 200.0), "leaf up": (32, 200.0), "spine down": (32, 200.0)
    }  # fmt: skip
    ports = 16 * 6
    fibres = 150 * (16 + 32)
    assert found.usd == pytest.approx(16 * 815 + 32 * 99 + 80 * 198 + ports * 374 + fibres)
