"""Pages made from the code: nothing that the code has is missing, and algebra is read as it is meant."""

from __future__ import annotations

import re
import tomllib
from html import unescape
from pathlib import Path
from types import ModuleType

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from tests.support.paths import ROOT
from topoopt.cli.app import app
from topoopt.formats.table import READERS
from topoopt.kinds import KINDS, TEMPLATES

SECTIONS = (
    *("What it answers", "When to use it", "The problem", "The instance", "The result"),
    *("How good and how fast", "Limits"),
)


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules that mkdocs loads while it builds."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/hooks"))
    import algebra
    import build
    import commands
    import programs
    import sentences

    return {"algebra": algebra, "build": build, "commands": commands, "programs": programs, "sentences": sentences}


def test_every_kind_has_a_page() -> None:
    """One page says `kind: NAME` in its head, has the sections that all have, and stands in the navigation."""
    pages: dict[str, list[Path]] = {}
    for page in (ROOT / "docs").rglob("*.md"):
        found = re.match(r"---\nkind: (\S+)\n---\n", page.read_text())
        if found:
            pages.setdefault(found[1], []).append(page)
    assert {kind: len(found) for kind, found in pages.items()} == dict.fromkeys(KINDS, 1)
    navigation = (ROOT / "mkdocs.yml").read_text()
    for (page,) in pages.values():
        assert re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE) == list(SECTIONS), page
        assert f" {page.relative_to(ROOT / 'docs')}\n" in navigation


def test_one_list_of_kinds_everywhere() -> None:
    """All kinds in one order: table of the README, navigation, changelog, pages of fields, templates."""
    kinds = list(KINDS)
    navigation = (ROOT / "mkdocs.yml").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text().partition("- Kinds: ")[2].partition("\n- ")[0]
    assert re.findall(r"^\| \[`([\w-]+)`\]", (ROOT / "README.md").read_text(), re.MULTILINE) == kinds
    assert re.findall(r": kinds/([\w-]+)\.md$", navigation, re.MULTILINE) == kinds
    assert re.findall(r"`([\w-]+)`", changelog) == kinds
    assert list(TEMPLATES) == kinds


def test_the_citation_has_the_version_of_the_project() -> None:
    """Both are set at a release."""
    citation = YAML(typ="safe").load(ROOT / "CITATION.cff")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert citation["authors"] == [{"name": "The topoopt authors"}]


def test_every_command_and_option_is_told(hooks: dict[str, ModuleType]) -> None:
    """Groups are gone through; each option stands in the section of its command."""
    text = hooks["commands"].page()
    sections = dict(re.findall(r"^#+ `(topoopt [^`]+)`\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))
    command = get_command(app)
    context = command.make_context("topoopt", [], resilient_parsing=True)
    seen = 0
    for name in command.list_commands(context):
        _, each, _ = command.resolve_command(context, [name])
        if not hasattr(each, "list_commands"):
            told = sections[f"topoopt {name}"]
            for parameter in each.params:
                seen += 1
                words = parameter.opts if parameter.param_type_name == "option" else [str(parameter.name).upper()]
                assert all(f"`{word}`" in told for word in words), (name, words)
    assert seen > 80
    assert "| `--degree` | whole number from 1 to 64 |" in sections["topoopt cost"]
    assert "topoopt study run" in sections
    assert "topoopt collective audit" in sections


def test_the_page_of_readers_is_what_their_tables_say(hooks: dict[str, ModuleType]) -> None:
    """Every field of every reader, with what becomes of it, and what becomes of any other."""
    page = hooks["build"].on_page_markdown((ROOT / "docs/guide/readers.md").read_text())
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(READERS)
    for name, table in READERS.items():
        rows = re.findall(r"^\| (.+?) \| (used|noted|refused) \| (.*?) \|$", sections[name], re.MULTILINE)
        told = {field.strip("`"): (use, meaning) for field, use, meaning in rows}
        assert told == {"any other": ("refused", ""), **table}
    assert " guide/readers.md\n" in (ROOT / "mkdocs.yml").read_text()
    assert "(readers.md)" in (ROOT / "docs/guide/formats.md").read_text()


def test_every_formulation_has_a_page(hooks: dict[str, ModuleType]) -> None:
    """Every docstring, or section of one, that states variables; each constraint of the algebra is a row."""
    pages = hooks["programs"].pages()
    for module, name in (
        ("flow_routing", "concurrent_flow"),
        ("mixtures", "allreduce_mix"),
        ("stage_order", "stage_order"),
        ("shard_assignment", "shard_assignment"),
    ):
        page = pages[f"reference/formulations/{name}.md"]
        docstring = (ROOT / f"formulations/{module}.py").read_text().split('"""')[1]
        sections = re.split(r"^(\w+)\n-+\n", f"{module}\n---\n{docstring}", flags=re.MULTILINE)
        text = sections[sections.index(name) + 1]
        labels = re.findall(r"^ {4}(\(\d+\) \w+)", text, re.MULTILINE)
        assert labels
        assert all(f'<span class="label">{label}</span>' in page for label in labels)
        assert page.count("<math") >= len(labels)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("c[a] theta >= 0", r"c_{a} \; \theta \ge 0"),
        ("sum_{a into v} flow[s, a]", r"\sum_{a\; \text{ into } \, v} \; \mathrm{flow}_{s,\,a} "),
        ("sum_sa x[s, a]^2", r"\sum_{s, a} \, x_{s,\,a} ^{2}"),
        ("y[o, a] in {0, 1}", r"y_{o,\,a} \in \{0,\,1\}"),
        ("hop_price * W", r"\mathrm{hop\_price} \cdot W "),
        ("at[g(i), d]", r"\mathrm{at}_{g(i),\,d} "),
        ("dist_l(j) - x_ij c0", r"\mathrm{dist}_{l} (j) - x_{ij} \, c_{0} "),
        ("(L D - 1)^+", r"(L \, D - 1)^{+}"),
    ],
)
def test_algebra_is_typeset(text: str, latex: str, hooks: dict[str, ModuleType]) -> None:
    """Index, sums and signs as a reader of the docstring takes them."""
    assert hooks["algebra"].tex(text).replace(" ", "") == latex.replace(" ", "")
    assert hooks["algebra"].mathml(text).startswith("<math")


