"""ASTRA-sim's network files: units, the shared examples, and everything that may be wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chakra_files import shared
from tests.support.read_back.plan_files import read_ns3_topology
from topoopt.core.errors import InputError
from topoopt.formats.astrasim import (
    AnalyticalNetwork,
    Ns3Topology,
    analytical_network,
    import_network,
    link_gib_per_s,
    network_text,
    npu_bandwidths,
    npu_gbytes_per_s,
    ns3_text,
    read_network,
)
from topoopt.formats.table import decimal_text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Ring_8npus", AnalyticalNetwork(("Ring",), (8,), (50.0,), (500.0,))),
        ("dgx_v100_4gpu", AnalyticalNetwork(("Ring",), (4,), (3.125,), (3.39,))),
        ("hgx_h100_16gpu", AnalyticalNetwork(("Switch", "Ring"), (8, 2), (400.0, 50.0), (936.25, 1000.0))),
        ("tpu_v3_32_2dtorus", AnalyticalNetwork(("Ring", "Ring"), (4, 8), (80.0, 80.0), (1000.0, 1000.0))),
    ],
)
def test_shared_networks(name: str, expected: AnalyticalNetwork) -> None:
    """The shared files, as they stand."""
    assert read_network(shared(f"astrasim/{name}.yml")) == expected


def test_regression_time_of_astrasim() -> None:
    """Its golden 117780 ns (8 ranks, ring, bandwidth 50, 4 chunks of 32768-byte messages) needs GiB/s, not GB/s."""

    def time_ns(gbytes_per_s: float) -> int:
        return 4 * (14 * (500 + int(32768 / gbytes_per_s)) + 15 * 10 + 7 * 3 * (32768 // 50))

    assert time_ns(npu_gbytes_per_s("Ring", 8, 50.0)) == 117_780
    assert time_ns(50.0) == 120_300


def test_published_design() -> None:
    """The optimum for GPT-3 in three dimensions, 397.55295, 89.99270 and 12.45435 GB/s, as it is to be exported."""
    blocks, sizes, optimum = ("ring", "fully-connected", "switch"), (16, 8, 32), (397.55295, 89.99270, 12.45435)
    network = analytical_network(blocks, sizes, optimum, 500.0)
    assert network.topology == ("Ring", "FullyConnected", "Switch")
    assert network.bandwidth_gib_per_s == pytest.approx((370.2500, 11.9732, 11.5990), abs=5e-5)
    assert npu_bandwidths(network) == pytest.approx(optimum)
    halved = analytical_network(blocks, sizes, optimum, 500.0, ring_queues=2)
    assert halved.bandwidth_gib_per_s == (network.bandwidth_gib_per_s[0] / 2, *network.bandwidth_gib_per_s[1:])
    assert npu_bandwidths(halved, 2) == pytest.approx(optimum)


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("ring", "fully-connected", "switch")),
            st.integers(2, 64),
            st.floats(1e-9, 1e8, exclude_min=True),
        ),
        min_size=1,
        max_size=4,
    ),
    st.floats(0, 1e9),
)
def test_networks_round_trip(scratch: Path, rows: list[tuple[str, int, float]], latency: float) -> None:
    """Every design reads back as the same numbers."""
    blocks, sizes, speeds = zip(*rows, strict=True)
    network = analytical_network(blocks, sizes, speeds, latency)
    file = scratch / "network.yml"
    file.write_text(network_text(network))
    assert read_network(file) == network
    for block, size, speed in zip(network.topology, sizes, speeds, strict=True):
        assert npu_gbytes_per_s(block, size, link_gib_per_s(block, size, speed)) == pytest.approx(speed, rel=1e-12)


GOOD = {"topology": "[Ring, Switch]", "npus_count": "[4, 2]", "bandwidth": "[1, 2.5]", "latency": "[0, 5]"}


@pytest.mark.parametrize(
    ("key", "text", "path"),
    [
        ("topology", "[Ring, Torus]", "topology[1]"),
        ("topology", "Ring", "topology"),
        ("npus_count", "[4, 1]", "npus_count[1]"),
        ("npus_count", "[4, 2.0]", "npus_count[1]"),
        ("npus_count", "[16777216, 2]", "npus_count"),
        ("bandwidth", "[0, 1]", "bandwidth[0]"),
        ("bandwidth", "[tbd, 1]", "bandwidth[0]"),
        ("bandwidth", "[.inf, 1]", "bandwidth[0]"),
        ("latency", "[0, -1]", "latency[1]"),
        ("latency", "[0]", None),
        ("latency", "[]", "latency"),
        ("speed", "[1]", "speed"),
    ],
)
def test_wrong_networks(tmp_path: Path, key: str, text: str, path: str | None) -> None:
    """Each mistake is named where it stands."""
    file = tmp_path / "network.yml"
    file.write_text("".join(f"{name}: {value}\n" for name, value in {**GOOD, key: text}.items()))
    with pytest.raises(InputError) as caught:
        read_network(file)
    assert [problem.path for problem in caught.value.problems] == [path]


@pytest.mark.parametrize("text", ["", "- 1\n", "a: 1\n", "topology: [Ring\n"])
def test_foreign_networks(tmp_path: Path, text: str) -> None:
    """Something else is refused with the name of the file."""
    file = tmp_path / "network.yml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"network\.yml"):
        read_network(file)


SPECIFIED = """\
20 12 24
8 9 10 11 12 13 14 15 16 17 18 19
0 8 1600Gbps 0.0005ms 0
1 8 1600Gbps 0.0005ms 0
2 9 1600Gbps 0.0005ms 0
3 9 1600Gbps 0.0005ms 0
4 10 1600Gbps 0.0005ms 0
5 10 1600Gbps 0.0005ms 0
6 11 1600Gbps 0.0005ms 0
7 11 1600Gbps 0.0005ms 0
0 12 800Gbps 0.0005ms 0
2 12 800Gbps 0.0005ms 0
1 13 800Gbps 0.0005ms 0
3 13 800Gbps 0.0005ms 0
4 14 800Gbps 0.0005ms 0
6 14 800Gbps 0.0005ms 0
5 15 800Gbps 0.0005ms 0
7 15 800Gbps 0.0005ms 0
0 16 400Gbps 0.001ms 0
4 16 400Gbps 0.001ms 0
1 17 400Gbps 0.001ms 0
5 17 400Gbps 0.001ms 0
2 18 400Gbps 0.001ms 0
6 18 400Gbps 0.001ms 0
3 19 400Gbps 0.001ms 0
7 19 400Gbps 0.001ms 0
"""


def test_specified_topology(tmp_path: Path) -> None:
    """The example is read, and comes out of our writer byte for byte."""
    file = tmp_path / "topology.txt"
    file.write_text(SPECIFIED)
    topology = read_ns3_topology(file)
    assert (topology.nodes, topology.switches, len(topology.links)) == (20, tuple(range(8, 20)), 24)
    assert topology.links[-1] == (7, 19, 400.0, 0.001, 0.0)
    assert ns3_text(topology) == SPECIFIED


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(4, 7), st.floats(1e-9, 1e9), st.floats(0, 1e6)), min_size=1))
def test_topologies_round_trip(scratch: Path, rows: list[tuple[int, int, float, float]]) -> None:
    """Rates and delays read back as the same numbers, parallel links stay."""
    topology = Ns3Topology(8, (4, 5, 6, 7), tuple((*row, 0.0) for row in rows))
    file = scratch / "topology.txt"
    file.write_text(ns3_text(topology))
    assert read_ns3_topology(file) == topology


@settings(max_examples=100)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_without_exponent(number: float) -> None:
    """ns-3 reads rates without exponents; no digit is lost."""
    text = decimal_text(number)
    assert float(text) == number
    assert "e" not in text.lower()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a topology"),
        ("a b c\n", "not a topology"),
        ("3 1 1\n3\n0 2 1Gbps 1ms 0\n", "list of switches"),
        ("3 1 1\n", "list of switches"),
        ("3 1 2\n2\n0 2 1Gbps 1ms 0\n", "wrong number of links"),
        ("3 1 1\n2\n0 0 1Gbps 1ms 0\n", "not a link"),
        ("3 1 1\n2\n0 2 1e3Gbs 1ms 0\n", "not a link"),
        ("3 1 1\n2\n0 2 1Gbps -1ms 0\n", "not a link"),
        ("3 1 1\n2\n0 5 1Gbps 1ms 0\n", "not a link"),
    ],
)
def test_wrong_topologies(tmp_path: Path, text: str, message: str) -> None:
    """Each mistake is told with its line."""
    file = tmp_path / "topology.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_ns3_topology(file)


SIMAI = "4 2 1 1 {links} A100\n2 3\n0 2 2400Gbps 0.000025ms 0\n1 2 2400Gbps 0.000025ms 0\n0 3 100Gbps 0.0005ms 0\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SIMAI.format(links=2), "ns-3 (SimAI): the first line says 2 links, 3 stand in the file"),
        ("3 1 1\n2\n0 2 400Gbps 0.0005ms 0\n1 2 400Gbps 0.0005ms 0\n", "(ASTRA-sim): the first line says 1 links, 2 "),
    ],
)
def test_topology_text_that_counts_otherwise_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """With both numbers; and it is called by its name where dimensions are needed."""
    file = tmp_path / "topo.txt"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        import_network(file)
    assert words in str(caught.value)
    with pytest.raises(InputError, match=r"topology text of ns-3 .* has no dimensions"):
        read_network(file)
