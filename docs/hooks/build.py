"""What mkdocs calls while it builds the pages: those that are made from the code, and what pages take from it.

Pages may say, each in a line of its own:

    <!-- generated: methods FILE -->    the methods that solve this instance
    <!-- generated: example FILE -->    its report, solved while the pages are built
    <!-- generated: file FILE -->       a file of the repository as it is
    <!-- generated: formats -->         what can be imported and exported
    <!-- generated: readers -->         what becomes of each field of the files of other tools
    <!-- generated: arguments -->       the arguments behind bounds
    <!-- generated: head -->            the fields of the solution files of all kinds
    <!-- generated: constraints KIND -->  what the checker of a kind demands of a plan
    <!-- generated: decisions KIND -->  the fields of its solution files that no other kind has
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import checks
import commands
import fields
import programs
import prose
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import topoopt
from topoopt.files.reader_fields import ANY_OTHER
from topoopt.formats.table import EXPORTERS, IMPORTERS, READERS
from topoopt.kinds import kind_of

ROOT = Path(__file__).parents[2]

ORDER = re.compile(r"^<!-- generated: (\w+) ?(.*) -->$", re.MULTILINE)
REMARK = re.compile(r"^<!-- test: .* -->\n", re.MULTILINE)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def _methods(file: str) -> str:
    problem = topoopt.read_instance(ROOT / file)
    found = kind_of(problem).methods(problem).values()
    return table(["method", "what it does"], [[f"`{method.name}`", method.summary] for method in found])


def _example_name(file: str) -> str:
    return f"examples/{Path(file).stem}.html"


def _example(file: str) -> str:
    source = f"../{_example_name(file)}"
    return (
        f"The report of `{file}`, as solved when these pages were built ([alone]({source})):\n\n"
        f'<iframe class="example" loading="lazy" title="report of {file}" src="{source}"></iframe>\n'
    )


def _file(file: str) -> str:
    shown = file.split("topoopt/", 1)[-1]
    return f'```python title="topoopt/{shown}"\n{(ROOT / file).read_text()}```\n'


def _formats(_: str) -> str:
    read = [
        [f"`topoopt import {name}`", " ".join((each.__doc__ or "").split("\n\n")[0].split())]
        for name, each in IMPORTERS.items()
    ]
    written = [
        [f"`--to {name}`", each.makes, ", ".join(f"`{kind}`" for kind in each.kinds)]
        for name, each in EXPORTERS.items()
    ]
    limits = "".join(
        f"\n**`{name}`**\n\n" + "".join(f"- {limit}\n" for limit in each.limits) for name, each in EXPORTERS.items()
    )
    return (
        table(["import", "reads"], read)
        + "\n"
        + table(["`topoopt export SOLUTION`", "writes", "of kinds"], written)
        + f"\n### What the targets cannot say\n{limits}"
    )


def _readers(_: str) -> str:
    parts = []
    for name, known in READERS.items():
        rows = [[f"`{field}`" if field != ANY_OTHER else field, *row] for field, row in known.items()]
        if ANY_OTHER not in known:
            rows.append([ANY_OTHER, "refused", ""])
        parts.append(f"## {name}\n\n" + table(["field", "use", "what it means, or why it is not used"], rows))
    return "\n".join(parts)


ORDERS: dict[str, Callable[[str], str]] = {
    "methods": _methods,
    "example": _example,
    "file": _file,
    "formats": _formats,
    "readers": _readers,
    "arguments": checks.arguments,
    "head": checks.head_fields,
    "constraints": checks.constraints,
    "decisions": checks.fields,
}


def _library() -> str:
    names = [name for name in topoopt.__all__ if not name.startswith("_") and name != "topologies"]
    calls = "\n\n".join(f"::: topoopt.{name}" for name in names)
    return f"# Library\n\nEverything that `import topoopt` offers. [How to use it](../guide/library.md).\n\n{calls}\n"


AT_THE_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "instances/README.md": "instances.md",
}
"""Pages outside of `docs`, by their files."""


def _from_the_root(file: str) -> str:
    text = (ROOT / file).read_text().replace("](docs/", "](").replace("# Instances\n", "# Shipped instances\n", 1)
    return re.sub(r"\]\(([A-Z]+\.md|instances/README\.md)", lambda link: f"]({AT_THE_ROOT[link[1]]}", text)


def on_pre_build(**_: Any) -> None:
    """Refuse pages that are not plain English."""
    if issues := prose.issues():
        raise PluginError("\n".join(("pages are not in order:", *issues)))


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the code, and the reports of the examples."""
    pages = {
        **{page: _from_the_root(file) for file, page in AT_THE_ROOT.items()},
        "reference/commands.md": commands.page(),
        "reference/library.md": _library(),
        **fields.pages(table),
        **programs.pages(),
    }
    for page in [file for file in files if file.src_uri.endswith(".md")]:
        for order, file in ORDER.findall(Path(page.abs_src_path).read_text()):
            if order == "example":
                problem = topoopt.read_instance(ROOT / file)
                pages[_example_name(file)] = topoopt.report(topoopt.solve(problem))
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Do what the page orders; leave out what is for the tests; terms of the glossary get anchors."""
    if markdown.startswith("# Glossary\n"):
        markdown = prose.TERM.sub(lambda term: f"**{term[1]}**{{ #{prose.slug(term[1])} }}", markdown)
    return ORDER.sub(lambda order: ORDERS[order[1]](order[2]) + "\n", REMARK.sub("", markdown))


def _typeset(formula: re.Match[str]) -> str:
    text = unescape(formula[2]).replace("{aligned}", "{align*}")
    return convert(text, display="inline" if formula[1] == "span" else "block")


def on_page_content(html: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw without a script."""
    return FORMULA.sub(_typeset, html)
