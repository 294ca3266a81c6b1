"""The blocks of README and docs, and a folder in which they run as a reader would run them.

A block says its language. The line before it may say, in a comment, how it is tested:

    <!-- test: heavy -->        run behind the marker `heavy` only (over 20 s); else its commands are parsed
    <!-- test: exit 3 -->       the exit code of its last command, of a file that of `topoopt validate`
    <!-- test: own files -->    about files that only the reader has: its commands are parsed, and no more
    <!-- test: part of FILE --> a section of an instance: put into that file, which must still be valid
    <!-- test: picture -->      text that is no output
    <!-- test: beginning -->    how the output begins, its lines broken elsewhere
    <!-- test: line of FILE --> a line that stands in a file so
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.support.paths import INSTANCES, ROOT
from topoopt.cli.app import EVERYWHERE, app

PAGES = (*sorted(ROOT.glob("*.md")), INSTANCES / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

FENCE = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?$')
COMMENT = re.compile(r"^<!-- test: (.+) -->$")
SAID = re.compile(r"heavy|own files|picture|beginning|exit \d+|(?:part|line) of [\w./-]+")
OTHER_BLOCK = re.compile(r"^\s*(?:[-*>]\s+|\d+\. )*(?:```|~~~)|<pre")
"""Blocks that the tests would not see."""

INDENTED_COMMAND = re.compile(r"^ {4,}(topoopt|make|pip|python|import|solve) ")
EXTRA = re.compile(r"topoopt\[([\w,]+)\]")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        place: page and line, for messages.
        language: python, yaml, sh, text or another.
        title: of the block, which is the name of its file; empty without one.
        text: between the fences.
        comments: what the comment before it says of its test.
    """

    place: str
    language: str
    title: str
    text: str
    comments: tuple[str, ...]

    @property
    def heavy(self) -> bool:
        """Whether it runs behind the marker only."""
        return "heavy" in self.comments

    def said(self, what: str) -> str:
        """What follows some words in the comment, or an empty text."""
        return next((each.removeprefix(what).strip() for each in self.comments if each.startswith(what)), "")


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    name = page.relative_to(ROOT)
    found: list[Block] = []
    opened: re.Match[str] | None = None
    kept: list[str] = []
    comments: tuple[str, ...] = ()
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        place = f"{name}:{number}"
        if opened is None:
            assert not INDENTED_COMMAND.match(line), f"{place}: a command outside a block"
            assert line.startswith("```") or not OTHER_BLOCK.search(line), f"{place}: a block that begins elsewhere"
            if line.startswith("```"):
                opened = FENCE.match(line)
                assert opened is not None, f"{place}: a block says its language, and perhaps a title"
                start, kept = place, []
                continue
            remark = COMMENT.match(line)
            comments = tuple(remark[1].split(", ")) if remark else ()
            assert remark or "test:" not in line or not line.startswith("<!--"), f"{place}: no such comment"
            assert all(SAID.fullmatch(said) for said in comments), f"{place}: no such reason not to run a block"
        elif line == "```":
            found.append(
                Block(start, opened["language"], opened["title"] or "", "".join(f"{each}\n" for each in kept), comments)
            )
            opened, comments = None, ()
        else:
            kept.append(line)
    assert opened is None, f"{name}: a block has no end"
    return found


