"""Which instances stand in the files of their solutions."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import topoopt
from topoopt.cli.app import app
from topoopt.files import results as carried
from topoopt.kinds import files as embedded
from topoopt.kinds.files import build_embedded, document_to_embed, read_instance

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


@pytest.mark.parametrize("name", ["demand.csv", "tables/demand.csv", "../demand.csv"])
def test_one_that_refers_to_another_file(tmp_path: Path, name: str) -> None:
    """The matrix stands beside it, or elsewhere: the solution carries it, and is checked alone."""
    folder = tmp_path / "inside"
    (folder / "tables").mkdir(parents=True)
    (folder / name).write_text("\n".join(",".join(map(str, row)) for row in MATRIX))
    problem = read_instance(_instance(folder, {"file": name}))
    document = document_to_embed(problem)
    assert document is not None
    assert build_embedded(document, "elsewhere").sha256 == problem.sha256
    solution = topoopt.solve(problem, time_limit_s=20)
    topoopt.write_solution(solution, tmp_path / "solution.json")
    shutil.rmtree(folder)
    (tmp_path / "demand.csv").unlink(missing_ok=True)
    result = CliRunner().invoke(app, ["check", str(tmp_path / "solution.json")])
    assert result.exit_code == 0, result.output


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "files: not a mapping"),
        ({"../demand.csv": _packed(b"0")}, "no name of a file below the instance"),
        ({"/etc/demand.csv": _packed(b"0")}, "no name of a file below the instance"),
        ({"demand.csv": "0"}, "no content of a file"),
        ({"demand.csv": 7}, "no content of a file"),
        ({"demand.csv": _packed(b"0")[:-8]}, "no content of a file"),
        ({"other.csv": _packed(b"0")}, "demand.csv"),
        ({"demand.csv": _packed(b"0,1\n1,x")}, r"case.json#/files/demand.csv"),
    ],
)
def test_carried_files_that_are_wrong(tmp_path: Path, files: object, message: str) -> None:
    """They are refused by name, and nothing is written outside of the folder that they are laid out in."""
    document = json.loads(_instance(tmp_path, {"file": "demand.csv"}).read_text()) | {"files": files}
    (tmp_path / "case.json").write_text(json.dumps(document))
    with pytest.raises(topoopt.InputError, match=message):
        read_instance(tmp_path / "case.json")


def test_more_than_is_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that unpack to more than the limit are refused before they are whole; larger ones are not packed."""
    monkeypatch.setattr(carried, "MAX_BYTES", 1000)
    document = json.loads(_instance(tmp_path, {"file": "demand.csv"}).read_text())
    (tmp_path / "case.json").write_text(json.dumps(document | {"files": {"demand.csv": _packed(bytes(10**6))}}))
    with pytest.raises(topoopt.InputError, match="no content of a file"):
        read_instance(tmp_path / "case.json")
    (tmp_path / "demand.csv").write_text("\n".join(",".join(map(str, row)) for row in MATRIX) + "\n" * 2000)
    problem = read_instance(_instance(tmp_path, {"file": "demand.csv"}))
    assert document_to_embed(problem) is None
