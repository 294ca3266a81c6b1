"""`topoopt check` and `topoopt explain`: whether a solution is right, and what limits it."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from annotated_types import Ge, Le
from rich.console import Console

from solvers.stop import Memory
from solvers.timing import LateError, step
from topoopt.analyses.costs import given_book
from topoopt.cli.solve import instance_and_solution
from topoopt.core.errors import CheckError, InputError, LimitError, Problem, raise_any, raise_rejected
from topoopt.core.job import CoOptimisation
from topoopt.core.price_book import PriceBook
from topoopt.core.proofs import StopReason
from topoopt.core.result import CheckResult, Decides, LeftOut, SolutionHead
from topoopt.files.atomic import csv_text, require_new, targets, write_targets, write_text_atomically
from topoopt.files.results import bound_document, check_document
from topoopt.kinds import KINDS, kind_named, kind_of
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.page import options
from topoopt.page.options import attended, memory_bytes, solving_bar
from topoopt.page.output import Output, say
from topoopt.page.text import claims, counted, objective_text, precise, quantity, rejection
from topoopt.verify.checker import BRIEF, CheckDepth, CheckFindings

if TYPE_CHECKING:
    from topoopt.core.workload import TrafficFigures


LIMIT_S = 60.0
"""For files of `LIMIT_BYTES` or less; of larger ones in proportion."""

LIMIT_BYTES = 2_000_000

EVENTS_PER_S = 100_000
"""Of simulations, at less than half of the speed of the checker: what would take longer is not begun."""

MEMORY_LIMIT = "2GB"

EXPLAIN_S = 60.0
"""For what is solved again to explain a solution."""

GRACE_S = 5.0
"""For the checker to return what it has found once the limit has come."""


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[INSTANCE] SOLUTION",
            help="Instance file, and solution.json of `topoopt solve`; a solution that carries its instance alone.",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Leave out simulations, and say so.")] = False,
    time_limit: options.TimeLimit = None,
    memory_limit: options.MemoryLimit = None,
    prices: options.Prices = None,
    as_json: options.Json = False,
) -> None:
    """Check a solution with code that shares nothing with what made it.

    Exit code 6 if anything is wrong; 8 if nothing is, but the value or its bound rests on what was not recomputed.
    Limits unless given: 60 s, in proportion for a solution larger than 2 MB; 2 GB of memory.
    """
    output = Output.choose(as_json)

    def command() -> int:
        instance_and_solution(files)
        limits = _Limits(files[-1], time_limit, memory_bytes(memory_limit or MEMORY_LIMIT))
        problem, stored = limits.reading(files)
        book = given_book(prices, [kind_of(problem)])
        with solving_bar(output) as tell:
            findings = limits.checking(problem, stored, limits.depth(quick, book, tell))
        checked = stored.judged(findings.violations, findings.not_recomputed)
        claimed = checked.claimed_bound
        document = {
            "ok": findings.ok,
            "holds": findings.holds,
            "status": checked.status.value,
            "violations": [{"code": violation.code, "message": violation.message} for violation in findings.violations],
            "not_recomputed": [
                {"figure": figure.figure, "reason": figure.reason, "decides": figure.decides.value}
                for figure in findings.not_recomputed
            ],
            "instance": "in the solution" if len(files) == 1 else str(files[0]),
            "instance_name": problem.name,
            "instance_sha256": problem.sha256,
            "bound": bound_document(checked.bound),
            "claimed_bound": None if claimed is None else bound_document(claimed),
        }
        whose = _whose(problem, alone=len(files) == 1)
        output.result(document, lambda console: _show(console, checked, findings), f"{answer(checked)} {whose}")
        return output.exit_code(checked.check, stored.stopped_by, searched=False)

    output.run(command)


class _Limits:
    """What a check may take, in time from its start and in memory."""

    def __init__(self, solution: Path, seconds: float | None, memory: int | None) -> None:
        try:
            size = solution.stat().st_size
        except OSError:  # said by the reader
            size = 0
        usual = LIMIT_S * max(1.0, size / LIMIT_BYTES)
        self.seconds = usual if seconds is None else seconds
        self._memory, self._bytes, began = Memory(memory), memory, time.monotonic()
        self._read_by_s, self._end_s = began + max(usual, self.seconds), began + self.seconds

    def depth(self, quick: bool, book: PriceBook | None, tell: Any) -> CheckDepth:
        """How far a check goes that is to end within the limits."""
        events = 0 if quick else int(EVENTS_PER_S * self.seconds)
        return CheckDepth(
            events, book, tell, CheckDepth.memory_bytes if self._bytes is None else int(0.75 * self._bytes)
        )

    def _late(self, end_s: float) -> bool:
        return self._memory.look() or time.monotonic() >= end_s

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, MemoryError) or self._memory.exceeded.is_set():
            return "it takes more memory than the check may"
        return f"the time limit of {self.seconds:g} s came"

    def reading(self, files: list[Path]) -> tuple[Any, SolutionHead]:
        """What is read, in the memory there is and the time that files of this size are given, however small the limit.

        Raises:
            InputError: what is wrong with it.
            LimitError: it takes longer, or more memory.
        """
        try:
            with self._memory.refused():
                return step(lambda: _read(*files), partial(self._late, self._read_by_s))
        except (LateError, MemoryError) as error:
            raise LimitError(f"{files[-1]}: not read: {self._reason(error)}") from None

    def checking(self, problem: Any, solution: SolutionHead, depth: CheckDepth) -> CheckFindings:
        """What the checker finds within the limits; what there was no time or memory for is left out."""
        from topoopt.kinds.files import check_whole

        try:
            with self._memory.refused():
                return step(lambda: check_whole(problem, solution, depth), partial(self._late, self._end_s), GRACE_S)
        except (LateError, MemoryError) as error:
            return CheckFindings((), (LeftOut("all figures", self._reason(error), Decides.BOTH),))


def _read(first: Path, second: Path | None = None) -> tuple[Any, SolutionHead]:
    """The problem and its solution, of two files or of one.

    Raises:
        InputError: what is wrong with them; a solution without an instance in it.
    """
    from topoopt.kinds.files import embedded_problem, read_instance, read_solution

    if second is None:
        alone: SolutionHead = read_solution(first)
        return embedded_problem(alone, first), alone
    problem = read_instance(first)
    return problem, kind_of(problem).files.solutions.read(second)


def _show(console: Console, checked: SolutionHead, findings: CheckFindings) -> None:
    say(console, *(f"{violation.code}: {violation.message}" for violation in findings.violations))
    say(console, *(f"not recomputed: {figure.figure}: {figure.reason}" for figure in findings.not_recomputed))
    failed = f"check FAILED: {counted(len(findings.violations), 'violation')}"
    console.print(f"check {checked.check.outcome}" if findings.ok else failed)


def _whose(problem: Any, *, alone: bool) -> str:
    """For which instance the verdict is, and who gave it."""
    named = f"the instance {problem.name!r} (SHA-256 {problem.sha256})"
    if alone:
        return f"This is for {named} that stands in the solution itself; no instance was given from outside."
    return f"This is for {named} that was given."


def answer(checked: SolutionHead) -> str:
    """Whether the solution holds, and what was shown, for somebody who sees the file for the first time."""
    check = checked.check
    if not check.ok:
        return rejection(check)
    objective, claimed = checked.objective, checked.claimed_bound
    figure = f"{objective_text(objective.name)} {quantity(objective.value, objective.unit)}"
    said = _value_said(check, figure)
    reported_bound, verified = checked.bound, checked.bound.verified
    how = f"is derived again ({reported_bound.proved_by})" if verified else "is only claimed"
    bound = f"bound {precise(reported_bound.value)} {how}"
    if claimed is not None:
        bound += f", bound {precise(claimed.value)} is only claimed"
    return f"{said}; {bound}. {claims(check)}".rstrip()


def _value_said(check: CheckResult, figure: str) -> str:
    """What is known of the value."""
    if any(claim.decides in (Decides.VALUE, Decides.BOTH) for claim in check.claimed):
        return f"Nothing wrong was found, but {figure} is only claimed: it was not recomputed"
    but = " but for what is listed as not recomputed" if check.not_recomputed and check.holds else ""
    holds = "The solution holds" if check.holds else "The value holds"
    return f"{holds}: {figure} follows from what is in the file{but}"


EXPLAIN_SETTINGS = {
    "more": Annotated[float, Ge(0.001), Le(1e6)],
    "checks": Annotated[int, Ge(0), Le(1000)],
}


def explain(
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`.")],
    time_limit: options.TimeLimit = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Say what limits a solution, and what more links or capacity would gain.

    Of a job also how long its AllReduces take alone: on its rings, by the best schedule on its links, and on an optical
    switch set anew between steps. Exit code 4 if a limit left something open; 8 if the value or its bound is only
    claimed. What is solved again has 60 s unless --time-limit says otherwise.

    Settings: `more`, the capacity to add, in links (100 Gbit/s where the rate is known, else one link); `checks`,
    positions of one more link that are solved again (8).
    """
    output = Output.choose(as_json)

    def command() -> int:
        given = options.typed_settings(options.settings_of(settings, EXPLAIN_SETTINGS), EXPLAIN_SETTINGS)
        added = Fraction(given["more"]).limit_denominator(1000) if "more" in given else None
        with attended(output, EXPLAIN_S if time_limit is None else time_limit) as run:
            run.doing = "what more would gain"
            question = Question(added, given.get("checks", 8), run.timing.stop)
            solved, explanation = run.patient(lambda: _explained(solution, question))
            if solved.kind == "co-optimisation" and solved.instance is not None:
                from topoopt.analyses.collective.job_schedules import explain_collectives
                from topoopt.kinds.files import embedded_problem

                own, problem = explanation, embedded_problem(solved, solution)
                explanation = run.patient(lambda: explain_collectives(own, problem, solved, run.timing.stop))
            stopped_by = StopReason.TIME if explanation.late else StopReason.CONVERGED
            if run.timing.stop.interrupted.is_set():
                stopped_by = StopReason.INTERRUPTED
        words = (*explanation.words, *filter(None, [claims(solved.check)]))
        document = {
            "kind": solved.kind,
            "name": solved.name,
            **explanation.figures,
            "words": list(words),
            "check": check_document(solved.check),
            "notes": list(explanation.notes),
            "seed": solved.seed,
            "versions": dict(solved.versions),
            "instance_sha256": solved.instance_sha256,
            "stopped_by": stopped_by.value,
            "solution": str(solution),
            "wall_s": round(time.monotonic() - run.began.at_s, 3),
        }

        def show(console: Console) -> None:
            say(console, *words)

        output.result(document, show)
        return output.exit_code(solved.check, stopped_by)

    output.run(command)


