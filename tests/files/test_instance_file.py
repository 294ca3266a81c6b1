"""Instance files: what is read, what comes back, and that every kind of bad input is refused in full."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run
from tests.support.file_cases import instance_document
from tests.support.paths import INSTANCES
from tests.support.refused import errors, save
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.job import BaselineSettings
from topoopt.core.result import JobSearchSettings
from topoopt.core.workload import OperatorInput, Split
from topoopt.files.documents import canonical_sha256
from topoopt.files.job_document import topological_order
from topoopt.kinds.files import read_instance, write_instance


def test_a_graph_in_full_becomes_the_domain_object(tmp_path: Path, graph_instance: dict[str, Any]) -> None:
    """Every field of the file arrives where it belongs, with defaults where it is silent."""
    instance = read_instance(save(tmp_path / "a.json", graph_instance))
    cluster = instance.cluster
    assert (cluster.servers, cluster.gpus_per_server, cluster.degree, cluster.link_gbps) == (4, 2, 2, 100.0)
    assert (cluster.links, cluster.local_allreduce) == (LinkDirection.BIDIRECTIONAL, "ring")
    assert (cluster.hop_latency_us, cluster.ring_round_latency_us, cluster.intra_server_gbps) == (1.0, 2.1, 2400.0)
    assert cluster.gpu_memory_bytes == 3 * 2**29
    assert instance.search == JobSearchSettings("auto", 100, 1.5, 3)
    assert instance.baselines == BaselineSettings(50.0, 2.0)
    assert (instance.name, instance.source) == ("tiny", str(tmp_path / "a.json"))
    first, second = instance.workload.operators
    assert (instance.workload.name, instance.workload.samples) == ("two-layers", 8)
    assert first.splits == (Split(4, 0.5, 1.0, 1000), Split(1, 2.0, 4.0, 4000))
    assert (first.weight_elements, first.inputs, first.mixes_channels, first.locally_reduced) == (
        (4096, 64),
        (),
        True,
        True,
    )
    assert second.inputs == (OperatorInput(0, 0.5),)
    assert second.splits == (Split(2, 0.25, 0.5, 500, 2, 1),)
    assert (second.mixes_channels, second.locally_reduced, second.pinned_offset) == (False, False, None)


def test_a_model_becomes_its_operators(tmp_path: Path, model_yaml: str) -> None:
    """DLRM with 16 tables: 7 bottom layers, 16 tables, concat, 15 top layers and the output make 40 operators."""
    path = tmp_path / "a.yaml"
    path.write_text(model_yaml)
    instance = read_instance(path)
    assert len(instance.workload.operators) == 7 + 16 + 1 + 15 + 1
    assert instance.workload.samples == 16 * 4 * 256
    # 306 343 940 bytes of dense weights and 16 tables of 10^7 x 256 of four bytes.
    assert instance.workload.weight_bytes == 306_343_940 + 16 * 10**7 * 256 * 4
    assert instance.cluster.gpu_memory_bytes == 80 * 2**30
    assert "80 GiB" in instance.notes[0]
    assert instance.search.budget == 20000


@pytest.mark.parametrize(("text", "expected"), [("gpu_memory_gib: null", None), ("gpu_memory_gib: 96", 96 * 2**30)])
def test_stated_memory_wins_over_the_device(tmp_path: Path, model_yaml: str, text: str, expected: int | None) -> None:
    """null switches the memory check off, a number replaces the device's."""
    path = tmp_path / "a.yaml"
    path.write_text(model_yaml.replace("  degree: 4\n", f"  degree: 4\n  {text}\n"))
    instance = read_instance(path)
    assert instance.cluster.gpu_memory_bytes == expected
    assert instance.notes == ()