@pytest.mark.parametrize(
    "text",
    [
        "with «gain = demand» and no limits «level = 1 / theta»",
        "a problem of an arc «a», or «i»-th of all arcs «a»: a part of «p»'s traffic",
        "«2 J + G + W» columns; (2) has «G J» rows",
        "«n (n - 1) + m + |GROUPS|» rows (one hop), «(k - 1)!» orders",
        "«sum_p D[k, p] split[p, a] - c[a] theta <= 0» for every «k»",
        "«sum_i dist_l(s_i, next_r(s_i))» less the price of (3)",
        "max-min fair, «X = s»; at 1 GB/s, see `sum x[a]` and appendix G (J. ACM 1990)",
        "GROUPS «g» of «k_g» servers, the inputs («B»), «0 <= h[t, s] <= 1»: «(u, v) in ORDER»",
        "scheduling on 3 devices / servers and/or ranks - all of them - in 2024",
    ],
)
def test_algebra_inside_sentences_is_found(text: str, hooks: dict[str, ModuleType]) -> None:
    """Where it begins and ends: articles, units, remarks in brackets and hyphens are English."""
    bare = text.replace("«", "").replace("»", "")
    assert hooks["sentences"].set_algebra(bare, "«{}»".format, str) == text


TYPED = re.compile(
    r"(?<![\w'/.-])(?:[b-zB-HJ-Z](?!['\w]|\. [A-Z])|[A-Za-z]+_\w+|\w+\\?\[\S*|\S*(?:[<>]=|!=|=|<|>|\^)\S*"
    r"|theta|lambda)(?!\w)"
)
SET = re.compile(
    r'<math.*?</math>|\\\(.*?\\\)|`[^`]*`|<code>.*?</code>|<span class="label">.*?</span>|\]\(\w+\.md\)|<[^>]*>',
    re.DOTALL,
)


def _typed(page: str) -> list[str]:
    """What stands on a page as in the docstring though it is algebra: letters alone, indices, signs, underscores."""
    body = page.removeprefix("---\nhide: [toc]\n---\n").replace("appendix G", "")
    return TYPED.findall(unescape(SET.sub(" ", body)))


def test_no_page_of_a_formulation_has_algebra_as_it_is_typed(hooks: dict[str, ModuleType]) -> None:
    """In paragraphs, definitions, programs and summaries."""
    pages = hooks["programs"].pages()
    assert len(pages) > 25
    assert {name: found for name, page in pages.items() if (found := _typed(page))} == {}
    assert _typed("with flow[s, a] <= c for each s, walk_first") == ["flow[s,", "<=", "c", "s", "walk_first"]
