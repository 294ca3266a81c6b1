"""Files that people bring, read in place: each gives the value that its folder of public cases derives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.chakra_files import shared
from topoopt.core.errors import InputError
from topoopt.core.rated_network import RatedNetwork
from topoopt.formats.chakra.read import read_chakra
from topoopt.formats.schedules import SCHEDULES, ScheduleOptions
from topoopt.formats.table import IMPORTERS, Imported
from topoopt.kinds.files import read_instance, write_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.laws.schedules import execute

CASES = "public_cases"
NCCL = f"{CASES}/25-nccl-topology-of-clouds"
AMD = f"{CASES}/26-amd-topologies"


def imported(form: str, name: str, **settings: Any) -> Imported:
    """What an importer makes of a file of the cases."""
    return IMPORTERS[form](shared(f"{CASES}/{name}"), **settings)


def allgather(network: RatedNetwork) -> float:
    """No AllGather is faster, GB/s: all sets of nodes, ranks in each over the rate out of it."""
    nodes, ranks = network.nodes, set(network.ranks.tolist())
    sets = np.arange(1, 1 << nodes, dtype=np.int64)
    inside = np.zeros(len(sets), dtype=np.int64)
    for rank in ranks:
        inside += sets >> rank & 1
    out = np.zeros(len(sets))
    for (tail, head), rate in zip(network.arcs.tolist(), network.gbytes_per_s.tolist(), strict=True):
        out += rate * ((sets >> tail & 1) & (1 - (sets >> head & 1)))
    some = (inside > 0) & (inside < len(ranks))
    return float(len(ranks) * (out[some] / inside[some]).min())


def instance_of(made: Imported, folder: Path) -> Any:
    """The problem of the instance that an importer makes."""
    write_instance(made.document, folder / "instance.yaml")
    return read_instance(folder / "instance.yaml")


@pytest.mark.parametrize(
    ("name", "gpus", "nics", "on_switches", "pci", "path"),
    [
        ("ndv5", 8, 8, [(1, 1)] * 8, 48.0, "PIX"),
        ("ndv4", 8, 8, [(2, 2)] * 4, 24.0, "PIX"),
        ("p4d-24xl", 8, 4, [(2, 1)] * 4, 12.0, "PIX"),
        ("ndv2", 8, 1, [], 24.0, "PHB"),
    ],
)
def test_topologies_of_clouds(
    name: str, gpus: int, nics: int, on_switches: list[tuple[int, int]], pci: float, path: str
) -> None:
    """GPUs and NICs of each PCI switch, rates by NCCL's table, and a note that asks for the NVLinks."""
    made = imported("nccl-topology", f"25-nccl-topology-of-clouds/{name}-topo.xml")
    figures = made.figures
    assert (figures["gpus"], figures["nics"], figures["scale_up"]) == (gpus, nics, "none in the file")
    assert [(row["gpus"], row["nics"]) for row in figures["pci_switches"]] == on_switches
    assert {row["pci_gbytes_per_s"] for row in figures["gpu_rows"]} == {pci}
    assert figures["gpu_rows"][0]["path"] == path
    assert any("the file has no NVLinks" in note for note in made.notes)


def test_a_graph_of_nccl_is_no_topology() -> None:
    with pytest.raises(InputError, match="rings and trees that it has chosen"):
        imported("nccl-topology", "25-nccl-topology-of-clouds/ncv4-graph.xml")


@pytest.mark.parametrize(
    ("name", "of_50", "per_link"),
    [
        ("topo_8p_90a", 171.4286, 36),
        ("topo_8p6l", 342.8571, 24),
        ("topo_8p1h", 333.3333, 36),
        ("topo_8p_940", 400.0, 48),
        ("topo_16p1h", 342.8571, 36),
    ],
)
@pytest.mark.parametrize("declared", [False, True])
def test_hives_of_amd(name: str, of_50: float, per_link: int, declared: bool, tmp_path: Path) -> None:
    """The best AllGather by all cuts, at 50 GB/s a link as the case takes it, and at the rate of RCCL's table."""
    settings = {"link_gbytes_per_s": 50.0} if declared else {}
    made = imported("nccl-topology", f"26-amd-topologies/{name}.xml", collective="allgather", **settings)
    problem = instance_of(made, tmp_path)
    expected = of_50 if declared else of_50 * per_link / 50
    assert allgather(problem.network) == pytest.approx(expected, rel=1e-5)


def test_two_hives_that_nothing_joins() -> None:
    """Both parts are named; over PCI they are one network."""
    with pytest.raises(InputError, match="gpu0, gpu1, gpu3, gpu5; gpu2, gpu4, gpu6, gpu7"):
        imported("nccl-topology", "26-amd-topologies/topo_8p_rome.xml")
    made = imported("nccl-topology", "26-amd-topologies/topo_8p_rome.xml", links="all")
    assert made.figures["gpus"] == 8


