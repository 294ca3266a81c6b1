"""Study files: what they expand to, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run
from tests.support.study_cases import routing, study
from topoopt.core.errors import InputError
from topoopt.files import codec
from topoopt.studies.expand import outlook, progression_values, read_study, varied
from topoopt.studies.schema import Progression

Written = Callable[..., Path]


def test_everything_is_multiplied_out(written: Written) -> None:
    """Cases x methods x seeds x repetitions, in the order of the file."""
    group = {
        "instance": routing(),
        "vary": {"topology.servers": [4, 6], "demand.seed": {"from": 0, "to": 2, "step": 1}},
        "methods": ["simplex", "ipx"],
        "seeds": {"count": 2, "first": 5},
    }
    found = read_study(written(study(group, repetitions=2)))
    assert len(found.runs) == 2 * 3 * 2 * 2 * 2
    assert len({run.identity for run in found.runs}) == 48
    first, last = found.runs[0], found.runs[-1]
    assert list(first.factors.items()) == [("topology.servers", 4), ("demand.seed", 0)]
    assert list(last.factors.items()) == [("topology.servers", 6), ("demand.seed", 2)]
    assert (first.method, first.seed, first.repetition) == ("simplex", 5, 0)
    assert (last.method, last.seed, last.repetition) == ("ipx", 6, 1)
    assert json.loads(last.document or "")["topology"] == {"family": "ring", "servers": 6}
    assert last.arguments == ("--method", "ipx", "--seed", "6")


def test_values_that_change_together(written: Written) -> None:
    """`together` zips, `vary` multiplies, and both can be lists."""
    together = [{"topology.servers": n, "name": f"ring-{n}"} for n in (3, 5)]
    runs = read_study(
        written(study({"instance": routing(), "together": together, "vary": {"demand.scale": [1, 2]}}))
    ).runs
    assert [dict(run.factors) for run in runs] == [
        {"topology.servers": n, "name": f"ring-{n}", "demand.scale": s} for n in (3, 5) for s in (1, 2)
    ]


def test_identity_is_the_content(tmp_path: Path, written: Written) -> None:
    """The same instance in another file is the same run; another figure, limit, seed or referred file is another."""
    matrix = tmp_path / "d.csv"
    matrix.write_text("0,1\n1,0\n")
    base = routing(topology={"links": [[0, 1], [1, 0]]}, demand={"file": "d.csv"})
    (tmp_path / "a.json").write_text(json.dumps(base))
    (tmp_path / "b.yaml").write_text(json.dumps(base, indent=3))

    def identity(group: dict[str, Any], **changes: Any) -> str:
        return read_study(written(study(group, **changes))).runs[0].identity

    first = identity({"file": "a.json"})
    assert identity({"file": "b.yaml"}) == first
    assert identity({"instance": base}) == first
    others = {
        identity({"file": "a.json"}, seeds=[1]),
        identity({"file": "a.json"}, methods=["ipx"]),
        identity({"file": "a.json"}, limits={"wall_s": 61, "memory_mib": 1500}),
        identity({"file": "a.json", "vary": {"name": ["other"]}}),
    }
    matrix.write_text("0,2\n1,0\n")
    others.add(identity({"file": "a.json"}))
    assert len(others) == 5
    assert first not in others


def test_patterns_and_labels(tmp_path: Path, written: Written) -> None:
    """A pattern takes all files that fit, sorted; a file that cannot be parsed is a run that will be refused."""
    (tmp_path / "sub").mkdir()
    for name in ("b", "a"):
        (tmp_path / "sub" / f"{name}.json").write_text(json.dumps(routing(name)))
    (tmp_path / "sub" / "c.json").write_text("{ not json")
    found = read_study(written(study({"file": "sub/*.json"}, {"file": "**/a.json", "label": "again"})))
    assert [run.instance for run in found.runs] == ["a", "b", "c", "again"]
    assert found.runs[2].document is None
    assert found.runs[0].identity == found.runs[3].identity
    seen = outlook(found)
    assert (seen["runs"], seen["repeated"]) == (3, 1)
    assert [problem.file for problem in seen["problems"]] == [str(tmp_path / "sub" / "c.json")]


def test_commands_without_instance(written: Written) -> None:
    """Options of a command become its arguments."""
    group = {
        "command": "describe topology",
        "options": {"family": "totient", "degree": 4},
        "vary": {"servers": [8, 16]},
    }
    runs = read_study(written(study(group))).runs
    assert [run.arguments for run in runs] == [
        ("--degree", "4", "--servers", "8"),
        ("--degree", "4", "--servers", "16"),
    ]
    assert runs[0].command == ("describe", "topology", "totient")


def test_files_among_the_options(tmp_path: Path, written: Written) -> None:
    """A price book is relative to the study file, its content is part of what a run is; a missing one is said."""
    group = {"command": "cost", "options": {"servers": 8, "degree": 4, "link-gbps": 100, "prices": "book.yaml"}}
    with pytest.raises(InputError, match="no such file for option prices"):
        read_study(written(study(group)))
    identities = []
    for text in ("one", "two"):
        (tmp_path / "book.yaml").write_text(text)
        run = read_study(written(study(group))).runs[0]
        assert run.arguments[-2:] == ("--prices", str(tmp_path / "book.yaml"))
        assert ("prices", "book.yaml") in run.factors.items()
        identities.append(run.identity)
    assert identities[0] != identities[1]


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ({"from": 1, "to": 4, "step": 1}, [1, 2, 3, 4]),
        ({"from": 8, "to": 64, "factor": 2}, [8, 16, 32, 64]),
        ({"from": 0.1, "to": 0.31, "step": 0.1}, [0.1, 0.2, 0.1 + 2 * 0.1]),
        ({"from": 5, "to": 5, "step": 3}, [5]),
    ],
)
def test_sequences(rule: dict[str, float], values: list[float]) -> None:
    """Both ends count, whole numbers stay whole."""
    found = progression_values(codec.read(Progression, rule)[0])
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


def test_setting_a_field() -> None:
    """Paths lead through mappings and lists; missing mappings are made; the original stays as it was."""
    document = {"a": {"b": [1, {"c": 2}]}}
    assert varied(document, (("a.b[1].c", 3), ("x.y", 4))) == {"a": {"b": [1, {"c": 3}]}, "x": {"y": 4}}
    assert document == {"a": {"b": [1, {"c": 2}]}}
    for path in ("a.b[7]", "a.b.c", "a.b[0].c"):
        with pytest.raises(KeyError):
            varied(document, ((path, 1),))


def test_everything_wrong_at_once(written: Written) -> None:
    """Every problem of a study file has its path, and all are said in one go."""
    document = study(
        {"file": "nowhere.yaml"},
        {"file": "no*thing.yaml"},
        {"instance": routing(), "file": "x"},
        {"instance": routing(), "vary": {"topology.servers.x": [1]}},
        {"instance": routing(), "vary": {"a": {"from": 3, "to": 1, "step": 1}, "b": {"from": 1, "to": 2}}},
        {"instance": routing(), "vary": {"a": [1]}, "together": [{"a": 2}]},
        {},
    )
    with pytest.raises(InputError) as caught:
        read_study(written(document))
    paths = {problem.path for problem in caught.value.problems}
    expected = {"instances[0].file", "instances[1].file", "instances[2]", "instances[4].vary.a", "instances[4].vary.b"}
    assert expected | {"instances[5].together[0].a", "instances[6]"} <= paths
    assert all(problem.line is not None for problem in caught.value.problems)

    wrong = study({"file": "x", "colour": 1}, seeds=[-1], repetitions=0, figures=[{"kind": "pie"}], methods=[])
    with pytest.raises(InputError) as caught:
        read_study(written({**wrong, "limits": {"wall_s": 0, "memory_mib": 1}}))
    paths = {problem.path for problem in caught.value.problems}
    assert {
        "instances[0].colour",
        "repetitions",
        "figures[0].kind",
        "methods",
        "limits.wall_s",
        "limits.memory_mib",
    } <= paths


def test_outlook_names_bad_instances_and_methods(written: Written) -> None:
    """What will be refused is known before anything runs, with what was varied."""
    group = {"instance": routing(), "vary": {"topology.servers": [4, -1]}, "methods": ["auto", "magic"]}
    seen = outlook(read_study(written(study(group))))
    assert seen["runs"] == 4
    assert seen["longest_s"] == 4 * 60
    texts = [str(problem) for problem in seen["problems"]]
    assert any("topology.servers = -1" in text for text in texts)
    assert any("magic" in text and "simplex" in text for text in texts)


def test_shapes_of_seeds_are_told_apart(written: Written) -> None:
    """A count of seeds that is out of range is said at its own path, in words of the file."""
    with pytest.raises(InputError) as caught:
        read_study(written(study({"instance": routing()}, seeds={"count": 0})))
    found = {problem.path: problem.allowed for problem in caught.value.problems}
    assert found["seeds.count"] == "a whole number 1 to 10000"
    assert not any("constrained" in str(path) for path in found)


def test_everything_wrong_is_told_at_once(tmp_path: Path, written: Written) -> None:
    """The shape of the study, files that are not there, instances, methods, limits and options of commands, each with
    its place in the file, although other sections are broken."""
    (tmp_path / "there.json").write_text(json.dumps(routing()))
    document = study(
        {"file": "absent.json"},
        {"command": "dance"},
        {"file": "there.json", "methods": ["magic"]},
        {"file": "there.json", "limits": {"time_limit_s": -1}},
        {"file": "there.json", "limits": {"budget": 5}},
        {"file": "there.json", "vary": {"topology.servers": [4, -4]}},
        {"file": "also-absent.json"},
        {"command": "cost", "options": {"nonsense": 3}},
        {"command": "describe topology", "options": {"family": "ring", "servers": "many"}},
        seeds=-3,
        figures=[{"kind": "rings"}],
    )
    told = run("study", "validate", written(document), "--json")
    assert told.code == 2
    paths = [problem["path"] for problem in told.json["problems"]]
    expected = [
        "seeds",
        "figures[0].kind",
        "instances[0].file",
        "instances[1].command",
        "instances[3].limits.time_limit_s",
        "instances[6].file",
        "search.method",
        "--budget",
        "topology.servers",
        "instances: cost",
        "instances: describe-topology",
    ]
    assert sorted(paths) == sorted(expected)
