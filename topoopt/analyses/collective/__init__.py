"""`topoopt collective`: its commands bound rates, find topologies, audit schedules, and set circuits anew between
steps.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.core.cluster import LinkDirection
from topoopt.core.collective import CircuitSchedule, DeclaredFigures, SteppedCollective, SwitchedCollective
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.proofs import StopReason
from topoopt.core.switching import delay_text, parse_delay
from topoopt.page.output import EXIT_OF_STOP, JsonOption, Output
from topoopt.page.render import TerminalTable
from topoopt.page.text import counted

if TYPE_CHECKING:
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
        raise InputError([Problem("not a rate or time", path="--claim", value=text, allowed="like 3.5GB/s, 10.75us")])
    if match[2].endswith("/s"):
        return DeclaredFigures(algbw_gbytes_per_s=value)
    return DeclaredFigures(time_us=value)


def size_of(text: str | None) -> float | None:
    """Bytes that `--bytes` says.

    Raises:
        InputError: no size.
    """
    from topoopt.kinds.collective.read import size_bytes

    if text is None:
        return None
    size = size_bytes(text) if re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,9})? ?(B|[kKMGT]i?B)", text.strip()) else None
    if size is None:
        raise InputError([Problem("not a size", path="--bytes", value=text, allowed="like 1GiB or 16 MB")])
    return float(size)


RateAttributeOption = Annotated[
    str | None,
    typer.Option(help="Attribute or column of links in a network file that is their rate; default: by its name."),
]


def audit(
    schedule: Annotated[Path, typer.Argument(help="File of the schedule; chakra: a folder or prefix of .et files.")],
    form: Annotated[str, typer.Option("--format", help="msccl, mscclpp, teccl, forestcoll, sccl or chakra.")],
    topology: Annotated[str | None, typer.Option(help="As for `bound`; without it semantics alone.")] = None,
    rate_attribute: RateAttributeOption = None,
    collective: Annotated[str | None, typer.Option(help="Where the file does not say, or says something else.")] = None,
    root: Annotated[int, typer.Option(min=0, help="Rank of a broadcast or reduction.")] = 0,
    claim: Annotated[str | None, typer.Option(help="What is claimed: 3.5GB/s, or a time: 10.75us.")] = None,
    vector: Annotated[
        str | None, typer.Option("--bytes", help="The whole vector, where the file does not say.")
    ] = None,
    message_us: Annotated[float, typer.Option(min=0.0, max=1e6, help="Time of a message besides its bytes.")] = 0.0,
    multicast: Annotated[bool, typer.Option("--multicast", help="Switches copy.")] = False,
    relaying: Annotated[bool, typer.Option("--relaying", help="Ranks pass on what is not for them.")] = False,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds, for the bound.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Execute a schedule of anyone, and say whether it is right, how fast it is, and how fast any could be."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.audits import Audit, AuditSettings, audit_answer
        from topoopt.analyses.collective.audits import audit as examined
        from topoopt.analyses.collective.bounds import network_argument
        from topoopt.files.issues import nearest_text, value_text
        from topoopt.formats.schedules import NAMES, SCHEDULES, ScheduleOptions, collective_named
        from topoopt.page.long_run import attended

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
        said = claim_figures(claim)
        declared = DeclaredFigures(size_of(vector), said.time_us, said.algbw_gbytes_per_s)
        notes: list[str] = []
        network = None if topology is None else network_argument(topology, notes.append, rate_attribute)
        settings = AuditSettings(multicast, relaying, message_us, declared, root)
        with attended(output, time_limit) as run, collection_halted():
            run.doing, stop = "audit", run.timing.stop

            def judged() -> Audit:
                program = SCHEDULES[form](schedule, ScheduleOptions(wanted, root))
                if root >= len(program.ranks) or (network is not None and root >= len(network.ranks)):
                    raise InputError([Problem("no such rank", path="--root", value=str(root))])
                return examined(program, network, replace(settings, notes=tuple(notes)), stop)

            result = run.patient(judged)
            reason = stop.reason() or StopReason.CONVERGED

        def show(console: Console) -> None:
            for line in (*lines_of(result.document), *early_end(reason)):
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        head = {"schedule": str(schedule), "format": form, "stopped_by": reason.value}
        output.result({**head, **result.document}, show, audit_answer(result.document))
        return CheckError.exit_code if result.verdict == "invalid" else EXIT_OF_STOP.get(reason, 0)

    output.run(command)


def lines_of(document: object) -> list[str]:
    assert isinstance(document, dict)
    recomputed, bound, claimed = document["recomputed"], document["bound"], document["claimed"]
    lines = [f"verdict: {document['verdict']}", *(f"- {reason}" for reason in document["reasons"])]
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


MOST_SERVERS = 4096
PREFER = ("steps", "bandwidth", "all-to-all", "time")


def find(
    servers: Annotated[int, typer.Option(min=2, max=MOST_SERVERS, help="Number of servers n.")],
    degree: Annotated[int, typer.Option(min=1, max=64, help="Links out of, and into, every server.")],
    links: Annotated[str, typer.Option(help="unidirectional or bidirectional.")] = "unidirectional",
    prefer: Annotated[str, typer.Option(help="What the one that is written is best in: " + ", ".join(PREFER))] = (
        "bandwidth"
    ),
    vector: Annotated[str | None, typer.Option("--bytes", help="Vector of an AllReduce to time, like 1 MB.")] = None,
    link_gbytes_per_s: Annotated[float, typer.Option(min=1e-6, max=1e6, help="Rate of a link, GB/s.")] = 1.0,
    latency_us: Annotated[float, typer.Option(min=0.0, max=1e9, help="Of a step.")] = 0.0,
    visits: Annotated[
        int | None,
        typer.Option(min=0, max=10**12, help="Links a search follows; default: only where the atlas has no answer."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the search.")] = 0,
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds.")] = None,
    network: Annotated[
        Path | None, typer.Option(help="File for the preferred topology: .graphml or .csv (tail, head, rate).")
    ] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="CSV file for the front.")] = None,
    report: Annotated[Path | None, typer.Option(help="Report to write, as .html.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Topologies for collectives: the Pareto front of steps, bandwidth factor and All-to-All rate, beside the bounds.

    Common sizes are answered from an atlas, others by a search among Cayley digraphs, line graphs and products.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.search import (
            PREFERENCES,
            Wanted,
            answer,
            find_front,
            front_csv,
            front_document,
            front_html,
            write_network,
        )
        from topoopt.files.atomic import write_text_atomically
        from topoopt.page.long_run import attended

        _require_range(links, prefer, vector, network, csv_file, report)
        cost = _cost(vector, link_gbytes_per_s, latency_us)
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
        targets = {"network": network, "csv": csv_file, "report": report}
        written = {name: None if file is None else str(file) for name, file in targets.items()}
        output.result(
            {**front_document(result, cost), **written, "stopped_by": reason.value},
            lambda console: _show_front(console, result, cost, written, reason),
            answer(result),
        )
        return EXIT_OF_STOP.get(reason, 0)

    output.run(command)


def _require_range(
    links: str, prefer: str, vector: str | None, network: Path | None, csv_file: Path | None, report: Path | None
) -> None:
    """Refuse what cannot be meant, and files that cannot be written."""
    from topoopt.analyses.collective.search import NETWORK_FILES

    problems = [
        Problem(f"unknown {path[2:]}", path=path, value=value, allowed=", ".join(allowed))
        for path, value, allowed in (("--links", links, list(LinkDirection)), ("--prefer", prefer, list(PREFER)))
        if value not in allowed
    ]
    if prefer == "time" and vector is None:
        problems.append(Problem("a time needs a size", path="--prefer", value=prefer, allowed="with --bytes"))
    for path, file, endings in (
        ("--network", network, NETWORK_FILES),
        ("--csv", csv_file, (".csv",)),
        ("--report", report, (".html",)),
    ):
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            problems.append(Problem("cannot be written", path=path, value=str(file), allowed="a file in a folder"))
        elif file is not None and file.suffix.lower() not in endings:
            problems.append(Problem("unknown format", path=path, value=str(file), allowed=", ".join(endings)))
    if problems:
        raise InputError(problems)


def _cost(vector: str | None, link_gbytes_per_s: float, latency_us: float) -> AllReduceCost | None:
    import re

    from topoopt.analyses.collective.search import AllReduceCost
    from topoopt.kinds.collective.read import SIZE_PATTERN, size_bytes

    if vector is None:
        return None
    size = size_bytes(vector) if re.fullmatch(SIZE_PATTERN, vector) else None
    if size is None:
        allowed = "whole bytes with a unit, like 100 MB or 1GiB"
        raise InputError([Problem("not a size", path="--bytes", value=vector, allowed=allowed)])
    return AllReduceCost(size, link_gbytes_per_s, latency_us)


def _show_front(
    console: Console,
    result: TopologyFront,
    cost: AllReduceCost | None,
    written: dict[str, str | None],
    stopped_by: StopReason,
) -> None:
    from topoopt.analyses.collective.search import front_rows

    limits, wanted = result.limits, result.wanted
    title = f"{wanted.servers} servers, {wanted.degree} links each, {wanted.links}"
    table = TerminalTable(title=escape(title))
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
    lines.append("from a search" if result.searched else "from the atlas; --visits N searches further")
    lines += early_end(stopped_by)
    lines += [f"written: {file}" for file in written.values() if file is not None]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def job(
    instance: Annotated[Path, typer.Argument(help="Instance of kind co-optimisation.")],
    solution: Annotated[Path, typer.Argument(help="Its solution.json.")],
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Time of every gradient's AllReduce alone on the topology of a plan: on its rings, and by the best schedule."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.job_schedules import answer, job_collectives, job_document
        from topoopt.core.errors import InputError, Problem
        from topoopt.core.job import CoOptimisation
        from topoopt.kinds.files import read_instance, read_solution
        from topoopt.page.long_run import attended
        from topoopt.page.text import byte_size, server_set

        problem = read_instance(instance)
        if not isinstance(problem, CoOptimisation):
            raise InputError([Problem("not an instance of a job", str(instance), None, "kind", problem.kind)])
        plan = read_solution(solution, ["co-optimisation"])
        with attended(output, time_limit) as run:
            run.doing = "schedules"
            groups, left_out = run.patient(lambda: job_collectives(problem, plan, run.timing.stop))

        def show(console: Console) -> None:
            for group in groups:
                table = TerminalTable("gradients", "bytes", "rings", "best", "schedule")
                table.title = f"servers {server_set(group.members, problem.cluster.servers)}"
                for gradient in group.gradients:
                    how = f"{gradient.schedule}, {gradient.steps} steps"
                    row = (
                        str(gradient.count),
                        byte_size(gradient.bytes),
                        f"{gradient.ring_us:.6g} us",
                        f"{gradient.best_us:.6g} us",
                        how,
                    )
                    table.add_row(*row)
                console.print(table)
                totals = f"{group.total_us('ring_us'):.6g} us on rings, {group.total_us('best_us'):.6g} us at best"
                console.print(f"one after the other: {totals}", highlight=False)
            if not groups:
                console.print("no gradients over the network")
            if left_out:
                console.print(f"{left_out} groups left out: too large, or with fewer bytes", highlight=False)

        output.result(job_document(groups, left_out), show, answer(groups))
        return 0

    output.run(command)


MOST_RANKS = 512


def switch(
    ranks: Annotated[int, typer.Option(min=2, max=MOST_RANKS, help="Number of ranks n.")],
    vector: Annotated[str, typer.Option("--bytes", help="Vector of a rank, like 100 MB.")],
    ports: Annotated[int, typer.Option(min=2, max=64, help="Of a rank, an even number.")] = 2,
    link_gbytes_per_s: Annotated[float, typer.Option(min=1e-6, max=1e6, help="Rate of a circuit, GB/s.")] = 50.0,
    latency_us: Annotated[float, typer.Option(min=0.0, max=1e9, help="Of a step.")] = 1.0,
    delays: Annotated[str, typer.Option(help="Delays to set circuits, parted by commas, or devices.")] = (
        "1us,10us,100us,1ms,10ms"
    ),
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Least time of AllReduce and All-to-All where circuits may be set anew between steps, and what delay pays."""
    output = Output.choose(as_json)

    def command() -> int:
        from solvers.collective.schedules import least_time
        from topoopt.verify.collective import check_circuits

        size = _require_sizes(ranks, ports, vector)
        scheduled: list[tuple[SwitchedCollective, CircuitSchedule]] = []
        for word in delays.split(","):
            delay_s = parse_delay(word) / 1e3
            for collective in get_args(SteppedCollective):
                if collective == "halving-doubling" and ranks & (ranks - 1):
                    continue
                operation = SwitchedCollective(
                    collective, ranks, ports, float(size), link_gbytes_per_s * 1e9, latency_us * 1e-6
                )
                schedule = least_time(operation, delay_s)
                checked = check_circuits(operation, schedule)
                if not checked.ok:
                    raise CheckError("the checker rejects a schedule:\n" + "\n".join(map(str, checked.violations)))
                scheduled.append((operation, schedule))
        rows = [
            {"collective": operation.collective, "times_set": circuits.times_set, **asdict(circuits)}
            for operation, circuits in scheduled
        ]
        document = {"kind": "switched-collective", "ranks": ranks, "ports": ports, "bytes": size, "schedules": rows}
        output.result(document, lambda console: _show_schedules(console, scheduled), _answer(scheduled))
        return 0

    output.run(command)


