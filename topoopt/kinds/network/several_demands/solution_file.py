"""Solution files of kind `robust-network`: the same bytes for the same solution, read back as of unknown origin."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.network import LengthCertificate, SourceFlow
from topoopt.core.robust_network import (
    AdaptedRouting,
    CommonRouting,
    RobustMode,
    RobustSolution,
    Sequenced,
    StepTopologies,
)
from topoopt.files.atomic import write_text_atomically
from topoopt.files.checked_file import read_checked
from topoopt.files.faults import Fault
from topoopt.files.solution_head import head_document, head_of, provenance_document, provenance_of
from topoopt.files.solution_text import solution_text
from topoopt.kinds.network.several_demands.solution_schema import AdaptedFile, CommonFile, RobustSolutionFile, StepsFile
from topoopt.kinds.network.solution_file import (
    LIMITS,
    MAX_FLOW_CELLS,
    flow_faults,
    flow_rows,
    flow_table,
    topology_document,
    topology_faults,
    topology_of_file,
)


def robust_solution_document(solution: RobustSolution) -> dict[str, Any]:
    """Plain data of a solution; the long tables come last."""
    routing = solution.routing
    common = adapted = None
    if isinstance(routing, CommonRouting):
        common = {
            "pairs": routing.pairs.tolist(),
            "split": flow_rows(routing.split),
            "prices": routing.prices.tolist(),
        }
    else:
        adapted = {
            "flows": [flow_rows(each.flow) for each in routing.flows],
            "lengths": [proof.lengths.tolist() for proof in routing.certificates],
        }
    return {
        **head_document(solution, bounds={"routing_bound": float(solution.routing_bound)}),
        "routing": solution.mode.value,
        "theta": list(solution.theta),
        "step_ms": solution.step_ms,
        "new_links_every_step": None if solution.steps is None else asdict(solution.steps),
        **provenance_document(solution),
        "topology": topology_document(solution.topology),
        "common": common,
        "adapted": adapted,
    }


def write_robust_solution(solution: RobustSolution, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all.

    Raises:
        TopooptError: a number is NaN or infinite; WriteError: the file cannot be written.
    """
    text = solution_text(robust_solution_document(solution), nested=("topology", "common", "adapted"))
    write_text_atomically(path, text)


def _faults(file: RobustSolutionFile) -> list[Fault]:
    """What the schema cannot state: indices in range, tables of fitting length."""
    n, m, matrices = file.topology.servers, len(file.topology.arcs), len(file.theta)
    faults = topology_faults(file.topology)
    if file.objective.value != max(file.theta):
        value, allowed = repr(file.objective.value), f"{max(file.theta)!r}, the largest theta"
        faults.append(Fault(("objective", "value"), "not what the matrices have", value, allowed))
    given = {"common": file.common, "adapted": file.adapted}
    for key, part in given.items():
        if (part is not None) != (file.routing == key):
            faults.append(Fault((key,), f"routing is {file.routing}", allowed="a mapping for this mode, else null"))
    pairs = 0 if file.common is None else len(file.common.pairs)
    if m * max(n * matrices, pairs) > MAX_FLOW_CELLS:
        text = f"{n} sources, {m} arcs, {matrices} matrices"
        faults.append(Fault(("theta",), "too large", text, f"at most {MAX_FLOW_CELLS} entries"))
    if file.common is not None:
        faults += flow_faults(("common", "split"), file.common.split, len(file.common.pairs), m)
        faults += [
            Fault(("common", "pairs", k), "no such pair", f"{i} -> {j}", f"two of 0 to {n - 1}")
            for k, (i, j) in enumerate(file.common.pairs)
            if max(i, j) >= n or i == j
        ]
        faults += _table_faults(("common", "prices"), file.common.prices, matrices, m)
    if file.adapted is not None:
        flows = file.adapted.flows
        if len(flows) != matrices:
            faults.append(Fault(("adapted", "flows"), "wrong number of matrices", str(len(flows)), str(matrices)))
        for k, rows in enumerate(flows):
            faults += flow_faults(("adapted", "flows", k), rows, n, m)
        faults += _table_faults(("adapted", "lengths"), file.adapted.lengths, matrices, m)
    if file.new_links_every_step is not None:
        for key in ("theta", "rerouted"):
            count = len(getattr(file.new_links_every_step, key))
            if count != matrices:
                faults.append(Fault(("new_links_every_step", key), "wrong length", str(count), str(matrices)))
    return faults


def _table_faults(path: tuple[str | int, ...], table: list[list[float]], rows: int, columns: int) -> list[Fault]:
    if len(table) == rows and all(len(row) == columns for row in table):
        return []
    return [Fault(path, "wrong size", allowed=f"{rows} rows of {columns}")]


def _common(file: CommonFile, m: int) -> CommonRouting:
    pairs = np.array(file.pairs, dtype=np.int64).reshape(-1, 2)
    return CommonRouting(pairs, flow_table(file.split, len(pairs), m), _floats(file.prices, m))


def _floats(rows: list[list[float]], columns: int) -> NDArray[np.float64]:
    return np.array(rows, dtype=np.float64).reshape(-1, columns)


def _adapted(file: AdaptedFile, n: int, m: int) -> AdaptedRouting:
    return AdaptedRouting(
        tuple(SourceFlow(flow_table(rows, n, m)) for rows in file.flows),
        tuple(LengthCertificate(np.array(row, dtype=np.float64)) for row in file.lengths),
    )


def _steps(file: StepsFile | None) -> StepTopologies | None:
    if file is None:
        return None
    sequences = tuple(Sequenced(**each.model_dump()) for each in file.sequences)
    return StepTopologies(tuple(file.theta), tuple(file.rerouted), file.break_even, file.break_even_rerouted, sequences)


def read_robust_solution(path: str | os.PathLike[str]) -> RobustSolution:
    """Read a solution file (JSON) of kind `robust-network`; whether it is right is for the checker to say.

    Raises:
        InputError: everything wrong with the file.
    """
    file = read_checked(path, RobustSolutionFile, _faults, LIMITS)
    n, m = file.topology.servers, len(file.topology.arcs)
    routing: CommonRouting | AdaptedRouting
    if file.common is not None:
        routing = _common(file.common, m)
    elif file.adapted is not None:
        routing = _adapted(file.adapted, n, m)
    else:
        raise AssertionError("a file without routing was not refused")
    return RobustSolution(
        **head_of(file),
        **provenance_of(file),
        mode=RobustMode(file.routing),
        topology=topology_of_file(file.topology),
        routing=routing,
        theta=tuple(file.theta),
        routing_bound=file.routing_bound,
        steps=_steps(file.new_links_every_step),
        step_ms=file.step_ms,
    )
