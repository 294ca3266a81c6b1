"""The instances that come with the package, and the files these name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from topoopt.core.errors import InputError, Problem
from topoopt.files.faults import nearest_text, value_text
from topoopt.files.untrusted import read_text

MOST_BYTES = 10_000_000
"""Of one of them."""

SUFFIXES = (".yaml", ".json")

KIND = re.compile(r'^\s*"?kind"?: *"?([\w-]+)', re.MULTILINE)

NAMED = re.compile(r"[\w./+*-]+\.(?:yaml|json|csv|npy|parquet|graphml|txt)\b")
"""What may be the name of a file, or a pattern of names, in an instance."""


@dataclass(frozen=True)
class ShippedFile:
    """An instance, or a study, that comes with the package.

    Attributes:
        name: path below the folder, without its suffix.
        path: where it is.
        kind: as in the file.
        summary: its first comment; empty without one.
    """

    name: str
    path: Path
    kind: str
    summary: str


def shipped_folder() -> Path:
    """The folder of the instances: in the package once it is installed, beside it in a clone."""
    package = Path(__file__).parents[1]
    inside = package / "instances"
    return inside if inside.is_dir() else package.parent / "instances"


def shipped_files() -> tuple[ShippedFile, ...]:
    """All of them, by name; those in no sub-folder first."""
    folder = shipped_folder()
    paths = [path for path in folder.rglob("*") if path.suffix in SUFFIXES]
    return tuple(_shipped(path, folder) for path in sorted(paths, key=lambda path: (path.parent != folder, path)))


def _shipped(path: Path, folder: Path) -> ShippedFile:
    text = read_text(path, MOST_BYTES)
    comment = re.match(r"(?:# .*\n)+", text)
    summary = "" if comment is None else " ".join(line.removeprefix("# ") for line in comment[0].splitlines())
    kind = KIND.search(text)
    return ShippedFile(
        path.relative_to(folder).with_suffix("").as_posix(), path, "" if kind is None else kind[1], summary
    )


def shipped_named(name: str) -> ShippedFile:
    """The one of that name; the folder and the suffix may be left out where that leaves one.

    Raises:
        InputError: none, or several.
    """
    files = shipped_files()
    wanted = name.removeprefix("instances/")
    for suffix in SUFFIXES:
        wanted = wanted.removesuffix(suffix)
    found = [file for file in files if file.name == wanted] or [
        file for file in files if file.name.rsplit("/", 1)[-1] == wanted
    ]
    if len(found) == 1:
        return found[0]
    if found:
        allowed = ", ".join(file.name for file in found)
        raise InputError([Problem("several examples have this name", value=value_text(name), allowed=allowed)])
    allowed = nearest_text(wanted, tuple(file.name for file in files))
    raise InputError([Problem("no such example", value=value_text(name), allowed=allowed)])


def copied(file: ShippedFile) -> dict[str, bytes]:
    """What a copy of one file needs: file name -> content, the files it names beside it, its own name first."""
    made: dict[str, bytes] = {}
    waiting = [file.path]
    for path in waiting:  # grows as files are found
        text = read_text(path, MOST_BYTES)
        for name in dict.fromkeys(NAMED.findall(text)) if path.suffix in SUFFIXES else ():
            found = sorted(each for each in path.parent.glob(name) if each.is_file())
            if found:
                text = text.replace(name, _beside(name))
                waiting += [each for each in found if each.resolve() not in {one.resolve() for one in waiting}]
        made[path.name] = text.encode()
    return made


def _beside(name: str) -> str:
    """The name of a file, or a pattern, in the same folder; YAML takes a leading star for something else."""
    last = name.rsplit("/", 1)[-1]
    return f"./{last}" if last.startswith("*") else last
