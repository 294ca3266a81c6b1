"""Plans for real parts: patch lists, NCCL and MSCCL files, forwarding scripts; their readers refuse what is wrong."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.network.routes import circulant_topology
from tests.support.handmade import altered
from tests.support.make_solution import circulant, make_solution
from tests.support.read_back.exports import READERS, check_export, check_written
from tests.support.smallest import problem_of
from topoopt.core.cluster import HostSetting, LinkDirection, LinkSetting, LinkSharing
from topoopt.core.errors import CheckError, InputError
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, PathTable, Ring
from topoopt.formats.hosts import planned_paths, with_answers
from topoopt.formats.msccl.write import algorithm, parts_of, ring_steps
from topoopt.formats.table import EXPORTERS, Export, ExportOptions
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.library.training_exports import training_topology

OPTIONS = ExportOptions()


TWO_WAY = LinkDirection.BIDIRECTIONAL


def text(export: Export, name: str) -> str:
    """One file."""
    return dict(export.files)[name].decode()


def spoil(export: Export, folder: Path, name: str, change: Callable[[str], str]) -> None:
    """The files in a folder, one of them changed."""
    for file, data in export.files:
        (folder / file).write_bytes(data)
    before = (folder / name).read_text()
    assert change(before) != before
    (folder / name).write_text(change(before))


def rewired(solution: Result[Any, Any], topology: Topology) -> Result[Any, Any]:
    """The same with another topology."""
    return replace(solution, plan=replace(solution.plan, topology=topology))


def no_routes(solution: Result[Any, Any]) -> Result[Any, Any]:
    """The same without routes and rings."""
    none, first = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
    routes = PathTable(solution.figures.cluster.servers, none, none, first, np.zeros(0), first, none)
    return replace(solution, plan=replace(solution.plan, routes=routes, rings=()))


@pytest.mark.parametrize("target", ["patch-list", "msccl", "nccl-topology", "linux-forwarding"])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
def test_reads_back(target: str, n: int) -> None:
    """Plans of many sizes read back as themselves; equal plans give equal bytes."""
    solution = make_solution(n, (1,) if n < 4 else (1, 3) if n > 5 else (1, 2))
    export = EXPORTERS[target].build(solution, OPTIONS)
    check_export(target, export)
    assert EXPORTERS[target].build(solution, OPTIONS).files == export.files


def test_circuits_of_a_ring() -> None:
    """Four servers in a ring: switch 1 joins 1-2 and 3-4, switch 2 the others; files and people read the same."""
    export = EXPORTERS["patch-list"].build(
        rewired(make_solution(4, (1,)), circulant_topology(4, 2, TWO_WAY, (1,))), OPTIONS
    )
    rows = list(csv.reader(io.StringIO(text(export, "circuits.csv"))))
    assert [tuple(map(int, row[:3])) for row in rows[1:]] == [
        *((1, p, q) for p, q in ((1, 2), (2, 1), (3, 4), (4, 3))),
        *((2, p, q) for p, q in ((1, 4), (2, 3), (3, 2), (4, 1))),
    ]
    assert rows[1][3:] == ["server0", "eth1", "server1", "eth1"]
    assert "    in    1 -> out    2    server0 eth1 -> server1 eth1" in text(export, "patch-list.txt")
    assert any("duplex patch cords do" in note for note in export.notes)


def test_a_ring_of_odd_length_needs_a_spare_interface() -> None:
    """Five servers of two interfaces: a matching has two of the five links, so two switches hold four; three do."""
    export = EXPORTERS["patch-list"].build(
        rewired(make_solution(5, (1,)), circulant_topology(5, 2, TWO_WAY, (1,))), OPTIONS
    )
    note = next(note for note in export.notes if "apart" in note)
    assert "odd number of servers" in note
    assert "with 1 more at each server" in note


def test_duplex_cords_do_where_rows_are_their_own_inverse() -> None:
    """Two servers with one link: each interface sends to the one it receives from."""
    export = EXPORTERS["patch-list"].build(make_solution(2, (1,)), OPTIONS)
    assert any("duplex patch cords do" in note for note in export.notes)


def test_changes_only() -> None:
    """From strides {1} + {3} to {1} + {2} on eight servers: 16 circuits go, 16 come, 16 stay."""
    before, after = circulant(8, (1, 3)), circulant(8, (1, 2))
    export = EXPORTERS["patch-list"].build(rewired(make_solution(8, (1, 3)), after), replace(OPTIONS, previous=before))
    check_export("patch-list", export)
    count = {name: len(text(export, f"{name}.csv").splitlines()) - 1 for name in ("circuits", "disconnect", "connect")}
    assert count == {"circuits": 32, "disconnect": 16, "connect": 16}
    assert all(line.split(",")[0] in "34" for line in text(export, "connect.csv").splitlines()[1:])
    assert "16 circuits to disconnect, 16 to connect, 16 stay" in export.notes
    with pytest.raises(InputError, match="another cluster"):
        EXPORTERS["patch-list"].build(make_solution(8, (1,)), replace(OPTIONS, previous=before))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("circuits.csv", lambda s: s.replace("1,1,2,", "1,1,3,"), "the text says something else"),
        ("patch-list.txt", lambda s: s.replace("Circuits: 8", "Circuits: 9"), "another number of circuits"),
        ("patch-list.txt", lambda s: s + "in 1\n", "a line that is none"),
        ("circuits.csv", lambda s: s + "one,two\n", "not a list of circuits"),
    ],
)
def test_patch_lists_that_are_wrong(tmp_path: Path, name: str, change: Callable[[str], str], message: str) -> None:
    """The reader refuses a list that contradicts itself."""
    spoil(EXPORTERS["patch-list"].build(make_solution(4, (1,)), OPTIONS), tmp_path, name, change)
    with pytest.raises(InputError, match=message):
        READERS["patch-list"](tmp_path)


@pytest.mark.parametrize("target", ["patch-list", "linux-forwarding", "nccl-topology"])
def test_names_from_users(target: str) -> None:
    """Real names appear in the files; one that a shell could read as more is refused."""
    solution = make_solution(4, (1,))
    links = (LinkSetting(interface="ib0"), LinkSetting(interface="ib1"))
    named = tuple(HostSetting(f"server{i}", name=f"rack-{i}", links=links) for i in range(4))
    export = EXPORTERS[target].build(solution, replace(OPTIONS, hosts=named))
    assert any(b"rack-3" in data for _, data in export.files)
    assert any(b"ib1" in data for _, data in export.files)
    check_export(target, export)
    for bad in ("a b", "$(reboot)", "../x", ""):
        hosts = (HostSetting("server1", name=bad),)
        with pytest.raises(InputError, match="not a host name"):
            EXPORTERS[target].build(solution, replace(OPTIONS, hosts=hosts))


def test_steps_of_a_ring() -> None:
    """Three ranks, by hand: send own block, add and send the one before, add and keep, pass on, keep."""
    assert ring_steps(0, 3, 0, 1) == [("s", 0, 1), ("rrs", 2, 1), ("rrcs", 1, 1), ("rcs", 0, 1), ("r", 2, 1)]
    assert ring_steps(1, 2, 4, 2) == [("s", 6, 2), ("rrcs", 4, 2), ("r", 6, 2)]


@settings(max_examples=60)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_parts_follow_shares(weights: list[int]) -> None:
    """Whole numbers add up to at most 64 and are within one part of the shares; exact ones where 64 allows them."""
    shares = [weight / sum(weights) for weight in weights]
    parts = parts_of(shares)
    assert min(parts) >= 1
    assert sum(parts) <= 64
    if sum(weights) <= 64:
        assert max(abs(p / sum(parts) - s) for p, s in zip(parts, shares, strict=True)) <= 1e-3


@settings(max_examples=25)
@given(st.data())
def test_any_rings_reduce(data: st.DataObject) -> None:
    """Random ring orders with random shares: the executed algorithm ends with all sums, on the rings it was given."""
    size = data.draw(st.integers(2, 9))
    members = tuple(sorted(data.draw(st.sets(st.integers(0, 50), min_size=size, max_size=size))))
    orders = data.draw(st.lists(st.permutations(members), min_size=1, max_size=3))
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(orders), max_size=len(orders)))
    rings = tuple(Ring(tuple(o), w / sum(weights), ()) for o, w in zip(orders, weights, strict=True))
    solution = make_solution(4, (1,))
    solution = replace(solution, plan=replace(solution.plan, rings=(GroupRings(members, rings),)))
    check_written("msccl", EXPORTERS["msccl"].build(solution, OPTIONS), solution)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.replace('type="rrcs"', 'type="rcs"', 1), "ends without what rank"),
        (
            lambda s: re.sub(r'\n *<step s="0" type="s".*', "", s, count=1),
            "waits for ever|sends what nobody takes|reads back as something else",
        ),
        (lambda s: s.replace('srcoff="1"', 'srcoff="0"', 1), "reads back as something else|different parts"),
        (lambda s: re.sub(r'\n *<step s="8" type="r" .*', "", s, count=1), "sends what nobody takes"),
        (lambda s: s.replace('type="r"', 'type="x"', 1), "no such type of step: x"),
        (lambda s: s.replace("</algo>", ""), "not an MSCCL algorithm"),
    ],
)
def test_algorithms_that_are_wrong(change: Callable[[str], str], message: str) -> None:
    """The executor finds a sum that is missing, a wait without end, and what is no algorithm."""
    solution = make_solution(5, (1,))
    export = EXPORTERS["msccl"].build(solution, OPTIONS)
    files = tuple(
        (name, change(data.decode()).encode() if name.endswith("xml") else data) for name, data in export.files
    )
    with pytest.raises(CheckError, match=message):
        check_written("msccl", replace(export, files=files), solution)


def test_a_group_of_two_makes_three_steps() -> None:
    """Two ranks exchange halves and give back sums: the fewest steps there are."""
    xml, parts = algorithm("two", GroupRings((3, 7), (Ring((7, 3), 1.0, ()),)))
    assert parts == [1]
    assert re.findall(r'type="(\w+)" srcbuf="i" srcoff="(\d)"', xml) == [
        ("s", "1"), ("rrcs", "0"), ("r", "1"), ("s", "0"), ("rrcs", "1"), ("r", "0"),
    ]  # fmt: skip


def test_channels_of_nccl() -> None:
    """Strides 1 and 3 on eight servers: four rings, each a channel by the interface of its stride."""
    export = EXPORTERS["nccl-topology"].build(make_solution(8, (1, 3)), OPTIONS)
    content = read_nccl_back(export)
    assert content["channels"] == tuple(order_port(order) for _, _, order in content["rings"] if len(order) == 8)
    assert content["nets"] == tuple((f"eth{port}", 100_000) for port in range(1, 5))
    assert any("no ring order between nodes" in note for note in export.notes)
    uneven = (HostSetting("server1", links=tuple(LinkSetting(interface=f"x{k}") for k in range(4))),)
    with pytest.raises(InputError, match="calls its interfaces otherwise"):
        EXPORTERS["nccl-topology"].build(make_solution(8, (1, 3)), replace(OPTIONS, hosts=uneven))


def test_two_classes_of_traffic_for_nccl(tmp_path: Path) -> None:
    """Where transfers go before AllReduces, NCCL is told to send in class CS1: code point 8, byte 32; else nothing."""
    solution = make_solution(8, (1, 3))
    plain = EXPORTERS["nccl-topology"].build(solution, OPTIONS)
    assert "nccl.conf" not in dict(plain.files)
    assert read_nccl_back(plain)["traffic_class"] is None
    first = altered(solution, cluster=replace(solution.figures.cluster, link_sharing=LinkSharing.TRANSFERS_FIRST))
    export = EXPORTERS["nccl-topology"].build(first, OPTIONS)
    assert dict(export.files)["nccl.conf"] == b"NCCL_IB_TC=32\n"
    assert any("CS1" in note for note in export.notes)
    for target in ("msccl", "linux-forwarding"):  # which set no classes
        said = ["nccl.conf" in note for note in EXPORTERS[target].build(first, OPTIONS).notes]
        assert sum(said) == 1
        assert not any("nccl.conf" in note for note in EXPORTERS[target].build(solution, OPTIONS).notes)
    assert read_nccl_back(export)["traffic_class"] == 32
    for name, data in export.files:
        (tmp_path / name).write_bytes(data)
    for wrong in ("NCCL_IB_TC=256", "NCCL_IB_SL=3", "NCCL_IB_TC="):
        (tmp_path / "nccl.conf").write_text(wrong)
        with pytest.raises(InputError, match="no traffic class"):
            READERS["nccl-topology"](tmp_path)


def read_nccl_back(export: Export) -> dict:
    """What the reader of the NCCL files finds."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name, data in export.files:
            (Path(folder) / name).write_bytes(data)
        found = READERS["nccl-topology"](Path(folder))
    assert isinstance(found, dict)
    return found


