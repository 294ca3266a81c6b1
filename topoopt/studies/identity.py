"""What determines the result of a run, and the hash over it."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError
from topoopt.core.process import versions
from topoopt.files.documents import canonical_sha256
from topoopt.files.untrusted import file_sha256

PACKAGES = ("topoopt", "formulations", "solvers")
MAX_BYTES = GIB
"""Of a file that an instance names."""

REFERENCES = ("file", "profile", "trace", "plan")
"""Keys of an instance whose values may name another file."""


def code_versions() -> tuple[tuple[str, str], ...]:
    """Versions of Python, of the libraries that matter, and a hash over our own sources."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        folder = Path(next(iter(spec.submodule_search_locations or ()))) if spec else None
        if folder is None:
            continue
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file.relative_to(folder)).encode())
            digest.update(b"\0")
            digest.update(file.read_bytes())
    return (*versions(), ("code", digest.hexdigest()[:16]))


class References:
    """Files that instances refer to: found relative to the instance, read once, known by content."""

    def __init__(self) -> None:
        self._hashes: dict[str, str] = {}

    def resolved(self, document: Any, folder: Path, found: dict[str, str]) -> Any:
        """The document with names of existing files made absolute, for an instance that is moved elsewhere.

        `found` gets the hash of each file under its name.
        """
        if isinstance(document, Mapping):
            return {
                key: self._file(value, folder, found)
                if key in REFERENCES and isinstance(value, str)
                else self.resolved(value, folder, found)
                for key, value in document.items()
            }
        if isinstance(document, list):
            return [self.resolved(value, folder, found) for value in document]
        return document

    def sha256(self, name: str) -> str | None:
        """Of the content of a file; None where it cannot be read, or is larger than any instance."""
        try:
            return file_sha256(name, MAX_BYTES)
        except InputError:
            return None

    def _file(self, name: str, folder: Path, found: dict[str, str]) -> str:
        path = folder / name
        try:
            full = str(path.resolve())
            if full not in self._hashes:
                if not path.is_file():
                    return name
                self._hashes[full] = file_sha256(path, MAX_BYTES)
        except (OSError, ValueError, InputError):
            return name
        found[name] = self._hashes[full]
        return full


def identity_of(parts: Mapping[str, Any]) -> str:
    """SHA-256 over everything that determines a run."""
    return canonical_sha256(parts)