YAML_ISSUES: list[tuple[str, str, int, str, str]] = [
    # what is replaced, by what, line, path, words of the message
    ("schema_version: 1", "schema_version: 2", 1, "schema_version", "out of range"),
    ("schema_version: 1", "schema_version: true", 1, "schema_version", "wrong type"),
    ("kind: co-optimisation", "kind: co-optimization", 2, "kind", "did you mean co-optimisation"),
    ("kind: co-optimisation", "other: 1", 1, "kind", "missing"),
    ("name: dlrm-16", "name: ../../etc/passwd", 3, "name", "characters that are not allowed"),
    ("name: dlrm-16", "name: 7", 3, "name", "wrong type"),
    ("name: dlrm-16", "nam: dlrm-16", 3, "nam", "did you mean name"),
    ("  servers: 16", "  servers: 0", 5, "cluster.servers", "2 to 4096"),
    ("  servers: 16", "  servers: -16", 5, "cluster.servers", "2 to 4096"),
    ("  servers: 16", "  servers: 1000000000", 5, "cluster.servers", "2 to 4096"),
    ("  servers: 16", "  servers: 16.0", 5, "cluster.servers", "wrong type"),
    ("  servers: 16", "  servers: '16'", 5, "cluster.servers", "wrong type"),
    ("  servers: 16", "  servers: null", 5, "cluster.servers", "wrong type"),
    ("  servers: 16", "  servers: [16]", 5, "cluster.servers", "wrong type"),
    ("  servers: 16", "  servrs: 16", 5, "cluster.servrs", "did you mean servers"),
    ("  degree: 4", "  degree: 65", 7, "cluster.degree", "1 to 64"),
    ("  link_gbps: 100", "  link_gbps: .nan", 8, "cluster.link_gbps", "finite"),
    ("  link_gbps: 100", "  link_gbps: .inf", 8, "cluster.link_gbps", "finite"),
    ("  link_gbps: 100", "  link_gbps: -100", 8, "cluster.link_gbps", "out of range"),
    ("  link_gbps: 100", "  link_gbps: fast", 8, "cluster.link_gbps", "wrong type"),
    ("  degree: 4", "  degree: 4\n  links: both", 8, "cluster.links", "one of: bidirectional, unidirectional"),
    ("  degree: 4", "  degree: 4\n  gpu_memory_gib: 0", 8, "cluster.gpu_memory_gib", "more than 0"),
    ("  model: dlrm", "  model: dlmr", 10, "workload.model", "did you mean dlrm"),
    ("    tables: 16", "    tables: 0", 12, "workload.sizes.tables", "out of range"),
    ("    tables: 16", "    tables: 10000000", 12, "workload.sizes.tables", "out of range"),
    ("    tables: 16", "    tabels: 16", 12, "workload.sizes.tabels", "did you mean tables"),
    ("    tables: 16", "    tables: 1.5", 12, "workload.sizes.tables", "wrong type"),
    ("{device: a100}", "{device: a1000}", 14, "workload.operator_times.device", "did you mean a100"),
    ("{device: a100}", "{}", 14, "workload.operator_times", "either device or profile"),
    ("{device: a100}", "{device: a100, profile: x}", 14, "workload.operator_times", "either device or profile"),
    ("{device: a100}", "{profile: none.json}", 14, "workload.operator_times.profile", "no such file"),
    ("{device: a100}", "{profile: /dev/zero}", 14, "workload.operator_times.profile", "no such file"),
    ("  budget: 20000", "  budget: -1", 16, "search.budget", "out of range"),
    ("  budget: 20000", "  seed: 1.5", 16, "search.seed", "wrong type"),
    ("  budget: 20000", "  time_limit_s: 0", 16, "search.time_limit_s", "more than 0"),
    ("search:", "serach:", 15, "serach", "did you mean search"),
    ("search:\n  budget: 20000", "search: 5", 15, "search", "wrong type"),
]


@pytest.mark.parametrize(("old", "new", "line", "where", "words"), YAML_ISSUES)
def test_bad_values_are_refused_in_place(
    tmp_path: Path, model_yaml: str, old: str, new: str, line: int, where: str, words: str
) -> None:
    """A wrong value anywhere is refused with its line, its path and what is allowed."""
    assert old in model_yaml
    path = tmp_path / "a.yaml"
    path.write_text(model_yaml.replace(old, new))
    problems = [problem for problem in errors(path).problems if problem.path == where]
    assert [problem.line for problem in problems] == [line]
    assert words in str(problems[0])
    assert problems[0].allowed


def operators(document: dict[str, Any]) -> Any:
    """The operator list of a document."""
    return document["workload"]["operators"]


def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    """A change of the value at a path."""

    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for part in path[:-1]:
            target = target[part]
        target[path[-1]] = value

    return change


