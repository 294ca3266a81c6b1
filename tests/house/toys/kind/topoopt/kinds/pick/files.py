"""Files of kind `pick`."""

from __future__ import annotations

from typing import Literal

from topoopt.core.pick import PickProblem, PickSolution

from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.fields import FileModel, FileName, SchemaVersion
from topoopt.files.file_part import Listed
from topoopt.files.findings import Findings
from topoopt.files.search_section import SearchFile
from topoopt.files.solution_format import SolutionFormat
from topoopt.files.solution_head import Notes, Sha256, SolutionHeadFile, Versions


class PickFile(FileModel):
    """Pick some of a list of numbers."""

    schema_version: SchemaVersion
    kind: Literal["pick"]
    name: FileName
    values: list[float]
    count: int
    search: SearchFile = SearchFile()


class PickSolutionFile(SolutionHeadFile):
    """What was picked."""

    core = PickSolution

    kind: Literal["pick-solution"]
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    picked: Listed[int]


SOLUTION_FILE: SolutionFormat[PickSolution] = SolutionFormat(PickSolutionFile, lambda _: ())


def read_pick(document: Document) -> PickProblem:
    """The problem of a document."""
    file = Findings().shaped(PickFile, document)
    sha256 = canonical_sha256(file.model_dump(mode="json"))
    return PickProblem(file.name, tuple(file.values), file.count, file.search.build(), sha256)
