"""`python -m tests.mutants.native`: faults of one line in the native module, each compiled and put to the quick tests.

The tests of `tests/native` run first, and where a fault survives these, those of what calls the module. Sources are
changed in a copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.native.checked import build
from tests.support.paths import ROOT

NATIVE = Path("topoopt/native")
COPY = ROOT / "out" / "mutants" / "native"
FOLDERS = ("tests/native", "tests/simulate", "tests/solvers", "tests/kinds")


@dataclass(frozen=True)
class Fault:
    """A text that stands once in a header, and what it becomes."""

    header: str
    before: str
    after: str


FAULTS = (
    Fault("bfs", "if (v != source && last[v] < 0) visited[end++] = v;", "if (last[v] < 0) visited[end++] = v;"),
    Fault("max_min", "link.rising -= double(weight[r]);", "link.rising -= 1.0;"),
    Fault("shortest", "again |= position[w] < k;", "again |= position[w] < k - 1;"),
    Fault("fluid", "end = std::max(end, now + flow.tail);", "end = std::max(end, now);"),
    Fault("flexnet", "at = std::max(free[link], at) + w.hop_latency;", "at = std::max(free[link], at);"),
    Fault("circuit_bounds", "if (end > best) best = end, last = step;", "if (end >= best) best = end, last = step;"),
    Fault("lower", "last = ((a + 1) * ways_u + ways_v - 1) / ways_v;", "last = (a + 1) * ways_u / ways_v;"),
    Fault("prices", "if (now > best) best = now, best_length", "if (now < best) best = now, best_length"),
    Fault("zero_bubble", "until += cost(F, j), ++more[j];", "++more[j];"),
    Fault("relay", "bound += largest(by_column, next_columns);", "bound = largest(by_column, next_columns);"),
    Fault("events", "if (child < last) child += heap[child + 1] < heap[child];", "if (child < last) child += 0;"),
    Fault("hop_limits", "auto distance = distances.row(max_hops);", "auto distance = distances.row(max_hops - 1);"),
    Fault("placement_search", "fits(group, target, g.memory[other]) &&", "fits(group, target, 0) &&"),
    Fault("collective", "due[v] * weight[label[link]] / total;", "due[v] / total;"),
    Fault("cluster", "if (stopped[j]) return;", ""),
    Fault("switching", "double needed = times(END, pass), begin = std::max(needed, last(source, target));",
          "double needed = times(END, pass), begin = needed;"),
    Fault("enumeration", "phantoms = std::min(open, room);", "phantoms = open;"),
)  # fmt: skip


def outcomes(faults: tuple[Fault, ...] = FAULTS) -> Iterator[tuple[Fault, str]]:
    """Each fault with the folder of tests that killed it, or nothing."""
    shutil.copytree(ROOT / NATIVE, COPY / NATIVE, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so"))
    for fault in faults:
        header = COPY / NATIVE / "src" / f"{fault.header}.hpp"
        text = (ROOT / NATIVE / "src" / header.name).read_text(encoding="utf-8")
        if text.count(fault.before) != 1:
            raise ValueError(f"{header.name} has {text.count(fault.before)} times {fault.before!r}")
        header.write_text(text.replace(fault.before, fault.after), encoding="utf-8")
        module = build(COPY / NATIVE / "cmake", COPY / "build", checked=False)
        yield fault, next((tests for tests in FOLDERS if not _pass(tests, module)), "")
        header.write_text(text, encoding="utf-8")


def _pass(tests: str, module: Path) -> bool:
    """Whether the quick cases of a folder pass with this module."""
    words = ["pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not heavy", "--cases", "quick", tests]
    environment = {**os.environ, "TOPOOPT_CHECKED_MODULE": str(module)}
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=environment, capture_output=True, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    for fault, tests in outcomes():
        print(f"| `{fault.header}` | `{fault.before}` | `{fault.after}` | {tests or 'survives'} |", flush=True)
