"""The kind `regional-circuits`: circuits of an optical switch for all-to-all traffic, beside an electrical network."""

from __future__ import annotations

from topoopt.core.data import called_later
from topoopt.core.regional_circuits import RegionalCircuitsPlan
from topoopt.files.results import ResultFormat
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of
from topoopt.kinds.regional_circuits.read import RegionalCircuitsInstance, resolve

SOLUTION_FILE = ResultFormat("regional-circuits", RegionalCircuitsPlan, resolve)

RECORDS = (
    Kind(
        name="regional-circuits",
        files=KindFiles(RegionalCircuitsInstance, resolve, "topoopt.kinds.regional_circuits"),
        check=called_later("topoopt.verify.regional_circuits", "CHECKER"),
        solver=at_first_use("topoopt.kinds.regional_circuits.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.regional_circuits.page", "RegionalCircuitsFigures"),
        pages=pages_of(at_first_use("topoopt.kinds.regional_circuits.page", "page")),
        format_2=at_first_use("topoopt.kinds.regional_circuits.methods", "from_format_2"),
        explain=at_first_use("topoopt.kinds.regional_circuits.methods", "explain"),
    ),
)
