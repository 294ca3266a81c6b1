"""Scripts for hosts: they say the rates of the solution, fit every link, and name hosts as the user does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.host_cases import GBIT, applied, placed, text, worked_example
from tests.support.read_back.exports import check_export
from topoopt.core.cluster import Host, HostLink, HostRates, HostSetting, LinkRate, LinkSetting
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.formats.forwarding import build_ovs, host_export
from topoopt.formats.hosts import weights
from topoopt.formats.table import ExportOptions

OPTIONS = ExportOptions()


def test_worked_example() -> None:
    """Three servers with two links: rates of links, queues by destination, next hops in the ratio 4 to 10."""
    export = build_ovs(worked_example(), OPTIONS)
    check_export("ovs", export)
    promised = {
        ("A", "eth1", "B"): 4,
        ("A", "eth1", "C"): 6,
        ("A", "eth2", "B"): 10,
        ("B", "eth1", "A"): 3,
        ("B", "eth2", "C"): 9,
        ("C", "eth1", "A"): 2,
        ("C", "eth1", "B"): 1,
    }
    assert isinstance(export.content, dict)
    for found in export.content.values():
        assert set(found) == set(promised)
        for key, gbps in promised.items():
            assert 0.999 * gbps * GBIT <= found[key] <= gbps * GBIT
    lines = applied(export, "A.ovs.sh")
    assert any(
        "nexthop via 10.1.0.2 dev br-eth1 weight 2 nexthop via 10.2.0.2 dev br-eth2 weight 5" in x for x in lines
    )
    flow = "cookie=0x746f706f,priority=200,ip,in_port=LOCAL,nw_dst=10.1.0.3,actions=set_queue:3,NORMAL"
    assert any(line.endswith(f"add-flow br-eth1 {flow}") for line in lines)
    roots = [re.findall(r"type=linux-htb other_config:max-rate=(\d+)", line) for line in lines if "create qos" in line]
    assert roots == [["10000000000"], ["10000000000"]]
    assert build_ovs(worked_example(), OPTIONS).files == export.files


def test_guarantees_and_limits() -> None:
    """The limit of a queue is the link, with --strict its share; both are always stated, as whole numbers."""
    for strict in (False, True):
        export = build_ovs(worked_example(), ExportOptions(strict=strict))
        check_export("ovs", export)
        for name in "ABC":
            script = text(export, f"{name}.ovs.sh")
            queues = re.findall(
                r"id=@q([0-9]+) create queue other_config:min-rate=(\S+) other_config:max-rate=(\S+)", script
            )
            assert queues
            for number, least, most in queues:
                assert re.fullmatch("[0-9]+", least)
                assert most == (least if strict and number != "0" else "10000000000")


@pytest.mark.parametrize("links", [1, 2, 3])
def test_two_hosts(links: int) -> None:
    """Two hosts, one way only: the way back is a route without a guarantee, for the answers."""
    ends = {f"eth{k + 1}": 1.0 for k in range(links)}
    export = build_ovs(placed({"a": ends, "b": ends}, {("a", "b", k): 0.25 for k in range(links)}), OPTIONS)
    check_export("ovs", export)
    assert isinstance(export.content, dict)
    assert export.content["ovs"] == {("a", f"eth{k + 1}", "b"): GBIT // 4 for k in range(links)}
    assert any("10.200.0.1/32 table 7100" in line for line in applied(export, "b.ovs.sh"))
    assert not any("add-flow" in line for line in applied(export, "b.ovs.sh"))


@pytest.mark.parametrize("rates", ["none", "zero"])
def test_nothing_to_configure(rates: str) -> None:
    """Solutions without rates between servers are refused."""
    solution = worked_example()
    solution.figures.rates_gbps = None if rates == "none" else solution.figures.rates_gbps * 0
    solution.plan.link_shares = []
    with pytest.raises(InputError, match="no rates between servers"):
        build_ovs(solution, OPTIONS)


def test_links_of_both_servers() -> None:
    """Links that a server does not have are refused."""
    solution = placed({"a": {"eth1": 1.0}, "b": {"eth1": 1.0, "eth2": 1.0}}, {("b", "a", 1): 0.5})
    with pytest.raises(InputError, match="link 1 does not lead from b -> a"):
        build_ovs(solution, OPTIONS)


def test_incast() -> None:
    """More than a link takes in is refused, and the row is named; the same on the way out."""
    links = {name: {"eth1": 10.0, "eth2": 10.0} for name in "ABC"}
    shares = {("A", "B", 0): 10.0, ("C", "B", 0): 1.0}
    with pytest.raises(InfeasibleError, match=r"ingress of B, eth1: 11000000000 bit/s promised, 10000000000 there"):
        build_ovs(placed(links, shares), OPTIONS)
    with pytest.raises(InfeasibleError, match=r"egress of A, eth2: 12000000000 bit/s promised"):
        build_ovs(placed(links, {("A", "B", 1): 10.0, ("A", "C", 1): 2.0}), OPTIONS)


def test_rounding_of_a_solver() -> None:
    """Dust above a link is taken off, dust of a rate is no queue."""
    links = {name: {"eth1": 10.0} for name in "ABC"}
    shares = {("A", "B", 0): 10.0 + 1e-7, ("C", "B", 0): 1e-9, ("C", "A", 0): 0.1 + 0.2}
    export = build_ovs(placed(links, shares), OPTIONS)
    check_export("ovs", export)
    assert isinstance(export.content, dict)
    assert export.content["tc"] == {("A", "eth1", "B"): 9_990_000_000, ("C", "eth1", "A"): 300_000_000}


def many(count: int) -> HostRates:
    """Hosts with one link each, of which the first sends to the second."""
    hosts = tuple(
        Host(
            f"h{k}",
            f"10.{64 + (k >> 16)}.{k >> 8 & 255}.{k & 255}",
            (HostLink("eth1", "br1", f"11.0.{k >> 8}.{k & 255}/8", GBIT),),
        )
        for k in range(1, count + 1)
    )
    return HostRates("many", hosts, (LinkRate(0, 0, 1, 1, 0, GBIT // 2),))


def test_too_many_queues() -> None:
    """Queue numbers end below 61440, one of them is the default queue."""
    with pytest.raises(InputError, match=r"queue numbers end below 61440.*61440.*at most 61439"):
        host_export(many(61_440), strict=False)
    check_export("ovs", host_export(many(300), strict=False))


def test_old_rates_warn() -> None:
    """Classes above 34 Gbit/s are told; slower ones are not."""
    assert not any("WARNING" in note for note in build_ovs(worked_example(3.4), OPTIONS).notes)
    assert any("WARNING" in note for note in build_ovs(worked_example(3.5), OPTIONS).notes)
    assert any("rate 35000000000bit" in line for line in applied(build_ovs(worked_example(3.5), OPTIONS), "A.tc.sh"))


@pytest.mark.parametrize(
    ("rates", "expected"),
    [([4, 10], [2, 5]), ([1, 1], [1, 1]), ([0, 0], [1, 1]), ([1, 10**9], [1, 256]), ([3, 5, 7], [3, 5, 7])],
)
def test_weights(rates: list[int], expected: list[int]) -> None:
    """Smallest whole numbers in the ratio of the rates, 1 to 256."""
    assert weights(rates) == expected


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=8))
@settings(max_examples=50)
def test_weights_are_near(rates: list[int]) -> None:
    """Every share of the traffic is within one part in 256 for each next hop."""
    found = weights(rates)
    assert all(1 <= weight <= 256 for weight in found)
    error = max(abs(w / sum(found) - r / sum(rates)) for w, r in zip(found, rates, strict=True))
    assert error <= len(rates) / 256


@given(
    st.integers(2, 5),
    st.integers(1, 3),
    st.lists(st.floats(0, 1), min_size=60, max_size=60),
    st.sampled_from([0.02, 1.0, 25.0, 400.0]),
)
@settings(max_examples=25)
def test_any_rates_read_back(n: int, links: int, parts: list[float], gbps: float) -> None:
    """Random rates that fit come out of the commands as they went in, below the link and above 99.9 % of the share."""
    ends = {f"eth{k + 1}": gbps for k in range(links)}
    names = [f"h{s}" for s in range(n)]
    drawn = iter(parts)
    shares = {(a, b, k): next(drawn) * gbps / (n - 1) for a in names for b in names if a != b for k in range(links)}
    export = build_ovs(placed(dict.fromkeys(names, ends), {**shares, ("h0", "h1", 0): gbps / (n - 1)}), OPTIONS)
    check_export("ovs", export)
    for name in names:
        script = text(export, f"{name}.tc.sh")
        for link in ends:
            least = [int(x) for x in re.findall(rf"dev {link} parent 7106:ffff classid \S+ htb rate (\d+)bit", script)]
            assert sum(least) <= round(gbps * 1e9)
    assert isinstance(export.content, dict)
    for (a, b, k), share in shares.items():
        if share * 1e9 > 20_000 and (a, b, k) != ("h0", "h1", 0):
            assert 0.999 * share * 1e9 - 2 <= export.content["ovs"][a, f"eth{k + 1}", b] <= share * 1e9 + 1


@pytest.mark.parametrize(
    ("problem", "setting"),
    [
        ("no such server", HostSetting("Z")),
        ("another number of links", HostSetting("A", links=(LinkSetting(),))),
        ("an address more than once", HostSetting("A", address="10.200.0.2")),
        ("a host name more than once", HostSetting("A", name="B")),
        ("more than once", HostSetting("A", links=(LinkSetting("eth2"), LinkSetting()))),
        ("not in one subnet", HostSetting("A", links=(LinkSetting(address="10.7.0.1/24"), LinkSetting()))),
        ("not a plain address", HostSetting("A", links=(LinkSetting(address="10.1.0.1"), LinkSetting()))),
        ("not an address of a host", HostSetting("A", address="127.0.0.1")),
    ],
)
def test_settings_that_do_not_fit(problem: str, setting: HostSetting) -> None:
    """Names and addresses of hosts must fit the solution and each other."""
    with pytest.raises(InputError, match=problem):
        build_ovs(worked_example(), ExportOptions(hosts=(setting,)))


def test_settings() -> None:
    """Names, interfaces, bridges and addresses as the user has them."""
    links = (LinkSetting("ens1f0", "data0", "10.1.0.77/24"), LinkSetting())
    export = build_ovs(worked_example(), ExportOptions(hosts=(HostSetting("A", "node-a", "10.9.0.1", links),)))
    check_export("ovs", export)
    assert "bridge data0 ens1f0" in applied(export, "node-a.ovs.sh")
    assert "address 10.1.0.77/24 data0" in applied(export, "node-a.ovs.sh")
    assert any("nw_dst=10.1.0.77,actions=set_queue:1" in line for line in applied(export, "B.ovs.sh"))
