"""Every page, of every kind and question, keeps to the same rules; a kind that is added is looked at unasked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.gallery import PAGES, TEMPLATES, page_of
from tests.support.page_rules import field_names, glossary_terms, issues_of
from tests.support.paths import ROOT
from topoopt.page.render import with_scroll_boxes

SHELL = '<!doctype html><html><body><main>{}</main><p class="answer">One.</p></body></html>'


@pytest.mark.parametrize("name", PAGES)
def test_a_page_keeps_the_rules(name: str, tmp_path: Path) -> None:
    """Words instead of names of fields, figures of six digits, one arrow, plurals, tables and marks in reach."""
    assert issues_of(page_of(name, tmp_path)) == {}


def test_every_template_is_looked_at() -> None:
    """A page that stands in no list would escape the rules."""
    root = ROOT / "topoopt"
    whole = [path for path in root.rglob("*.html.j2") if 'extends "page/base.html.j2"' in path.read_text()]
    questions = {str(path.relative_to(root)) for path in whole if path.parent.parent.name != "kinds"}
    assert questions == set(TEMPLATES)
    assert set(TEMPLATES.values()) <= set(PAGES)


@pytest.mark.parametrize(
    ("inside", "rule"),
    [
        ("<p>gap 8.8817841e-16</p>", "no figures of programs"),
        ("<p>0.12345678 ms</p>", "no figures of programs"),
        ("<p>iteration_time</p>", "no names of fields"),
        ("<p>1 links</p>", "plurals"),
        ("<p>0 -> 1</p>", "one arrow, one multiplication sign"),
        ("<p>4 x 100 Gbit/s</p>", "one arrow, one multiplication sign"),
        ("<p>a KPI of ours</p>", "every abbreviation explained"),
        ('<svg aria-label="links"><path><title>a link</title></path></svg>', "marks by keyboard"),
        ("<p>open", "well-formed"),
    ],
)
def test_each_rule_finds_its_issue(inside: str, rule: str) -> None:
    """A page with one fault breaks that rule."""
    assert rule in issues_of(SHELL.format(inside))


def test_wide_tables_get_a_box_and_a_hint_once() -> None:
    """A table in a box of the template keeps it; any other gets one."""
    plain, boxed = "<table><tr><td>1</td></tr></table>", '<div class="scroll"><table><tr><td>1</td></tr></table></div>'
    for inside in (plain, boxed, f"<div>{boxed}</div>{plain}"):
        page = with_scroll_boxes(SHELL.format(inside))
        assert issues_of(page) == {}
        assert page.count('class="scroll"') == inside.count("<table>")
    assert "tables say that they scroll" in issues_of(SHELL.format(plain))


def test_terms_are_not_linked_unasked() -> None:
    """Words of the glossary stay plain text; the glossary names each term once, in order."""
    assert with_scroll_boxes(SHELL.format("<p>theta</p>")) == SHELL.format("<p>theta</p>")
    names = re.findall(r"^\*\*(.+)\*\*$", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.M)
    assert names == sorted(glossary_terms(), key=str.lower)


def test_names_of_fields_are_known() -> None:
    """The list is of the data themselves: a rule over an empty list would find nothing."""
    assert {"iteration_time_ms", "link_gbps", "mean_hops", "vector_bytes"} <= field_names()
