"""Which instances stand in the files of their solutions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topoopt.kinds import embedded
from topoopt.kinds.embedded import document_to_embed
from topoopt.kinds.instance_file import read_instance

MATRIX = [[0, 1, 2], [1, 0, 0], [3, 0, 0]]


def _instance(folder: Path, demand: dict[str, object]) -> Path:
    shape = {"servers": 3, "degree": 2, "links": "unidirectional", "demand": demand}
    path = folder / "case.json"
    path.write_text(json.dumps({"schema_version": 1, "kind": "topology", "name": "case", **shape}))
    return path


def test_one_file_alone_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What took long to build once is not built a second time at the end of a run with a time limit."""

    def built(*_: object) -> None:
        raise AssertionError("built again")

    problem = read_instance(_instance(tmp_path, {"matrix": MATRIX}))
    monkeypatch.setattr(embedded, "build_instance", built)
    assert document_to_embed(problem) == problem.document
    assert problem.document is not None


def test_one_that_refers_to_another_file(tmp_path: Path) -> None:
    """The matrix stands beside it: the instance alone says too little."""
    (tmp_path / "demand.csv").write_text("\n".join(",".join(map(str, row)) for row in MATRIX))
    problem = read_instance(_instance(tmp_path, {"file": "demand.csv"}))
    assert problem.document is not None
    assert document_to_embed(problem) is None
