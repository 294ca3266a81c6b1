"""Solution files of network problems."""

from __future__ import annotations

import math
from typing import Any

from topoopt.core.arrays import Int32s
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.turned_rows import turns_of
from topoopt.files.faults import Fault, Path, table_faults
from topoopt.files.link_tree_part import link_tree_faults
from topoopt.files.solution_format import SolutionFormat
from topoopt.files.topology_part import topology_faults
from topoopt.kinds.network.block_tree_part import block_tree_faults
from topoopt.kinds.network.solution_schema import AdaptedPart, CommonPart, FlowRow, NetworkSolutionFile, RobustnessPart

MAX_FLOW_CELLS = 1 << 27
"""Entries of the tables row x arc that are made of a file (1 GiB)."""


def _faults(file: NetworkSolutionFile) -> list[Fault]:
    """What the schema cannot state: indices in range, tables of fitting length."""
    n, m = file.topology.servers, len(file.topology.arcs)
    faults = [*topology_faults(file.topology), *_bound_faults(file)]
    if m == 0:
        return [*faults, Fault(("topology", "arcs"), "no links", allowed="at least one")]
    if isinstance(file.routing, CommonPart):
        rows = len(file.routing.pairs) + len(file.routing.prices)
        faults += _common_faults(file.routing, n, m)
    else:
        rows = sum(map(len, file.routing.flows)) + n * sum(map(len, file.routing.hop_flows or ()))
        faults += _adapted_faults(file.routing, n, None if faults else file.topology.arcs[:, :2], m)
    rows += n * len(file.robustness.failures if file.robustness is not None else ())
    faults += _robustness_faults(file.robustness, n, m)
    if rows * m > MAX_FLOW_CELLS:
        faults.append(Fault(("routing",), "too large", f"{rows} rows, {m} arcs", f"at most {MAX_FLOW_CELLS} entries"))
    d = file.topology.degree
    for index, network in enumerate(file.enumeration or ()):
        both: tuple[list[list[Any]], ...] = (network.heads, network.lengths)
        if any(len(table) != n or any(len(row) != d for row in table) for table in both):
            faults.append(Fault(("enumeration", index), "wrong size", allowed=f"{n} rows of {d}"))
    if file.tree is not None:
        faults += link_tree_faults(file.tree, n, ("tree",))
    if file.blocks is not None:
        faults += block_tree_faults(file.blocks, n, ("blocks",))
    if file.layer_prices is not None:
        tables = {"alpha": file.layer_prices.alpha, "beta": file.layer_prices.beta}
        faults += [
            Fault(("layer_prices", name), "wrong size", allowed=f"rows of {n}")
            for name, table in tables.items()
            if any(len(row) != n for row in table)
        ]
    if file.relay_prices is not None:
        faults += file.relay_prices.faults(n, ("relay_prices",))
    if file.relay_cases is not None:
        faults += file.relay_cases.faults(n, ("relay_cases",))
    return faults


def _bound_faults(file: NetworkSolutionFile) -> list[Fault]:
    chosen = file.kind == "topology-solution"
    if chosen == (file.routing_bound is not None):
        return []
    allowed = "a number" if chosen else "left out: it is the bound"
    return [Fault(("routing_bound",), "missing" if chosen else "stated twice", allowed=allowed)]


def _robustness_faults(part: RobustnessPart | None, n: int, m: int) -> list[Fault]:
    if part is None:
        return []
    faults = []
    if part.failures and part.lengths is None:
        faults.append(Fault(("robustness", "lengths"), "missing", allowed="one for each arc beside failures"))
    if part.lengths is not None:
        faults += table_faults(("robustness", "lengths"), [part.lengths], 1, m)
    for k, (_, _, rows) in enumerate(part.failures):
        faults += _flow_faults(("robustness", "failures", k), rows, n, m)
    return faults


def _adapted_faults(part: AdaptedPart, n: int, arcs: Int32s | None, m: int) -> list[Fault]:
    demands, boxes = len(part.flows), part.boxes or [[] for _ in part.flows]
    faults = table_faults(("routing", "lengths"), part.lengths, demands, m)
    if (count := len(part.hop_flows or part.flows)) != demands:
        faults.append(Fault(("routing", "hop_flows"), "wrong number of demands", str(count), str(demands)))
    if len(boxes) != demands:
        return [*faults, Fault(("routing", "boxes"), "wrong number of demands", str(len(boxes)), str(demands))]
    for k, (rows, box) in enumerate(zip(part.flows, boxes, strict=True)):
        if box and (math.prod(box) != n or len(rows) != 1):
            allowed = f"sizes whose product is {n}, beside a flow of one row"
            faults.append(Fault(("routing", "boxes", k), "no box of the servers", str(box), allowed))
            continue
        alone = len(rows) == 1 and part.hop_flows is None
        alone = alone and arcs is not None and turns_of(arcs, n, tuple(box)) is not None
        faults += _flow_faults(("routing", "flows", k), rows, 1 if alone else n, m)
    for k, hops in enumerate(part.hop_flows or ()):
        for hop, rows in enumerate(hops):
            faults += _flow_faults(("routing", "hop_flows", k, hop), rows, n, m)
    return faults


def _common_faults(part: CommonPart, n: int, m: int) -> list[Fault]:
    faults = _flow_faults(("routing", "split"), part.split, len(part.pairs), m)
    faults += [
        Fault(("routing", "pairs", k), "no such pair", f"{i} -> {j}", f"two of 0 to {n - 1}")
        for k, (i, j) in enumerate(part.pairs)
        if max(i, j) >= n or i == j
    ]
    faults += table_faults(("routing", "amounts"), part.amounts, len(part.prices), len(part.pairs))
    return faults + table_faults(("routing", "prices"), part.prices, len(part.prices), m)


def _flow_faults(path: Path, rows: list[FlowRow], n: int, m: int) -> list[Fault]:
    """What is wrong with rows that should fill a table of n x m."""
    faults = []
    if len(rows) != n:
        faults.append(Fault(path, "wrong number of rows", str(len(rows)), str(n)))
    for place, (arcs, amounts) in enumerate(rows):
        if len(arcs) != len(amounts) or len(set(arcs)) < len(arcs) or any(arc >= m for arc in arcs):
            allowed = f"arcs 0 to {m - 1}, each once"
            faults.append(Fault((*path, place), "arcs and amounts do not fit", allowed=allowed))
    return faults


SOLUTION_FILE: SolutionFormat[NetworkSolution] = SolutionFormat(
    NetworkSolutionFile, _faults, rows=("enumeration",), nested=("topology", "routing", "tree")
)