def order_port(order: tuple[int, ...]) -> int:
    """Interface of a ring on the circulant {1, 7, 3, 5}, whose interfaces are in that order."""
    return [1, 7, 3, 5].index((order[1] - order[0]) % 8)


@pytest.mark.parametrize("target", ["msccl", "nccl-topology"])
def test_no_rings(target: str) -> None:
    """A plan without AllReduce has nothing to write."""
    solution = make_solution(4, (1,))
    with pytest.raises(InputError, match="no AllReduce"):
        EXPORTERS[target].build(replace(solution, plan=replace(solution.plan, rings=())), OPTIONS)


def test_paths_of_all_pairs() -> None:
    """Every ordered pair has a path along links, planned ones are kept, and answers have as many paths."""
    solution = make_solution(8, (1, 3))
    arcs = set(map(tuple, solution.plan.topology.arcs.tolist()))
    paths = with_answers(planned_paths(solution.plan))
    count: dict[tuple[int, int], int] = {}
    for path in paths:
        assert set(zip(path.nodes, path.nodes[1:], strict=False)) <= arcs
        assert (path.nodes[0], path.nodes[-1]) == (path.source, path.target)
        assert path.index == count.get((path.source, path.target), 0)
        count[path.source, path.target] = path.index + 1
    assert set(count) == {(i, j) for i in range(8) for j in range(8) if i != j}
    assert all(count[i, j] == count[j, i] for i, j in count)
    for pair in range(len(solution.plan.routes.source)):
        assert solution.plan.routes.path(pair) in {path.nodes for path in paths if path.share > 0}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("server0.ip.sh", lambda s: re.sub(r"hardware eth1 02:74:6f:00:00:00", "hardware eth1 02:74:6f:00:00:09", s),
         "leads to another interface"),
        ("server1.ip.sh", lambda s: re.sub(r"\n  run ip rule add from .*", "", s, count=1), "lost"),
        ("server1.ip.sh", lambda s: s.replace("net.ipv4.ip_forward 1", "net.ipv4.ip_forward 0"), "lost"),
        ("server1.ip.sh", lambda s: s.replace("all.rp_filter 0", "all.rp_filter 1"), "would be dropped"),
        ("server1.flower.sh", lambda s: re.sub(r"\n  run tc filter .*", "", s, count=1), "lost"),
        ("server2.ip.sh", lambda s: s.replace("run ip link set eth1 up", "run reboot; ip link set eth1 up"),
         "not one plain command"),
        ("server2.ip.sh", lambda s: s.replace("run ip link set eth1 up", "run ip link del eth1 up"), "not understood"),
        ("paths.csv", lambda s: s.replace("server0 server1", "server0 server7 server1"), "not the one"),
    ],
)  # fmt: skip
def test_forwarding_that_is_wrong(tmp_path: Path, name: str, change: Callable[[str], str], message: str) -> None:
    """The interpreter finds packets that are lost or go astray, and commands that do more than they say."""
    spoil(EXPORTERS["linux-forwarding"].build(make_solution(8, (1, 3)), OPTIONS), tmp_path, name, change)
    with pytest.raises(InputError, match=message):
        READERS["linux-forwarding"](tmp_path)


