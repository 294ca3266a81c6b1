"""A result fits a screen: on shipped instances no command prints more than forty lines without `--verbose`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_cases import run
from tests.support.paths import ROOT
from tests.support.smallest import SMALLEST, solution_of
from topoopt.kinds import KINDS
from topoopt.kinds.files import write_solution
from topoopt.page.render import SHOWN_LINES

SHIPPED = sorted(file for file in SMALLEST.values() if file)
CALLS = [
    *(f"validate instances/{file}" for file in SHIPPED),
    *(f"describe {kind}" for kind in KINDS),
    "describe llm-training cluster",
    "describe co-optimisation workload",
    *(f"{command} --list" for command in ("init", "import", "export")),
    *(f"cost instances/{file}" for file in ("candle-16.yaml", "moe-16.yaml", "llm-training/llama3-70b-64.yaml")),
    "cost --servers 128 --degree 4 --link-gbps 100",
    "cost --servers 64 --degree 8 --link-gbps 400 --prices h200 --fabrics rail-fat-tree,photonic-rails",
    "solve instances/tiny-8.yaml --budget 20 --method alternating -o OUT",
    "solve instances/llm-training/direct-connect-64.yaml -o OUT",
    "llm evaluate instances/llm-training/llama3-70b-64.yaml --set tensor=8,pipeline=4",
    "llm evaluate instances/llm-training/small-16.yaml --set tensor=8,pipeline=2 --fabrics direct-connect",
    "llm calibrate instances/llm-training/runs.csv --keep",
    "compare instances/tiny-8.yaml --fabrics all --budget 1",
    "compare instances/llm-training/small-16.yaml --fabrics ideal-switch,torus-2d,random-regular",
    "compare instances/networks/uniform-5-2.yaml --methods kautz,totient",
    "reconfigure instances/tiny-4.yaml --delays 10us,1ms,10ms --budget 1",
    "collective bound instances/collectives/a100-2.yaml",
    "collective find --servers 12 --degree 4",
    "describe topology totient --servers 12 --degree 4",
    "describe topology generalized-kautz --servers 16 --degree 4 --links unidirectional",
    "study validate instances/studies/llm-small.yaml",
    "doctor",
]
"""Commands with what they are called with."""

ASKING = ("show", "check", "explain", "cost", "resilience")
"""Commands that are called with a solution of each kind; some refuse some kinds."""


@pytest.mark.parametrize("call", CALLS)
def test_a_command_fits_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """What it prints by default."""
    monkeypatch.chdir(ROOT)
    result = run(*call.replace("OUT", str(tmp_path)).split())
    assert result.code == 0, result.stderr
    assert 0 < len(result.stdout.splitlines()) <= SHOWN_LINES


@pytest.mark.parametrize("case", [case for case, file in SMALLEST.items() if file])
def test_answers_on_a_solution_fit_a_screen(tmp_path: Path, case: str) -> None:
    """Of every kind; each fits, or is refused in some lines."""
    solution = tmp_path / "solution.json"
    write_solution(solution_of(case), solution)
    for command in ASKING:
        result = run(*command.split(), solution)
        assert result.code in (0, 2, 4, 8), (command, result.stderr)
        assert (result.code == 2) != bool(result.stdout), command
        assert len(result.stdout.splitlines()) <= SHOWN_LINES, command


def test_verbose_prints_the_rest(tmp_path: Path) -> None:
    """Tables in full, and the same object for programs."""
    words = (ROOT / "instances/tiny-8.yaml", "--budget", 20, "--method", "alternating", "--output", tmp_path)
    assert run("solve", *words).code == 0
    solution = tmp_path / "solution.json"
    brief, full = run("show", solution), run("show", solution, "--verbose")
    assert "more with --verbose: strategy" in brief.stdout
    assert "weights" in full.stdout
    assert len(full.stdout.splitlines()) > SHOWN_LINES
    assert run("show", solution, "--json").stdout == run("show", solution, "--json", "--verbose").stdout


@pytest.mark.parametrize(("command", "key"), [("export", "targets"), ("import", "formats")])
def test_a_short_list_has_every_name(command: str, key: str) -> None:
    """What a name takes or makes is cut, no name is."""
    result = run(command, "--list")
    shown = [line.split()[0] for line in result.stdout.splitlines() if line]
    assert set(run(command, "--list", "--json").json[key]) <= set(shown)
