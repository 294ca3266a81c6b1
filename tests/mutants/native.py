"""`python -m tests.mutants.native`: faults in single expressions of the native module, each put to the quick tests.

One module is compiled from a copy of the sources. It has all faults, and a number says which of them holds, none at
first. Tests of `tests/native` run first, then those of what calls the module, each fault in a fork of its own.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.mutants.session import run_forked
from tests.native.checked import build
from tests.support.paths import ROOT

SOURCES = ROOT / "topoopt" / "native"
COPY = ROOT / "out" / "mutants" / "native"
FOLDERS = ("tests/native", "tests/simulate", "tests/solvers", "tests/kinds")
LIMIT_S = 300
"""Processor time of the cases of a fault."""

SWITCH = "topoopt_fault"
DECLARED = f'#pragma once\nextern "C" {{\n__attribute__((visibility("default"))) inline int {SWITCH} = 0;\n}}\n'


@dataclass(frozen=True)
class Fault:
    """A text that stands once in a header, an expression that stands once in it, and what that becomes."""

    header: str
    text: str
    before: str
    after: str

    def put_into(self, source: str, number: int) -> str:
        """The source with the fault, which holds where the number says so.

        Raises:
            ValueError: the text or the expression does not stand there once.
        """
        if source.count(self.text) != 1 or self.text.count(self.before) != 1:
            raise ValueError(f"{self.header}.hpp has {source.count(self.text)} times {self.text!r}")
        chosen = f"({SWITCH} == {number} ? ({self.after}) : ({self.before}))"
        return source.replace(self.text, self.text.replace(self.before, chosen))


FAULTS = (
    Fault("bfs", "if (v != source && last[v] < 0) visited", "v != source && last[v] < 0", "last[v] < 0"),
    Fault("max_min", "link.rising -= double(weight[r]);", "double(weight[r])", "1.0"),
    Fault("shortest", "again |= position[w] < k;", "position[w] < k", "position[w] < k - 1"),
    Fault("fluid", "end = std::max(end, now + flow.tail);", "now + flow.tail", "now"),
    Fault("flexnet", "at = std::max(free[link], at) + w.hop_latency;", "w.hop_latency", "0.0"),
    Fault("circuit_bounds", "if (end > best) best = end, last = step;", "end > best", "end >= best"),
    Fault("lower", "last = ((a + 1) * ways_u + ways_v - 1) / ways_v;", "(a + 1) * ways_u + ways_v - 1",
          "(a + 1) * ways_u"),
    Fault("prices", "if (now > best) best = now, best_length", "now > best", "now < best"),
    Fault("zero_bubble", "until += cost(F, j), ++more[j];", "cost(F, j)", "0"),
    Fault("relay", "bound += largest(by_column, next_columns);", "bound += largest(by_column, next_columns)",
          "bound = largest(by_column, next_columns)"),
    Fault("events", "child += heap[child + 1] < heap[child];", "heap[child + 1] < heap[child]", "false"),
    Fault("hop_limits", "auto distance = distances.row(max_hops);", "max_hops", "max_hops - 1"),
    Fault("placement_search", "fits(group, target, g.memory[other]) &&", "g.memory[other]", "0"),
    Fault("collective", "due[v] * weight[label[link]] / total;", "due[v] * weight[label[link]]", "due[v]"),
    Fault("cluster", "if (stopped[j]) return;", "stopped[j]", "false"),
    Fault("switching", "begin = std::max(needed, last(source, target));", "std::max(needed, last(source, target))",
          "needed"),
    Fault("enumeration", "phantoms = std::min(open, room);", "std::min(open, room)", "open"),
)  # fmt: skip


def compiled() -> Path:
    """The module with all faults."""
    shutil.copytree(SOURCES, COPY / "sources", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so"))
    folder = COPY / "sources" / "src"
    (folder / f"{SWITCH}.hpp").write_text(DECLARED, encoding="utf-8")
    for number, fault in enumerate(FAULTS, 1):
        header = folder / f"{fault.header}.hpp"
        source = fault.put_into(header.read_text(encoding="utf-8"), number)
        header.write_text(source.replace("#pragma once", f'#pragma once\n#include "{SWITCH}.hpp"'), encoding="utf-8")
    return build(COPY / "sources" / "cmake", COPY / "build", checked=False)


class Trials:
    """In place of the loop of pytest: a row of the table for each fault."""

    def __init__(self, module: Path, numbers: list[int]) -> None:
        self.module, self.numbers = module, numbers

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Each fault in a fork."""
        switch = ctypes.c_int.in_dll(ctypes.CDLL(str(self.module)), SWITCH)
        for number in self.numbers:
            fault = FAULTS[number - 1]
            outcome = run_forked(session.items, partial(setattr, switch, "value", number), LIMIT_S)
            said = outcome.kind if outcome.kind == "survived" else f"{outcome.kind}: `{outcome.case.split('[')[0]}`"
            row = (f"`{fault.header}`", f"`{fault.before}`", f"`{fault.after}`", said)
            print("|", " | ".join(text.replace("|", "\\|") for text in row), "|", file=sys.__stdout__, flush=True)
        return True


def main() -> int:
    """All faults, or those with these numbers; exit code of pytest."""
    module = compiled()
    os.environ["TOPOOPT_CHECKED_MODULE"] = str(module)
    numbers = [int(word) for word in sys.argv[1:]] or list(range(1, len(FAULTS) + 1))
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not heavy", "--cases", "quick"]
    return int(pytest.main([*words, *(str(ROOT / folder) for folder in FOLDERS)], plugins=[Trials(module, numbers)]))


if __name__ == "__main__":
    sys.exit(main())
