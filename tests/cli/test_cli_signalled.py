"""Every command that takes a while, signalled at some moment: it ends without a traceback, nothing is half-written."""

from __future__ import annotations

import csv
import itertools
import signal
import time
from pathlib import Path

import pytest

from tests.support.cli_cases import process, run
from tests.support.paths import INSTANCES

TINY, NETWORK = INSTANCES / "tiny-4.yaml", INSTANCES / "networks" / "uniform-5-2.yaml"
MODEL = INSTANCES / "llm-training" / "small-16.yaml"

COMMANDS: dict[str, str] = {
    "check": "check @/tiny/solution.json",
    "compare": f"compare {NETWORK} --methods kautz,totient -o OUT/methods.csv",
    "cost": "cost --servers 128 --degree 4 --link-gbps 100 -o OUT/prices.csv",
    "report": "report @/tiny/solution.json -o OUT/report.html",
    "validate": f"validate {TINY} {NETWORK} {MODEL}",
    "init": "init -o OUT/examples",
    "explain": "explain @/network/solution.json",
    "export": "export @/tiny/solution.json --to patch-list -o OUT/patches",
    "compare --fabrics": f"compare {TINY} --fabrics fat-tree,ideal-switch --budget 50",
    "resilience": "resilience @/network/solution.json -o OUT/failures.csv",
    "reconfigure": f"reconfigure {TINY} --delays 10us,1ms --budget 50",
    "import": f"import job {TINY} --set objective=throughput -o OUT/placement.yaml",
    "llm evaluate": f"llm evaluate {MODEL} --set tensor=8",
    "llm calibrate": f"llm calibrate {MODEL.parent / 'runs.csv'}",
    "export --to lp": f"export {NETWORK} --to lp --set formulation=joint_topology -o OUT/model.lp",
}

MOMENTS = [0.2, 0.5, 0.8, 1.1, 1.6]
"""Seconds after the start: while it loads, works, or writes."""

CASES = list(
    zip(
        COMMANDS,
        itertools.cycle(MOMENTS),
        itertools.cycle((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
        strict=False,
    )
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Solutions to ask about."""
    folder = tmp_path_factory.mktemp("made")
    for name, words in {"tiny": (TINY, "--budget", 100), "network": (NETWORK,), "model": (MODEL,)}.items():
        assert run("solve", *words, "--output", folder / name).code == 0
    return folder


def words_of(name: str, made: Path, out: Path) -> list[str]:
    """The command, which writes to a folder."""
    return [word.replace("@", str(made)).replace("OUT", str(out)) for word in COMMANDS[name].split()]


@pytest.mark.parametrize(("name", "moment_s", "number"), CASES)
def test_a_signal_ends_it_cleanly(
    tmp_path: Path, made: Path, name: str, moment_s: float, number: signal.Signals
) -> None:
    """Exit code 130, or that of a command that was done by then; what it wrote is what it writes undisturbed.

    Tables keep what was found by then: rows of the undisturbed table, whose bounds may be weaker.
    """
    calm, out = tmp_path / "calm", tmp_path / "out"
    for folder in (calm, out):
        folder.mkdir()
    undisturbed = run(*words_of(name, made, calm))
    assert undisturbed.code == 0, undisturbed.stderr
    with process(*words_of(name, made, out)) as child:
        time.sleep(moment_s)
        child.send_signal(number)
        _, stderr = child.communicate(timeout=300)
    assert child.returncode in (0, 130), stderr
    assert "Traceback" not in stderr
    for path in out.rglob("*"):
        there = calm / path.relative_to(out)
        assert there.exists(), f"{path} is left over"
        if path.suffix == ".csv":
            kept, whole = _rows(path), _rows(there)
            assert kept == whole or (child.returncode == 130 and kept.keys() <= whole.keys())
        else:
            assert path.is_dir() or path.read_bytes() == there.read_bytes()


def _rows(path: Path) -> dict[tuple[str, ...], dict[str, str]]:
    """By the first two columns of a table, what each row is about: all but measured times."""
    rows = list(csv.DictReader(path.read_text().splitlines()))
    return {tuple(row.values())[:2]: {name: row[name] for name in row if name != "wall_s"} for row in rows}
