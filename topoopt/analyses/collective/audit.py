"""A verdict on a schedule of anyone: what it does, how long that takes on a network, and what no schedule can beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solvers.stop import Stop
from topoopt.analyses.collective.audit_speed import AuditFindings, AuditSettings, on_network
from topoopt.core.collective import ChunkProgram, CollectiveOp, DeclaredFigures
from topoopt.core.errors import LimitError
from topoopt.core.rated_network import RatedNetwork
from topoopt.verify.laws.schedules import Execution, OrderLimitError, execute


@dataclass(frozen=True)
class Audit:
    """The outcome; `document` for programs."""

    verdict: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    document: Mapping[str, Any]


def audit(program: ChunkProgram, network: RatedNetwork | None, settings: AuditSettings, stop: Stop) -> Audit:
    """Everything that is to be said of a schedule.

    Args:
        network: None: that of the file; where there is none, semantics alone.

    Raises:
        LimitError: the order of its actions takes too long to be examined.
    """
    network = network or program.topology
    try:
        execution = execute(program)
    except OrderLimitError as error:
        raise LimitError(f"the order of the schedule was not settled: {error}") from None
    stated = merged(program.declared, settings.stated)
    relays = relayed(program)
    findings = AuditFindings([*execution.defects], {"multicast": [], "relaying": []}, [*program.notes, *settings.notes])
    findings.notes.extend(_order_notes(program, execution))
    figures: dict[str, Any] = {"recomputed": None, "bound": None, "busiest_links": []}
    if network is None:
        findings.notes.append("no topology: what the schedule does was examined, not how fast it is")
    else:
        if relays:
            findings.needs["relaying"].append(f"{relays} messages are passed on by ranks that they are not from")
        figures |= on_network(program, network, execution, replace(settings, stated=stated), findings, stop)
    verdict, reasons = _verdict(findings, settings)
    document = {
        "verdict": verdict,
        "reasons": list(reasons),
        "claimed": {name: getattr(stated, name) for name in ("vector_bytes", "time_us", "algbw_gbytes_per_s")},
        **figures,
        "collective": program.collective.value,
        "ranks": len(program.ranks),
        "messages": len(program.messages),
        "relayed_messages": relays,
        "notes": findings.notes,
    }
    return Audit(verdict, reasons, tuple(findings.notes), document)


def _verdict(findings: AuditFindings, settings: AuditSettings) -> tuple[str, tuple[str, ...]]:
    """The verdict and its reasons: what is wrong; where nothing is, what is needed and not granted."""
    if findings.defects:
        return "invalid", tuple(f"{one.law}: {one.message}" for one in findings.defects)
    missing = [name for name in ("multicast", "relaying") if findings.needs[name] and not getattr(settings, name)]
    reasons = tuple(f"{name}: {text}" for name in missing for text in findings.needs[name])
    return (f"valid-with-{missing[0]}" if missing else "valid"), reasons


def merged(one: DeclaredFigures, over: DeclaredFigures) -> DeclaredFigures:
    """Figures of the file, those of the user before them; a size and a rate make a time, a time a rate."""
    given = {name: getattr(over, name) for name in over.__dataclass_fields__ if getattr(over, name) is not None}
    if {"algbw_gbytes_per_s", "time_us"} & set(given):
        one = replace(one, time_us=None, algbw_gbytes_per_s=None)
    found = replace(one, **given)
    size, time, rate = found.vector_bytes, found.time_us, found.algbw_gbytes_per_s
    if size and rate and time is None:
        return replace(found, time_us=size / rate / 1e3)
    if size and time and rate is None:
        return replace(found, algbw_gbytes_per_s=size / time / 1e3)
    return found


def _order_notes(program: ChunkProgram, execution: Execution) -> list[str]:
    notes = []
    if execution.through_others:
        notes.append(
            f"{execution.through_others} accesses of ranks to their memory are in order only because of messages with "
            "other ranks; runtimes that run parts of a large vector at once are known to break that (MSCCL)"
        )
    if not program.exact:
        notes.append("the file does not say which bytes are sent: only who can know of whom was examined")
    return notes


def relayed(program: ChunkProgram) -> int:
    """Messages of an All-to-All that leave another rank than the one whose bytes they are."""
    if program.collective is not CollectiveOp.ALL_TO_ALL or not program.exact:
        return 0
    before = np.zeros(program.cells, dtype=np.bool_)
    before[program.start[:, 0]] = True
    own = np.ones(len(program.places), dtype=np.bool_)
    own[program.moves[~before[program.moves[:, 2]], 0]] = False
    return int((~own[program.messages.action]).sum())