def huge_batch(document: dict[str, Any]) -> None:
    """2^40 samples of 64 elements of 64 bytes: more than 10^15 bytes in one tensor."""
    document["workload"]["samples"] = 2**40
    operators(document)[0]["element_bytes"] = 64


OPS = ("workload", "operators")
GRAPH_ISSUES: list[tuple[Callable[[dict[str, Any]], None], str, str]] = [
    (put(*OPS, 0, "splits", 0, "sample_ways", value=3), "workload.operators[0].splits[0]", "not divide the servers"),
    (put(*OPS, 1, "splits", 0, "reduce_ways", value=2), "workload.operators[1].splits[0]", "not divide the servers"),
    (put("workload", "samples", value=6), "workload.operators[0].splits[0].sample_ways", "not divide the samples"),
    (put(*OPS, 1, "output_elements", value=1), "workload.operators[1].splits[0].channel_ways", "more parts than"),
    (
        put(*OPS, 0, "splits", 1, "sample_ways", value=4),
        "workload.operators[0].splits[1]",
        "the same ways as splits[0]",
    ),
    (put(*OPS, 0, "splits", value=[]), "workload.operators[0].splits", "wrong length"),
    (put(*OPS, 0, "splits", 0, "forward_ms", value=-1), "workload.operators[0].splits[0].forward_ms", "out of range"),
    (put(*OPS, 0, "splits", 0, "forward_ms", value="1"), "workload.operators[0].splits[0].forward_ms", "wrong type"),
    (put(*OPS, 0, "splits", 0, "backward", value=1), "workload.operators[0].splits[0].backward", "backward_ms"),
    (put(*OPS, 0, "weight_elements", 1, value=-5), "workload.operators[0].weight_elements[1]", "out of range"),
    (put(*OPS, 1, "inputs", 0, "operator", value="frist"), "workload.operators[1].inputs[0].operator", "mean first"),
    (put(*OPS, 1, "inputs", 0, "fraction", value=0), "workload.operators[1].inputs[0].fraction", "more than 0"),
    (put(*OPS, 1, "name", value="first"), "workload.operators[1].name", "the name of operators[0] again"),
    (put(*OPS, 1, "name", value="a\nb"), "workload.operators[1].name", "characters that are not allowed"),
    (put(*OPS, 1, "pinned_offset", value=1), "workload.operators[1].pinned_offset", "too large for a split"),
    (put(*OPS, 0, "inputs", value=[{"operator": "second"}]), "workload.operators[0].inputs", "'first' -> 'second'"),
    (put(*OPS, 0, "inputs", value=[{"operator": "first"}]), "workload.operators[0].inputs", "'first' -> 'first'"),
    (put(*OPS, value=[]), "workload.operators", "wrong length"),
    (put("workload", "samples", value=0), "workload.samples", "out of range"),
    (put("cluster", "gpu_memory_gib", value=1e-7), "workload.operators[0]", "fit the memory of a server in any split"),
    (put("cluster", "gpu_memory_gib", value=6e-7), "workload", "fit the memory of the cluster"),
    (huge_batch, "workload.operators[0]", "the output tensor is too large"),
    (put(*OPS, 0, "weight_elements", value=[10**13] * 1000), "workload", "all weights together are too large"),
]


@pytest.mark.parametrize(("change", "where", "words"), GRAPH_ISSUES)
def test_bad_graphs_are_refused_in_place(
    tmp_path: Path, graph_instance: dict[str, Any], change: Callable[[dict[str, Any]], None], where: str, words: str
) -> None:
    """What no schema can say about an operator graph is checked too, and pointed at."""
    change(graph_instance)
    code = 3 if words.startswith("fit the memory") else 2
    refusal = errors(save(tmp_path / "a.json", graph_instance), code)
    problems = [problem for problem in refusal.problems if problem.path == where]
    assert len(refusal.problems) == 1 or code == 2
    assert any(words in str(problem) for problem in problems), problems


def test_memory_is_counted_to_the_byte(tmp_path: Path, graph_instance: dict[str, Any]) -> None:
    """The least both operators take together is 4 x 1000 and 4 x 500 bytes; one server of the four has a quarter."""
    for gpu_bytes, fits in ((750, True), (749, False)):
        graph_instance["cluster"]["gpu_memory_gib"] = gpu_bytes / 2**30
        path = save(tmp_path / "a.json", graph_instance)
        if fits:
            assert read_instance(path).cluster.server_memory_bytes == 1500
        else:
            assert "6000 bytes" in str(errors(path, 3))


