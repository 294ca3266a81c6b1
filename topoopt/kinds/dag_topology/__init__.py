"""The kind `dag-topology`: circuits between pods, from the graph of a job."""

from __future__ import annotations

from topoopt.core.dag_topology import DagTopologyPlan
from topoopt.core.data import called_later
from topoopt.files.results import ResultFormat
from topoopt.kinds.dag_topology.read import DagTopologyInstance, resolve
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of

SOLUTION_FILE = ResultFormat("dag-topology", DagTopologyPlan, resolve)

RECORDS = (
    Kind(
        name="dag-topology",
        files=KindFiles(DagTopologyInstance, resolve, "topoopt.kinds.dag_topology"),
        check=called_later("topoopt.verify.dag_topology", "check"),
        solver=at_first_use("topoopt.kinds.dag_topology.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.dag_topology.page", "DagTopologyFigures"),
        pages=pages_of(at_first_use("topoopt.kinds.dag_topology.page", "page")),
        format_2=at_first_use("topoopt.kinds.dag_topology.methods", "from_format_2"),
        explain=at_first_use("topoopt.kinds.dag_topology.methods", "explain"),
    ),
)
