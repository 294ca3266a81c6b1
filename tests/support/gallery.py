"""A page of every sort the tool makes: the report of each kind, and of each further question."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from tests.support.smallest import SMALLEST, solution_of
from tests.support.study_cases import routing, study
from topoopt.kinds import kind_of
from topoopt.studies.expand import read_study
from topoopt.studies.report import study_report
from topoopt.studies.runner import run_study

QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "compare": ("compare", "{instances}/networks/k4-4.yaml", "--methods", "auto,ipx", "--output", "{page}"),
    "cost": ("cost", "{instances}/tiny-6.yaml", "--output", "{page}"),
    "fabrics": (
        "compare", "{instances}/tiny-4.yaml", "--fabrics", "ideal-switch,fat-tree", "--budget", "2", "-o", "{page}",
    ),
    "resilience": ("resilience", "{topology}", "--set", "rewire=1", "--output", "{page}"),
    "reconfigure": (
        "reconfigure", "{job}", "--delays", "1us,10ms", "--output", "{page}",
    ),
    "outages": ("resilience", "{training}", "--days", "349", "--set", "spares=0,1", "--output", "{page}"),
    "traffic": ("report", "{instances}/tiny-6.yaml", "--output", "{page}"),
    "collective find": ("collective", "find", "--servers", "8", "--degree", "2", "--output", "{page}"),
}  # fmt: skip
"""Commands that write a page; `{job}`, `{topology}` and `{training}` are solution files."""

TEMPLATES: Mapping[str, str] = {
    "analyses/collective/page.html.j2": "collective find",
    "analyses/costs/page.html.j2": "cost",
    "analyses/fabrics/page.html.j2": "fabrics",
    "analyses/resilience/outages.html.j2": "outages",
    "analyses/reconfiguration/page.html.j2": "reconfigure",
    "analyses/resilience/page.html.j2": "resilience",
    "analyses/traffic/page.html.j2": "traffic",
    "page/comparison.html.j2": "compare",
    "page/page.html.j2": "allocation",
    "studies/page.html.j2": "study",
}
"""The page that shows each template of a question; those of kinds have their kind's."""

PAGES = (*SMALLEST, *QUESTIONS, "study")
"""All of them, by name."""


@cache
def _solution_file(case: str, folder: Path) -> Path:
    solution = solution_of(case)
    path = folder / f"{case}.json"
    kind_of(solution).files.solutions.write(solution, path)
    return path


def page_of(name: str, folder: Path) -> str:
    """The page of this name; files on the way to it are written to a folder."""
    if name in SMALLEST:
        solution = solution_of(name)
        return kind_of(solution).pages().report(solution)
    if name == "study":
        return _study_page(folder)
    page = folder / "page.html"
    _asked(name, folder, page)
    return page.read_text(encoding="utf-8")


def said_of(name: str, folder: Path) -> tuple[str, str]:
    """The answer in the JSON object of a question, and its text in the terminal."""
    document = json.loads(_asked(name, folder, folder / "page.html", "--json"))
    return document["answer"], _asked(name, folder, folder / "page.html")


def _asked(name: str, folder: Path, page: Path, *more: str) -> str:
    given: dict[str, Callable[[], Path]] = {
        "{job}": lambda: _solution_file("co-optimisation", folder),
        "{topology}": lambda: _solution_file("topology", folder),
        "{training}": lambda: _solution_file("llm-training", folder),
        "{page}": lambda: page,
    }
    words = [str(given[word]()) if word in given else word for word in QUESTIONS[name]]
    again = ["--force"] if "{page}" in QUESTIONS[name] else []
    found = run(*(word.replace("{instances}", str(INSTANCES)) for word in words), *again, *more)
    assert found.code == 0, found.stderr
    return str(found.stdout)


def _study_page(folder: Path) -> str:
    file = folder / "study.json"
    file.write_text(json.dumps(study({"instance": routing(), "methods": ["simplex", "ipx"]})))
    run_study(read_study(file), folder / "runs", jobs=1)
    return study_report(folder / "runs")
