"""README and docs tell the truth: every block of code runs, in a folder of its page with the shipped instances."""

from __future__ import annotations

import itertools
import re
from datetime import date
from pathlib import Path

import pytest

from tests.support.pages import PAGES, Sandbox, blocks_of
from tests.support.paths import ROOT
from tests.support.picture import PICTURE, drawn

MOST_LINES_OF_README = 120
MAX_LINES_OF_TUTORIAL = 150
MOST_LINES = {"kinds": (60, 110), "questions": (1, 110), "results": (1, 150)}
"""Of the pages of a folder, least and most."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


WITH_BLOCKS = [pytest.param(page, id=_name(page)) for page in PAGES if blocks_of(page)]
WITH_HEAVY = [pytest.param(page, id=_name(page)) for page in PAGES if any(block.heavy for block in blocks_of(page))]


def _run(page: Path, folder: Path, heavy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    sandbox = Sandbox(folder, heavy)
    for block in blocks_of(page):
        sandbox.run(block)


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python in one namespace a page; files are valid; commands end with the code they should; output is as shown."""
    _run(page, tmp_path, False, monkeypatch)


@pytest.mark.heavy
@pytest.mark.parametrize("page", WITH_HEAVY)
def test_heavy_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole page, with the blocks that take minutes."""
    _run(page, tmp_path, True, monkeypatch)


@pytest.mark.parametrize("page", sorted((ROOT / "docs/tutorial").glob("*.md")), ids=_name)
def test_a_tutorial_is_done_in_ten_minutes(page: Path) -> None:
    """One story a page, which the reader follows from its head to its end."""
    assert len(page.read_text().splitlines()) <= MAX_LINES_OF_TUTORIAL


def test_the_readme_is_read_in_one_sitting() -> None:
    """What does not fit has a page."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= MOST_LINES_OF_README


def test_the_picture_of_the_readme_says_what_its_answer_says() -> None:
    """Time of the plan, what it gains over the fat-tree of its price, and how much faster the bound is."""
    texts = re.findall(r">([^<]+)</text>", PICTURE.read_text())
    ms = {name: float(time.split()[0]) for name, time in zip(texts[::2], texts[1::2], strict=True)}
    plan = ms["links by topoopt"]
    answer = " ".join((ROOT / "README.md").read_text().split())
    assert f"One iteration takes {plan} ms, {ms['fat-tree, same price'] / plan:.2f}× faster than" in answer
    assert f"can be more than {plan / ms['bound: no plan is faster']:.2f}× faster (proven)" in answer


@pytest.mark.heavy
def test_the_picture_of_the_readme_is_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make run` is done, and its solution drawn."""
    monkeypatch.chdir(tmp_path)
    Sandbox(tmp_path, heavy=True).run(blocks_of(ROOT / "README.md")[0])
    assert drawn(tmp_path / "out/candle-16/solution.json") == PICTURE.read_text()


@pytest.mark.parametrize("folder", MOST_LINES)
def test_pages_of_a_folder_have_their_length(folder: str) -> None:
    """What does not fit goes to another page."""
    least, most = MOST_LINES[folder]
    lengths = {page.name: len(page.read_text().splitlines()) for page in (ROOT / "docs" / folder).glob("*.md")}
    assert {name: length for name, length in lengths.items() if not least <= length <= most} == {}


def _tables_without(text: str) -> list[str]:
    """Heads of tables, what is missing above each, behind the table before: a command, a date."""
    told: list[str] = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        above = section.split("\n\n|")
        for before, table in itertools.pairwise(above):
            if not re.search(r"^```(?:sh\n(?:topoopt|make|python) |python\n)", before, re.MULTILINE):
                told.append(f"command: |{table.splitlines()[0]}")
            dated = re.search(r"\n\nFigures of (\d{4}-\d{2}-\d{2})[^\n]*:$", before)
            if not dated or date.fromisoformat(dated[1]).year < 2026:
                told.append(f"date: |{table.splitlines()[0]}")
    return told


def test_every_table_of_results_has_its_command_and_date() -> None:
    """Whoever doubts a figure sees how to make it again, and how old it is."""
    pages = {page.name: page.read_text() for page in sorted((ROOT / "docs/results").glob("*.md"))}
    assert len(pages) > 10
    for name, text in pages.items():
        assert len(re.findall(r"^\|---", text, re.MULTILINE)) == text.count("\n\nFigures of ") > 0, name
        assert _tables_without(text) == [], name
    bare = "## A\n\n```sh\ntopoopt doctor\n```\n\nFigures of 2026-11-21:\n\n| a |\n|---|\n| 1 |\n\n| b |\n|---|\n"
    assert _tables_without(bare) == ["command: | b |", "date: | b |"]


def test_a_block_that_is_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that do not exist, invalid files, output never printed, unknown languages, commands in plain text."""
    wrong = {
        "```sh\ntopoopt solve instances/tiny-4.yaml --nonsense 3 -o out\n```": "nonsense",
        "<!-- test: heavy -->\n```sh\ntopoopt sovle instances/tiny-4.yaml\n```": "sovle",
        "```sh\ntopoopt validate instances/absent.yaml\n```": "exit code 2",
        "<!-- test: part of instances/tiny-4.yaml -->\n```yaml\ncluster: {degree: none}\n```": "exit code 2",
        "```sh\ntopoopt validate instances/tiny-4.yaml\n```\n```text\nthat all is well\n```": "not said",
        "```sh\ntopoopt validate instances/tiny-4.yaml\n```\n<!-- test: beginning -->\n```text\nwell\n```": "begins so",
        "```sh\nmake nothing\n```": "make nothing",
        "```sh\npip install 'topoopt[nothing]'\n```": "nothing",
        "```rust\nfn main() {}\n```": "rust",
        "```\nplain\n```": "language",
        "    topoopt doctor\n": "outside a block",
        "1. ```sh\n   topoopt sovle\n   ```": "begins elsewhere",
        "~~~sh\ntopoopt sovle\n~~~": "begins elsewhere",
        "<!-- test: never -->\n```sh\ntopoopt sovle\n```": "no such reason",
        "<!-- test: heavy-->\n```sh\ntopoopt sovle\n```": "no such comment",
    }
    monkeypatch.setattr("tests.support.pages.ROOT", tmp_path)
    for file in ("Makefile", "pyproject.toml"):
        (tmp_path / file).write_text((ROOT / file).read_text())
    for i, (text, complaint) in enumerate(wrong.items()):
        page = tmp_path / f"{i}.md"
        page.write_text(text + "\n")
        (tmp_path / f"run-{i}").mkdir()
        with pytest.raises(AssertionError, match=complaint):
            _run(page, tmp_path / f"run-{i}", False, monkeypatch)