def _explained(path: Path, question: Question) -> tuple[Any, Explanation]:
    """The solution in a file with the verdict of a brief check, and what limits it.

    Raises:
        InputError: no solution of a kind that is explained.
        CheckError: it does not hold.
    """
    from topoopt.kinds.files import read_solution

    solved = read_solution(path)
    kind = kind_of(solved)
    if kind.explain is None:
        able = ", ".join(name for name in KINDS if kind_named(name).explain is not None)
        text = "solutions of this kind are not explained; their report says what limits them"
        raise InputError([Problem(text, str(path), None, "kind", kind.name, able)])
    solved = _checked(solved, path)
    return solved, kind.explain()(solved, question)


def _checked(solved: SolutionHead, path: Path) -> SolutionHead:
    """The solution as far as it holds for the instance that it carries; nothing of it does without one.

    Raises:
        InputError: the instance in it cannot be read.
        CheckError: it does not hold.
    """
    from topoopt.kinds.files import check_whole, embedded_problem

    if solved.instance is None:
        why = "the solution carries no instance, and none was given"
        return solved.judged((), (LeftOut("all figures", why, Decides.BOTH),))
    findings = check_whole(embedded_problem(solved, path), solved, BRIEF)
    raise_rejected(findings.violations)
    return solved.judged((), findings.not_recomputed)


