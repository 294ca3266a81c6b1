"""An audit of a schedule says what it does, how long that takes on a network, and what rate no schedule exceeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from solvers.collective.best_rates import limiting
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.collective import (
    NOTHING_DECLARED,
    ChunkProgram,
    CollectiveOp,
    CollectiveProblem,
    DeclaredFigures,
    Defect,
)
from topoopt.core.errors import LimitError
from topoopt.core.rated_network import RatedNetwork
from topoopt.kinds.collective.figures import rate_sentence
from topoopt.page.text import counted, percent, precise
from topoopt.verify.collective import bandwidth_us
from topoopt.verify.laws.schedules import Execution, OrderLimitError, execute
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


@dataclass(frozen=True, eq=False)
class Placed:
    """A program on a network.

    Attributes:
        program: as it is executed there.
        node: int64[ranks], node of every rank; None: they are too many.
        switch: node of every switch that the schedule names.
        defects, notes: what does not fit, what was assumed.
    """

    program: ChunkProgram
    node: Ints | None
    switch: dict[str, int]
    defects: tuple[Defect, ...]
    notes: tuple[str, ...]


def placed(program: ChunkProgram, network: RatedNetwork) -> Placed:
    """Ranks and switches by their names, else one after the other, else by their numbers.

    Names fit when all ranks are nodes of the network. Otherwise the k-th rank is the k-th compute node, and the k-th
    switch the k-th switch, if there are as many; and if not, numbers count.
    """
    ranks, nodes = network.ranks, {name: node for node, name in enumerate(network.names)}
    named = sorted({name for path in program.vias for name in path}, key=lambda name: (len(name), name))
    notes: list[str] = []
    switch: dict[str, int] = {}
    by_name = [nodes.get(name, -1) for name in program.ranks]
    by_number = [int(name) if name.isdecimal() and int(name) < network.nodes else -1 for name in program.ranks]
    if min(by_name) >= 0:
        chosen = by_name
        switch = {name: nodes.get(name, -1) for name in named}
    elif len(program.ranks) == len(ranks):
        chosen = ranks.tolist()
        own = np.flatnonzero(network.is_switch).tolist()
        if len(named) == len(own):
            switch = dict(zip(named, own, strict=True))
            if by_number != chosen:
                notes.append("ranks and switches of the file are those of the topology in the order of their numbers")
        elif named:
            notes.append("the switches of the file are not told apart: ways are those with fewest switches")
    elif min(by_number) >= 0:
        chosen = by_number
        switch = {name: int(name) if name.isdecimal() and int(name) < network.nodes else -1 for name in named}
    else:
        text = f"the schedule has {len(program.ranks)} ranks, the topology {len(ranks)} compute nodes"
        return Placed(program, None, {}, (Defect("ranks", text),), ())
    defects = _roles(program, network, chosen, switch)
    if named and not switch:
        program = _without_paths(program)
    return Placed(program, np.array(chosen, dtype=np.int64), switch, tuple(defects), tuple(notes))


def _without_paths(program: ChunkProgram) -> ChunkProgram:
    messages = program.messages
    return replace(program, messages=replace(messages, via=np.full(len(messages), -1, dtype=np.int32)), vias=())


def _roles(program: ChunkProgram, network: RatedNetwork, chosen: list[int], switch: dict[str, int]) -> list[Defect]:
    defects = []
    compute = set(network.ranks.tolist())
    n, k = len(compute), len(program.ranks)
    wrong = [name for name, node in zip(program.ranks, chosen, strict=True) if node not in compute]
    if wrong:
        defects.append(Defect("ranks", f"rank {wrong[0]} of the schedule is a switch of the topology"))
    computing = [name for name, node in switch.items() if node in compute]
    if computing:
        defects.append(Defect("ranks", f"node {computing[0]} is a rank of the topology, and a switch in the schedule"))
    missing = sorted(compute - set(chosen))
    if missing:
        names = ", ".join(network.names[node] for node in missing[:5])
        defects.append(
            Defect(
                "ranks",
                f"{k} of {n} ranks are sources and destinations, {k * (k - 1)} of {n * (n - 1)} pairs: not {names}"
                + (" ..." if len(missing) > 5 else ""),
            )
        )
    return defects


def rate_bound(
    collective: CollectiveOp, network: RatedNetwork, root: int, stop: Stop, *, multicast: bool = False
) -> tuple[Fraction, list[str], str]:
    """GB/s of the whole vector that no schedule exceeds, the nodes of the limiting set, and why.

    The bound of each collective is derived anew from its proof in rationals.

    Args:
        multicast: whether switches copy, which may help an AllReduce.
    """
    problem = CollectiveProblem("bound", network, collective, 10**9, root, multicast=multicast)
    certificates = limiting(problem, stop)
    rate = Fraction(10**6) / bandwidth_us(problem, certificates)
    if collective is CollectiveOp.ALL_TO_ALL:
        pair = float(rate) / len(network.ranks)
        words = f"every ordered pair gets {pair:.6g} GB/s at most: rates of links over distances of pairs"
        return rate, [], words
    turned = collective in (CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE)
    cut = certificates[-1]["nodes"].tolist()
    words = rate_sentence(network.transposed(), cut, "leave") if turned else rate_sentence(network, cut)
    return rate, [network.names[node] for node in cut], words


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
        declared: what is claimed besides the file, or against it.
        root: rank of a broadcast or reduction.
        notes: on how the network was read.
    """

    multicast: bool = False
    relaying: bool = False
    message_us: float = 0.0
    declared: DeclaredFigures = NOTHING_DECLARED
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
    declared = settings.declared
    rate, cut, words = rate_bound(program.collective, network, settings.root, stop, multicast=settings.multicast)
    claim, best, size = declared.algbw_gbytes_per_s, float(rate), declared.vector_bytes
    if claim is not None and claim > best * (1 + CLAIM_SLACK):
        findings.defects.append(
            Defect("bound", f"claims {claim:.6g} GB/s; no schedule exceeds {best:.6g} GB/s: {words}")
        )
    bound = {
        "algbw_gbytes_per_s": best,
        "time_us": None if size is None else size / best / 1e3,
        "cut": cut,
        "cut_in_words": words,
    }
    figures: dict[str, Any] = {"recomputed": None, "bound": bound, "busiest_links": []}
    if where.node is None:
        return figures
    routes = routed(where.program, network, where.node, where.switch)
    findings.defects.extend(routes.defects)
    if size is None:
        findings.notes.append("neither the file nor --bytes states a size: no times")
        return figures
    shares = len(network.ranks) / len(program.ranks) if program.per_share else 1.0
    units = program.vector_units * shares
    unit_bytes = size / units if units else 1.0  # where no chunks are told units are bytes
    unit_us = unit_bytes / (network.gbytes_per_s * 1e3)
    figures["busiest_links"] = _busiest(where.program, network, routes, unit_us)
    last_epoch = None
    if declared.epoch_us is not None and not routes.defects:
        last_epoch = _epochs(where.program, network, routes, unit_us, declared.epoch_us, findings)
    if len(execution.order.actions) == len(program.places):
        figures["recomputed"] = _times(where, network, execution, settings, unit_us, routes, findings, last_epoch, best)
    return figures