@pytest.mark.parametrize("gpu_memory_gib", [0.1, 0.2, 1])
def test_a_language_model_without_memory_is_infeasible(tmp_path: Path, gpu_memory_gib: float) -> None:
    """Too little for many operators, for a few, or for all together: one line and exit code 3."""
    path = tmp_path / "gpt.yaml"
    text = (INSTANCES / "gpt-16.yaml").read_text()
    path.write_text(text.replace("gpu_memory_gib: 80", f"gpu_memory_gib: {gpu_memory_gib}"))
    for words in (("solve", path, "--budget", 1, "--output", tmp_path / "out"), ("describe", path)):
        result = run(*words)
        assert (result.code, len(result.stderr.splitlines())) == (3, 1)
        assert "does not fit the memory" in result.stderr
    assert run("validate", path).code == 3
    assert run("validate", path, "--json").json["ok"] is False
    assert run("solve", path, "--budget", 1, "--json").json["status"] == "infeasible"


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path, graph_instance: dict[str, Any]) -> None:
    """Faults of shape, range, division, reference and spelling in one file come in one refusal, in file order."""
    graph_instance["cluster"]["gpus_per_server"] = 0
    graph_instance["cluster"]["degre"] = 1
    operators(graph_instance)[0]["splits"][0]["sample_ways"] = 3
    operators(graph_instance)[0]["splits"][1]["forward_ms"] = "slow"
    operators(graph_instance)[1]["inputs"][0]["operator"] = "zeroth"
    graph_instance["search"]["seed"] = -1
    problems = errors(save(tmp_path / "a.json", graph_instance)).problems
    assert [problem.path for problem in problems] == [
        "cluster.gpus_per_server",
        "cluster.degre",
        "workload.operators[0].splits[1].forward_ms",
        "workload.operators[1].inputs[0].operator",
        "search.seed",
    ]
    lines = [problem.line or 0 for problem in problems]
    assert lines == sorted(lines)


def test_splits_of_sound_operators_are_checked_beside_broken_ones(
    tmp_path: Path, graph_instance: dict[str, Any]
) -> None:
    """An operator that breaks the schema does not hide the wrong split of another one."""
    operators(graph_instance)[0]["splits"][0]["sample_ways"] = 3
    operators(graph_instance)[1]["kind"] = 5
    paths = [problem.path for problem in errors(save(tmp_path / "a.json", graph_instance)).problems]
    assert paths == [
        "workload.operators[0].splits[0]",
        "workload.operators[0].splits[0].sample_ways",
        "workload.operators[1].kind",
    ]


@pytest.mark.parametrize("content", ["", "[]", "3", "text", "null", "- kind: co-optimisation"])
def test_what_is_no_mapping_is_no_instance(tmp_path: Path, content: str) -> None:
    """A list, a number, text or nothing is refused as a whole."""
    path = tmp_path / "a.yaml"
    path.write_text(content)
    (problem,) = errors(path).problems
    assert problem.line == 1


def test_too_much_work_is_refused_before_it_is_made(tmp_path: Path, graph_instance: dict[str, Any]) -> None:
    """Three hundred operators cut 1024 ways along their channels would exchange 1024 x 1024 pieces for every tensor."""
    graph_instance["cluster"]["servers"] = 1024
    split = {"sample_ways": 1, "channel_ways": 1024, "forward_ms": 1, "backward_ms": 1}
    graph_instance["workload"]["operators"] = [
        {
            "name": f"o{i}",
            "kind": "dense",
            "output_elements": 1024,
            "splits": [split],
            "inputs": [{"operator": f"o{i - 1}"}] if i else [],
        }
        for i in range(300)
    ]
    assert "too many transfers" in str(errors(save(tmp_path / "a.json", graph_instance)))


def test_thousands_of_issues_are_counted_not_printed(tmp_path: Path, graph_instance: dict[str, Any]) -> None:
    """A file with a thousand unknown keys gives two hundred problems and the number of the rest."""
    graph_instance["cluster"] |= {f"key{i}": i for i in range(1000)}
    path = save(tmp_path / "a.json", graph_instance)
    with pytest.raises(InputError) as caught:
        read_instance(path)
    assert len(caught.value.problems) == 201
    assert "800 further problems" in caught.value.problems[-1].message


