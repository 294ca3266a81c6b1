"""Scripts for hosts after a bandwidth allocation: servers joined by cables, which forward for each other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.host_cases import GBIT, allocated
from tests.support.paths import INSTANCES
from tests.support.read_back.exports import check_export
from topoopt.cli.app import app
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.formats.forwarding import build_ovs
from topoopt.formats.table import Export, ExportOptions

LINE = [(0, 1), (1, 0), (1, 2), (2, 1)]
RING = [*LINE, (2, 0), (0, 2)]
NETWORKS = INSTANCES / "networks"


def made(*arguments: object) -> Export:
    """An export that was read back."""
    export = build_ovs(allocated(*arguments), ExportOptions())  # type: ignore[arg-type]
    check_export("ovs", export)
    return export


def test_traffic_that_passes_through() -> None:
    """A server guarantees what it forwards like its own, and is told to forward."""
    export = made(3, LINE, 10.0, {(0, 2): [(1, 4.0)], (1, 2): [(2, 9.0)]})
    assert export.content == {
        kind: {("server0", "eth1", "server2"): 4 * GBIT, ("server1", "eth2", "server2"): 9 * GBIT}
        for kind in ("ovs", "tc")
    }
    scripts = {name: data.decode() for name, data in export.files}
    assert "setting net.ipv4.ip_forward 1" in scripts["server1.ovs.sh"]
    # The way back has no rate: a shortest route.
    assert re.search(
        r"10\.200\.0\.1/32 table 7100 proto 106 src 10\.200\.0\.3 via \S+ dev eth1", scripts["server2.tc.sh"]
    )


def test_both_ways_round() -> None:
    """Two neighbours share the traffic in the ratio of their rates."""
    export = made(3, RING, 10.0, {(0, 2): [(1, 2.0), (2, 6.0)], (1, 2): [(2, 2.0)]})
    assert isinstance(export.content, dict)
    assert export.content["tc"]["server0", "eth2", "server2"] == 6 * GBIT
    weights = re.search(r"10\.200\.0\.3/32.*weight (\d) .*weight (\d)", dict(export.files)["server0.tc.sh"].decode())
    assert weights is not None
    assert weights.groups() == ("1", "3")


def test_parallel_links() -> None:
    """Parallel links carry equal parts."""
    export = made(2, [(0, 1), (0, 1), (1, 0), (1, 0)], 10.0, {(0, 1): [(1, 12.0)]})
    assert isinstance(export.content, dict)
    assert export.content["ovs"] == {("server0", f"eth{k}", "server1"): 6 * GBIT for k in (1, 2)}


@pytest.mark.parametrize(
    ("links", "rates", "message"),
    [
        ([(0, 1), (1, 2), (2, 0)], {(0, 1): [(1, 1.0)]}, "not joined alike in both directions"),
        (RING, {(0, 2): [(1, 1.0)], (1, 2): [(0, 1.0)]}, "server 2 turn in a circle"),
        (RING, {(2, 2): [(0, 1.0)], (0, 2): [(2, 1.0)]}, "server 2 turn in a circle"),
        (RING, {(0, 2): [(1, 1.0)]}, "server 1 gets traffic for 2 and sends none on"),
        (LINE, {(0, 2): [(2, 1.0)]}, "no link from server 0 to 2"),
        (LINE, {}, "no rate above zero"),
    ],
)
def test_refusals(
    links: list[tuple[int, int]], rates: dict[tuple[int, int], list[tuple[int, float]]], message: str
) -> None:
    """One-way links, circles, routes that end or need a link that is not there, and no rates at all."""
    with pytest.raises(InputError, match=message):
        build_ovs(allocated(3, links, 10.0, rates), ExportOptions())


def test_more_than_a_link() -> None:
    """Rates above a link are refused, with the host and the interface."""
    with pytest.raises(InfeasibleError, match="egress of server1, eth2: 11000000000 bit/s promised"):
        build_ovs(allocated(3, LINE, 10.0, {(0, 2): [(1, 5.0)], (1, 2): [(2, 11.0)]}), ExportOptions())


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    """A solved instance of kind allocation."""
    folder = tmp_path / "solved"
    done = CliRunner().invoke(app, ["solve", str(NETWORKS / "parking-lot-5.yaml"), "-o", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    return folder / "solution.json"


def test_command_line(solution: Path, tmp_path: Path) -> None:
    """Solve, export, read as JSON; the hosts of a file have its names."""
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(
        "schema_version: 1\nkind: hosts\nhosts:\n"
        "  - {server: server0, name: rack1-a, address: 10.9.0.1, links: [{interface: ens1, bridge: data0}]}\n"
    )
    out = tmp_path / "scripts"
    words = [
        "export",
        str(solution),
        "--to",
        "ovs",
        "-o",
        str(out),
        "--set",
        f"hosts={hosts!s}",
        "--set",
        "strict=true",
        "--json",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["target"], told["kind"]) == ("ovs", "allocation")
    assert {Path(file).name for file in told["files"]} == {file.name for file in out.iterdir()}
    assert "bridge data0 ens1" in (out / "rack1-a.ovs.sh").read_text()
    assert "shares are limits" in told["notes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: hosts\nhosts: []\n", "schema_version"),
        ("schema_version: 1\nkind: hosts\nhosts: [{server: server0, nmae: a}]\n", "nmae"),
        ("schema_version: 1\nkind: hosts\nhosts: [{server: nobody}]\n", "no such server"),
        ('schema_version: 1\nkind: hosts\nhosts: [{server: server0, name: "$(reboot)"}]\n', "not a host name"),
        ("schema_version: 1\nkind: hosts\nhosts: [{server: server0, links: [{interface: 'a;b'}]}]\n", "interface"),
    ],
)
def test_hosts_that_are_refused(solution: Path, tmp_path: Path, text: str, message: str) -> None:
    """Bad files of hosts end with code 2, say what is wrong, and nothing is written."""
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(text)
    out = tmp_path / "scripts"
    done = CliRunner().invoke(
        app, ["export", str(solution), "--to", "ovs", "-o", str(out), "--set", f"hosts={hosts!s}"]
    )
    assert done.exit_code == 2
    assert message in done.output
    assert not out.exists()
