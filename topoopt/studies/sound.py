"""What is sound in a study file that has faults, so that more of them can be told at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from topoopt.files.documents import Document
from topoopt.files.faults import Fault
from topoopt.files.findings import fitting
from topoopt.studies.schema import StudyFile


def at_their_place(fault: Fault, kept: Sequence[int]) -> Fault:
    """A fault with the position that its group has in the file."""
    if len(fault.path) > 1 and fault.path[0] == "instances" and isinstance(fault.path[1], int):
        return replace(fault, path=("instances", kept[fault.path[1]], *fault.path[2:]))
    return fault


def sound_part(document: Document, faults: list[Fault]) -> tuple[StudyFile | None, Sequence[int]]:
    """A study file without the sections that have faults, and its groups without any, with their positions; None if
    that leaves none."""
    if not isinstance(document.data, dict):
        return None, ()
    bad = {fault.path[0] for fault in faults if fault.path}
    bad_groups = {fault.path[1] for fault in faults if len(fault.path) > 1 and fault.path[0] == "instances"}
    sound = {key: value for key, value in document.data.items() if key not in bad and key in StudyFile.model_fields}
    groups = document.data.get("instances")
    kept = [index for index in range(len(groups)) if index not in bad_groups] if isinstance(groups, list) else []
    if isinstance(groups, list):
        sound["instances"] = [groups[index] for index in kept]
    return fitting(StudyFile, {"schema_version": 1, "kind": "study", "name": "study", **sound}), kept
