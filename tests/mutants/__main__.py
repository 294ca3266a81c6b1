"""`python -m tests.mutants record|run quick|slow`: records the cases of the places, then runs them with each mutant.

`python -m tests.mutants table` prints what came out. The order is record quick, run quick, record slow, run slow: the
slow cases run only where the quick ones left a mutant alive. Files of the steps are in `out/mutants`.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from tests.mutants.session import Recorded, Recorder, Trial
from tests.mutants.sites import Site, draw
from tests.support.case_times import read_times
from tests.support.paths import ROOT

FOLDER = ROOT / "out" / "mutants"
MUTANTS = 150
SEED = 34
ALIVE = frozenset({"survived", "limit"})


def read_outcomes(cases: str, folder: Path = FOLDER) -> dict[int, dict[str, str]]:
    """Outcomes of the mutants that these cases ran with; nothing where they did not run."""
    path = folder / f"{cases}-outcomes.json"
    return {int(n): row for n, row in json.loads(path.read_text()).items()} if path.is_file() else {}


def step(name: str, cases: str, sites: list[Site]) -> int:
    """Record or run the quick or the slow cases; the exit code of pytest."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    record = FOLDER / f"{cases}-record.json"
    if name == "record":
        plugin: object = Recorder(sites, record, read_times())
    else:
        alive = {n for n, row in read_outcomes("quick").items() if row["kind"] in ALIVE}
        numbers = range(len(sites)) if cases == "quick" else sorted(alive)
        plugin = Trial(sites, numbers, Recorded.read(record), FOLDER / f"{cases}-outcomes.json")
    words = ["-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not heavy", "--cases", cases, str(ROOT / "tests")]
    return int(pytest.main(words, plugins=[plugin]))


def wilson_lower(hits: int, trials: int, z: float = 1.96) -> float:
    """Lower end of the interval of Wilson (1927) for a share, at 95 % with this z."""
    share, square = hits / trials, z * z
    spread = z * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    return (share + square / (2 * trials) - spread) / (1 + square / trials)


def table(sites: list[Site]) -> str:
    """What the cases killed, and each survivor, in Markdown."""
    quick, slow = read_outcomes("quick"), read_outcomes("slow")
    executed = set(Recorded.read(FOLDER / "quick-record.json").hits)
    executed |= set(Recorded.read(FOLDER / "slow-record.json").hits) if slow else set()
    by_quick = {n for n, row in quick.items() if row["kind"] not in ALIVE}
    by_slow = {n for n, row in slow.items() if row["kind"] not in ALIVE}
    both = by_quick | by_slow
    lines = [
        "| mutants | |",
        "|---|---|",
        f"| drawn | {len(sites)} |",
        f"| executed by a case | {len(executed)} |",
        f"| killed by quick cases | {len(by_quick)} |",
        f"| killed by any case | {len(both)} |",
        f"| share of the quick ones | {len(by_quick) / len(both):.3f} |",
        f"| at least, at 95 % | {wilson_lower(len(by_quick), len(both)):.3f} |",
        "",
        "| survivor | line | change |",
        "|---|---|---|",
    ]
    for n, site in enumerate(sites):
        if n not in both:
            text = f"`{site.before}` to `{site.after}`" + ("" if n in executed else " (no case executes it)")
            lines.append(f"| `{site.module}` | {site.line} | {text.replace('|', chr(92) + '|')} |")
    lines += ["", "Killed by slow cases alone:", ""]
    lines += [f"- `{sites[n].module}` {sites[n].line}: `{slow[n]['case']}`" for n in sorted(by_slow)]
    return "\n".join(lines)


def main() -> int:
    """One step, by the words of the command line."""
    match sys.argv[1:]:
        case ["table"]:
            print(table(draw(MUTANTS, SEED)))
            return 0
        case [("record" | "run") as name, ("quick" | "slow") as cases]:
            return step(name, cases, draw(MUTANTS, SEED))
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main())
