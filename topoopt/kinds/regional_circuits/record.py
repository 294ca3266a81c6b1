"""The kind `regional-circuits`."""

from __future__ import annotations

from topoopt.kinds.kind import Kind, KindFiles, at_first_use, called_later
from topoopt.kinds.regional_circuits.read import read_regional_circuits
from topoopt.kinds.regional_circuits.schema import RegionalCircuitsFile

RECORDS = (
    Kind(
        name="regional-circuits",
        files=KindFiles(
            RegionalCircuitsFile,
            read_regional_circuits,
            "topoopt.kinds.regional_circuits.solution_file",
        ),
        check=called_later("topoopt.verify.regional_circuits.check", "check_regional_circuits"),
        solver=at_first_use("topoopt.kinds.regional_circuits.solve", "SOLVER"),
        explain=at_first_use("topoopt.kinds.regional_circuits.explain", "explain"),
        pages=at_first_use("topoopt.kinds.regional_circuits.show", "PAGES"),
    ),
)