def test_forwarding_refuses() -> None:
    """Addresses that collide, names that cannot be settings, servers that cannot be reached."""
    solution = make_solution(4, (1,))
    same = (HostSetting("server0", address="10.9.0.1"), HostSetting("server1", address="10.9.0.1"))
    with pytest.raises(InputError, match="an address more than once"):
        EXPORTERS["linux-forwarding"].build(solution, replace(OPTIONS, hosts=same))
    dotted = (HostSetting("server0", links=(LinkSetting(interface="eth0.7"), LinkSetting(interface="eth1"))),)
    with pytest.raises(InputError, match="a name with a dot"):
        EXPORTERS["linux-forwarding"].build(solution, replace(OPTIONS, hosts=dotted))
    apart = Topology(
        servers=4,
        degree=1,
        links=LinkDirection.BIDIRECTIONAL,
        arcs=np.array([[0, 1], [1, 0], [2, 3], [3, 2]], dtype=np.int32),
        multiplicity=np.ones(4, dtype=np.int32),
        switches=np.array([[1, 0, 3, 2]], dtype=np.int32),
    )
    with pytest.raises(InputError, match="cannot be reached"):
        EXPORTERS["linux-forwarding"].build(rewired(no_routes(solution), apart), OPTIONS)
    with pytest.raises(InputError, match="a link that no switch makes"):
        EXPORTERS["linux-forwarding"].build(rewired(make_solution(4, (1,)), circulant(4, (2,))), OPTIONS)


