"""A JSON file of unknown origin whose top is an object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.files.documents import Document, parse_json
from topoopt.files.untrusted import parsing, read_text, refusal
from topoopt.formats.schedules.limits import MAX_FILE_BYTES, MAX_NODES


def read_object(path: Path, what: str) -> tuple[dict[str, Any], Document]:
    """Plain data of a file, and the file as a document, which knows their lines.

    Raises:
        InputError: no such file, too large, broken, no object at its top.
    """
    text = read_text(path, MAX_FILE_BYTES, what)
    with parsing(str(path), what):
        read = parse_json(text, MAX_NODES)
    if read.faults:
        problems = [Problem(one.message, str(path), one.line, None, one.value, one.allowed) for one in read.faults[:20]]
        raise InputError(problems)
    if not isinstance(read.data, dict):
        raise refusal(f"not {what}", str(path), allowed="an object at the top")
    return read.data, Document(str(path), read.data, read.locate)
