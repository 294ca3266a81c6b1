"""`topoopt resilience`: failures of links, servers and switches, or days of outages, strike a solution, and repairs
are tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from annotated_types import Ge, Le
from rich.console import Console
from rich.markup import escape

from topoopt.core.errors import CheckError, InputError, Problem, raise_any
from topoopt.core.outcomes import Failure, FailureOutcome, Resilience
from topoopt.core.process import verbose
from topoopt.core.proofs import StopReason
from topoopt.page import options
from topoopt.page.options import memory_bytes, solving_bar
from topoopt.page.output import EXIT_OF_STOP, Output, say
from topoopt.page.render import TerminalTable

if TYPE_CHECKING:
    from solvers.stop import Stop
    from topoopt.analyses.resilience.run import ResilienceQuestion, Subject
    from topoopt.core.outcomes import OutageStudy
    from topoopt.core.topology import Topology
    from topoopt.page.options import AttendedRun


SHOWN, SHOWN_BRIEFLY = 12, 5
MOST_SPARES, MOST_DAYS = 100_000, 100_000
DEFAULT_SPARES = "0,4,8,16"


SETTINGS = {
    "links_at_once": Annotated[int, Ge(1)],
    "servers_at_once": Annotated[int, Ge(1)],
    "samples": Annotated[int, Ge(0), Le(10**6)],
    "rewire": Annotated[int, Ge(0)],
    "spares": str,
}


def resilience(
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`; of a Clos fabric its instance.")],
    fail: Annotated[
        list[str] | None,
        typer.Option(help="Only this fails: link A-B, server:N or switch:N (also a rail). Repeated: all at once."),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_DAYS, help="Of llm-training, in place of failures: days of servers down, drawn."),
    ] = None,
    fabric: options.Fabric = None,
    seed: options.Seed = None,
    time_limit: options.TimeLimit = None,
    memory_limit: options.MemoryLimit = None,
    settings: options.Settings = None,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Evaluate every single failure of a link, a server or an optical switch, and repair it at once and by re-wiring.

    Failures of several parts are sampled, and the worst is searched for (proven where all could be evaluated). Works on
    solutions of the kinds co-optimisation (iteration time), llm-training (on any network but an ideal switch: the first
    such, unless --fabric names one), routing and topology (theta). --output writes a table (.csv) and a page (.html).

    Settings: `links_at_once` and `servers_at_once`, how many fail at once beside all single ones (1); `samples` of
    random failures of several parts (100); `rewire`, give up at most so many circuits to mend the worst failure of
    links; with --days `spares`, numbers of spare servers (0,4,8,16).

    Of an instance or solution of kind collective on a Clos fabric: what a leaf, a spine, a core and a plane take away.

    With --days servers are down as in the trace of InfiniteHBD: the throughput that is left, with circuits and without.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.resilience.clos import answer_blast, clos_problem
        from topoopt.analyses.resilience.run import ResilienceQuestion
        from topoopt.files.atomic import targets, write_text_atomically
        from topoopt.files.results import solution_kind
        from topoopt.page.options import attended

        csv, report = targets(output_files, force, (".csv",), (".html",))
        given = options.typed_settings(options.settings_of(settings, SETTINGS), SETTINGS)
        if (problem := clos_problem(solution)) is not None:
            alone = {"--fail": fail, "--days": days, "--fabric": fabric, "--seed": seed, "--output .html": report}
            return answer_blast(output, problem, alone | {f"--set {name}": given[name] for name in given}, csv)
        kind = solution_kind(solution, SUBJECTS)
        spares, rewire = given.get("spares"), given.get("rewire")
        refuse_mixed(kind, days, spares, {"--set rewire": rewire, "--fail": fail, "--fabric": fabric})
        if days is not None:
            return answer_outages(output, solution, days, spares, seed or 0, csv=csv, report=report)
        with attended(output, time_limit, memory_bytes(memory_limit)) as run:
            stop = run.timing.stop
            subject, topology = run.first(lambda: SUBJECTS[kind](solution, fabric, stop))
            failure = _failure(fail, topology) if fail else None
            at_once = (given.get("links_at_once", 1), given.get("servers_at_once", 1))
            question = ResilienceQuestion(*at_once, given.get("samples", 100), seed or 0, failure, rewire)
            run.doing = "failures"
            result = run.part(lambda: _run(output, subject, question, run))
            run.doing = "files"
            if csv is not None:
                from topoopt.analyses.resilience.report import resilience_csv

                write_text_atomically(csv, resilience_csv(result))
            if report is not None:
                from topoopt.analyses.resilience.report import render_resilience

                write_text_atomically(report, render_resilience(result, topology))
            reason = stop.reason()
        written = [str(path) for path in (csv, report) if path is not None]
        _show(output, result, solution, run.began.at_s, reason, written)
        if result.violations:
            for line in ("the checker rejects repairs:", *result.violations):
                output.say_error(line)
            return CheckError.exit_code
        return 0 if reason is None else EXIT_OF_STOP.get(reason, 0)

    output.run(command)


def _failure(texts: list[str], topology: Topology) -> Failure:
    """What fails at once.

    Raises:
        InputError: everything that names neither a link nor a server nor a switch.
    """
    from solvers.failures.worst import ends_of

    links: set[tuple[int, int]] = set()
    numbers: dict[str, set[int]] = {"server": set(), "switch": set()}
    problems: list[Problem] = []
    for text in texts:
        word, colon, number = text.partition(":")
        if colon and word in numbers and number.isascii() and number.isdecimal():
            numbers[word].add(int(number))
            continue
        try:
            links.add(ends_of(text, topology))
        except InputError as error:
            problems += error.problems
    raise_any(problems)
    return Failure(tuple(sorted(links)), *(tuple(sorted(numbers[word])) for word in ("server", "switch")))


def _run(output: Output, subject: Subject, question: ResilienceQuestion, run: AttendedRun) -> Resilience:
    from topoopt.analyses.resilience.run import study

    with solving_bar(output) as bar:
        return study(subject, question, stop=run.timing.stop, progress=run.telling(bar))


def _refuse_fabric(fabric: str | None) -> None:
    if fabric is not None:
        raise InputError([Problem("only with llm-training", path="--fabric", value=fabric)])


def _job(path: Path, fabric: str | None, stop: Stop) -> tuple[Subject, Topology]:
    from topoopt.analyses.resilience.run import job_subject
    from topoopt.kinds.files import embedded_problem
    from topoopt.kinds.job import SOLUTION_FILE

    _refuse_fabric(fabric)
    solution = SOLUTION_FILE.read(path)
    return job_subject(solution, embedded_problem(solution, path)), solution.plan.topology


def _network(path: Path, fabric: str | None, stop: Stop) -> tuple[Subject, Topology]:
    from topoopt.analyses.resilience.run import network_subject
    from topoopt.kinds.files import read_solution

    _refuse_fabric(fabric)
    subject = network_subject(read_solution(path, ("routing", "topology")), stop)
    return subject, subject.evaluator.topology


def _training(path: Path, fabric: str | None, stop: Stop) -> tuple[Subject, Topology]:
    from topoopt.analyses.resilience.run import training_subject
    from topoopt.kinds.llm_training import SOLUTION_FILE

    subject = training_subject(SOLUTION_FILE.read(path), None, fabric)
    return subject, subject.evaluator.topology


SUBJECTS: Mapping[str, Callable[[Path, str | None, Stop], tuple[Any, Any]]] = {
    "co-optimisation": _job,
    "routing": _network,
    "topology": _network,
    "llm-training": _training,
}
"""By kind of instance: the solution in the file, ready to be studied, and its topology."""


def _show(
    output: Output, result: Resilience, solution: Path, began: float, reason: StopReason | None, written: list[str]
) -> None:
    from topoopt.analyses.resilience.report import answer, resilience_dict

    document = {
        **resilience_dict(result),
        "stopped_by": (reason or StopReason.CONVERGED).value,
        "solution": str(solution),
        "written": written,
        "wall_s": round(time.monotonic() - began, 3),
    }
    output.result(document, lambda console: _print(console, result, written), answer(result))


def _print(console: Console, result: Resilience, written: list[str]) -> None:
    from topoopt.analyses.resilience.report import faster_text
    from topoopt.page.text import objective_text

    say(
        console,
        f"{result.name} ({result.kind}): {objective_text(result.objective)} {result.nominal:.6g} {result.unit} "
        "without failure",
    )
    for title, outcomes in (
        ("links", result.links),
        ("servers (forwarding)" if result.objective != "theta" else "servers", result.servers),
        (f"{result.switch}es", result.planes),
    ):
        if outcomes:
            console.print(_table(title, outcomes, result))
    if faster := faster_text(result):
        say(console, faster)
    for worst in result.worst:
        proof = "proven" if worst.proven else "not proven"
        say(
            console,
            f"worst failure of {worst.part}, {worst.count} at a time: {worst.outcome.failure.label}, "
            f"{_slow(worst.outcome, result.nominal)} ({worst.how}; {proof})",
        )
    for sample in result.sampled:
        mean = "nothing delivered" if sample.mean_slowdown is None else f"mean slow-down {sample.mean_slowdown:.4g}"
        if sample.mean_low is not None and sample.mean_high is not None:
            mean += f" (95 %: {sample.mean_low:.4g} to {sample.mean_high:.4g})"
        say(
            console,
            f"{sample.samples} random failures of {sample.count} {sample.part}: {sample.delivered} delivered "
            f"(95 %: {sample.delivered_low:.3g} to {sample.delivered_high:.3g} of all), {mean}",
        )
    for rewiring in result.rewirings:
        before = "nothing delivered" if rewiring.before is None else f"{rewiring.before:.6g}"
        say(
            console,
            f"re-wiring after {rewiring.failure.label}: {before} -> {rewiring.after:.6g} {result.unit}, "
            f"{len(rewiring.removed)} of {rewiring.allowed} circuits given up, {len(rewiring.added)} set "
            f"({rewiring.method})",
        )
    console.print(f"independent check of {result.checked} repairs: {'passed' if not result.violations else 'FAILED'}")
    say(console, notes=result.notes)
    if written:
        console.print(f"[dim]{escape('written: ' + ', '.join(written))}[/]", soft_wrap=True, highlight=False)


def _slow(outcome: FailureOutcome, nominal: float) -> str:
    slow = outcome.slowdown(nominal)
    return "nothing delivered" if slow is None else f"{slow:.4g}×"


def _table(title: str, outcomes: tuple[FailureOutcome, ...], result: Resilience) -> TerminalTable:
    from topoopt.analyses.resilience.report import worst_first

    count = min(SHOWN if verbose() else SHOWN_BRIEFLY, len(outcomes))
    table = TerminalTable(title=f"{title}: {len(outcomes)} evaluated, the worst {count}", dense=True)
    value = "theta" if result.objective == "theta" else result.unit
    for column in ("failure", "slow-down", value, "repair", "cut off", "diam.", "rings"):
        table.add_column(column, no_wrap=column not in ("failure", "slow-down", "repair"))
    for outcome in worst_first(outcomes)[:count]:
        table.add_row(
            outcome.failure.label,
            _slow(outcome, result.nominal),
            "-" if outcome.value is None else f"{outcome.value:.6g}",
            outcome.repair,
            str(outcome.disconnected_pairs),
            "-" if outcome.diameter is None else str(outcome.diameter),
            f"-{outcome.broken_rings}/{outcome.rings}" if outcome.rings else "-",
        )
    return table


def answer_outages(
    output: Output, solution: Path, days: int, spares: str | None, seed: int, *, csv: Path | None, report: Path | None
) -> int:
    """Draw the days, follow the plan through them, and say what is left.

    Raises:
        InputError: the solution is not of kind llm-training, or the spare servers are no numbers.
    """
    from topoopt.analyses.resilience.run import outage_study
    from topoopt.kinds.llm_training import SOLUTION_FILE

    study = outage_study(SOLUTION_FILE.read(solution), _numbers(spares or DEFAULT_SPARES), days, seed)
    document = {
        "kind": "outages",
        "name": study.name,
        "days": days,
        "seed": seed,
        "copies": study.copies,
        "servers_each": study.servers_each,
        "rows": [asdict(row) for row in study.rows],
    }
    said = _answer(document)
    written = _written(study, said, csv, report)
    output.result({**document, "written": written}, lambda console: _show_outages(console, study, written), said)
    return 0


def refuse_mixed(kind: str, days: int | None, spares: str | None, alone: Mapping[str, object]) -> None:
    """Raise InputError where options of days and of single failures meet, or the kind has no days or no such fabric."""
    from topoopt.analyses.resilience.clos import OTHER_KINDS, refuse_clos

    if alone.get("--fabric") == "clos" and kind in OTHER_KINDS:
        refuse_clos(kind, "", "--fabric", "clos")
    problems = []
    if days is None and spares is not None:
        problems.append(Problem("only with --days", path="--set spares", value=spares))
    if days is not None:
        problems += [Problem("not with --days", path=name) for name, value in alone.items() if value not in (None, [])]
        if kind != "llm-training":
            problems.append(Problem("servers are down in plans of one kind", "", None, "--days", kind, "llm-training"))
    raise_any(problems)


def _numbers(text: str) -> list[int]:
    """Whole numbers separated by commas.

    Raises:
        InputError: they are none.
    """
    from topoopt.core.errors import InputError, Problem

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) <= MOST_SPARES for part in parts):
        allowed = f"whole numbers from 0 to {MOST_SPARES}, separated by commas"
        raise InputError([Problem("not numbers of servers", path="--set spares", value=text, allowed=allowed)])
    return sorted({int(part) for part in parts})


def _answer(document: dict[str, Any]) -> str:
    """The mean without circuits or spares, and the best of the rows."""
    from topoopt.page.text import counted, percent

    first = document["rows"][0]
    best = max(document["rows"][1:], key=lambda row: (row["mean"], -row["spares"]))
    return (
        f"{document['name']} keeps {percent(first['mean'])} of its throughput in the mean of "
        f"{counted(document['days'], 'day')} without spare servers and circuits, {percent(best['mean'])} with "
        f"{counted(best['spares'], 'spare server')} over circuits."
    )


def _written(study: OutageStudy, said: str, csv: Path | None, report: Path | None) -> list[str]:
    from topoopt.analyses.resilience.report import outages_html
    from topoopt.core.outcomes import OutageRow
    from topoopt.files.atomic import csv_text, write_text_atomically

    if csv is not None:
        names = [column.name for column in fields(OutageRow)]
        write_text_atomically(csv, csv_text(names, ((getattr(row, name) for name in names) for row in study.rows)))
    if report is not None:
        write_text_atomically(report, outages_html(study, said))
    return [str(path) for path in (csv, report) if path is not None]


def _show_outages(console: Console, study: OutageStudy, written: list[str]) -> None:
    from topoopt.analyses.resilience.report import HEADINGS, row_cells
    from topoopt.page.render import TerminalTable, stacked

    table = TerminalTable(title=f"{study.copies} copies of the model on {study.servers_each} servers each", dense=True)
    for name in HEADINGS:
        table.add_column(stacked(name), justify="left" if name == "circuits" else "right")
    for row in study.rows:
        table.add_row(*row_cells(row))
    console.print(table)
    say(console, written=written)
