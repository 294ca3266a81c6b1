"""Instances of network problems and the commands on them, for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from topoopt.cli.app import app

HEAD = {"schema_version": 1, "name": "case"}


def run(*words: str | Path) -> tuple[int, str]:
    """Exit code and standard output of a command."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout


def instance(folder: Path, **fields: Any) -> Path:
    """An instance file."""
    path = folder / "case.json"
    path.write_text(json.dumps({**HEAD, **fields}))
    return path


def solved(folder: Path, *options: str, **fields: Any) -> dict[str, Any]:
    """JSON of a solve that ends well, its solution checked again."""
    path = instance(folder, **fields)
    code, text = run("solve", path, "--out", folder / "out", "--json", *options)
    document = json.loads(text)
    assert code == 0, document
    assert run("check", path, folder / "out" / "solution.json")[0] == 0
    assert isinstance(document, dict)
    return document
