"""What a newcomer meets first: completion, --quiet, help with examples, describe, examples, init."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import topoopt
from tests.support.cli_cases import run
from tests.support.pages import parse_command
from tests.support.paths import INSTANCES, ROOT
from topoopt.cli.app import COMMANDS, EVERYWHERE, MOVED, app
from topoopt.files.codec import sections_of
from topoopt.files.untrusted import copied, shipped_files
from topoopt.kinds import KINDS, TEMPLATES
from topoopt.kinds.files import json_schema


def _leaves(command: Any, context: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "resolve_command"):
        yield " ".join(path), command
        return
    for name in command.list_commands(context):
        _, below, _ = command.resolve_command(context, [name])
        inner = below.make_context(name, [], parent=context, resilient_parsing=True)
        yield from _leaves(below, inner, (*path, name))


@pytest.fixture(scope="module")
def leaves() -> dict[str, Any]:
    """Every command that does something, by its words."""
    command = typer.main.get_command(app)
    return dict(_leaves(command, command.make_context("topoopt", [], resilient_parsing=True)))


def test_every_command_has_examples_that_are_understood(leaves: dict[str, Any]) -> None:
    """No command without one, none for a command that is gone; options and values are as the command takes them."""
    assert set(COMMANDS) == set(leaves)
    for words, command in COMMANDS.items():
        for line in command.examples:
            first, *rest = shlex.split(line)
            assert first == "topoopt"
            assert rest[: len(words.split())] == words.split()
            parse_command(rest, line)


def test_commands_are_few() -> None:
    """At most 20 names at the top, and 160 options of all commands together, those that all have included."""
    assert len({words.split()[0] for words in COMMANDS}) <= 20


def test_options_are_few(leaves: dict[str, Any]) -> None:
    """Counted over all commands, with --json of each; --help is not an option of ours."""
    assert sum(param.param_type_name == "option" for leaf in leaves.values() for param in leaf.params) <= 160


def test_an_option_is_the_same_everywhere(leaves: dict[str, Any]) -> None:
    """The same name has the same type, the same limits and the same text; none takes something back."""
    seen: dict[str, tuple[str, set[object]]] = {}
    for words, leaf in leaves.items():
        for param in (param for param in leaf.params if param.param_type_name == "option"):
            assert not param.secondary_opts, words
            for name in param.opts:
                assert not name.startswith("--no-"), words
                described = (str(param.type_descriptor.annotation), param.min, param.max, param.help, param.multiple)
                first, values = seen.setdefault(name, (words, set()))
                values.add(described)
                assert len(values) == 1, (name, words, first)


def test_help_shows_five_groups() -> None:
    """Start, Solve, Ask, Exchange, Batch, then those of collectives and language models."""
    shown = run("--help").stdout
    headings = ["Start", "Solve", "Ask", "Exchange", "Batch", "Collectives", "Language models"]
    places = [shown.index(f"─ {heading} ─") for heading in headings]
    assert places == sorted(places)


@pytest.mark.parametrize("words", MOVED)
def test_an_old_name_says_the_new_one(words: str) -> None:
    """Exit code 2, one line, and the name that stands in its place is one of a command."""
    told = run(*words.split(), "x", "--help")
    assert told.code == 2
    assert told.stdout == ""
    assert told.stderr.strip() == f"error `topoopt {words}` is `topoopt {MOVED[words]}` now"
    new = MOVED[words].split(",")[0].split()
    assert new[0] in COMMANDS or " ".join(new[:2]) in COMMANDS
    assert run(*words.split(), "--json").json["exit_code"] == 2


def test_help_shows_the_examples_within_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is cut or runs over."""
    monkeypatch.setenv("COLUMNS", "80")
    told = run("solve", "--help")
    assert "Examples" in told.stdout
    assert COMMANDS["solve"].examples[1] in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80


def test_every_command_takes_json(leaves: dict[str, Any]) -> None:
    """Options of `topoopt` itself are no option of a command, and may stand behind one."""
    for words, command in leaves.items():
        options = {name for param in command.params for name in param.opts}
        assert "--json" in options, words
        assert not options & set(EVERYWHERE), words


