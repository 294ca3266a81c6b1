"""Damaged files one after the other; those that fail are told with the seed that makes them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.fuzz.damage import damaged
from tests.fuzz.guard import fault_of
from tests.fuzz.targets import TARGETS, Target


@dataclass(frozen=True)
class Fault:
    """A file that does what none may."""

    target: str
    seed: int
    file: str
    content: bytes
    what: str

    def __str__(self) -> str:
        return f"{self.target} #{self.seed} ({self.file}, {len(self.content)} bytes): {self.what}"


def prepared(target: Target, folder: Path) -> Path:
    """A folder in which a target finds the files it needs."""
    inner = folder / "files"
    inner.mkdir(exist_ok=True)
    for other, content in target.beside().items():
        (inner / other).parent.mkdir(exist_ok=True)
        (inner / other).write_bytes(content)
    return inner


def mutants(name: str, seeds: Iterable[int], folder: Path) -> Iterator[Fault]:
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
        what = fault_of(lambda path=path: target.run(path))
        if what is not None:
            yield Fault(name, seed, file, content, what)