@cache
def training_solution() -> Any:
    """The smallest language model on its ideal switch and on direct links."""
    problem = replace(problem_of("llm-training"), fabrics=("ideal-switch", "direct-connect"))
    return solve(problem, SolveOptions(seed=1))


@pytest.mark.parametrize("target", ["patch-list", "graphml"])
def test_links_of_training_are_patched(target: str) -> None:
    """Every link of the plan on direct links is a circuit, as often as it stands there."""
    solution, fabric = training_solution(), "direct-connect"
    options = replace(OPTIONS, fabric=fabric, topology=training_topology(solution, fabric))
    made = EXPORTERS[target].build(solution, options)
    check_export(target, made)
    plan = solution.plan.on("direct-connect")
    due = {(tail + 1, head + 1): count for tail, head, count in plan.network.links}
    assert due
    if target == "patch-list":
        rows = [tuple(map(int, row[:3])) for row in list(csv.reader(io.StringIO(text(made, "circuits.csv"))))[1:]]
        assert Counter((into, out) for _, into, out in rows) == due
        assert len({(switch, into) for switch, into, _ in rows}) == len(rows)


def test_a_plan_without_links_is_not_patched() -> None:
    """The ideal switch joins servers by packets; unknown fabrics are named."""
    with pytest.raises(InputError, match=r"no links join its servers.*ideal-switch.*allowed: direct-connect"):
        training_topology(training_solution(), "ideal-switch")
    with pytest.raises(InputError, match=r"no plan for it.*torus-3d.*allowed: ideal-switch, direct-connect"):
        training_topology(training_solution(), "torus-3d")
