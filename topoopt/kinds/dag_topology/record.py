"""The kind `dag-topology`."""

from __future__ import annotations

from topoopt.kinds.dag_topology.read import read_dag_topology
from topoopt.kinds.dag_topology.schema import DagTopologyFile
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, called_later

RECORDS = (
    Kind(
        name="dag-topology",
        files=KindFiles(
            DagTopologyFile,
            read_dag_topology,
            "topoopt.kinds.dag_topology.solution_file",
        ),
        check=called_later("topoopt.verify.dag_topology.check", "check_dag_topology"),
        solver=at_first_use("topoopt.kinds.dag_topology.solve", "SOLVER"),
        explain=at_first_use("topoopt.kinds.dag_topology.explain", "explain"),
        pages=at_first_use("topoopt.kinds.dag_topology.show", "PAGES"),
    ),
)