def test_hostile_names_stay_on_one_line_of_the_message(tmp_path: Path, graph_instance: dict[str, Any]) -> None:
    """Escape sequences and line ends in keys and values do not reach the terminal."""
    graph_instance["a\x1b[2Jb\nc"] = "\x1b]0;title\x07\n"
    text = str(errors(save(tmp_path / "a.json", graph_instance)))
    assert "\x1b" not in text
    assert "\n" not in text


def test_operators_in_any_order_are_sorted(tmp_path: Path, graph_instance: dict[str, Any]) -> None:
    """A consumer may stand before its producer in the file; faults still point at the place in the file."""
    operators(graph_instance).reverse()
    path = save(tmp_path / "a.json", graph_instance)
    assert [operator.name for operator in read_instance(path).workload.operators] == ["first", "second"]
    graph_instance["cluster"]["gpu_memory_gib"] = 1e-7
    paths = [problem.path for problem in errors(save(path, graph_instance), 3).problems]
    assert "workload.operators[1]" in paths


def test_order_is_topological_and_otherwise_that_of_the_file() -> None:
    """Kahn's order with ties by position; of a graph with a cycle, the cycle is named."""
    assert topological_order([[], [0], [3], [1], [0]]) == ([0, 1, 3, 2, 4], [])
    order, cycle = topological_order([[], [0, 3], [1], [2], [3]])
    assert order == [0]
    assert sorted(cycle) == [1, 2, 3]
    producers = {1: 3, 2: 1, 3: 2}
    assert all(producers[after] == before for before, after in zip(cycle, cycle[1:] + cycle[:1], strict=True))


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_instances_come_back_equal(tmp_path: Path, graph_instance: dict[str, Any], model_yaml: str, name: str) -> None:
    """Written in full and read again, a graph and an expanded model are the same, to the last bit of each time."""
    source = tmp_path / "model.yaml"
    source.write_text(model_yaml)
    operators(graph_instance)[1]["pinned_offset"] = 0
    graph_instance["workload"]["name"] = "1e5: #\N{GREEK SMALL LETTER ALPHA} \N{ROCKET}"
    for instance in (read_instance(source), read_instance(save(tmp_path / "graph.json", graph_instance))):
        path = tmp_path / name
        write_instance(instance_document(instance), path)
        again = read_instance(path)
        assert again.workload == instance.workload
        assert again.cluster == instance.cluster
        assert (again.name, again.search, again.baselines) == (instance.name, instance.search, instance.baselines)


def test_what_cannot_be_read_is_not_written(tmp_path: Path, graph_instance: dict[str, Any]) -> None:
    """A wrong document is refused before the file is touched."""
    path = tmp_path / "a.yaml"
    path.write_text("old")
    graph_instance["name"] = "no such/name"
    with pytest.raises(InputError, match="characters that are not allowed"):
        write_instance(graph_instance, path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.yaml"]


def hash_of(path: Path, document: dict[str, Any]) -> str:
    """Hash of the instance in a file."""
    return read_instance(save(path, document)).sha256


def test_the_hash_is_of_the_content(tmp_path: Path, graph_instance: dict[str, Any]) -> None:
    """Order, format and written-out defaults do not change the hash; any value does."""
    first = hash_of(tmp_path / "a.json", graph_instance)
    assert len(first) == 64
    turned = dict(reversed(graph_instance.items()))
    turned["cluster"] = {**turned["cluster"], "links": "bidirectional", "link_gbps": 100.0}
    assert hash_of(tmp_path / "b.json", turned) == first
    write_instance(graph_instance, tmp_path / "c.yaml")
    assert read_instance(tmp_path / "c.yaml").sha256 == first
    changed = copy.deepcopy(graph_instance)
    operators(changed)[1]["splits"][0]["forward_ms"] = 0.26
    assert hash_of(tmp_path / "d.json", changed) != first


def test_the_canonical_hash_is_sha256_of_sorted_json() -> None:
    """`printf '{"a":[1.5,null],"b":"x"}' | sha256sum` gives this figure."""
    expected = "b5441fc84cb1455fabdd993034f6db0a74b20f0545979ebc837595dab18f6cb9"
    assert canonical_sha256({"b": "x", "a": [1.5, None]}) == expected
