"""Files among the options of the commands of a study."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topoopt.core.errors import InputError
from topoopt.core.units import MIB
from topoopt.files.faults import Fault, value_text
from topoopt.files.untrusted import file_sha256

MAX_BYTES = 64 * MIB

FILE_OPTIONS = ("prices",)
"""Options that name a file."""


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
