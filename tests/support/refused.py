"""Instance files that are refused, and what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topoopt.core.errors import InputError
from topoopt.kinds.files import read_instance


def save(path: Path, document: dict[str, Any]) -> Path:
    """The document as JSON with one value a line, so that each path has a line of its own."""
    path.write_text(json.dumps(document, indent=1))
    return path


def errors(path: Path, code: int = 2) -> InputError:
    """The refusal of a file with this exit code; every problem has the file and a line."""
    with pytest.raises(InputError) as caught:
        read_instance(path)
    assert caught.value.exit_code == code
    assert all(problem.line is not None and problem.file == str(path) for problem in caught.value.problems)
    return caught.value