@dataclass
class Sandbox:
    """A folder with the shipped instances, in which the blocks of one page run one after the other.

    Attributes:
        folder: the working directory.
        heavy: whether heavy blocks run as well.
        names: of the Python of the page.
        output: of the last block of commands; None where it did not run.
    """

    folder: Path
    heavy: bool
    names: dict[str, Any] = field(default_factory=dict)
    output: str | None = ""

    def __post_init__(self) -> None:
        shutil.copytree(INSTANCES, self.folder / "instances")

    def run(self, block: Block) -> None:
        """Run, read or compare a block."""
        match block.language:
            case _ if block.said("line of "):
                text = " ".join((ROOT / block.said("line of ")).read_text().split())
                assert " ".join(block.text.split()) in text, f"{block.place}: no such line"
            case "python":
                if self.heavy or not block.heavy:
                    exec(compile(block.text, block.place, "exec"), self.names)
            case "yaml":
                self._document(block)
            case "csv":
                (self.folder / (block.title or "block.csv")).write_text(block.text)
            case "sh":
                self._commands(block)
            case "text" if "beginning" in block.comments:
                if self.output is not None:
                    wanted = " ".join(block.text.split())
                    assert " ".join(self.output.split()).startswith(wanted), (
                        f"{block.place}: it begins so: {self.output[:500]}"
                    )
            case "text":
                if "picture" not in block.comments:
                    self._compare(block)
            case _:
                raise AssertionError(f"{block.place}: nobody knows how to test {block.language}")

    def _document(self, block: Block) -> None:
        document = YAML(typ="safe").load(block.text)
        base = block.said("part of ")
        if base:
            whole = YAML(typ="safe").load((self.folder / base).read_text())
            path = (self.folder / base).with_name("part.yaml")
            _merge(whole, document)
            with path.open("w") as file:
                YAML(typ="safe").dump(whole, file)
        else:
            path = self.folder / (block.title or "block.yaml")
            path.write_text(block.text)
            assert "schema_version" in document, f"{block.place}: neither a whole file nor part of one"
            if document["kind"] not in ("study", "hosts", "price-book"):
                assert document["name"] == path.stem or not block.title, f"{block.place}: name and title differ"
        if document.get("kind") == "study":
            _topoopt(["study", "validate", str(path)], 0, block.place)
        elif document.get("kind") not in ("hosts", "price-book"):
            _topoopt(["validate", str(path)], int(block.said("exit ") or 0), block.place)

    def _commands(self, block: Block) -> None:
        lines = list(_lines(block.text))
        runs = (self.heavy or not block.heavy) and "own files" not in block.comments
        self.output = "" if runs else None
        for i, words in enumerate(lines):
            code = int(block.said("exit ") or 0) if i == len(lines) - 1 else 0
            place = f"{block.place}: {shlex.join(words)}"
            match words:
                case ["topoopt", *rest]:
                    parse_command(rest, place)
                    if runs:
                        expanded = [each for word in rest for each in self._files(word)]
                        self.output = f"{self.output}{_topoopt(expanded, code, place)}"
                case ["make", *rest]:
                    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
                    assert {word for word in rest if "=" not in word} <= set(targets), place
                    if runs and rest == ["run"]:
                        self.output = f"{self.output}{_topoopt(_recipe_of_run(), code, place)}"
                case ["python", "-m", module, *_]:
                    assert find_spec(module), place
                case ["pip", "install", what, *_]:
                    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
                    asked = EXTRA.search(what)
                    assert asked is None or set(asked[1].split(",")) <= set(extras), place
                case ["bash", script, *rest]:
                    if runs and script.startswith("tests/"):
                        assert (ROOT / script).exists(), place
                    elif runs:
                        told = subprocess.run(["bash", script, *rest], capture_output=True, text=True, check=False)
                        assert told.returncode == code, (place, told.stderr)
                        self.output = f"{self.output}{told.stdout}"
                case _:
                    raise AssertionError(f"{place}: nobody knows how to test this command")

    def _files(self, word: str) -> list[str]:
        """A pattern as a shell expands it."""
        found = sorted(str(path.relative_to(self.folder)) for path in self.folder.glob(word)) if "*" in word else []
        return found or [word]

    def _compare(self, block: Block) -> None:
        """Its lines stand in the output of the commands before it, in this order; `...` is anything."""
        if self.output is None:
            return
        told = iter([" ".join(line.split()) for line in self.output.splitlines()])
        for line in block.text.splitlines():
            wanted = " ".join(line.split())
            if wanted in ("", "..."):
                continue
            pattern = re.compile(".*".join(re.escape(part) for part in wanted.split("...")))
            assert any(pattern.fullmatch(each) for each in told), f"{block.place}: not said: {line}\n{self.output}"


def _merge(whole: dict[str, Any], part: dict[str, Any]) -> None:
    for key, value in part.items():
        if isinstance(value, dict) and isinstance(whole.get(key), dict):
            _merge(whole[key], value)
        else:
            whole[key] = value


def _recipe_of_run() -> list[str]:
    """Words behind `topoopt` of what `make run` runs."""
    makefile = (ROOT / "Makefile").read_text()
    shipped = re.search(r"^INSTANCE \?= (\S+)$", makefile, re.MULTILINE)
    recipe = re.search(r"^run: .*\n\t\$\(BIN\)/topoopt (.+)$", makefile, re.MULTILINE)
    assert shipped, "the Makefile has no instance"
    assert recipe, "the Makefile runs something else"
    return shlex.split(recipe[1].replace("$(INSTANCE)", shipped[1]).replace("$(NAME)", Path(shipped[1]).stem))


def _lines(text: str) -> Iterator[list[str]]:
    """Words of each command, comments left out, lines that go on joined."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def parse_command(words: list[str], place: str) -> None:
    """Every command and option exists, and every value may stand there; nothing is run."""
    command: Any = typer.main.get_command(app)
    context = None
    rest, name = [word for word in words if word not in EVERYWHERE], "topoopt"
    try:
        while True:
            context = command.make_context(name, rest, parent=context)
            if not hasattr(command, "resolve_command"):
                return
            rest = [*getattr(context, "_protected_args", []), *context.args]
            name, command, rest = command.resolve_command(context, rest)
    except Exception as error:
        raise AssertionError(f"{place}: {error}") from error


def _topoopt(words: list[str], code: int, place: str) -> str:
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, f"{place}: exit code {result.exit_code}\n{result.output}"
    return result.output