SEARCHED = "searched"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
SETTINGS = {"selection": str, "strategy": str, "budget": Annotated[int, Ge(0), Le(10**12)], "pairs": bool}


def report(
    file: Annotated[
        Path,
        typer.Argument(metavar="SOLUTION|INSTANCE", help="solution.json of `topoopt solve`; a job, to be started."),
    ],
    settings: options.Settings = None,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write the self-contained HTML report of a solution; exit code 6 if a brief check rejects the plan.

    --output writes the page (.html, default report.html beside SOLUTION); of a job whose AllReduces run on rings the
    distributions of its traffic (.csv) and their picture (.svg) as well.

    Of an instance of a job: bandwidth tax, path lengths of the model-parallel bytes, and load of the links of its
    starting plan, data parallelism on TotientPerms rings, the setting of the figures of the TopoOpt paper. Settings:
    `selection` of the ring distances (paper, flexnet, best); `strategy`: what cannot be split on one server each
    (placed), all weights on every server (replicated), or the instance is solved first (searched, with `budget`
    proposals); `pairs`, with --json the bytes of every pair of servers.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import problem_and_solution

        page, table, plot = targets(output_files, force, (".html",), (".csv",), (".svg",))
        given = options.typed_settings(options.settings_of(settings, SETTINGS), SETTINGS)
        problem, solution = problem_and_solution(file)
        if solution is None:
            return _report_traffic(output, problem, file, given, page, table, plot)
        if given or table or plot:
            return _report_traffic(output, solution, file, given, page, table, plot)
        if not output_files:
            page = require_new(file.with_name("report.html"), force)
        assert page is not None
        write_text_atomically(page, kind_of(solution).pages().report(solution))
        output.result({"report": str(page)}, lambda console: say(console, written=[page]))
        return 0

    output.run(command)


def _report_traffic(
    output: Output,
    source: Any,
    file: Path,
    given: dict[str, Any],
    page: Path | None,
    table: Path | None,
    plot: Path | None,
) -> int:
    """The traffic of a job's plan, or of its starting plan; its files and figures."""
    from topoopt.analyses.traffic import answer, traffic_html, traffic_svg

    pairs = given.pop("pairs", False)
    figures = _figures(source, file, **given)
    if page is not None:
        solved = not isinstance(source, CoOptimisation)
        write_text_atomically(page, kind_of(source).pages().report(source) if solved else traffic_html(figures))
    written = write_targets(
        table, plot, text=lambda: _table(figures), svg=lambda: traffic_svg(figures), html=lambda: traffic_html(figures)
    )
    document = _document(figures) | (_pairs(figures) if pairs else {}) | written
    document["report"] = None if page is None else str(page)
    output.result(document, lambda console: _show_traffic(console, document, (page, table, plot)), answer(figures))
    return 0


def _figures(
    source: Any, file: Path, selection: str | None = None, strategy: str | None = None, budget: int | None = None
) -> TrafficFigures:
    from topoopt.analyses.traffic import PLACED, STARTS, plan_traffic, starting_traffic

    if source.kind != KIND:
        text = "only jobs have this traffic"
        raise InputError([Problem(text, file=str(file), path="kind", value=source.kind, allowed=KIND)])
    if not isinstance(source, CoOptimisation):
        _refuse("a solution has its topology", "an instance", selection=selection)
        _refuse("a solution has its strategy", "an instance", strategy=strategy, budget=budget)
        return plan_traffic(source)
    if strategy == SEARCHED:
        _refuse("the plan found has its topology", f"without strategy={SEARCHED}", selection=selection)
        return plan_traffic(_solved(source, budget))
    _refuse("nothing is searched", f"with strategy={SEARCHED}", budget=budget)
    if strategy not in (None, *STARTS):
        _refuse("no such strategy", ", ".join((*STARTS, SEARCHED)), strategy=strategy)
    return starting_traffic(source, selection or "paper", strategy or PLACED)


def _refuse(why: str, allowed: str, **settings: str | int | None) -> None:
    """Refuse settings that say nothing here."""
    problems = [
        Problem(why, path=f"--set {name}", value=str(value), allowed=allowed)
        for name, value in settings.items()
        if value is not None
    ]
    raise_any(problems)


KIND = "co-optimisation"


def _solved(instance: Any, budget: int | None) -> Any:
    """The plan found for an instance, checked."""
    from topoopt.kinds.kind import SolveOptions
    from topoopt.kinds.pipeline import solve

    solved = solve(instance, SolveOptions(budget=budget, objective_only=True))
    if solved.check.violations:
        raise CheckError("the checker rejects the plan:\n" + "\n".join(map(str, solved.check.violations)))
    return solved


def _cumulative(shares: Any) -> list[dict[str, float]]:
    rows, upto = [], 0.0
    for hops, share in enumerate(shares.tolist()):
        upto += share
        if hops:
            rows.append({"hops": hops, "share": share, "cumulative": min(upto, 1.0)})
    return rows


def _document(figures: TrafficFigures) -> dict[str, Any]:
    import numpy as np

    loads = np.sort(figures.link_bytes)
    links: dict[str, Any] = {"links": len(loads)}
    if len(loads):
        mean, most = float(loads.mean()), float(loads[-1])
        links |= {"mean": mean, "max": most, "max_over_mean": most / mean if mean > 0 else None}
        # Nearest rank: a load that some link has.
        links |= {f"p{100 * part:g}": float(loads[math.ceil(part * len(loads)) - 1]) for part in QUANTILES}
    return {
        "kind": "topology-traffic",
        "name": figures.name,
        "plan": figures.plan,
        "servers": figures.servers,
        "degree": figures.degree,
        "bandwidth_tax": figures.bandwidth_tax,
        "demand_bytes": {"allreduce": figures.allreduce_bytes, "model_parallel": figures.model_parallel_bytes},
        "carried_bytes": float(figures.link_bytes.sum()),
        "model_parallel_to_allreduce": figures.model_parallel_to_allreduce,
        "mean_byte_hops": figures.mean_byte_hops,
        "largest_pair_bytes": float(figures.pair_bytes.max(initial=0.0)),
        "byte_hops": _cumulative(figures.byte_hops),
        "pair_hops": _cumulative(figures.pair_hops),
        "link_bytes": links,
    }


def _pairs(figures: TrafficFigures) -> dict[str, Any]:
    """Bytes by sender and receiver, pairs that exchange nothing left out."""
    sent = figures.pair_bytes
    rows = {str(i): {str(j): float(sent[i, j]) for j in sent[i].nonzero()[0].tolist()} for i in range(len(sent))}
    return {"pair_bytes": {server: row for server, row in rows.items() if row}}


def _table(figures: TrafficFigures) -> str:
    """Long form: which distribution, value, part of the whole up to it."""
    import numpy as np

    rows: list[tuple[str, float, float]] = [
        (name, row["hops"], row["cumulative"])
        for name, shares in (("byte_hops", figures.byte_hops), ("pair_hops", figures.pair_hops))
        for row in _cumulative(shares)
    ]
    loads = np.sort(figures.link_bytes).tolist()
    rows += [("link_bytes", load, (rank + 1) / len(loads)) for rank, load in enumerate(loads)]
    return csv_text(("distribution", "value", "cumulative"), rows)


def _show_traffic(console: Console, document: dict[str, Any], files: tuple[Path | None, ...]) -> None:
    from topoopt.page.text import byte_size

    line = partial(say, console)

    demand, links, share = document["demand_bytes"], document["link_bytes"], document["model_parallel_to_allreduce"]
    line(f"{document['name']}: {document['plan']}, {document['servers']} servers, degree {document['degree']}")
    against = "" if share is None else f" ({share:.3f} of it)"
    line(
        f"demand: AllReduce {byte_size(demand['allreduce'])}, model-parallel "
        f"{byte_size(demand['model_parallel'])}{against}"
    )
    line(f"most from one server to another: {byte_size(document['largest_pair_bytes'])}")
    line(f"bandwidth tax: {document['bandwidth_tax']:.3f} ({byte_size(document['carried_bytes'])} carried)")
    if document["byte_hops"]:
        text = "  ".join(f"{row['hops']}: {row['cumulative']:.4f}" for row in document["byte_hops"])
        line(f"model-parallel bytes in so many hops or fewer: {text}; mean {document['mean_byte_hops']:.3f}")
    text = "  ".join(f"{row['hops']}: {row['cumulative']:.4f}" for row in document["pair_hops"])
    line(f"pairs of servers in so many hops or fewer: {text or 'none has a route'}")
    if links["links"]:
        over = "" if links["max_over_mean"] is None else f" ({links['max_over_mean']:.3f} of the mean)"
        middle = ", ".join(f"p{100 * part:g} {byte_size(links[f'p{100 * part:g}'])}" for part in QUANTILES)
        line(f"bytes of a link: mean {byte_size(links['mean'])}, {middle}, max {byte_size(links['max'])}{over}")
    say(console, written=files)
