"""What the schema of a solution file cannot state: that its parts fit each other, so that no index leads astray.

Whether the plan is any good is the checker's business; here only what would make arrays disagree is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from topoopt.files.faults import Fault, Path
from topoopt.files.group_schedule_part import group_schedule_faults
from topoopt.files.link_tree_part import link_tree_faults
from topoopt.kinds.job.plan_parts import GroupRingsPart, PlanPart, RoutesPart
from topoopt.kinds.job.solution_schema import EvaluationPart, JobSolutionFile

_MOST = 50
"""Faults reported of one table."""

_MANY = 1000
"""Faults beyond which the rest of a file is not looked at."""


def _above(values: Iterable[int], limit: int) -> int | None:
    """The first value that is not below the limit."""
    return next((value for value in values if value >= limit), None)


def _servers(values: Iterable[int], n: int, path: Path, *, distinct: bool = False) -> list[Fault]:
    listed = list(values)
    bad = _above(listed, n)
    if bad is not None:
        return [Fault(path, "no such server", str(bad), f"servers 0 to {n - 1}")]
    if distinct and len(set(listed)) < len(listed):
        return [Fault(path, "a server more than once", allowed="each server once")]
    return []


def _topology(plan: PlanPart, n: int) -> list[Fault]:
    topology, path = plan.topology, ("plan", "topology")
    faults = []
    ends = topology.arcs[:, :2]
    for index in np.flatnonzero((ends >= n).any(axis=1)).tolist():
        faults += _servers(ends[index].tolist(), n, (*path, "arcs", index))
    if len(np.unique(ends, axis=0)) < len(ends):
        faults.append(Fault((*path, "arcs"), "an arc more than once", allowed="each arc once, with its multiplicity"))
    if len(topology.switches) != topology.degree:
        allowed = f"{topology.degree}, one for each interface"
        faults.append(Fault((*path, "switches"), "wrong number of switches", str(len(topology.switches)), allowed))
    for index, switch in enumerate(topology.switches):
        if len(switch) != n:
            allowed = f"{n}, one for each server"
            faults.append(Fault((*path, "switches", index), "wrong number of entries", str(len(switch)), allowed))
        faults += _servers(switch, n, (*path, "switches", index))
    return faults + _servers(topology.offsets, n, (*path, "offsets"))


def _routes(routes: RoutesPart, n: int) -> list[Fault]:
    base: Path = ("plan", "routes")
    faults = []
    if routes.nodes_total < n:
        faults.append(Fault((*base, "nodes_total"), "fewer nodes than servers", str(routes.nodes_total), f"from {n}"))
    previous = (-1, -1)
    for index, (source, target, paths) in enumerate(routes.pairs):
        where = (*base, "pairs", index)
        faults += _servers((source, target), n, where)
        if (source, target) <= previous:
            allowed = "pairs in ascending order, each once"
            faults.append(Fault(where, "pairs out of order", f"{source}, {target}", allowed))
        previous = (source, target)
        for position, (_, nodes) in enumerate(paths):
            bad = _above(nodes, routes.nodes_total)
            if bad is not None:
                allowed = f"nodes 0 to {routes.nodes_total - 1}"
                faults.append(Fault((*where, 2, position, 1), "no such node", str(bad), allowed))
        if len(faults) > _MOST:
            break
    return faults


def _rings(groups: tuple[GroupRingsPart, ...], n: int) -> list[Fault]:
    faults = []
    for index, group in enumerate(groups):
        where: Path = ("plan", "rings", index)
        faults += _servers(group.members, n, (*where, "members"), distinct=True)
        if not group.members or not group.rings:
            faults.append(Fault(where, "a group without members or rings", allowed="at least one of each"))
        for position, ring in enumerate(group.rings):
            at = (*where, "rings", position)
            faults += _servers(ring.order, n, (*at, "order"))
            if sorted(ring.order) != sorted(group.members):
                faults.append(Fault((*at, "order"), "not an order of the members", allowed="each member once"))
            if len(ring.paths) != len(ring.order):
                allowed = f"{len(ring.order)}, one from each member to the next"
                faults.append(Fault((*at, "paths"), "wrong number of paths", str(len(ring.paths)), allowed))
            for step, nodes in enumerate(ring.paths):
                faults += _servers(nodes, n, (*at, "paths", step))
                if len(nodes) < 2 and len(ring.order) > 1:
                    allowed = "from a member to the next, both named"
                    faults.append(Fault((*at, "paths", step), "a path of one server", str(nodes), allowed))
        if len(faults) > _MOST:
            break
    return faults


def _evaluation(evaluation: EvaluationPart, arcs: int, n: int) -> list[Fault]:
    faults = []
    if (given := len(evaluation.link_bytes)) != arcs:
        where = ("evaluation", "link_bytes")
        faults.append(Fault(where, "wrong number of values", str(given), f"{arcs}, one for each arc"))
    for name, spans in (("timeline", evaluation.timeline), ("critical_path", evaluation.critical_path)):
        for index, span in enumerate(spans):
            faults += _servers((max(span.lane, 0),), n, ("evaluation", name, index))
            if len(faults) > _MOST:
                return faults
    return faults


def solution_faults(file: JobSolutionFile) -> list[Fault]:
    """Everything that does not fit, about the first fifty of each table."""
    n = file.cluster.servers
    faults = []
    for where, servers in (
        (("plan", "topology", "servers"), file.plan.topology.servers),
        (("demand", "servers"), file.demand.servers),
    ):
        if servers != n:
            faults.append(Fault(where, "not the servers of the cluster", str(servers), str(n)))
    placements = file.plan.strategy
    if len(placements) != len(file.operators):
        allowed = f"{len(file.operators)}, one for each entry of operators"
        faults.append(Fault(("plan", "strategy"), "wrong number of placements", str(len(placements)), allowed))
    for index, placement in enumerate(placements):
        faults += _servers((placement.offset,), n, ("plan", "strategy", index))[:_MOST]
    for index, choice in enumerate(file.operators):
        faults += _servers(choice.servers, n, ("operators", index, "servers"))
    if file.joint is not None:
        faults += link_tree_faults(file.joint.tree, n, ("joint", "tree"))
    faults += _topology(file.plan, n)
    faults += _routes(file.plan.routes, n)
    faults += _rings(file.plan.rings, n)
    faults += group_schedule_faults(file.plan.schedules, n, ("plan", "schedules"))
    seen: set[tuple[int, int]] = set()
    for index, (source, target, _) in enumerate(file.demand.model_parallel_bytes):
        row: Path = ("demand", "model_parallel_bytes", index)
        faults += _servers((source, target), n, row)
        if (source, target) in seen:
            faults.append(Fault(row, "a pair more than once", f"{source}, {target}", "each pair once"))
        seen.add((source, target))
        if len(faults) > _MANY:
            break
    for index, (_, members) in enumerate(file.demand.allreduce):
        faults += _servers(members, n, ("demand", "allreduce", index), distinct=True)
    return faults + _evaluation(file.evaluation, len(file.plan.topology.arcs), n)
