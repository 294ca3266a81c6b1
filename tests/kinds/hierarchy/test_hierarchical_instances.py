"""Instance files and the files of LIBRA: what is refused, with path and reason, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run
from tests.support.hierarchical_cases import SHARED, instance, job, layer, network, phase, problem_of
from topoopt.core.errors import InputError
from topoopt.kinds.files import read_instance, write_instance

TIERS = {"near": {"link": 2.0}, "far": {"link": 8.0, "switch": 18.0, "nic": 31.0}}


def refused(document: dict[str, Any]) -> list[str]:
    """`path: message` of every problem."""
    with pytest.raises(InputError) as caught:
        problem_of(document)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def good() -> dict[str, Any]:
    """Two dimensions, tensor parallelism on one and data parallelism on the other."""
    own = job(
        "job",
        layer(
            forward=phase(1e6, ("all-reduce", 1e9, "tensor")), weight_gradient=phase(1e6, ("all-reduce", 1e8, "data"))
        ),
        communicators={"tensor": [4, 1], "data": [1, 8]},
    )
    return instance(network([4, 8], [2.0, 9.0], total_gbytes_per_s=100.0), own)


def test_a_sound_file_is_read(tmp_path: Path) -> None:
    """Written as YAML and read again: the same problem, by its hash; prices are those of the blocks."""
    document = good()
    document["network"]["tiers"] = TIERS
    document["network"]["dimensions"][0]["tier"] = "near"
    document["network"]["dimensions"][1] |= {"tier": "far", "block": "switch"}
    write_instance(document, tmp_path / "case.yaml")
    problem = read_instance(tmp_path / "case.yaml")
    assert problem.sha256 == problem_of(document).sha256
    prices = [one.usd_per_gbytes_per_s for one in problem_of(document).designs[0].network.dimensions]
    assert prices == [2.0, 57.0]
    assert problem_of(document).designs[0].network.npus == 32


CHANGES: list[tuple[str, Any, str]] = [
    ("workloads.0.communicators.tensor", [4], "workloads[0].communicators.tensor: not one number for each dimension"),
    ("workloads.0.communicators.tensor", [3, 1], "workloads[0].communicators.tensor[0]: the ranks do not divide"),
    ("workloads.0.communicators.tensor", [0, 1], "workloads[0].communicators.tensor[0]: out of range"),
    ("workloads.0.layers.0.forward.collectives.0.bytes", 0, "workloads[0].layers[0].forward.collectives[0].bytes: out"),
    ("workloads.0.layers.0.forward.collectives.0.communicator", "tp", ".communicator: no such communicator"),
    ("workloads.0.layers.0.forward.collectives.0.collective", "broadcast", "not one of the allowed values"),
    ("workloads.0.layers.0.forward.compute_ns", -1, "compute_ns: out of range"),
    ("network.dimensions.0.size", 1, "network.dimensions[0].size: out of range"),
    ("network.dimensions.0.tier", "t9", "network.dimensions[0].tier: unknown tier"),
    ("network.dimensions.0.tier", None, "network.dimensions[0].tier: missing price"),
    ("network.dimensions.1.block", "switch", "network.tiers.t1: missing price: a dimension of this tier is a switch"),
    ("network.dimensions.1.name", "d0", "network.dimensions[1].name: name used twice"),
    ("network.dimensions.0.min_gbytes_per_s", 9.0, "min_gbytes_per_s: above the maximum"),
    ("network.dimensions.0.speeds_gbytes_per_s", [10.0], "speeds_gbytes_per_s: no speed within the bounds"),
    ("network.total_at_most_gbytes_per_s", 9.0, "network.total_at_most_gbytes_per_s: two totals"),
    ("network.shapes", [], "network.shapes: wrong length"),
    ("network.constraints", [{"name": "c", "terms": {"dx": 1.0}, "equals": 1.0}], "terms.dx: no such dimension"),
    ("network.constraints", [{"name": "c", "terms": {"d0": 0.0}, "equals": 1.0}], "all coefficients are 0"),
    ("network.constraints", [{"name": "c", "terms": {"d0": 1.0}}], "constraints[0]: a constraint without a side"),
    ("network.constraints", [{"name": "total", "terms": {"d0": 1.0}, "equals": 1.0}], "name: name used twice"),
    ("objective", "cost", "time_limit_ns: the objective cost needs a limit on time"),
    ("time_limit_ns", 1e9, "time_limit_ns: a limit on time without the objective cost"),
    ("network.dimensions", None, "network: which shape?"),
]


@pytest.mark.parametrize(("path", "value", "expected"), CHANGES)
def test_issues_are_named(path: str, value: Any, expected: str) -> None:
    """One change to a sound file: the problem says where and what."""
    document = good()
    document["network"]["dimensions"][0]["max_gbytes_per_s"] = 8.0
    place: Any = document
    *way, last = path.split(".")
    for key in way:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[last] = value
    assert any(expected in text for text in refused(document)), refused(document)


def test_missing_prices_are_named_where_cost_counts() -> None:
    """Without tiers only time can be asked for: objective, cost cap and front are refused together."""
    document = instance(
        network([4, 8], total_gbytes_per_s=100.0), objective="time-times-cost", cost_cap_usd=1e6, pareto_points=5
    )
    assert refused(document) == [
        "objective: missing prices",
        "cost_cap_usd: missing prices",
        "pareto_points: missing prices",
    ]


def test_several_issues_come_together() -> None:
    """A bad communicator, an unknown tier and a name used twice in one answer."""
    document = good()
    document["workloads"][0]["communicators"]["data"] = [1, 5]
    document["network"]["dimensions"][0]["tier"] = "t7"
    document["workloads"].append(job("job"))
    assert len(refused(document)) == 3


def test_tasks_come_after_what_they_wait_for() -> None:
    """A task that waits for itself or a later one is refused."""
    tasks = [{"name": "a", "compute_ns": 1.0, "after": [1]}, {"name": "b", "compute_ns": 1.0, "after": [1]}]
    texts = refused(instance(network([4]), {"name": "graph", "tasks": tasks}))
    assert texts == ["workloads[0].tasks[0].after[0]: not before", "workloads[0].tasks[1].after[0]: not before"]


NETWORK = "Topology: [Ring, Switch]\nNpusCount: [4, 8]\nCostDimension: [Near, Far]\n"
COST = "Near: {Link: 2.0}\nFar: {Link: 8.0, Switch: 18.0}\n"
COMMUNICATOR = "Forward: [4, -1]\nInputGrad: [4, -1]\nWeightGrad: [-1, 8]\n"
WORKLOAD = "a -1 100 NONE 0 200 AllReduce 4000 300 REDUCESCATTER 8000 10\nb -1 1 ALLTOALL 5 1 NONE 0 0 NONE 0 0\n"


def imported(folder: Path, **texts: str | None) -> Any:
    """`topoopt import libra` of four small files, some replaced; None leaves one out."""
    files = {"network": NETWORK, "cost-model": COST, "communicator": COMMUNICATOR, "workload": WORKLOAD}
    files = {**files, **{key.replace("_", "-"): text for key, text in texts.items()}}
    words: list[object] = []
    for key, text in files.items():
        if text is not None:
            path = folder / f"{key}.{'txt' if key == 'workload' else 'yml'}"
            path.write_text(text)
            words += [path] if key == "workload" else ["--set", f"{key}={path}"]
    return run("import", "libra", *words, "--set", "total_gbytes_per_s=100", "-o", folder / "case.yaml", "--json")


def test_libra_files_are_read(tmp_path: Path) -> None:
    """Every number lands where it belongs; a missing NIC costs nothing; collectives in any case."""
    assert imported(tmp_path).json["layers"] == 2
    problem: Any = read_instance(tmp_path / "case.yaml")
    [design] = problem.designs
    assert [one.usd_per_gbytes_per_s for one in design.network.dimensions] == [2.0, 26.0]
    [own] = design.workloads
    assert {one.name: one.ranks for one in own.communicators} == {"forward": (4, 1), "weight-grad": (1, 8)}
    assert own.layers[0].input_gradient.communications[0].size_bytes == 4000
    assert own.layers[0].weight_gradient.compute_ns == 300
    assert own.layers[1].forward.communications[0].communicator == 0


def test_without_communicator_the_whole_network_is_used(tmp_path: Path) -> None:
    """All phases extend over all dimensions."""
    assert imported(tmp_path, communicator=None).code == 0
    problem: Any = read_instance(tmp_path / "case.yaml")
    assert [one.ranks for one in problem.designs[0].workloads[0].communicators] == [(4, 8)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"workload": ""}, "no layers"),
        ({"workload": "a -1 100 NONE 0\n"}, "wrong number of columns"),
        ({"workload": WORKLOAD.replace("AllReduce", "BROADCAST")}, "no such collective"),
        ({"workload": WORKLOAD.replace("8000", "0")}, "no size"),
        ({"workload": WORKLOAD.replace("300", "nan")}, "no compute time"),
        ({"network": NETWORK.replace("Ring", "Torus")}, "not one of the allowed values"),
        ({"network": NETWORK.replace("[4, 8]", "[4]")}, "not one entry for each dimension"),
        ({"network": NETWORK.replace("[4, 8]", "[4, 1]")}, "out of range"),
        ({"network": "- 1\n"}, "wrong type"),
        ({"network": "Topology: ["}, ""),
        ({"communicator": COMMUNICATOR.replace("-1, 8", "-1, 0")}, "does not fit the dimension"),
        ({"communicator": COMMUNICATOR.replace("4, -1", "3, -1", 1)}, "does not fit the dimension"),
        ({"communicator": COMMUNICATOR.replace("-1, 8", "8")}, "not one number for each dimension"),
        ({"cost_model": "Near: {Link: 2.0}\n"}, "unknown tier"),
        ({"cost_model": COST.replace("Switch: 18.0", "Nic: 1.0")}, "missing price"),
        ({"cost_model": COST.replace("2.0", "0.0")}, "out of range"),
    ],
)
def test_broken_libra_files_are_refused(tmp_path: Path, changed: dict[str, str], expected: str) -> None:
    """Exit code 2, the reason, and nothing written."""
    found = imported(tmp_path, **changed)
    assert found.code == 2
    assert expected in found.json["error"]
    assert not (tmp_path / "case.yaml").exists()


def test_published_files_are_read(tmp_path: Path) -> None:
    """All of the shared files, by the command."""
    if not SHARED.exists():
        pytest.skip(f"shared data absent: {SHARED}")
    for model, count in (("GPT_3", 18), ("MSFT_1T", 18), ("ResNet_50", 54)):
        for shape in ("3d", "4d"):
            found = run(
                *("import", "libra", SHARED / "workload" / f"{model}.txt"),
                *("--set", f"network={SHARED / 'network' / f'{shape}_network.yml'}"),
                *("--set", f"communicator={SHARED / 'communicator' / f'{model}_{shape}.yml'}"),
                *("--set", f"cost_model={SHARED / 'cost_model' / f'{shape}_cost_model.yml'}"),
                *("--set", "total_gbytes_per_s=500"),
                *("-o", tmp_path / "case.yaml", "--force", "--json"),
            )
            assert found.json["layers"] == count
