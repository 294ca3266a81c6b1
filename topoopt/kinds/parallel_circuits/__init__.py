"""The kind `parallel-circuits`: configurations of parallel optical switches for one demand."""

from __future__ import annotations

from topoopt.core.data import called_later
from topoopt.core.regional_circuits import ParallelCircuitsPlan
from topoopt.files.results import ResultFormat
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of
from topoopt.kinds.parallel_circuits.read import ParallelCircuitsInstance, resolve

SOLUTION_FILE = ResultFormat("parallel-circuits", ParallelCircuitsPlan, resolve)

RECORDS = (
    Kind(
        name="parallel-circuits",
        files=KindFiles(ParallelCircuitsInstance, resolve, "topoopt.kinds.parallel_circuits"),
        check=called_later("topoopt.verify.parallel_circuits", "CHECKER"),
        solver=at_first_use("topoopt.kinds.parallel_circuits.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.parallel_circuits.page", "ParallelCircuitsFigures"),
        pages=pages_of(at_first_use("topoopt.kinds.parallel_circuits.page", "page")),
    ),
)
