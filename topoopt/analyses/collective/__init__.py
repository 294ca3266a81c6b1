"""`topoopt collective`: its commands bound rates, find topologies, audit schedules, and set circuits anew between
steps.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from annotated_types import Ge, Le
from rich.console import Console
from rich.markup import escape

from topoopt.core.cluster import LinkDirection
from topoopt.core.collective import DeclaredFigures
from topoopt.core.errors import CheckError, InputError, Problem, raise_any
from topoopt.core.proofs import StopReason
from topoopt.page import options
from topoopt.page.output import EXIT_OF_STOP, Output, say
from topoopt.page.render import TerminalTable
from topoopt.page.text import byte_size, counted, number

if TYPE_CHECKING:
    from topoopt.analyses.collective.bounds import BoundRow
    from topoopt.analyses.collective.search import AllReduceCost, TopologyFront


WORDS = {
    StopReason.TIME: "the time limit",
    StopReason.MEMORY: "a lack of memory",
    StopReason.INTERRUPTED: "an interrupt",
}


def early_end(stopped_by: StopReason) -> list[str]:
    """A line where a search did not end by itself."""
    return [f"ended early by {WORDS[stopped_by]}: this is the best so far"] if stopped_by in EXIT_OF_STOP else []


@contextmanager
def collection_halted() -> Iterator[None]:
    """No garbage collection meanwhile: millions of small rows without cycles are looked through again and again."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