def test_quiet_leaves_errors_and_the_object(tmp_path: Path) -> None:
    """Nothing on either stream where all is well; errors stay; a later command is not quiet for it."""
    solve = ("solve", INSTANCES / "networks/uniform-5-2.yaml", "--output", tmp_path / "out")
    silent = run(*solve, "--quiet")
    assert (silent.code, silent.stdout, silent.stderr) == (0, "", "")
    assert run(*solve, "-q", "--json", "--force").json["status"] == "optimal"
    refused = run("validate", tmp_path / "absent.yaml", "--quiet")
    assert refused.code == 2
    wrong = run("report", tmp_path / "absent.json", "--quiet")
    assert wrong.code == 2
    assert "absent.json" in wrong.stderr
    assert run(*solve).code == 2
    assert run(*solve, "--force").stdout


def _completed(line: str, shell: str = "bash") -> list[str]:
    words = line.split(" ")
    environment = {
        "_TOPOOPT_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    told = CliRunner().invoke(app, [], env=environment, prog_name="topoopt")
    assert told.stderr == ""
    return told.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("topoopt resi", ["resilience"]),
        ("topoopt solve --bud", ["--budget"]),
        ("topoopt study re", ["report"]),
        ("topoopt describe hier", ["hierarchical-bandwidth"]),
        ("topoopt init tiny", ["tiny-4", "tiny-6", "tiny-8"]),
        ("topoopt export s.json --to patch", ["patch-list"]),
    ],
)
def test_completion_of_commands_options_and_values(line: str, expected: list[str]) -> None:
    """What the shell asks the program for after a press of Tab."""
    assert _completed(line) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shell gets a script that calls the program back."""
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    told = run("--show-completion", shell)
    assert told.code == 0
    assert f"complete_{shell}" in told.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_init_writes_a_valid_instance_with_comments(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named after its file; a second one does not replace the first unless told to."""
    monkeypatch.chdir(tmp_path)
    assert run("init", kind).code == 0
    file = Path(f"{kind}.yaml")
    assert topoopt.read_instance(file).name == kind
    assert file.read_text().count("# ") >= 4
    assert run("validate", file).code == 0
    file.write_text("mine")
    assert run("init", kind).code == 2
    assert file.read_text() == "mine"
    assert run("init", kind, "--force").code == 0
    assert run("init", kind, "-o", "my own.yaml").code == 0
    assert topoopt.read_instance("my own.yaml").name == "my-own"


def test_init_knows_every_kind() -> None:
    """None is left out."""
    assert set(TEMPLATES) == set(KINDS)
    refused = run("init", "topologie", "--json")
    assert refused.code == 2
    assert "topology" in refused.json["problems"][0]["allowed"]


def test_examples_are_those_of_the_folder() -> None:
    """All are listed, each with its kind; one is printed as it is."""
    listed = run("init", "--list", "--json").json["examples"]
    files = [path for path in INSTANCES.rglob("*") if path.suffix in (".yaml", ".json")]
    assert len(listed) == len(files)
    assert {one["kind"] for one in listed} <= {*KINDS, "study"}
    unknown = run("init", "tiny-66", "--json")
    assert unknown.code == 2
    assert "tiny-6" in unknown.json["problems"][0]["allowed"]
    several = run("init", "torus-3x3x3", "--json")
    assert several.json["problems"][0]["allowed"] == "collectives/torus-3x3x3, networks/torus-3x3x3"


@pytest.mark.parametrize("name", ["shared/trace-16", "mix-432", "studies/shared-load-432"])
def test_an_example_comes_with_the_files_that_it_names(name: str, tmp_path: Path) -> None:
    """Into one folder, from which it can be read; nothing is written where one of them is there."""
    file = tmp_path / "mine" / "example.yaml"
    made = run("init", name, "-o", file, "--json").json["files"]
    assert len(made) > 1
    check = ("study", "validate") if name.startswith("studies/") else ("validate",)
    assert run(*check, file).code == 0
    file.unlink()
    refused = run("init", name, "-o", file, "--json")
    assert refused.code == 2
    assert len(refused.json["problems"]) == len(made) - 1
    assert not file.exists()
    assert run("init", name, "-o", file, "--force").code == 0


