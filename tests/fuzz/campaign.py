"""Damaged files one after the other; those that fail are told with the seed that makes them again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.fuzz.damage import damaged
from tests.fuzz.guard import issue_of
from tests.fuzz.targets import TARGETS, Target

BATCH = 200
"""Seeds of a batch at most."""


@dataclass(frozen=True)
class Issue:
    """A file that does what none may."""

    target: str
    seed: int
    file: str
    content: bytes
    what: str

    def __str__(self) -> str:
        return f"{self.target} #{self.seed} ({self.file}, {len(self.content)} bytes): {self.what}"


@dataclass(frozen=True)
class Batch:
    """Seeds of one target that follow each other."""

    target: str
    seeds: range


def batches(names: Sequence[str], total: int, first: int) -> list[Batch]:
    """What a campaign of so many files tries: every target by its share, seeds from the first on, all in turn."""
    shares = {name: TARGETS[name].share for name in names}
    counts = {name: -(-total * share // sum(shares.values())) for name, share in shares.items()}
    rows = [
        [Batch(name, range(start, min(start + BATCH, first + count))) for start in range(first, first + count, BATCH)]
        for name, count in counts.items()
    ]
    # In the order of the part of its target that each begins with, so that what is cut short has looked at all.
    placed = [(place / len(row), batch) for row in rows for place, batch in enumerate(row)]
    return [batch for _, batch in sorted(placed, key=lambda pair: pair[0])]


def issues_of(batch: Batch) -> list[Issue]:
    """The faults of a batch, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="topoopt-fuzz-") as folder:
        return list(mutants(batch.target, batch.seeds, Path(folder)))


def prepared(target: Target, folder: Path) -> Path:
    """A folder in which a target finds the files it needs."""
    inner = folder / "files"
    inner.mkdir(exist_ok=True)
    for other, content in target.beside().items():
        (inner / other).parent.resolve().mkdir(parents=True, exist_ok=True)
        (inner / other).write_bytes(content)
    return inner


def mutants(name: str, seeds: Iterable[int], folder: Path) -> Iterator[Issue]:
    """The faults of a target that these seeds lead to."""
    target = TARGETS[name]
    originals = target.originals()
    names = list(originals)
    folder = prepared(target, folder)
    for seed in seeds:
        draw = np.random.default_rng(seed)
        file = names[int(draw.integers(len(names)))]
        content = damaged(originals[file], draw)
        path = folder / file
        path.write_bytes(content)
        what = issue_of(lambda path=path: target.run(path))
        if what is not None:
            yield Issue(name, seed, file, content, what)