_CLAIM = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?) ?(GB/s|MB/s|us|ms|s)")
_SCALE = {"GB/s": 1.0, "MB/s": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


def claim_figures(text: str | None) -> DeclaredFigures:
    """What `--claim` says: a rate or a time.

    Raises:
        InputError: neither.
    """
    if text is None:
        return DeclaredFigures()
    match = _CLAIM.fullmatch(text.strip())
    value = 0.0 if match is None else float(match[1]) * _SCALE[match[2]]
    if match is None or not 0 < value < 1e15:
        raise InputError(
            [Problem("not a rate or time", path="--set claim", value=text, allowed="like 3.5GB/s, 10.75us")]
        )
    if match[2].endswith("/s"):
        return DeclaredFigures(algbw_gbytes_per_s=value)
    return DeclaredFigures(time_us=value)


AUDIT_SETTINGS = {
    "root": Annotated[int, Ge(0)],
    "claim": str,
    "message_us": Annotated[float, Ge(0.0), Le(1e6)],
    "multicast": bool,
    "relaying": bool,
    "rate_attribute": str,
}


def audit(
    schedule: Annotated[Path, typer.Argument(help="File of the schedule; chakra: a folder or prefix of .et files.")],
    form: Annotated[str, typer.Option("--format", help="msccl, mscclpp, teccl, forestcoll, sccl or chakra.")],
    topology: Annotated[str | None, typer.Option(help="As for `bound`; without it semantics alone.")] = None,
    collective: options.Collective = None,
    vector: options.Bytes = None,
    time_limit: options.TimeLimit = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Execute a schedule of anyone, and say whether it is right, how fast it is, and how fast any could be.

    --collective and --bytes are for what the file does not say. Settings: `claim`, a rate (3.5GB/s) or a time
    (10.75us); `root` of a broadcast or reduction (0); `message_us`, time of a message besides its bytes (0);
    `multicast`, switches copy; `relaying`, ranks pass on what is not for them; `rate_attribute`, the attribute or
    column of links in a network file that is their rate.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.audits import Audit, AuditSettings, audit_answer
        from topoopt.analyses.collective.audits import audit as examined
        from topoopt.analyses.collective.bounds import network_argument
        from topoopt.files.issues import nearest_text, value_text
        from topoopt.formats.schedules import NAMES, SCHEDULES, ScheduleOptions, collective_named
        from topoopt.page.options import attended

        if form not in SCHEDULES:
            raise InputError(
                [Problem("no such format", None, None, "--format", value_text(form), nearest_text(form, SCHEDULES))]
            )
        wanted = None if collective is None else collective_named(collective)
        if collective is not None and wanted is None:
            allowed = ", ".join(collective_name.value for collective_name in NAMES.values())
            raise InputError(
                [Problem("no such collective", None, None, "--collective", value_text(collective), allowed)]
            )
        given = options.typed_settings(options.settings_of(settings, AUDIT_SETTINGS), AUDIT_SETTINGS)
        said, root = claim_figures(given.get("claim")), given.get("root", 0)
        size = None if vector is None else float(options.size_of(vector))
        declared = DeclaredFigures(size, said.time_us, said.algbw_gbytes_per_s)
        notes: list[str] = []
        network = None if topology is None else network_argument(topology, notes.append, given.get("rate_attribute"))
        flags = (given.get("multicast", False), given.get("relaying", False))
        question = AuditSettings(*flags, given.get("message_us", 0.0), declared, root)
        with attended(output, time_limit) as run, collection_halted():
            run.doing, stop = "audit", run.timing.stop

            def judged() -> Audit:
                program = SCHEDULES[form](schedule, ScheduleOptions(wanted, root))
                if root >= len(program.ranks) or (network is not None and root >= len(network.ranks)):
                    raise InputError([Problem("no such rank", path="--set root", value=str(root))])
                return examined(program, network, replace(question, notes=tuple(notes)), stop)

            result = run.patient(judged)
            reason = stop.reason() or StopReason.CONVERGED

        def show(console: Console) -> None:
            say(console, *lines_of(result.document), *early_end(reason))

        head = {"schedule": str(schedule), "format": form, "stopped_by": reason.value}
        output.result({**head, **result.document}, show, audit_answer(result.document))
        return CheckError.exit_code if result.verdict == "invalid" else EXIT_OF_STOP.get(reason, 0)

    output.run(command)


def lines_of(document: object) -> list[str]:
    assert isinstance(document, dict)
    recomputed, bound, claimed = document["recomputed"], document["bound"], document["claimed"]
    extent = ", semantics only" if document["extent"] == "semantics only" else ""
    lines = [f"verdict: {document['verdict']}{extent}", *(f"- {reason}" for reason in document["reasons"])]
    lines.append(
        f"{document['collective']} of {counted(document['ranks'], 'rank')}, {counted(document['messages'], 'message')}"
        + (f", {document['relayed_messages']} of them passed on" if document["relayed_messages"] else "")
    )
    if claimed["algbw_gbytes_per_s"]:
        time = f" ({claimed['time_us']:.6g} us)" if claimed["time_us"] else ""
        lines.append(f"claimed: {claimed['algbw_gbytes_per_s']:.6g} GB/s{time}")
    if recomputed:
        rate = f"{recomputed['algbw_gbytes_per_s']:.6g} GB/s, " if recomputed["algbw_gbytes_per_s"] is not None else ""
        lines.append(
            f"recomputed: {rate}{recomputed['time_us']:.6g} us, {counted(recomputed['steps'], 'step')}; "
            f"busiest link {recomputed['busiest_link_us']:.6g} us, "
            f"{recomputed['busiest_link_us_with_multicast']:.6g} us if switches copy"
        )
    if bound:
        lines.append(f"no schedule exceeds {bound['algbw_gbytes_per_s']:.6g} GB/s: {bound['cut_in_words']}")
    for link in document["busiest_links"]:
        lines.append(f"link {link['tail']} → {link['head']}: busy {link['busy_us']:.6g} us")
    return [*lines, *(f"note: {note}" for note in document["notes"])]


MAX_SERVERS = 4096
PREFER = ("steps", "bandwidth", "all-to-all", "time")


FIND_SETTINGS = {
    "latency_us": Annotated[float, Ge(0.0), Le(1e9)],
    "visits": Annotated[int, Ge(0), Le(10**12)],
    "seed": Annotated[int, Ge(0), Le(options.MAX_SEED)],
}


def find(
    servers: options.Servers = None,
    degree: options.Degree = None,
    links: options.Links = "unidirectional",
    prefer: Annotated[str, typer.Option(help="What the one that is written is best in: " + ", ".join(PREFER))] = (
        "bandwidth"
    ),
    vector: options.Bytes = None,
    link_gbps: options.LinkGbps = None,
    time_limit: options.TimeLimit = None,
    settings: options.Settings = None,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Topologies for collectives: the Pareto front of steps, bandwidth factor and All-to-All rate, beside the bounds.

    Common sizes are answered from an atlas, others by a search among Cayley digraphs, line graphs and products. With
    --bytes an AllReduce is timed, on links of 8 Gbit/s unless --link-gbps says otherwise. --output writes the preferred
    topology (.graphml), the front (.csv) and a page (.html).

    Settings: `latency_us` of a step (0); `visits`, links that a search follows, else only where the atlas has no
    answer; `seed` of the search.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.search import (
            PREFERENCES,
            AllReduceCost,
            Wanted,
            answer,
            find_front,
            front_csv,
            front_document,
            front_html,
            write_network,
        )
        from topoopt.files.atomic import targets, write_text_atomically
        from topoopt.page.options import attended

        network, csv_file, report = targets(output_files, force, (".graphml",), (".csv",), (".html",))
        given = options.typed_settings(options.settings_of(settings, FIND_SETTINGS), FIND_SETTINGS)
        visits, seed = given.get("visits"), given.get("seed", 0)
        _require_range(servers, degree, links, prefer, vector)
        assert servers is not None
        assert degree is not None
        link_gbytes_per_s = 1.0 if link_gbps is None else link_gbps / 8
        size = None if vector is None else options.size_of(vector)
        cost = None if size is None else AllReduceCost(size, link_gbytes_per_s, given.get("latency_us", 0.0))
        wanted = Wanted(servers, degree, LinkDirection(links))
        preference = PREFERENCES["bandwidth" if cost and prefer == "time" else prefer]
        if cost and prefer == "time":
            preference = lambda entry: cost.time_us(wanted, entry)  # noqa: E731
        with attended(output, time_limit) as run:
            run.doing, stop = "topologies", run.timing.stop
            result = run.patient(lambda: find_front(wanted, stop, visits=visits, seed=seed, preference=preference))
            reason = stop.reason() or StopReason.CONVERGED
        if network is not None:
            write_network(network, result.preferred, link_gbytes_per_s)
        if csv_file is not None:
            write_text_atomically(csv_file, front_csv(result, cost))
        if report is not None:
            write_text_atomically(report, front_html(result, cost))
        files = {"network": network, "csv": csv_file, "report": report}
        written = {name: None if file is None else str(file) for name, file in files.items()}
        output.result(
            {**front_document(result, cost), **written, "stopped_by": reason.value},
            lambda console: _show_front(console, result, cost, written, reason),
            answer(result),
        )
        return EXIT_OF_STOP.get(reason, 0)

    output.run(command)


def _require_range(servers: int | None, degree: int | None, links: str, prefer: str, vector: str | None) -> None:
    """Refuse what cannot be meant."""
    problems = [
        Problem(f"unknown {path[2:]}", path=path, value=value, allowed=", ".join(allowed))
        for path, value, allowed in (("--links", links, list(LinkDirection)), ("--prefer", prefer, list(PREFER)))
        if value not in allowed
    ]
    if servers is None or not 2 <= servers <= MAX_SERVERS:
        problems.append(Problem("out of range", path="--servers", value=str(servers), allowed=f"2 to {MAX_SERVERS}"))
    if degree is None:
        problems.append(Problem("missing", path="--degree"))
    if prefer == "time" and vector is None:
        problems.append(Problem("a time needs a size", path="--prefer", value=prefer, allowed="with --bytes"))
    raise_any(problems)


def _show_front(
    console: Console,
    result: TopologyFront,
    cost: AllReduceCost | None,
    written: dict[str, str | None],
    stopped_by: StopReason,
) -> None:
    from topoopt.analyses.collective.search import front_rows

    limits, wanted = result.limits, result.wanted
    table = TerminalTable(title=escape(f"{wanted.servers} servers, {wanted.degree} links each, {wanted.links}"))
    for heading in ("steps", "above Moore", "bandwidth factor", "gap", "all-to-all", "gap", "AllReduce, us"):
        table.add_column(heading, justify="right")
    rows = front_rows(result, cost)
    for row in rows:
        table.add_row(*map(escape, row[:7]))
    console.print(table)
    lines = [
        f"{'* ' if index == result.best else '  '}{row[0]} steps: topology: {row[7]}" for index, row in enumerate(rows)
    ]
    lines.append(
        f"bounds: {limits.steps} steps (Moore), bandwidth factor {limits.bandwidth} (degree), all-to-all "
        f"{limits.all_to_all:.6g} of a link for every pair (distances)"
    )
    lines.append("from a search" if result.searched else "from the atlas; --set visits=N searches further")
    say(console, *lines, *early_end(stopped_by), written=written.values())


BOUNDED = ("allgather", "reduce-scatter", "allreduce", "all-to-all")
"""Collectives that a bound is told for; those with a root are bounded by `topoopt solve`."""

SHOWN_GAP = 1e-5
"""Part of a bound that is not reached from which that is told."""

BOUND_SETTINGS = {"rate_attribute": str, "breadth_first": bool}


def bound(
    topology: Annotated[
        str,
        typer.Argument(
            metavar="MACHINE",
            help="Name of a preset, instance of kind collective, network file (.graphml, .csv, .txt: links with rates, "
            "nodes with roles), or a section as in instance files: 'preset: dgx-a100, boxes: 2'.",
        ),
    ],
    collective: options.Collective = None,
    sizes: options.Bytes = None,
    time_limit: options.TimeLimit = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Best rate of AllGather, AllReduce and All-to-All on a network, and the cut that limits it.

    Of all collectives unless --collective names one. With --bytes a table: size, least time, algorithm and bus
    bandwidth as nccl-tests states them, and what limits them. Settings: `breadth_first`, breadth-first broadcasts as
    well; `rate_attribute`, the attribute or column of links in a network file that is their rate.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.bounds import (
            bound_rows,
            bounds_answer,
            breadth_first_figures,
            network_argument,
            network_bounds,
        )
        from topoopt.page.options import attended

        given = options.typed_settings(options.settings_of(settings, BOUND_SETTINGS), BOUND_SETTINGS)
        breadth_first = given.get("breadth_first", False)
        if collective is not None and collective not in BOUNDED:
            allowed = ", ".join(BOUNDED)
            raise InputError([Problem("no bound for it", path="--collective", value=collective, allowed=allowed)])
        notes: list[str] = []
        vectors = None if sizes is None else options.sizes_of(sizes)
        network = network_argument(topology, notes.append, given.get("rate_attribute"))
        pairs, reduced = None if collective is None else collective == "all-to-all", collective in (None, "allreduce")
        with attended(output, time_limit) as run:
            run.doing, stop = "bounds", run.timing.stop
            bounds = run.patient(lambda: network_bounds(network, stop, all_to_all=pairs, allreduce=reduced))
        document = {"ranks": len(network.ranks), **bounds.document(), **({"notes": notes} if notes else {})}
        if breadth_first:
            document |= breadth_first_figures(network)
        rows = [] if vectors is None else bound_rows(network, bounds, vectors, collective)
        if rows:
            document["rows"] = [vars(row) for row in rows]

        def show(console: Console) -> None:
            if rows:
                console.print(_bound_table(rows))
            limits = {row.collective: row.limited_by for row in rows}
            lines = [
                f"AllGather, ReduceScatter: at most {float(bounds.allgather_rate):.6g} GB/s (ratio {bounds.ratio}): "
                f"{bounds.words}"
            ]
            if bounds.allreduce_rate is not None:
                lines.append(
                    f"AllReduce: at most {float(bounds.allreduce_rate):.6g} GB/s, {bounds.allreduce_gain:.4g}× a "
                    "ReduceScatter and an AllGather with equal roots"
                )
            if bounds.all_to_all_lambda is not None:
                lines.append(f"All-to-All: at most {bounds.all_to_all_lambda:.6g} GB/s for every ordered pair")
                if bounds.all_to_all_gap > SHOWN_GAP:
                    lines[-1] += f"; {bounds.all_to_all_reached:.6g} GB/s are reached, {bounds.all_to_all_gap:.2%} less"
            if breadth_first:
                factor = document["bandwidth_factor"] or "differs from rank to rank"
                lines.append(f"breadth-first broadcasts: {document['steps']} steps, bandwidth factor {factor}")
            lines += [f"{name} is limited by: {text}" for name, text in limits.items()]
            say(console, *lines, *early_end(bounds.stopped_by), notes=notes)

        output.result(document, show, bounds_answer(bounds, len(network.ranks), collective))
        return EXIT_OF_STOP.get(bounds.stopped_by, 0)

    output.run(command)


def _bound_table(rows: Sequence[BoundRow]) -> TerminalTable:
    """The least times by collective and size."""
    from topoopt.kinds.collective.figures import time_text

    table = TerminalTable("collective", title="least time of any schedule", max_rows=len(rows))
    for heading in ("size", "time", "algbw, GB/s", "busbw, GB/s"):
        table.add_column(heading, justify="right")
    for row in rows:
        rates = (number(row.algbw_gbytes_per_s), number(row.busbw_gbytes_per_s))
        table.add_row(row.collective, byte_size(row.bytes), time_text(row.time_us), *rates)
    return table
