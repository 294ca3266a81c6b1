"""Tables for schedulers, tuners, NetBox and optical switches: small networks whose tables are written out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.cli_cases import run
from tests.support.make_solution import make_solution
from tests.support.paths import INSTANCES
from tests.support.read_back.exports import check_export
from tests.support.read_back.tables import hostnames
from topoopt.core.cluster import HostSetting, LinkSetting
from topoopt.core.collective import BestBySize, CollectiveOp
from topoopt.core.errors import InputError
from topoopt.files.sections import LinksNetwork, network_of
from topoopt.formats.inventories import block_sizes, differences, host_tree, hostlist, read_cables
from topoopt.formats.table import EXPORTERS, IMPORTERS, Export, ExportOptions


def clos(hosts_a_leaf: int = 2, leaves: int = 4, spines: int = 2, gpus: int = 2) -> Any:
    """Hosts of GPUs, an NVSwitch in each, one NIC a GPU at a leaf, two units of leaves under spines, a core."""
    hosts = hosts_a_leaf * leaves
    ranks = hosts * gpus
    names = [f"gpu{rank}" for rank in range(ranks)]
    names += [f"nv{host}" for host in range(hosts)] + [f"leaf{leaf}" for leaf in range(leaves)]
    names += [f"spine{spine}" for spine in range(2 * spines)] + ["core0"]
    number = {name: at for at, name in enumerate(names)}
    rows = [(rank, number[f"nv{rank // gpus}"], 450.0) for rank in range(ranks)]
    rows += [(rank, number[f"leaf{rank // gpus // hosts_a_leaf}"], 50.0) for rank in range(ranks)]
    for leaf in range(leaves):
        unit = leaf // (leaves // 2)
        rows += [(number[f"leaf{leaf}"], number[f"spine{unit * spines + spine}"], 100.0) for spine in range(spines)]
    rows += [(number[f"spine{spine}"], number["core0"], 50.0) for spine in range(2 * spines)]
    section = LinksNetwork(
        links=rows, directed=False, nodes=len(names), switches=list(range(ranks, len(names))), names=names
    )
    return network_of(section, Path())


def solved(network: Any, **more: Any) -> Any:
    """As much of a solution of a collective as exporters look at."""
    problem = SimpleNamespace(network=network, collective=CollectiveOp.ALLREDUCE, **more)
    return SimpleNamespace(kind="collective", name="c", figures=SimpleNamespace(problem=problem, front=()))


def exported(target: str, solution: Any, **options: Any) -> Export:
    """An export that reads back as itself."""
    made = EXPORTERS[target].build(solution, ExportOptions(**options))
    check_export(target, made)
    return made


def content(made: Export, name: str) -> str:
    return dict(made.files)[name].decode()


def test_slurm(tmp_path: Path) -> None:
    """NVSwitches are inside hosts; the two spines of a unit reach the same hosts, so they are one switch."""
    made = exported("slurm", solved(clos()), gpus_per_server=2)
    assert content(made, "topology.conf") == (
        "SwitchName=leaf0 Nodes=server[0-1]\n"
        "SwitchName=leaf1 Nodes=server[2-3]\n"
        "SwitchName=leaf2 Nodes=server[4-5]\n"
        "SwitchName=leaf3 Nodes=server[6-7]\n"
        "SwitchName=spine0 Switches=leaf[0-1]\n"
        "SwitchName=spine2 Switches=leaf[2-3]\n"
        "SwitchName=core0 Switches=spine[0,2]\n"
    )
    assert "block_sizes: [2, 4, 8]" in content(made, "topology.yaml")
    assert any("spine0 stands for 2 switches" in note for note in made.notes)


def test_kubernetes() -> None:
    """The leaf is tier 0."""
    hosts = (HostSetting("server5", name="node-f"),)
    made = exported("kubernetes", solved(clos()), gpus_per_server=2, hosts=hosts)
    tier = "fabric.topograph.run/tier-"
    assert isinstance(made.content, dict)
    assert made.content["node-f"] == {f"{tier}0": "leaf2", f"{tier}1": "spine2", f"{tier}2": "core0"}
    assert len(made.content) == 8


def test_text_of_ns3(tmp_path: Path) -> None:
    """Ranks, then switches, a link a line; what is written is imported as the same network."""
    network = clos()
    made = exported("astrasim", solved(network))
    lines = content(made, "topology.txt").splitlines()
    assert lines[0] == "33 17 44"
    assert lines[2] == "0 16 3600Gbps 0ms 0"
    (tmp_path / "t.txt").write_text(content(made, "topology.txt"))
    section = IMPORTERS["astrasim-network"](tmp_path / "t.txt").document["topology"]
    again = network_of(LinksNetwork(**section), Path())
    assert again.arcs.tolist() == network.arcs.tolist()
    assert again.gbytes_per_s.tolist() == network.gbytes_per_s.tolist()


def test_a_rail_unit_is_one_leaf() -> None:
    """Leaf j takes NIC j of all hosts: all leaves of the unit reach the same hosts."""
    rows = [(rank, 8 + rank % 2, 50.0) for rank in range(8)]
    section = LinksNetwork(links=rows, directed=False, nodes=10, switches=[8, 9])
    tree = host_tree(
        network_of(LinksNetwork(links=[*rows, (8, 9, 1.0)], directed=False, nodes=10, switches=[8, 9]), Path()), 2, ()
    )
    assert section.nodes == 10
    assert [(switch.switches, switch.hosts) for switch in tree.switches] == [(("8", "9"), (0, 1, 2, 3))]


def test_what_is_no_tree_is_refused() -> None:
    """A switch of hosts 0 and 1, and one of hosts 1 and 2."""
    rows = [(0, 3, 1.0), (1, 3, 1.0), (1, 4, 1.0), (2, 4, 1.0)]
    network = network_of(LinksNetwork(links=rows, directed=False, nodes=5, switches=[3, 4]), Path())
    with pytest.raises(InputError, match="switches that share some hosts are no tree"):
        host_tree(network, 1, ())
    with pytest.raises(InputError, match="which ranks are one host"):
        host_tree(network, None, ())
    with pytest.raises(InputError, match="do not fill hosts"):
        host_tree(network, 2, ())
    with pytest.raises(InputError, match="no packet switch joins two hosts"):
        host_tree(network, 3, ())


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n0", "n1", "n2", "n7"], "n[0-2,7]"),
        (["n01", "n02", "x"], "n[01-02],x"),
        (["n9"], "n9"),
        (["a-b.c", "a3", "b3"], "a-b.c,a3,b3"),
    ],
)
def test_host_lists(names: list[str], text: str) -> None:
    """As Slurm writes them, and back."""
    assert hostlist(names) == text
    assert hostnames(text) == names


def test_block_sizes() -> None:
    """Of NVIDIA's topograph: the smallest domain D of N, then D, 2D, ... 2^floor(log2 N) D."""
    assert block_sizes(18, 1) == [18]
    assert block_sizes(18, 5) == [18, 36, 72]
    assert block_sizes(18, 8) == [18, 36, 72, 144]