def test_copies_of_all_examples_can_be_read(tmp_path: Path) -> None:
    """Whatever an example names comes with it: pattern or path, from any folder."""
    for one in shipped_files():
        folder = tmp_path / one.name
        folder.mkdir(parents=True)
        for name, data in copied(one).items():
            (folder / name).write_bytes(data)
        check = ("study", "validate") if one.kind == "study" else ("validate",)
        assert run(*check, folder / one.path.name).code == 0, one.name


def test_describe_names_every_field_of_every_kind() -> None:
    """With a value each; a path leads to one field and to what may stand there."""
    for kind in KINDS:
        sections = sections_of(json_schema(kind))
        told = run("describe", kind, "--verbose").stdout
        assert all(f"{field.name}: " in told for section in sections for field in section.fields), kind
        assert all(field.value for section in sections for field in section.fields), kind


def test_describe_begins_with_the_file() -> None:
    """Each line is headed by the path that leads to its fields."""
    told = run("describe", "routing").stdout.splitlines()
    assert told[0].startswith("file: ")
    assert any(line.startswith("demand: family*") for line in told)


def test_describe_one_field() -> None:
    """The range stands in the schema: 1 to 64 interfaces; a section is described with its fields."""
    told = run("describe", "co-optimisation", "cluster.degree").stdout
    assert "degree: integer from 1 to 64; required" in told
    assert "link_gbps" not in told
    assert "link_gbps" in run("describe", "co-optimisation", "cluster").stdout
    section = run("describe", "co-optimisation", "baselines", "--verbose").stdout
    assert "hashed, spread, sprayed" in section  # of a section in a list
    wrong = run("describe", "co-optimisation", "cluster.degrees", "--json")
    assert wrong.code == 2
    assert "degree" in wrong.json["problems"][0]["allowed"]


def test_solve_has_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """out/NAME of the file; report and export go beside the solution; nothing is replaced unless that is said."""
    monkeypatch.chdir(tmp_path)
    assert run("init", "uniform-5-2", "-o", "mine.yaml").code == 0
    assert run("solve", "mine.yaml").code == 0
    solution = Path("out/mine/solution.json")
    page = solution.with_name("report.html")
    page.unlink()
    assert run("report", solution).code == 0
    assert page.exists()
    made = Path(run("export", solution, "--to", "graphml", "--json").json["out"])
    assert made.parent == solution.parent
    made.write_text("mine")
    refused = run("export", solution, "--to", "graphml")
    assert refused.code == 2
    assert "--force" in refused.stderr
    assert made.read_text() == "mine"
    assert run("export", solution, "--to", "graphml", "--force").code == 0
    assert made.read_text() != "mine"


def test_a_folder_of_an_export_is_replaced_only_by_force(tmp_path: Path) -> None:
    """And only if it holds files of the same sorts: what somebody else put there stays."""
    assert run("solve", INSTANCES / "tiny-4.yaml", "--budget", 20, "--output", tmp_path).code == 0
    out = tmp_path / "patches"
    export = ("export", tmp_path / "solution.json", "--to", "patch-list", "--output", out)
    assert run(*export).code == 0
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    first = next(iter(files))
    (out / first).write_text("mine")
    assert run(*export).code == 2
    assert (out / first).read_text() == "mine"
    (out / f"left{Path(first).suffix}").write_text("of a larger plan")
    assert run(*export, "--force").code == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == files
    (out / "diary.odt").write_text("mine")
    assert run(*export, "--force").code == 2
    assert (out / "diary.odt").exists()
    assert [path.name for path in tmp_path.iterdir() if "tmp" in path.name] == []


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_what_needs_no_arrays_starts_without_numpy(words: list[str]) -> None:
    """Loading numpy takes as long as all the rest."""
    command = [sys.executable, "-X", "importtime", "-m", "topoopt.cli.main", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "topoopt.cli.app" in loaded
    assert not loaded & {"numpy", "pydantic", "scipy"}