def _busiest(
    program: ChunkProgram, network: RatedNetwork, routes: MessageRoutes, unit_us: Floats
) -> list[dict[str, Any]]:
    """The links that need most time for what they carry."""
    single, multicast = link_units(program, network, routes)
    busy = single * unit_us
    return [
        {
            "tail": network.names[network.arcs[arc, 0]],
            "head": network.names[network.arcs[arc, 1]],
            "busy_us": float(busy[arc]),
            "busy_us_with_multicast": float(multicast[arc] * unit_us[arc]),
        }
        for arc in np.argsort(-busy, kind="stable")[:BUSIEST].tolist()
        if single[arc]
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
        findings.needs["multicast"].extend(defect.message for defect in single)
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
    _check_claim(settings.declared.time_us, single, copied, last_epoch, findings)
    used = copied if settings.multicast else single
    size = settings.declared.vector_bytes
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
    declared = merged(program.declared, settings.declared)
    relays = relayed(program)
    findings = AuditFindings([*execution.defects], {"multicast": [], "relaying": []}, [*program.notes, *settings.notes])
    findings.notes.extend(_order_notes(program, execution))
    figures: dict[str, Any] = {"recomputed": None, "bound": None, "busiest_links": []}
    if network is None:
        findings.notes.append("no topology: what the schedule does was examined, not how fast it is")
    else:
        if relays:
            findings.needs["relaying"].append(f"{relays} messages are passed on by ranks that they are not from")
        figures |= on_network(program, network, execution, replace(settings, declared=declared), findings, stop)
    verdict, reasons = _verdict(findings, settings)
    document = {
        "verdict": verdict,
        "extent": "semantics only" if network is None else "semantics and time",
        "reasons": list(reasons),
        "claimed": {name: getattr(declared, name) for name in ("vector_bytes", "time_us", "algbw_gbytes_per_s")},
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
        return "invalid", tuple(f"{defect.law}: {defect.message}" for defect in findings.defects)
    missing = [name for name in ("multicast", "relaying") if findings.needs[name] and not getattr(settings, name)]
    reasons = tuple(f"{name}: {text}" for name in missing for text in findings.needs[name])
    return (f"valid-with-{missing[0]}" if missing else "valid"), reasons


def merged(declared: DeclaredFigures, over: DeclaredFigures) -> DeclaredFigures:
    """Figures of the file, those of the user before them; a size and a rate make a time, a time a rate."""
    given = {name: getattr(over, name) for name in over.__dataclass_fields__ if getattr(over, name) is not None}
    if {"algbw_gbytes_per_s", "time_us"} & set(given):
        declared = replace(declared, time_us=None, algbw_gbytes_per_s=None)
    result = replace(declared, **given)
    size, time, rate = result.vector_bytes, result.time_us, result.algbw_gbytes_per_s
    if size and rate and time is None:
        return replace(result, time_us=size / rate / 1e3)
    if size and time and rate is None:
        return replace(result, algbw_gbytes_per_s=size / time / 1e3)
    return result


def _order_notes(program: ChunkProgram, execution: Execution) -> list[str]:
    notes = []
    if execution.through_others:
        notes.append(
            f"{execution.through_others} accesses of ranks to their memory are in order only because of messages with "
            "other ranks; runtimes that run parts of a large vector at once are known to break that (MSCCL)"
        )
    if execution.orders_differ:
        notes.append(
            f"ranks add {counted(execution.orders_differ, 'part')} of the vector in different orders: their sums of "
            "floating-point numbers may differ in the last bits"
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


CONDITIONS = {
    "valid": "The schedule is right",
    "valid-with-multicast": "The schedule is right only where switches copy",
    "valid-with-relaying": "The schedule is right only where ranks may pass on what is not for them",
}
"""What verdicts mean."""


def audit_answer(document: Mapping[str, Any]) -> str:
    """The verdict, with the figures that were computed; a wrong schedule has none."""
    job = f"{document['collective']} of {counted(document['ranks'], 'rank')}"
    if document["verdict"] == "invalid":
        reasons = counted(len(document["reasons"]), "reason")
        return f"The schedule is wrong as {job} ({reasons}): its figures prove nothing."
    text = f"{CONDITIONS[document['verdict']]}, as {job}"
    recomputed, bound = document["recomputed"], document["bound"]
    rate = None if recomputed is None else recomputed["algbw_gbytes_per_s"]
    if rate is not None:
        text += f": {precise(rate)} GB/s, {percent(recomputed['part_of_bound'])} of what no schedule exceeds (proven)"
    elif bound is not None:
        text += f"; no schedule exceeds {precise(bound['algbw_gbytes_per_s'])} GB/s (proven), its own rate is not known"
    else:
        text += "; semantics only, how fast it is was not examined"
    return f"{text}."