def _require_sizes(ranks: int, ports: int, vector: str) -> int:
    import re

    from topoopt.kinds.collective.read import SIZE_PATTERN, size_bytes

    problems = []
    size = size_bytes(vector) if re.fullmatch(SIZE_PATTERN, vector) else None
    if size is None:
        allowed = "whole bytes with a unit, like 100 MB or 1GiB"
        problems.append(Problem("not a size", path="--bytes", value=vector, allowed=allowed))
    if ports % 2:
        text = "circuits to both sides take ports in pairs"
        problems.append(Problem(text, path="--ports", value=str(ports), allowed="even numbers"))
    if problems or size is None:
        raise InputError(problems)
    return size


def _answer(scheduled: list[tuple[SwitchedCollective, CircuitSchedule]]) -> str:
    best = max(scheduled, key=lambda row: row[1].break_even_s)
    if best[1].break_even_s == 0.0:
        return "Setting circuits anew between steps never pays."
    return (
        f"Setting circuits anew between steps pays up to a delay of {delay_text(1e3 * best[1].break_even_s)}, for "
        f"{best[0].collective}."
    )


def _show_schedules(console: Console, scheduled: list[tuple[SwitchedCollective, CircuitSchedule]]) -> None:
    table = TerminalTable(title=f"{scheduled[0][0].ranks} ranks, {scheduled[0][0].ports} ports each")
    for heading in ("collective", "delay", "least, us", "set", "never, us", "every step, us", "pays up to"):
        table.add_column(heading, justify="left" if heading == "collective" else "right")
    for operation, schedule in scheduled:
        pays = delay_text(1e3 * schedule.break_even_s) if schedule.break_even_s else "never"
        times = (f"{1e6 * value:.6g}" for value in (schedule.time_s, schedule.never_s, schedule.every_s))
        least, never, every = times
        cells = (delay_text(1e3 * schedule.delay_s), least, f"{schedule.times_set}x", never, every, pays)
        table.add_row(operation.collective, *cells)
    console.print(table)