def test_four_servers_at_one_switch(tmp_path: Path) -> None:
    """InfraGraph's own package counts 165 nodes and 312 edges; a server has 8 ports of 50 GB/s to the others."""
    made = imported("infragraph", "51-infragraph/dgx-h100-4.yaml", collective="allgather")
    figures = made.figures
    assert (figures["gpus"], figures["nics"], figures["servers"], figures["switches"]) == (32, 32, 4, 1)
    assert (figures["switches_of_gpus"], figures["nodes"], figures["edges"]) == (16, 165, 312)
    assert figures["network_gbps"] == [400.0]
    assert sum("states no bandwidth" in note for note in made.notes) == 4
    network = instance_of(made, tmp_path).network
    assert len(network.ranks) == 32
    into = dict.fromkeys(network.names, 0.0)
    for (_, head), rate in zip(network.arcs.tolist(), network.gbytes_per_s.tolist(), strict=True):
        into[network.names[head]] += rate
    assert into["switch.0"] == 32 * 50.0
    assert into["dgx_h100.3.xpu.7"] == 450.0 + 64.0


def test_a_header_that_counts_otherwise() -> None:
    """With the line of the first link that simulators drop; counted as it should be, the file is read."""
    with pytest.raises(InputError, match=r"topo\.txt:23: .*\(SimAI\): the first line says 20 links, 24 stand"):
        imported("astrasim-network", "02-link-count-mismatch/topo.txt")


