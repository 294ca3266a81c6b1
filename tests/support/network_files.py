"""Documents of the kinds `routing` and `topology`, and what reading them as files gives."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from topoopt.core.errors import InputError
from topoopt.kinds.files import read_instance

ROUTING: dict[str, Any] = {
    "schema_version": 1,
    "kind": "routing",
    "name": "three",
    "topology": {"links": [[0, 1], [1, 2], [2, 0]]},
    "demand": {"matrix": [[0, 1, 2], [3, 0, 4], [5, 6, 0]]},
}

TOPOLOGY: dict[str, Any] = {
    "schema_version": 1,
    "kind": "topology",
    "name": "four",
    "servers": 4,
    "degree": 2,
    "demand": {"family": "uniform"},
}


def with_(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with some keys changed."""
    return {**copy.deepcopy(document), **changes}


def load(folder: Path, document: dict[str, Any]) -> Any:
    """What reading the document as a file gives."""
    path = folder / "instance.json"
    path.write_text(json.dumps(document))
    return read_instance(path)


def refused(folder: Path, document: dict[str, Any]) -> str:
    """Message of the refusal; every problem names the file."""
    with pytest.raises(InputError) as caught:
        load(folder, document)
    assert all(problem.file for problem in caught.value.problems)
    return str(caught.value)