def test_cables_of_a_network() -> None:
    """One of 400 Gbit/s for each NIC, two for each uplink of 800; NVLinks are inside hosts."""
    made = exported("netbox-cables", solved(clos()), gpus_per_server=2, link_gbps=400.0)
    assert made.figures["cables"] == 16 + 2 * 8 + 4
    lines = content(made, "cables.csv").splitlines()
    assert lines[0] == "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name,status"
    assert "leaf0,dcim.interface,port1,server0,dcim.interface,eth1,planned" in lines
    assert any("16 links inside hosts" in note for note in made.notes)
    with pytest.raises(InputError, match="no whole number of ports"):
        exported("netbox-cables", solved(clos()), gpus_per_server=2, link_gbps=300.0)


def planned() -> Any:
    """Eight servers in rings of jumps 1 and 3, links both ways."""
    return make_solution(8, (1, 3))


def test_cables_of_servers() -> None:
    """As many as links both ways; names of hosts and interfaces are those of the settings."""
    links = tuple(LinkSetting(interface=f"ens{k}") for k in range(4))
    made = exported("netbox-cables", planned(), hosts=(HostSetting("server0", name="a", links=links),))
    assert made.figures["cables"] == 16
    text = content(made, "cables.csv")
    assert text.count("\na,dcim.interface,ens") == 4


LLDP = "local_device,local_port,remote_device,remote_port\n"