def test_the_same_with_the_right_number(tmp_path: Path) -> None:
    """A GPU gets 300 GB/s from the NVSwitch and 12.5 from the network: AllGather 8/7 of the sum."""
    text = shared(f"{CASES}/02-link-count-mismatch/topo.txt").read_text()
    (tmp_path / "topo.txt").write_text(text.replace("18 8 1 9 20 A100", "18 8 1 9 24 A100"))
    made = IMPORTERS["astrasim-network"](tmp_path / "topo.txt")
    figures = made.figures
    assert (figures["ranks"], figures["nvswitches"], figures["switches"], figures["links"]) == (8, 1, 9, 24)
    assert allgather(instance_of(made, tmp_path).network) == pytest.approx(8 / 7 * 312.5)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("8nodes.topo", "topology of htsim"),
        ("sample_16nodes_2D.json", "logical dimensions"),
        ("HGX-H100-validated.json", "system configuration of ASTRA-sim"),
    ],
)
def test_inputs_of_other_back_ends_are_called_by_their_names(name: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        imported("astrasim-network", f"50-astra-sim-2026-inputs/{name}")


@pytest.mark.parametrize(
    ("name", "npus"),
    [
        ("50-astra-sim-2026-inputs/HGX-H100-validated.yml", [8]),
        ("50-astra-sim-2026-inputs/hgx_h100_32gpu.yml", [8, 4]),
        ("50-astra-sim-2026-inputs/tpu_v3_32_ring.yml", [32]),
        ("50-astra-sim-2026-inputs/Ring_16npus.yml", [16]),
        ("49-chakra-model-parallel-mlp/net/DGX_H100-32.yml", [8, 4]),
        ("49-chakra-model-parallel-mlp/net/TPUv4-32.yml", [2, 4, 4]),
    ],
)
def test_networks_of_2026(name: str, npus: list[int]) -> None:
    """Sizes of all dimensions."""
    made = imported("astrasim-network", name)
    assert [row["size"] for row in made.figures["dimensions"]] == npus


def test_a_trace_of_32_ranks() -> None:
    """Calls and bytes of each rank, as a reader of the case's own counts them."""
    content = read_chakra(shared(f"{CASES}/49-chakra-model-parallel-mlp/traces"))
    total: dict[str, list[int]] = {}
    for use in content.uses:
        assert use.members == tuple(range(32))
        assert len(set(use.calls)) == 1
        row = total.setdefault(use.collective.name, [0, 0])
        row[0] += use.calls[0]
        row[1] += use.size_bytes * use.calls[0]
    assert sorted(total.values()) == [[5, 409_600], [6, 447_232]]


def test_a_trace_in_json_is_called_so() -> None:
    with pytest.raises(InputError, match="a trace of Chakra in JSON"):
        read_chakra(shared(f"{CASES}/49-chakra-model-parallel-mlp/small_chakra.0.json"))


def test_a_dependence_on_nothing_is_named() -> None:
    """Node 1 of both ranks waits for node 0, which neither file has."""
    made = imported("chakra", "18-dependency-on-nothing/traces", kind="topology", degree=1)
    said = [note for note in made.notes if "not in the trace" in note]
    assert len(said) == 2
    assert all("of node 1 on node 0" in note for note in said)


PLANS = (
    "allreduce_pipeline", "reduce_nvls", "reduce_nvls_pipeline", "reduce_pack", "reduce_pack_tbg", "reduce_tbg",
    "transfer_pack_tbg",
)  # fmt: skip


def _defects(reader: str, file: Path, options: ScheduleOptions) -> list[Any]:
    return list(execute(SCHEDULES[reader](file, options)).defects)


@pytest.mark.parametrize("name", PLANS)
def test_plans_that_upstream_runs(name: str) -> None:
    """No race, no double sum, no wrong chunk in any of them."""
    assert _defects("mscclpp", shared(f"{CASES}/20-mscclpp-plans/{name}.json"), ScheduleOptions()) == []


@pytest.mark.parametrize("name", ["alltoall-8n-0-9kb", "alltoall-8n-9kb-190kb", "alltoall-8n-7mb-43mb"])
def test_all_to_all_of_a_vendor(name: str) -> None:
    assert _defects("msccl", shared(f"{CASES}/22-rccl-all-to-all/{name}.xml"), ScheduleOptions()) == []


def test_an_algorithm_of_early_sccl() -> None:
    """It lacks ngpus, coll and inplace: the collective is asked for, ranks are counted, and runtimes are warned of."""
    from topoopt.core.collective import CollectiveOp

    file = shared(f"{CASES}/21-xml-without-ngpus/old.xml")
    with pytest.raises(InputError, match=r"coll is missing; .* by --collective"):
        SCHEDULES["msccl"](file, ScheduleOptions())
    program = SCHEDULES["msccl"](file, ScheduleOptions(CollectiveOp.ALLGATHER))
    assert len(program.ranks) == 4
    assert list(execute(program).defects) == []
    assert any("ngpus, coll, inplace, minBytes, maxBytes" in note for note in program.notes)


def test_four_switches_of_nvlink() -> None:
    """The same total as of one switch: AllGather 8/7 of 450 GB/s."""
    problem = read_instance(shared(f"{CASES}/04-four-nvswitches/four-nvswitches.yaml"))
    assert allgather(problem.network) == pytest.approx(514.2857142857)


SOLVED: dict[str, tuple[Callable[[], Imported], float]] = {
    "REPETITA": (lambda: imported("repetita", "34-repetita-ninety-percent/abilene.graph"), 0.8999992465),
    "SNDlib": (
        lambda: imported("sndlib", "35-sndlib/abilene.native.txt", links="bidirected", demands="directed"),
        60.4114919355,
    ),
}


@pytest.mark.parametrize("name", SOLVED)
def test_networks_of_carriers(name: str, tmp_path: Path) -> None:
    """Theta by a linear program of the cases' own, proven optimal here."""
    build, theta = SOLVED[name]
    result = solve(instance_of(build(), tmp_path), SolveOptions(seed=1))
    assert result.objective.value == pytest.approx(theta, rel=1e-9)
    assert result.status.value == "optimal"


def test_records_of_graph_golf() -> None:
    """Mean hops of the records bound uniform demand from below: (n - 1) times them, over the degree."""
    rows = shared(f"{CASES}/37-graph-golf/records.csv").read_text().splitlines()
    problem = read_instance(shared(f"{CASES}/37-graph-golf/n36-d3.yaml"))
    result = solve(problem, SolveOptions(seed=1, budget=2000))
    assert (36 - 1) * 3.0571 / 3 - 1e-6 <= result.objective.value <= 1.1 * 35.78
    assert result.bound.value <= 35.78
    assert any(row.startswith("36,3") for row in rows)


def test_thresholds_of_a_tuner(tmp_path: Path) -> None:
    """The least cost of every group as the case lists it; `broadcast,tree` is never applied, so another stands in."""
    from topoopt.formats.table import EXPORTERS, ExportOptions

    of_table = EXPORTERS["nccl-tuner"].of_table
    assert of_table is not None
    made = of_table(shared(f"{CASES}/48-nccl-tuner-table/sample_performance_data.csv"), ExportOptions())
    best = {
        (row["collective"], row["ranks"], row["size_bytes"]): (
            f"{row['algorithm']}/{row['protocol']} {row['channels']}", row["cost"])
        for row in made.figures["thresholds"]
    }  # fmt: skip
    kib, mib = 1024, 1 << 20
    assert best == {
        ("allreduce", 8, kib): ("ring/simple 4", 0.12), ("allreduce", 8, 32 * kib): ("ring/ll128 8", 0.16),
        ("allreduce", 8, mib): ("nvls/simple 16", 0.32), ("allreduce", 16, kib): ("ring/simple 4", 0.19),
        ("allreduce", 16, 32 * kib): ("ring/ll128 8", 0.24), ("allreduce", 16, mib): ("nvls/simple 16", 0.42),
        ("broadcast", 8, kib): ("tree/simple 2", 0.08), ("broadcast", 8, 32 * kib): ("ring/ll128 4", 0.15),
        ("broadcast", 8, mib): ("ring/ll128 8", 0.28),
    }  # fmt: skip
    lines = made.files[0][1].decode().splitlines()
    assert not [line for line in lines if line.startswith("broadcast") and "tree" in line]
    assert json.dumps(made.notes).count("the library never applies it") == 1


def test_a_table_of_two_hives_names_both() -> None:
    """The links that the case lists of the same machine."""
    with pytest.raises(InputError, match="2 parts that no links join") as caught:
        read_instance(shared(f"{AMD}/topo_8p_rome.yaml"))
    assert "0, 1, 3, 5; 2, 4, 6, 7" in str(caught.value)