BOUNDED = ("allgather", "reduce-scatter", "allreduce", "all-to-all")
"""Collectives that a bound is told for; those with a root are bounded by `topoopt solve`."""

SHOWN_GAP = 1e-5
"""Part of a bound that is not reached from which that is told."""

app = typer.Typer(help="Collectives on any network: what is best, and what schedules do.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Collectives on any network."""


@app.command("bound")
def bound(
    topology: Annotated[
        str,
        typer.Argument(
            help="Instance of kind collective, network file (.graphml, .csv, .txt: links with rates, nodes with "
            "roles), or a section as in instance files: 'preset: dgx-a100, boxes: 2'."
        ),
    ],
    collective: Annotated[str | None, typer.Option(help="Only for this one; default: all.")] = None,
    rate_attribute: RateAttributeOption = None,
    method: Annotated[str, typer.Option(help="optimum, or bfb: breadth-first broadcasts beside it.")] = "optimum",
    time_limit: Annotated[float | None, typer.Option(min=0.0, help="Seconds.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Best rate of AllGather, AllReduce and All-to-All on a network, and the cut that limits it."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.collective.bounds import (
            bounds_answer,
            breadth_first_figures,
            network_argument,
            network_bounds,
        )
        from topoopt.core.errors import InputError, Problem
        from topoopt.page.long_run import attended

        if method not in ("optimum", "bfb"):
            raise InputError([Problem("no such method", path="--method", value=method, allowed="optimum, bfb")])
        if collective is not None and collective not in BOUNDED:
            allowed = ", ".join(BOUNDED)
            raise InputError([Problem("no bound for it", path="--collective", value=collective, allowed=allowed)])
        notes: list[str] = []
        network = network_argument(topology, notes.append, rate_attribute)
        pairs, reduced = None if collective is None else collective == "all-to-all", collective in (None, "allreduce")
        with attended(output, time_limit) as run:
            run.doing, stop = "bounds", run.timing.stop
            bounds = run.patient(lambda: network_bounds(network, stop, all_to_all=pairs, allreduce=reduced))
        document = {"ranks": len(network.ranks), **bounds.document(), **({"notes": notes} if notes else {})}
        if method == "bfb":
            document |= breadth_first_figures(network)

        def show(console: Console) -> None:
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
            if method == "bfb":
                factor = document["bandwidth_factor"] or "differs from rank to rank"
                lines.append(f"breadth-first broadcasts: {document['steps']} steps, bandwidth factor {factor}")
            for line in (*lines, *early_end(bounds.stopped_by), *(f"note: {note}" for note in notes)):
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        output.result(document, show, bounds_answer(bounds, len(network.ranks), collective))
        return EXIT_OF_STOP.get(bounds.stopped_by, 0)

    output.run(command)


app.command("audit")(audit)
app.command("job")(job)
app.command("find")(find)
app.command("switch")(switch)