def test_what_is_plugged_wrong(tmp_path: Path) -> None:
    """Two cables with their ends swapped, one that is missing, one too many, one that one end alone reports."""
    cables = [(("a", "1"), ("b", "1")), (("c", "1"), ("d", "1")), (("e", "1"), ("f", "1")), (("g", "1"), ("h", "1"))]
    built = [(("a", "1"), ("d", "1")), (("b", "1"), ("c", "1")), (("g", "1"), ("h", "1")), (("x", "1"), ("y", "1"))]
    rows = differences(cables, built, [built[2]])
    assert rows == [
        ("wrong", "a", "1", "b", "1", "d", "1"),
        ("wrong", "b", "1", "a", "1", "c", "1"),
        ("wrong", "c", "1", "d", "1", "b", "1"),
        ("wrong", "d", "1", "c", "1", "a", "1"),
        ("missing", "e", "1", "f", "1", "", ""),
        ("extra", "x", "1", "", "", "y", "1"),
        ("one-sided", "g", "1", "", "", "h", "1"),
    ]
    (tmp_path / "l.csv").write_text(f"{LLDP}a,1,b,1\nb,1,a,1\nc,1,d,1\n")
    read, one_sided, _ = read_cables(tmp_path / "l.csv")
    assert read == [(("a", "1"), ("b", "1")), (("c", "1"), ("d", "1"))]
    assert one_sided == [(("c", "1"), ("d", "1"))]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("device,port\na,1\n", "not a table of cables"),
        (f"{LLDP}a,1,b,\n", "a cable without both ends"),
        ("StartDevice,StartPort,EndDevice,EndPort\na,1,b,1\na,1,c,1\n", "a port with two cables"),
    ],
)
def test_tables_that_are_none_of_cables(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(InputError, match=says):
        read_cables(tmp_path / "c.csv")


def test_a_built_network_from_the_command_line(tmp_path: Path) -> None:
    """The plan against itself is right; with two cables swapped both are named."""
    out = tmp_path / "solved"
    solve = run("solve", INSTANCES / "tiny-6.yaml", "--budget", "20", "-o", out)
    assert solve.code == 0, solve.stderr
    solution = out / "solution.json"
    assert run("export", solution, "--to", "netbox-cables", "-o", tmp_path / "plan").code == 0
    lines = (tmp_path / "plan" / "cables.csv").read_text().splitlines()
    again = run("export", solution, "--to", "netbox-cables", "--against", tmp_path / "plan" / "cables.csv", "--json",
                "-o", tmp_path / "same")  # fmt: skip
    assert again.json["differences"] == []
    first, other = (line.split(",") for line in lines[1:3])
    first[3], first[5], other[3], other[5] = other[3], other[5], first[3], first[5]
    built = tmp_path / "built.csv"
    built.write_text("\n".join((lines[0], ",".join(first), ",".join(other), *lines[3:], "")))
    answer = run("export", solution, "--to", "netbox-cables", "--against", built, "-o", tmp_path / "wrong", "--json")
    assert {row["difference"] for row in answer.json["differences"]} == {"wrong"}
    assert len(answer.json["differences"]) == 4
    refused = run("export", solution, "--to", "patch-list", "--against", built)
    assert refused.code == 2
    assert "compares nothing" in refused.stderr


def test_cross_connects(tmp_path: Path) -> None:
    """Input p of switch j is the transmit fibre of server p - 1; what is set already stays."""
    solution = planned()
    made = exported("sonic-ocs", solution)
    switches = solution.plan.topology.switches
    table = json.loads(content(made, "ocs1.json"))
    for server, head in enumerate(switches[0].tolist()):
        name = f"{server + 1}A-{head + 1}B"
        assert table["OCS_CROSS_CONNECT"][name] == {"a_side": f"{server + 1}A", "b_side": f"{head + 1}B"}
    for name, data in made.files:
        (tmp_path / name).write_bytes(data)
    present = json.loads(content(made, "ocs1.json"))
    gone = next(iter(present["OCS_CROSS_CONNECT"]))
    del present["OCS_CROSS_CONNECT"][gone]
    (tmp_path / "ocs1.json").write_text(json.dumps(present))
    after = exported("sonic-ocs", solution, against=tmp_path)
    changes = after.figures["changes"]
    assert (changes[0]["remove"], changes[0]["add"], changes[0]["stay"]) == ([], [gone], 7)
    assert all(change["remove"] == change["add"] == [] for change in changes[1:])


def test_thresholds_of_a_plan() -> None:
    """Few steps for small vectors (tree), from the size on where the rate is within twice the best one (ring)."""
    front = (
        BestBySize("shortest", 1, 2, 4.0, 20.0, 1),
        BestBySize("forest", 1, 4, 8.0, 5.0, 300_000),
        BestBySize("forest", 8, 16, 30.0, 3.0, 10_000_000),
    )
    solution = solved(clos())
    solution.figures.front = front
    made = exported("nccl-tuner", solution, gpus_per_server=2, channels=24)
    assert content(made, "nccl_tuner.conf").splitlines()[1:] == [
        "allreduce,0,299999,tree,simple,24,8,16,-1,-1",
        "allreduce,300000,18446744073709551615,ring,simple,24,8,16,-1,-1",
    ]
    assert any("no lines for broadcast, reduce, allgather, reducescatter" in note for note in made.notes)


def test_measurements_from_the_command_line(tmp_path: Path) -> None:
    """A table in place of a solution; words that no library knows are refused with their line."""
    head = "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,time_us\n"
    rows = (
        "allreduce,1000,tree,ll,4,2,16,10\nallreduce,1000,ring,simple,8,2,16,20\nallreduce,4000,ring,simple,8,2,16,30\n"
    )
    (tmp_path / "m.csv").write_text(head + rows)
    answer = run("export", tmp_path / "m.csv", "--to", "rccl-tuner", "-o", tmp_path / "out", "--json")
    assert answer.code == 0, answer.stderr
    assert (tmp_path / "out" / "rccl_tuner.csv").read_text().splitlines()[1:] == [
        "allreduce,0,2000,tree,ll,4,2,16,-1,-1",
        "allreduce,2001,18446744073709551615,ring,simple,8,2,16,-1,-1",
    ]
    (tmp_path / "m.csv").write_text(head + rows.replace("tree", "trees", 1))
    refused = run("export", tmp_path / "m.csv", "--to", "nccl-tuner")
    assert refused.code == 2
    assert "m.csv:2 algorithm: unknown word" in refused.stderr
