"""What a schedule takes on a network: links, windows, times, and its claims against them and against any schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solvers.stop import Stop
from topoopt.analyses.collective.audit_bound import rate_bound
from topoopt.analyses.collective.audit_network import Placed, placed
from topoopt.core.arrays import Floats
from topoopt.core.collective import NOTHING_DECLARED, ChunkProgram, DeclaredFigures, Defect
from topoopt.core.rated_network import RatedNetwork
from topoopt.verify.laws.schedules import Execution
from topoopt.verify.program_times import (
    MessageRoutes,
    ProgramTimes,
    copies_in_switches,
    early_departures,
    full_windows,
    last_epoch_end_us,
    link_units,
    program_times,
    routed,
)

BUSIEST = 5
CLAIM_SLACK = 1e-6
"""Part by which a claim may be better than what is recomputed: it is rounded when it is written."""


@dataclass(frozen=True)
class AuditSettings:
    """What is granted, and what the file does not say.

    Attributes:
        multicast: switches copy.
        relaying: ranks pass on what others send each other in an All-to-All.
        message_us: of every message.
        stated: what is claimed besides the file, or against it.
        root: rank of a broadcast or reduction.
        notes: on how the network was read.
    """

    multicast: bool = False
    relaying: bool = False
    message_us: float = 0.0
    stated: DeclaredFigures = NOTHING_DECLARED
    root: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditFindings:
    """What is wrong; what is so only if switches copy or ranks relay; what else is to be known."""

    defects: list[Defect]
    needs: dict[str, list[str]]
    notes: list[str] = field(default_factory=list)


def on_network(
    program: ChunkProgram,
    network: RatedNetwork,
    execution: Execution,
    settings: AuditSettings,
    findings: AuditFindings,
    stop: Stop,
) -> dict[str, Any]:
    """The keys `recomputed`, `bound` and `busiest_links`; what is wrong goes to the findings."""
    where = placed(program, network)
    findings.defects.extend(where.defects)
    findings.notes.extend(where.notes)
    stated = settings.stated
    bound = rate_bound(program.collective, network, settings.root, stop, multicast=settings.multicast)
    claim, best = stated.algbw_gbytes_per_s, float(bound.rate)
    if claim is not None and claim > best * (1 + CLAIM_SLACK):
        findings.defects.append(
            Defect("bound", f"claims {claim:.6g} GB/s; no schedule exceeds {best:.6g} GB/s: {bound.words}")
        )
    figures: dict[str, Any] = {"recomputed": None, "bound": bound.document(stated.vector_bytes), "busiest_links": []}
    if where.node is None:
        return figures
    routes = routed(where.program, network, where.node, where.switch)
    findings.defects.extend(routes.defects)
    if stated.vector_bytes is None:
        findings.notes.append("neither the file nor --bytes states a size: no times")
        return figures
    shares = len(network.ranks) / len(program.ranks) if program.per_share else 1.0
    units = program.vector_units * shares
    unit_bytes = stated.vector_bytes / units if units else 1.0  # where no chunks are told units are bytes
    unit_us = unit_bytes / (network.gbytes_per_s * 1e3)
    figures["busiest_links"] = _busiest(where.program, network, routes, unit_us)
    last_epoch = None
    if stated.epoch_us is not None and not routes.defects:
        last_epoch = _epochs(where.program, network, routes, unit_us, stated.epoch_us, findings)
    if len(execution.order.actions) == len(program.places):
        figures["recomputed"] = _times(where, network, execution, settings, unit_us, routes, findings, last_epoch, best)
    return figures


def _busiest(
    program: ChunkProgram, network: RatedNetwork, routes: MessageRoutes, unit_us: Floats
) -> list[dict[str, Any]]:
    """The links that need most time for what they carry."""
    loads = link_units(program, network, routes)
    busy = loads.single * unit_us
    return [
        {
            "tail": network.names[network.arcs[arc, 0]],
            "head": network.names[network.arcs[arc, 1]],
            "busy_us": float(busy[arc]),
            "busy_us_with_multicast": float(loads.multicast[arc] * unit_us[arc]),
        }
        for arc in np.argsort(-busy, kind="stable")[:BUSIEST].tolist()
        if loads.single[arc]
    ]


def _epochs(
    program: ChunkProgram,
    network: RatedNetwork,
    routes: MessageRoutes,
    unit_us: Floats,
    epoch_us: float,
    findings: AuditFindings,
) -> float:
    """Windows and departures of a schedule in epochs; the end of its last one, us."""
    single, copied = (
        full_windows(program, network, routes, unit_us, epoch_us, multicast=multicast) for multicast in (False, True)
    )
    findings.defects.extend(copied)
    if not copied:
        findings.needs["multicast"].extend(one.message for one in single)
    findings.defects.extend(early_departures(program, network, routes, unit_us, epoch_us))
    return last_epoch_end_us(program, network, routes, unit_us, epoch_us)


def _times(
    where: Placed,
    network: RatedNetwork,
    execution: Execution,
    settings: AuditSettings,
    unit_us: Floats,
    routes: MessageRoutes,
    findings: AuditFindings,
    last_epoch: float | None,
    best: float,
) -> dict[str, Any]:
    """Times with and without copies in switches, and what they say of the claim."""

    def run(multicast: bool) -> ProgramTimes:
        return program_times(
            where.program, network, execution.order, routes, unit_us, settings.message_us, multicast=multicast
        )

    single = run(False)
    copied = run(True) if last_epoch is not None and copies_in_switches(routes) else single
    _check_claim(settings.stated.time_us, single, copied, last_epoch, findings)
    used = copied if settings.multicast else single
    size = settings.stated.vector_bytes
    assert size is not None
    rate = size / used.makespan_us / 1e3 if used.makespan_us else None
    if rate is not None and rate > best * (1 + CLAIM_SLACK) and not findings.defects:
        text = f"executed it reaches {rate:.6g} GB/s of {size:.6g} bytes, no schedule exceeds {best:.6g} GB/s"
        findings.defects.append(Defect("bound", f"{text}: it sends too few bytes for them"))
    return {
        "time_us": used.makespan_us,
        "algbw_gbytes_per_s": rate,
        "part_of_bound": None if rate is None else rate / best,
        "time_us_with_multicast": copied.makespan_us,
        "time_us_by_steps": used.step_us if np.isfinite(used.step_us) else None,
        "time_us_by_epochs": last_epoch,
        "busiest_link_us": single.busy_us,
        "busiest_link_us_with_multicast": copied.busy_us,
        "steps": used.steps,
    }


def _check_claim(
    claim: float | None, single: ProgramTimes, copied: ProgramTimes, last_epoch: float | None, findings: AuditFindings
) -> None:
    """A claim that is better than the bytes of a link, the last epoch, or without epochs the execution, allow."""
    if claim is None:
        return
    least = claim * (1 + CLAIM_SLACK)
    text = f"claims {claim:.6g} us; "
    if copied.busy_us > least:
        findings.defects.append(Defect("claim", f"{text}its busiest link needs {copied.busy_us:.6g} us"))
    elif single.busy_us > least:
        need = f"{text}without copies in switches its busiest link needs {single.busy_us:.6g} us"
        findings.needs["multicast"].append(need)
    elif last_epoch is None and single.makespan_us > least:
        findings.defects.append(Defect("claim", f"{text}executed it takes {single.makespan_us:.6g} us"))
    if last_epoch is not None and last_epoch > least:
        findings.defects.append(
            Defect("claim", f"{text}its last message comes by the epoch that ends at {last_epoch:.6g} us")
        )
