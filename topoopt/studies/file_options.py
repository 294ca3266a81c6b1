"""Files among the options of the commands of a study."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError
from topoopt.files.faults import Fault, value_text
from topoopt.files.untrusted import file_sha256

MAX_BYTES = 64 * MIB

FILE_OPTIONS = ("prices", "solution")
"""Options that name a file."""


WRITTEN_OPTIONS = ("csv", "plot")
"""Options that name a file or a folder to write."""

_KEPT = ("run.json", "output.json", "log.txt", "instance.json")
"""Files of a run that are not its command's to write."""


def faults_of_options(options: Mapping[str, Any]) -> list[Fault]:
    """Options that are no option, or that would write anywhere but into the folder of the run."""
    faults = []
    for key, value in options.items():
        if not re.fullmatch(r"[a-z][a-z0-9-]*", key, re.ASCII):
            faults.append(Fault(("instances",), "not an option", value_text(key), "a name without dashes before it"))
        elif key in WRITTEN_OPTIONS and value is not None:
            plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,100}", value, re.ASCII)
            if not plain or value in _KEPT:
                text = f"option {key} would write outside the folder of the run"
                faults.append(Fault(("instances",), text, value_text(value), "a plain file name, such as bill.csv"))
        elif isinstance(value, str) and value.startswith("-"):
            text = f"the value of option {key} begins like an option"
            faults.append(Fault(("instances",), text, value_text(value), "a value that begins with no dash"))
    return faults


def words_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Words after a command that give it these options; none of those that are null or false."""
    return tuple(
        word
        for key, value in options.items()
        if value is not None and value is not False
        for word in ((f"--{key}",) if value is True else (f"--{key}", str(value)))
    )


def options_of(words: Sequence[str]) -> dict[str, Any]:
    """Options of the words after a command: `--key value`, or `--key` alone."""
    options: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        alone = not left or left[0].startswith("--")
        options[word.removeprefix("--") if word.startswith("--") else f"({word})"] = True if alone else left.pop(0)
    return options


def with_found_files(
    options: Mapping[str, Any], folder: Path, faults: list[Fault]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Options with files relative to `folder` as absolute paths, and the SHA-256 of each file by the name given.

    A file that cannot be read is added to `faults`.
    """
    found, hashes = dict(options), {}
    for key in FILE_OPTIONS:
        value = options.get(key)
        if not isinstance(value, str):
            continue
        path = Path(os.path.abspath(folder / value))
        try:
            hashes[value] = file_sha256(path, MAX_BYTES)
        except InputError:
            text = f"no such file for option {key}"
            faults.append(Fault(("instances",), text, value_text(value), f"a file, relative to {folder}"))
        found[key] = str(path)
    return found, hashes
