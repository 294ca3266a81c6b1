"""What `topoopt import` writes, every command reads: every importer, every option, as YAML and as JSON."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import chakra_files as chakra
from tests.support import foreign_network_cases as networks
from tests.support import written_schedules as written
from tests.support.cli_cases import run, shared
from tests.support.paths import ROOT
from topoopt.files.documents import load_document
from topoopt.formats.chakra import CommType, NodeType
from topoopt.formats.table import IMPORTERS
from topoopt.kinds.files import instance_text

Words = list[object]


@dataclass(frozen=True)
class Case:
    """Small files of a format.

    Attributes:
        files: folder -> the words that name them, with the options an importer must have.
        options: a value of every other option, by the name of the parameter.
    """

    files: Callable[[Path], Words]
    options: dict[str, Words]


def written_text(path: Path, text: str) -> Words:
    """A file with this text."""
    path.write_text(text)
    return [path]


def repetita_files(folder: Path) -> Words:
    """A network with its demands beside it, and half of them elsewhere."""
    (folder / "net.demands").write_text(networks.DEMANDS)
    (folder / "other.demands").write_text("DEMANDS 1\nlabel src dest bw\nd0 0 2 150\n")
    return written_text(folder / "net.graph", networks.GRAPH)


def graph_file(folder: Path) -> Words:
    """Four operators on two accelerators and a CPU, by hand."""
    nodes = [
        {"id": k, "supportedOnFpga": 1, "cpuLatency": 4.0, "fpgaLatency": 1.0, "isBackwardNode": 0, "size": 1000}
        for k in range(4)
    ]
    edges = [{"sourceId": s, "destId": t, "cost": 0.5} for s, t in ((0, 1), (0, 2), (1, 3), (2, 3))]
    data = {"maxSizePerFPGA": 3000, "maxFPGAs": 2, "maxCPUs": 2, "nodes": nodes, "edges": edges}
    (folder / "graph.json").write_text(json.dumps(data))
    return [folder / "graph.json"]


def libra_files(folder: Path) -> Words:
    """Two dimensions, two layers."""
    texts = {
        "network": "Topology: [Ring, Switch]\nNpusCount: [4, 8]\nCostDimension: [Near, Far]\n",
        "cost-model": "Near: {Link: 2.0}\nFar: {Link: 8.0, Switch: 18.0}\n",
        "workload": "a -1 100 NONE 0 200 ALLREDUCE 4000 300 REDUCESCATTER 8000 10\n"
        "b -1 1 ALLTOALL 5 1 NONE 0 0 NONE 0 0\n",
        "groups": "Forward: [4, -1]\nInputGrad: [4, -1]\nWeightGrad: [-1, 8]\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    named = f"network={folder / 'network'},cost_model={folder / 'cost-model'},total_gbytes_per_s=100"
    return [folder / "workload", "--set", named]


def traces(folder: Path) -> Words:
    """Four ranks that compute and reduce, as a job."""
    compute = chakra.node(0, NodeType.COMP, us=100, num_ops=1000)
    reduce = chakra.node(1, NodeType.COMM_COLL, after=[0], comm_type=int(CommType.ALL_REDUCE), comm_size=4096)
    chakra.write(folder / "traces", {rank: [compute, reduce] for rank in range(4)})
    (folder / "groups.json").write_text(json.dumps({"1": [0, 1, 2, 3]}))
    (folder / "network.yml").write_text(
        "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
    )
    return [folder / "traces"]


def as_job(folder: Path) -> Words:
    """Traces as a job with a network that is searched."""
    return [*traces(folder), "--set", "as=co-optimisation"]


def as_demand(folder: Path) -> Words:
    """Traces as demand for a topology."""
    return [*traces(folder), "--set", "as=topology"]


def as_hierarchy(folder: Path) -> Words:
    """Traces as the workload of a hierarchical network."""
    return [
        *traces(folder),
        "--set",
        "as=hierarchical-bandwidth,dims=ring:4,total_gbytes_per_s=100",
    ]


def network_file(folder: Path) -> Words:
    """A ring of switches."""
    (folder / "net.yml").write_text(
        "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50.0, 25.0 ]\nlatency: [ 500.0, 500.0 ]\n"
    )
    return [folder / "net.yml"]


def profile_file(folder: Path) -> Words:
    """A measured profile of sixteen servers."""
    return [shared("measures/dlrm16.json"), "--set", "model=dlrm"]


def task_graph(folder: Path) -> Words:
    """What our own exporter wrote of a small plan."""
    instance = ROOT / "instances/tiny-4.yaml"
    assert run("solve", instance, "--budget", 5, "-o", folder / "plan", "--force").code == 0
    words = ("--to", "flexnet-taskgraph", "-o", folder / "graph.fbuf", "--force")
    made = run("export", folder / "plan/solution.json", *words)
    assert made.code == 0, made.stderr
    return [folder / "graph.fbuf"]


def ring_schedule(folder: Path) -> Words:
    """AllGather round three ranks."""
    return [written.msccl(folder / "ring.xml", "allgather", 3, written.ring_allgather(3), sizes=(1, 3))]


def exported_schedule(folder: Path, target: str, file: str) -> Words:
    """What our own exporter wrote of a reduce-scatter on a ring of five."""
    if not (folder / target).exists():
        words = (ROOT / "instances/collectives/ring-5.yaml", "--method", "bfb", "-o", folder / "ring")
        assert run("solve", *words).code == 0
        made = run("export", folder / "ring/solution.json", "--to", target, "-o", folder / target)
        assert made.code == 0, made.stderr
    return [folder / target / file]


def sccl_topology(folder: Path) -> Words:
    """The one-way ring 0 -> 1 -> 2 -> 0, links[dst][src]."""
    document = {"msccl_type": "topology", "links": [[0, 0, 1], [1, 0, 0], [0, 1, 0]], "switches": []}
    (folder / "topology.json").write_text(json.dumps(document))
    return [folder / "topology.json"]


NAME: dict[str, Words] = {"name": ["--set", "name=yes"]}  # text that YAML 1.1 would take for a truth value
LINKED: dict[str, Words] = {
    "degree": ["--set", "degree=3"],
    "link_gbps": ["--set", "link_gbps=12.5"],
    "links": ["--set", "links=unidirectional"],
}
TRACED: dict[str, Words] = {
    **NAME,
    "ranks": ["--set", "ranks=4"],
    "comm_groups": ["--set", "comm_groups={folder}/groups.json"],
    "peak_tflops": ["--set", "peak_tflops=1"],
}

SCHEDULED: dict[str, Words] = {
    **NAME,
    "link_gbps": ["--set", "link_gbps=80"],
    "vector_bytes": ["--set", "bytes=3000B"],
    "root": ["--set", "root=1"],
}
GATHERED: dict[str, Words] = {**SCHEDULED, "collective": ["--set", "collective=allgather"]}
REDUCED: dict[str, Words] = {
    **NAME,
    "vector_bytes": ["--set", "bytes=3000B"],
    "collective": ["--set", "collective=allgather"],
}
SCATTERED: dict[str, Words] = {**SCHEDULED, "collective": ["--set", "collective=reduce-scatter"]}

CASES: dict[tuple[str, str], Case] = {
    ("dnn-partitioning", "throughput"): Case(
        lambda folder: [*graph_file(folder), "--set", "objective=throughput"],
        {
            **NAME,
            "comm_scale": ["--set", "comm_scale=0.3"],
            "devices": ["--set", "devices=3"],
            "cpu": ["--set", "cpu=false"],
        },
    ),
    ("dnn-partitioning", "latency"): Case(
        lambda folder: [*graph_file(folder), "--set", "objective=latency"], {"sharing": ["--set", "sharing=fair"]}
    ),
    ("libra", ""): Case(
        libra_files,
        {
            **NAME,
            "communicator": ["--set", "communicator={folder}/groups"],
            "objective": ["--set", "objective=time-times-cost"],
            "loop": ["--set", "loop=dp-overlap"],
            "pareto_points": ["--set", "pareto_points=3"],
        },
    ),
    ("chakra", "job"): Case(as_job, {**TRACED, **LINKED, "gpus_per_server": ["--set", "gpus_per_server=2"]}),
    ("chakra", "demand"): Case(
        as_demand, {**LINKED, "algorithm": ["--set", "algorithm=direct"], "all_to_all": ["--set", "all_to_all=ring"]}
    ),
    ("chakra", "hierarchy"): Case(as_hierarchy, {**TRACED, "loop": ["--set", "loop=dag"]}),
    ("chakra", "graph"): Case(
        lambda folder: [*as_hierarchy(folder), "--set", "loop=dag"], {"dependencies": ["--set", "dependencies=data"]}
    ),
    ("chakra", "network"): Case(
        lambda folder: [*traces(folder), "--set", f"as=hierarchical-bandwidth,network={folder / 'network.yml'}"],
        {"ring_queues": ["--set", "ring_queues=2"]},
    ),
    ("astrasim-network", ""): Case(
        network_file,
        {
            **NAME,
            "vector_bytes": ["--set", "bytes=1MB"],
            "compute_ns": ["--set", "compute_ns=50"],
            "ring_queues": ["--set", "ring_queues=2"],
        },
    ),
    ("astrasim-network", "ns-3"): Case(
        lambda folder: written_text(folder / "net.txt", networks.SIMAI),
        {
            "vector_bytes": ["--set", "bytes=1MB"],
            "collective": ["--set", "collective=allgather"],
        },
    ),
    ("flexnet", "profile"): Case(
        profile_file,
        {
            **NAME,
            **LINKED,
            "size": ["--set", "size.tables=16"],
            "gpus_per_server": ["--set", "gpus_per_server=2"],
            "gpu_memory_gib": ["--set", "gpu_memory_gib=40"],
            "intra_server_gbps": ["--set", "intra_server_gbps=300"],
            "element_sizes": ["--set", "element_sizes=flexnet"],
            "local_allreduce": ["--set", "local_allreduce=flexnet"],
            "reference": ["--set", "reference=true"],
        },
    ),
    ("flexnet", "graph"): Case(task_graph, {**NAME, **LINKED}),
    ("msccl", ""): Case(ring_schedule, GATHERED),
    ("mscclpp", ""): Case(lambda folder: exported_schedule(folder, "mscclpp", "plan.json"), SCATTERED),
    ("astrasim-collective", ""): Case(lambda folder: exported_schedule(folder, "astrasim-collective", ""), SCATTERED),
    ("sccl", ""): Case(
        sccl_topology,
        {**NAME, "link_gbps": ["--set", "link_gbps=100"], "vector_bytes": ["--set", "bytes=3000B"]},
    ),
    ("teccl", ""): Case(lambda folder: [written.teccl_input(folder, "NDv2", 2)], NAME),
    ("infragraph", ""): Case(
        lambda folder: written_text(folder / "two.json", json.dumps(networks.INFRA)),
        {**REDUCED, "link_gbytes_per_s": ["--set", "link_gbytes_per_s.up=25"]},
    ),
    ("nccl-topology", "NVSwitch"): Case(
        lambda folder: written_text(folder / "system.xml", networks.NCCL),
        {
            **REDUCED,
            "links": ["--set", "links=all"],
        },
    ),
    ("nccl-topology", "PCI"): Case(
        lambda folder: written_text(folder / "cloud.xml", re.sub("<nvlink.*/>", "", networks.NCCL)),
        {"nvswitch_gbytes_per_s": ["--set", "nvswitch_gbytes_per_s=100"]},
    ),
    ("nccl-topology", "xGMI"): Case(
        lambda folder: written_text(folder / "hive.xml", networks.HIVE),
        {"link_gbytes_per_s": ["--set", "link_gbytes_per_s=40"]},
    ),
    ("repetita", ""): Case(repetita_files, {**NAME, "demands": ["--set", "demands={folder}/other.demands"]}),
    ("sndlib", ""): Case(
        lambda folder: [
            *written_text(folder / "net.txt", networks.SNDLIB),
            "--set",
            "links=bidirected,demands=directed",
        ],
        {**NAME, "modules": ["--set", "modules=1"]},
    ),
    ("topology-zoo", ""): Case(
        lambda folder: written_text(folder / "zoo.gml", networks.ONE_FORM),
        {**NAME, "missing_gbps": ["--set", "missing_gbps=10"], "demand": ["--set", "demand=hotspot"]},
    ),
}
GIVEN = {
    "chakra": {"path", "kind", "dims", "network", "total_gbytes_per_s"},
    "libra": {"network", "cost_model", "workload", "total_gbytes_per_s"},
    "flexnet": {"file", "model"},
    "dnn-partitioning": {"file", "objective"},
    "astrasim-network": {"file"},
    "msccl": {"file"},
    "mscclpp": {"file"},
    "astrasim-collective": {"file"},
    "sccl": {"file"},
    "teccl": {"file"},
    "infragraph": {"file"},
    "nccl-topology": {"file"},
    "repetita": {"file"},
    "sndlib": {"file", "links", "demands"},
    "topology-zoo": {"file"},
}
"""Parameters that every case of an importer gives."""


def written_and_read(case: Case, importer: str, folder: Path, options: list[Words]) -> Path:
    """Import with each set of options, as YAML and as JSON: both say the same, and are valid; the last YAML file."""
    words = case.files(folder)
    path = folder / "x.yaml"
    for chosen in options:
        named = [str(word).replace("{folder}", str(folder)) for word in chosen]
        for target in (path, path.with_suffix(".json")):
            made = run("import", importer, *words, *named, "-o", target, "--force", "--json")
            assert made.code == 0, (chosen, made.stderr)
            assert run("validate", target).code == 0, (chosen, target.read_text()[:2000])
        assert load_document(path).data == load_document(path.with_suffix(".json")).data
    return path


@pytest.mark.parametrize(("importer", "variant"), CASES)
def test_every_import_is_read(tmp_path: Path, importer: str, variant: str) -> None:
    """Without options, with each, and with all that go together: written, validated, the same in both forms."""
    case = CASES[importer, variant]
    written_and_read(case, importer, tmp_path, [[], *case.options.values()])


@pytest.mark.parametrize(("importer", "variant"), CASES)
def test_every_import_is_solved(tmp_path: Path, importer: str, variant: str) -> None:
    """What was written as YAML is solved and checked."""
    path = written_and_read(CASES[importer, variant], importer, tmp_path, [[]])
    kind = run("import", importer, *CASES[importer, variant].files(tmp_path), "-o", path, "--force", "--json").json[
        "kind"
    ]
    if kind == "llm-training":
        evaluated = run("llm", "evaluate", path, "--json")
        assert evaluated.code == 0, evaluated.stderr
        assert evaluated.json["iteration_time_s"] > 0
        return
    limit = {"co-optimisation": ["--budget", 5], "placement": ["--method", "list"]}.get(kind, ["--time-limit", 2])
    if variant == "throughput":
        limit = ["--method", "slices", "--time-limit", 1]
    solved = run("solve", path, "-o", tmp_path / "out", *limit, "--json")
    assert solved.code in (0, 4), solved.stderr
    assert solved.json["check"]["ok"]


@pytest.mark.parametrize("importer", IMPORTERS)
def test_no_option_is_left_out(importer: str) -> None:
    """Each parameter of each importer stands in a case."""
    parameters = set(inspect.signature(IMPORTERS[importer]).parameters)
    tried = {name for (one, _), case in CASES.items() if one == importer for name in case.options}
    assert parameters == tried | GIVEN[importer]


def test_own_imports_are_read(tmp_path: Path) -> None:
    """The job of an instance, to be placed; a split made by hand of a graph that was imported as YAML."""
    job = ROOT / "instances/tiny-4.yaml"
    for objective in ("throughput", "latency"):
        for more in ([], ["--set", "inference=true"], ["--set", "name=no"]):
            for name in ("job.yaml", "job.json"):
                words = (
                    "import",
                    "job",
                    job,
                    "--set",
                    f"objective={objective}",
                    *more,
                    "-o",
                    tmp_path / name,
                    "--force",
                )
                assert run(*words).code == 0
                assert run("validate", tmp_path / name).code == 0
    (tmp_path / "split.json").write_text(json.dumps({"cpus": [], "fpgas": [{"nodes": [0, 1]}, {"nodes": [2, 3]}]}))
    graph = tmp_path / "graph.yaml"
    assert (
        run("import", "dnn-partitioning", *graph_file(tmp_path), "--set", "objective=throughput", "-o", graph).code == 0
    )
    split = run(
        "import",
        "expert-split",
        tmp_path / "split.json",
        "--set",
        f"instance={graph}",
        "-o",
        tmp_path / "split-solution.json",
    )
    assert split.code == 0, split.stderr
    assert run("check", graph, tmp_path / "split-solution.json").code == 0


def test_what_stands_twice_is_written_twice(tmp_path: Path) -> None:
    """No anchors in YAML, though parts of the document are one object; texts that look like other things stay texts."""
    links = [{"name": "eth0", "gbps": 10.0}]
    odd = [
        "yes",
        "1e5",
        "0x10",
        "null",
        "~",
        "",
        " a",
        "a: b",
        "- a",
        "#",
        "\ttab",
        "é漢",
        "1_000",
        "12:30",
        "<<",
        "=",
    ]
    document = {
        "servers": [{"links": links}, {"links": links}],
        "texts": odd,
        "numbers": [0.1, 1e-7, 1e22, -0.0, 10**30],
        "truth": [True, None],
    }
    path = tmp_path / "x.yaml"
    path.write_text(instance_text(document, path))
    assert "&" not in path.read_text().replace("a: b", "")
    assert load_document(path).data == document
