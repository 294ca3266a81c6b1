"""Networks of other tools, small ones written by hand: rates, counts and units by hand calculation."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import foreign_network_cases as cases
from tests.support.cli_cases import run
from tests.support.read_back.exports import check_export, write_files
from topoopt.core.errors import InputError
from topoopt.formats.table import EXPORTERS, IMPORTERS, ExportOptions, Imported
from topoopt.kinds.files import read_instance, write_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve


def imported(form: str, folder: Path, name: str, text: str, **settings: Any) -> Imported:
    """What an importer makes of a text."""
    (folder / name).write_text(text)
    return IMPORTERS[form](folder / name, **settings)


def read_again(made: Imported, folder: Path) -> Any:
    """The problem of the instance that was made."""
    write_instance(made.document, folder / "again.yaml")
    return read_instance(folder / "again.yaml")


def arcs(problem: Any) -> dict[tuple[str, str], float]:
    """Rates of a network by the names of its nodes, GB/s."""
    network = problem.network
    return {
        (network.names[tail], network.names[head]): rate
        for (tail, head), rate in zip(network.arcs.tolist(), network.gbytes_per_s.tolist(), strict=True)
    }


def test_text_of_simai(tmp_path: Path) -> None:
    """Rates in GB/s both ways, delays in us, GPUs as ranks, NVSwitches told from other switches."""
    made = imported("astrasim-network", tmp_path, "topo.txt", cases.SIMAI)
    assert (made.figures["ranks"], made.figures["servers"], made.figures["nvswitches"]) == (4, 2, 1)
    problem = read_again(made, tmp_path)
    rates = arcs(problem)
    assert rates["gpu0", "nvswitch4"] == rates["nvswitch4", "gpu0"] == 300.0
    assert rates["switch5", "gpu3"] == 50.0
    latency = dict(zip(map(tuple, problem.network.arcs.tolist()), problem.network.latency_us.tolist(), strict=True))
    assert (latency[0, 4], latency[0, 5]) == pytest.approx((0.025, 0.5))
    assert any("error of 1 links" in note for note in made.notes)


def test_text_of_astrasim(tmp_path: Path) -> None:
    """Three fields in its first line; what is no switch is a host."""
    made = imported("astrasim-network", tmp_path, "topo.txt", cases.PLAIN_NS3)
    assert arcs(read_again(made, tmp_path))["host0", "switch2"] == 12.5


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("6 2 1 1 7", "6 2 1 1 8", "says 8 links, 7 stand"),
        ("6 2 1 1 7", "6 2 2 1 7", "says 3 switches, 2 are listed"),
        ("6 2 1 1 7", "6 3 1 1 7", "GPUs do not fill servers"),
        ("6 2 1 1 7", "7 2 1 1 7", "nodes without a link"),
        ("400Gbps", "400GBps", "not a link"),
        ("0 5 400", "0 9 400", "not a link"),
    ],
)
def test_text_that_contradicts_itself(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        imported("astrasim-network", tmp_path, "topo.txt", cases.SIMAI.replace(old, new, 1))


@pytest.mark.parametrize(("gbps", "noted"), [("50", True), ("400", False), ("12.5", True), ("100", False)])
def test_a_rate_that_looks_like_the_other_unit(tmp_path: Path, gbps: str, noted: bool) -> None:
    """50 Gbit/s beside GPUs is what a port of 400 Gbit/s has in GB/s."""
    text = cases.SIMAI.replace("400Gbps", f"{gbps}Gbps")
    notes = imported("astrasim-network", tmp_path, "topo.txt", text).notes
    assert any("look whether the file means GB/s" in note for note in notes) is noted


def test_repetita(tmp_path: Path) -> None:
    """kbit/s become Gbit/s; demands beside the network are taken, and named; names stay."""
    (tmp_path / "n.0000.demands").write_text(cases.DEMANDS)
    made = imported("repetita", tmp_path, "n.graph", cases.GRAPH)
    assert "demands are those of n.0000.demands" in made.notes
    problem = read_again(made, tmp_path)
    assert problem.topology.capacity.tolist() == pytest.approx([0.001, 0.001, 0.002, 0.002])
    assert problem.demand[0, 2] == pytest.approx(300e-6)
    assert made.document["topology"]["names"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("EDGES 4", "EDGES 5", "says 5 EDGES, 4 stand"),
        ("edge_0 0 1 1 1000", "edge_0 0 1 1 0", "without capacity"),
        ("edge_0 0 1", "edge_0 0 7", "no such node"),
        ("NODES 3", "NODE 3", "no NODES"),
    ],
)
def test_repetita_that_contradicts_itself(tmp_path: Path, old: str, new: str, says: str) -> None:
    (tmp_path / "n.demands").write_text(cases.DEMANDS)
    with pytest.raises(InputError, match=says):
        imported("repetita", tmp_path, "n.graph", cases.GRAPH.replace(old, new))


def test_several_files_of_demands_are_asked_for(tmp_path: Path) -> None:
    for name in ("n.0000.demands", "n.0001.demands"):
        (tmp_path / name).write_text(cases.DEMANDS)
    with pytest.raises(InputError, match="several demands beside the network"):
        imported("repetita", tmp_path, "n.graph", cases.GRAPH)


@pytest.mark.parametrize("text", [cases.SNDLIB, cases.SNDLIB_XML])
def test_sndlib(tmp_path: Path, text: str) -> None:
    """Native and XML alike; modules and demands as they are asked for, Mbit/s as Gbit/s."""
    made = imported("sndlib", tmp_path, "n.txt", text, links="bidirected", demands="directed")
    problem = read_again(made, tmp_path)
    assert len(problem.topology.arcs) == 6
    assert sorted(problem.topology.capacity.tolist()) == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.2, 0.2])
    assert (problem.demand[0, 1], problem.demand[1, 0]) == pytest.approx((0.03, 0))
    assert any("none of which is bought" in note for note in made.notes)
    more = imported("sndlib", tmp_path, "n.txt", text, links="directed", demands="symmetric", modules=2)
    assert more.document["topology"]["capacities"] == pytest.approx([0.18, 0.2, 0.1])
    assert more.document["topology"]["directed"]
    assert more.document["demand"]["matrix"][1][0] == pytest.approx(0.03)


def test_sndlib_asks_for_what_the_file_does_not_say(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text(cases.SNDLIB)
    answer = run("import", "sndlib", tmp_path / "n.txt")
    assert answer.code == 2
    assert "links" in answer.stderr
    assert "demands" in answer.stderr


def test_links_to_be_designed_are_no_links_of_zero(tmp_path: Path) -> None:
    """Pre-installed 0 with modules is a design problem: refused until modules are bought."""
    text = cases.SNDLIB.replace("( A B ) 100.00", "( A B ) 0.00")
    settings = {"links": "bidirected", "demands": "directed"}
    with pytest.raises(InputError, match="the link A - B has no capacity yet"):
        imported("sndlib", tmp_path, "n.txt", text, **settings)
    made = imported("sndlib", tmp_path, "n.txt", text, **settings, modules=1)
    assert made.document["topology"]["capacities"][0] == pytest.approx(0.04)


@pytest.mark.parametrize("text", [cases.ONE_FORM, cases.RAW_FORM])
def test_topology_zoo(tmp_path: Path, text: str) -> None:
    """Speeds by either attribute; names of nodes; a demand of a family, which is told."""
    made = imported("topology-zoo", tmp_path, "n.gml", text)
    problem = read_again(made, tmp_path)
    assert made.document["topology"]["names"] == ["Here", "There", "Far"]
    assert sorted(problem.topology.capacity.tolist()) == [1.0, 1.0, 2.5, 2.5, 10.0, 10.0]
    assert any("LinkLabel (1 links)" in note for note in made.notes)


def test_links_without_a_speed_are_asked_for(tmp_path: Path) -> None:
    """The first is named; parallel links need no mark in the file."""
    text = cases.ONE_FORM.replace(
        "  edge [\n    source 1",
        '  edge [\n    source 0\n    target 1\n    LinkLabel "10-20Gbps"\n  ]\n  edge [\n    source 1',
    )
    with pytest.raises(InputError, match="1 of 4 links state no speed, the first 0 - 1") as caught:
        imported("topology-zoo", tmp_path, "n.gml", text)
    assert "10-20Gbps" in str(caught.value)
    made = imported("topology-zoo", tmp_path, "n.gml", text, missing_gbps=5.0)
    assert sorted(made.document["topology"]["capacities"]) == [1.0, 2.5, 5.0, 10.0]


def test_a_machine_of_nccl(tmp_path: Path) -> None:
    """H100: 18 NVLinks of 20.6; PCI 5 x16 48; the NIC shares a switch with GPU 0 and is beyond the host of GPU 1."""
    made = imported("nccl-topology", tmp_path, "t.xml", cases.NCCL)
    rates = arcs(read_again(made, tmp_path))
    assert rates == {(a, b): pytest.approx(370.8) for a, b in (
        ("gpu0", "nvswitch"), ("nvswitch", "gpu0"), ("gpu1", "nvswitch"), ("nvswitch", "gpu1"))}  # fmt: skip
    assert [row["path"] for row in made.figures["gpu_rows"]] == ["PIX", "SYS"]
    assert made.figures["nic_rows"][0] == {
        "nic": "0000:03:00.0", "gpus_nearest": 2, "ports": ["mlx5_0"], "gbps": 400.0, "pci_gbytes_per_s": 48.0
    }  # fmt: skip
    assert any("PCI is left out" in note for note in made.notes)
    whole = arcs(read_again(imported("nccl-topology", tmp_path, "t.xml", cases.NCCL, links="all"), tmp_path))
    assert whole["gpu0", "0000:01:00.0"] == 48.0
    assert whole["cpu0", "cpu1"] == 22.0  # Intel, model 0x8F


@pytest.mark.parametrize(("sm", "each"), [(60, 18), (70, 20), (80, 20), (86, 12), (90, 20.6), (100, 40.1)])
def test_rates_of_nvlinks(tmp_path: Path, sm: int, each: float) -> None:
    """By compute capability."""
    text = cases.NCCL.replace('sm="90"', f'sm="{sm}"').replace('count="18"', 'count="12"')
    made = imported("nccl-topology", tmp_path, "t.xml", text)
    assert arcs(read_again(made, tmp_path))["gpu0", "nvswitch"] == pytest.approx(12 * each)


@pytest.mark.parametrize(("gcn", "each"), [("906", 24), ("908", 24), ("910", 36), ("gfx90a", 36), ("gfx942", 48)])
def test_rates_of_xgmi(tmp_path: Path, gcn: str, each: float) -> None:
    """By architecture; one that no table has is asked for."""
    made = imported("nccl-topology", tmp_path, "t.xml", cases.HIVE.replace('gcn="910"', f'gcn="{gcn}"'))
    assert arcs(read_again(made, tmp_path))["gpu0", "gpu1"] == 2 * each
    with pytest.raises(InputError, match=r"no rate of a link of gpu0 .*link_gbytes_per_s"):
        imported("nccl-topology", tmp_path, "t.xml", cases.HIVE.replace('gcn="910"', 'gcn="gfx999"'))


def test_infragraph(tmp_path: Path) -> None:
    """Slices stop before their end; NVLink 4 is 450 GB/s a GPU over its edges; ports and their ASIC are one switch."""
    folder = tmp_path
    made = imported("infragraph", folder, "i.yaml", json.dumps(cases.INFRA))
    figures = made.figures
    assert (figures["servers"], figures["gpus"], figures["nics"], figures["switches"]) == (2, 4, 4, 1)
    assert (figures["nodes"], figures["edges"]) == (2 * 5 + 6, 2 * (2 + 1 + 2) + 5 + 4)
    rates = arcs(read_again(made, folder))
    assert rates["box.0.xpu.0", "box.0.xpu.1"] == 450.0
    assert rates["box.1.nic.1", "tor.0"] == 50.0
    assert sum(1 for _, head in rates if head == "tor.0") == 4


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("devices", 0, "edges", 0, "ep2", "component"), "nic[0:3]", None),  # as of Python: what is beyond is left out
        (("devices", 0, "edges", 0, "ep2", "component"), "nic[0:1]", "cannot be expanded"),
        (("devices", 0, "edges", 0, "ep2", "component"), "nic[7]", "nothing is picked"),
        (("devices", 0, "links", 0, "description"), "copper", "no bandwidth"),
        (
            ("links", 0, "physical", "bandwidth"),
            {"choice": "gigatransfers_per_second"},
            "bandwidth that cannot be read",
        ),
        (("instances", 0, "device"), "boxes", "no such device"),
    ],
)
def test_infragraph_that_cannot_be_expanded(
    tmp_path: Path, path: tuple[Any, ...], value: Any, says: str | None
) -> None:
    data = copy.deepcopy(cases.INFRA)
    owner = data
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = value
    (tmp_path / "i.yaml").write_text(json.dumps(data))
    if says is None:
        assert IMPORTERS["infragraph"](tmp_path / "i.yaml").figures["edges"] == 19
        return
    with pytest.raises(InputError, match=says):
        IMPORTERS["infragraph"](tmp_path / "i.yaml")


def test_rates_by_the_setting(tmp_path: Path) -> None:
    """From the command line: a link by its name."""
    data = copy.deepcopy(cases.INFRA)
    data["devices"][0]["links"][0]["description"] = "copper"
    (tmp_path / "i.yaml").write_text(json.dumps(data))
    out = tmp_path / "o.yaml"
    answer = run("import", "infragraph", tmp_path / "i.yaml", "--set", "link_gbytes_per_s.up=77", "-o", out, "--json")
    assert answer.code == 0, answer.stderr
    assert arcs(read_instance(out))["box.0.xpu.0", "box.0.xpu.1"] == 77.0


@pytest.mark.parametrize(
    ("name", "says"), [("t.xml", "nccl-topology"), ("n.gml", "topology-zoo"), ("n.graph", "repetita")]
)
def test_network_files_that_are_imported_say_so(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / name).write_text("<system/>")
    (tmp_path / "i.yaml").write_text(
        f"schema_version: 1\nkind: collective\nname: x\ntopology: {{file: {name}}}\ncollective: allgather\nbytes: 1MB\n"
    )
    with pytest.raises(InputError, match=says):
        read_instance(tmp_path / "i.yaml")


@pytest.mark.parametrize("number", ["1e-99999999", "1e99999999", "0x1p3", "1_0", "9" * 70])
def test_numbers_that_take_for_ever_or_are_none(tmp_path: Path, number: str) -> None:
    """Refused at once: a power of ten with so many digits would be worked out first."""
    (tmp_path / "n.demands").write_text(cases.DEMANDS)
    with pytest.raises(InputError):
        imported("repetita", tmp_path, "n.graph", cases.GRAPH.replace("0 1 1 1000", f"0 1 1 {number}"))


@pytest.mark.parametrize(("choice", "value", "noted"), [
    ("gigabits_per_second", 50, "GB/s"), ("gigabits_per_second", 400, ""), ("gigabytes_per_second", 400, "Gbit/s"),
])  # fmt: skip
def test_units_of_infragraph(tmp_path: Path, choice: str, value: int, noted: str) -> None:
    """A port of 400 Gbit/s has 50 GB/s; 400 GB/s, or 50 Gbit/s, looks like the other unit."""
    data = copy.deepcopy(cases.INFRA)
    data["links"][0]["physical"]["bandwidth"] = {"choice": choice, choice: value}
    notes = imported("infragraph", tmp_path, "i.yaml", json.dumps(data)).notes
    said = [note for note in notes if "look whether the file means" in note]
    assert bool(said) is bool(noted)
    assert all(note.endswith(noted) for note in said)


def test_units_of_a_network_file(tmp_path: Path) -> None:
    """A column in Gbit/s with what a port has in GB/s."""
    (tmp_path / "n.csv").write_text("source,target,bandwidth_gbps\na,b,50\nb,a,50\n")
    (tmp_path / "i.yaml").write_text(
        "schema_version: 1\nkind: collective\nname: x\ntopology: {file: n.csv}\ncollective: allgather\nbytes: 1MB\n"
    )
    notes = read_instance(tmp_path / "i.yaml").notes
    assert any("link a - b: 50 Gbit/s is a usual rate in GB/s" in note for note in notes)


def written_again(problem: Any, target: str, folder: Path, **settings: Any) -> Any:
    """The problem of what an exporter writes of a solution, imported."""
    export = EXPORTERS[target].build(solve(problem, SolveOptions(objective_only=True)), ExportOptions())
    check_export(target, export)
    write_files(export, folder)
    return read_again(IMPORTERS[target](folder / export.files[0][0], **settings), folder)


@pytest.mark.parametrize(("target", "settings"), [
    ("sndlib", {"links": "directed", "demands": "directed"}), ("repetita", {}),
])  # fmt: skip
def test_a_network_of_carriers_is_written_back(target: str, settings: dict[str, str], tmp_path: Path) -> None:
    """Arcs, capacities and the demand in Gbit/s, by hand: L1 buys one module of 40 Mbit/s."""
    made = imported("sndlib", tmp_path, "n.txt", cases.SNDLIB, links="bidirected", demands="directed", modules=1)
    again = written_again(read_again(made, tmp_path), target, tmp_path, **settings)
    assert again.topology.arcs.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    assert again.topology.capacity.tolist() == pytest.approx([0.14, 0.1, 0.14, 0.2, 0.1, 0.2], rel=1e-15)
    assert again.demand.tolist() == [[0, 0.03, 0], [0, 0, 0.05], [0, 0, 0]]
    assert again.link_gbps == 1.0


def test_a_network_without_a_unit_is_not_written(tmp_path: Path) -> None:
    """Rates of which nobody says what they are in Gbit/s; with a rate of a link they are multiples of it."""
    instance = {
        "schema_version": 1, "kind": "routing", "name": "x", "demand": {"family": "uniform"},
        "topology": {"servers": 3, "links": [[0, 1], [1, 2], [2, 0]], "directed": True, "capacities": [1, 2, 0.5]},
    }  # fmt: skip
    write_instance(instance, tmp_path / "i.yaml")
    solution = solve(read_instance(tmp_path / "i.yaml"), SolveOptions(objective_only=True))
    with pytest.raises(InputError, match="does not say the rate of a link"):
        EXPORTERS["sndlib"].build(solution, ExportOptions())
    ((_, text),) = EXPORTERS["sndlib"].build(solution, ExportOptions(link_gbps=100.0)).files
    assert b"L0 ( N0 N1 ) 100 0 0 0 ( )\n" in text
    assert b"L2 ( N2 N0 ) 50 0 0 0 ( )\n" in text


NETWORK: dict[str, Any] = {
    "links": [[0, 2, 50.0], [1, 2, 50.0], [0, 3, 12.5], [3, 1, 12.5], [0, 1, 0.3]],
    "directed": False,
    "nodes": 4,
    "switches": [2, 3],
    "names": ["gpu 0", "gpu[1]", "leaf.0", "leaf.1"],
    "latencies_us": [0.5, 0.5, 2.25, 2.25, 0],
}


def collective(folder: Path, **changes: Any) -> Any:
    """A problem on a small network with switches."""
    instance = {
        "schema_version": 1, "kind": "collective", "name": "small", "collective": "allgather", "bytes": 1_000_000,
        "topology": NETWORK | changes,
    }  # fmt: skip
    write_instance(instance, folder / "i.yaml")
    return read_instance(folder / "i.yaml")


def test_a_machine_is_written_back(tmp_path: Path) -> None:
    """Nodes in their order, which of them are switches, rates and latencies of both directions."""
    problem = collective(tmp_path)
    again = written_again(problem, "infragraph", tmp_path, collective="allgather", vector_bytes=1_000_000)
    network = again.network
    assert network.is_switch.tolist() == [False, False, True, True]
    assert np.array_equal(network.arcs, problem.network.arcs)
    assert np.array_equal(network.units, problem.network.units)
    assert network.unit_gbytes_per_s == problem.network.unit_gbytes_per_s
    rates = dict(zip(map(tuple, network.arcs.tolist()), network.gbytes_per_s.tolist(), strict=True))
    latency = dict(zip(map(tuple, network.arcs.tolist()), network.latency_us.tolist(), strict=True))
    assert len(rates) == 10
    for (tail, head, rate), delay in zip(NETWORK["links"], NETWORK["latencies_us"], strict=True):
        assert rates[tail, head] == rates[head, tail] == pytest.approx(rate, rel=1e-15)
        assert latency[tail, head] == latency[head, tail] == delay
    assert (again.vector_bytes, again.collective) == (problem.vector_bytes, problem.collective)
    assert network.names == ("gpu-0.0.xpu.0", "gpu-1-.0.xpu.0", "leaf-0.0.switch.0", "leaf-1.0.switch.0")


def test_names_that_would_be_one(tmp_path: Path) -> None:
    """Names that differ by what InfraGraph has no letters for become numbers."""
    again = written_again(collective(tmp_path, names=["a.b", "a-b", "c", "d"]), "infragraph", tmp_path)
    assert again.network.names[:2] == ("node-0.0.xpu.0", "node-1.0.xpu.0")


def test_links_of_one_direction_are_no_edges(tmp_path: Path) -> None:
    """Refused by the link: edges have no direction."""
    one_way = {"links": [[0, 1, 50.0], [1, 0, 25.0]], "directed": True, "nodes": 2, "switches": [], "names": ["a", "b"]}
    problem = collective(tmp_path, **one_way, latencies_us=[0, 0])
    solution = solve(problem, SolveOptions(objective_only=True))
    with pytest.raises(InputError, match="a -> b"):
        EXPORTERS["infragraph"].build(solution, ExportOptions())
